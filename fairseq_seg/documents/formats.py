"""Open a file in its format, which its name tells, or its content where two formats share a name."""

from __future__ import annotations

from pathlib import Path

from fairseq_seg.documents.markup import declared_encoding, read_root
from fairseq_seg.documents.po import Po
from fairseq_seg.documents.raw import Raw
from fairseq_seg.documents.segment import Document
from fairseq_seg.documents.tmx import Tmx
from fairseq_seg.documents.tsv import Text, Tsv
from fairseq_seg.documents.xliff import Xliff1
from fairseq_seg.documents.xliff2 import Xliff2
from fairseq_seg.errors import SegError

FORMATS = ("po", "xliff", "tmx", "tsv", "text")
ENDINGS = {"po": "po", "pot": "po", "xlf": "xliff", "xliff": "xliff", "sdlxliff": "xliff", "mxliff": "xliff"}
ENDINGS |= {"mqxliff": "xliff", "tmx": "tmx", "tsv": "tsv", "txt": "text"}


def format_of(path: Path) -> str | None:
    """Return the format that a file's name tells."""
    return ENDINGS.get(path.suffix.lower().removeprefix("."))


def open_document(path: Path, langs: tuple[str, str], format: str | None = None, name: str | None = None) -> Document:
    """Return a file as a document, in a format or in the one that its name tells; `langs` are the model's."""
    name = name or str(path)
    format = format or format_of(path)
    if format is None:
        raise SegError(f"The name of {name} does not tell its format: give --format ({', '.join(FORMATS)}).")
    if format == "xliff":
        version = xliff_version(path, name)
        return Xliff2(path, langs, name) if version.startswith("2.") else Xliff1(path, langs, name)
    kinds: dict[str, type[Document]] = {"po": Po, "tmx": Tmx, "tsv": Tsv, "text": Text}
    return kinds[format](path, langs, name)


def xliff_version(path: Path, name: str) -> str:
    """Return the version of an XLIFF file; refuse an unknown one."""
    raw = Raw(path, name, declared_encoding)
    try:
        root = read_root(raw, name)
    finally:
        raw.close()
    version = root.attributes.get("version", "")
    if root.name != "xliff":
        raise SegError(f"{name}: line {root.line} starts a <{root.name}>, not an <xliff>: is it another format?")
    if version not in ("1.0", "1.1", "1.2", "2.0", "2.1", "2.2"):
        raise SegError(f"{name}: line {root.line} names XLIFF version '{version}': convert it to 1.2 or 2.1.")
    return version
