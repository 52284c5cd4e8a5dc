"""seg-evaluate on the generated corpus: figures that are known beforehand, every kind of system, and bad input."""

import base64
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
from sacremoses import MosesTokenizer

from fairseq_seg.cli import evaluate
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate import figures, systems
from fairseq_seg.evaluate.curves import read_curve
from fairseq_seg.evaluate.decode import kept_path, run_kept
from fairseq_seg.evaluate.examples import choose, from_explanations, locate
from fairseq_seg.evaluate.figures import DARK, LIGHT, drawings, render
from fairseq_seg.evaluate.outputs import Output, System, read_output
from fairseq_seg.evaluate.report import Report
from fairseq_seg.evaluate.scores import moses_tokenize, paired_bootstrap, score_systems
from fairseq_seg.evaluate.split import Split, load_split
from fairseq_seg.evaluate.table import headline
from preprocess import attach
from tests.corpus import SECRET_WORDS, TARGET, Corpus
from tests.stock import DECODING, PLUGIN, TRAINING, hypotheses, run_stock


@pytest.fixture(scope="module")
def attached(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data-bin after seg-attach, with the reference text `test.fr` beside it."""
    ignored = shutil.ignore_patterns("*.memory", "*.lucene")
    folder = shutil.copytree(data_bin, tmp_path_factory.mktemp("evaluate") / "data-bin", ignore=ignored)
    shutil.copy(data_bin.with_name("text") / f"test.{TARGET}", folder.with_name("test.fr"))
    attach.main([str(folder)])
    return folder


@pytest.fixture(scope="module")
def split(attached: Path) -> Split:
    return load_split(attached, "test", references=attached.with_name("test.fr"))


@pytest.fixture(scope="module")
def guesses(corpus: Corpus) -> list[str]:
    """What a translator without memory does: all words right but the secret one."""
    rng = random.Random(1)
    return [pair.target.replace(pair.secret, rng.choice(SECRET_WORDS)) for pair in corpus.test]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def generated(sources: list[str], translations: list[str]) -> list[str]:
    """Lines as fairseq-generate prints them: in an order of its own, the two best of each sentence."""
    lines = []
    for index in random.Random(2).sample(range(len(sources)), len(sources)):
        lines += [f"S-{index}\t{sources[index]}", f"T-{index}\tnot looked at"]
        for score, text in ((-0.1, translations[index]), (-0.2, "second best")):
            lines += [f"H-{index}\t{score}\t{text} tokenized", f"D-{index}\t{score}\t{text}", f"P-{index}\t-0.1"]
    return lines


def run(attached: Path, *arguments: object) -> None:
    references = ["--references", attached.with_name("test.fr")]
    evaluate.main([str(argument) for argument in (attached, *references, *arguments)])


# ---------------------------------------------------------------------------------------------------------- scores


def test_table_of_known_systems(attached: Path, corpus: Corpus, guesses: list[str], tmp_path: Path, capsys):
    targets = [pair.target for pair in corpus.test]
    nmt, seg = write(tmp_path / "nmt.txt", guesses), write(tmp_path / "seg.txt", targets)
    run(attached, "--system", "NMT", nmt, "--system", "SEG K=1", seg, "--json", tmp_path / "report.json")
    text, report = capsys.readouterr().out, json.loads((tmp_path / "report.json").read_text())
    memory, plain, guided = report["systems"]
    assert [memory["name"], plain["name"], guided["name"]] == ["TM", "NMT", "SEG K=1"]
    assert guided["bleu"] == guided["moses_bleu"] == [pytest.approx(100)] and guided["chrf"] == [pytest.approx(100)]
    assert plain["bleu"] == [pytest.approx(sacrebleu.corpus_bleu(guesses, [targets]).score)]
    assert plain["chrf"] == [pytest.approx(sacrebleu.corpus_chrf(guesses, [targets]).score)]
    assert guided["p_value"] < 0.01 and plain["p_value"] is None
    assert report["baseline"] == "NMT" and report["sentences"] == guided["sentences"] == len(targets)
    assert sum(bin["sentences"] for bin in report["bins"]) == len(targets)
    assert memory["pairs"] == 1 and guided["pairs"] is None
    gain = 100 - plain["bleu"][0]
    assert re.search(rf"SEG K=1 +100\.0 +0\.0 +\+{gain:.1f} +≤ 0\.001 ", text)
    assert f"all {len(targets)} sentences of every system checked against test.fr" in text
    assert "tok:13a" in text and "tok:none" in text and "retrieval: engine:lucene" in text


def test_bins_are_those_of_the_best_pair(split: Split, corpus: Corpus, capsys):
    """Where a bin's sentences are all wrong, its BLEU is 0 and that of the others is whole."""
    best_bin = int(np.bincount(split.bins).argmax())
    lines = ["x y z w" if bin == best_bin else target for bin, target in zip(split.bins, split.references, strict=True)]
    [scored] = score_systems(split, [System("TM", [Output(lines)])], "TM").systems
    assert scored.bin_bleu.keys() == set(split.bins.tolist())
    assert all(bleu == pytest.approx(0 if bin == best_bin else 100) for bin, bleu in scored.bin_bleu.items())


def test_empty_bins_are_said(attached: Path, split: Split, capsys):
    run(attached)
    text = capsys.readouterr().out
    empty = text.split("No sentence, and so no score, in: ")[1].split(".\n")[0]
    assert {"no pair", "0.0–0.1"} <= set(empty.split(", "))
    counted = re.findall(r"^(\d\.\d–\d\.\d|1\.0) +(\d+) ", text, re.MULTILINE)
    assert sum(int(count) for _, count in counted) == len(split)
    assert not {name for name, _ in counted} & set(empty.split(", "))


def test_several_seeds(split: Split, guesses: list[str]):
    """The mean is shown with its range, and the p value is that of the worst pair of runs."""
    half = [*split.references[:20], *guesses[20:]]
    nmt, seg = System("NMT", [Output(guesses), Output(half)]), System("SEG", [Output(split.references), Output(half)])
    tested, _ = paired_bootstrap(nmt, [seg], split.references)
    assert tested["SEG"][1] == 1  # half against half
    tested, _ = paired_bootstrap(System("NMT", nmt.runs[:1]), [seg], split.references)
    assert tested["SEG"][1] < 0.05
    scores = score_systems(split, [nmt, seg], "NMT")
    assert len(scores.systems[1].bleu) == 2
    table = headline(scores)
    low, high = sorted(scores.systems[1].bleu)
    assert table.rows[1][-1] == f"2: {low:.1f}–{high:.1f}" and table.rows[1][1] == f"{(low + high) / 2:.1f}"


def test_moses_tokens():
    line = "L'autorité (no 12/2005) décide: «oui», etc."
    [tokens] = moses_tokenize([line], "fr")
    assert tokens == MosesTokenizer("fr").tokenize(line, return_str=True, escape=False)
    assert tokens.startswith("L' autorité ( no 12 / 2005 )")


# ---------------------------------------------------------------------------------------------------------- outputs


def test_output_of_generate_equals_text(split: Split, guesses: list[str], tmp_path: Path):
    log = [
        "memory: K=2, select=topk, engine:x | valid: 1.00 pairs a sentence, 0 sentences without",
        "memory: K=2, select=topk, engine:x | test: 1.85 pairs a sentence, 0 sentences without",
        "Translated 40 sentences (421 tokens) in 2.0s (20.25 sentences/s, 210.50 tokens/s)",
    ]
    path = write(tmp_path / "nmt.gen", generated(split.sources, guesses))
    assert read_output(path, split) == Output(guesses, None, None)
    write(tmp_path / "nmt.err", log)
    assert read_output(path, split) == Output(guesses, 1.85, 20.25)
    assert read_output(write(tmp_path / "nmt.txt", guesses), split).lines == guesses


@pytest.mark.parametrize(("subword", "cut"), [("sentencepiece", "▁{0}x"), ("@@", "{0}@@ x")])
def test_subwords_left_in_an_output_are_undone(split: Split, guesses: list[str], tmp_path: Path, subword, cut):
    lines = [" ".join(cut.format(word) for word in line.split()) for line in guesses]
    whole = [" ".join(f"{word}x" for word in line.split()) for line in guesses]
    other = Split(**(vars(split) | {"subword": subword}))
    assert read_output(write(tmp_path / "cut.txt", lines), other).lines == whole
    assert read_output(write(tmp_path / "cut.gen", generated(split.sources, lines)), other).lines == whole


def test_output_that_is_not_of_the_whole_split_is_refused(split: Split, guesses: list[str], tmp_path: Path):
    path = tmp_path / "bad.gen"
    lines = generated(split.sources, guesses)
    for bad, message in (
        (guesses[:-1], r"has 39 lines but test has 40 sentences; give one line a sentence"),
        ([line for line in lines if "-17\t" not in line], r"39 of the 40 sentences of test, and sentence 17 is not"),
        ([*lines, "H-40\t-1\tx", "D-40\t-1\tx"], r"translates 41 sentences but test has 40; it is of another split"),
        (generated(split.sources[::-1], guesses), r"translates other sentences than test has \(sentence \d+ differs\)"),
        ([], r"has 0 lines but test has 40"),
    ):
        with pytest.raises(SegError, match=message):
            read_output(write(path, bad), split)
    with pytest.raises(SegError, match=r"none.gen cannot be read: No such file"):
        read_output(tmp_path / "none.gen", split)


def test_wrong_references_are_refused(attached: Path, split: Split, tmp_path: Path):
    for lines, message in (
        (split.references[1:], "has 39 lines but test has 40 sentences; give the text that the split was made from"),
        (split.references[::-1], "has little in common with the target side of test"),
        (split.sources, "has little in common with the target side of test"),
    ):
        with pytest.raises(SegError, match=message):
            load_split(attached, "test", references=write(tmp_path / "wrong.fr", lines))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "NMT"], "--system NMT names no file"),
        (["--system", "NMT", "a", "--system", "NMT", "b"], "Two systems are called NMT"),
        (["--system", "TM", "a"], "Two systems are called TM"),
        (["--baseline", "NMT"], "--baseline NMT is none of the systems: TM."),
        (["--system", "NMT", "none.pt --memory-k 0"], "The checkpoint none.pt cannot be read: No such file"),
        (["--sweep", "two=a.gen"], "--sweep two=a.gen is neither K=OUTPUT"),
        (["--split", "test2"], "has no split 'test2'"),
        (["--html", "no/where.html"], "where.html cannot be written: make its folder first"),
        (["--log", "NMT", evaluate.__file__], "no figures of a training run"),
        (["--examples", "a.jsonl"], "--examples compares a system with the baseline"),
    ],
)
def test_bad_command_lines(attached: Path, arguments: list[str], message: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SegError) as stop:
        run(attached, *arguments)
    assert message in str(stop.value) and "\n" not in str(stop.value)


