"""Print the folder of the installed package, for `fairseq-train --user-dir "$(python -m fairseq_seg)"`."""

from pathlib import Path

print(Path(__file__).resolve().parent)
