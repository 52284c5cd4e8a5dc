"""The report as a page: complete, and nothing in a text can act."""

import base64
import hashlib
from pathlib import Path

import pytest

from fairseq_seg.evaluate.split import Split
from tests.corpus import Corpus
from tests.evaluate.running import Page, generated, run, write
from tests.stock import DECODING


def test_page_of_tm_alone(attached: Path, tmp_path: Path):
    run(attached, "--html", tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "TM" in page.texts["th"] and len(page.all("img")) == 1 and not page.all("article")


def test_page_without_gates(attached: Path, guesses: list[str], tmp_path: Path, corpus: Corpus):
    """Outputs alone give examples too, with the best pair beside them."""
    files = [write(tmp_path / "a", guesses), write(tmp_path / "b", [pair.target for pair in corpus.test])]
    run(attached, "--system", "NMT", files[0], "--system", "SEG", files[1], "--html", tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert len(page.all("article")) == 20 and page.texts["abbr"][:6] == ["S", "RS", "RT", "A", "B", "T"]
    assert "gate" not in {button["data-key"] for button in page.all("button")}


@pytest.fixture(scope="module")
def page(attached: Path, trained: Path, guesses: list[str], split: Split, tmp_path_factory) -> Page:
    """Return the whole report, with a hostile translation in it and gates of a real model."""
    folder = tmp_path_factory.mktemp("page")
    attack = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    nmt = write(folder / "nmt.txt", [attack, *guesses[1:]])
    seg = write(folder / "seg.gen", generated(split.sources, split.references))
    checkpoint = f"{trained / 'checkpoint_last.pt'} --memory-k 1 --cpu {' '.join(DECODING)}"
    arguments = ["--system", "NMT", nmt, "--system", "SEG <1>", seg, "--sweep", f"1={seg}", f"adaptive={seg}"]
    arguments += ["--log", "NMT", trained / "train.log", "--examples", checkpoint, "--figures", folder / "figures"]
    run(attached, *arguments, "--html", folder / "report.html")
    pictures = {path.name for path in (folder / "figures").iterdir()}
    assert {"bins-bleu.png", "bins-gain.svg", "pairs.svg", "training-loss.png"} <= pictures
    assert (folder / "figures" / "pairs.png").read_bytes().startswith(b"\x89PNG")
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_page_needs_and_runs_nothing_but_itself(page: Page):
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv"))
    assert policy.startswith("default-src 'none'; img-src data:;")
    for tag in ("style", "script"):
        [text] = page.texts[tag]
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert len(page.all("script")) == 1 and not page.all("link") and not page.all("iframe")
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in page.all("img"))
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.tags for name in attributes)
    assert all(link["href"].startswith("#") for link in page.all("a"))


def test_page_shows_systems_figures_and_examples(page: Page):
    assert [name for name in page.texts["th"] if name in ("TM", "NMT", "SEG <1>")].count("SEG <1>") == 3
    assert len(page.all("img")) == len(page.all("source")) >= 4
    examples = [attributes for tag, attributes in page.tags if tag == "div" and "data-gain" in attributes]
    gains = [float(example["data-gain"]) for example in examples]
    assert len(examples) == 20 and gains == sorted(gains, reverse=True)
    assert all(0 <= float(example["data-gate"]) <= 1 for example in examples)
    assert {(button["data-key"], button["data-order"]) for button in page.all("button")} >= {
        ("gain", "down"),
        ("gain", "up"),
        ("gate", "down"),
    }
