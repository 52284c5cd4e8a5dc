"""fairseq-generate with the plugin: every decoding option that users of fairseq expect, on the generated corpus."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_seg.cli import average
from tests.corpus import SOURCE, TARGET, Corpus, binarize, write_text
from tests.stock import DECODING, PLUGIN, hypotheses, run_process, run_stock, tagged_lines


@pytest.fixture(scope="module")
def generate(data_bin: Path, trained: Path):
    """Return a function that translates the test set with the trained model and the options it is given."""

    def run(*arguments: object, path: object = trained / "checkpoint_last.pt", data: Path = data_bin) -> str:
        return run_stock("generate", data, *PLUGIN, *DECODING, "--cpu", "--path", path, *arguments)

    return run


@pytest.fixture(scope="module")
def beam_5(generate) -> str:
    return generate("--beam", 5)


def scores(output: str, tag: str = "H") -> dict[int, float]:
    return {index: float(lines[0][0]) for index, lines in tagged_lines(output, tag).items()}


def positional(output: str) -> dict[int, list[float]]:
    """Return the scores of every symbol of the first hypothesis, the end of sentence included."""
    return {index: list(map(float, lines[0][0].split())) for index, lines in tagged_lines(output, "P").items()}


def assert_same_translations(left: str, right: str, least: float = 1.0) -> None:
    """Both hold the same sentences; scores agree to 1e-4 and texts in all sentences, or in a share of them."""
    texts, other = hypotheses(left), hypotheses(right)
    assert texts.keys() == other.keys()
    assert sum(texts[index] == other[index] for index in texts) >= least * len(texts)
    if least == 1.0:
        assert scores(left) == pytest.approx(scores(right), abs=1e-4)


def test_every_sentence_once_with_its_source_and_reference(beam_5: str, corpus: Corpus):
    for tag, side in (("S", "source"), ("T", "target")):
        lines = tagged_lines(beam_5, tag)
        assert {index: line for index, [[line]] in lines.items()} == {
            index: getattr(pair, side) for index, pair in enumerate(corpus.test)
        }
    assert hypotheses(beam_5).keys() == set(range(len(corpus.test)))
    assert all(len(texts) == 1 for texts in hypotheses(beam_5).values())


def test_translator_knows_the_words_but_not_the_secrets(generate, unseen_corpus: Corpus, unseen_data_bin: Path):
    right = total = secrets = 0
    for index, [text] in hypotheses(generate("--beam", 5, data=unseen_data_bin)).items():
        pair = unseen_corpus.test[index]
        words = [word for word in pair.target.split() if word != pair.secret]
        right += sum(word in text.split() for word in words)
        total += len(words)
        secrets += pair.secret in text.split()
    assert right / total > 0.6
    assert secrets / len(unseen_corpus.test) < 0.15


@pytest.mark.parametrize("size", [1, 7, 8, 21])
def test_as_many_translations_as_sentences(generate, corpus: Corpus, size: int, tmp_path: Path):
    write_text(replace(corpus, test=corpus.test[:size]), tmp_path / "text")
    binarize(tmp_path / "text", tmp_path / "data-bin")
    assert hypotheses(generate(data=tmp_path / "data-bin")).keys() == set(range(size))


@pytest.mark.parametrize("options", [("--batch-size", 1), ("--batch-size", 7), ("--max-tokens", 60)])
def test_batches_do_not_change_the_translations(generate, beam_5: str, options: tuple):
    assert_same_translations(generate("--beam", 5, *options), beam_5)


def test_nbest_gives_n_hypotheses_best_first(generate, beam_5: str):
    output = generate("--beam", 5, "--nbest", 3)
    for lines in tagged_lines(output, "H").values():
        values = [float(score) for score, _ in lines]
        assert len(values) == 3 and values == sorted(values, reverse=True)
        assert len({text for _, text in lines}) == 3
    assert_same_translations(generate("--beam", 5, "--nbest", 1), beam_5)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_lenpen_divides_the_score_by_a_power_of_the_length(generate, penalty: float):
    output = generate("--beam", 3, "--lenpen", penalty)
    for index, steps in positional(output).items():
        assert scores(output)[index] == pytest.approx(sum(steps) / len(steps) ** penalty, abs=2e-3)


def test_prefix_is_kept(generate, beam_5: str, corpus: Corpus):
    texts = hypotheses(generate("--beam", 5, "--prefix-size", 3))
    assert texts.keys() == set(range(len(corpus.test)))
    for index, [text] in texts.items():
        assert text.split()[:3] == corpus.test[index].target.split()[:3]
    assert texts != hypotheses(beam_5)


def test_sampling_follows_the_seed(generate, beam_5: str, corpus: Corpus):
    first, again, other = (
        hypotheses(generate("--beam", 3, "--nbest", 3, "--sampling", "--seed", seed)) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert [len(first[index]) for index in range(len(corpus.test))] == [3] * len(corpus.test)


def test_diverse_beam_groups(generate, corpus: Corpus):
    options = ["--beam", 4, "--nbest", 4, "--diverse-beam-groups", 2]
    texts = hypotheses(generate(*options, "--diverse-beam-strength", 50))
    assert [len(texts[index]) for index in range(len(corpus.test))] == [4] * len(corpus.test)
    # At this strength no step of the second group takes the word that the first took, beginning with the first word.
    assert sum(len({text.split()[0] for text in found}) > 1 for found in texts.values()) > len(texts) / 2


def test_alignment_is_where_the_attention_is_largest(generate, data_bin: Path, trained: Path):
    import torch
    from fairseq.checkpoint_utils import load_model_ensemble_and_task

    output = generate("--beam", 2, "--print-alignment")
    assert tagged_lines(output, "A").keys() == hypotheses(output).keys()
    [model], _, task = load_model_ensemble_and_task([str(trained / "checkpoint_last.pt")], {"data": str(data_bin)})
    model.eval()
    eos = task.target_dictionary.eos()
    for index, [[line]] in tagged_lines(output, "A").items():
        [[source]], [target] = tagged_lines(output, "S")[index], hypotheses(output)[index]
        tokens = task.source_dictionary.encode_line(source, add_if_not_exist=False).long().unsqueeze(0)
        previous = task.target_dictionary.encode_line(target, add_if_not_exist=False, append_eos=False).long()
        previous = torch.cat([torch.tensor([eos]), previous[:-1]]).unsqueeze(0)
        _, extra = model(tokens, torch.tensor([tokens.size(1)]), previous)
        best = extra["attn"][0][0, :, :-1].argmax(-1)  # the end of the source is no word
        assert line.split() == [f"{position}-{step}" for step, position in enumerate(best.tolist())]


def test_replace_unk_by_the_aligned_source_word(generate, data_bin: Path, corpus: Corpus, tmp_path: Path):
    binarize(data_bin.with_name("text"), tmp_path / "raw", dataset_impl="raw")
    translations = {"Name1": "Un"}
    (tmp_path / "words.txt").write_text("".join(f"{source} {target}\n" for source, target in translations.items()))
    # A bonus for <unk> makes it the best word everywhere but at the end.
    output = generate(
        *("--dataset-impl", "raw", "--replace-unk", tmp_path / "words.txt", "--unkpen", -100), data=tmp_path / "raw"
    )
    for index, [text] in hypotheses(output).items():
        source = corpus.test[index].source.split()
        assert text and set(text.split()) <= {translations.get(word, word) for word in source} | {"<eos>"}
    assert len(hypotheses(output)) == len(corpus.test)


def test_score_reference_agrees_with_validation(generate, data_bin: Path, trained: Path, corpus: Corpus):
    output = generate("--score-reference")
    assert {index: text for index, [text] in hypotheses(output).items()} == {
        index: pair.target for index, pair in enumerate(corpus.test)
    }
    steps = [score for line in positional(output).values() for score in line]
    options = [*PLUGIN, "--path", trained / "checkpoint_last.pt", "--cpu", "--batch-size", 16, "--valid-subset", "test"]
    loss = float(re.search(r"\| nll_loss ([\d.]+)", run_stock("validate", data_bin, *options))[1])
    assert -sum(steps) / len(steps) == pytest.approx(loss, abs=2e-3)


def test_ensemble(generate, trained: Path, beam_5: str):
    checkpoint, earlier = trained / "checkpoint_last.pt", trained / "checkpoint6.pt"
    assert_same_translations(generate("--beam", 5, path=f"{checkpoint}:{checkpoint}"), beam_5)
    both = scores(generate("--beam", 5, path=f"{checkpoint}:{earlier}"))
    assert sum(abs(score - scores(beam_5)[index]) > 1e-3 for index, score in both.items()) > len(both) / 2


def test_averaged_checkpoint_translates(generate, trained: Path, tmp_path: Path, beam_5: str):
    average.main(f"--inputs {trained} --num-epoch-checkpoints 3 --output {tmp_path}/average.pt".split())
    output = generate("--beam", 5, path=tmp_path / "average.pt")
    assert hypotheses(output).keys() == hypotheses(beam_5).keys()
    assert scores(output) != pytest.approx(scores(beam_5), abs=1e-3)


def test_subwords_are_joined(bpe_data_bin: Path, bpe_trained: Path, generate, corpus: Corpus):
    output = generate("--remove-bpe", "sentencepiece", data=bpe_data_bin, path=bpe_trained / "checkpoint_last.pt")
    assert {index: text for index, [[text]] in tagged_lines(output, "T").items()} == {
        index: pair.target for index, pair in enumerate(corpus.test)
    }
    texts = [text for [text] in hypotheses(output).values()]
    assert len(texts) == len(corpus.test) and not any("\u2581" in text for text in texts)


def test_generate_as_a_process_from_the_languages_of_the_data(data_bin: Path, trained: Path, beam_5: str):
    options = ["--cpu", "--path", trained / "checkpoint_last.pt", "--beam", 5, "-s", SOURCE, "-t", TARGET]
    output = run_process("generate", data_bin, *PLUGIN, *DECODING, *options)
    assert_same_translations(output, beam_5)
    assert re.search(r"Generate test with beam=5: BLEU4 = [\d.]+", output)
