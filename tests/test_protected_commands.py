"""Protected tokens through every command: what a small trained model translates has the source's own tokens."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fairseq_seg import Translator
from fairseq_seg.cli import cache as seg_cache
from fairseq_seg.cli import explain as seg_explain
from fairseq_seg.cli import memory as seg_memory
from fairseq_seg.cli import model as seg_model
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.terms import Term
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.split import load_split
from fairseq_seg.models.seg_gru import SegGRUModel
from fairseq_seg.source.pair_source import Wanted, open_for_split
from fairseq_seg.source.terms import TermCutter
from fairseq_seg.store.store import TranslationMemory
from preprocess import attach as seg_attach
from tests.attached_corpus import PLUGIN
from tests.protected_corpus import THIN, prefixes, prepare_protected, train_protected
from tests.stock import run_stock, run_stock_until_it_stops, tagged_lines

DECODING = ["--beam", 2, "--max-len-a", 0, "--max-len-b", 60, "--cpu", "--memory-k", 1]
OPTIONS = {"beam": 2, "max_len_a": 0, "max_len_b": 60, "cpu": True}
# Typed sentences, with numbers that no training sentence has, and their translations.
TYPED = {
    "open page 7 of 3001": "sur 3001 pages ouvrir la page 7",
    "open page 8 of 3001": "sur 3001 pages ouvrir la page 8",  # the same symbols as before
    "open page 3002 of 9": "sur 9 pages ouvrir la page 3002",
    "write 99,999.5 into x.py": f"mettre dans x.py le nombre 99{THIN}999,5",
    "press <u>OK</u> for {user}": "pour {user} cliquer <u>OK</u>",
    "delete [X5X] now": "supprimer [X5X] maintenant",
    "close the page": "fermer la page",
}


@pytest.fixture(scope="module")
def data_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_protected(tmp_path_factory.mktemp("protected") / "corpus")


@pytest.fixture(scope="module")
def checkpoint(data_bin: Path) -> Path:
    return train_protected(data_bin, "--max-epoch", 25, "--disable-validation")


@pytest.fixture(scope="module")
def folder(data_bin: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder, moved after it was made."""
    made = tmp_path_factory.mktemp("model") / "made"
    subwords = [f"--spm-source={data_bin.with_name('en.model')}", f"--spm-target={data_bin.with_name('fr.model')}"]
    seg_model.main([str(data_bin), "--path", str(checkpoint), "--output", str(made), "--memory-k=1", *subwords])
    return Path(shutil.move(made, made.with_name("moved")))


@pytest.fixture(scope="module")
def generated(data_bin: Path, checkpoint: Path) -> str:
    options = ["--path", checkpoint, "--remove-bpe", "sentencepiece", "--batch-size", 16, *DECODING]
    return run_stock("generate", data_bin, *PLUGIN, *options)


def lines(data_bin: Path, lang: str, split: str = "test") -> list[str]:
    return (data_bin.with_name("text") / f"{split}.{lang}").read_text(encoding="utf-8").splitlines()


def texts(output: str, tag: str) -> list[str]:
    """Return the texts of the lines of a tag, in order."""
    found = tagged_lines(output, tag)
    return [found[index][0][-1] for index in sorted(found)]


def test_generate_prints_true_texts(generated: str, data_bin: Path):
    assert texts(generated, "S") == lines(data_bin, "en")
    assert texts(generated, "T") == lines(data_bin, "fr")
    right = [text == other for text, other in zip(texts(generated, "H"), lines(data_bin, "fr"), strict=True)]
    assert sum(right) >= 0.9 * len(right)
    assert "⟦" not in generated
    # fairseq's own score is that of the restored texts.
    assert float(re.search(r"BLEU4 = ([\d.]+)", generated)[1]) > 80


def test_every_sentence_has_its_own_numbers(generated: str, data_bin: Path):
    for source, text in zip(lines(data_bin, "en"), texts(generated, "H"), strict=True):
        numbers = re.findall(r"\d+", source)
        assert all(number in numbers for number in re.findall(r"\d+", text)), (source, text)


