"""PO, the catalogues of gettext: translated messages, in whatever layout msgfmt accepts.

A message's line is its unit and its `msgctxt` an attribute. In a message with a plural, the first form translates the
singular and each further form the plural (in a language without plurals, the only form translates the plural);
`plural` is an attribute with the form's number. Fuzzy, untranslated and obsolete messages are skipped.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_seg.errors import SegError
from fairseq_seg.store.locales import base_language, language_code
from fairseq_seg.store.pair import Skipped, TranslationUnit

# What a line consists of, but for comments: a keyword, a string, or more than one of them. *+ never tries again with
# less, so that a string of any length takes no memory.
TOKEN = re.compile(
    r'\s*(?:(msgctxt|msgid_plural|msgid|msgstr)(?:\s*\[\s*(\d{1,9})\s*])?|"([^"\\]*+(?:\\.[^"\\]*+)*+)")'
)
ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]+|.)")
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
CHARSET = re.compile(rb'Content-Type:[^"\\]*charset=([\w.:-]+)')


@dataclass
class Message:
    """A message of a catalogue: the line of its msgid, and its strings by keyword, `msgstr` by form."""

    line: int = 0
    fuzzy: bool = False
    obsolete: bool = False
    texts: dict[str, list[str]] = field(default_factory=dict)
    forms: dict[int, list[str]] = field(default_factory=dict)

    def text(self, keyword: str) -> str | None:
        """Return the string of a keyword, None if the message has none."""
        return "".join(self.texts[keyword]) if keyword in self.texts else None


def read_po(path: Path, target_lang: str) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the pairs of a PO file; refuse a malformed file and name the line."""
    lang = target_lang
    for message in read_messages(path):
        source, plural, context = (message.text(name) for name in ("msgid", "msgid_plural", "msgctxt"))
        forms = {form: "".join(parts) for form, parts in sorted(message.forms.items())}
        if source == "" and context is None and not message.obsolete:
            lang = header_language(forms.get(0, "")) or lang
            if base_language(lang) != base_language(target_lang):
                raise SegError(f"{path}: it translates to {lang}, not to {target_lang}: name another file or memory.")
        elif message.obsolete:
            yield Skipped("an obsolete message")
        elif message.fuzzy:
            yield Skipped("a fuzzy message")
        elif not all(forms.values()):
            yield Skipped("an untranslated message")
        else:
            attributes = {} if context is None else {"msgctxt": context}
            if language_code(lang).lower() != language_code(target_lang).lower():
                attributes["target-lang"] = language_code(lang)
            for form, target in forms.items():
                singular = plural is None or (form == 0 and len(forms) > 1)
                yield TranslationUnit(
                    (source if singular else plural) or "",
                    target,
                    str(path),
                    str(message.line),
                    attributes if plural is None else attributes | {"plural": str(form)},
                )


def header_language(header: str) -> str:
    """Return the language that a catalogue's header names, "" if it names none."""
    found = re.search(r"^Language:[ \t]*(\S+)", header, re.MULTILINE)
    return found[1] if found else ""


def read_messages(path: Path) -> Iterator[Message]:
    """Iterate over the messages of a PO file, the header too.

    As for msgfmt, a keyword and its strings may be on one line or on several, and a comment needs no blank.
    """
    message = Message()
    strings: list[str] | None = None
    encoding = find_encoding(path)
    number = 0
    with open(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode(encoding).strip().removeprefix("\ufeff")
            except UnicodeError:
                raise SegError(
                    f"{path}: line {number} is not {encoding.upper()} text: convert the file first."
                ) from None
            obsolete = line.startswith("#~")
            if obsolete:
                line = line[2:].lstrip()
            if line.startswith("#") or (obsolete and line.startswith("|")):
                if (message.texts or message.forms) and not obsolete:
                    yield finish(message, path, number)
                    message, strings = Message(), None
                if line.startswith("#,"):
                    message.fuzzy = message.fuzzy or "fuzzy" in re.split(r"[\s,]+", line)
                continue
            end = 0
            for token in iter(lambda: TOKEN.match(line, end), None):  # noqa: B023 (called at once)
                end = token.end()
                keyword, form, string = token.groups()
                if keyword is None:
                    if strings is None:
                        raise malformed(path, number, "a string belongs to no keyword")
                    strings.append(unescape(string))
                    continue
                if message.forms and (keyword == "msgctxt" or keyword == "msgid"):
                    yield finish(message, path, number)
                    message = Message()
                if keyword == "msgstr":
                    if int(form or 0) in message.forms:
                        raise malformed(path, number, "a msgstr is repeated")
                    strings = message.forms[int(form or 0)] = []
                elif keyword in message.texts or message.forms:
                    raise malformed(path, number, f"{keyword} is not expected here")
                else:
                    strings = message.texts[keyword] = []
                    message.obsolete = obsolete
                    message.line = number if keyword == "msgid" else message.line
            if line[end:].strip():
                hint = (
                    "its string has no end" if '"' in line[end:] else f"{line[end:].strip()[:20]!r} is not of a message"
                )
                raise malformed(path, number, hint)
    if message.texts or message.forms:
        yield finish(message, path, number)


def finish(message: Message, path: Path, line: int) -> Message:
    """Refuse a message that lacks its msgid or msgstr."""
    if "msgid" not in message.texts or not message.forms:
        raise malformed(path, message.line or line, "a message lacks its msgid or msgstr")
    return message


def malformed(path: Path, line: int, reason: str) -> SegError:
    """Return the error about a line."""
    return SegError(f"{path}: line {line} is not valid PO ({reason}): repair it, msgfmt says how.")


def find_encoding(path: Path) -> str:
    """Return the encoding that a catalogue's header names, by default UTF-8."""
    with open(path, "rb") as file:
        found = CHARSET.search(file.read(1 << 16))
    name = found[1].decode() if found else "utf-8"
    try:
        # CHARSET is what a template says.
        return "utf-8" if name == "CHARSET" else codecs.lookup(name).name if is_text(name) else unknown(path, name)
    except LookupError:
        return unknown(path, name)


def is_text(name: str) -> bool:
    """Tell whether an encoding is one of text: Python has others, such as hex."""
    try:
        b"a".decode(name)
    except UnicodeError:
        pass
    return True


def unknown(path: Path, name: str) -> str:
    """Refuse an encoding that Python does not know."""
    raise SegError(f"{path}: line 1 is not {name.upper()} text: convert the file first.")


def unescape(string: str) -> str:
    """Read a string as C does."""
    return ESCAPE.sub(read_escape, string) if "\\" in string else string


def read_escape(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    code = escape[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16) & 0xFF) if code[0] == "x" and len(code) > 1 else ESCAPES.get(code, code)
