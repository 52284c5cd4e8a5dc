"""Gettext's PO: messages with contexts and plural forms, each edited in place.

A new target is marked `#, fuzzy`, and a comment says where it comes from; an exact match that counts as final gets no
mark. A fuzzy message with its previous msgid (`#| msgid`) gives the pair that it was made from. In a plural the first
form translates the singular and all others the plural (in a language with one form, this translates the plural).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairseq_seg.documents.po_syntax import Comment, Entry, Text, quote, read_entries
from fairseq_seg.documents.segment import Document, Edit, Segment, Splice, Unit, keep_margins
from fairseq_seg.errors import SegError

CHARSET = re.compile(rb"charset=([\w.:-]+)")
NPLURALS = re.compile(r"^Plural-Forms:.*nplurals\s*=\s*(\d+)", re.MULTILINE)
LANGUAGE = re.compile(r"^Language:[ \t]*(\S+)", re.MULTILINE)
OURS = "# seg-translate: "


@dataclass
class Places:
    """An entry and, for each segment, its string; None: the entry lacks this plural form."""

    entry: Entry
    strings: list[Text | None]


class Po(Document):
    """A PO file."""

    format = "po"
    _has_charset = False
    _ascii = False

    def encoding(self, head: bytes) -> str:
        """Return the charset of the header; a template has none."""
        found = CHARSET.search(head)
        self._ascii = found is not None and found[1].upper() in (b"ASCII", b"US-ASCII")
        return "utf-8" if found is None or found[1] == b"CHARSET" else found[1].decode()

    def units(self) -> Iterator[Unit]:
        """Iterate over the messages, and refuse one that is there twice."""
        plurals: int | None = None
        seen: dict[tuple, int] = {}
        self._has_charset = False
        for entry in read_entries(self.raw, self.name):
            key = entry.domain, entry.text("msgctxt"), entry.text("msgid")
            if key in seen:
                raise SegError(
                    f"{self.name}: line {entry.line} repeats the message of line {seen[key]}: merge the two, "
                    "msguniq does."
                )
            seen[key] = entry.line
            if key[1:] == (None, ""):
                header = entry.strings[0].text
                found, lang = NPLURALS.search(header), LANGUAGE.search(header)
                plurals = int(found[1]) if found else None
                self._has_charset = bool(CHARSET.search(header.encode())) and "charset=CHARSET" not in header
                self.check_langs(None, lang[1] if lang else None)
            else:
                yield self._unit(entry, plurals)

    def _unit(self, entry: Entry, plurals: int | None) -> Unit:
        msgid, plural = entry.text("msgid") or "", entry.text("msgid_plural")
        flags, context = entry.flags, entry.text("msgctxt") or ""
        strings: list[Text | None] = list(entry.strings)
        locked = "a comment stands within its strings" if any(text.commented for text in entry.strings) else ""
        if plural is not None:
            by_index = {text.index: text for text in entry.strings}
            if plurals is None:
                locked = "the header has no Plural-Forms"
            elif len(by_index) != len(entry.strings) or not by_index.keys() <= set(range(plurals)):
                locked = "it has other plural forms than the header says"
            strings = [by_index.get(index) for index in range(plurals or len(entry.strings))]
        old = entry.previous("msgid"), entry.previous("msgid_plural")
        segments = []
        for index, text in enumerate(strings):
            singular = plural is None or (index == 0 and len(strings) > 1)
            target, before = text.text if text else "", old[0 if singular else 1] or old[0]
            segments.append(
                Segment(
                    id=str(entry.line) if plural is None else f"{entry.line}[{index}]",
                    line=entry.line,
                    source=msgid if singular or plural is None else plural,
                    target=target,
                    state="new" if not target else "fuzzy" if "fuzzy" in flags else "done",
                    locked=locked,
                    context=context,
                    previous=(before, target) if before and target and "fuzzy" in flags else None,
                    hints=tuple(flag for flag in flags if flag != "fuzzy"),
                )
            )
        return Unit(segments, Places(entry, strings))

    def splices(self, unit: Unit, edits: Sequence[Edit | None]) -> list[Splice]:
        """Return the new strings, the fuzzy flag and the comment."""
        places: Places = unit.places
        texts = [
            None if e is None else keep_margins(s.source, e.text) for s, e in zip(unit.segments, edits, strict=True)
        ]
        if not any(text is not None and self.can_hold(text) for text in texts):
            return []
        newline = self.raw.newline.decode()
        wrap = not any(text.long_line for text in [*places.entry.fields.values(), *places.entry.strings])
        found, more = [], ""
        for index, (text, place) in enumerate(zip(texts, places.strings, strict=True)):
            if place is None:
                more += f"{newline}msgstr[{index}] {quote(text or '', newline, wrap)}"
            elif text is not None and self.can_hold(text):
                found.append(Splice(place.start, place.end, quote(text, newline, wrap).encode()))
        end = places.entry.strings[-1].end
        found.append(Splice(end, end, more.encode()))
        given = [edit for edit in edits if edit is not None]
        # A message is final if all of it is, the forms that were there before included.
        final = all(edit.final for edit in given) and (
            "fuzzy" not in places.entry.flags or all(edit is not None for edit in edits)
        )
        return [*self._marks(places.entry, given[0], final, newline), *found]

    def can_hold(self, text: str) -> bool:
        """Tell whether the charset has all characters of a text."""
        return self.raw.can_hold(text)

    def _marks(self, entry: Entry, edit: Edit, final: bool, newline: str) -> list[Splice]:
        found = []
        fuzzy = "fuzzy" in entry.flags
        for comment in entry.comments:
            if comment.text.startswith(OURS) or (final and fuzzy and comment.text.startswith("#|")):
                found.append(self._line(comment))
        if final:
            return found + [self._sure(comment) for comment in entry.comments if is_fuzzy(comment)]
        place = entry.comments[0].start if entry.comments else entry.start
        break_ = "" if place == 0 or self.raw.data[place - 1 : place] in (b"\n", b"\xbf") else newline
        remark = f"{OURS}{describe(edit)}{newline}"
        if not self.raw.can_hold(remark):
            remark = remark.encode("ascii", "replace").decode()
        flags = next((comment for comment in entry.comments if comment.text.startswith("#,")), None)
        if fuzzy:
            return [Splice(place, place, (break_ + remark).encode()), *found]
        if flags is not None:
            found.append(Splice(flags.start + 2, flags.start + 2, b" fuzzy,"))
            return [Splice(place, place, (break_ + remark).encode()), *found]
        before = next((comment.start for comment in entry.comments if comment.text.startswith("#|")), entry.start)
        flag = f"#, fuzzy{newline}"
        if before == place:
            return [*found, Splice(place, place, (break_ + remark + flag).encode())]
        break_before = "" if self.raw.data[before - 1 : before] == b"\n" else newline
        return [
            Splice(place, place, (break_ + remark).encode()),
            *found,
            Splice(before, before, (break_before + flag).encode()),
        ]

    def _line(self, comment: Comment) -> Splice:
        """Remove a comment with its line break."""
        end = self.raw.data.find(b"\n", comment.end)
        return Splice(comment.start, len(self.raw.data) if end < 0 else end + 1, b"")

    def _sure(self, comment: Comment) -> Splice:
        """Take the word fuzzy out of a line of flags."""
        rest = [flag.strip() for flag in comment.text[2:].split(",") if flag.strip() not in ("fuzzy", "")]
        if not rest:
            return self._line(comment)
        return Splice(comment.start, comment.end, f"#, {', '.join(rest)}".encode())

    def check_writable(self) -> None:
        """Refuse a template, which has no place for letters other than ASCII."""
        if not self._has_charset:
            raise SegError(f"{self.name} has no header with a charset: make a PO file of it first (msginit).")
        if self._ascii:
            raise SegError(f"{self.name} names the charset ASCII, which lacks letters: write UTF-8 into its header.")


def is_fuzzy(comment: Comment) -> bool:
    """Tell whether a comment is a line of flags with the flag fuzzy."""
    return comment.text.startswith("#,") and "fuzzy" in [flag.strip() for flag in comment.text[2:].split(",")]


def describe(edit: Edit) -> str:
    """Say in a comment where a translation comes from."""
    kind = "exact match" if edit.final else "machine translation"
    pair = "" if edit.pair is None else f", {edit.percent} % match: {edit.pair.origin}"
    flags = f" (check: {', '.join(edit.flags)})" if edit.flags else ""
    return " ".join(f"{kind}{pair}{flags}".split())
