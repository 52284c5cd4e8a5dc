"""A data-bin of the generated corpus after seg-attach, and the options that make fairseq use its pairs."""

import subprocess
import sys
from pathlib import Path

from tests.corpus import SOURCE, TARGET, Corpus, binarize, write_text
from tests.stock import ROOT

# Unlike `tests.stock.PLUGIN`, with the memory turned on.
PLUGIN = ["--user-dir", ROOT / "fairseq_seg", "--task", "seg_translation"]


def prepare(corpus: Corpus, folder: Path) -> Path:
    """Binarize a corpus and attach its pairs; in another process, because a JVM and forked workers do not mix."""
    write_text(corpus, folder / "text")
    binarize(folder / "text", folder / "data-bin")
    command = [Path(sys.executable).with_name("seg-attach"), folder / "data-bin", "-s", SOURCE, "-t", TARGET]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder / "data-bin"
