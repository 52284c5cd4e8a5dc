"""Find what must survive translation: numbers, placeholders, tags, and URLs, addresses and file names.

Decisions:
- A token is found whatever kinds are asked for, and only then left out: the 1 of `%1$d` is never a number.
- Digits in identifiers are numbers, the letters are not part of the token: A4, UTF-8, R1C1 and Sheet1 have the numbers
  4, 8, 1 and 1, and 1. Letters change in translation (Sheet1, Feuille1), digits do not. The same goes for 2nd and 1er.
- A sign is not part of a number, because a hyphen before digits is rarely one (1-4, UTF-8).
- Digits joined by points, slashes or colons are one token: 7.4.7, 192.168.0.1, 95/46, 12:30, 31.12.2020.
- Numbers joined by commas that do not form groups of three are a list: 1,2,3 is three numbers. 1,2 is one.
- Of an accelerator, the token is the mark alone: `~` in Sa~ve. Within a word, & is one if a small letter follows: E&xit
  has a mark, R&D does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

KINDS = ("numbers", "placeholders", "tags", "urls")

# Spaces and apostrophes between groups of three digits: no-break, narrow no-break, thin and ordinary.
SPACES = " \u00a0\u202f\u2009"
APOSTROPHES = "'\u2019"

EXTENSIONS = (
    "odt|ods|odp|odg|odb|odf|odm|ott|ots|otp|otg|oth|oxt|sxw|sxc|sxi|sdw|sdc|sdg|docx?|docm|dotx|xlsx?|xlsm|xltx?|pptx?|pps|"
    "rtf|txt|csv|tsv|xml|xsl|xslt|xsd|dtd|html?|xhtml|css|js|json|ya?ml|toml|ini|cfg|conf|log|rst|tex|pdf|eps|svgz?|png|"
    "jpe?g|gif|bmp|tiff?|webp|ico|wmf|emf|mp3|mp4|wav|ogg|avi|mov|mkv|webm|zip|tar|tgz|gz|bz2|xz|7z|rar|jar|exe|dll|msi|"
    "deb|rpm|dmg|iso|py|java|cpp|hpp|php|sh|bat|cmd|ps1|sql|mdb|dbf|sqlite|pot|tmx|xlf|xliff|properties|bak|tmp|xcu|xcs|"
    "xba|xlb|dic|aff|ttf|otf|woff2?"
)

# Quantifiers are possessive or bounded, and words are tried at their beginning only: the search takes linear time.
URLS = rf"""
    (?<![\w+.-]) [A-Za-z][A-Za-z0-9+.-]{{1,20}}+ :// [^\s<>"'“”„«»]* [\w/#=&%~-]
  | (?<![\w.-]) (?: www\. | mailto: ) [^\s<>"'“”„«»]* [\w/#=&%~-]
  | (?<![\w.+-]) [\w.+-]{{1,64}}+ @ [\w-]++ (?: \.[\w-]++ )++
  | (?: (?<!\w) [A-Za-z]: | %\w{{2,40}}+% | \\ ) (?: \\ [\w$%@~+()-]++ (?: \.++ [\w$%@~+()-]++ )*+ )++ \\?
  | (?<![\w.~:/<\\-]) (?: ~ | \.{{1,2}} )? / [\w.@%+~-]++ (?: / [\w.@%+~-]* [\w%+~-] )++ /?
  | (?<![\w./-]) (?: [\w-]{{1,100}}+ / ){{0,20}} [\w-]{{1,100}}+ (?: \. [\w-]{{1,100}}+ ){{0,5}}?
    \. (?: {EXTENSIONS} ) (?! \w | \.\w )
"""
TAGS = r"""
    </?[A-Za-z][\w:.-]{0,60}+ (?: \s++ [\w:.-]++ \s*+ = \s*+ (?: "[^"<>]*+" | '[^'<>]*+' | [^\s"'<>=/]++ ) )*+ \s*+ /?>
  | <!-- (?: [^<>-] | -(?!->) ){0,1000}+ -->
  | <\?[A-Za-z][^<>?]{0,200}+\?>
  | & (?: [A-Za-z][A-Za-z0-9]{1,31}+ | \#[0-9]{1,7}+ | \#[xX][0-9A-Fa-f]{1,6}+ ) ;
"""
PLACEHOLDERS = r"""
    %\( \w{1,60}+ \) [-+#0]*+ [0-9]*+ (?: \.[0-9]++ )?+ [A-Za-z]
  | \{\{ [^{}\n]{1,100}+ \}\}
  | \$\{ [^{}\n]{1,100}+ \} | \$\( [A-Za-z_][\w.-]{0,60}+ \)
  | \{ (?: \w[\w.\[\]-]{0,60}+ )?+ (?: ![rsa] )?+ (?: :[^{}\s]{0,30}+ )?+ \} | \{ [ ]?+ \$[\w-]{1,60}+ [ ]?+ \}
  | \[\$\w{1,60}+\] | \[X[0-9]{1,6}+X\] | <\?>
  | %%
  | (?<!\d) % (?:
        [A-Za-z_]\w{1,40}+ %
      | [0-9]{1,2}+ % (?!\w)
      | (?: [0-9]{1,2}+ \$ )?+ [-+#0']*+ (?: [0-9]{1,4}+ | \* )?+ (?: \. (?: [0-9]{1,4}+ | \* )?+ )?+
        (?: hh?+ | ll?+ | [Lqjzt] )?+ [diouxXeEfFgGaAcsSpn@] (?! [A-Z_] | (?<=[A-Z])\w | (?<=%[a-z]) [a-z]{3} )
      | [A-Z][A-Za-z0-9_]{1,40}+
      | [A-Za-z] (?![A-Za-z_])
      | L?[0-9]{1,2}+ (?![\d$])
    )
  | ~ (?=[^\W\d_])
  | (?: (?<![\w&]) & (?=[^\W\d_]) | (?<=[^\W\d_]) & (?=[a-z]) )
"""
GROUPED = "|".join(
    rf"(?<!\d[.,]) (?<!\d[{mark}]) (?!0) \d{{1,3}}"
    rf"(?P<g{name}>[{mark}]) \d{{3}} (?: (?P=g{name}) \d{{3}} )*+ (?! {after} )"
    for name, mark, after in (
        ("space", SPACES.replace(" ", "\\ "), "\\d"),
        ("quote", APOSTROPHES, "\\d"),
        ("comma", ",", ",?\\d"),
        ("point", ".", "\\.?\\d"),
    )
)
NUMBERS = rf"""
    (?<!\w) (?:
        \d{{4}}-\d{{2}}-\d{{2}} (?!\d) | \d{{1,2}}-\d{{1,2}}-\d{{4}} (?!\d)
      | \d++ (?: / \d++ )++ | \d++ (?: : \d++ )++
      | (?: {GROUPED} ) (?: [.,] \d++ (?! [.,]\d ) )?+ (?: [eE][+-]?[0-9]{{1,3}} (?!\w) )?+
      | \d++ (?: \. \d++ ){{2,}}+
      | (?<! \d[.,] ) \d++ [.,] \d++ (?! ,\d ) (?: [eE][+-]?[0-9]{{1,3}} (?!\w) )?+
      | \d++ (?: [eE][+-]?[0-9]{{1,3}} (?!\w) )?+
    )
  | (?<! [^\s("'=;\[{{*+/-] ) \. \d++ (?! [.,]\d )
  | \d++
"""
PATTERN = re.compile(
    "|".join(
        f"(?P<{kind}>{pattern})"
        for kind, pattern in (("urls", URLS), ("tags", TAGS), ("placeholders", PLACEHOLDERS), ("numbers", NUMBERS))
    ),
    re.VERBOSE,
)
# Without any of these, a text has no token.
SIGNS = re.compile(r"[\d%{$\[~&<@/\\]|\.\w")


class Token(NamedTuple):
    """A part of a text that must survive translation: text[start:end]."""

    kind: str  # one of KINDS
    start: int
    end: int
    text: str


def find_tokens(text: str, kinds: Collection[str] = KINDS) -> list[Token]:
    """Return the tokens of some kinds in a text, from left to right; they never overlap."""
    if not kinds or SIGNS.search(text) is None:
        return []
    return [
        Token(match.lastgroup, match.start(), match.end(), match[0])  # type: ignore[arg-type]
        for match in PATTERN.finditer(text)
        if match.lastgroup in kinds
    ]
