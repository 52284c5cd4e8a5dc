"""Reads a data-bin as fairseq-preprocess wrote it, without importing fairseq where its default format allows it."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.sequences import Sequences


class DataBin:
    """The splits and dictionaries of a data-bin, in one translation direction."""

    def __init__(self, folder: str | Path, source_lang: str | None = None, target_lang: str | None = None):
        if ":" in str(folder) and not Path(folder).exists():
            raise SegError(f"{folder} names several data-bins; run the command on each of them by itself.")
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise SegError(f"{folder} is not a folder; give the --destdir of fairseq-preprocess.")
        source, target = self._infer_languages()
        self.source_lang = source_lang or source
        self.target_lang = target_lang or target
        if {self.source_lang, self.target_lang} != {source, target}:
            raise SegError(
                f"{folder} holds {source}-{target}, not {self.source_lang}-{self.target_lang}; correct -s and -t."
            )
        self.pair_name = f"{source}-{target}"

    def _infer_languages(self) -> tuple[str, str]:
        for path in sorted(self.folder.iterdir()):
            match = re.fullmatch(r"\w+\.([^.-]+)-([^.-]+)\.(?:\1|\2)(\.idx|\.bin)?", path.name)
            if match:
                return match[1], match[2]
        raise SegError(f"{self.folder} holds no binarized split; run fairseq-preprocess with --destdir first.")

    def splits(self) -> list[str]:
        """Lists train, valid, test and further splits (valid1, test1 ...) that both languages have."""
        names = {path.name.split(".")[0] for path in self.folder.glob(f"*.{self.pair_name}.*")}
        found = [name for name in names if self._has(name) and not re.fullmatch(r"train\d+", name)]
        order = {"train": 0, "valid": 1, "test": 2}
        return sorted(found, key=lambda split: (order.get(split.rstrip("0123456789"), 3), split))

    def pair(self, split: str) -> tuple[Sequences, Sequences]:
        """Reads both sides of a split; train takes in its numbered shards train1, train2 ... as fairseq does."""
        if not self._has(split):
            raise SegError(f"{self.folder} has no split '{split}'; it has {', '.join(self.splits()) or 'none'}.")
        shards = [split]
        if split == "train":
            for number in count(1):
                if not self._has(f"train{number}"):
                    break
                shards.append(f"train{number}")
        source, target = (
            concatenate([self._read(shard, lang) for shard in shards]) for lang in (self.source_lang, self.target_lang)
        )
        if len(source) != len(target):
            raise SegError(
                f"{split} of {self.folder} has {len(source)} source and {len(target)} target sentences; "
                "run fairseq-preprocess again."
            )
        return source, target

    def dictionary(self, lang: str) -> list[str]:
        """Lists the symbols of a language in the order of their ids."""
        path = self.dictionary_path(lang)
        symbols = ["<s>", "<pad>", "</s>", "<unk>"]
        with open(path, encoding="utf-8") as file:
            symbols.extend(line.rstrip().rpartition(" ")[0] for line in file)
        return symbols

    def dictionary_path(self, lang: str) -> Path:
        """Names a language's dictionary file."""
        path = self.folder / f"dict.{lang}.txt"
        if not path.is_file():
            raise SegError(f"{path} is missing; run fairseq-preprocess again.")
        return path

    def _has(self, split: str) -> bool:
        prefix = self.folder / f"{split}.{self.pair_name}.{self.source_lang}"
        return prefix.exists() or prefix.with_name(prefix.name + ".idx").exists()

    def _read(self, split: str, lang: str) -> Sequences:
        prefix = self.folder / f"{split}.{self.pair_name}.{lang}"
        try:
            return Sequences.from_mmap(prefix)
        except FileNotFoundError:
            pass
        except ValueError as error:
            if "cut off" in str(error):
                raise SegError(f"{error}; run fairseq-preprocess again.") from None
        return self._read_with_fairseq(prefix, lang)

    def _read_with_fairseq(self, prefix: Path, lang: str) -> Sequences:
        """Reads fairseq's other formats (raw, cached, huffman ...)."""
        from fairseq.data import Dictionary, data_utils

        dataset = data_utils.load_indexed_dataset(str(prefix), Dictionary.load(str(self.dictionary_path(lang))))
        if dataset is None:
            raise SegError(f"{prefix} is missing or unreadable; run fairseq-preprocess again.")
        return Sequences.from_rows(dataset[row] for row in range(len(dataset)))


def concatenate(parts: list[Sequences]) -> Sequences:
    """Joins the shards of a side."""
    return parts[0] if len(parts) == 1 else Sequences.from_rows(row for part in parts for row in part)
