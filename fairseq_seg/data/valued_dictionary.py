"""A dictionary in which reserved symbols can carry their values, through all of fairseq's commands.

fairseq passes on nothing but ids between its own parts: from a typed line to the task, and from the task to the printed
translation. So an id can mean a reserved symbol with a value: ids from `FIRST` on, which no model sees. They are made
where a line is encoded or a translation is restored, and replaced by the symbol's own id before the model.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_seg.corpus.reserved import ReservedIds, split_value
from fairseq_seg.corpus.subwords import Spelling, shown

FIRST = 1 << 24  # far above the symbols of any dictionary, with those that fairseq-generate adds for its score
PLACES = 1 << 20  # values at a time; the least recently used make room


class ValuedDictionary(Dictionary):
    """A dictionary with reserved symbols, which can carry values."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._places: OrderedDict[str, int] = OrderedDict()
        self._values: list[str] = []

    @cached_property
    def reserved(self) -> ReservedIds:
        """The reserved symbols."""
        found = ReservedIds.of(self.symbols)
        assert found is not None
        return found

    @cached_property
    def spelling(self) -> Spelling:
        """The spelling of the symbols."""
        return Spelling(self.symbols)

    def valued(self, id: int, value: str) -> int:
        """Return an id that stands for a reserved symbol with its value."""
        place = self._places.pop(value, None)
        if place is None:
            if len(self._values) < PLACES:
                place = len(self._values)
                self._values.append(value)
            else:
                _, place = self._places.popitem(last=False)
                self._values[place] = value
        self._places[value] = place
        return FIRST + place * len(self.reserved.ids) + int(np.searchsorted(self.reserved.ids, id))

    def with_values(self, ids: np.ndarray, values: Sequence[str]) -> np.ndarray:
        """Give the reserved symbols of a sentence (T,) their values, in order; -> (T,)."""
        places = np.flatnonzero(self.reserved.is_reserved[ids])
        found = np.asarray(ids, dtype=np.int64).copy()
        found[places] = [self.valued(found[place], value) for place, value in zip(places, values, strict=False)]
        return found

    def split(self, ids: Iterable[int]) -> tuple[list[int], list[str]]:
        """Return a sentence as the model sees it, and the values of its reserved symbols."""
        plain, values = [], []
        for id in ids:
            if id >= FIRST:
                place, number = divmod(id - FIRST, len(self.reserved.ids))
                values.append(self._values[place])
                id = int(self.reserved.ids[number])
            plain.append(id)
        return plain, values

    def plain(self, tokens: Tensor) -> Tensor:
        """Return tokens of any shape as the model sees them, on their device."""
        ids = torch.as_tensor(self.reserved.ids, device=tokens.device)
        return torch.where(tokens < FIRST, tokens, ids[(tokens - FIRST).clamp(min=0) % len(ids)])

    def __getitem__(self, idx):
        if not FIRST <= idx < FIRST + len(self._values) * len(self.reserved.ids):
            return super().__getitem__(idx)  # fairseq's hub also asks the target's dictionary for source symbols
        [id], [value] = self.split([int(idx)])
        return shown(value, bool(self.reserved.begins[id]))

    def index(self, sym: str) -> int:
        """Return the id of a symbol, or of a reserved symbol with its value as `with_value` writes it."""
        found = None if sym in self.indices else split_value(sym)
        if found is None or found[0] not in self.indices:
            return super().index(sym)
        return self.valued(self.indices[found[0]], found[1])


def plain_tokens(dictionary: Dictionary, tokens: Tensor) -> Tensor:
    """Return tokens as the model sees them."""
    return dictionary.plain(tokens) if isinstance(dictionary, ValuedDictionary) else tokens


def split_values(dictionary: Dictionary, ids: Iterable[int]) -> tuple[list[int], list[str]]:
    """Return a sentence of ids as the model sees it, and the values of its reserved symbols."""
    return dictionary.split(ids) if isinstance(dictionary, ValuedDictionary) else (list(ids), [])
