"""The README and the pages in docs/: their commands and their Python run as written, with smaller sizes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.corpus import make_corpus, write_text

ROOT = Path(__file__).parent.parent
# In the order in which a reader follows them: each page continues in the folder that the pages before it left.
PAGES = ["README.md", "docs/memory.md", "docs/files.md", "docs/cache.md", "docs/later_file.md"]
SMALLER = {
    "--vocab-size 8000": "--vocab-size 150",
    "--max-update 20000": "--max-update 20 --hidden-size 32 --embed-dim 32 --cpu",
    "--beam 5": "--beam 2 --max-len-b 10 --cpu",
    "--user-dir fairseq_seg": f"--user-dir {ROOT}/fairseq_seg",
}
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def code_blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each code block that is to be run."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, code) for _, language, code in blocks if language in ("bash", "python")]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_commands_and_the_python_run(tmp_path: Path) -> None:
    commands = "".join(code for page in PAGES for language, code in code_blocks(ROOT / page) if language == "bash")
    assert all(full in commands for full in SMALLER)
    write_text(make_corpus(), tmp_path / "corpus")
    for side in ("en", "fr"):
        tmp_path.joinpath(f"corpus/valid.{side}").rename(tmp_path / f"corpus/dev.{side}")
        tmp_path.joinpath(f"later.{side}").write_bytes(tmp_path.joinpath(f"corpus/dev.{side}").read_bytes())
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}

    def run(language: str, code: str) -> str:
        for full, small in SMALLER.items():
            code = code.replace(full, small)
        interpreter = [sys.executable, "-c"] if language == "python" else ["bash", "-euo", "pipefail", "-c"]
        done = subprocess.run([*interpreter, code], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        return done.stdout

    printed = {
        (page, language): "".join(run(*block) for block in code_blocks(ROOT / page) if block[0] == language)
        for page in PAGES
        for language in ("bash", "python")
    }
    references = tmp_path.joinpath("corpus/test.fr").read_text(encoding="utf-8").splitlines()
    assert len(tmp_path.joinpath("test.fr").read_text(encoding="utf-8").splitlines()) == len(references)
    assert '"signature": "nrefs:1' in printed["README.md", "bash"]
    for page in ("README.md", "docs/memory.md"):
        assert len(re.findall(r"^D-0\t", printed[page, "bash"], re.MULTILINE)) == 1
    first, *words = printed["README.md", "python"].splitlines()
    assert re.search(r"\['train:\d+", first)
    assert words and all(re.fullmatch(r".+: gate [01]\.\d\d, copied [01]\.\d\d", word) for word in words)
    assert "Voici une phrase." in printed["docs/memory.md", "bash"]  # found again in the memory
    assert re.search(r"\['client\.mem:\d+", printed["docs/memory.md", "python"])  # the memory has an exact match
    assert "type: fp16" in printed["docs/cache.md", "bash"]
    assert "messages.fr.po: 2 segments, 1 translated" in printed["docs/files.md", "bash"]
    assert "\nto translate              1 " in printed["docs/files.md", "bash"]
    assert "2 segments checked: 0 faults" in printed["docs/files.md", "bash"]
    later = printed["docs/later_file.md", "bash"]
    assert "memory: 400 pairs of data-bin\n" in later and "verdict: a memory" in later and "\nSEG " in later
    assert len(re.findall(r"^H-", (tmp_path / "later.out").read_text(), re.MULTILINE)) == 40
    cached, uncached = (len((tmp_path / name).read_text().splitlines()) for name in ("cached.out", "test.out"))
    assert cached == uncached


def test_the_file_for_hydra_trains_as_printed(data_bin: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/options.md").read_text(encoding="utf-8")
    [settings] = (code for _, language, code in BLOCK.findall(page) if language == "yaml")
    [command] = (code for _, _, code in BLOCK.findall(page) if code.startswith("fairseq-hydra-train"))
    (tmp_path / "seg.yaml").write_text(settings)
    (tmp_path / "fairseq_seg").symlink_to(ROOT / "fairseq_seg")
    shutil.copytree(data_bin, tmp_path / "data-bin", ignore=shutil.ignore_patterns("*.memory", "index.*"))
    smaller = ["+model.hidden_size=8", "+model.embed_dim=8", "optimization.max_update=1", "common.cpu=true"]
    scripts = Path(sys.executable).parent
    subprocess.run([scripts / "seg-attach", "data-bin"], cwd=tmp_path, check=True, capture_output=True)
    train = [scripts / command.split()[0], *command.split()[1:], *smaller]
    done = subprocess.run(train, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "checkpoints/checkpoint_last.pt").exists()


def test_every_page_with_commands_is_run() -> None:
    pages = [ROOT / "README.md", *ROOT.joinpath("docs").glob("*.md")]
    assert {str(page.relative_to(ROOT)) for page in pages if code_blocks(page)} == set(PAGES)


def test_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.joinpath("docs").glob("*.md"), *ROOT.joinpath("examples").glob("*/README.md")]
    for page in pages:
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), f"{page}: {link}"
            assert not anchor or anchor in anchors(target), f"{page}: {link}"
