"""TMX: units that have a text in the model's source language and none, or an empty one, in its target language.

A new target is a `<tuv>` of its own after the others. What OmegaT and other tools show of a pair's author says where it
comes from: `MT!` for a machine's translation, which belongs into OmegaT's `tm/mt`; `seg-translate` for an exact match,
which may go into `tm/auto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import fairseq_seg
from fairseq_seg.documents.codes import coded_texts
from fairseq_seg.documents.markup import (
    Node,
    declared_encoding,
    element,
    escape,
    indentation,
    read_units,
    set_attributes,
)
from fairseq_seg.documents.segment import Document, Edit, Segment, Splice, Unit, same_language
from fairseq_seg.documents.xliff import PAIRS, content

MACHINE = "MT!"
TOOL = "seg-translate"


@dataclass
class Places:
    """Where the parts of a unit are: its source `seg`, and its target `tuv` and `seg`, if it has them."""

    last: Node  # the last tuv
    source: Node
    target: Node | None
    seg: Node | None


class Tmx(Document):
    """A TMX file."""

    format = "tmx"

    def encoding(self, head: bytes) -> str:
        """Return the encoding that the XML declaration names."""
        return declared_encoding(head)

    def units(self) -> Iterator[Unit]:
        """Iterate over the units that have a text in the source language."""
        for number, (_, unit) in enumerate(read_units(self.raw, self.name, {"tu"}, {"tmx"}), 1):
            variants = list(unit.children("tuv"))
            source, target = (find_variant(variants, lang) for lang in self.langs)
            seg = None if source is None else source.child("seg")
            if seg is None:
                continue
            written = None if target is None else target.child("seg")
            (text, codes), (translation, _) = coded_texts(self.raw, PAIRS, seg, written)
            author = "" if target is None else target.attributes.get("creationid", "")
            segment = Segment(
                id=unit.attributes.get("tuid", str(number)),
                line=seg.line,
                source=text,
                target=translation,
                state="new" if not translation.strip() else "fuzzy" if author == MACHINE else "done",
                codes=codes,
            )
            yield Unit([segment], Places(variants[-1], seg, target, written))

    def splices(self, unit: Unit, edits: Sequence[Edit | None]) -> list[Splice]:
        """Return the new `tuv`, or what changes in the one there is."""
        [edit], [segment] = edits, unit.segments
        if edit is None:
            return []
        places: Places = unit.places
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        marks: dict[str, str | None] = {
            "creationtool": TOOL,
            "creationtoolversion": fairseq_seg.__version__,
            "creationid": TOOL if edit.final else MACHINE,
            "creationdate": now,
        }
        text = content(segment, edit, places.source, self.raw)
        if places.target is None:
            break_ = indentation(self.raw, places.last.start)
            seg = props(edit) + element(places.source.prefix, "seg", {}, text)
            variant = element(places.last.prefix, "tuv", {"xml:lang": self.langs[1]} | marks, seg)
            return [Splice(places.last.end, places.last.end, break_ + variant)]
        start = set_attributes(self.raw.data[places.target.start : places.target.inner], marks)
        if places.seg is None:
            seg = element(places.source.prefix, "seg", {}, text)
            if places.target.empty_tag:
                seg = start.replace(b"/>", b">") + seg + b"</%btuv>" % places.target.prefix
                return [Splice(places.target.start, places.target.end, seg)]
            end = places.target.inner_end
            return [Splice(places.target.start, places.target.inner, start), Splice(end, end, seg)]
        tag = Splice(places.target.start, places.target.inner, start)
        if places.seg.empty_tag:
            return [tag, Splice(places.seg.start, places.seg.end, element(places.seg.prefix, "seg", {}, text))]
        return [tag, Splice(places.seg.inner, places.seg.inner_end, text)]


def find_variant(variants: list[Node], lang: str) -> Node | None:
    """Return the text in exactly this language, else the first one in a variety of it (en-GB for en)."""
    wanted = lang.lower().replace("_", "-")
    exact = [variant for variant in variants if variant.lang.lower().replace("_", "-") == wanted]
    return next(iter(exact + [variant for variant in variants if same_language(variant.lang, lang)]), None)


def props(edit: Edit) -> bytes:
    """Return what the best pair was, as properties."""
    if edit.pair is None:
        return b""
    values = {"x-match-quality": str(edit.percent), "x-match-origin": edit.pair.origin}
    return b"".join(element(b"", "prop", {"type": name}, escape(value)) for name, value in values.items())
