"""How languages write numbers and dates."""

from decimal import Decimal

import pytest

from fairseq_seg.corpus.notation import localised, notation_of, value
from fairseq_seg.corpus.tokens import find_tokens

EN, GB, FR, DE, CH = map(notation_of, ("en", "en-GB", "fr", "de", "de-CH"))
NNBSP = "\u202f"


def value_of(text: str, notation):
    [token] = find_tokens(text)
    assert token.text == text
    return value(token, notation)


@pytest.mark.parametrize(
    ("text", "notation", "expected"),
    [
        ("1,234.5", EN, Decimal("1234.5")),
        ("1 234,5", FR, Decimal("1234.5")),
        ("1.234,5", DE, Decimal("1234.5")),
        ("1\u2019234.5", CH, Decimal("1234.5")),
        ("1,234", EN, Decimal(1234)),
        ("1,234", FR, Decimal("1.234")),
        ("1.234", DE, Decimal(1234)),
        ("0,234", EN, Decimal("0.234")),
        ("8,5", EN, Decimal("8.5")),  # EU law writes English so
        ("40 000", EN, Decimal(40000)),
        ("8,000.00", EN, Decimal(8000)),
        (".5", EN, Decimal("0.5")),
        ("1.5E-10", EN, Decimal("1.5e-10")),
        ("7.4.7", EN, "7.4.7"),
        ("95/46", EN, "95/46"),
        ("12:30", EN, "12:30"),
        ("2001-01-25", FR, (2001, 1, 25)),
        ("01/12/2022", EN, (2022, 1, 12)),
        ("01/12/2022", GB, (2022, 12, 1)),
        ("12/31/2020", GB, (2020, 12, 31)),
        ("1.12.2022", EN, (2022, 12, 1)),
        ("99/99/2020", EN, "99/99/2020"),
        ("%1$d", EN, "%1$d"),
    ],
)
def test_values(text: str, notation, expected):
    assert value_of(text, notation) == expected
    assert hash(value_of(text, notation)) == hash(expected)


@pytest.mark.parametrize(
    ("text", "source", "target", "expected"),
    [
        ("1,234.5", EN, FR, f"1{NNBSP}234,5"),
        ("1,234.5", EN, DE, "1.234,5"),
        (f"1{NNBSP}234,5", FR, EN, "1,234.5"),
        ("2,147,483,647", EN, FR, f"2{NNBSP}147{NNBSP}483{NNBSP}647"),
        ("1000", EN, FR, "1000"),
        ("007", EN, DE, "007"),
        ("5.00", EN, DE, "5,00"),
        ("1.5E-10", EN, DE, "1,5E-10"),
        (".5", EN, FR, "0,5"),
        ("7.4.7", EN, DE, "7.4.7"),
        ("192.168.0.1", EN, DE, "192.168.0.1"),
        ("1.2.3", EN, FR, "1.2.3"),
        ("12:30", EN, FR, "12:30"),
        ("2001-01-25", EN, FR, "2001-01-25"),
        ("01/12/2022", EN, FR, "12/01/2022"),
        ("31/12/2020", GB, DE, "31.12.2020"),
        ("12/31/2020", EN, DE, "31.12.2020"),
        ("31.12.2020", EN, FR, "31.12.2020"),
    ],
)
def test_the_surface_in_another_language(text: str, source, target, expected: str):
    assert localised(text, source, target) == expected


@pytest.mark.parametrize("lang", ["en", "en-GB", "fr", "de", "de-CH", "es", "pt-PT", "sv", "ja", "hu", "pl"])
def test_a_localised_number_keeps_its_value(lang: str):
    target = notation_of(lang)
    for text in ("1,234.5", "1,234", "1.234", "12", "0.5", "1,234,567.891", "7.4.7", "12/31/2020", "01/12/2022", ".25"):
        assert value_of(localised(text, EN, target), target) == value_of(text, EN), text


def test_languages_fall_back_from_their_regions():
    assert notation_of("de_DE.UTF-8@euro")[1:] == DE[1:]
    assert notation_of("zh-Hant-TW").date == "y/m/d"
    assert notation_of("pt-BR").group == "."
    assert notation_of("pt_PT").group == "\u00a0"
    assert notation_of("tlh").decimal == "."


def test_a_text_shows_its_group_mark_and_the_order_of_its_dates():
    lines = ["10 000 or 5,1 or 1.5", "200 000 on 31/12/2020", "1\u00a0000"]
    assert notation_of("en", lines).group == " "
    assert notation_of("en", lines).date == "d/m/y"
    assert notation_of("fr", lines).group == " "
    assert notation_of("de", ["7.4 and 12,5"]) == DE


def test_long_numbers_cost_little():
    assert value_of("1" * 100_000, EN) == value_of("1" * 100_000, FR)
    assert len(localised("1," * 50_000 + "1", EN, FR)) == 100_001
