"""The corpus example, on small help packages and texts that the tests make."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.recipes.parallel import FULL, Pair, is_translation

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "libreoffice_help"
sys.path.insert(0, str(EXAMPLE))
import help_pages  # noqa: E402  (the example is a folder of scripts, not a package)
import prepare  # noqa: E402

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NOMBRES = ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"]


def run_prepare(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, EXAMPLE / "prepare.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def build_package(folder: Path, language: str, pages: dict[str, str]) -> Path:
    root = folder / language
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: help-{language}\nVersion: 1\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: help\n"
    )
    for name, html in pages.items():
        page = root / "usr/share/libreoffice/help" / language / "text" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html, encoding="utf-8")
    package = folder / f"{language}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, package], check=True, capture_output=True)
    return package


def test_paragraphs_are_read_by_id():
    html = (
        '<h1 id="hd_1">Open &amp; <em>save</em></h1><p id="par_2" class="code">x = 1</p><p class="note">no id</p>'
        '<p id="par_3">First<br>second\n  line</p>'
    )
    assert help_pages.paragraphs(html) == {"hd_1": "Open & save", "par_3": "First second line"}


def test_one_variant_of_a_phrase_is_read():
    variants = (
        '<span class="switchinline"><span hidden="true" id="MACa1" class="MAC"><span>Command</span></span>'
        '<span hidden="true" id="defaulta1">Ctrl</span></span>'
    )
    no_default = (
        '<span class="switchinline"><span hidden="true" id="WRITERa2">text</span>'
        '<span hidden="true" id="CALCa2">sheet</span></span>'
    )
    html = f'<p id="par_1">Press <span class="emph">{variants}+P</span> in the {no_default}.</p>'
    assert help_pages.paragraphs(html) == {"par_1": "Press Ctrl+P in the text."}


def test_paragraphs_are_split_only_where_both_sides_agree():
    two = ("Open it. Close it.", "Ouvrez. Fermez.")
    assert list(prepare.sentences(*two)) == [("Open it.", "Ouvrez."), ("Close it.", "Fermez.")]
    unlike = ("Open it. Close it.", "Ouvrez et fermez.")
    assert list(prepare.sentences(*unlike)) == [unlike]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Insert a row here", "Insert a row here"),
        ("Yes", "Oui"),
        ("12 + 3", "12 + 4"),
        ("Insert a row", "Insère " + "une " * 20 + "ligne"),
        ("very " * 81 + "long", "très " * 81 + "long"),
    ],
    ids=["untranslated", "too short", "no word", "unlike lengths", "too long"],
)
def test_bad_pairs_are_left_out(source, target):
    assert not is_translation(source, target, FULL)
    assert is_translation("Insert a row here", "Insérer une ligne ici", FULL)


def test_best_match_is_another_sentence():
    memory = ["open the file now", "open the door now", "something else"]
    assert prepare.nearest_scores(memory[:1], memory) == [0.75]
    assert prepare.nearest_scores(["open the file today"], memory) == [0.75]


def test_subset_takes_the_pages_that_repeat_each_other():
    repeating = [Pair(f"insert the row number {n}", "t", page) for n, page in zip(NUMBERS, "aabbaabbaa", strict=True)]
    alone = [Pair(" ".join(f"{n}{i}" for i in range(5)), "t", "c") for n in NUMBERS]
    assert prepare.repetitive_pages(alone + repeating, limit=10) == repeating


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb builds the packages of this test")
def test_packages_become_a_corpus(tmp_path):
    def pages(template: str, numbers: list[str]) -> dict[str, str]:
        # Page b repeats page a: its pairs may not come twice. The last paragraph has no partner.
        html = "".join(f'<p id="par_{i}">{template.format(a, b)}</p>' for i, (a, b) in enumerate(product(numbers)))
        return {"swriter/a.html": html, "swriter/b.html": html + f'<p id="par_{template[:3]}">{template}</p>'}

    def product(numbers: list[str]) -> list[tuple[str, str]]:
        return [(a, b) for a in numbers for b in numbers]

    packages = [
        build_package(tmp_path, "en-US", pages("Row {} is below row {}.", NUMBERS)),
        build_package(tmp_path, "fr", pages("La ligne {} est sous la ligne {}.", NOMBRES)),
    ]
    first = run_prepare("--deb", *packages, "--output", tmp_path / "first")
    assert first.returncode == 0, first.stderr
    assert "| train | 80 |" in first.stdout

    french = dict(zip(NUMBERS, NOMBRES, strict=True))
    sources = []
    for name in ("train", "dev", "test"):
        texts = [(tmp_path / "first" / f"{name}.{lang}").read_text().splitlines() for lang in ("en", "fr")]
        for source, target in zip(*texts, strict=True):
            a, b = (french[word.rstrip(".")] for word in (source.split()[1], source.split()[-1]))
            assert target == f"La ligne {a} est sous la ligne {b}."
        sources += texts[0]
    assert len(sources) == len(set(sources)) == 100

    run_prepare("--deb", *packages, "--output", tmp_path / "second")
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()
    again = run_prepare("--deb", tmp_path / "gone", tmp_path / "gone", "--output", tmp_path / "first")
    assert again.returncode == 0 and "is kept" in again.stdout


def test_text_of_ones_own_becomes_a_corpus(tmp_path):
    for lang, verb, numbers in (("en", "insert the row", NUMBERS), ("fr", "insérer la ligne", NOMBRES)):
        lines = [f"{verb} {a} {b}" for a in numbers for b in numbers]
        (tmp_path / f"own.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = run_prepare("--corpus", tmp_path / "own", "--subset", "--output", tmp_path / "out")
    assert made.returncode == 0, made.stderr
    counts = {path.name: len(path.read_text().splitlines()) for path in (tmp_path / "out").iterdir()}
    assert [counts[f"{name}.{lang}"] for name in ("train", "dev", "test") for lang in ("en", "fr")] == [
        80,
        80,
        10,
        10,
        10,
        10,
    ]


def assert_refused(run: subprocess.CompletedProcess, *words: str) -> None:
    assert run.returncode == 1
    assert len(run.stderr.strip().splitlines()) == 1, run.stderr
    for word in words:
        assert word in run.stderr


def test_bad_input_is_refused_in_a_sentence(tmp_path):
    output = ("--output", tmp_path / "out")
    (tmp_path / "odd.en").write_text("insert a row\nremove a row\n")
    assert_refused(run_prepare("--corpus", tmp_path / "odd", *output), "odd.fr cannot be read: No such file")
    (tmp_path / "odd.fr").write_text("insérer une ligne\n")
    assert_refused(run_prepare("--corpus", tmp_path / "odd", *output), "2 and 1 lines")
    (tmp_path / "odd.fr").write_text("insérer une ligne\nsupprimer une ligne\n")
    assert_refused(run_prepare("--corpus", tmp_path / "odd", *output), "2 usable pairs")
    (tmp_path / "odd.fr").write_bytes("insérer\n".encode("latin-1"))
    assert_refused(run_prepare("--corpus", tmp_path / "odd", *output), "odd.fr: line 1 is not UTF-8")
    assert not (tmp_path / "out").exists()


def test_without_apt_the_ways_out_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"apt-get.* not found.*--deb .*--corpus PREFIX"):
        help_pages.fetch_package("fr", tmp_path / "data")


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs an apt-get that fails")
def test_a_package_that_apt_cannot_find_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"libreoffice-help-tlh \(E: .*apt-get update.*--deb .*--corpus PREFIX"):
        help_pages.fetch_package("tlh", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []
