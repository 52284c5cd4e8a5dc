"""XLIFF 1.2: translation units of `<source>`, `<target>` and, where they are cut into sentences, `<seg-source>`.

A unit is untranslated if it has no target, an empty one, or one whose state says so. A new target gets the state
`needs-review-translation`, and what was similar to it becomes an `<alt-trans>` with its match quality.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_seg.documents.codes import coded_texts, markup
from fairseq_seg.documents.markup import (
    TAG_NAME,
    Node,
    declared_encoding,
    element,
    escape,
    indentation,
    read_units,
    set_attributes,
)
from fairseq_seg.documents.raw import Raw
from fairseq_seg.documents.segment import Document, Edit, Segment, Splice, State, Unit, keep_margins
from fairseq_seg.errors import SegError

UNTRANSLATED = {"new", "needs-translation"}
# Where an <alt-trans> or a match of ours says that it is one.
OURS = "seg-translate: "
# Elements whose content is text.
PAIRS = {"g", "mrk", "pc", "hi"}


@dataclass
class Places:
    """Where the parts of a unit are: its nodes, and the nodes of its segments."""

    unit: Node
    file: Node
    sources: list[Node]
    targets: list[Node | None]


class Xliff1(Document):
    """An XLIFF 1.0, 1.1 or 1.2 file."""

    format = "xliff"

    def __init__(self, path: Path, langs: tuple[str, str], name: str | None = None):
        super().__init__(path, langs, name)
        self._files = 0
        self._file = -1

    def encoding(self, head: bytes) -> str:
        """Return the encoding that the XML declaration names."""
        return declared_encoding(head)

    def units(self) -> Iterator[Unit]:
        """Iterate over the `trans-unit` elements."""
        self._files, self._file = 0, -1
        for above, node in read_units(self.raw, self.name, {"trans-unit"}, {"xliff"}):
            file = next((parent for parent in above if parent.name == "file"), None)
            if file is None:
                raise SegError(f"{self.name}: line {node.line} has a <trans-unit> outside a <file>: repair it.")
            if file.start != self._file:
                self._file, self._files = file.start, self._files + 1
                self.check_langs(file.attributes.get("source-language"), file.attributes.get("target-language"))
            source = node.child("source")
            if source is not None:
                yield self._unit(above, file, node, source)

    def _unit(self, above: list[Node], file: Node, unit: Node, source: Node) -> Unit:
        target, cut = unit.child("target"), unit.child("seg-source")
        locked = ""
        for parent in (*above, unit):  # the nearest one that says it counts
            if "translate" in parent.attributes:
                locked = 'translate="no"' if parent.attributes["translate"] == "no" else ""
        name = unit.attributes.get("id", "") or unit.attributes.get("resname", "")
        name = f"{self._files}:{name}" if self._files > 1 else name
        marks = [] if cut is None else sentences(cut)
        sources: list[Node] = marks or [cut or source]
        targets: list[Node | None] = [target]
        if marks:
            translated = {node.attributes.get("mid"): node for node in ([] if target is None else sentences(target))}
            targets = [translated.get(mark.attributes.get("mid")) for mark in marks]
            if target is not None and target.text.strip() and not translated:  # translated as a whole
                sources, targets = [source], [target]
        segments = []
        for number, (old, new) in enumerate(zip(sources, targets, strict=True), 1):
            (text, codes), (written, _) = coded_texts(self.raw, PAIRS, old, new)
            mid = old.attributes.get("mid", str(number))
            segments.append(
                Segment(
                    id=f"{name}#{mid}" if len(sources) > 1 else name,
                    line=old.line,
                    source=text,
                    target=written,
                    state=state_of(unit, target, written, text),
                    locked=locked,
                    context=unit.attributes.get("resname", ""),
                    codes=codes,
                )
            )
        return Unit(segments, Places(unit, file, sources, targets))

    def splices(self, unit: Unit, edits: Sequence[Edit | None]) -> list[Splice]:
        """Return the new target, or what changes in it, and the alt-trans elements after it."""
        places: Places = unit.places
        if not any(edits):
            return []
        target = places.unit.child("target")
        final = all(edit is None or edit.final for edit in edits)
        marks: dict[str, str | None] = {
            "state": "translated" if final else "needs-review-translation",
            "state-qualifier": "exact-match" if final else "leveraged-mt",
        }
        if target is None and not places.file.attributes.get("target-language"):
            marks["xml:lang"] = self.langs[1]
        after = places.unit.child("seg-source") or places.unit.child("source")
        assert after is not None
        break_ = indentation(self.raw, after.start)
        found: list[Splice] = []
        lacking = any(edit and new is None for edit, new in zip(edits, places.targets, strict=True))
        if target is None or target.empty_tag or lacking:
            start = self.raw.data[target.start : target.inner] if target else b"<%btarget>" % after.prefix
            written = set_attributes(start.replace(b"/>", b">"), marks) + self._whole(unit, edits)
            written += b"</%btarget>" % after.prefix
            if target is None:
                found.append(Splice(after.end, after.end, break_ + written))
            else:
                found.append(Splice(target.start, target.end, written))
        else:
            start = self.raw.data[target.start : target.inner]
            found.append(Splice(target.start, target.inner, set_attributes(start, marks)))
            for segment, edit, old, new in zip(unit.segments, edits, places.sources, places.targets, strict=True):
                if edit is not None and new is not None:
                    found.append(fill(self.raw, new, self._content(segment, edit, old)))
        for old in places.unit.children("alt-trans"):
            if old.attributes.get("origin", "").startswith(OURS):
                found.append(Splice(old.start - len(indentation(self.raw, old.start)), old.end, b""))
        place = after.end if target is None else target.end
        pairs = [edit for edit in edits if edit is not None and edit.pair]
        text = b"".join(break_ + alternative(edit, self.langs, after.prefix) for edit in pairs)
        return [*found, Splice(place, place, text)] if text else found

    def _content(self, segment: Segment, edit: Edit, source: Node) -> bytes:
        return content(segment, edit, source, self.raw)

    def _whole(self, unit: Unit, edits: Sequence[Edit | None]) -> bytes:
        """Return the content of a target: what is between the sentences of seg-source stays between those of it."""
        places: Places = unit.places
        cut = places.unit.child("seg-source")
        if cut is None or places.sources[0].name != "mrk":
            [edit] = edits
            assert edit is not None
            return self._content(unit.segments[0], edit, places.sources[0])
        data, parts, place = self.raw.data, [], cut.inner
        for segment, edit, old, new in zip(unit.segments, edits, places.sources, places.targets, strict=True):
            parts.append(data[place : old.inner])
            if edit is not None:
                parts.append(self._content(segment, edit, old))
            elif new is not None:
                parts.append(data[new.inner : new.inner_end])
            parts.append(data[old.inner_end : old.end])
            place = old.end
        return b"".join(parts) + data[place : cut.inner_end]


def fill(raw: Raw, node: Node, content: bytes) -> Splice:
    """Replace the content of an element, which may be written `<a/>`."""
    if not node.empty_tag:
        return Splice(node.inner, node.inner_end, content)
    name = TAG_NAME.match(raw.data, node.start)
    assert name is not None
    tag = raw.data[node.start : node.end].removesuffix(b"/>").rstrip()
    return Splice(node.start, node.end, tag + b">" + content + b"</" + name[1] + b">")


def sentences(node: Node) -> list[Node]:
    """List the sentences of a seg-source or of its target, which may be within other codes."""
    found = []
    for part in node.parts:
        if isinstance(part, Node):
            is_sentence = part.name == "mrk" and part.attributes.get("mtype") == "seg"
            found += [part] if is_sentence else sentences(part)
    return found


def state_of(unit: Node, target: Node | None, text: str, source: str) -> State:
    """Tell whether a target counts as a translation."""
    if target is None or (not text.strip() and source.strip()):
        return "new"
    state = target.attributes.get("state", "")
    if unit.attributes.get("approved") == "yes":
        return "done"
    if state in UNTRANSLATED:
        return "new"
    return "fuzzy" if state.startswith("needs-") else "done"


def content(segment: Segment, edit: Edit, source: Node, raw: Raw) -> bytes:
    """Return the content of a target: a CDATA section where the source is one and the encoding has all characters."""
    text = keep_margins(segment.source, edit.text)
    cdata = source.cdata and not segment.codes and raw.can_hold(text)
    return markup(text, segment.codes, cdata).replace(b"\n", raw.newline)


def alternative(edit: Edit, langs: tuple[str, str], prefix: bytes) -> bytes:
    """Return the alt-trans of the pair that is most similar to a sentence."""
    assert edit.pair is not None
    marks = {"match-quality": f"{edit.percent}%", "origin": OURS + edit.pair.origin}
    sides = zip(("source", "target"), langs, edit.pair[:2], strict=True)
    texts = (element(prefix, side, {"xml:lang": lang}, escape(text)) for side, lang, text in sides)
    return element(prefix, "alt-trans", marks, b"".join(texts))
