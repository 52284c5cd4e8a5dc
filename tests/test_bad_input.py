"""Bad input ends in one sentence that says what to do, or in a translation; never in a traceback or a silent loss."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.corpus import SOURCE, TARGET, Corpus, Pair, binarize, write_text
from tests.stock import DECODING, PLUGIN, TRAINING, hypotheses, run_stock, run_stock_until_it_stops, start_process


def stop(command: str, data: Path, trained: Path, *arguments: object) -> str:
    """Run a command with the trained model, or a training, that must stop, and return its message."""
    own = TRAINING if command == "train" else [*DECODING, "--cpu", "--path", trained / "checkpoint_last.pt"]
    return run_stock_until_it_stops(command, data, *PLUGIN, *own, *arguments)


@pytest.fixture
def damaged(data_bin: Path, tmp_path: Path) -> Path:
    """A copy of the data-bin, to be damaged."""
    return shutil.copytree(data_bin, tmp_path / "data-bin")


@pytest.mark.parametrize("command", ["train", "generate", "interactive"])
def test_missing_data(command: str, trained: Path, tmp_path: Path):
    message = stop(command, tmp_path / "none", trained)
    assert message.startswith(f"The data folder {tmp_path / 'none'} does not exist: create it with fairseq-preprocess")


def test_empty_data_folder(trained: Path, tmp_path: Path):
    assert "cannot be inferred: name them with -s and -t." in stop("generate", tmp_path, trained)
    assert f"has no dict.{SOURCE}.txt" in stop("generate", tmp_path, trained, "-s", SOURCE, "-t", TARGET)


def test_missing_split(damaged: Path, trained: Path):
    message = stop("generate", damaged, trained, "--gen-subset", "test2013")
    assert message == f"{damaged} has no split 'test2013', only train, valid, test."


@pytest.mark.parametrize("language", [SOURCE, TARGET])
@pytest.mark.parametrize("end", ["bin", "idx"])
@pytest.mark.parametrize("left", [0.0, 0.5])
def test_truncated_data(damaged: Path, trained: Path, language: str, end: str, left: float):
    path = damaged / f"test.{SOURCE}-{TARGET}.{language}.{end}"
    path.write_bytes(path.read_bytes()[: int(left * path.stat().st_size)])
    message = stop("generate", damaged, trained)
    assert f"test.{SOURCE}-{TARGET}.{language}" in message and message.endswith("run fairseq-preprocess again.")
    assert "\n" not in message


@pytest.mark.parametrize("end", ["bin", "idx"])
def test_half_of_a_split_is_missing(damaged: Path, trained: Path, end: str):
    (damaged / f"train.{SOURCE}-{TARGET}.{TARGET}.{end}").unlink()
    message = stop("train", damaged, trained)
    assert f"train.{SOURCE}-{TARGET}.{TARGET}" in message and "fairseq-preprocess" in message


def test_sides_of_different_length(damaged: Path, trained: Path, corpus: Corpus, tmp_path: Path):
    write_text(replace(corpus, test=corpus.test[:-1]), tmp_path / "text")
    binarize(tmp_path / "text", tmp_path / "shorter")
    for end in ("bin", "idx"):
        name = f"test.{SOURCE}-{TARGET}.{TARGET}.{end}"
        shutil.copy(tmp_path / "shorter" / name, damaged / name)
    message = stop("generate", damaged, trained)
    assert "40 sentences in en and 39 in fr" in message and message.endswith("run fairseq-preprocess again.")


def test_test_set_without_a_target_is_translated_but_not_validated(damaged: Path, trained: Path, corpus: Corpus):
    for end in ("bin", "idx"):
        (damaged / f"test.{SOURCE}-{TARGET}.{TARGET}.{end}").unlink()
    options = [*PLUGIN, *DECODING, "--cpu", "--path", trained / "checkpoint_last.pt"]
    assert hypotheses(run_stock("generate", damaged, *options)).keys() == set(range(len(corpus.test)))
    options = [*PLUGIN, "--cpu", "--path", trained / "checkpoint_last.pt", "--batch-size", 8, "--valid-subset", "test"]
    assert "has no target side" in run_stock_until_it_stops("validate", damaged, *options)


@pytest.mark.parametrize("command", ["generate", "interactive"])
def test_dictionary_of_another_model(command: str, bpe_data_bin: Path, trained: Path):
    message = stop(command, bpe_data_bin, trained)
    assert "dictionar" in message and "checkpoint" in message and "\n" not in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--memory-k", -1), "--memory-k -1 is negative: give 0 or more."),
        (("--memory-k", "two"), "argument --memory-k: invalid int value: 'two'"),
        (("--memory-select", "best"), "argument --memory-select: invalid choice: 'best'"),
        (("--left-pad-source",), "leave out --left-pad-source"),
    ],
)
def test_unknown_option_value(data_bin: Path, trained: Path, arguments: tuple, message: str):
    assert message in stop("generate", data_bin, trained, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fusion", "warm"), "argument --fusion: invalid choice: 'warm'"),
        (("--memory-k", 2), "valid.en-fr.memory does not exist: run seg-attach with the same -s and -t first."),
        (("--share-all-embeddings",), "--share-all-embeddings needs one dictionary for both"),
    ],
)
def test_unknown_model_option_value(data_bin: Path, trained: Path, tmp_path: Path, arguments: tuple, message: str):
    assert message in stop("train", data_bin, trained, "--save-dir", tmp_path, *arguments)


def test_message_of_a_real_process_has_no_traceback(trained: Path, tmp_path: Path):
    process = start_process("generate", tmp_path / "none", *PLUGIN, "--path", trained / "checkpoint_last.pt")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert output.strip().splitlines()[-1].startswith("The data folder ") and "Traceback" not in output


@pytest.mark.parametrize("command", ["generate", "interactive"])
def test_file_that_is_not_a_checkpoint(command: str, data_bin: Path, tmp_path: Path):
    """The data are checked first; then a missing file, a text, a list and a dictionary of something else."""
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"weights": torch.ones(2)}, tmp_path / "other.pt")
    (tmp_path / "text.pt").write_text("not a checkpoint")
    own = [*PLUGIN, *DECODING, "--cpu", "--path"]
    message = run_stock_until_it_stops(command, data_bin, *own, tmp_path / "none.pt")
    assert message == f"The checkpoint {tmp_path / 'none.pt'} does not exist or cannot be read."
    for name in ("list.pt", "other.pt", "text.pt"):
        message = run_stock_until_it_stops(command, data_bin, *own, tmp_path / name)
        assert message == f"{tmp_path / name} is not a fairseq checkpoint, or it was cut short."


def test_unknown_symbols_are_reported_once(data_bin: Path, trained: Path, corpus: Corpus):
    options = [*PLUGIN, *DECODING, "--cpu", "--path", trained / "checkpoint_last.pt", "--beam", 2]
    warning = "Most symbols of a sentence are not in the model's dictionary"
    good, bad = [pair.source for pair in corpus.test[:2]], ["xyzzy plugh", "xyzzy xyzzy"]
    assert run_stock("interactive", data_bin, *options, stdin="\n".join([*good, *bad, ""])).count(warning) == 1
    assert warning not in run_stock("interactive", data_bin, *options, stdin="\n".join([*good, ""]))


def test_line_without_a_known_word_and_very_long_line_are_translated(data_bin: Path, trained: Path, corpus: Corpus):
    lines = [corpus.test[0].source, "xyzzy plugh", " ".join(["the"] * 10_000), corpus.test[1].source]
    options = [*PLUGIN, *DECODING, "--cpu", "--path", trained / "checkpoint_last.pt", "--beam", 2]
    for batches in ((), ("--buffer-size", 4, "--max-tokens", 500)):
        texts = hypotheses(run_stock("interactive", data_bin, *options, *batches, stdin="\n".join(lines)))
        assert list(texts) == [0, 1, 2, 3] and all(text for [text] in texts.values())


def test_very_long_sentence_is_translated_but_left_out_of_training(corpus: Corpus, trained: Path, tmp_path: Path):
    long = Pair(" ".join(["the"] * 10_000), "le", group=-1, secret="")
    write_text(replace(corpus, train=[long, *corpus.train[:15]], test=[long, *corpus.test[:2]]), tmp_path / "text")
    binarize(tmp_path / "text", tmp_path / "data-bin")
    options = [*PLUGIN, *DECODING, "--cpu", "--path", trained / "checkpoint_last.pt", "--beam", 2]
    assert hypotheses(run_stock("generate", tmp_path / "data-bin", *options)).keys() == {0, 1, 2}
    output = run_stock("train", tmp_path / "data-bin", *PLUGIN, *TRAINING, "--max-epoch", 1, "--no-save")
    assert "1 samples have invalid sizes and will be skipped" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "lstm"], "--arch lstm has no memory: use seg_gru, seg_transformer or their small forms"),
        (
            ["--arch", "transformer"],
            "--arch transformer has no memory: use seg_gru, seg_transformer or their small forms",
        ),
        (["--fp16"], "--fp16 trains on a GPU, and there is none: leave it out."),
    ],
)
def test_natural_mistakes(data_bin: Path, tmp_path: Path, options: list, message: str):
    plugin = [*PLUGIN[:2], "--task", "seg_translation", "--memory-k", 0]
    training = [option for option in TRAINING if option != "--cpu"] if "--fp16" in options else TRAINING
    if "--arch" in options:
        training = TRAINING[TRAINING.index("--criterion") :]
    arguments = [data_bin, *plugin, *training, *options, "--save-dir", tmp_path, "--max-update", 1]
    assert message in run_stock_until_it_stops("train", *arguments)


def test_a_save_dir_of_other_sizes(data_bin: Path, trained: Path, tmp_path: Path):
    shutil.copy(trained / "checkpoint_last.pt", tmp_path / "checkpoint_last.pt")
    arguments = [data_bin, *PLUGIN, *TRAINING, "--hidden-size", 32, "--save-dir", tmp_path, "--max-update", 1]
    message = run_stock_until_it_stops("train", *arguments)
    assert "was trained with other options (--hidden-size 64): give the same, or name another --save-dir." in message
    start = ["--save-dir", tmp_path / "new", "--finetune-from-model", trained / "checkpoint_last.pt"]
    message = run_stock_until_it_stops("train", *arguments, *start)
    assert message.endswith("was trained with --hidden-size 64, not 32: leave that out.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--optimizer", "sgd"], "(--optimizer adam)"),
        (["--lr-scheduler", "inverse_sqrt", "--warmup-updates", 9], "(--lr-scheduler fixed)"),
        (["--criterion", "cross_entropy"], "(--criterion seg_cross_entropy)"),
        (["--memory-match", "full"], "(--memory-match diagonal)"),
        (["--share-decoder-input-output-embed"], "(--share-decoder-input-output-embed False)"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_a_save_dir_of_other_options(data_bin: Path, trained: Path, tmp_path: Path, options: list, message: str):
    shutil.copy(trained / "checkpoint_last.pt", tmp_path / "checkpoint_last.pt")
    arguments = [data_bin, *PLUGIN, *TRAINING, "--save-dir", tmp_path, "--max-update", 1]
    told = run_stock_until_it_stops("train", *arguments, *options)
    assert f"checkpoint_last.pt was trained with other options {message}: give the same" in told
    again = ["--reset-optimizer", "--reset-lr-scheduler", "--reset-dataloader", "--no-save"]
    run_stock("train", *arguments, *options, *again)


def test_a_checkpoint_of_another_arch(data_bin: Path, tmp_path: Path):
    common = ["--optimizer", "adam", "--batch-size", 32, "--cpu", "--max-update", 1, "--disable-validation"]
    sizes = ["--encoder-embed-dim", 8, "--decoder-embed-dim", 8, "--encoder-hidden-size", 8, "--decoder-hidden-size", 8]
    lstm = ["--arch", "lstm", *sizes, "--decoder-out-embed-dim", 8]
    run_stock("train", data_bin, *common, "--task", "translation", *lstm, "--save-dir", tmp_path)
    arguments = [data_bin, *PLUGIN, *TRAINING, "--max-update", 1, "--save-dir"]
    message = run_stock_until_it_stops("train", *arguments, tmp_path)
    assert "was trained with other options (--criterion cross_entropy --arch lstm)" in message
    start = [tmp_path / "new", "--finetune-from-model", tmp_path / "checkpoint_last.pt"]
    assert "The checkpoint was trained with another --arch" in run_stock_until_it_stops("train", *arguments, *start)


@pytest.mark.parametrize("task", [["--task", "translation"], []], ids=["translation", "none"])
def test_the_plugins_parts_need_its_task(data_bin: Path, tmp_path: Path, task: list[str]):
    arguments = [data_bin, *PLUGIN[:2], *task, "--save-dir", tmp_path, "--max-update", 1, "--batch-size", 8, "--cpu"]
    message = run_stock_until_it_stops("train", *arguments, "--optimizer", "adam", "--arch", "seg_gru_small")
    assert message == "A model with a memory needs --task seg_translation: give this task, or another --arch."
    own = ["--optimizer", "adam", "--arch", "lstm", "--criterion", "seg_cross_entropy"]
    message = run_stock_until_it_stops("train", *arguments, *own)
    assert message == "--criterion seg_cross_entropy needs --task seg_translation: give both, or neither."


def test_an_empty_line_stays_empty(data_bin: Path, trained: Path):
    options = ["--path", trained / "checkpoint_last.pt", "--cpu", "--beam", 2, *DECODING]
    output = run_stock("interactive", data_bin, *PLUGIN, *options, stdin="\nthe Name1\n\n")
    translations = hypotheses(output)
    assert translations[0] == translations[2] == [""] and translations[1] != [""]
