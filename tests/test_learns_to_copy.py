"""What the memory is for: words whose translation only a retrieved pair can tell, through the real commands."""

from pathlib import Path

import pytest

from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import SECRET_WORDS, Corpus, make_corpus
from tests.stock import DECODING, TRAINING, hypotheses, run_stock

SIZES = {
    "seg_gru_small": ["--hidden-size", 64, "--embed-dim", 48, "--dropout", 0],
    "seg_transformer_small": ["--encoder-embed-dim", 64, "--encoder-ffn-embed-dim", 128, "--encoder-layers", 1]
    + ["--decoder-layers", 2, "--dropout", 0, "--encoder-normalize-before", "--decoder-normalize-before"]
    + ["--preset", "recommended"],
}


@pytest.fixture(scope="module", params=SIZES)
def checkpoint(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained with one retrieved pair a sentence."""
    folder = tmp_path_factory.mktemp("copy")
    data_bin = prepare(make_corpus(seed=1, groups=400, held_out=10), folder)
    options = ["--memory-k", 1, "--lr", 0.005, "--batch-size", 32, "--max-epoch", 8, "--disable-validation"]
    model = ["--arch", request.param, *SIZES[request.param], "--gate-hidden", 16]
    training = TRAINING[TRAINING.index("--criterion") :]
    output = run_stock("train", data_bin, *PLUGIN, *model, *training, *options, "--save-dir", folder / "checkpoints")
    assert "memory: K=1, select=topk" in output
    return folder / "checkpoints" / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def unseen() -> Corpus:
    """Another seed: the same words, but groups that the model cannot have learnt by heart."""
    return make_corpus(seed=2, groups=100, held_out=40)


@pytest.fixture(scope="module")
def unseen_data_bin(unseen: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(unseen, tmp_path_factory.mktemp("unseen"))


@pytest.fixture(scope="module")
def accuracy(checkpoint: Path, unseen: Corpus, unseen_data_bin: Path):
    """Return a function: the share of sentences whose secret word, and no other, is in the translation."""

    def measure(k: int) -> float:
        options = ["--memory-k", k, "--path", checkpoint, "--cpu", "--beam", 2, *DECODING]
        translations = hypotheses(run_stock("generate", unseen_data_bin, *PLUGIN, *options))
        assert len(translations) == len(unseen.test)
        found = [[word for word in translations[i][0].split() if word in SECRET_WORDS] for i in range(len(unseen.test))]
        return sum(words == [pair.secret] for words, pair in zip(found, unseen.test, strict=True)) / len(found)

    return measure


def test_secret_words_come_from_the_memory(accuracy):
    assert accuracy(1) >= 0.95


def test_without_memory_they_are_guessed(accuracy):
    assert accuracy(0) < 0.15


def test_many_more_pairs_than_in_training_decode(accuracy):
    """Of 16 pairs, three at most are of the sentence's own group; the others have other secrets for the same names."""
    assert accuracy(16) > accuracy(0)
