"""The GRU translator, the paper's "standard attention-based model": bidirectional encoder, conditional GRU decoder."""

from torch import Tensor, nn

from fairseq_seg.modules.cgru import Annotations, ConditionalGRU, Readout
from fairseq_seg.modules.encoder import BiGRU, padding_mask
from fairseq_seg.modules.translator import Pass, Translator


def embedding(symbols: int, size: int, pad: int) -> nn.Embedding:
    """Return a new embedding matrix, (symbols, size), zero at the padding symbol."""
    matrix = nn.Embedding(symbols, size, padding_idx=pad)
    nn.init.uniform_(matrix.weight, -0.1, 0.1)
    nn.init.zeros_(matrix.weight[pad])
    return matrix


class GRUEncoder(nn.Module):
    """Source symbols to annotations of size 2H."""

    def __init__(self, embed: nn.Embedding, units: int):
        super().__init__()
        self.embed = embed
        self.gru = BiGRU(embed.embedding_dim, units)


class GRUDecoder(nn.Module):
    """Target symbols to states of size H, and these to logits; output: the embeddings of the output layer (V, E)."""

    def __init__(
        self, embed: nn.Embedding, output: nn.Embedding, units: int, attention_size: int = 0, dropout: float = 0.0
    ):
        super().__init__()
        self.embed = embed
        self.cell = ConditionalGRU(embed.embedding_dim, 2 * units, units, attention_size or units)
        self.readout = Readout(units, embed.embedding_dim, 2 * units, dropout)
        self.output = output


class GRUTranslator(Translator):
    """The translator of these two parts."""

    encoder: GRUEncoder
    decoder: GRUDecoder
    sums_annotations = True

    def __init__(self, encoder: GRUEncoder, decoder: GRUDecoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.state_size, self.context_size = decoder.cell.units, 2 * decoder.cell.units
        self.embedding_size = decoder.embed.embedding_dim

    def encode(self, tokens: Tensor, lengths: Tensor) -> Annotations:
        states = self.encoder.gru(self.encoder.embed(tokens), lengths)
        return self.decoder.cell.annotate(states, padding_mask(lengths, tokens.size(1)))

    def embed(self, tokens: Tensor) -> Tensor:
        return self.decoder.embed(tokens)

    def run(self, previous: Tensor, annotations: Annotations) -> Pass:
        embeddings = self.embed(previous)
        states, contexts, attention = self.decoder.cell(embeddings, annotations)
        return Pass(states, contexts, attention, embeddings)

    def step(self, previous: Tensor, state: Tensor | None, annotations: Annotations) -> tuple[Tensor, Pass]:
        cell, sentences = self.decoder.cell, annotations.mask.size(0)
        if state is None:
            state = annotations.start.repeat_interleave(previous.size(0) // sentences, dim=0)
        embeddings = self.embed(previous)
        state, weights = cell.step(cell.first_input(embeddings), state, annotations, cell.plain(annotations))
        states, inputs = (x.view(sentences, -1, x.size(-1)) for x in (state, embeddings))
        return state, Pass(states, None, weights, inputs)

    def logits_from_context(self, contexts: Tensor) -> Tensor:
        return self.decoder.readout.from_context(contexts)

    def logits(self, states: Tensor, from_context: Tensor | None, inputs: Tensor | None) -> Tensor:
        return self.decoder.readout(states, inputs, from_context, self.decoder.output.weight)
