"""What several test files share: the generated corpus, binarized, and a small translator trained on it."""

import os
import shutil
from pathlib import Path

import pytest

from preprocess import subword
from tests.corpus import SOURCE, SPLITS, TARGET, Corpus, binarize, make_corpus, write_text
from tests.guessing import make_guessing
from tests.served import make_model
from tests.stock import PLUGIN, TRAINING, run_stock

# These matrices are too small to share among threads, which on a busy machine wait for each other 20 times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """The corpus behind `data_bin`."""
    return make_corpus()


@pytest.fixture(scope="session")
def data_bin(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus as `fairseq-preprocess` leaves it; the text it was made from lies in `text` beside it."""
    folder = tmp_path_factory.mktemp("corpus")
    write_text(corpus, folder / "text")
    binarize(folder / "text", folder / "data-bin")
    return folder / "data-bin"


@pytest.fixture(scope="session")
def unseen_corpus() -> Corpus:
    """A corpus of the same words and other groups, so that no model of `corpus` can know its secrets."""
    return make_corpus(seed=2)


@pytest.fixture(scope="session")
def unseen_data_bin(unseen_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`unseen_corpus`, binarized with the same dictionaries as `data_bin`."""
    folder = tmp_path_factory.mktemp("unseen")
    write_text(unseen_corpus, folder / "text")
    binarize(folder / "text", folder / "data-bin")
    return folder / "data-bin"


@pytest.fixture(scope="session")
def trained(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of checkpoints of a translator that knows the words of the corpus; its log is `train.log`."""
    folder = tmp_path_factory.mktemp("trained")
    output = run_stock("train", data_bin, *PLUGIN, *TRAINING, "--max-epoch", 20, "--save-dir", folder)
    (folder / "train.log").write_text(output)
    return folder


@pytest.fixture(scope="session")
def bpe_data_bin(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus in subwords; their model is `joint.model` beside it."""
    text, folder = data_bin.with_name("text"), tmp_path_factory.mktemp("subwords")
    inputs = [str(text / f"train.{language}") for language in (SOURCE, TARGET)]
    subword.main(["train", "--input", *inputs, "--model", str(folder / "joint"), "--vocab-size", "300"])
    (folder / "text").mkdir()
    for language in (SOURCE, TARGET):
        shutil.copy(folder / "joint.dict.txt", folder / "text" / f"dict.{language}.txt")
        for split in SPLITS:
            files = [
                "--input",
                str(text / f"{split}.{language}"),
                "--output",
                str(folder / "text" / f"{split}.{language}"),
            ]
            subword.main(["encode", "--model", str(folder / "joint.model"), *files])
    binarize(folder / "text", folder / "data-bin")
    return folder / "data-bin"


@pytest.fixture(scope="session")
def bpe_trained(bpe_data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of checkpoints of a translator of subwords, trained for a moment only."""
    folder = tmp_path_factory.mktemp("bpe-trained")
    run_stock("train", bpe_data_bin, *PLUGIN, *TRAINING, "--max-epoch", 3, "--save-dir", folder)
    return folder


@pytest.fixture(scope="session")
def served_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of `served_corpus`, for servers."""
    return make_model(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def guessing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A data-bin whose sentences have tokens, and the options of a translation by a model that has learnt nothing."""
    return make_guessing(tmp_path_factory.mktemp("guessing"))


@pytest.fixture
def passes(monkeypatch) -> list[int]:
    """How many rows each translator pass over several steps runs over: pairs, and sentences in teacher forcing."""
    from fairseq_seg.modules.cgru import ConditionalGRU

    counted: list[int] = []
    forward = ConditionalGRU.forward

    def counting(self, embeddings, annotations):
        counted.append(len(embeddings))
        return forward(self, embeddings, annotations)

    monkeypatch.setattr(ConditionalGRU, "forward", counting)
    return counted