def test_validation_scores_true_texts(data_bin: Path, checkpoint: Path, tmp_path: Path):
    options = ["--hidden-size", 48, "--embed-dim", 48, "--dropout", 0, "--memory-k", 1, "--preset", "recommended"]
    options += [
        "--arch",
        "seg_gru_small",
        "--gate-hidden",
        16,
        "--criterion",
        "seg_cross_entropy",
        "--optimizer",
        "adam",
    ]
    options += ["--eval-bleu", "--eval-bleu-remove-bpe", "sentencepiece", "--eval-bleu-print-samples", "--cpu"]
    options += ["--eval-bleu-args", '{"beam": 1, "max_len_a": 0, "max_len_b": 60}', "--batch-size", 16]
    options += ["--finetune-from-model", checkpoint, "--max-update", 1, "--lr", 1e-9, "--save-dir", tmp_path]
    output = run_stock("train", data_bin, *PLUGIN, *options)
    assert float(re.search(r"\| bleu ([\d.]+)", output)[1]) > 80
    samples = re.findall(r"example (?:hypothesis|reference): (.*)", output)
    assert samples and not any("⟦" in sample for sample in samples)


@pytest.mark.parametrize("buffer", [1, 4])
def test_interactive(data_bin: Path, checkpoint: Path, buffer: int):
    typed = [*TYPED, "", "open page 7 of 3001"]
    options = ["-s", "en", "-t", "fr", "--path", checkpoint, *DECODING]
    options += ["--bpe", "sentencepiece", "--sentencepiece-model", data_bin.with_name("en.model")]
    options += ["--buffer-size", buffer, "--batch-size", buffer]
    output = run_stock("interactive", data_bin, *PLUGIN, *options, stdin="".join(f"{line}\n" for line in typed))
    expected = [TYPED.get(line, "") for line in typed]
    assert [text.replace(" ", "").replace("▁", " ").strip() for text in texts(output, "S")] == typed
    assert texts(output, "D") == expected


def test_symbols_without_values_stay_symbols(data_bin: Path, checkpoint: Path):
    options = ["-s", "en", "-t", "fr", "--path", checkpoint, *DECODING]
    [line, *_] = (data_bin.with_name("symbols") / "test.en").read_text().splitlines()
    output = run_stock("interactive", data_bin, *PLUGIN, *options, stdin=f"{line}\n")
    assert texts(output, "S") == [line]
    assert re.findall("⟦[^⟧]*⟧", texts(output, "H")[0])


def test_the_hub(folder: Path):
    hub = SegGRUModel.from_pretrained(str(folder), cpu=True)
    assert hub.translate(["open page 7 of 3001"], beam=2, verbose=True) == [TYPED["open page 7 of 3001"]]
    assert [hub.translate([line], beam=2)[0] for line in TYPED] == list(TYPED.values())
    assert hub.translate(list(TYPED), beam=2) == list(TYPED.values())


def test_translator(folder: Path):
    with Translator(folder, **OPTIONS) as translator:
        found = translator.translate([*TYPED, "", "⟦n1⟧ %s ⟦=x⟧"], provenance=True)
    assert [translation.text for translation in found][: len(TYPED)] == list(TYPED.values())
    assert len(found) == len(TYPED) + 2 and found[-2].flags == ["empty"]
    explained = found[0].explanation
    assert explained.source == "open page 7 of 3001" and explained.translation == found[0].text
    assert [word.text for word in explained.words] == found[0].text.split()
    # A number that is copied comes from the place of another number, which the pair shows as its own.
    copied = {word.text: word.copied_from for word in explained.words}["3001"]
    assert copied is not None
    assert re.fullmatch(r"\d+", explained.pairs[copied.pair].target_words[copied.position])
    assert "3001" not in explained.pairs[copied.pair].target


def test_explain_a_split(data_bin: Path, checkpoint: Path, capsys: pytest.CaptureFixture, generated: str):
    arguments = [str(data_bin), "--path", str(checkpoint), "--gen-subset", "test", "--json", *map(str, DECODING)]
    seg_explain.main(arguments)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [sentence["source"] for sentence in found] == lines(data_bin, "en")
    assert [sentence["reference"] for sentence in found] == lines(data_bin, "fr")
    assert [sentence["translation"] for sentence in found] == texts(generated, "H")


