"""PO, the catalogues of gettext: translated messages, with polib.

A message's line is its unit and its `msgctxt` an attribute. In a message with a plural, the first form translates the
singular and each further form the plural (in a language without plurals, the only form translates the plural);
`plural` is an attribute with the form's number. Fuzzy, untranslated and obsolete messages are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fairseq_seg.errors import SegError, need
from fairseq_seg.files import read_lines
from fairseq_seg.store.pair import Skipped, TranslationUnit

# A line with a message's string, or with more of it.
STRING = re.compile(r'(msg\w+(\[\d+])?\s*)?"([^"\\]|\\.)*"')


def read_po(path: Path, target_lang: str) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the messages of a PO file; refuse a malformed file and name the line."""
    need("polib", "formats", "Reading PO files")
    import polib

    check_lines(path, polib.detect_encoding(str(path)))
    try:
        messages = polib.pofile(str(path))
    except OSError as error:  # polib's word for a syntax error
        line = re.search(r"\(line (\d+)\)", str(error))
        raise SegError(f"{path}: line {line[1] if line else 1} is not valid PO: repair it, msgfmt says how.") from None
    lang = messages.metadata.get("Language", "")
    if lang and re.split("[-_]", lang.lower())[0] != re.split("[-_]", target_lang.lower())[0]:
        raise SegError(f"{path}: it translates to {lang}, not to {target_lang}: name another file or memory.")
    for message in messages:
        if message.obsolete:
            yield Skipped("an obsolete message")
        elif message.fuzzy:
            yield Skipped("a fuzzy message")
        elif not message.translated():
            yield Skipped("an untranslated message")
        else:
            context = {} if message.msgctxt is None else {"msgctxt": message.msgctxt}
            forms = message.msgstr_plural or {None: message.msgstr}
            for form, target in sorted(forms.items()):
                singular = form is None or (form == 0 and len(forms) > 1)
                yield TranslationUnit(
                    message.msgid if singular else message.msgid_plural,
                    target,
                    str(path),
                    str(message.linenum),
                    context if form is None else context | {"plural": str(form)},
                )


def check_lines(path: Path, encoding: str) -> None:
    """Refuse a file that is not in the encoding it names, or with an unterminated string, which polib would cut."""
    with open(path, "rb") as file:
        for number, line in enumerate(read_lines(file, str(path), encoding), start=1):
            text = line.strip().removeprefix("#~").strip()
            if text.startswith(("msg", '"')) and not STRING.fullmatch(text):
                raise SegError(f"{path}: line {number} is not valid PO, its string has no end: repair it.")
