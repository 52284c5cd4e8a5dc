"""A data-bin as fairseq-preprocess wrote it, read without fairseq."""

from __future__ import annotations

import os
import re
from functools import cached_property
from itertools import count
from pathlib import Path

from fairseq_seg.corpus.attached import attached_path
from fairseq_seg.corpus.dictionary import dictionary_fingerprint, read_dictionary
from fairseq_seg.corpus.pairs import TRAIN, PairTable
from fairseq_seg.corpus.sequences import Sequences, fingerprint
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.errors import SegError

# Splits that this process has read: sides and fingerprint, keyed by names, sizes and dates of their files.
_read_splits: dict[tuple, list] = {}


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
            match = re.fullmatch(r"\w+\.([^.-]+)-([^.-]+)\.(?:\1|\2)(\.idx|\.bin)?", path.name)
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

    def parts(self, split: str) -> list[str]:
        """List a split and, for train, its parts train1, train2 ..., which fairseq joins to one split."""
        if not self._has(split):
            raise SegError(f"{self.folder} has no split '{split}', only {', '.join(self.splits()) or 'none'}.")
        parts = [split]
        if split == TRAIN:
            for number in count(1):
                if not self._has(f"{split}{number}"):
                    break
                parts.append(f"{split}{number}")
        return parts

    def prefix(self, part: str, lang: str) -> Path:
        """Name the files of one side of a part of a split, without extensions."""
        return self.folder / f"{part}.{self.pair_name}.{lang}"

    def sides(self, split: str) -> tuple[Sequences, Sequences | None]:
        """Return both sides of a split, read once per process; the target is None if its files are missing."""
        return self._split(split)[0]

    def pair(self, split: str) -> tuple[Sequences, Sequences]:
        """Return both sides of a split, and refuse one without a target."""
        source, target = self.sides(split)
        if target is None:
            raise SegError(f"{self.prefix(split, self.target_lang)}.idx is missing: run fairseq-preprocess again.")
        return source, target

    def fingerprint(self, split: str) -> str:
        """Identify a split by its symbols, computed once per process."""
        known = self._split(split)
        if len(known) == 1:
            known.append(fingerprint(*self.pair(split)))
        return known[1]

    def _split(self, split: str) -> list:
        languages = self.source_lang, self.target_lang
        prefixes = [[self.prefix(part, lang) for part in self.parts(split)] for lang in languages]
        key = tuple(_state(prefix) for side in prefixes for prefix in side)
        if key not in _read_splits:
            source, target = (
                _concatenate([self._read(prefix, lang) for prefix in side]) if any(map(_exists, side)) else None
                for side, lang in zip(prefixes, languages, strict=True)
            )
            assert source is not None
            if target is not None and len(source) != len(target):
                raise SegError(
                    f"{split} of {self.folder} has {len(source)} sentences in {self.source_lang} and {len(target)} in "
                    f"{self.target_lang}: make both files equally long and run fairseq-preprocess again."
                )
            _read_splits[key] = [(source, target)]
        return _read_splits[key]

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
        return read_dictionary(self.dictionary_path(self.source_lang)), read_dictionary(
            self.dictionary_path(self.target_lang)
        )

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
        return _exists(self.prefix(split, self.source_lang))

    def _read(self, prefix: Path, lang: str) -> Sequences:
        index = Path(f"{prefix}.idx")
        try:
            if index.exists():
                return Sequences.from_index(prefix)
            if prefix.exists():
                symbols = self.dictionaries[(self.source_lang, self.target_lang).index(lang)]
                return Sequences.from_text(prefix, symbols)
        except OSError as error:
            raise SegError(f"{prefix}.bin cannot be read ({error.strerror}): run fairseq-preprocess again.") from None
        except ValueError as error:
            raise SegError(f"{error}: run fairseq-preprocess again.") from None
        raise SegError(f"{index} is missing: run fairseq-preprocess again.")


def _exists(prefix: Path) -> bool:
    return prefix.exists() or prefix.with_name(prefix.name + ".idx").exists()


def _state(prefix: Path) -> tuple:
    """Return the names, sizes and dates of the files behind a prefix, to detect changes."""
    states: list[str | int] = [os.fspath(prefix.absolute())]
    for ending in ("", ".idx", ".bin"):
        path = prefix.with_name(prefix.name + ending)
        if path.is_file():
            status = path.stat()
            states += [ending, status.st_size, status.st_mtime_ns]
    return tuple(states)


def _concatenate(parts: list[Sequences]) -> Sequences:
    return parts[0] if len(parts) == 1 else Sequences.from_rows(row for part in parts for row in part)
