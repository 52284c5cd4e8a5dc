"""Provenance of a translation: which retrieved pair and slot each symbol, and each word, came from.

One teacher-forced pass over the finished translation tells all: at every step the gate zeta_t, the weights q_t of the
slots and both distributions of Eq. 6 are what they were when the symbol was chosen, whatever search chose it.

    found = task.live.retrieve(sentences)
    dataset = with_memory(task, sentences, found, task.live)
    translations = translate(task, generator, model, dataset)
    explanations = explain(model, dataset, translations, found, task.live)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch
from fairseq import utils
from torch import Tensor

from fairseq_seg.corpus.subwords import detect_subword
from fairseq_seg.data.seg_dataset import SegDataset
from fairseq_seg.modules.fusion import target_log_prob

if TYPE_CHECKING:
    from fairseq_seg.models.seg_gru import SegGRUModel
    from fairseq_seg.source.live import LiveRetrieval, Retrieved
    from fairseq_seg.tasks.seg_translation import SegTranslationTask


@dataclass
class Slot:
    """The place in the memory that a symbol, or a word, was most copied from."""

    pair: int  # which of the explanation's pairs, from 0
    position: int  # of the symbol in the pair's target_symbols, or of the word in its target_words, from 0
    weight: float  # q_t of the slot; of a word, its symbols' mean q_t on this word


@dataclass
class Token:
    """A symbol of the translation; or a word, whose probabilities are its symbols' products, the rest their means."""

    text: str
    gate: float  # zeta_t, 0 where the sentence has no retrieved pair
    copied: float  # zeta_t p_copy, the probability mass that came from the memory
    share: float  # copied / probability: 1 if only the memory offered it, 0 if only the generator did
    probability: float  # p of Eq. 6
    p_copy: float | None  # None where nothing can be copied: no retrieved pair, or deep fusion
    p_gen: float
    slot: Slot | None  # of the slots that hold this symbol the one with most weight; None if no slot holds it

    @property
    def copied_from(self) -> Slot | None:
        """Where the token was copied from, if it was copied rather than generated."""
        return self.slot if self.share > 0.5 else None


@dataclass
class RetrievedPair:
    """A pair of the sentence's memory."""

    id: int  # in the memory that it comes from; of the training set, its row
    origin: str  # the memory (or train) and the pair's id there, then the file and unit it was imported from
    score: float  # the fuzzy score (Eq. 3), less its memory's penalty
    source: str
    target: str
    target_symbols: list[str]
    target_words: list[str]


@dataclass
class Baseline:
    """A translation to compare with."""

    system: str  # what made it, as it is to be called
    translation: str


@dataclass
class Explanation:
    """A translated sentence with the provenance of each symbol (eos last) and of each word."""

    source: str
    translation: str
    fusion: str  # with "deep" states are mixed, and nothing is copied
    pairs: list[RetrievedPair]
    symbols: list[Token]
    words: list[Token]
    exact: bool = False  # the translation is the target of an exact match as it is (--memory-exact copy)
    baseline: Baseline | None = None
    reference: str | None = None

    def as_dict(self) -> dict:
        """Plain lists and dictionaries, for JSON."""
        return asdict(self)


class Spelling:
    """The words that symbols spell: sentencepiece's (▁ begins one), subword-nmt's (@@ goes on), or whole ones."""

    def __init__(self, dictionary):
        own = dictionary.symbols[dictionary.nspecial :]
        self.symbols = dictionary.symbols
        subword = detect_subword(own)
        self.pieces, self.parts = subword == "sentencepiece", subword == "@@"
        self.eos = dictionary.eos()

    def read(self, tokens: Sequence[int] | Tensor) -> list[str]:
        """The symbols of a sentence of ids, without eos."""
        return [self.symbols[token] for token in map(int, tokens) if token != self.eos]

    def words(self, symbols: list[str]) -> list[tuple[str, list[int]]]:
        """Each word with the positions of its symbols."""
        words: list[list[int]] = []
        for position, symbol in enumerate(symbols):
            goes_on = not symbol.startswith("▁") if self.pieces else self.parts and symbols[position - 1].endswith("@@")
            if position and goes_on:
                words[-1].append(position)
            else:
                words.append([position])
        spelled = [(self._spell([symbols[position] for position in word]), word) for word in words]
        return [(text, word) for text, word in spelled if text]  # a lone ▁ spells nothing

    def _spell(self, symbols: list[str]) -> str:
        if self.pieces:
            return "".join(symbols).replace("▁", "")
        return "".join(symbol.removesuffix("@@") for symbol in symbols) if self.parts else symbols[0]

    def text(self, tokens: Sequence[int] | Tensor) -> str:
        """A sentence of ids as people read it."""
        return " ".join(text for text, _ in self.words(self.read(tokens)))


def with_memory(
    task: SegTranslationTask,
    sentences: list[Tensor],
    found: Retrieved | None = None,
    pairs: LiveRetrieval | None = None,
) -> SegDataset:
    """The sentences (token ids with eos) with the pairs that were found for them in `pairs`, or without memory."""
    memory = None if found is None else task.pair_memory(found.starts, found.ids, pairs.source, pairs.target)
    sizes, source, target = list(map(len, sentences)), task.source_dictionary, task.target_dictionary
    return SegDataset(sentences, sizes, source, tgt_dict=target, left_pad_source=False, memory=memory)


def translate(task: SegTranslationTask, generator, model, dataset: SegDataset) -> list[Tensor]:
    """The best translation of every sentence: token ids with eos."""
    batch = _to_device(dataset.collater([dataset[index] for index in range(len(dataset))]), model)
    best = (hypotheses[0]["tokens"].cpu() for hypotheses in task.inference_step(generator, [model], batch))
    by_index = dict(zip(batch["id"].tolist(), best, strict=True))
    return [by_index[index] for index in range(len(dataset))]


