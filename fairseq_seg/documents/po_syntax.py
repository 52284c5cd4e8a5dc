r"""The syntax of gettext's PO files: entries with the offsets of their strings and comments, and strings as PO.

All that msgfmt accepts is accepted: comments without a blank, strings on the line of another one, `\ooo` and `\xhh`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fairseq_seg.documents.raw import Raw
from fairseq_seg.errors import SegError

TOKEN = re.compile(
    rb"(?P<blank>[ \t\r\f\v]+|\n|\xef\xbb\xbf)|(?P<comment>#[^\n]*)"
    rb"|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr|domain)"
    rb'|\[\s*(?P<index>\d+)\s*\]|(?P<string>"(?:[^"\\\n]|\\[^\n])*")'
)
ESCAPED = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]+|.)")
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
ESCAPES = {"\\": "\\\\", '"': '\\"'} | {character: f"\\{letter}" for letter, character in LETTERS.items()}
WIDTH = 79


@dataclass
class Text:
    """A string of an entry: its text, and the offsets of its first and last quote."""

    start: int
    end: int
    text: str
    index: int | None = None  # of a plural form
    commented: bool = False  # whether a comment stands between its parts
    long_line: bool = False  # whether a line is longer than gettext would make it


@dataclass
class Comment:
    """A comment and its offsets, without the line break."""

    start: int
    end: int
    text: str


@dataclass
class Entry:
    """A message with its comments."""

    line: int = 0
    start: int = 0  # of the first keyword
    domain: str = ""
    comments: list[Comment] = field(default_factory=list)
    fields: dict[str, Text] = field(default_factory=dict)  # msgctxt, msgid, msgid_plural
    strings: list[Text] = field(default_factory=list)  # msgstr, or all plural forms

    @property
    def flags(self) -> list[str]:
        """Words after `#,`."""
        lines = (comment.text[2:] for comment in self.comments if comment.text.startswith("#,"))
        return [flag.strip() for line in lines for flag in line.split(",") if flag.strip()]

    def text(self, name: str) -> str | None:
        """Return a field's text."""
        return self.fields[name].text if name in self.fields else None

    def previous(self, name: str) -> str | None:
        """Return a field of the previous version of the message, from `#|`."""
        lines = " ".join(comment.text[2:] for comment in self.comments if comment.text.startswith("#|"))
        found = re.search(rf'\b{name}\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', lines)
        return None if found is None else "".join(map(unquote, re.findall(r'"(?:[^"\\]|\\.)*"', found[1])))


def read_entries(raw: Raw, name: str) -> Iterator[Entry]:
    """Iterate over the entries, the header first; obsolete ones (`#~`) are left out."""
    reader = _Reader(raw, name)
    place, size = 0, len(raw.data)
    while place < size:
        found = TOKEN.match(raw.data, place)
        if found is None:
            raise reader.strange(place)
        done = reader.take(found)
        if done is not None:
            yield done
        place = found.end()
    if (done := reader.finish()) is not None:
        yield done


