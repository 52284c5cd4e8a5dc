"""seg-explain through its command line: what it explains is what fairseq's commands translate."""

import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.cli import explain as command
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.store.store import TranslationMemory
from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import Corpus, make_corpus
from tests.stock import DECODING, TRAINING, hypotheses, run_stock, tagged_lines

SIZES = ["--hidden-size", 32, "--embed-dim", 32, "--max-epoch", 10, "--disable-validation"]


@pytest.fixture(scope="module")
def memory_corpus() -> Corpus:
    return make_corpus(seed=3, groups=60, held_out=15)


@pytest.fixture(scope="module")
def memory_bin(memory_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(memory_corpus, tmp_path_factory.mktemp("explain"))


@pytest.fixture(scope="module")
def guided(memory_bin: Path) -> Path:
    """Return a model trained with two pairs per sentence."""
    folder = memory_bin.parent / "guided"
    run_stock("train", memory_bin, *PLUGIN, *TRAINING, *SIZES, "--memory-k", 2, "--save-dir", folder)
    return (folder / "checkpoint_last.pt").rename(folder / "guided.pt")


@pytest.fixture(scope="module")
def plain(memory_bin: Path) -> Path:
    """Return a model trained without memory."""
    folder = memory_bin.parent / "plain"
    run_stock("train", memory_bin, *PLUGIN, *TRAINING, *SIZES, "--memory-k", 0, "--max-epoch", 1, "--save-dir", folder)
    return (folder / "checkpoint_last.pt").rename(folder / "plain.pt")


@pytest.fixture
def run(memory_bin: Path, guided: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs the command in this process and returns what it printed."""

    def run(*arguments: object, stdin: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        options = ["--path", guided, "--cpu", "--beam", 2, *DECODING, *arguments]
        command.main(list(map(str, [memory_bin, *options])))
        return capsys.readouterr().out

    return run


def read(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def generated(memory_bin: Path, guided: Path) -> str:
    """Return what fairseq-generate prints for the same options."""
    return run_stock("generate", memory_bin, *PLUGIN, "--path", guided, "--cpu", "--beam", 2, *DECODING)


def test_it_explains_what_generate_translates(run, generated: str, memory_corpus: Corpus):
    explained = read(run("--gen-subset", "test", "--json", "--batch-size", 4))
    texts, scores = hypotheses(generated), tagged_lines(generated, "P")
    assert len(explained) == len(memory_corpus.test) == len(texts)
    for index, (explanation, pair) in enumerate(zip(explained, memory_corpus.test, strict=True)):
        assert [explanation["translation"]] == texts[index]
        assert (explanation["source"], explanation["reference"]) == (pair.source, pair.target)
        [[logs]] = scores[index]  # base 2, of every symbol and eos, as the search saw them
        assert [math.log2(s["probability"]) for s in explanation["symbols"]] == pytest.approx(
            [float(log) for log in logs.split()], abs=2e-3
        )
        assert [word["text"] for word in explanation["words"]] == explanation["translation"].split()
        assert len(explanation["pairs"]) == 2
        for retrieved in explanation["pairs"]:
            assert retrieved["origin"] == f"train:{retrieved['id']}"
            pair = memory_corpus.train[retrieved["id"]]
            assert (retrieved["source"], retrieved["target"]) == (pair.source, pair.target)
        assert explanation["pairs"][0]["score"] >= explanation["pairs"][1]["score"] > 0
        for symbol in explanation["symbols"]:
            if symbol["slot"] is not None and symbol["text"] != "</s>":
                slot = symbol["slot"]
                assert explanation["pairs"][slot["pair"]]["target_symbols"][slot["position"]] == symbol["text"]
    assert any(symbol["slot"] for explanation in explained for symbol in explanation["symbols"])


def without_baseline(explained: list[dict]) -> list[dict]:
    """Round figures, because other batches give other last digits."""

    def rounded(x):
        if isinstance(x, float):
            return round(x, 3)
        if isinstance(x, dict):
            return {name: rounded(value) for name, value in x.items() if name != "baseline"}
        return [rounded(value) for value in x] if isinstance(x, list) else x

    return rounded(explained)


def test_typed_sentences_and_finished_translations_are_explained_alike(run, memory_corpus: Corpus, tmp_path: Path):
    attached = without_baseline(read(run("--gen-subset", "test", "--json")))
    files = {
        "source": [pair.source for pair in memory_corpus.test],
        "references": [pair.target for pair in memory_corpus.test],
    }
    files["translations"] = [explanation["translation"] for explanation in attached]
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    references = ["--references", tmp_path / "references", "--json"]
    assert without_baseline(read(run(*references, stdin=(tmp_path / "source").read_text()))) == attached
    finished = ["--translations", tmp_path / "translations"]
    assert without_baseline(read(run("--input", tmp_path / "source", *references, *finished))) == attached
    # a translation that the search did not choose
    other = read(run("--input", tmp_path / "source", "--json", "--translations", tmp_path / "references"))
    assert [explanation["translation"] for explanation in other] == files["references"]


def test_a_split_without_attached_file_is_retrieved_live(run, memory_bin: Path):
    attached = run("--gen-subset", "valid", "--json")
    memory = memory_bin / "valid.en-fr.memory"
    memory.rename(memory.with_suffix(".away"))
    try:
        live = run("--gen-subset", "valid", "--json")
    finally:
        memory.with_suffix(".away").rename(memory)
    assert without_baseline(read(live)) == without_baseline(read(attached))


def test_baselines_are_called_what_they_are(run, memory_bin: Path, guided: Path, plain: Path, memory_corpus: Corpus):
    source = "".join(f"{pair.source}\n" for pair in memory_corpus.test)

    def baselines(*options: object) -> list[dict]:
        return [explanation["baseline"] for explanation in read(run("--json", *options, stdin=source))]

    def translations(path: Path) -> list[str]:
        options = [*PLUGIN, "--path", path, "--cpu", "--beam", 2, *DECODING, "--memory-k", 0]
        texts = hypotheses(run_stock("generate", memory_bin, *options))
        return [texts[index][0] for index in range(len(texts))]

    same = "SEG without memory: guided.pt, the same checkpoint"
    assert baselines() == [{"system": same, "translation": text} for text in translations(guided)]
    named = [{"system": "NMT: plain.pt", "translation": text} for text in translations(plain)]
    assert baselines("--baseline", plain) == named
    assert baselines("--memory-k", 0) == [None] * len(memory_corpus.test)


def test_a_model_folder_is_explained_like_its_parts(
    run, memory_bin: Path, guided: Path, memory_corpus: Corpus, tmp_path: Path, capsys
):
    source = "".join(f"{pair.source}\n" for pair in memory_corpus.test)
    (tmp_path / "source").write_text(source)
    parts = read(run("--json", "--memory-k", 1, stdin=source))
    options = {"memory_k": 1, "beam": 2, "max_len_a": 0, "max_len_b": 20, "cpu": True}
    model = ModelFolder.create(tmp_path / "model", DataBin(memory_bin), guided, options=options)
    command.main([str(model.path), "--input", str(tmp_path / "source"), "--json"])
    assert without_baseline(read(capsys.readouterr().out)) == without_baseline(parts)
    command.main([str(model.path), "--input", str(tmp_path / "source"), "--json", "--memory-k", "2"])
    assert {len(explanation["pairs"]) for explanation in read(capsys.readouterr().out)} == {2}


def test_without_memory(run, memory_corpus: Corpus):
    [explanation] = read(run("--json", "--memory-k", 0, stdin=memory_corpus.test[0].source))
    assert explanation["pairs"] == []
    assert all(symbol["gate"] == 0 and symbol["p_copy"] is None for symbol in explanation["symbols"])


def test_a_memory_of_one_s_own(run, memory_bin: Path, memory_corpus: Corpus, tmp_path: Path):
    source, target = memory_corpus.test[0].source, memory_corpus.test[0].target
    with TranslationMemory.create(tmp_path / "client.mem", "en", "fr", memory_bin) as memory:
        memory.add(source, target, origin="<b>legal.tmx", unit="5")
    options = ["--memory", tmp_path / "client.mem"]
    [explanation] = read(run("--json", *options, stdin=source))
    [retrieved] = explanation["pairs"]
    assert (retrieved["id"], retrieved["origin"], retrieved["score"]) == (
        1,
        "client.mem:1 (<b>legal.tmx, unit 5)",
        1.0,
    )
    assert not explanation["exact"]
    [exact] = read(run("--json", *options, "--memory-exact", "copy", stdin=source))
    assert exact["exact"] and exact["translation"] == target
    split = read(run("--json", *options, "--gen-subset", "test"))
    assert {pair["origin"] for explanation in split for pair in explanation["pairs"]} == {retrieved["origin"]}
    run("--html", tmp_path / "page.html", *options, stdin=source)
    page = (tmp_path / "page.html").read_text()
    assert "client.mem:1 (&lt;b&gt;legal.tmx, unit 5)" in page and "<b>legal" not in page


def test_page_and_text(run, memory_corpus: Corpus, tmp_path: Path):
    source = "".join(f"{pair.source}\n" for pair in memory_corpus.test[:3])
    assert run("--html", tmp_path / "page.html", stdin=source) == ""
    assert (tmp_path / "page.html").read_text().count("<article") == 3
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    text = run(stdin=source)
    assert text.count("\nS    ") == text.count("\nRT2  ") == text.count("\nA    ") == text.count("\nB    ") == 3
    assert "\x1b" not in text  # no terminal


def test_empty_and_unknown_lines_keep_their_place(run, memory_corpus: Corpus):
    explained = read(run("--json", stdin=f"\nxyzzy plugh\n{memory_corpus.test[0].source}\n"))
    assert [explanation["source"] for explanation in explained] == ["", "xyzzy plugh", memory_corpus.test[0].source]
    assert run("--json", stdin="") == ""


def test_subwords_are_cut_and_merged(bpe_data_bin: Path, bpe_trained: Path, corpus: Corpus, tmp_path: Path, capsys):
    """The line goes in as plain text, and so does the translation."""
    model = bpe_data_bin.with_name("joint.model")
    (tmp_path / "source").write_text(corpus.test[0].source)
    (tmp_path / "translation").write_text(corpus.test[0].target)
    options = [bpe_data_bin, "--path", bpe_trained / "checkpoint_last.pt", "--cpu", "--memory-k", 0, "--json"]
    options += ["--bpe", "sentencepiece", "--sentencepiece-model", model, "--input", tmp_path / "source"]
    options += ["--translations", tmp_path / "translation", "--target-sentencepiece-model", model]
    command.main(list(map(str, options)))
    [explanation] = read(capsys.readouterr().out)
    assert (explanation["source"], explanation["translation"]) == (corpus.test[0].source, corpus.test[0].target)
    assert len(explanation["symbols"]) - 1 > len(explanation["words"]) == len(corpus.test[0].target.split())


def test_bad_input_is_one_sentence(run, tmp_path: Path, memory_corpus: Corpus):
    def message(*options: object) -> str:
        with pytest.raises(SystemExit) as stop:
            run(*options, stdin=memory_corpus.test[0].source)
        assert isinstance(stop.value.code, str) and stop.value.code.count("\n") == 0
        return stop.value.code

    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "foreign").write_text("these words are nowhere")
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    assert "does not exist" in message("--path", tmp_path / "none.pt")
    assert "is not a fairseq checkpoint" in message("--path", tmp_path / "two")
    assert "has 2 lines but there are 1 sentences" in message("--references", tmp_path / "two")
    assert "has 2 lines but there are 1 sentences" in message("--translations", tmp_path / "two")
    assert "are not in the target dictionary" in message("--translations", tmp_path / "foreign")
    assert "is not UTF-8" in message("--references", tmp_path / "latin")
    assert "No such file" in message("--input", tmp_path / "none")
    assert "create its folder first" in message("--html", tmp_path / "none" / "page.html")
    sentencepiece = ["--target-sentencepiece-model", tmp_path / "two", "--translations", tmp_path / "foreign"]
    assert "is not a sentencepiece model" in message(*sentencepiece)
    assert "leave out --task" in message("--task", "translation")


def test_as_a_process(memory_bin: Path, guided: Path, memory_corpus: Corpus):
    """A reader that has seen enough is no error, and neither are help and a missing data folder."""
    start = [sys.executable, "-m", "fairseq_seg.cli.explain"]
    arguments = [str(memory_bin), "--path", str(guided), "--cpu", "--beam", "2", "--batch-size", "1"]
    process = subprocess.Popen([*start, *arguments], stdin=-1, stdout=-1, stderr=-1, text=True)
    process.stdin.write("".join(f"{pair.source}\n" for pair in memory_corpus.test))
    process.stdin.close()
    assert process.stdout.readline().startswith("[word]")
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(timeout=120) == 0 and "Error" not in errors and "Warning" not in errors
    nothing = subprocess.run([*start, "--path", str(guided)], capture_output=True, text=True, timeout=120)
    assert nothing.returncode == 2
    assert nothing.stderr.splitlines()[-1] == "seg-explain: error: the following arguments are required: MODEL"


def test_help_imports_nothing_heavy():
    code = "import sys; from fairseq_seg.cli.explain import main\n"
    code += "try: main(['--help'])\nexcept SystemExit: sys.exit('torch' in sys.modules or 'fairseq' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and "--baseline CHECKPOINT" in result.stdout