def test_data_without_memory_is_refused(data_bin: Path, tmp_path: Path):
    folder = shutil.copytree(data_bin, tmp_path / "data-bin", ignore=shutil.ignore_patterns("*.memory"))
    with pytest.raises(SegError, match="test.en-fr.memory does not exist: run seg-attach"):
        evaluate.main([str(folder)])


# ------------------------------------------------------------------------------------------------------ checkpoints


def test_checkpoints_are_decoded_once(attached: Path, trained: Path, split: Split, tmp_path: Path, monkeypatch):
    checkpoint, options = trained / "checkpoint_last.pt", [*DECODING, "--cpu"]
    monkeypatch.setattr(systems, "SWEEP", {"1": ["--memory-k", "1"]})
    given = " ".join(map(str, [checkpoint, *options]))
    arguments = ["--system", "NMT", f"{given} --memory-k 0", "--sweep", given, "--json", tmp_path / "report.json"]
    run(attached, *arguments)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "report.outputs").iterdir()}
    assert sorted(path.suffix for path in kept) == [".gen", ".gen", ".log", ".log"]
    expected = hypotheses(run_stock("generate", attached, *PLUGIN, *options, "--beam", 5, "--path", checkpoint))
    [path] = (path for path in kept if "memory-k-0" in path.name and path.suffix == ".gen")
    assert read_output(path, split).lines == [expected[index][0] for index in range(len(split))]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["systems"][1]["pairs"] == 0 and report["sweep"][0]["pairs"] == 1
    assert report["systems"][1]["speed"] > 0
    run(attached, *arguments)
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "report.outputs").iterdir()}


