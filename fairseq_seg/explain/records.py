"""Records of a translated sentence: its pairs, and where each symbol and word came from. No torch here."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from fairseq_seg.corpus.subwords import Spelling


@dataclass
class Slot:
    """The place in the memory that contributed most to a symbol or word."""

    pair: int  # which of the explanation's pairs, from 0
    position: int  # of the symbol in the pair's target_symbols, or of the word in its target_words, from 0
    weight: float  # q_t of the slot; for a word, the mean q_t of its symbols on this word
    source: str | None = None  # of a word: the word of the pair's source that it translates, by the model's attention


@dataclass
class Token:
    """A symbol of the translation, or a word: probabilities are products over its symbols, the rest are means."""

    text: str
    gate: float  # zeta_t, 0 where the sentence has no retrieved pair
    copied: float  # zeta_t p_copy, the probability mass that came from the memory
    share: float  # copied / probability: 1 if only the memory offered it, 0 if only the generator did
    probability: float  # p of Eq. 6
    p_copy: float | None  # None where nothing can be copied: no retrieved pair, or deep fusion
    p_gen: float
    slot: Slot | None  # the slot with the most weight that holds this symbol, None without any

    @property
    def copied_from(self) -> Slot | None:
        """Where the token was copied from, if it was copied rather than generated."""
        return self.slot if self.share > 0.5 else None


@dataclass
class RetrievedPair:
    """A pair of the sentence's memory."""

    id: int  # in its memory; in the training set, its row
    origin: str  # the memory (or train) and the pair's id there, then the file and unit it was imported from
    score: float  # the fuzzy score (Eq. 3), less its memory's penalty
    source: str
    target: str
    target_symbols: list[str]
    target_words: list[str]


@dataclass
class Baseline:
    """A translation to compare with."""

    system: str  # the display name of the system
    translation: str


@dataclass
class Explanation:
    """A translated sentence with the provenance of each symbol (eos last) and of each word."""

    source: str
    translation: str
    fusion: str  # "deep" mixes states and copies nothing
    pairs: list[RetrievedPair]
    symbols: list[Token]
    words: list[Token]
    exact: bool = False  # the translation is the target of an exact match, verbatim (--memory-exact copy)
    baseline: Baseline | None = None
    reference: str | None = None

    @property
    def note(self) -> str:
        """What a reader should know about the whole sentence, if anything."""
        if self.exact:
            return "An exact match: A is its target, verbatim. The figures are those of the model for this target."
        if not self.pairs:
            return "No pair was retrieved: every word is generated."
        return (
            "Deep fusion copies nothing: the gate is the weight of the memory's state." if self.fusion == "deep" else ""
        )

    def copies(self, rank: int) -> dict[int, list[int]]:
        """Return, for each word of a pair's target that was copied, which words of the translation copy it."""
        copies = defaultdict(list)
        for index, word in enumerate(self.words):
            if word.copied_from is not None and word.copied_from.pair == rank:
                copies[word.copied_from.position].append(index)
        return copies

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Explanation:
        """Restore an explanation from what `dataclasses.asdict` returned."""
        pairs = [RetrievedPair(**pair) for pair in values["pairs"]]
        tokens = {
            name: [
                Token(**token | {"slot": Slot(**token["slot"]) if token["slot"] else None}) for token in values[name]
            ]
            for name in ("symbols", "words")
        }
        baseline = Baseline(**values["baseline"]) if values["baseline"] else None
        return cls(**values | tokens | {"pairs": pairs, "baseline": baseline})


def merge_words(symbols: list[Token], pairs: list[RetrievedPair], spelling: Spelling) -> list[Token]:
    """Derive the provenance of words from their symbols (without eos)."""
    word_of = [
        {position: index for index, (_, word) in enumerate(spelling.words(pair.target_symbols)) for position in word}
        for pair in pairs
    ]
    words = []
    for text, positions in spelling.words([symbol.text for symbol in symbols]):
        parts = [symbols[position] for position in positions]
        votes: dict[tuple[int, int], float] = defaultdict(float)
        for slot in (part.slot for part in parts):
            if slot is not None and slot.position in word_of[slot.pair]:  # eos is not part of a word
                votes[slot.pair, word_of[slot.pair][slot.position]] += slot.weight / len(parts)
        best = max(votes, key=votes.__getitem__, default=None)

        def mean(name: str, parts: list[Token] = parts) -> float:
            return sum(getattr(part, name) for part in parts) / len(parts)

        copies = [part.p_copy for part in parts if part.p_copy is not None]  # empty if nothing can be copied
        words.append(
            Token(
                text=text,
                gate=mean("gate"),
                copied=mean("copied"),
                share=mean("share"),
                probability=math.prod(part.probability for part in parts),
                p_copy=math.prod(copies) if copies else None,
                p_gen=math.prod(part.p_gen for part in parts),
                slot=None if best is None else Slot(*best, votes[best]),
            )
        )
    return words
