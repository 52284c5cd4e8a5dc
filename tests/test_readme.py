"""The README's commands and its Python, run as they stand on the generated corpus, with smaller sizes."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.corpus import make_corpus, write_text

ROOT = Path(__file__).parent.parent
SMALLER = {
    "--vocab-size 8000": "--vocab-size 150",
    "--max-update 20000": "--max-update 20 --hidden-size 32 --embed-dim 32 --cpu",
    "--beam 5": "--beam 2 --max-len-b 10 --cpu",
    "--user-dir fairseq_seg": f"--user-dir {ROOT}/fairseq_seg",
}


def code_blocks(language: str) -> str:
    """Return all of the README's code in a language."""
    text = ROOT.joinpath("README.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL))


def test_the_commands_for_ones_own_corpus_and_memory(tmp_path: Path) -> None:
    script = code_blocks("bash")
    for full, small in SMALLER.items():
        assert full in script
        script = script.replace(full, small)
    corpus = make_corpus()
    write_text(corpus, tmp_path / "corpus")
    for side in ("en", "fr"):
        tmp_path.joinpath(f"corpus/valid.{side}").rename(tmp_path / f"corpus/dev.{side}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    done = run("bash", "-euo", "pipefail", "-c", script)
    references = tmp_path.joinpath("corpus/test.fr").read_text(encoding="utf-8").splitlines()
    assert len(tmp_path.joinpath("test.fr").read_text(encoding="utf-8").splitlines()) == len(references)
    assert '"signature": "nrefs:1' in done.stdout
    assert len(re.findall(r"^D-0\t", done.stdout, re.MULTILINE)) == 2
    assert "Voici une phrase." in done.stdout  # found again in the memory
    first, *words = run(sys.executable, "-c", code_blocks("python")).stdout.splitlines()
    assert re.search(r"\['client\.mem:\d+", first)  # it has the sentence itself
    assert words and all(re.fullmatch(r".+: gate [01]\.\d\d, copied [01]\.\d\d", word) for word in words)
