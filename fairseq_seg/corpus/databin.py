"""A data-bin as fairseq-preprocess wrote it, read without fairseq."""

from __future__ import annotations

import re
from functools import cache, cached_property
from itertools import count, takewhile
from pathlib import Path

from fairseq_seg.corpus.attached import attached_path
from fairseq_seg.corpus.dictionary import dictionary_fingerprint, read_dictionary
from fairseq_seg.corpus.pairs import TRAIN, PairTable
from fairseq_seg.corpus.protection import Protection
from fairseq_seg.corpus.sequences import Sequences, fingerprint, side_fingerprint
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.corpus.values import Values
from fairseq_seg.errors import SegError


class DataBin:
    """The splits and dictionaries of a data-bin, in one translation direction."""

    def __init__(self, folder: str | Path, source_lang: str | None = None, target_lang: str | None = None):
        if ":" in str(folder) and not Path(folder).exists():
            raise SegError(f"{folder} names several data-bins: run the command on each one.")
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise SegError(f"{folder} is not a folder: give the --destdir of fairseq-preprocess.")
        source, target = self._infer_languages()
        self.source_lang = source_lang or source
        self.target_lang = target_lang or target
        if {self.source_lang, self.target_lang} != {source, target}:
            raise SegError(
                f"{folder} holds {source}-{target}, not {self.source_lang}-{self.target_lang}: correct -s and -t."
            )
        self.pair_name = f"{source}-{target}"

    def _infer_languages(self) -> tuple[str, str]:
        for path in sorted(self.folder.iterdir()):
            match = re.fullmatch(r"\w+\.([^.-]+)-([^.-]+)\.(?:\1|\2)(\.idx|\.bin|\.fasta)?", path.name)
            if match:
                return match[1], match[2]
        raise SegError(f"{self.folder} has no binarized split: run fairseq-preprocess with --destdir first.")

    # Splits

    def splits(self) -> list[str]:
        """List train, valid, test and further splits (valid1, test1 ...)."""
        names = {path.name.split(".")[0] for path in self.folder.glob(f"*.{self.pair_name}.*")}
        found = [name for name in names if self._has(name) and not re.fullmatch(r"train\d+", name)]
        order = {"train": 0, "valid": 1, "test": 2}
        return sorted(found, key=lambda split: (order.get(split.rstrip("0123456789"), 3), split))

    def parts(self, split: str, combine: bool = False) -> list[str]:
        """List a split and, for train or to combine, its parts train1, train2 ..., which fairseq joins to one split."""
        if not self._has(split):
            raise SegError(f"{self.folder} has no split '{split}', only {', '.join(self.splits()) or 'none'}.")
        more = (f"{split}{number}" for number in (count(1) if combine or split == TRAIN else ()))
        return [split, *takewhile(self._has, more)]

    def prefix(self, part: str, lang: str) -> Path:
        """Name the files of one side of a part of a split, without extensions."""
        return self.folder / f"{part}.{self.pair_name}.{lang}"

    def sides(self, split: str, combine: bool = False) -> tuple[Sequences, Sequences | None]:
        """Return both sides of a split; the target is None if its files are missing."""
        parts = self.parts(split, combine)
        source = _join(tuple(self._read(part, self.source_lang) for part in parts))
        if not any(_file(self.prefix(part, self.target_lang)) for part in parts):
            return source, None
        target = _join(tuple(self._read(part, self.target_lang) for part in parts))
        if len(source) != len(target):
            raise SegError(
                f"{split} of {self.folder} has {len(source)} sentences in {self.source_lang} and {len(target)} in "
                f"{self.target_lang}: make both files equally long and run fairseq-preprocess again."
            )
        return source, target

    def pair(self, split: str, combine: bool = False) -> tuple[Sequences, Sequences]:
        """Return both sides of a split, and refuse one without a target."""
        source, target = self.sides(split, combine)
        if target is None:
            raise SegError(f"{self.prefix(split, self.target_lang)}.idx is missing: run fairseq-preprocess again.")
        return source, target

    def part_sizes(self, split: str, combine: bool = False) -> list[int]:
        """Count the sentences of each part of a split."""
        return [len(self._read(part, self.source_lang)) for part in self.parts(split, combine)]

    def fingerprint(self, split: str) -> str:
        """Identify a split by its symbols, computed once per process."""
        return _fingerprint(*self.pair(split))

    def attached_path(self, split: str) -> Path:
        """Name the file that seg-attach writes for a split."""
        return attached_path(self.folder, split, self.source_lang, self.target_lang)

    def table(self, place: str = "") -> PairTable:
        """Return the training set as a table of pairs; `place` names its folder if it is another data-bin."""
        return PairTable(*self.pair(TRAIN), self.spellings, place)

    # Dictionaries

    @cached_property
    def dictionaries(self) -> tuple[list[str], list[str]]:
        """The symbols of source and target in the order of their ids."""
        source, target = (read_dictionary(self.dictionary_path(lang)) for lang in (self.source_lang, self.target_lang))
        return source, target

    @cached_property
    def spellings(self) -> tuple[Spelling, Spelling]:
        """The spellings of source and target, which turn symbols into words."""
        source, target = self.dictionaries
        return Spelling(source), Spelling(target)

    @property
    def dictionary_fingerprints(self) -> tuple[str, str]:
        """Identify the dictionaries of source and target."""
        source, target = self.dictionaries
        return dictionary_fingerprint(source), dictionary_fingerprint(target)

    def dictionary_path(self, lang: str) -> Path:
        """Name a language's dictionary file."""
        path = self.folder / f"dict.{lang}.txt"
        if not path.is_file():
            raise SegError(f"{path} is missing: run fairseq-preprocess again.")
        return path

    # Files

    def _has(self, split: str) -> bool:
        return _file(self.prefix(split, self.source_lang)) is not None

    def values_path(self, part: str, lang: str) -> Path:
        """Name the file of the values of protected tokens of one side of a part of a split."""
        prefix = self.prefix(part, lang)
        return prefix.with_name(f"{prefix.name}.values")

    @cached_property
    def protections(self) -> tuple[Protection, Protection] | None:
        """How the tokens of source and target are protected, None if they are not."""
        source, target = map(Protection.of, self.dictionaries)
        if source is None or target is None or source.kinds != target.kinds:
            if source is None and target is None:
                for lang, spelling in zip((self.source_lang, self.target_lang), self.spellings, strict=True):
                    if spelling.reserved is not None:
                        raise SegError(
                            f"{self.dictionary_path(lang)} lacks symbols of the subword model, which protects tokens: "
                            "run fairseq-preprocess again with --srcdict and --tgtdict of seg-subword."
                        )
                return None
            raise SegError(
                f"{self.folder} does not protect the same tokens in {self.source_lang} and {self.target_lang}: train "
                "both subword models with the same --protect."
            )
        return source, target

    def place_values(self, part: str, lang: str, values: list[list[str]]) -> None:
        """Write the values of one side of a part of a split beside it; refuse those of another text."""
        side, reserved = self._read_symbols(part, lang), self.spellings[lang == self.target_lang].reserved
        assert reserved is not None
        counts = [int(reserved.is_reserved[row].sum()) for row in side]
        where = f"{len(values)} lines, not {len(side)}" if len(values) != len(side) else ""
        if not where and (wrong := [row for row, own in enumerate(values) if len(own) != counts[row]]):
            where = f"other tokens in line {wrong[0] + 1}"
        if where:
            raise SegError(
                f"The values given for {self.prefix(part, lang)} have {where}: name the files that fairseq-preprocess "
                "was given."
            )
        role = "source" if lang == self.source_lang else "target"
        Values.from_rows(values).save(self.values_path(part, lang), role, side_fingerprint(side))

    def _read(self, part: str, lang: str) -> Sequences:
        side = self._read_symbols(part, lang)
        if self.protections is None:
            return side
        path, role = self.values_path(part, lang).absolute(), "source" if lang == self.source_lang else "target"
        return _with_values(side, path, _state(path) if path.exists() else None, role)

    def _read_symbols(self, part: str, lang: str) -> Sequences:
        prefix = self.prefix(part, lang)
        file = _file(prefix)
        try:
            if file is None:
                raise SegError(f"{prefix}.idx is missing: run fairseq-preprocess again.")
            if file.suffix == ".idx":
                data = prefix.with_name(f"{prefix.name}.bin")
                return _read_index(prefix.absolute(), _state(file), _state(data))
            symbols = self.dictionaries[(self.source_lang, self.target_lang).index(lang)]
            return _read_text(file.absolute(), _state(file), tuple(symbols))
        except OSError as error:
            raise SegError(
                f"{error.filename} cannot be read ({error.strerror}): run fairseq-preprocess again."
            ) from None
        except ValueError as error:
            raise SegError(f"{error}: run fairseq-preprocess again.") from None


