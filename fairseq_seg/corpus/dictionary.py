"""fairseq's dictionaries: the symbols of a language by id."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np

from fairseq_seg.errors import SegError

# fairseq's Dictionary puts these first, whether or not the file names them.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAD, EOS, UNKNOWN = 1, 2, 3


def mostly_unknown(symbols: np.ndarray) -> bool:
    """Tell whether a text (ids without eos) is probably in another language, or not cut into symbols."""
    return len(symbols) > 0 and float((symbols == UNKNOWN).mean()) > 0.5


def read_dictionary(path: Path) -> list[str]:
    """List the symbols of a fairseq dictionary (dict.LANG.txt) in the order of their ids, the special ones first."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise SegError(f"{path} cannot be read ({error.strerror}): name the --destdir of fairseq-preprocess.") from None
    except UnicodeDecodeError:
        raise SegError(f"{path} is not a dictionary of fairseq: run fairseq-preprocess again.") from None
    return [*SPECIAL, *(line.rstrip().rpartition(" ")[0] for line in lines if line)]


def dictionary_fingerprint(symbols: Iterable[str]) -> str:
    """Identify a dictionary by its symbols in order (a fairseq Dictionary's `symbols`); counts do not matter."""
    return blake2b("\n".join(symbols).encode(), digest_size=16).hexdigest()