def explain(
    model: SegGRUModel,
    dataset: SegDataset,
    translations: list[Tensor],
    found: Retrieved | None = None,
    retrieval: LiveRetrieval | None = None,
) -> list[Explanation]:
    """Explain the translations of a batch.

    Args:
        dataset: the sentences, made by `with_memory`.
        translations: of every sentence, token ids with eos, from `translate` or from elsewhere.
        found, retrieval: the scores of the retrieved pairs, and what tells where a pair stands, `task.live` for one.
    """
    examples = [{**dataset[index], "target": target} for index, target in enumerate(translations)]
    batch = _to_device(dataset.collater(examples), model)
    traced = dict(zip(batch["id"].tolist(), trace(model, batch["net_input"], batch["target"]), strict=True))
    source, target = Spelling(dataset.src_dict), Spelling(dataset.tgt_dict)
    explanations = []
    for index, example in enumerate(examples):
        pairs = []
        if found is not None:
            span = slice(found.starts[index], found.starts[index + 1])
            scores = dict(zip(found.ids[span].tolist(), found.scores[span].tolist(), strict=True))
            for pair in example["memory"].tolist():  # some of what was found may have been too long for the model
                symbols = target.read(dataset.memory.target[pair])
                words = [text for text, _ in target.words(symbols)]
                source_text = source.text(dataset.memory.source[pair])
                place = retrieval.id(pair), retrieval.origin(pair)
                pairs.append(RetrievedPair(*place, scores[pair], source_text, " ".join(words), symbols, words))
        words = merge_words(traced[index][:-1], pairs, target)
        explanations.append(
            Explanation(
                source=source.text(example["source"]),
                translation=" ".join(word.text for word in words),
                fusion=model.decoder.fusion,
                pairs=pairs,
                symbols=traced[index],
                words=words,
            )
        )
    return explanations


def _to_device(batch: dict, model) -> dict:
    device = next(model.parameters()).device
    return utils.apply_to_sample(lambda tensor: tensor.to(device), batch)


def trace(model: SegGRUModel, net_input: dict, target: Tensor) -> list[list[Token]]:
    """The provenance of every symbol of a batch, from one teacher-forced pass.

    Args:
        net_input: the model's input for B sentences, with or without `memory`.
        target: (B, T), right-padded, eos at the end of each row.
    """
    dictionary, memory = model.decoder.dictionary, net_input.get("memory")
    with torch.no_grad():
        logits, extra = model(**net_input)
        log_gen = torch.log_softmax(logits.float(), dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)  # (B, T)
    read, copy = extra["read"], extra["copy"]
    nothing = torch.zeros_like(log_gen)
    gate = nothing if read is None else torch.sigmoid(read.gate)
    log_p, p_copy, weight, pair, position = log_gen, nothing, nothing, nothing, nothing
    can_copy = [False] * target.size(0)
    if copy is not None:
        log_p, p_copy = target_log_prob(log_gen, copy, target)
        same = copy.symbols.unsqueeze(1) == target.unsqueeze(2)  # (B, T, S)
        weight, best = (copy.weights * same).max(dim=-1)  # (B, T)
        pair = memory["ranks"].gather(1, best)
        position = memory["slots"].gather(1, best) % memory["tokens"].size(1)
        can_copy = memory["slots"].ge(0).any(dim=1).tolist()
    columns = (target, gate, p_copy, log_p.exp(), log_gen.exp(), weight, pair, position)
    columns = [column.tolist() for column in columns]
    return [
        [
            _token(dictionary.symbols[symbol], *figures, can_copy[row])
            for symbol, *figures in zip(*(column[row] for column in columns), strict=True)
            if symbol != dictionary.pad()
        ]
        for row in range(target.size(0))
    ]


def _token(
    text: str,
    gate: float,
    p_copy: float,
    probability: float,
    p_gen: float,
    weight: float,
    pair: int,
    position: int,
    can_copy: bool,
) -> Token:
    copied = gate * p_copy
    return Token(
        text=text,
        gate=gate,
        copied=copied,
        share=copied / probability if probability else 0.0,
        probability=probability,
        p_copy=p_copy if can_copy else None,
        p_gen=p_gen,
        slot=Slot(pair, position, weight) if weight > 0 else None,
    )


def merge_words(symbols: list[Token], pairs: list[RetrievedPair], spelling: Spelling) -> list[Token]:
    """The provenance of words from that of their symbols (without eos)."""
    word_of = [
        {position: index for index, (_, word) in enumerate(spelling.words(pair.target_symbols)) for position in word}
        for pair in pairs
    ]
    words = []
    for text, positions in spelling.words([symbol.text for symbol in symbols]):
        parts = [symbols[position] for position in positions]
        votes: dict[tuple[int, int], float] = defaultdict(float)
        for slot in (part.slot for part in parts):
            if slot is not None and slot.position in word_of[slot.pair]:  # eos belongs to no word
                votes[slot.pair, word_of[slot.pair][slot.position]] += slot.weight / len(parts)
        best = max(votes, key=votes.__getitem__, default=None)

        def mean(name: str, parts: list[Token] = parts) -> float:
            return sum(getattr(part, name) for part in parts) / len(parts)

        words.append(
            Token(
                text=text,
                gate=mean("gate"),
                copied=mean("copied"),
                share=mean("share"),
                probability=math.prod(part.probability for part in parts),
                p_copy=None if parts[0].p_copy is None else math.prod(part.p_copy for part in parts),
                p_gen=math.prod(part.p_gen for part in parts),
                slot=None if best is None else Slot(*best, votes[best]),
            )
        )
    return words
