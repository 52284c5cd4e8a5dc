"""The datastore of kNN-MT: a key and a symbol for each target symbol of a training set, searched with faiss.

The keys are the translator's states z_t under teacher forcing, the symbols those that came next. A datastore belongs to
one checkpoint and records it.
"""

import json
from pathlib import Path

import numpy as np

from fairseq_seg.errors import SegError, need
from fairseq_seg.files import file_fingerprint

KEYS, SYMBOLS, HEADER = "keys.faiss", "symbols.npy", "datastore.json"
PROBES = 32  # cells that a search looks into
FAR = 1e6  # the distance of a key that was not found
CODE = 64  # bytes per key, as in both papers


def usual_index(count: int, size: int) -> str:
    """Return faiss's name of the index for `count` keys: the papers' cells and codes, or exact search if there are few.

    There are about four times as many cells as the square root of the keys, and at least 39 keys per cell to learn it.
    """
    cells = min(2 ** int(np.log2(max(count // 39, 1))), 2 ** round(np.log2(4 * max(count, 1) ** 0.5)))
    code = next(code for code in range(min(CODE, size), 0, -1) if size % code == 0)
    return "Flat" if cells < 256 else f"IVF{min(cells, 4096)},PQ{code}"


class Datastore:
    """Keys in an index, and the symbol of each."""

    def __init__(self, index, symbols: np.ndarray):
        self.index, self.symbols = index, symbols

    @classmethod
    def learn(cls, sample: np.ndarray, count: int, index: str = "") -> "Datastore":
        """Return an empty datastore that learnt its cells and codes from a sample (N, H) of `count` keys."""
        faiss = load_faiss()
        made = faiss.index_factory(sample.shape[1], index or usual_index(count, sample.shape[1]))
        made.train(sample)
        return cls(made, np.zeros(0, np.int32))

    def add(self, keys: np.ndarray, symbols: np.ndarray) -> None:
        """Add keys (N, H) with their symbols (N,)."""
        self.index.add(np.ascontiguousarray(keys, np.float32))
        self.symbols = np.concatenate([self.symbols, symbols.astype(np.int32)])

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances and symbols of the k nearest keys; queries (N, H) -> two of (N, k).

        Where the cells hold fewer than k keys, the rest is far away.
        """
        distances, found = self.index.search(np.ascontiguousarray(queries, np.float32), k)
        return np.where(found < 0, FAR, distances), self.symbols[np.maximum(found, 0)]

    def save(self, folder: Path, checkpoint: Path, data: str, facts: dict) -> None:
        """Write the datastore into a folder, with its checkpoint, its training set's fingerprint and further facts."""
        load_faiss().write_index(self.index, str(folder / KEYS))
        np.save(folder / SYMBOLS, self.symbols)
        header = {"checkpoint": file_fingerprint(checkpoint), "data": data, "keys": len(self.symbols)} | facts
        (folder / HEADER).write_text(json.dumps(header, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, checkpoint: Path) -> "Datastore":
        """Read a datastore; refuse that of another checkpoint."""
        faiss = load_faiss()
        if read_header(folder)["checkpoint"] != file_fingerprint(checkpoint):
            raise SegError(
                f"The datastore {folder} was made with another checkpoint than {checkpoint}: run knn.py for this one."
            )
        index = faiss.read_index(str(folder / KEYS))
        if hasattr(index, "nprobe"):
            index.nprobe = PROBES
        return cls(index, np.load(folder / SYMBOLS))


def read_header(folder: Path) -> dict:
    """Return what a datastore was made from."""
    try:
        return json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise SegError(f"{folder} is not a datastore: make one with examples/peers/knn.py.") from None


def load_faiss():
    """Return faiss, or say what to install; one thread, as everything here."""
    need("faiss", "peers", "kNN-MT")
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss
