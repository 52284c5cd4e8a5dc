"""XML from anybody: a streaming reader that trusts no file, and the codes within a text as XML fragments.

Nothing is fetched, no entity is expanded, and libxml2 stops at 256 levels of nesting and at 10 MB of one text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax import saxutils

from fairseq_seg.errors import SegError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

XML_NAMESPACE = "{http://www.w3.org/XML/1998/namespace}"
XML_LANG = f"{XML_NAMESPACE}lang"
# Far more than any unit has; what a hostile file takes of RAM ends here.
MAX_ELEMENTS = 500_000
SAFE = {"resolve_entities": False, "no_network": True, "load_dtd": False, "collect_ids": False}


def check_root(element: Element, root: str, path: Path) -> None:
    """Refuse another root than the expected one, and a file that declares entities, which only serve attacks."""
    name = local_name(element)
    if name != root:
        raise SegError(
            f"{path}: line {element.sourceline} starts a <{name}>, not a <{root}>: is it a {root.upper()} file?"
        )
    declarations = element.getroottree().docinfo.internalDTD
    if declarations is not None and next(declarations.iterentities(), None) is not None:
        raise SegError(
            f"{path}: entities are declared before line {element.sourceline}, which is not safe: remove them."
        )


def stream(path: Path, root: str, units: Collection[str]) -> Iterator[Element]:
    """Yield each finished element of these names, and free what has been read: a file of any size needs little RAM."""
    from lxml import etree

    with open(path, "rb") as file:
        parser = etree.iterparse(file, events=("start", "end"), **SAFE)
        depth = inside = elements = 0
        try:
            for event, element in parser:
                if event == "start":
                    depth += 1
                    elements += 1
                    if depth == 1:
                        check_root(element, root, path)
                    elif not inside and local_name(element) in units:
                        inside, elements = depth, 0
                    elif elements > MAX_ELEMENTS:
                        unit = "/".join(sorted(units))
                        raise SegError(
                            f"{path}: line {element.sourceline} is within a <{unit}> of more than {MAX_ELEMENTS:,} "
                            "elements: remove it."
                        )
                    continue
                if inside == depth:
                    yield element
                    inside = 0
                if not inside:
                    elements = 0
                    if depth > 1:
                        element.clear(keep_tail=False)
                        while element.getprevious() is not None:
                            del element.getparent()[0]
                depth -= 1
        except etree.XMLSyntaxError as error:
            # The exception may be about the file's end only; the log has what went wrong first.
            faults = [(fault.line, fault.message) for fault in parser.error_log] or [(error.lineno, error.msg)]
            line, message = faults[0]
            raise SegError(
                f"{path}: line {max(line or 1, 1)} is not valid XML ({message.strip()}): repair it."
            ) from None


def local_name(element: Element) -> str:
    """Return an element's name without its namespace, and nothing for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: Element, *names: str) -> list[Element]:
    """List the children of these names."""
    return [child for child in element if local_name(child) in names]


def text_of(element: Element) -> str:
    """Return all text within an element."""
    return "".join(element.itertext())


def escape(text: str) -> str:
    """Write a text as XML; a carriage return would be read back as a line feed."""
    return saxutils.escape(text, {"\r": "&#13;"})


def start_tag(element: Element, end: str = ">") -> str:
    """Return an element's start tag as XML, without namespaces other than XML's own."""
    attributes = [
        (name.replace(XML_NAMESPACE, "xml:"), value)
        for name, value in element.attrib.items()
        if name.startswith(XML_NAMESPACE) or "}" not in name
    ]
    return f"<{local_name(element)}{''.join(f' {name}={saxutils.quoteattr(value)}' for name, value in attributes)}{end}"


def fragment(element: Element) -> str:
    """Return an element with all it holds as XML, without namespaces."""
    if not len(element) and not element.text:
        return start_tag(element, "/>")
    inner = escape(element.text or "")
    for child in element:
        inner += (fragment(child) if local_name(child) else "") + escape(child.tail or "")
    return f"{start_tag(element)}{inner}</{local_name(element)}>"


def parse_fragment(name: str, xml: str) -> Element | None:
    """Return an element with the XML within it, None if that is not XML."""
    from lxml import etree

    try:
        return etree.fromstring(f"<{name}>{xml}</{name}>", etree.XMLParser(**SAFE))
    except etree.XMLSyntaxError:
        return None
