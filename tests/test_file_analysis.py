"""Match bands before the work, and checks of translations after it; no model is loaded for either."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.cli import translate as seg_translate
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.documents.segment import Segment
from fairseq_seg.localize.analysis import BANDS, band_of
from fairseq_seg.localize.quality import check_segment
from fairseq_seg.store.store import TranslationMemory
from tests.attached_corpus import prepare
from tests.corpus import SOURCE, TARGET, Corpus, make_corpus


@pytest.fixture(scope="module")
def small() -> Corpus:
    return make_corpus(seed=4, groups=30, held_out=5)


@pytest.fixture(scope="module")
def model(small: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder whose model nobody needs."""
    attached = prepare(small, tmp_path_factory.mktemp("analysis"))
    (attached.parent / "checkpoint.pt").touch()
    return ModelFolder.create(attached.parent / "model", DataBin(attached), attached.parent / "checkpoint.pt").path


def run(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    seg_translate.main([*map(str, arguments)])
    return capsys.readouterr().out


def literal_band(text: str, memory: list[str]) -> str:
    """Compute the band of a text from its words and all sources, one by one."""

    def distance(one: list[str], other: list[str]) -> int:
        row = list(range(len(other) + 1))
        for i, word in enumerate(one, 1):
            diagonal, row[0] = row[0], i
            for j, candidate in enumerate(other, 1):
                diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != candidate))
        return row[-1]

    words = text.split()
    best = max(1 - distance(words, other.split()) / max(len(words), len(other.split())) for other in memory)
    return band_of(int(best * 100 + 1e-6))


@pytest.mark.parametrize(
    ("score", "band"),
    [
        (100, "100 %"),
        (99, "95-99 %"),
        (95, "95-99 %"),
        (94, "85-94 %"),
        (84, "75-84 %"),
        (74, "50-74 %"),
        (49, "no match"),
    ],
)
def test_bands(score, band):
    assert band_of(score) == band


def test_bands_are_those_of_a_literal_search(small, model, tmp_path, capsys):
    memory = [pair.source for pair in small.train]
    texts = [pair.source for pair in small.test] + memory[:3] + [memory[0] + " " + memory[1], "nothing like it"]
    (tmp_path / "a.txt").write_text("\n".join([*texts, texts[0], texts[1]]))
    (tmp_path / "b.tsv").write_text(f"{texts[0]}\tfait\n{texts[2]}\nnew words here\n")
    found = json.loads(run(capsys, model, tmp_path / "a.txt", tmp_path / "b.tsv", "--analyse", "--json"))
    first, second = found["files"]
    expected = [literal_band(text, memory) for text in texts]
    assert {band: first[band]["segments"] for band in BANDS[1:]} == {band: expected.count(band) for band in BANDS[1:]}
    assert first["repetitions"]["segments"] == 2 and second["repetitions"]["segments"] == 1
    assert first["to translate"]["words"] == sum(len(text.split()) for text in [*texts, texts[0], texts[1]])
    assert second["not to translate"] == {
        "segments": 1,
        "words": len(texts[0].split()),
        "characters": len(texts[0].replace(" ", "")),
    }
    assert found["all"]["to translate"]["segments"] == len(texts) + 2 + 2
    assert found["all"]["no match"]["segments"] == first["no match"]["segments"] + 1


def test_memories_and_penalties_count(small, model, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("words of nobody\n")
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, model) as memory:
        memory.add(small.test[0].source, "un")
    (tmp_path / "a.txt").write_text(small.test[0].source)

    def band(memories: str) -> str:
        found = json.loads(run(capsys, model, tmp_path / "a.txt", "--analyse", "--json", "--memory", memories))
        [band] = [band for band in BANDS if found["all"][band]["segments"]]
        return band

    own = str(tmp_path / "own.mem")
    assert band(f"{own},train") == "100 %" and band(f"{own}:0.05") == "95-99 %" and band(f"{own}:0.2") == "75-84 %"
    assert band("train") == literal_band(small.test[0].source, [pair.source for pair in small.train])


def test_the_analysis_as_text_and_page(small, model, tmp_path, capsys):
    (tmp_path / "a<b.txt").write_text(small.test[0].source)
    text = run(capsys, model, tmp_path / "a<b.txt", "--analyse", "--html", tmp_path / "page.html")
    assert text.splitlines()[0].endswith("a<b.txt") and "\nto translate              1 " in text
    page = (tmp_path / "page.html").read_text()
    assert "a&lt;b.txt" in page and page.count("<article") == 2 and "95-99 %" in page


def test_neither_needs_torch(model, tmp_path):
    (tmp_path / "a.txt").write_text("word\n")
    for work in ("--analyse", "--qa"):
        arguments = [str(model), str(tmp_path / "a.txt"), work]
        program = (
            f"import sys; from fairseq_seg.cli.translate import main\ntry: main({arguments})"
            "\nexcept SystemExit: pass\nassert not {'torch', 'fairseq'} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120, capture_output=True)


NOTATIONS = notation_of("en"), notation_of("fr")


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("Save %s", "Enregistrer %s", []),
        ("Save %s", "Enregistrer", [("lost placeholder", False)]),
        ("Press <g1>F1</g1>", "Appuyez sur F1", [("lost tag", False), ("lost tag", False)]),
        ("Save", "", [("empty", False)]),
        ("Save it", "Save it", [("identical", True)]),
        ("12 pages", "13 pages", [("wrong number", False), ("missing number", True)]),
        ("a" * 30, "b" * 120, [("length", True)]),
        ("a" * 3, "b" * 12, []),
    ],
)
def test_what_is_found_in_a_segment(source, target, found):
    findings = list(check_segment("f", Segment("1", 1, source, target), NOTATIONS, {}))
    assert [(finding.kind, finding.doubt) for finding in findings] == found


def test_what_must_not_be_translated_is_not_checked():
    assert not list(check_segment("f", Segment("1", 1, "Save %s", "", locked="no"), NOTATIONS, {}))


def test_the_check_lists_faults_and_fails_on_them(model, tmp_path, capsys):
    good, bad = tmp_path / "good.tsv", tmp_path / "bad.tsv"
    good.write_text("Open\tOuvrir\nClose it\tFermer\n")
    bad.write_text("Open\tFaire\n12 files\t13 fichiers\n")
    assert "2 segments checked: 0 faults, 0 doubts" in run(capsys, model, good, "--qa")
    with pytest.raises(SystemExit) as stop:
        run(capsys, model, good, bad, "--qa")
    out = capsys.readouterr().out
    assert stop.value.code == 1
    assert f"{bad}:1: 1: doubt: inconsistent {good}:1 has: Ouvrir" in out and f"{bad}:2: 2: wrong number 13" in out
    assert "4 segments checked: 1 faults, 2 doubts" in out
    with pytest.raises(SystemExit):
        run(capsys, model, bad, "--qa", "--json")
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(finding["id"], finding["kind"]) for finding in found] == [("2", "wrong number"), ("2", "missing number")]
