"""Protected tokens: what becomes a reserved symbol in a source and in a target, and how a text comes back."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.corpus.protection import Protection, values_by_key
from fairseq_seg.corpus.reserved import LIMIT, ReservedIds, parse, reserved_symbols, split_value, with_value
from fairseq_seg.corpus.subwords import Spelling, SubwordModel, check_protection
from fairseq_seg.corpus.tokens import KINDS
from fairseq_seg.errors import SegError
from preprocess.subword import main

EN, FR = Protection(KINDS, notation_of("en")), Protection(KINDS, notation_of("fr"))
THIN = "\u202f"


@pytest.mark.parametrize(
    ("text", "protected"),
    [
        ("Page 3 of 12", "Page ⟦n1⟧ of ⟦n2⟧"),
        ("3 is 3, not 4", "⟦n1⟧ is ⟦n1⟧, not ⟦n2⟧"),
        ("1,234.5 in <b>A4</b>", "⟦N1⟧ in ⟦t1⟧A⟦n2⟧⟦t2⟧"),
        ("%s of %1$d: {name} ${x}", "⟦p1⟧ of ⟦p2⟧: ⟦p3⟧ ⟦p4⟧"),
        ("see https://a.org/b?c=1.", "see ⟦u1⟧."),
        ("</b> unbalanced <i>", "⟦t1⟧ unbalanced ⟦t2⟧"),
        ("no token", "no token"),
        ("", ""),
    ],
)
def test_source(text: str, protected: str):
    assert EN.source(text).text == protected


@pytest.mark.parametrize(
    ("source", "target", "protected"),
    [
        ("Page 3 of 12", "12 pages, page 3", "⟦n2⟧ pages, page ⟦n1⟧"),
        ("1,234.5 now", f"maintenant 1{THIN}234,5", "maintenant ⟦N1⟧"),
        ("LibreOffice 7.4", "LibreOffice 7.4", "LibreOffice ⟦n1⟧"),  # verbatim, not 7,4
        ("7.4", "7,4", "⟦N1⟧"),
        ("three of 4", "3 de 4", "3 de ⟦n1⟧"),  # a number in words has no number
        ("%s", "rien", "rien"),  # a placeholder in the source only
        ("nothing", "%s 5", "%s 5"),
        ("12/31/2020", "31/12/2020", "⟦N1⟧"),
        ("<b>x</b>", "x</b> <i>", "x⟦t2⟧ <i>"),
    ],
)
def test_target(source: str, target: str, protected: str):
    assert FR.target(target, source, EN).text == protected


def symbols_of(text: str) -> list[str]:
    """Return the reserved symbols of a protected text."""
    return [symbol for symbol in reserved_symbols(KINDS) if symbol in text and "▁" not in symbol]


def in_order(text: str) -> Iterable[str]:
    return sorted(symbols_of(text), key=text.index)


@pytest.mark.parametrize(
    ("source", "translation", "restored"),
    [
        ("Page 3 of 12", "⟦n2⟧ pages, ⟦n1⟧", ["12", "3"]),
        ("1,234.5 or 7.4", "⟦N1⟧ ⟦n1⟧ ⟦N2⟧ ⟦n2⟧", [f"1{THIN}234,5", "1,234.5", "7,4", "7.4"]),
        ("%s <b>", "⟦t1⟧⟦p1⟧", ["<b>", "%s"]),
        ("nothing", "⟦n1⟧", [""]),  # cannot be generated
    ],
)
def test_a_translation_gets_the_tokens_of_its_source(source: str, translation: str, restored: list[str]):
    protected = EN.source(source)
    of_source = values_by_key(in_order(protected.text), protected.values)
    assert FR.restore([parse(symbol) for symbol in in_order(translation)], of_source, EN) == restored


def test_too_many_tokens_stay_text():
    text = " ".join(f"{{a{number}}}" for number in range(200))
    protected = EN.source(text)
    assert protected.text.split()[LIMIT - 1 : LIMIT + 1] == [f"⟦p{LIMIT}⟧", f"{{a{LIMIT}}}"]
    assert len(protected.values) == LIMIT
    assert EN.source("%s " * 200).text == "⟦p1⟧ " * 200


def test_whatever_looks_reserved_is_a_token():
    for typed in ("⟦n1⟧", "⟦N24⟧", "⟦t7⟧", EN.name, FR.name):
        protected = EN.source(f"{typed} and 5")
        assert (protected.text, protected.values) == ("⟦p1⟧ and ⟦n1⟧", [typed, "5"])
    only_numbers = EN._replace(kinds=("numbers",))
    assert only_numbers.source("⟦p1⟧").values == ["⟦p1⟧"]
    many = EN.source(" ".join(f"⟦n{number}⟧⟦t{number}⟧" for number in range(1, 25)))
    assert len(many.values) == LIMIT and len(many.literals) == LIMIT
    assert EN.source("https://a.org/⟦n1⟧/x").text == "⟦u1⟧"


def test_kinds():
    text = "3 %s <b> a.txt"
    assert EN._replace(kinds=("placeholders",)).source(text).text == "3 ⟦p1⟧ <b> a.txt"
    assert EN._replace(kinds=("numbers", "urls")).source(text).text == "⟦n1⟧ %s <b> ⟦u1⟧"


def test_the_name_says_it_all():
    for protection in (EN, FR, Protection(("tags",), notation_of("de-ch"))):
        assert Protection.parse(protection.name) == protection
        assert Protection.of(["a", *protection.symbols, "b"]) == protection
        assert not any(character.isspace() for character in protection.name)
    assert Protection.of(["a", "⟦n1⟧"]) is None
    with pytest.raises(SegError, match="written by another version"):
        Protection.of(["⟦=numbers:zz⟧"])


def test_reserved_symbols_and_values():
    symbols = reserved_symbols(KINDS)
    assert len(set(symbols)) == len(symbols) == LIMIT * 2 * (2 + 3)
    assert [str(parse(symbol)) for symbol in symbols] == symbols
    for symbol, value in (("⟦n1⟧", "1 234"), ("▁⟦t3⟧", "<a\thref='\\x'>"), ("⟦p2⟧", "⟦n1=5⟧\u00a0")):
        word = with_value(symbol, value)
        assert word.split() == [word] and split_value(word) == (symbol, value) and parse(word) is None
    assert all(parse(text) is None for text in ("⟦n0⟧", "⟦n25⟧", "⟦x1⟧", "⟦n1", "a⟦n1⟧", "⟦P1⟧"))
    assert split_value("⟦n1⟧") is split_value("a") is None


def test_ids_of_a_kind_share_a_class():
    ids = ReservedIds.of(["a", "⟦n1⟧", "▁⟦N2⟧", "⟦t1⟧", "b", "▁⟦t2⟧"])
    assert ids.classes.tolist() == [0, 1, 1, 3, 4, 3]
    assert ids.is_reserved.tolist() == [False, True, True, True, False, True]
    assert ids.id(ids.keys[2], True, True) == 2 and ids.id(ids.keys[2], True, False) == -1
    assert ReservedIds.of(["a", "b"]) is None


# Through a subword model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[SubwordModel, SubwordModel]:
    """Models of both languages, and one without protection beside them."""
    folder = tmp_path_factory.mktemp("protected")
    lines = {
        "en": ["open page 3 of 12 in a.txt", "press <b>OK</b> for %s and {name}", "1,234.5 files", "nothing at all"],
        "fr": ["ouvrir la page 3 sur 12 dans a.txt", "<b>OK</b> pour %s et {name}", f"1{THIN}234,5 fichiers", "rien"],
    }
    for lang, text in lines.items():
        (folder / f"text.{lang}").write_text("".join(f"{line}\n" for line in text) * 3)
        options = ["--protect", "numbers,placeholders,tags,urls"]
        main(
            ["train", "--input", str(folder / f"text.{lang}"), "--model", str(folder / lang), "--vocab-size", "310"]
            + options
        )
    main(["train", "--input", str(folder / "text.en"), "--model", str(folder / "plain"), "--vocab-size", "60"])
    return SubwordModel(folder / "en.model"), SubwordModel(folder / "fr.model")


def folder_of(models: tuple[SubwordModel, SubwordModel]) -> Path:
    return models[0].path.parent


def test_a_model_knows_what_it_protects(models: tuple[SubwordModel, SubwordModel]):
    assert models[0].protection == EN and models[1].protection == FR
    lines = (folder_of(models) / "en.dict.txt").read_text().splitlines()
    assert len(lines) == 306 and Protection.of(line.rpartition(" ")[0] for line in lines) == EN


def test_a_space_before_a_token_costs_no_symbol(models: tuple[SubwordModel, SubwordModel]):
    cut = models[0].cut_source("page 3 of(12)")
    assert [symbol for symbol in cut.symbols if "⟦" in symbol] == ["▁⟦n1⟧", "⟦n2⟧"]
    assert "▁" not in cut.symbols and cut.values == ["3", "12"]


NASTY = [
    "page 3 of 12: <b>OK</b> %s {name} a.txt",
    "1,234.5 1,234.5",
    f"1{THIN}234,5 and 1 234",
    "⟦n1⟧ ⟦n1⟧ 5 ⟦=x⟧",
    " ".join(f"⟦n{number}⟧⟦t{number}⟧" for number in range(1, 25)),
    " ".join(f"{{a{number}}}" for number in range(40)),
    '<a href="x  y">  z</a>',
    "%s%s %s",
    "5",
    "",
]


@pytest.mark.parametrize("text", NASTY)
def test_a_round_trip_gives_the_text_back(models: tuple[SubwordModel, SubwordModel], text: str, tmp_path: Path):
    # The letters of the text alone, so that none is unknown; but double spaces are one.
    (tmp_path / "t.en").write_text(
        f"{text}\n" * 3 + "⟦n1⟧ ⟦=x⟧ abc {} t the quick brown fox jumps over the lazy dog\n" * 3
    )
    train = ["train", "--input", tmp_path / "t.en", "--model", tmp_path / "m", "--vocab-size", "300"]
    main(list(map(str, [*train, "--protect", "numbers,placeholders,tags,urls"])))
    encode = ["encode", "--model", tmp_path / "m.model", "--input", tmp_path / "t.en", "--output", tmp_path / "s"]
    main(list(map(str, encode)))
    main(["decode", "--input", str(tmp_path / "s"), "--output", str(tmp_path / "d")])
    expected = text.replace(">  z", "> z")
    assert (tmp_path / "d").read_text().splitlines()[0] == expected
    assert len((tmp_path / "s.values").read_text().splitlines()) == 7


def test_random_pairs_come_back(models: tuple[SubwordModel, SubwordModel]):
    rng = random.Random(1)
    words = ["page", "of", "3", "12", "1,234.5", "%s", "<b>", "</b>", "{name}", "a.txt", "7.4"]
    of_source, of_target = models
    for _ in range(300):
        source, target = (" ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(2))
        cut = of_target.cut_target(target.replace("1,234.5", f"1{THIN}234,5"), source, EN)
        spelling = Spelling(of_target.pieces())
        ids = [of_target.pieces().index(s) if s in of_target.pieces() else 3 for s in cut.symbols]
        if 3 not in ids:
            # A number that the source lacks is text, in which every white space is a space.
            assert spelling.text(ids, cut.values).replace(THIN, " ") == target.replace("1,234.5", "1 234,5")
        # What is reserved can be had back from the source alone.
        sources = of_source.cut_source(source)
        known = values_by_key(sources.symbols, sources.values)
        reserved = [found for symbol in cut.symbols if (found := parse(symbol))]
        assert FR.restore(reserved, known, EN) == cut.values


def test_other_protection_is_refused(models: tuple[SubwordModel, SubwordModel]):
    plain = SubwordModel(folder_of(models) / "plain.model")
    check_protection(models[0].pieces(), models[0], "dict.en.txt")
    check_protection(plain.pieces(), plain, "dict.en.txt")
    with pytest.raises(SegError, match="dict.en.txt has protected tokens and .*plain.model has not: name the subword"):
        check_protection(models[0].pieces(), plain, "dict.en.txt")
    with pytest.raises(SegError, match="en.model has protected tokens and dict.en.txt has not"):
        check_protection(plain.pieces(), models[0], "dict.en.txt")
    with pytest.raises(SegError, match="dict.en.txt and .*fr.model protect different tokens"):
        check_protection(models[0].pieces(), models[1], "dict.en.txt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("encode --model {0}/en.model --input {0}/text.en", "values go beside the output: give --input and --output"),
        (
            "encode --model {0}/plain.model --input {0}/text.en --output {1}/o --source {0}/text.en",
            "plain.model protects no tokens: leave out --source",
        ),
        (
            "encode --model {0}/fr.model --input {0}/text.fr --output {1}/o --source {1}/short",
            "short ends before line 2, which the other file has: correct --source",
        ),
        (
            "encode --model {0}/fr.model --input {0}/text.fr --output {1}/o --source {0}/text.en --source-model "
            "{0}/plain.model",
            "plain.model protects no tokens: train it with --protect, too",
        ),
        ("decode --input {1}/reserved", "line 1 has 1 protected tokens but 0 values"),
    ],
)
def test_bad_input_is_one_sentence(models, arguments: str, message: str, tmp_path: Path):
    (tmp_path / "short").write_text("one\n")
    (tmp_path / "reserved").write_text("▁⟦n1⟧\n")
    with pytest.raises(SystemExit, match=message) as stop:
        main(arguments.format(folder_of(models), tmp_path).split())
    assert "\n" not in str(stop.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reserved", "short"]


def test_unknown_kinds_are_refused(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit):
        main(["train", "--input", "x", "--model", "y", "--vocab-size", "9", "--protect", "names"])
    assert "'names' is not one of numbers, placeholders, tags, urls, none" in capsys.readouterr().err