def test_explain_given_translations(data_bin: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    arguments = [str(data_bin), "--path", str(checkpoint), "--gen-subset", "test", "--json", *map(str, DECODING)]
    arguments += ["--translations", str(data_bin.with_name("text") / "test.fr")]
    seg_explain.main([*arguments, "--target-sentencepiece-model", str(data_bin.with_name("fr.model"))])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [sentence["translation"] for sentence in found] == lines(data_bin, "fr")


def test_evaluation_sees_true_texts(data_bin: Path):
    split = load_split(data_bin, "test")
    assert (split.sources, split.references) == (lines(data_bin, "en"), lines(data_bin, "fr"))
    assert not any("⟦" in text for text in split.pair_targets)
    assert any("=" in line for line in split.source_symbols)  # the values, for seg-explain


def test_pairs_that_differ_in_numbers_are_different_pairs_that_find_each_other(data_bin: Path):
    data = DataBin(data_bin)
    table = data.table()
    sources = lines(data_bin, "en", "train")
    assert [table.text(pair)[0] for pair in range(len(table))] == sources
    from fairseq_seg.corpus.selection import Selection
    from fairseq_seg.source.pair_source import Attached

    found = Attached(data, "train", Selection(1)).ranked
    row = next(row for row, text in enumerate(sources) if text.startswith("open page"))
    [[best], [score], _] = found[row]
    assert score == 1 and sources[best].startswith("open page") and sources[best] != sources[row]


# Memories and caches


@pytest.fixture
def memory(data_bin: Path, tmp_path: Path) -> Path:
    models = ["--spm-source", str(data_bin.with_name("en.model")), "--spm-target", str(data_bin.with_name("fr.model"))]
    where = [str(tmp_path / "own.mem"), "--data-bin", str(data_bin), "-s", "en", "-t", "fr"]
    seg_memory.main(["create", *where, *models])
    for pair in (("write page 3", "noter page 3"), ("write page 4", "noter page 4"), ("%s", "%s")):
        seg_memory.main(["add", str(tmp_path / "own.mem"), *pair])
    return tmp_path / "own.mem"


def test_a_memory_keeps_texts_and_finds_other_numbers(memory: Path, folder: Path, capsys: pytest.CaptureFixture):
    capsys.readouterr()
    seg_memory.main(["search", str(memory), "write page 5", "-n", "2"])
    found = [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()]
    assert found == [["1.0000", "1", "write page 3"], ["1.0000", "2", "write page 4"]]
    with Translator(folder, memory=f"{memory},train", memory_k=3, **OPTIONS) as translator:
        [translation] = translator.translate(["write page 4"])
        assert [pair.target for pair in translation.pairs[:2]] == ["noter page 3", "noter page 4"]


@pytest.mark.parametrize("exact", ["copy", "ignore"])
def test_exact_matches_have_the_same_numbers(memory: Path, folder: Path, exact: str):
    with Translator(folder, memory=str(memory), memory_exact=exact, memory_k=3, **OPTIONS) as translator:
        same, other = translator.translate(["write page 4", "write page 5"])
    if exact == "copy":
        assert (same.text, same.flags) == ("noter page 4", ["exact"]) and other.flags == []
    else:
        assert [pair.target for pair in same.pairs][:1] == ["noter page 3"]
        assert "noter page 4" not in [pair.target for pair in same.pairs]
        assert {"noter page 3", "noter page 4"} <= {pair.target for pair in other.pairs}


def test_interactive_copies_only_the_same_numbers(memory: Path, data_bin: Path, checkpoint: Path):
    options = ["-s", "en", "-t", "fr", "--path", checkpoint, *DECODING]
    options += ["--bpe", "sentencepiece", "--sentencepiece-model", data_bin.with_name("en.model")]
    options += ["--memory", memory, "--memory-exact", "copy", "--buffer-size", 3, "--memory-k", 3]
    typed = ["write page 3", "write page 5", "write page 4"]
    output = run_stock("interactive", data_bin, *PLUGIN, *options, stdin="".join(f"{line}\n" for line in typed))
    copied = texts(output, "D")
    assert (copied[0], copied[2]) == ("noter page 3", "noter page 4") and copied[1] not in (
        "noter page 3",
        "noter page 4",
    )


def test_a_cache_changes_nothing(data_bin: Path, checkpoint: Path, generated: str, tmp_path: Path):
    cache = ["--memory-cache", str(tmp_path / "cache")]
    seg_cache.main([str(data_bin), "--path", str(checkpoint), "-s", "en", "-t", "fr", "--cpu", *cache])
    options = ["--path", checkpoint, "--remove-bpe", "sentencepiece", "--batch-size", 16, *DECODING]
    cached = run_stock("generate", data_bin, *PLUGIN, *options, *cache)
    assert texts(cached, "H") == texts(generated, "H")


def test_attached_live_and_cached_adaptive_pairs_translate_alike(data_bin: Path, checkpoint: Path, tmp_path: Path):
    """With the overlap, which the recommended preset has: it depends on the sentence, whatever gives it its pairs."""
    adaptive = ["--path", checkpoint, *DECODING, "--memory-select", "adaptive"]
    generate = ["generate", data_bin, *PLUGIN, *adaptive, "--remove-bpe", "sentencepiece", "--batch-size", 16]
    attached = texts(run_stock(*generate), "H")
    assert texts(run_stock(*generate, "--memory-cache", tmp_path / "cache"), "H") == attached
    options = ["-s", "en", "-t", "fr", *adaptive, "--buffer-size", 16, "--batch-size", 16]
    options += ["--bpe", "sentencepiece", "--sentencepiece-model", data_bin.with_name("en.model")]
    typed = "".join(f"{line}\n" for line in lines(data_bin, "en"))
    assert texts(run_stock("interactive", data_bin, *PLUGIN, *options, stdin=typed), "D") == attached


# What does not fit


def test_a_memory_or_model_without_protection_is_refused(data_bin: Path, checkpoint: Path, tmp_path: Path):
    from preprocess import subword

    plain = tmp_path / "plain"
    text = data_bin.with_name("text") / "train.en"
    subword.main(["train", "--input", str(text), "--model", str(plain), "--vocab-size", "80"])
    with pytest.raises(SegError, match="has protected tokens and .*plain.model has not: name the subword model"):
        TranslationMemory.create(tmp_path / "m", "en", "fr", data_bin, f"{plain}.model", f"{plain}.model")
    with pytest.raises(SegError, match="has protected tokens, which texts in symbols cannot have: give --spm-source"):
        TranslationMemory.create(tmp_path / "m", "en", "fr", data_bin)
    options = ["-s", "en", "-t", "fr", "--path", checkpoint, "--bpe", "sentencepiece", *DECODING]
    options += ["--sentencepiece-model", f"{plain}.model"]
    said = run_stock_until_it_stops("interactive", data_bin, *PLUGIN, *options, stdin="close the page\n")
    assert re.search(r"has protected tokens and \S*plain.model has not: name the subword model", said)
    unprotected = tmp_path / "data"
    unprotected.mkdir()
    for lang in ("en", "fr"):
        shutil.copy(f"{plain}.dict.txt", unprotected / f"dict.{lang}.txt")
    TranslationMemory.create(tmp_path / "n", "en", "fr", unprotected, f"{plain}.model", f"{plain}.model").close()
    options = ["-s", "en", "-t", "fr", "--path", checkpoint, *DECODING, "--memory", tmp_path / "n"]
    said = run_stock_until_it_stops("interactive", data_bin, *PLUGIN, *options, stdin="close the page\n")
    assert "does not use the model's en dictionary: export it, create it again" in said


def copy_of(data_bin: Path, folder: Path) -> Path:
    return Path(shutil.copytree(data_bin, folder / "data-bin"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "is missing, but the dictionary has protected tokens: run seg-attach again with"),
        (lambda file: file.write_bytes(file.read_bytes()[:-3]), "is damaged: run seg-attach again"),
        (lambda file: file.write_bytes(b"other"), "is not a file of values: run seg-attach again"),
        (lambda file: shutil.copy(file.with_name("valid.en-fr.en.values"), file), "was made from other data than"),
    ],
    ids=["missing", "truncated", "foreign", "of another split"],
)
def test_values_that_do_not_fit_are_refused(data_bin: Path, tmp_path: Path, damage, message: str):
    copied = copy_of(data_bin, tmp_path)
    damage(copied / "test.en-fr.en.values")
    with pytest.raises(SegError, match=message):
        DataBin(copied).pair("test")


