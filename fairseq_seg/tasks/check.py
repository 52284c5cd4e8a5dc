"""Check translations after the search, and ask the decoder again where something is lost or invented.

For a translation with a fault that is not weak (see `faults`): the next hypotheses of its beam; then the search with
what is missing as constraints (Post and Vilar 2018; Hu et al. 2019), in any order, through the mixture; then the
search without memory. The first that has no such fault is taken. Otherwise the best translation stays, and is flagged.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from fairseq.search import BeamSearch, LexicallyConstrainedBeamSearch
from torch import Tensor

from fairseq_seg.corpus.faults import Fault, faults
from fairseq_seg.corpus.notation import Notation, localised
from fairseq_seg.corpus.terms import Terms, is_respected

logger = logging.getLogger(__name__)

FLAG = "faults"  # of a hypothesis: the faults that are left in it
MOST_CONSTRAINTS = 60  # symbols; beyond, a search takes seconds per sentence

Beam = list[dict]
# Search again for some rows of the batch: with constraints (a list per row), or without memory.
Again = Callable[[Sequence[int], list[list[Tensor]] | None], list[Beam]]


class Texts(Protocol):
    """What the sentences of a batch say."""

    def source(self, row: int) -> str:
        """Return the text of a sentence."""
        ...

    def target(self, row: int, tokens: Tensor) -> str:
        """Return the text of a hypothesis for a sentence."""
        ...

    def encode(self, row: int, text: str) -> Tensor | None:
        """Return the target's symbols (N,) of a token of the source or its target form; None if there are none."""
        ...


class OutputCheck:
    """Checks and repairs the translations of a model, and counts what it does.

    Args:
        notations: of source and target.
        tokens: check numbers, placeholders, tags and addresses. terms: that have to be respected.
    """

    def __init__(self, notations: tuple[Notation, Notation], tokens: bool = True, terms: Terms | None = None):
        self.notations, self.tokens, self.terms = notations, tokens, terms
        self.counts: Counter[str] = Counter()

    def __call__(self, rows: Sequence[int], beams: list[Beam], texts: Texts, longest: int, again: Again) -> None:
        """Check the translations of some rows of a batch, and replace the beams of those that have a fault.

        Args:
            longest: the longest translation that the search allows for any of them.
        """
        self.counts["checked"] += len(rows)
        failing = [row for row in rows if not self._take(beams, row, beams[row], texts, "n-best")]
        constrained = {row: found for row in failing if (found := self._constraints(row, beams, texts, longest))}
        for means, asked in (("constrained search", list(constrained)), ("without memory", failing)):
            asked = [row for row in asked if row in failing]
            if asked:
                other = again(asked, [constrained[row] for row in asked] if means == "constrained search" else None)
                taken = [self._take(beams, row, beam, texts, means) for row, beam in zip(asked, other, strict=True)]
                repaired = {row for row, right in zip(asked, taken, strict=True) if right}
                failing = [row for row in failing if row not in repaired]
        self.counts["flagged"] += len(failing)
        for row in failing:
            beams[row][0][FLAG] = self.grave(row, beams[row][0], texts)

    def _take(self, beams: list[Beam], row: int, beam: Beam, texts: Texts, means: str) -> bool:
        """Put a beam in the place of a row's, its first hypothesis without a fault in front; tell if it has one."""
        for place, hypothesis in enumerate(beam):
            if not self.grave(row, hypothesis, texts):
                if place or beam is not beams[row]:
                    self.counts[means] += 1
                    beams[row] = [hypothesis, *beam[:place], *beam[place + 1 :]]
                return True
        return False

    def grave(self, row: int, hypothesis: dict, texts: Texts) -> list[Fault]:
        """Return the faults of a hypothesis that are not weak."""
        return [fault for fault in self._faults(row, hypothesis, texts) if not fault.is_weak]

    def _faults(self, row: int, hypothesis: dict, texts: Texts) -> list[Fault]:
        """Return the faults of a hypothesis."""
        source, target = texts.source(row), texts.target(row, hypothesis["tokens"])
        found = faults(source, target, *self.notations) if self.tokens else []
        if self.terms is not None:
            terms = (term for term in self.terms.find(source) if not is_respected(term, target))
            found += [Fault("lost term", term.target) for term in terms]
        return found

    def _constraints(self, row: int, beams: list[Beam], texts: Texts, longest: int) -> list[Tensor]:
        """Return the symbols of what a translation lacks; none if that is too much, or cannot be written."""
        found = self._faults(row, beams[row][0], texts)
        missing = [fault.detail for fault in found if fault.kind.startswith("lost ")]
        missing += [localised(fault.detail, *self.notations) for fault in found if fault.kind == "missing number"]
        return feasible([texts.encode(row, text) for text in missing], longest)

    def log(self) -> None:
        """Say how many translations were checked, repaired and flagged."""
        if self.counts["checked"]:
            figures = [f"{self.counts[name]} {name}" for name in ("checked", "flagged")]
            means = ("n-best", "constrained search", "without memory")
            repaired = ", ".join(f"{self.counts[name]} by {name}" for name in means).replace("by without", "without")
            logger.info("check: %s translations, repaired: %s; %s", figures[0], repaired, figures[1])


def feasible(constraints: Iterable[Tensor | None], longest: int) -> list[Tensor]:
    """Return the constraints that can be written, or none if the search might not finish them."""
    written = [symbols for symbols in constraints if symbols is not None]
    size = sum(map(len, written))
    return written if size <= MOST_CONSTRAINTS and 2 * size < longest else []


@contextmanager
def constrained_search(generator) -> Iterator[bool]:
    """Let a generator of fairseq's take constraints; yield whether it does (sampling, for example, does not)."""
    search = generator.search
    if type(search) is not BeamSearch:
        yield search.supports_constraints
        return
    generator.search = LexicallyConstrainedBeamSearch(generator.model.single_model.decoder.dictionary, "unordered")
    try:
        yield True
    finally:
        generator.search = search


def rows_of(sample: dict, rows: Sequence[int], memory: bool = True) -> dict:
    """Return some sentences of a batch that has its pairs already, with or without these."""
    tokens = sample["net_input"]["src_tokens"]
    chosen = torch.tensor(rows, device=tokens.device)
    net_input: dict = {
        name: value.index_select(0, chosen)
        for name, value in sample["net_input"].items()
        if torch.is_tensor(value) and value.size(0) == tokens.size(0)
    }
    if memory and (pairs := sample["net_input"].get("pairs")) is not None:
        net_input["pairs"] = pairs_of(pairs, rows)
    return {"net_input": net_input}


def pairs_of(pairs: dict, rows: Sequence[int]) -> dict:
    """Return the pairs of some sentences of a batch; those of others stay in it, without a slot."""
    by_sentence: dict = {}
    for name in ("slots", "ranks", "shared", "symbols", "places", "kept"):
        value = pairs.get(name)
        if torch.is_tensor(value):
            by_sentence[name] = value.index_select(0, torch.tensor(rows, device=value.device))
        elif value is not None:
            by_sentence[name] = [value[row] for row in rows]
    return {**pairs, **by_sentence}
