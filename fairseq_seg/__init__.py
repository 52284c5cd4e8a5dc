"""Search-engine-guided neural machine translation (Gu et al., AAAI 2018) as a fairseq plugin.

This file imports nothing heavy, so that the light parts (`fairseq_seg.corpus`, the command lines' `--help`) do not pay
for fairseq and torch. `--user-dir` makes fairseq import the tasks, models and criterions. `Translator` is loaded when
somebody asks for it.
"""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("Translator", "Translation"):
        from fairseq_seg import translator

        return getattr(translator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
