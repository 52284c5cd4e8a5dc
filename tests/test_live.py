"""Live retrieval: what is typed gets the memory that seg-attach would have attached."""

import shutil
from pathlib import Path

import pytest

from fairseq_seg.data.attached import AttachedMemory, write_attached
from tests.corpus import Corpus, make_corpus
from tests.stock import (
    DECODING,
    TRAINING,
    hypotheses,
    run_process,
    run_stock,
    run_stock_until_it_stops,
    tagged_lines,
)
from tests.test_learns_to_copy import PLUGIN, prepare

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

    assert "17 pairs are asked for but 16 were kept; run seg-attach again" in message(data_bin, "--memory-k", 17)
    other = prepare(make_corpus(seed=4, groups=60, held_out=15), tmp_path)
    shutil.copy(data_bin / "test.en-fr.memory", other / "test.en-fr.memory")
    assert "was made from other data than this split" in message(other)
    # of the right data, but with an id that no pair has
    path = data_bin / "test.en-fr.memory"
    header = {name: getattr(AttachedMemory.load(path), name) for name in HEADER}
    rows = list(AttachedMemory.load(path))
    rows[0] = (rows[0][0] + 10_000, *rows[0][1:])
    shutil.copytree(data_bin, tmp_path / "ids")
    write_attached(tmp_path / "ids" / path.name, header, rows)
    assert "names pairs that" in message(tmp_path / "ids")


def test_hub(corpus, data_bin, decoding):
    from fairseq_seg.models.seg_gru import SegGRUModel

    attached = hypotheses(run_stock("generate", data_bin, *decoding))
    hub = SegGRUModel.from_pretrained(
        data_bin.parent / "checkpoints", "checkpoint_last.pt", str(data_bin), source_lang="en", target_lang="fr"
    )
    found = hub.translate([pair.source for pair in corpus.test], beam=2, max_len_a=0, max_len_b=20)
    assert found == [attached[index][0] for index in range(len(corpus.test))]