def test_the_other_direction_needs_text_of_its_own(data_bin: Path):
    with pytest.raises(SegError, match="its tokens are numbered for the other direction, so encode the text again"):
        DataBin(data_bin, "fr", "en").pair("test")


def test_values_of_another_text_are_not_placed(data_bin: Path, tmp_path: Path):
    copied = copy_of(data_bin, tmp_path)
    folder = data_bin.parent
    train, valid, test = prefixes(folder)
    with pytest.raises(SystemExit, match="have 20 lines, not 60: name the files that fairseq-preprocess was given"):
        seg_attach.main([str(copied), valid.replace("--valid", "--test")])
    other = tmp_path / "test"
    for lang in ("en", "fr"):
        rows = (folder / "symbols" / f"test.{lang}.values").read_text().splitlines()
        Path(f"{other}.{lang}.values").write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    with pytest.raises(SystemExit, match=r"have other tokens in line \d+: name the files"):
        seg_attach.main([str(copied), f"--testpref={other}"])
    Path(f"{other}.en.values").write_text("#values of the target en\n")
    with pytest.raises(SystemExit, match="does not belong to a source text: encode the text again for this direction"):
        seg_attach.main([str(copied), f"--testpref={other}"])
    with pytest.raises(SystemExit, match="values is missing: seg-subword encode writes it"):
        seg_attach.main([str(copied), f"--testpref={tmp_path / 'none'}"])