def test_a_translation_is_kept_for_one_memory_only(split: Split, tmp_path: Path):
    checkpoint = write(tmp_path / "seg.pt", [])
    other = Split(**(vars(split) | {"memory": "other"}))
    kept, again = (kept_path(tmp_path, checkpoint, [], part, ".gen") for part in (split, other))
    assert kept != again
    write(kept, ["old"])
    run_kept("this", [], kept, b"\n", 1, "SEG")
    assert kept.read_text() == "old\n"
    run_kept("this", ["--memory", "client.mem"], kept, b"\n", 1, "SEG")  # which may have grown
    assert kept.read_text() != "old\n"


def test_a_checkpoint_in_a_folder_with_a_blank(tmp_path: Path):
    checkpoint = tmp_path / "my results" / "seg.pt"
    checkpoint.parent.mkdir()
    write(checkpoint, [])
    assert systems.parse_checkpoint(str(checkpoint)) == (checkpoint, [])
    assert systems.parse_checkpoint(f"'{checkpoint}' --memory-k 2") == (checkpoint, ["--memory-k", "2"])


@pytest.mark.parametrize("same_size", [False, True])
def test_checkpoint_of_another_dictionary(attached: Path, trained: Path, tmp_path: Path, same_size: bool):
    folder = shutil.copytree(attached, tmp_path / "data-bin")
    dictionary = folder / f"dict.{TARGET}.txt"
    lines = dictionary.read_text(encoding="utf-8").splitlines()
    lines = [lines[1], lines[0], *lines[2:]] if same_size else [*lines, "another 1"]
    write(dictionary, lines)
    shutil.copy(attached.with_name("test.fr"), tmp_path)
    checkpoint = f"{trained / 'checkpoint_last.pt'} --memory-k 0 --cpu"
    with pytest.raises(SegError) as stop:
        run(folder, "--system", "NMT", checkpoint, "--json", tmp_path / "r.json")
    message = str(stop.value)
    assert message.startswith("NMT could not be translated: ") and "dictionar" in message and "\n" not in message
    assert not list((tmp_path / "r.outputs").glob("*.gen*"))