class _Reader:
    """Puts entries together from tokens."""

    def __init__(self, raw: Raw, name: str):
        self._raw, self._name = raw, name
        self._line, self._domain, self._keyword = 1, "", ""
        self._entry = Entry()
        # Comments after a string: of this entry if another string follows, else of the next.
        self._after: list[Comment] = []
        self._text: Text | None = None  # of the last keyword

    def take(self, token: re.Match[bytes]) -> Entry | None:
        """Take a token, and return the entry that ends before it."""
        if token.lastgroup == "blank":
            self._line += token[0].count(b"\n")
        elif token.lastgroup == "comment":
            return self._comment(token)
        elif token.lastgroup == "keyword":
            return self._start(token[0].decode(), token.start())
        elif token.lastgroup == "index":
            if self._keyword != "msgstr" or self._text is not None:
                raise self._fail(f"what is '{token[0].decode()}'?")
            self._text = Text(-1, -1, "", int(token["index"]))
        else:
            self._string(token)
        return None

    def finish(self) -> Entry | None:
        """Return the last entry."""
        self._check_text()
        if self._entry.fields and not self._entry.strings:
            raise self._fail("msgid without msgstr")
        return self._entry if self._entry.strings else None

    def strange(self, place: int) -> SegError:
        """Return the error for bytes that are no token."""
        rest = self._raw.data[place : place + 20].split(b"\n")[0].decode(errors="replace")
        return self._fail("a string has no end" if rest.startswith('"') else f"what is '{rest}'?")

    def _comment(self, token: re.Match[bytes]) -> Entry | None:
        line = token[0].rstrip(b"\r")
        comment = Comment(token.start(), token.start() + len(line), self._decode(line))
        done = None
        if comment.text.startswith("#~"):
            if self._entry.strings:
                done = self._next()
            self._entry.comments.clear()  # they are of the obsolete entry
        else:
            (self._after if self._entry.strings else self._entry.comments).append(comment)
        return done

    def _start(self, keyword: str, place: int) -> Entry | None:
        self._check_text()
        done = None
        if keyword in ("msgctxt", "msgid", "domain") and self._entry.strings:
            done = self._next()
        entry = self._entry
        if keyword in entry.fields:
            raise self._fail("msgid without msgstr" if "msgid" in entry.fields else f"{keyword} twice")
        if keyword in ("msgid_plural", "msgstr") and "msgid" not in entry.fields:
            raise self._fail(f"{keyword} without msgid")
        if keyword == "msgstr" and entry.strings and "msgid_plural" not in entry.fields:
            raise self._fail("msgstr twice")
        if keyword == "domain" and entry.fields:
            raise self._fail("domain within an entry")
        if not entry.fields:
            entry.start, entry.line, entry.domain = place, self._line, self._domain
        if keyword == "msgid":
            entry.line = self._line
        self._keyword, self._text = keyword, None
        return done

    def _string(self, token: re.Match[bytes]) -> None:
        if not self._keyword:
            raise self._fail("a string without a keyword")
        text = unquote(self._decode(token[0]))
        entry = self._entry
        if self._text is None or self._text.start < 0:
            self._text = self._text or Text(-1, -1, "")
            self._text.start = token.start()
            if self._keyword == "msgstr":
                entry.strings.append(self._text)
                entry.comments += self._after
                self._after = []
            elif self._keyword == "domain":
                self._domain = text
            else:
                entry.fields[self._keyword] = self._text
        elif self._after:
            self._text.commented = True
            entry.comments += self._after
            self._after = []
        self._text.end = token.end()
        self._text.text += text
        self._text.long_line |= len(token[0]) > WIDTH + 1

    def _next(self) -> Entry:
        """Begin the next entry, and return the one that is complete."""
        self._check_text()
        done, self._entry, self._after = self._entry, Entry(comments=self._after), []
        self._keyword, self._text = "", None
        return done

    def _check_text(self) -> None:
        if self._keyword and (self._text is None or self._text.start < 0):
            raise self._fail(f"{self._keyword} without a string")

    def _decode(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeError:
            raise self._fail("it is not UTF-8 text, as its header says or leaves open") from None

    def _fail(self, what: str) -> SegError:
        return SegError(f"{self._name}: line {self._line} is not valid PO ({what}): repair it, msgfmt -c says how.")


def unquote(string: str) -> str:
    """Return the text of a string with its quotes."""

    def character(found: re.Match[str]) -> str:
        code = found[1]
        if code[0].isdigit():
            return chr(int(code, 8))
        return chr(int(code[1:], 16) & 0xFF) if len(code) > 1 else LETTERS.get(code, code)

    return ESCAPED.sub(character, string[1:-1])


def quote(text: str, newline: str, wrap: bool = True) -> str:
    """Return a text as strings the way gettext writes them: broken after line feeds and, with `wrap`, at blanks."""
    lines = []
    for part in re.findall(r"[^\n]*\n|[^\n]+", text):
        escaped = "".join(ESCAPES.get(character, character) for character in part)
        lines += _wrap(escaped) if wrap else [escaped]
    whole = "".join(lines)
    if len(text.rstrip("\n").split("\n")) == 1 and (not wrap or len(whole) + len('msgstr[0] ""') <= WIDTH):
        return f'"{whole}"'
    return newline.join(['""', *(f'"{line}"' for line in lines)])


def _wrap(text: str) -> list[str]:
    lines = [""]
    for word in re.findall(r"\S*\s*", text):
        if lines[-1] and len(lines[-1]) + len(word) > WIDTH - 2:
            lines.append("")
        lines[-1] += word
    return lines
