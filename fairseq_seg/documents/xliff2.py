"""XLIFF 2.0 and 2.1: units of segments, each with a `<source>` and a `<target>`.

A segment is untranslated if it has no target, an empty one, or its state is `initial` and its target repeats the
source. A new target gets the state `translated` with the sub-state `seg:machine`, or `seg:exact`, and what was similar
to it becomes a match in the unit's `matches`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from fairseq_seg.documents.segment import Document, Edit, Segment, Splice, State, Unit
from fairseq_seg.documents.xliff import OURS, PAIRS, content, fill

MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
SUBSTATE = "seg:"


@dataclass
class Places:
    """Where the parts of a unit are: its nodes, and those of its segments."""

    root: Node
    unit: Node
    segments: list[Node]


class Xliff2(Document):
    """An XLIFF 2 file."""

    format = "xliff2"
    _has_language = False  # whether the root's tag has been dealt with

    def encoding(self, head: bytes) -> str:
        """Return the encoding that the XML declaration names."""
        return declared_encoding(head)

    def units(self) -> Iterator[Unit]:
        """Iterate over the `unit` elements; one without segments is left out."""
        checked, files, file = False, 0, -1
        self._has_language = False
        for above, unit in read_units(self.raw, self.name, {"unit"}, {"xliff"}):
            root = above[0]
            if not checked:
                self.check_langs(root.attributes.get("srcLang"), root.attributes.get("trgLang"))
                checked = True
            for parent in above:
                if parent.name == "file" and parent.start != file:
                    file, files = parent.start, files + 1
            nodes = [node for node in unit.children("segment") if node.child("source")]
            if not nodes:
                continue
            locked = ""
            for parent in (*above, unit):
                if "translate" in parent.attributes:
                    locked = 'translate="no"' if parent.attributes["translate"] == "no" else ""
            name = unit.attributes.get("id", "")
            name = f"{files}:{name}" if files > 1 else name
            segments = []
            for number, node in enumerate(nodes, 1):
                part = node.attributes.get("id", str(number))
                label = f"{name}#{part}" if len(nodes) > 1 else name
                segments.append(self._segment(label, node, locked, unit.attributes.get("name", "")))
            yield Unit(segments, Places(root, unit, nodes))

    def _segment(self, name: str, node: Node, locked: str, context: str) -> Segment:
        source, target = node.child("source"), node.child("target")
        assert source is not None
        (text, codes), (written, _) = coded_texts(self.raw, PAIRS, source, target)
        state = state_of(node, text, written)
        return Segment(name, node.line, text, written, state, locked, context, codes)

    def splices(self, unit: Unit, edits: Sequence[Edit | None]) -> list[Splice]:
        """Return the segments' new targets and states, and the unit's matches."""
        if not any(edits):
            return []
        places: Places = unit.places
        found: list[Splice] = []
        taken = {node.attributes.get("id") for node in every_node(places.unit)}
        free = (name for name in (f"s{number}" for number in itertools.count(1)) if name not in taken)
        matches = []
        for segment, edit, node in zip(unit.segments, edits, places.segments, strict=True):
            if edit is None:
                continue
            marks: dict[str, str | None] = {
                "state": "translated",
                "subState": SUBSTATE + ("exact" if edit.final else "machine"),
            }
            name = node.attributes.get("id")
            if name is None and edit.pair:  # a match refers to its segment
                name = marks["id"] = next(free)
            tag = self.raw.data[node.start : node.inner]
            found.append(Splice(node.start, node.inner, set_attributes(tag, marks)))
            found.append(self._target(segment, edit, node))
            if edit.pair:
                matches.append(match(edit, str(name), node.prefix))
        if not self._has_language and "trgLang" not in places.root.attributes:  # which targets need
            root = places.root
            tag = set_attributes(self.raw.data[root.start : root.inner], {"trgLang": self.langs[1]})
            found.append(Splice(root.start, root.inner, tag))
        self._has_language = True
        return [*found, *self._matches(places.unit, matches)]

    def _target(self, segment: Segment, edit: Edit, node: Node) -> Splice:
        source, target = node.child("source"), node.child("target")
        assert source is not None
        text = content(segment, edit, source, self.raw)
        if target is None:
            written = indentation(self.raw, source.start) + element(source.prefix, "target", {}, text)
            return Splice(source.end, source.end, written)
        return fill(self.raw, target, text)

    def _matches(self, unit: Node, matches: list[bytes]) -> list[Splice]:
        """Put matches into the unit's own `matches`, or into a new one before everything else; replace ours."""
        own = next((node for node in unit.children("matches") if node.namespace == MATCHES), None)
        before = [] if own is None else list(own.children("match"))
        replaced = [node for node in before if node.attributes.get("origin", "").startswith(OURS)]
        if own is not None and not matches and len(replaced) == len(before):  # it must not be empty
            replaced = [own]
        found = [Splice(old.start - len(indentation(self.raw, old.start)), old.end, b"") for old in replaced]
        if matches and own is not None and not own.empty_tag:
            found.append(Splice(own.inner, own.inner, b"".join(matches)))
        elif matches:
            first = next(part for part in unit.parts if isinstance(part, Node))
            written = element(b"mtc:", "matches", {"xmlns:mtc": MATCHES}, b"".join(matches))
            found.append(Splice(unit.inner, unit.inner, indentation(self.raw, first.start) + written))
        return found


def state_of(node: Node, source: str, target: str) -> State:
    """Tell whether a target counts as a translation."""
    state, detail = node.attributes.get("state"), node.attributes.get("subState", "")
    if not target.strip() and source.strip():
        return "new"
    if state == "initial":
        return "new" if target == source else "fuzzy"
    return "fuzzy" if detail.startswith(SUBSTATE) and detail != SUBSTATE + "exact" else "done"


def every_node(node: Node) -> Iterator[Node]:
    """Iterate over an element and all within it."""
    yield node
    for part in node.parts:
        if isinstance(part, Node):
            yield from every_node(part)


def match(edit: Edit, segment: str, prefix: bytes) -> bytes:
    """Return the match of the pair that is most similar to a segment."""
    assert edit.pair is not None
    quality = str(edit.percent)
    marks = {"xmlns:mtc": MATCHES, "ref": f"#{segment}", "type": "tm", "matchQuality": quality, "similarity": quality}
    sides = zip(("source", "target"), edit.pair[:2], strict=True)
    texts = b"".join(element(prefix, side, {}, escape(text)) for side, text in sides)
    return element(b"mtc:", "match", marks | {"origin": OURS + edit.pair.origin}, texts)
