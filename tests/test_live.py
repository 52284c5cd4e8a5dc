"""Live retrieval: what is typed gets the memory that seg-attach would have attached."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_seg.corpus.attached import AttachedPairs, write_attached
from fairseq_seg.store.store import TranslationMemory, TranslationUnit
from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import SOURCE, TARGET, Corpus, Pair, make_corpus
from tests.stock import (
    DECODING,
    TRAINING,
    hypotheses,
    run_process,
    run_stock,
    run_stock_until_it_stops,
    tagged_lines,
)

HEADER = ("signature", "kept", "memory_fingerprint", "split_fingerprint", "memory_data", "settings")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(seed=3, groups=60, held_out=15)


@pytest.fixture(scope="module")
def data_bin(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(corpus, tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="module")
def decoding(data_bin: Path) -> list:
    """A model that has begun to read its memory, and how it translates."""
    sizes = ["--hidden-size", 32, "--embed-dim", 32, "--memory-k", 2, "--max-epoch", 40, "--disable-validation"]
    run_stock("train", data_bin, *PLUGIN, *TRAINING, *sizes, "--save-dir", data_bin.parent / "checkpoints")
    return [*PLUGIN, "--path", data_bin.parent / "checkpoints" / "checkpoint_last.pt", "--cpu", "--beam", 2, *DECODING]


def typed(corpus: Corpus) -> str:
    return "".join(f"{pair.source}\n" for pair in corpus.test)


@pytest.mark.parametrize("options", [["--memory-k", 2], ["--memory-select", "adaptive"]], ids=["topk", "adaptive"])
@pytest.mark.parametrize("buffer", [1, 8])
def test_typed_sentences_equal_those_of_the_attached_split(corpus, data_bin, decoding, options, buffer):
    attached = tagged_lines(run_stock("generate", data_bin, *decoding, *options), "H")
    buffering = ["--buffer-size", buffer, "--batch-size", buffer]
    output = run_stock("interactive", data_bin, *decoding, *options, *buffering, stdin=typed(corpus))
    live = tagged_lines(output, "H")
    assert len(live) == len(corpus.test)
    assert output.count("retrieval: ") == -(-len(corpus.test) // buffer)
    for index, [[score, text]] in attached.items():
        assert live[index][0][1] == text
        assert float(live[index][0][0]) == pytest.approx(float(score), abs=1e-3)
    without = hypotheses(run_stock("interactive", data_bin, *decoding, "--memory-k", 0, stdin=typed(corpus)))
    assert any(without[index] != [text] for index, [[_, text]] in attached.items())


def test_a_split_without_attached_file_is_retrieved_at_once(data_bin, decoding):
    attached = hypotheses(run_stock("generate", data_bin, *decoding))
    memory = data_bin / "test.en-fr.memory"
    memory.rename(memory.with_suffix(".away"))
    try:
        output = run_process("generate", data_bin, *decoding)
    finally:
        memory.with_suffix(".away").rename(memory)
    assert "test.en-fr.memory does not exist: retrieving now" in output
    assert hypotheses(output) == attached


def test_empty_and_unknown_lines_are_translated(data_bin, decoding):
    live = hypotheses(run_stock("interactive", data_bin, *decoding, stdin="\nxyzzy plugh\n"))
    assert sorted(live) == [0, 1]


def test_a_memory_that_does_not_fit_is_refused(data_bin, decoding, tmp_path):
    def message(folder, *options) -> str:
        return run_stock_until_it_stops("generate", folder, *decoding, *options)

    assert "--memory-k 17 needs more pairs than the 16 that were kept: run seg-attach again" in message(
        data_bin, "--memory-k", 17
    )
    other = prepare(make_corpus(seed=4, groups=60, held_out=15), tmp_path)
    shutil.copy(data_bin / "test.en-fr.memory", other / "test.en-fr.memory")
    assert "was not made from this split" in message(other)
    # of the right data, but with an id that no pair has
    path = data_bin / "test.en-fr.memory"
    header = {name: getattr(AttachedPairs.load(path), name) for name in HEADER}
    ranked = AttachedPairs.load(path).ranked
    shutil.copytree(data_bin, tmp_path / "ids")
    for wrong in (ranked.ids + 10_000, -1 - ranked.ids):
        write_attached(tmp_path / "ids" / path.name, header, [replace(ranked, ids=wrong)])
        assert "names pairs that" in message(tmp_path / "ids")


def test_hub(corpus, data_bin, decoding):
    from fairseq_seg.models.seg_gru import SegGRUModel

    attached = hypotheses(run_stock("generate", data_bin, *decoding))
    hub = SegGRUModel.from_pretrained(
        data_bin.parent / "checkpoints", "checkpoint_last.pt", str(data_bin), source_lang="en", target_lang="fr"
    )
    found = hub.translate([pair.source for pair in corpus.test], beam=2, max_len_a=0, max_len_b=20)
    assert found == [attached[index][0] for index in range(len(corpus.test))]


# Memories of one's own


def make_memory(path: Path, data_bin: Path, pairs: list[Pair]) -> Path:
    with TranslationMemory.create(path, SOURCE, TARGET, data_bin) as memory:
        memory.add_many(TranslationUnit(pair.source, pair.target) for pair in pairs)
    return path


@pytest.fixture(scope="module")
def copy(corpus: Corpus, data_bin: Path) -> Path:
    """A memory that holds the training set."""
    return make_memory(data_bin.parent / "copy.mem", data_bin, corpus.train)


@pytest.fixture(scope="module")
def answers(corpus: Corpus, data_bin: Path) -> Path:
    """A memory that holds every second test sentence, with a translation that no model would find."""
    pairs = [Pair(pair.source, "un un un", pair.group, pair.secret) for pair in corpus.test[::2]]
    return make_memory(data_bin.parent / "answers.mem", data_bin, pairs)


@pytest.mark.parametrize("options", [["--memory-k", 2], ["--memory-select", "adaptive"]], ids=["topk", "adaptive"])
def test_a_memory_of_the_training_set_is_as_good_as_the_training_set(corpus, data_bin, decoding, copy, options):
    attached = hypotheses(run_stock("generate", data_bin, *decoding, *options))
    live = run_stock("generate", data_bin, *decoding, *options, "--memory", copy)
    assert f"live:{copy}" in live and hypotheses(live) == attached
    lines = run_stock("interactive", data_bin, *decoding, *options, "--memory", copy, stdin=typed(corpus))
    assert hypotheses(lines) == attached


@pytest.mark.parametrize("command", ["generate", "interactive"])
def test_exact_matches_follow_the_policy(corpus, data_bin, decoding, copy, answers, command):
    def translate(memory: str, policy: str) -> dict:
        options = [*decoding, "--memory", memory, "--memory-exact", policy, "--nbest", 2]
        buffer = ["--buffer-size", 4, "--batch-size", 4] if command == "interactive" else []
        return tagged_lines(run_stock(command, data_bin, *options, *buffer, stdin=typed(corpus)), "H")

    plain = translate(copy, "model")
    assert translate(f"{copy},{answers}", "ignore") == plain
    with_answers, returned = (translate(f"{copy},{answers}", policy) for policy in ("model", "copy"))
    for index in range(len(corpus.test)):
        if index % 2 == 0:
            assert with_answers[index] != plain[index]  # the model reads the pair, and decides
            assert [[float(score), text] for score, text in returned[index]] == [[0, "un un un"]]
        else:
            assert [text for _, text in returned[index]] == [text for _, text in with_answers[index]]
    # A penalty says that a memory is not to be trusted as far as that.
    assert all(len(lines) == 2 for lines in translate(f"{copy},{answers}:0.01", "copy").values())


def test_hub_with_a_memory(corpus, data_bin, decoding, answers):
    from fairseq_seg.models.seg_gru import SegGRUModel

    options = {"source_lang": SOURCE, "target_lang": TARGET, "memory": str(answers), "memory_exact": "copy"}
    hub = SegGRUModel.from_pretrained(data_bin.parent / "checkpoints", "checkpoint_last.pt", str(data_bin), **options)
    assert hub.translate([corpus.test[0].source], beam=2, max_len_a=0, max_len_b=20) == ["un un un"]
    with TranslationMemory(answers) as memory:
        id = memory.add(corpus.test[1].source, "un")
        assert hub.translate([corpus.test[1].source], beam=2, max_len_a=0, max_len_b=20) == ["un"]
        memory.delete(id)
    assert hub.translate([corpus.test[1].source], beam=2, max_len_a=0, max_len_b=20) != ["un"]


def test_a_pair_that_another_process_adds_is_used_for_the_next_sentence(corpus, data_bin, decoding, tmp_path):
    memory = make_memory(tmp_path / "growing.mem", data_bin, corpus.train[:20])
    sentence, other = corpus.test[0].source, corpus.test[1].source
    options = [*decoding, "--memory", memory, "--memory-exact", "copy"]

    def change(*arguments: object) -> str:
        command = [sys.executable, "-m", "fairseq_seg.cli.memory", *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    change("rebuild", memory)
    log = tmp_path / "log"
    process = subprocess.Popen(
        [Path(sys.executable).with_name("fairseq-interactive"), data_bin, *map(str, options)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
    )

    def translate(line: str) -> str:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        for output in process.stdout:
            if output.startswith("H-"):
                return output.rstrip("\n").split("\t")[2]
        raise AssertionError("fairseq-interactive ended")

    try:
        before = translate(sentence)
        assert before != "un le"
        id = change("add", memory, sentence, "un le").strip()
        assert translate(sentence) == "un le"
        change("update", memory, id, "--target", "le un")
        assert translate(sentence) == "le un"
        change("rebuild", memory)
        change("add", memory, other, "un")
        assert [translate(sentence), translate(other)] == ["le un", "un"]
        change("delete", memory, id)
        assert translate(sentence) == before
        assert translate(other) == "un"
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
    # One line a sentence about its retrieval, and nothing of what the bridge to Java has to tell.
    assert log.read_text().count("retrieval: 1 sentences in ") == 7 and "kivy" not in log.read_text()


def test_training_refuses_what_is_for_translation(data_bin, copy):
    for option in (["--memory", copy], ["--memory-exact", "ignore"]):
        message = run_stock_until_it_stops("train", data_bin, *PLUGIN, *TRAINING, *option)
        assert message == "--memory and --memory-exact are for translation: to train, attach a memory with seg-attach."


def test_a_memory_of_other_words_is_refused_before_the_model_is_loaded(data_bin, tmp_path):
    for language in (SOURCE, TARGET):
        (tmp_path / f"dict.{language}.txt").write_text("word 1\n")
    TranslationMemory.create(tmp_path / "other.mem", SOURCE, TARGET, tmp_path).close()
    options = [*PLUGIN, "--path", tmp_path / "none.pt", "--cpu", "--memory", tmp_path / "other.mem"]
    for command in ("generate", "interactive"):
        message = run_stock_until_it_stops(command, data_bin, *options)
        assert "other.mem does not use the model's en dictionary" in message
