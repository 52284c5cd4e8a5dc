"""What the tests of seg-evaluate share: the generated corpus after seg-attach, and a translator that has to guess."""

import random
import shutil
from pathlib import Path

import pytest

from fairseq_seg.evaluate.split import Split, load_split
from preprocess import attach
from tests.corpus import SECRET_WORDS, TARGET, Corpus


@pytest.fixture(scope="session")
def attached(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data-bin after seg-attach, with the reference text `test.fr` beside it."""
    ignored = shutil.ignore_patterns("*.memory", "index.*")
    folder = shutil.copytree(data_bin, tmp_path_factory.mktemp("evaluate") / "data-bin", ignore=ignored)
    shutil.copy(data_bin.with_name("text") / f"test.{TARGET}", folder.with_name("test.fr"))
    attach.main([str(folder)])
    return folder


@pytest.fixture(scope="session")
def split(attached: Path) -> Split:
    return load_split(attached, "test", references=attached.with_name("test.fr"))


@pytest.fixture(scope="session")
def guesses(corpus: Corpus) -> list[str]:
    """Return what a translator without memory produces: all words right but the secret one."""
    rng = random.Random(1)
    return [pair.target.replace(pair.secret, rng.choice(SECRET_WORDS)) for pair in corpus.test]