def _file(prefix: Path) -> Path | None:
    """Return the file that tells the format of one side of a split: an index, text of symbols, or FASTA."""
    names = (prefix.with_name(prefix.name + ending) for ending in (".idx", "", ".fasta"))
    return next((path for path in names if path.exists()), None)


def _state(path: Path) -> tuple[int, int]:
    """Return the size and date of a file, to detect changes."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


# A file is opened once per process, and again only when its size or date has changed.


@cache
def _read_index(prefix: Path, *states: tuple[int, int]) -> Sequences:
    return Sequences.from_index(prefix)


@cache
def _read_text(path: Path, state: tuple[int, int], symbols: tuple[str, ...]) -> Sequences:
    read = Sequences.from_fasta if path.suffix == ".fasta" else Sequences.from_text
    return read(path, symbols)


@cache
def _with_values(side: Sequences, path: Path, state: tuple[int, int] | None, role: str) -> Sequences:
    return side.with_values(Values.load(path, role, side_fingerprint(side)))


@cache
def _join(parts: tuple[Sequences, ...]) -> Sequences:
    if len(parts) == 1:
        return parts[0]
    joined = Sequences.from_rows(row for part in parts for row in part)
    if parts[0].values is None:
        return joined
    return joined.with_values(Values.from_rows(row for part in parts for row in part.values or ()))


@cache
def _fingerprint(source: Sequences, target: Sequences) -> str:
    return fingerprint(source, target)
