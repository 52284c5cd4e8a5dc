"""Names and codes of languages."""

from __future__ import annotations

# Code of two letters, code of three (with the second one that some clients use), name.
TABLE = """
af afr Afrikaans|ar ara Arabic|az aze Azerbaijani|be bel Belarusian|bg bul Bulgarian|bn ben Bengali|br bre Breton
bs bos Bosnian|ca cat Catalan|cs ces Czech|cy cym Welsh|da dan Danish|de deu German|el ell Greek|en eng English
eo epo Esperanto|es spa Spanish|et est Estonian|eu eus Basque|fa fas Persian|fi fin Finnish|fr fra French|ga gle Irish
gl glg Galician|gu guj Gujarati|he heb Hebrew|hi hin Hindi|hr hrv Croatian|hu hun Hungarian|hy hye Armenian
id ind Indonesian|is isl Icelandic|it ita Italian|ja jpn Japanese|ka kat Georgian|kk kaz Kazakh|ko kor Korean
lb ltz Luxembourgish|lt lit Lithuanian|lv lav Latvian|mk mkd Macedonian|ms msa Malay|mt mlt Maltese
nb nob Norwegian Bokmål|nl nld Dutch|nn nno Norwegian Nynorsk|no nor Norwegian|oc oci Occitan|pl pol Polish
pt por Portuguese|ro ron Romanian|ru rus Russian|sk slk Slovak|sl slv Slovenian|sq sqi Albanian|sr srp Serbian
sv swe Swedish|sw swa Swahili|ta tam Tamil|te tel Telugu|th tha Thai|tl tgl Tagalog|tr tur Turkish|uk ukr Ukrainian
ur urd Urdu|uz uzb Uzbek|vi vie Vietnamese|zh zho Chinese
"""
ROWS = [row.split(" ", 2) for row in TABLE.strip().replace("\n", "|").split("|")]
NAMES = {short: name for short, _, name in ROWS}
SHORT = {long: short for short, long, _ in ROWS}


def name_of_language(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known."""
    base = base_code(code)
    variety = code.replace("_", "-").partition("-")[2]
    return NAMES.get(base, code) + (f" ({variety})" if variety and base in NAMES else "")


def base_code(code: str) -> str:
    """Return the language of a code in two letters if it has such a code: en_GB and eng are en."""
    base = code.replace("_", "-").partition("-")[0].lower()
    return SHORT.get(base, base)


def find_code(code: str, known: list[str]) -> str | None:
    """Return the one of the known codes that stands for the same language; the same variety comes first."""
    wanted = code.replace("_", "-").lower()
    for candidate in known:
        if candidate.replace("_", "-").lower() == wanted:
            return candidate
    return next((candidate for candidate in known if base_code(candidate) == base_code(code)), None)
