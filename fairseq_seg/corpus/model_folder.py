"""A model as a folder with everything that translation needs, easy to move and copy.

    MODEL/model.json           format, languages, names of the files below, default options
    MODEL/checkpoint.pt        the trained model
    MODEL/dict.en.txt          dictionaries
    MODEL/subword.en.model     sentencepiece models, unless texts are symbols already
    MODEL/train.en-fr.*        the training set and its attached pairs
    MODEL/index.en-fr.*        its index

The folder is also a data-bin, so fairseq's commands accept it:
`fairseq-interactive MODEL --path MODEL/checkpoint.pt ...`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.corpus.subwords import SubwordModel, SymbolEncoder, check_protection
from fairseq_seg.errors import SegError
from fairseq_seg.files import make_whole

NAME, FORMAT = "model.json", 1
CHECKPOINT = "checkpoint.pt"


@dataclass
class ModelFolder:
    """An existing model folder; `options` are fairseq-interactive's, keyed by name without dashes."""

    path: Path
    source_lang: str
    target_lang: str
    subwords: tuple[str, str] | None = None  # names of the sentencepiece models of source and target
    checkpoint: str = CHECKPOINT
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def find(cls, path: str | Path) -> ModelFolder | None:
        """Open a model folder; return None if `path` is not one, and refuse an incomplete model."""
        path = Path(path)
        try:
            values = json.loads((path / NAME).read_bytes())
            if values.pop("format") != FORMAT:
                raise SegError(f"{path} is a model folder of another version: create it again with seg-model.")
            subwords = values.pop("subwords")
            folder = cls(path, subwords=tuple(subwords) if subwords else None, **values)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SegError(f"{path / NAME} cannot be read: {error.strerror}.") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise SegError(f"{path / NAME} is damaged: create the folder again with seg-model.") from None
        languages = folder.source_lang, folder.target_lang
        names = [folder.checkpoint, *(f"dict.{lang}.txt" for lang in languages), *(folder.subwords or ())]
        missing = [name for name in names if not (path / name).is_file()]
        if missing:
            raise SegError(f"{path} is incomplete, {missing[0]} is missing: create it again with seg-model.")
        return folder

    @classmethod
    def load(cls, path: str | Path) -> ModelFolder:
        """Open a model folder; refuse any other path."""
        folder = cls.find(path)
        if folder is None:
            if not Path(path).exists():
                raise SegError(
                    f"The model folder {path} does not exist: create it with seg-model, or correct the path."
                )
            raise SegError(f"{path} is not a model folder (no {NAME}): create one (seg-model), or name a checkpoint.")
        return folder

    @classmethod
    def create(
        cls,
        path: str | Path,
        data: DataBin,
        checkpoint: str | Path,
        subword_models: tuple[Path, Path] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ModelFolder:
        """Copy a checkpoint and everything it needs into a folder; replace an older model folder.

        The index of the training set must exist already (seg-attach creates it).
        """
        path, languages = Path(path), (data.source_lang, data.target_lang)
        names = None if subword_models is None else (f"subword.{languages[0]}.model", f"subword.{languages[1]}.model")
        folder = cls(path, *languages, names, CHECKPOINT, dict(options or {}))
        patterns = [f"{TRAIN}*.{data.pair_name}.*", f"index.{data.pair_name}.{data.source_lang}.*"]
        copied = [item for pattern in patterns for item in sorted(data.folder.glob(pattern))]
        if not any(item.is_dir() for item in copied):
            raise SegError(f"{data.folder} has no index of its training set: run seg-attach on it first.")
        files = {CHECKPOINT: Path(checkpoint)} | {f"dict.{lang}.txt": data.dictionary_path(lang) for lang in languages}
        if names is not None and subword_models is not None:
            for name, lang, model, symbols in zip(names, languages, subword_models, data.dictionaries, strict=True):
                subwords = SubwordModel(model)
                check_protection(symbols, subwords, data.dictionary_path(lang))
                if SymbolEncoder(symbols, subwords).known_share() < 0.5:
                    raise SegError(
                        f"{model} is not the subword model of {lang} in {data.folder}: give the one used to encode it."
                    )
                files[name] = model
        if path.exists() and cls.find(path) is None:
            raise SegError(f"{path} exists and is not a model folder: choose another name.")
        try:
            with make_whole(path) as beside:
                for name, file in files.items():
                    shutil.copyfile(file, beside / name)
                for item in copied:
                    if item.is_dir():
                        shutil.copytree(item, beside / item.name)
                    elif not item.name.endswith(".part"):
                        shutil.copyfile(item, beside / item.name)
                values = asdict(folder) | {"format": FORMAT}
                values.pop("path")
                (beside / NAME).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise SegError(f"{path} cannot be created: {error.filename or path}: {error.strerror}.") from None
        return folder

    @cached_property
    def data(self) -> DataBin:
        """The folder as a data-bin."""
        return DataBin(self.path, self.source_lang, self.target_lang)

    @property
    def checkpoint_path(self) -> Path:
        """The trained model."""
        return self.path / self.checkpoint

    @property
    def subword_paths(self) -> tuple[Path, Path] | None:
        """The sentencepiece models of source and target."""
        return None if self.subwords is None else (self.path / self.subwords[0], self.path / self.subwords[1])
