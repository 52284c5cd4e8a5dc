"""`fairseq_seg.Translator`: a model folder and memories, opened once, from Python."""

import gc
import shutil
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

from fairseq_seg import Translator
from fairseq_seg.cli import model as seg_model
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError
from fairseq_seg.models.seg_gru import SegGRUModel
from fairseq_seg.store.store import TranslationMemory
from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import SOURCE, TARGET, Corpus, make_corpus
from tests.stock import DECODING, TRAINING, hypotheses, run_stock

OPTIONS = {"beam": 2, "max_len_a": 0, "max_len_b": 20, "cpu": True}


@pytest.fixture(scope="module")
def small() -> Corpus:
    return make_corpus(seed=3, groups=60, held_out=15)


@pytest.fixture(scope="module")
def attached(small: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(small, tmp_path_factory.mktemp("translate"))


@pytest.fixture(scope="module")
def checkpoint(attached: Path) -> Path:
    sizes = ["--hidden-size", 32, "--embed-dim", 32, "--memory-k", 2, "--max-epoch", 40, "--disable-validation"]
    run_stock("train", attached, *PLUGIN, *TRAINING, *sizes, "--save-dir", attached.parent / "checkpoints")
    return attached.parent / "checkpoints" / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def folder(attached: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder, moved after it was made."""
    made = tmp_path_factory.mktemp("model") / "made"
    seg_model.main([str(attached), "--path", str(checkpoint), "--output", str(made), "--memory-k=2"])
    return Path(shutil.move(made, made.with_name("moved")))


@pytest.fixture(scope="module")
def translator(folder: Path):
    with Translator(folder, **OPTIONS) as translator:
        yield translator


@pytest.fixture(scope="module")
def expected(attached: Path, checkpoint: Path) -> dict[int, list[str]]:
    """What stock fairseq-generate translates."""
    options = ["--path", checkpoint, "--cpu", "--beam", 2, *DECODING, "--memory-k", 2]
    return hypotheses(run_stock("generate", attached, *PLUGIN, *options))


def test_translations_are_those_of_generate_in_order(small, translator, expected):
    found = translator.translate([pair.source for pair in small.test])
    assert [translation.text for translation in found] == [expected[index][0] for index in range(len(small.test))]
    assert [translation.source for translation in found] == [pair.source for pair in small.test]
    assert all(translation.score < 0 and not translation.flags for translation in found)
    assert all(len(translation.pairs) == 2 and translation.explanation is None for translation in found)


def test_pairs_say_where_they_come_from(small, translator):
    [translation] = translator.translate([small.test[0].source])
    for pair in translation.pairs:
        train = small.train[pair.id]
        assert (pair.source, pair.target) == (train.source, train.target)
        assert pair.origin == f"train:{pair.id}" and 0 < pair.score < 1


def test_provenance_of_every_word(small, translator):
    [translation] = translator.translate([small.test[0].source], provenance=True)
    words = translation.explanation.words
    assert " ".join(word.text for word in words) == translation.text
    assert all(0 < word.gate < 1 for word in words)
    assert translation.explanation.pairs == translation.pairs


def test_odd_texts_get_a_result_each(small, translator):
    sentence = small.test[0].source
    texts = ["", sentence, "  \t\n", "word " * 10_000, "\x00\x07 \x1b[31m", "xyzzy plugh", "\ud800", sentence]
    found = translator.translate(texts)
    assert [translation.source for translation in found] == texts
    flags = [translation.flags for translation in found]
    assert flags[0] == flags[2] == ["empty"] and found[0].text == found[2].text == ""
    assert flags[1] == flags[7] == [] and found[1].text == found[7].text != ""
    assert "cut" in flags[3] and "unknown" in flags[5]
    assert translator.translate([]) == []
    with pytest.raises(SegError, match="a list of texts"):
        translator.translate(sentence)


def test_threads_may_share_it(small, translator, expected):
    found: dict[int, str] = {}

    def work(index: int) -> None:
        found[index] = translator.translate([small.test[index].source])[0].text

    threads = [threading.Thread(target=work, args=[index]) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {index: expected[index][0] for index in range(8)}


def test_memories_change_while_it_is_open(small, folder, tmp_path):
    sentence = small.test[0].source
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, folder) as memory:
        options = OPTIONS | {"memory": f"{tmp_path / 'own.mem'},train", "memory_exact": "copy"}
        with Translator(folder, **options) as translator:
            before = translator.translate([sentence])[0]
            assert not before.flags
            memory.add(sentence, "un un", origin="desk", unit="7")
            after = translator.translate([sentence])[0]
            assert (after.text, after.flags) == ("un un", ["exact"])
            assert after.pairs[0].origin == "own.mem:1 (desk, unit 7)" and after.pairs[0].score == 1
            assert (after.pairs[0].source, after.pairs[0].target) == (sentence, "un un")
            memory.delete(1)
            assert translator.translate([sentence])[0].text == before.text


def test_an_exact_match_is_of_texts_and_returned_to_the_letter(small, folder, tmp_path):
    """Symbols cannot tell these sources apart, nor spell these targets; texts can."""
    option, command = "the Name1 ⌥ of Name2", "the Name1 ⌘ of Name2"
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, folder) as memory:
        memory.add(option, "le\u00a0Secret1 ⌥ …")
        options = OPTIONS | {"memory": str(tmp_path / "own.mem"), "memory_exact": "copy"}
        with Translator(folder, **options) as translator:
            same, other = translator.translate([option, command])
            assert (same.text, same.flags) == ("le\u00a0Secret1 ⌥ …", ["exact"])
            assert "exact" not in other.flags
            memory.add(command, "le\u00a0Secret2 ⌘")
            same, other = translator.translate([option, command])
            assert [same.text, other.text] == ["le\u00a0Secret1 ⌥ …", "le\u00a0Secret2 ⌘"]


def test_nothing_is_kept_of_a_sentence_that_was_served(small, translator):
    """The objects that a translator holds do not grow with the sentences that it has translated."""

    def held() -> int:
        gc.collect()
        return len(gc.get_objects())

    sources = [pair.source for pair in small.test]
    translator.translate(sources)
    before = held()
    for word in range(5):
        translator.translate([f"{source} new{word}" for source in sources])
    assert held() - before < 5 * len(sources)


def test_no_bytes_are_kept_of_a_sentence_that_was_served(translator):
    """Texts, which the count of objects does not see, neither."""
    size = 200_000
    translator.translate(["a" * size])
    tracemalloc.start()
    try:
        for number in range(5):
            translator.translate([f"{number}" * size])
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < size


def test_a_closed_translator_says_so(folder):
    translator = Translator(folder, **OPTIONS)
    translator.close()
    translator.close()
    with pytest.raises(SegError, match="This translator is closed"):
        translator.translate(["one"])


def test_closing_waits_for_a_call_that_has_begun(small, folder, monkeypatch: pytest.MonkeyPatch):
    """Also for one that has just seen that the translator is open, and has not queued yet."""
    translator = Translator(folder, **OPTIONS)
    submit, closing = translator._worker.submit, threading.Thread(target=translator.close)

    def submit_late(*job):
        if threading.current_thread() is not closing:
            closing.start()
            closing.join(timeout=1)
        return submit(*job)

    monkeypatch.setattr(translator._worker, "submit", submit_late)
    [translation] = translator.translate([small.test[0].source])
    closing.join()
    assert translation.text
    with pytest.raises(SegError, match="This translator is closed"):
        translator.translate(["one"])


def test_what_cannot_be_opened_is_an_exception_with_one_sentence(folder, attached, checkpoint, tmp_path):
    def message(*arguments, **options) -> str:
        with pytest.raises(Exception) as caught:
            Translator(*arguments, **OPTIONS | options)
        assert isinstance(caught.value, SegError) and not isinstance(caught.value, SystemExit)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert message(tmp_path / "none") == (
        f"The model folder {tmp_path / 'none'} does not exist: create it with seg-model, or correct the path."
    )
    assert "is not a model folder" in message(attached)
    for name in ("checkpoint.pt", "dict.fr.txt"):
        copy = shutil.copytree(folder, tmp_path / f"without {name}")
        (copy / name).unlink()
        assert f"is incomplete, {name} is missing" in message(copy)
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "model.json").write_text("{")
    assert "is damaged" in message(damaged)
    (damaged / "model.json").write_text((folder / "model.json").read_text())
    (damaged / "dict.fr.txt").write_text("word 1\n")
    assert "binarize with the dictionaries it was trained with" in message(damaged)
    for lang in (SOURCE, TARGET):
        (tmp_path / f"dict.{lang}.txt").write_text("word 1\n")
    TranslationMemory.create(tmp_path / "other.mem", SOURCE, TARGET, tmp_path).close()
    assert "does not use the model's en dictionary" in message(folder, memory=str(tmp_path / "other.mem"))
    assert "The options are wrong" in message(folder, beams=3)
    assert "does not exist" in message(attached, checkpoint=tmp_path / "none.pt")


def test_an_error_leaves_it_usable(small, folder, tmp_path, expected):
    with TranslationMemory.create(tmp_path / "own.mem", SOURCE, TARGET, folder) as memory:
        memory.add(small.test[1].source, "un")
    with Translator(folder, memory=f"{tmp_path / 'own.mem'},train", **OPTIONS) as translator:
        database = tmp_path / "own.mem" / "memory.sqlite"
        content = database.read_bytes()
        database.write_bytes(b"nonsense" * (len(content) // 8))
        with pytest.raises(SegError, match="cannot be used"):
            translator.translate([small.test[0].source])
        database.write_bytes(content)
        assert translator.translate([small.test[2].source])[0].text


def test_a_data_bin_and_a_checkpoint_will_do(small, attached, checkpoint, expected):
    with Translator(attached, checkpoint=checkpoint, memory_k=2, **OPTIONS) as translator:
        assert translator.translate([small.test[0].source])[0].text == expected[0][0]


def test_subwords_come_from_the_folder(bpe_data_bin, bpe_trained, tmp_path):
    """Nobody has to name a subword model again: not for Translator, nor for fairseq's commands and hub."""
    from preprocess import attach

    attach.main([str(bpe_data_bin), "--processes", "1"])
    model = bpe_data_bin.with_name("joint.model")
    subwords = ["--spm-source", str(model), "--spm-target", str(model)]
    checkpoint = str(bpe_trained / "checkpoint_last.pt")
    arguments = [str(bpe_data_bin), "--path", checkpoint, "--output", str(tmp_path / "model"), *subwords]
    seg_model.main([*arguments, "--memory-k=0"])
    folder = ModelFolder.load(tmp_path / "model")
    text = make_corpus().test[0].source
    with Translator(folder.path, **OPTIONS) as translator:
        [translation] = translator.translate([text])
        assert "unknown" not in translation.flags and "▁" not in translation.text
    plugin = [*PLUGIN, "--path", folder.checkpoint_path, "--cpu", "--beam", 2, "--memory-k", 0, *DECODING]
    output = run_stock("interactive", folder.path, *plugin, stdin=f"{text}\n")
    [line] = [line for line in output.splitlines() if line.startswith("D-0")]
    assert line.split("\t")[2] == translation.text
    hub = SegGRUModel.from_pretrained(folder.path, memory_k=0)
    assert hub.translate([text], beam=2, max_len_a=0, max_len_b=20) == [translation.text]


def test_seg_model_says_what_is_wrong(attached, checkpoint, bpe_data_bin, tmp_path):
    def message(*arguments: object) -> str:
        with pytest.raises(SystemExit) as stop:
            seg_model.main([str(argument) for argument in arguments])
        return str(stop.value)

    made = ["--path", checkpoint, "--output", tmp_path / "model"]
    model = bpe_data_bin.with_name("joint.model")
    assert "is not the subword model" in message(attached, *made, "--spm-source", model, "--spm-target", model)
    assert "Only one subword model is given" in message(attached, *made, "--spm-source", model)
    assert "has no index" in message(
        shutil.copytree(bpe_data_bin, tmp_path / "bare", ignore=shutil.ignore_patterns("index*")), *made
    )
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()
    assert "exists and is not a model folder" in message(attached, *made)
    assert (tmp_path / "model" / "mine").exists()
    assert "none.pt" in message(attached, "--path", tmp_path / "none.pt", "--output", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_it_is_loaded_only_when_asked_for():
    program = "import sys, fairseq_seg; assert not {'torch', 'fairseq', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_folder_is_a_data_bin(folder, attached):
    assert DataBin(folder).fingerprint("train") == DataBin(attached).fingerprint("train")
