"""Faults of translations: what is one, what is not, and on which side."""

import pytest

from fairseq_seg.corpus.faults import Fault, faults, nests
from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.corpus.number_words import numbers_in_words

EN, FR, DE, HU = map(notation_of, ("en", "fr", "de", "hu"))


def of(source: str, target: str, *notations, **more) -> list[tuple[str, str]]:
    return [tuple(fault) for fault in faults(source, target, *(notations or (EN, FR)), **more)]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Page %1$s of %2$s", "%2$s pages, page %1$s"),
        ("%s of %s", "%2$s : %1$s"),
        ("<b>File</b>&nbsp;%s<br>", "<b>Fichier</b>%s<br>"),
        ("What <i>is</i> this?", "Qu'est-ce&nbsp;que <i>c'est</i>&nbsp;?"),
        ('<img alt="A dog" src="x.png"/>', '<img alt="Un chien" src="x.png"/>'),
        ("1,234.5 units and 2nd", "1 234,5 unités et 2e"),
        ("It costs 8.5 %", "Cela coûte 8,5 %"),
        ("the first paragraph, two times", "1er alinéa, 2 fois"),
        ("on 12/31/2020 at 12:30", "le 31 décembre 2020 à 12 h 30"),
        ("Article 23(1a)", "article 23, paragraphe 1 bis"),
        ("See http://x.org and report.odt", "Voir http://x.org et report.odt"),
        ("a < b or x <> 0 </b>", "a < b ou x <> 0 </b>"),  # tags that never nested
        ("LibreOffice 7.4", "LibreOffice 7.4"),
        ("LibreOffice 7.4 for you", "LibreOffice 7.4 pour vous"),
        ("", ""),
        ("%s: %d", "%s: %d"),  # nothing to translate
        ("Sheet1!A4", "Feuille1!A4"),
    ],
)
def test_right_translations(source: str, target: str):
    assert not [fault for fault in of(source, target) if not Fault(*fault).is_weak]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("“%s” to “%s”", "sssss", [("lost placeholder", "%s")] * 2),
        ("Open %s", "Ouvrir %s %s", [("extra placeholder", "%s")]),
        ("{name} and {other}", "{nom} et {other}", [("lost placeholder", "{name}"), ("extra placeholder", "{nom}")]),
        ("~File", "Fichier", [("lost placeholder", "~")]),
        ("<b>a</b>", "<b>b", [("lost tag", "</b>"), ("nesting", "<b>")]),
        ("<b>a <i>b</i></b>", "<b>a <i>c</b></i>", [("nesting", "<b><i></b></i>")]),
        ('<x id="1"/>', '<x id="2"/>', [("lost tag", '<x id="1"/>'), ("extra tag", '<x id="2"/>')]),
        ("article 12", "l'article 14", [("wrong number", "14"), ("missing number", "12")]),
        ("Type of message", "Type de message 3", [("wrong number", "3")]),
        ("1,234 units", "1,234 unités", [("wrong number", "1,234"), ("missing number", "1,234")]),
        ("two of 5 files", "deux fichiers", [("missing number", "5")]),
        ("report.odt", "rapport.odt", [("lost address", "report.odt"), ("extra address", "rapport.odt")]),
        ("Some text", " ", [("empty", "")]),
        ("Some text", "Some text ", [("identical", "")]),
        ("until 12/31/2020", "jusqu'au 30 décembre 2020", [("wrong number", "30"), ("missing number", "12/31/2020")]),
    ],
)
def test_faults(source: str, target: str, expected: list):
    assert of(source, target) == expected


def test_kinds_can_be_left_out():
    assert of("12 %s", "13 %d", kinds={"placeholders"}) == [("lost placeholder", "%s"), ("extra placeholder", "%d")]
    assert [kind for kind, _ in of("12 %s", "13 %d", kinds={"numbers"})] == ["wrong number", "missing number"]
    assert of("12 %s", "13 %d", kinds=()) == []


def test_weak_faults():
    assert [Fault(kind, "").is_weak for kind in ("missing number", "identical", "wrong number", "empty")] == [
        1,
        1,
        0,
        0,
    ]


def test_numbers_in_words():
    assert numbers_in_words("The First of two dozen", "en-GB") == {1, 2, 12}
    assert numbers_in_words("deuxième", "fr_FR") == {2}
    assert numbers_in_words("a második", "hu") is None
    assert of("a második bekezdés", "2. Absatz", HU, DE) == []  # the words are not known
    assert of("a második bekezdés 7", "2. Absatz", HU, DE)[0] == ("wrong number", "2")
    assert of("the paragraph", "2. Absatz", EN, DE) == [("wrong number", "2")]


def test_200_placeholders():
    source = " ".join(f"{{a{number}}} <b>{number}</b> %s" for number in range(200))
    assert of(source, source) == []
    assert of(source, source.replace("{a7}", "{a8}", 1)) == [
        ("lost placeholder", "{a7}"),
        ("extra placeholder", "{a8}"),
    ]


def test_nesting():
    assert nests(["<a>", "<br>", "<b/>", "&amp;", "<!-- </a> -->", "</a>"])
    assert not nests(["</a>"]) and not nests(["<a>"]) and not nests(["<a>", "<b>", "</a>", "</b>"])