# ------------------------------------------------------------------------------------------------- training curves


def test_curves_in_both_formats(data_bin: Path, tmp_path: Path):
    curves = {}
    for form in ("simple", "json"):
        options = ["--max-epoch", 2, "--log-interval", 4, "--no-save", "--log-format", form]
        log = write(tmp_path / form, [run_stock("train", data_bin, *PLUGIN, *TRAINING, *options)])
        curves[form] = read_curve("NMT", [log])
    simple, logged = curves["simple"], curves["json"]
    assert len(simple.train["nll_loss"]) > 2 and len(simple.valid["nll_loss"]) == 2
    assert simple.valid == logged.valid and simple.train == logged.train


def test_restarted_training(tmp_path: Path):
    lines = [
        "epoch 001:     10 / 99 loss=6, nll_loss=5, gate=0.2, lambda=0.1, num_updates=10, lr=0.001",
        "epoch 001:     20 / 99 loss=6, nll_loss=4, gate=0.3, lambda=0.2, num_updates=20, lr=0.001",
        "epoch 001:     20 / 99 loss=6, nll_loss=3, gate=0.4, lambda=0.2, num_updates=20, lr=0.001",
        "epoch 001 | valid on 'valid' subset | loss 6 | nll_loss 3.5 | bleu 12.25 | num_updates 20 | best_loss 3.5",
        "epoch 001 | valid on 'valid1' subset | nll_loss 9 | num_updates 20",
        "epoch 001:     30 / 99 lo",
    ]
    curve = read_curve("SEG", [write(tmp_path / "log", lines)])
    assert curve.train == {"nll_loss": {10: 5, 20: 3}, "gate": {10: 0.2, 20: 0.4}, "lambda": {10: 0.1, 20: 0.2}}
    assert curve.valid == {"nll_loss": {20: 3.5}, "bleu": {20: 12.25}}


# ------------------------------------------------------------------------------------------------- examples and page


def test_choice_of_examples():
    gains = np.random.default_rng(1).normal(size=100)
    chosen = choose(gains, np.arange(100.0))
    assert len(set(chosen)) == 20
    assert chosen[:6] == np.argsort(-gains)[:6].tolist() and set(chosen[6:12]) == set(np.argsort(gains)[:6].tolist())
    assert max(np.diff(sorted(chosen[12:]))) < 25  # the rest is spread
    assert sorted(choose(gains[:7], np.arange(7.0))) == list(range(7))
    assert choose(gains[:1], np.arange(1.0)) == [0]


def test_repeated_sources_are_located_in_order(split: Split):
    other = Split(**(vars(split) | {"sources": ["a b", "c", "a b"]}))
    assert locate(["a  b", "a b", "c"], other, "x") == [0, 2, 1]
    with pytest.raises(SegError, match="x explains a sentence that test does not have: 'd'"):
        locate(["d"], other, "x")


def test_figures_with_and_without_empty_bins(split: Split, guesses: list[str]):
    """Sentences without any pair and exact matches have their own places; the same report gives the same file."""
    best = split.best.copy()
    best[:3], best[3:5] = -1, 1
    for scores, places in ((split.best, {b"none": False, b"= 1": False}), (best, {b"none": True, b"= 1": True})):
        given = Split(**(vars(split) | {"best": scores}))
        systems = [System("TM", [Output(split.pair_targets)]), System("NMT", [Output(guesses)])]
        systems.append(System("SEG", [Output(split.references)]))
        report = Report(given, score_systems(given, systems, "NMT"), [], [], [], "")
        drawn = {drawing.name: drawing for drawing in drawings(report)}
        assert drawn.keys() == {"bins-bleu", "bins-gain"}
        for drawing in drawn.values():
            picture = render(drawing, LIGHT, "svg")
            assert picture == render(drawing, LIGHT, "svg") != render(drawing, DARK, "svg")
            # matplotlib notes every text in a comment.
            assert {place: b"<!-- %s -->" % place in picture for place in places} == places
            assert b"<!-- SEG -->" in picture and (b"<!-- TM -->" in picture) == (drawing.name == "bins-bleu")


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


