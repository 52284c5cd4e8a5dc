"""From text to the symbols of a model: a subword model, then the ids of a fairseq dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np

from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.sequences import UNKNOWN

# fairseq's Dictionary puts these first, whether or not the file names them.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


def read_dictionary(path: Path) -> list[str]:
    """Lists the symbols of a fairseq dictionary (dict.LANG.txt) in the order of their ids, the special ones first."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise SegError(f"{path} cannot be read ({error.strerror}): name the --destdir of fairseq-preprocess.") from None
    except UnicodeDecodeError:
        raise SegError(f"{path} is no dictionary of fairseq: run fairseq-preprocess again.") from None
    return [*SPECIAL, *(line.rstrip().rpartition(" ")[0] for line in lines if line)]


def dictionary_hash(symbols: Iterable[str]) -> str:
    """Identifies a dictionary by its symbols in order (a fairseq Dictionary's `symbols`); counts do not matter."""
    return blake2b("\n".join(symbols).encode(), digest_size=16).hexdigest()


def file_hash(path: Path) -> str:
    """Identifies a subword model by its bytes."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()


class SymbolEncoder:
    """Cuts text into symbols exactly as `seg-subword encode` and fairseq do, and looks up their ids."""

    def __init__(self, symbols: list[str], subword_model: Path | None):
        """Takes the dictionary's symbols and a sentencepiece model; without one, blanks separate the symbols."""
        # A text cannot say "end of sentence": what looks like a special symbol is an unknown word.
        self._ids = {symbol: number for number, symbol in enumerate(symbols) if number >= len(SPECIAL)}
        self._pieces = None if subword_model is None else load_sentencepiece(subword_model)

    def encode(self, text: str) -> np.ndarray:
        """Gives the ids of a text's symbols (int32), without end of sentence; what the dictionary lacks is unk."""
        words = text.split()
        if self._pieces is not None:
            # Joined and split again, because an unknown character's piece may hold white space, where fairseq splits.
            words = " ".join(self._pieces.encode(" ".join(words), out_type=str)).split()
        return np.array([self._ids.get(word, UNKNOWN) for word in words], dtype=np.int32)

    def known_share(self) -> float:
        """Gives the share of the subword model's pieces that the dictionary has, 1.0 without a model."""
        if self._pieces is None:
            return 1.0
        pieces = [self._pieces.id_to_piece(number) for number in range(self._pieces.get_piece_size())]
        return sum(piece in self._ids for piece in pieces) / len(pieces)


def load_sentencepiece(path: Path):
    """Loads a sentencepiece model."""
    import sentencepiece

    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError):
        raise SegError(f"{path} is missing or is no sentencepiece model: make one with `seg-subword train`.") from None