def test_a_dictionary_that_fairseq_counted_is_refused(data_bin: Path, tmp_path: Path):
    copied = copy_of(data_bin, tmp_path)
    for lang in ("en", "fr"):
        path = copied / f"dict.{lang}.txt"
        path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("⟦=")))
    with pytest.raises(
        SegError, match="dict.en.txt lacks symbols of the subword model, which protects tokens: run fair"
    ):
        DataBin(copied).pair("test")


def test_fairseq_says_what_is_missing(data_bin: Path, tmp_path: Path):
    copied = copy_of(data_bin, tmp_path)
    (copied / "train.en-fr.fr.values").unlink()
    options = ["--arch", "seg_gru_small", "--criterion", "seg_cross_entropy", "--optimizer", "adam", "--cpu"]
    options += ["--memory-k", 0, "--batch-size", 8, "--save-dir", tmp_path / "c"]
    said = run_stock_until_it_stops("train", copied, *PLUGIN, *options)
    assert "train.en-fr.fr.values is missing, but the dictionary has protected tokens: run seg-attach" in said


def test_terms_with_numbers_are_protected_like_any_text(data_bin: Path, tmp_path: Path):
    """The number of a term is a reserved symbol with a value, so that it is renumbered for each sentence."""
    data = DataBin(data_bin, "en", "fr")
    models = ",".join(str(data.folder.with_name(f"{lang}.model")) for lang in ("en", "fr"))
    match = TermCutter(data, models).match(Term("page 12", "page 12", (), 1))
    assert match is not None and match.values == (["12"], ["12"])
    texts = [s.text(ids, own) for s, ids, own in zip(data.spellings, match[2:4], match.values, strict=True)]
    assert texts == ["page 12", "page 12"]
    terms = tmp_path / "terms.tsv"
    terms.write_text("page\tpage\npage 12\tpage 12\n")
    sentences, _ = data.sides("test")
    source = open_for_split(data, "test", Wanted(terms=str(terms), terms_subwords=models), may_search=True)
    found = source.retrieve(sentences)
    assert found.table is not None
    for row, (ids, _, _) in enumerate(found):
        text = data.spellings[0].text(sentences[row], sentences.values_of(row))
        own = [found.table.origin(pair) for pair in ids if found.table.origin(pair).startswith("terms:")]
        assert own == ([] if "page" not in text else ["terms:2" if "page 12 " in text else "terms:1"])
