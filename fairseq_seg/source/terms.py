"""Terms as short pairs: those found in a sentence are offered to the memory beside its retrieved pairs.

They are neither counted in K nor held to the minimum score, and stand behind the retrieved pairs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from copy import copy
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.pairs import PairTable, RankedPairs, Row
from fairseq_seg.corpus.subwords import Cut, SubwordModel, SymbolEncoder, check_protection
from fairseq_seg.corpus.terms import Term, Terms
from fairseq_seg.errors import SegError
from fairseq_seg.source.memories import Match, as_table
from fairseq_seg.source.pair_source import PairSource, Sentences, as_sequences

logger = logging.getLogger(__name__)

NAME = "terms"  # in a pair's origin


class TermCutter:
    """Cuts terms into the symbols of a data-bin.

    Args:
        subwords: the sentencepiece models of source and target, or one for both; none: those of a model folder.
    """

    def __init__(self, data: DataBin, subwords: str):
        paths: tuple[Path, ...] = tuple(Path(name) for name in subwords.split(",") if name)
        if not paths and (folder := ModelFolder.find(data.folder)) is not None:
            paths = folder.subword_paths or ()
        if not paths and any(spelling.kind != "none" for spelling in data.spellings):
            raise SegError(
                "--terms needs the subword models of the model's texts: use a model folder that has them (seg-model), "
                "or name them with --terms-subwords SOURCE.model,TARGET.model."
            )
        self._models = [SubwordModel(paths[min(side, len(paths) - 1)]) for side in (0, 1)] if paths else None
        both = self._models or (None, None)
        self.encoders = [SymbolEncoder(*pair) for pair in zip(data.dictionaries, both, strict=True)]
        if any(encoder.known_share() < 0.5 for encoder in self.encoders):
            raise SegError(f"--terms-subwords {subwords} are not the subword models of {data.folder}: give those.")
        for symbols, model in zip(data.dictionaries, both, strict=True):
            if model is not None:
                check_protection(symbols, model, f"The dictionary of {data.folder}")

    def match(self, term: Term, known: bool = True) -> Match | None:
        """Return a term as a pair; None if its target has unknown symbols, which cannot be copied (`known`)."""
        cuts = [Cut(text.split(), []) for text in term[:2]]
        if self._models is not None:
            of_source, of_target = self._models
            cuts = [of_source.cut_source(term.source)]
            cuts.append(of_target.cut_target(term.target, term.source, of_source.protection))
        source, target = (encoder.ids(cut.symbols) for encoder, cut in zip(self.encoders, cuts, strict=True))
        if not len(source) or not len(target) or (known and UNKNOWN in target):
            return None
        texts, values = (term.source, term.target), (cuts[0].values, cuts[1].values)
        return Match(1.0, term.line, source, target, f"{NAME}:{term.line}", texts, values)


class WithTerms:
    """Another source's pairs, and the terms of each sentence."""

    def __init__(self, source: PairSource, terms: Terms, data: DataBin, cutter: TermCutter):
        self.signature = f"{source.signature}|{NAME}:{len(terms)}"
        self._source, self._terms, self._data = source, terms, data
        self._matches = {term: match for term in terms.terms if (match := cutter.match(term)) is not None}
        if lost := len(terms) - len(self._matches):
            logger.warning("%d terms have letters that the model's dictionary lacks, and are left out", lost)

    def within(self, names: Collection[str]) -> WithTerms:
        """Return the same with the pairs of some memories only, see `Live.within`."""
        from fairseq_seg.source.live import Live

        assert isinstance(self._source, Live), "nothing else can leave memories out"
        part = copy(self)
        part._source = self._source.within(names)
        return part

    def retrieve(
        self, sentences: Sentences, first: int = 0, given: Sequence[Match | None] | None = None
    ) -> RankedPairs:
        """Return the pairs of sentences; the table holds these pairs alone. Pairs that are `given` go to the search."""
        queries = as_sequences(sentences)
        found = self._source.retrieve(queries, first) if given is None else self._search(queries, first, given)
        assert found.table is not None
        spelling = self._data.spellings[0]
        pairs: list[Match] = []
        numbers: dict[int | Term, int] = {}
        rows: list[Row] = []
        for number, (ids, scores, covering) in enumerate(found):
            text = spelling.text(queries[number], queries.values_of(number))
            terms = [term for term in self._terms.find(text) if term in self._matches]
            for key in (*ids.tolist(), *terms):
                if key not in numbers:
                    numbers[key] = len(pairs)
                    pairs.append(pair_match(found.table, key) if isinstance(key, int) else self._matches[key])
            own = np.array([numbers[key] for key in (*ids.tolist(), *terms)], dtype=np.int64)
            ones = np.ones(len(terms))
            rows.append((own, np.concatenate([scores, ones]), np.concatenate([covering, ones.astype(bool)])))
        return RankedPairs.from_rows(rows, as_table(pairs, self._data))

    def _search(self, queries: Sentences, first: int, given: Sequence[Match | None]) -> RankedPairs:
        from fairseq_seg.source.live import Live

        assert isinstance(self._source, Live)
        return self._source.retrieve(queries, first, given)

    def close(self) -> None:
        """Close the other source."""
        self._source.close()


def with_terms(source: PairSource, data: DataBin, path: str, subwords: str) -> PairSource:
    """Return a source that also offers the terms of a file, if there is one."""
    return WithTerms(source, Terms.read(path), data, TermCutter(data, subwords)) if path else source


def pair_match(table: PairTable, pair: int) -> Match:
    """Return a pair of a table on its own."""
    source, target = (side[pair].astype(np.int32) for side in (table.source, table.target))
    texts = None if table.texts is None else table.texts[pair]
    return Match(0.0, table.id(pair), source, target, table.origin(pair), texts, table.values(pair))
