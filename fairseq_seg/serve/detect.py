"""Guess the language of a text among those that the models know, from the counts of symbols in their dictionaries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.subwords import SubwordModel, SymbolEncoder
from fairseq_seg.files import read_text_file
from fairseq_seg.serve.refusal import Refusal

MOST_CHARACTERS = 2000  # are enough
UNSEEN = 0.01  # the count of a symbol that a dictionary does not have


class Language:
    """The symbols of a language, and how often each occurs."""

    def __init__(self, code: str, symbols: Sequence[str], dictionary: Path, subwords: Path | None):
        self.code = code
        self._encoder = SymbolEncoder(symbols, SubwordModel(subwords) if subwords else None)
        counts = {line.split(" ")[0]: float(line.split(" ")[1]) for line in read_text_file(dictionary) if line.strip()}
        total = sum(counts.values()) or 1
        self._logs = [math.log((counts.get(symbol, 0) + UNSEEN) / total) for symbol in symbols]
        self._unknown = math.log(UNSEEN / total)

    def score(self, text: str) -> float:
        """Return the log probability of a text's symbols, one by one."""
        return sum(self._unknown if id == UNKNOWN else self._logs[id] for id in self._encoder.encode(text).tolist())


class Detector:
    """Knows the languages of models."""

    def __init__(self, folders: Sequence[ModelFolder]):
        self._languages: dict[str, Language] = {}
        for folder in folders:
            sides = zip((folder.source_lang, folder.target_lang), folder.data.dictionaries, (0, 1), strict=True)
            for code, symbols, side in sides:
                if code not in self._languages:
                    subwords = folder.subword_paths[side] if folder.subword_paths else None
                    self._languages[code] = Language(code, symbols, folder.data.dictionary_path(code), subwords)

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Return languages and their probabilities in per cent, the most probable first."""
        codes = list(self._languages if among is None else among)
        if not codes:
            raise Refusal(400, "Invalid request: no language can be detected")
        text = " ".join(text.split())[:MOST_CHARACTERS]
        scores = {code: self._languages[code].score(text) for code in codes}
        best = max(scores.values())
        weights = {code: math.exp(max(score - best, -700)) for code, score in scores.items()}
        total = sum(weights.values())
        spoken = any(map(str.isalpha, text))
        found = [(code, round(100 * weight / total, 1) if spoken else 0.0) for code, weight in weights.items()]
        return sorted(found, key=lambda item: -item[1])
