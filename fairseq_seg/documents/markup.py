"""XML units with the offsets of their bytes: a streaming reader that trusts no file.

expat reads the file; only the unit at hand becomes a tree. Entities cannot be declared, and nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from fairseq_seg.documents.raw import BLOCK, Raw
from fairseq_seg.errors import SegError

XML = "http://www.w3.org/XML/1998/namespace"
TAG = re.compile(rb"""<[^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*>""")
TAG_NAME = re.compile(rb"<([^\s/>]+)")
PREFIX = re.compile(rb"<([^\s/>:]+:)")
ATTRIBUTE = re.compile(rb"""\s+([^\s=]+)\s*=\s*("[^"]*"|'[^']*')""")
# Characters that no XML file can hold, not even as a reference.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
MAX_DEPTH = 256
BOMS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be", b"\xef\xbb\xbf": "utf-8"}


@dataclass
class Node:
    """An element (a processing instruction has the name `?`) and the offsets of its bytes.

    `<a>` is at `start` to `inner`, its content up to `inner_end`, `</a>` up to `end`. All three are `end` in `<a/>`.
    """

    name: str
    namespace: str
    attributes: dict[str, str]
    line: int
    prefix: bytes  # of its namespace, with the colon
    start: int
    inner: int = 0
    inner_end: int = 0
    end: int = 0
    parts: list[str | Node] = field(default_factory=list)  # text and children in their order; comments are left out
    cdata: bool = False  # whether some of the text is in a CDATA section

    def child(self, *names: str) -> Node | None:
        """Return the first child of these names."""
        return next(self.children(*names), None)

    def children(self, *names: str) -> Iterator[Node]:
        """Iterate over the children of these names."""
        return (part for part in self.parts if isinstance(part, Node) and part.name in names)

    @property
    def text(self) -> str:
        """All text within."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    @property
    def empty_tag(self) -> bool:
        """Whether it is written `<a/>`."""
        return self.inner == self.end

    @property
    def lang(self) -> str:
        """Its xml:lang; before TMX 1.4 the attribute was plain lang."""
        return self.attributes.get(f"{XML} lang") or self.attributes.get("lang") or ""


def declared_encoding(head: bytes) -> str:
    """Return the encoding of an XML file from its first bytes."""
    for bom, encoding in BOMS.items():
        if head.startswith(bom):
            return encoding
    if head[:4] in (b"<\x00?\x00", b"\x00<\x00?"):
        return "utf-16-le" if head[0] else "utf-16-be"
    found = re.match(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""", head)
    return found[1].decode() if found else "utf-8"


def read_units(raw: Raw, name: str, unit: set[str], root: set[str]) -> Iterator[tuple[list[Node], Node]]:
    """Iterate over the outermost elements that are named in `unit`, each with its ancestors, the root first.

    Of the ancestors only tags are kept. The root's name must be in `root`.
    """
    reader = _Reader(raw, name, unit, root)
    try:
        for place in range(0, len(raw.data), BLOCK):
            reader.parser.Parse(raw.data[place : place + BLOCK], False)
            yield from reader.found
            reader.found.clear()
        reader.parser.Parse(b"", True)
        yield from reader.found
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise SegError(f"{name}: line {error.lineno} is not valid XML ({reason}): repair it.") from None