class Page(HTMLParser):
    """What a test wants to know of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: dict[str, list[str]] = {}
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.open = tag
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        self.texts.setdefault(self.open, []).append(data)

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(attached: Path, trained: Path, guesses: list[str], split: Split, tmp_path_factory) -> Page:
    """The whole report, with an unfriendly translation in it and gates of a real model."""
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
    assert [name for name in page.texts["th"] if name in ("TM", "NMT", "SEG <1>")].count("SEG <1>") == 2
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


def test_examples_from_a_file(split: Split, guesses: list[str], tmp_path: Path):
    token = {"text": "x", "gate": 0.25, "copied": 0, "share": 0, "probability": 1, "p_copy": None, "p_gen": 1}
    lines = [
        json.dumps(
            {
                "source": source,
                "translation": reference,
                "fusion": "shallow",
                "pairs": [],
                "symbols": [],
                "words": [token | {"slot": None}, token | {"gate": 0.75, "slot": None}],
                "exact": False,
                "baseline": {"system": "other", "translation": "other"},
                "reference": None,
            }
        )
        for source, reference in zip(split.sources, split.references, strict=True)
    ]
    seg, nmt = System("SEG", [Output(split.references)]), System("NMT", [Output(guesses)])
    path = write(tmp_path / "explained.jsonl", lines)
    examples = from_explanations(str(path), split, seg, nmt, tmp_path, same=False)
    assert len(examples) == 20 and all(example.gate == 0.5 and example.gain >= 0 for example in examples)
    for example in examples:
        assert example.explanation.baseline.translation == guesses[example.index]
        assert example.explanation.reference == split.references[example.index]
    write(path, [lines[0], "{}"])
    with pytest.raises(SegError, match="line 2, is no line of seg-explain --json"):
        from_explanations(str(path), split, seg, nmt, tmp_path, same=False)


def test_nothing_heavy_is_imported_before_it_is_needed():
    names = ["cli.evaluate", "evaluate.examples", "evaluate.figures", "evaluate.html", "evaluate.report"]
    code = "import sys; " + "; ".join(f"import fairseq_seg.{name}" for name in names)
    code += "; print({'torch', 'fairseq', 'matplotlib', 'sacrebleu', 'sacremoses', 'pyserini'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize("tm, drawn", [(54.0, ["TM", "NMT"]), (24.7, ["NMT"])])
def test_a_far_off_system_does_not_flatten_the_curve_over_k(tm, drawn):
    from matplotlib.figure import Figure

    compared = {"TM": SimpleNamespace(name="TM", mean_bleu=tm), "NMT": SimpleNamespace(name="NMT", mean_bleu=48.9)}
    points = [SimpleNamespace(name=str(k), mean_bleu=50.0 + k, bleu_ci=1.0, pairs=k) for k in (1, 2)]
    scores = SimpleNamespace(baseline="NMT", system=compared.get, systems=list(compared.values()))
    figure = Figure()
    figures._draw_sweep(figure, figures.LIGHT, SimpleNamespace(sweep=points, scores=scores))
    assert figure.axes[0].get_legend_handles_labels()[1] == drawn


def test_no_name_is_cut_off_in_the_legend():
    """Six systems' names fill their columns, the last with a name as long as recipes have."""
    from matplotlib.figure import Figure

    names = ["SEG", "SEG adaptive", "SEG state", "SEG state adaptive", "SEG state without memory", "CopyNet adaptive"]
    columns = []
    for shown in (names[:3], names, [f"{name} of the second seed alone" for name in names]):
        figure = Figure(figsize=(figures.WIDTH, figures.HEIGHT), layout="constrained")
        axes = figure.subplots()
        for name in shown:
            axes.plot([0, 1], [0, 1], label=name)
        figures._legend(figure, axes)
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == shown
        assert legend.get_window_extent().width <= figure.bbox.width
        columns.append(legend._ncols)
    assert columns == sorted(columns, reverse=True) and columns[0] == 3 and columns[-1] < 3
