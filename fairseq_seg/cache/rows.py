"""The bytes of a slot: a row with its key, its gate projection and, for deep fusion, its value, in a number type.

A number takes 4 bytes as fp32, which is exact, 2 as fp16, and 1 as int8. With int8, each part of a row has a scale
(fp32), which maps its largest number to 127. The slot's symbol is not stored, because the caller knows the symbols of
the pair: they are its address.

For the overlap, the rows of a pair's T' slots are followed by its attention, (T', S'), in as many rows as it takes.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_seg.modules.memory import Entries

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "int8": torch.int8}
WEIGHTS = {"fp32": np.float32, "fp16": np.float16, "int8": np.uint8}  # of attention, as uint8 in units of 1/255
ALIGNMENT = 4  # bytes; no number type needs more


class Part(NamedTuple):
    """The position of a part of a row: its scale (int8 only) comes before its numbers."""

    start: int
    numbers: int
    end: int


class RowFormat:
    """How the slots of one model are written.

    Args:
        number_type: a key of `TYPES`.
        sizes: numbers of each part of `Entries`, 0 for a part that is not there.
    """

    def __init__(self, number_type: str, sizes: tuple[int, int, int]):
        self.dtype, self.sizes, self.weights = TYPES[number_type], sizes, np.dtype(WEIGHTS[number_type])
        self._parts: list[Part | None] = []
        end = 0
        for size in sizes:
            if size == 0:
                self._parts.append(None)
                continue
            numbers = end + (torch.float32.itemsize if self.dtype == torch.int8 else 0)
            self._parts.append(Part(end, numbers, numbers + size * self.dtype.itemsize))
            end = self._parts[-1].end
            end += -end % ALIGNMENT
        self.row_bytes = end

    def encode(self, entries: Entries) -> Tensor:
        """Entries of N slots, (N, ...) each -> (N, row_bytes) uint8."""
        rows = torch.zeros(len(entries.keys), self.row_bytes, dtype=torch.uint8, device=entries.keys.device)
        for part, x in zip(self._parts, entries[:3], strict=True):
            if part is None:
                continue
            x = x.float()
            if self.dtype == torch.int8:
                # Avoids division by zero for a slot of zeros.
                scale = (x.abs().amax(-1, keepdim=True) / 127).clamp(min=torch.finfo(torch.float32).tiny)
                rows[:, part.start : part.numbers] = scale.view(torch.uint8)
                x = (x / scale).round()
            elif self.dtype == torch.float16:
                largest = torch.finfo(torch.float16).max
                x = x.clamp(-largest, largest)  # otherwise a score could be infinite
            rows[:, part.numbers : part.end] = x.to(self.dtype).contiguous().view(torch.uint8)
        return rows

    def decode(self, rows: Tensor) -> Entries:
        """(..., row_bytes) uint8 -> entries in fp32, (..., size) each; of fp32 rows they are views."""

        def read(part: Part | None) -> Tensor | None:
            if part is None:
                return None
            x = rows[..., part.numbers : part.end].view(self.dtype).float()
            if self.dtype == torch.int8:
                x *= rows[..., part.start : part.numbers].view(torch.float32)
            return x

        keys, gate_values, values = map(read, self._parts)
        return Entries(keys, gate_values, values, None)

    def pack_attention(self, attention: np.ndarray) -> np.ndarray:
        """Return the attention of a pair (T', S'), fp32, as rows (N, row_bytes) uint8."""
        scaled = np.rint(attention * 255) if self.weights == np.uint8 else attention
        packed = np.frombuffer(scaled.astype(self.weights).tobytes(), np.uint8)
        return np.pad(packed, (0, -len(packed) % self.row_bytes)).reshape(-1, self.row_bytes)

    def unpack_attention(self, rows: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Return the attention of a pair (T', S') from its rows."""
        weights = rows.reshape(-1)[: shape[0] * shape[1] * self.weights.itemsize].view(self.weights).reshape(shape)
        return weights / np.float32(255) if self.weights == np.uint8 else weights
