"""Tokens that must survive translation: which are found, where, and in what time."""

import random
import re
import time

import pytest

from fairseq_seg.corpus.tokens import KINDS, find_tokens


def found(text: str, kind: str) -> list[str]:
    return [token.text for token in find_tokens(text, {kind})]


# Sentences of LibreOffice's help, of EU law, and of software.
TABLE = [
    ("placeholders", r"printf %s %1$d %-5.2f %% and %(name)s", ["%s", "%1$d", "%-5.2f", "%%", "%(name)s"]),
    ("placeholders", "{0} {name} {{x}} {} {0:.2f} {u!r}", ["{0}", "{name}", "{{x}}", "{}", "{0:.2f}", "{u!r}"]),
    ("placeholders", "${x} $(x) [$x] [X5X] <?>", ["${x}", "$(x)", "[$x]", "[X5X]", "<?>"]),
    ("placeholders", "About %PRODUCTNAME %PRODUCTVERSION", ["%PRODUCTNAME", "%PRODUCTVERSION"]),
    ("placeholders", "Copying %1 of %2 files, %dpx wide, %H:%M", ["%1", "%2", "%d", "%H", "%M"]),
    ("placeholders", "100 % des mots, 50% de plus, 17 % d'un", []),
    ("placeholders", "{1;2;3} or {user profile} and US$5", []),
    ("placeholders", "~File Sa~ve &File E&xit (~F)", ["~", "~", "&", "&", "~"]),
    ("placeholders", "R&D, AT&T, Date&Time, a & b, ~100, &amp;", []),
    ("tags", '<b>bold</b> <br/> <x id="1"/>', ["<b>", "</b>", "<br/>", '<x id="1"/>']),
    ("tags", "&amp; &#160; &#xA0;", ["&amp;", "&#160;", "&#xA0;"]),
    ("tags", "P (F<=f) if Type <> 0 and a<b and c>d & e; Profit < 5000", []),
    ("tags", '<a href="http://x.org/1?a=1&b=2">', ['<a href="http://x.org/1?a=1&b=2">']),
    ("tags", "<!-- note 3 --> <?xml?>", ["<!-- note 3 -->", "<?xml?>"]),
    ("urls", 'See "http://www.example.org"; or (https://x.org/a_b).', ["http://www.example.org", "https://x.org/a_b"]),
    ("urls", "file:///data1/xyz/picture.gif, www.example.org.", ["file:///data1/xyz/picture.gif", "www.example.org"]),
    ("urls", "Write to jane.doe+x@mail.example.org.", ["jane.doe+x@mail.example.org"]),
    ("urls", "sub1.odt, images/myFile.csv and 2020-report.odt.", ["sub1.odt", "images/myFile.csv", "2020-report.odt"]),
    ("urls", r"C:\homepage\index.html or c:\office\data1.ods.", [r"C:\homepage\index.html", r"c:\office\data1.ods"]),
    ("urls", "/etc/fstab and /opt/LibreOffice in UNIX", ["/etc/fstab", "/opt/LibreOffice"]),
    ("urls", r"%APPDATA%\LibreOffice\4\user\Scripts\python.", [r"%APPDATA%\LibreOffice\4\user\Scripts\python"]),
    ("urls", "NO.SEMAINE.ISO, and/or, his /her, months/quarters/years, OpenOffice.org 3.2, 2011/16/EU", []),
    ("numbers", "between 1 and 2,147,483,647", ["1", "2,147,483,647"]),
    ("numbers", "1 721,81 et 281 474 976 710 656", ["1 721,81", "281 474 976 710 656"]),
    ("numbers", "1\u202f234,5 ou 1'234", ["1\u202f234,5", "1'234"]),
    ("numbers", "Regulation (EU) No 1094/2010, Directive 95/46/EC", ["1094/2010", "95/46"]),
    ("numbers", "Article 2(1), 7.4.7, 192.168.0.1, at 12:30", ["2", "1", "7.4.7", "192.168.0.1", "12:30"]),
    ("numbers", "2001-01-25 to 31.12.2020 or 12/31/2020", ["2001-01-25", "31.12.2020", "12/31/2020"]),
    ("numbers", "1,2,3 and 1,2; 8,5 %; {1,2} ,3", ["1", "2", "3", "1,2", "8,5", "1,2", "3"]),
    ("numbers", "2nd, 1er, A4, x86_64, UTF-8, R1C1, Sheet1", ["2", "1", "4", "86", "64", "8", "1", "1", "1"]),
    ("numbers", "=IMCSC(-0.0754-3i), 10E38, 1.4 x 10E-45, .5", ["0.0754", "3", "10E38", "1.4", "10E-45", ".5"]),
    ("numbers", "in 2020 100 people", ["2020", "100"]),
    ("numbers", "12:30 v1.2 %1$d http://x.org/12 &#160; {0} report2.odt [X5X]", ["12:30", "1", "2"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "expected"), TABLE)
def test_the_tokens_of_real_strings(kind: str, text: str, expected: list[str]):
    assert found(text, kind) == expected


PARTS = [
    *"%{}$()[]<>&;~/\\.,:'@-_ \u00a0 1290aEÉ中\n",
    "1,234",
    "http://",
    "%s",
    "<b>",
    "&amp;",
    "x.odt",
    "C:\\",
    "10 000",
]


def test_tokens_are_in_order_disjoint_and_slices_of_the_text():
    random.seed(1)
    some = 0
    for _ in range(3000):
        text = "".join(random.choices(PARTS, k=random.randrange(30)))
        tokens = find_tokens(text)
        some += len(tokens)
        assert all(text[token.start : token.end] == token.text != "" for token in tokens)
        assert all(before.end <= after.start for before, after in zip(tokens, tokens[1:], strict=False))
        assert {token.kind for token in tokens} <= set(KINDS)
        # Each digit is in some token: nothing that changes in translation escapes.
        covered = {place for token in tokens for place in range(token.start, token.end)}
        assert {match.start() for match in re.finditer(r"\d", text)} <= covered
        for kind in KINDS:  # a choice leaves out tokens and changes none
            assert find_tokens(text, [kind]) == [token for token in tokens if token.kind == kind]
    assert some > 3000


UNITS = [
    "{",
    "<",
    "1,",
    "1",
    "a",
    " ",
    "http://",
    ".",
    '<a b="',
    "<a b=c ",
    "\\",
    "/a",
    "a.",
    "a@",
    "a/",
    "<!--",
    "%(",
    "-",
]
UNITS += ["{{a", "1 ", "1.", "12/", "~/", "C:\\a", "x.odt", "\\.", "$(a", "1'234", "%1", "&a", "some words "]


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_even_for_adversarial_text(unit: str):
    began = time.process_time()
    find_tokens(unit * (100_000 // len(unit)))
    assert time.process_time() - began < 5  # a tenth of that on a slow machine; quadratic time would be a minute


def test_a_line_of_a_megabyte():
    began = time.process_time()
    assert len(find_tokens("words of a text, 12 %s of them. " * 31_250)) == 62_500
    assert time.process_time() - began < 20
