"""fairseq-interactive and the hub interface with the plugin: lines in, translations out, in order."""

from pathlib import Path

import pytest

from tests.corpus import Corpus
from tests.stock import DECODING, PLUGIN, hypotheses, run_process, run_stock, tagged_lines


@pytest.fixture(scope="module")
def interactive(data_bin: Path, trained: Path):
    """Return a function that translates lines with the trained model."""

    def run(lines: list[str], *arguments: object) -> str:
        options = [*PLUGIN, *DECODING, "--cpu", "--path", trained / "checkpoint_last.pt", *arguments]
        return run_stock("interactive", data_bin, *options, stdin="".join(line + "\n" for line in lines))

    return run


@pytest.fixture(scope="module")
def sources(corpus: Corpus) -> list[str]:
    return [pair.source for pair in corpus.test]


@pytest.fixture(scope="module")
def one_by_one(interactive, sources: list[str]) -> dict[int, list[str]]:
    return hypotheses(interactive(sources))


def test_interactive_equals_generate(one_by_one: dict, data_bin: Path, trained: Path):
    options = [*PLUGIN, *DECODING, "--cpu", "--path", trained / "checkpoint_last.pt"]
    assert one_by_one == hypotheses(run_stock("generate", data_bin, *options))


@pytest.mark.parametrize("size", [1, 7, 8, 21])
@pytest.mark.parametrize("options", [(), ("--buffer-size", 5), ("--buffer-size", 100, "--batch-size", 8)])
def test_one_translation_a_line_in_order(interactive, sources: list[str], one_by_one: dict, size: int, options: tuple):
    texts = hypotheses(interactive(sources[:size], *options))
    assert list(texts) == list(range(size))
    assert texts == {index: one_by_one[index] for index in range(size)}


def test_empty_lines_keep_their_place(interactive, sources: list[str], one_by_one: dict):
    lines = [sources[0], "", sources[1], "   ", sources[2]]
    for options in ((), ("--buffer-size", 10, "--max-tokens", 100)):
        texts = hypotheses(interactive(lines, *options))
        assert list(texts) == [0, 1, 2, 3, 4]
        assert [texts[index] for index in (0, 2, 4)] == [one_by_one[index] for index in (0, 1, 2)]
        assert texts[1] == texts[3] == [""]


def test_nbest_and_input_file(interactive, sources: list[str], one_by_one: dict, tmp_path: Path):
    (tmp_path / "input").write_text("\n".join(sources[:3]))
    texts = hypotheses(interactive([], "--input", tmp_path / "input", "--nbest", 2))
    assert [len(texts[index]) for index in range(3)] == [2, 2, 2]
    assert [texts[index][0] for index in range(3)] == [one_by_one[index][0] for index in range(3)]


def test_subwords_are_cut_and_joined(bpe_data_bin: Path, bpe_trained: Path, sources: list[str]):
    """The line goes in and comes out as plain text; what the model saw is the line in subwords."""
    options = [*PLUGIN, *DECODING, "--cpu", "--path", bpe_trained / "checkpoint_last.pt", "--bpe", "sentencepiece"]
    options += ["--sentencepiece-model", bpe_data_bin.with_name("joint.model")]
    output = run_stock("interactive", bpe_data_bin, *options, stdin="".join(line + "\n" for line in sources[:5]))
    for index, line in enumerate(sources[:5]):
        [[seen]] = tagged_lines(output, "S")[index]
        assert len(seen.split()) > len(line.split())
        assert seen.replace(" ", "").replace("\u2581", " ").strip() == line
        [[_, symbols]], [[_, text]] = tagged_lines(output, "H")[index], tagged_lines(output, "D")[index]
        assert text and text == symbols.replace(" ", "").replace("\u2581", " ").strip()


def test_interactive_as_a_process(data_bin: Path, trained: Path, sources: list[str], one_by_one: dict):
    options = [*PLUGIN, *DECODING, "--cpu", "--path", trained / "checkpoint_last.pt"]
    output = run_process("interactive", data_bin, *options, stdin="\n".join(sources[:3]))
    assert hypotheses(output) == {index: one_by_one[index] for index in range(3)}


def test_from_pretrained(data_bin: Path, trained: Path, sources: list[str], one_by_one: dict):
    from fairseq_seg.models.seg_gru import SegGRUModel

    hub = SegGRUModel.from_pretrained(str(trained), "checkpoint_last.pt", str(data_bin))
    texts = hub.translate(sources[:9], beam=5, max_len_a=0, max_len_b=20)
    assert texts == [one_by_one[index][0] for index in range(9)]
