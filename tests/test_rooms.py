"""The rooms of the house: a room imports only from rooms that stand before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stock import ROOT

PACKAGE = ROOT / "fairseq_seg"
# From the ground up; rooms of one line may use each other.
ORDER = [
    {"errors"},
    {"files"},
    {"corpus"},
    {"documents"},
    {"retrieval"},
    {"store"},
    {"modules"},
    {"source"},
    {"cache"},
    {"data"},
    {"checkpoints"},
    {"averaging"},
    {"tasks", "models", "criterions"},
    {"explain"},
    {"translator"},
    {"localize"},
    {"evaluate"},
    {"recipes"},
    {"serve"},
    {"cli"},
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
# The package itself: the version, and Translator on request.
LEVEL["__init__"] = LEVEL["__main__"] = len(ORDER)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    """Name all modules that a file imports, also within functions, but not for type checking alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_has_its_place():
    assert {room_of(path) for path in FILES} == set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_from_rooms_before_its_own(path: Path):
    room = room_of(path)
    for module in imported_modules(path):
        if module.startswith("fairseq_seg."):
            other = module.split(".")[1]
            if other == "__version__":
                continue
            assert other == room or LEVEL[other] <= LEVEL[room], f"{room} imports {module}"
        assert not module.startswith(("preprocess", "fairseq_seg_preprocess")), f"{room} imports {module}"


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("corpus", {"torch", "fairseq"}),
        ("retrieval", {"torch", "fairseq"}),
        ("store", {"torch", "fairseq"}),
        ("documents", {"torch", "fairseq", "numpy", "lxml", "polib"}),
        ("localize", {"torch", "fairseq"}),
        ("source", {"torch", "fairseq"}),
        ("modules", {"fairseq"}),
    ],
)
def test_a_room_knows_nothing_of_heavier_libraries(room: str, forbidden: set[str]):
    for path in (PACKAGE / room).glob("*.py"):
        assert not {module.split(".")[0] for module in imported_modules(path)} & forbidden, path


def test_nor_does_it_import_them_indirectly():
    modules = [f"fairseq_seg.{path.parent.name}.{path.stem}" for path in FILES if room_of(path) in ("corpus", "source")]
    program = f"import sys, {', '.join(modules)}; assert not {{'torch', 'fairseq'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_contributors_map_lists_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for room in set(LEVEL) - {"__init__", "__main__"}:
        assert f"`fairseq_seg/{room}" in text, room
