"""The installation: what is missing is said in a sentence, and what was installed runs."""

import importlib.util
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load_check():
    spec = importlib.util.spec_from_file_location("check", ROOT / "requirements/check.py")
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    return check


def run(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def test_old_python_is_refused():
    assert "3.11 or newer is needed, this is 3.9" in load_check().missing(version=(3, 9, 2))


def test_missing_compilers_and_headers_are_named(tmp_path, monkeypatch):
    check = load_check()
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fairseq" else find_spec(name))
    include = tmp_path / "include"
    include.mkdir()

    def add(path: Path) -> None:
        path.touch(mode=0o755)

    for advice, provided in [
        ("install gcc", tmp_path / "gcc"),
        ("install g++", tmp_path / "g++"),
        ("install Python's headers", include / "Python.h"),
    ]:
        assert advice in check.missing(path=str(tmp_path), include=str(include))
        add(provided)
    assert check.missing(path=str(tmp_path), include=str(include)) is None


def test_user_dir_is_printed_from_any_folder(tmp_path):
    printed = Path(run(sys.executable, "-m", "fairseq_seg", cwd=tmp_path).strip())
    assert (printed / "__init__.py").is_file() and printed.name == "fairseq_seg"


def test_import_is_light(tmp_path):
    code = "import fairseq_seg, sys; print(*{'torch', 'fairseq', 'numpy', 'jnius'} & set(sys.modules))"
    assert run(sys.executable, "-c", code, cwd=tmp_path).strip() == ""


@pytest.mark.parametrize(
    "script", [s for s in entry_points(group="console_scripts") if s.name.startswith("seg-")], ids=lambda s: s.name
)
def test_help_answers_without_heavy_imports(script, tmp_path):
    code = (
        "import sys; from importlib.metadata import entry_points\n"
        f"main = entry_points(group='console_scripts')['{script.name}'].load()\n"
        f"sys.argv = ['{script.name}', '--help']\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "heavy = {'torch', 'fairseq', 'pandas', 'jnius'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    assert script.name in run(sys.executable, "-c", code, cwd=tmp_path)
