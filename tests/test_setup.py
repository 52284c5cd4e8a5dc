"""The installation: what is missing is said in a sentence, and what was installed runs."""

import importlib.util
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import fairseq_seg

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


def test_translator_leaves_logging_to_its_caller(tmp_path):
    code = (
        "import logging; from fairseq_seg.translator import configure; configure(['data', '--path', 'model.pt'])\n"
        "import sys; assert 'fairseq' in sys.modules\n"
        "root = logging.getLogger(); assert (root.level, root.handlers) == (logging.WARNING, []), root"
    )
    run(sys.executable, "-c", code, cwd=tmp_path)


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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `pip install .` fills, without the requirements, which this environment has."""
    clone, folder = (tmp_path_factory.mktemp(name) for name in ("clone", "installed"))
    for name in ("fairseq_seg", "preprocess"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder), str(clone), cwd=clone)
    return folder


def test_pip_installs_every_module(installed: Path):
    for name, package in (("fairseq_seg", "fairseq_seg"), ("preprocess", "fairseq_seg_preprocess")):
        in_clone, there = (
            {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
            for folder in (ROOT / name, installed / package)
        )
        assert in_clone == there


def test_installed_commands_run_outside_the_clone(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(installed))
    assert run(sys.executable, "-m", "fairseq_seg", cwd=tmp_path).strip() == str(installed / "fairseq_seg")
    commands = {path.name for path in (installed / "bin").glob("seg-*")}
    table = re.findall(r"^\| `(seg-\w+)` \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands == set(table)
    for name in commands:
        assert run(str(installed / "bin" / name), "--version", cwd=tmp_path) == f"{name} {fairseq_seg.__version__}\n"


def test_pip_keeps_a_torch_for_cpus():
    """What pip installs asks for any torch that is new enough, so that it does not replace the one that is there."""
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert re.findall(r'"(torch.*)"', setup) == ["torch>=2.6"]
    assert SpecifierSet(">=2.6").contains("2.13.0+cpu")


def test_the_readme_names_every_extra():
    setup, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("setup.py", "docs/install.md"))
    for extra in re.findall(r'^ +"(\w+)": \[', setup.split("extras_require")[1].split("entry_points")[0], re.MULTILINE):
        assert f"`{extra}`" in readme, extra
