"""Provenance of a translation: which retrieved pair and slot each symbol and word came from.

One teacher-forced pass over the finished translation is enough: at every step the gate zeta_t, the weights q_t of the
slots and both distributions of Eq. 6 are the same as when the search chose the symbol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from fairseq import utils
from torch import Tensor

from fairseq_seg.corpus.reserved import parse
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.data.seg_dataset import SegDataset
from fairseq_seg.data.valued_dictionary import plain_tokens, split_values
from fairseq_seg.explain.records import Explanation, RetrievedPair, Slot, Token, merge_words
from fairseq_seg.modules.fusion import target_log_prob

if TYPE_CHECKING:
    from fairseq_seg.data.example_pairs import ExamplePairs
    from fairseq_seg.models.seg_gru import SegGRUModel


def explain(model: SegGRUModel, dataset: SegDataset, translations: list[Tensor]) -> list[Explanation]:
    """Explain the translations (token ids with eos) of all sentences of a dataset, in one batch."""
    plain = [plain_tokens(dataset.tgt_dict, target) for target in translations]
    examples = [{**dataset[index], "target": target} for index, target in enumerate(plain)]
    batch = dataset.collater(examples)
    device = next(model.parameters()).device
    batch = utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
    batch["net_input"]["src_tokens"] = plain_tokens(dataset.src_dict, batch["net_input"]["src_tokens"])
    traced = dict(zip(batch["id"].tolist(), trace(model, batch["net_input"], batch["target"]), strict=True))
    source, target = Spelling(dataset.src_dict.symbols), Spelling(dataset.tgt_dict.symbols)
    attended = attended_sources(model, batch)
    explanations = []
    for index, example in enumerate(examples):
        pairs = [] if dataset.retrieved is None else retrieved_pairs(dataset.retrieved, index, target)
        for symbol, id in zip(traced[index], translations[index].tolist(), strict=True):
            symbol.text = dataset.tgt_dict[id]  # with the value of a reserved symbol
        words = merge_words(traced[index][:-1], pairs, target)
        # A word with a protected token has the sentence's own, whatever the pair's source has in its place.
        spelled = target.words([symbol.text for symbol in traced[index][:-1]])
        protected = [any(parse(target.symbols[int(plain[index][place])]) for place in places) for _, places in spelled]
        for slot in (word.slot for word, given in zip(words, protected, strict=True) if not given):
            if slot is not None and dataset.retrieved is not None and (index, slot.pair) in attended:
                side, pair = dataset.retrieved.table.source, dataset.retrieved.row(index)[slot.pair]
                symbols = source.read(side[pair], side.values_of(pair))
                _, steps = target.words(pairs[slot.pair].target_symbols)[slot.position]
                slot.source = most_attended(attended[index, slot.pair][steps], source, symbols)
        explanations.append(
            Explanation(
                source=source.text(*split_values(dataset.src_dict, example["source"].tolist())),
                translation=" ".join(word.text for word in words),
                fusion=model.decoder.fusion,
                pairs=pairs,
                symbols=traced[index],
                words=words,
            )
        )
    return explanations


def attended_sources(model: SegGRUModel, batch: dict) -> dict[tuple[int, int], Tensor]:
    """Return the attention over X' of each step of Y', (T', S'), for each sentence and rank; none without a pass."""
    pairs = batch["net_input"].get("pairs")
    if pairs is None:
        return {}
    with torch.no_grad():
        passed = model.guided.run_pairs(pairs)
    if passed is None:  # keys that look at the retrieved target alone
        return {}
    rows = torch.div(pairs["slots"], pairs["tokens"].size(1), rounding_mode="floor").tolist()
    attention = passed.attention.float().cpu()
    return {
        (sentence, rank): attention[row]
        for sentence, ranks, pair_rows in zip(batch["id"].tolist(), pairs["ranks"].tolist(), rows, strict=True)
        for rank, row in zip(ranks, pair_rows, strict=True)
        if row >= 0
    }


def most_attended(attention: Tensor, spelling: Spelling, symbols: list[str]) -> str | None:
    """Return the word of a source that some steps look at most; attention (steps, S')."""
    weights = attention.sum(0).tolist()
    words = [(sum(weights[position] for position in places), text) for text, places in spelling.words(symbols)]
    return max(words, key=lambda word: word[0], default=(0.0, None))[1]


def retrieved_pairs(retrieved: ExamplePairs, index: int, spelling: Spelling) -> list[RetrievedPair]:
    """Return the pairs of an example, best first; `spelling` is the target's."""
    table, pairs = retrieved.table, []
    for pair, score in zip(retrieved.row(index).tolist(), retrieved.scores(index).tolist(), strict=True):
        symbols = spelling.read(table.target[pair], table.target.values_of(pair))
        words = [text for text, _ in spelling.words(symbols)]
        pairs.append(RetrievedPair(table.id(pair), table.origin(pair), score, *table.text(pair), symbols, words))
    return pairs


def trace(model: SegGRUModel, net_input: dict, target: Tensor) -> list[list[Token]]:
    """Return the provenance of every symbol of a batch, from one teacher-forced pass.

    Args:
        net_input: the model's input for B sentences, with or without `pairs`.
        target: (B, T), right-padded, eos at the end of each row.
    """
    dictionary, pairs = model.decoder.dictionary, net_input.get("pairs")
    with torch.no_grad():
        logits, extra = model(**net_input)
        log_gen = torch.log_softmax(logits.float(), dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)  # (B, T)
    read, copy = extra["read"], extra["copy"]
    nothing = torch.zeros_like(log_gen)
    gate = nothing if read is None else torch.sigmoid(read.gate)
    log_p, p_copy, weight, pair, position = log_gen, nothing, nothing, nothing, nothing
    can_copy = [False] * target.size(0)
    if copy is not None and pairs is not None:
        log_p, p_copy = target_log_prob(log_gen, copy, target)
        same = copy.symbols.unsqueeze(1) == target.unsqueeze(2)  # (B, T, S)
        weight, best = (copy.weights * same).max(dim=-1)  # (B, T)
        pair = pairs["ranks"].gather(1, best)
        position = pairs["slots"].gather(1, best) % pairs["tokens"].size(1)
        can_copy = pairs["slots"].ge(0).any(dim=1).tolist()
    copied, p = gate * p_copy, log_p.exp()
    share = (copied / p).masked_fill(p == 0, 0.0)
    tensors = (target, gate, copied, share, p, p_copy, log_gen.exp(), weight, pair, position)
    traced = []
    for copies, columns in zip(can_copy, zip(*(tensor.tolist() for tensor in tensors), strict=True), strict=True):
        tokens = []
        for symbol, zeta, mass, part, both, in_memory, generated, q, rank, place in zip(*columns, strict=True):
            if symbol != dictionary.pad():
                slot = Slot(rank, place, q) if q > 0 else None
                text, p_of_copy = dictionary.symbols[symbol], in_memory if copies else None
                tokens.append(Token(text, zeta, mass, part, both, p_of_copy, generated, slot))
        traced.append(tokens)
    return traced