class _Reader:
    """Builds the tree of a unit from what expat reports."""

    def __init__(self, raw: Raw, name: str, unit: set[str], root: set[str]):
        self._data, self._name, self._unit, self._root = raw.data, name, unit, root
        self._path: list[Node] = []
        self._depth = 0  # of the unit at hand, 0 outside
        self.found: list[tuple[list[Node], Node]] = []
        # The bytes are UTF-8 here, whatever the file's own declaration says.
        self.parser = parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.ProcessingInstructionHandler = self._instruction
        parser.StartCdataSectionHandler = self._cdata
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._skipped

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        start, line = self.parser.CurrentByteIndex, self.parser.CurrentLineNumber
        tag = TAG.match(self._data, start)
        assert tag is not None
        prefix = PREFIX.match(tag[0])
        end = tag.end()
        node = Node(local, namespace, attributes, line, prefix[1] if prefix else b"", start, end, end, end)
        if not self._path and not self._root:
            raise _RootFound(node)
        if not self._path and local not in self._root:
            wanted = " or ".join(sorted(self._root))
            raise SegError(f"{self._name}: line {line} starts a <{local}>, not a <{wanted}>: is it another format?")
        if len(self._path) == MAX_DEPTH:
            raise SegError(f"{self._name}: line {line} nests elements {MAX_DEPTH} deep: is the file damaged?")
        if self._depth:
            self._path[-1].parts.append(node)
        elif local in self._unit:
            self._depth = len(self._path) + 1
        self._path.append(node)

    def _end(self, name: str) -> None:
        node, place = self._path[-1], self.parser.CurrentByteIndex
        if self._data[node.inner - 2 : node.inner] != b"/>":
            node.inner_end = place
            node.end = self._data.find(b">", place) + 1
        if self._depth == len(self._path):
            self.found.append((self._path[:-1], node))
            self._depth = 0
        self._path.pop()

    def _text(self, text: str) -> None:
        if self._depth:
            self._path[-1].parts.append(text)

    def _cdata(self) -> None:
        if self._depth:
            self._path[-1].cdata = True

    def _instruction(self, target: str, data: str) -> None:
        if self._depth:
            start = self.parser.CurrentByteIndex
            end = self._data.find(b"?>", start) + 2
            line = self.parser.CurrentLineNumber
            self._path[-1].parts.append(Node("?", "", {"target": target}, line, b"", start, end, end, end))

    def _entity(self, name: str, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise SegError(f"{self._name}: line {line} declares the entity {name}, which is not safe: remove it.")

    def _skipped(self, name: str, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise SegError(
            f"{self._name}: line {line} has the entity &{name};, which the file does not define: replace it."
        )


def escape(text: str) -> bytes:
    """Return text as XML content."""
    text = FORBIDDEN.sub("\ufffd", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").encode()


def attribute(text: str) -> bytes:
    """Return text as an attribute's value, with its quotes."""
    text = FORBIDDEN.sub("\ufffd", text).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return b'"' + re.sub(r"[\t\r\n]", lambda found: f"&#{ord(found[0])};", text).encode() + b'"'


def set_attributes(tag: bytes, values: Mapping[str, str | None]) -> bytes:
    """Set attributes of a start tag, or remove those that are None; everything else in it stays."""
    for name, value in values.items():
        written = None if value is None else name.encode() + b"=" + attribute(value)
        for found in ATTRIBUTE.finditer(tag):
            if found[1] == name.encode():
                start = found.start(1) if written else found.start()
                tag = tag[:start] + (written or b"") + tag[found.end() :]
                break
        else:
            if written:
                close = re.search(rb"\s*/?>$", tag)
                assert close is not None
                tag = tag[: close.start()] + b" " + written + tag[close.start() :]
    return tag


def element(prefix: bytes, name: str, attributes: Mapping[str, str | None], content: bytes) -> bytes:
    """Return an element; its content is XML already."""
    tag = prefix + name.encode()
    return set_attributes(b"<" + tag + b">", attributes) + content + b"</" + tag + b">"


def read_root(raw: Raw, name: str) -> Node:
    """Return the root element without its content."""
    try:
        list(read_units(raw, name, set(), set()))
    except _RootFound as found:
        return found.node
    raise AssertionError("expat accepts no file without a root")


class _RootFound(Exception):
    def __init__(self, node: Node):
        super().__init__(node.name)
        self.node = node


def indentation(raw: Raw, place: int) -> bytes:
    """Return the line break and blanks before an offset, nothing if other text is before it in its line."""
    start = place
    while start and raw.data[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    if raw.data[start - 1 : start] != b"\n":
        return b""
    start -= 2 if raw.data[start - 2 : start - 1] == b"\r" else 1
    return raw.data[start:place]
