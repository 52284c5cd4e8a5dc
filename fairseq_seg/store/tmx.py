"""TMX 1.4, the exchange format of translation memories: a streaming reader that trusts no file, and a writer.

The texts of the two languages in a translation unit (`tu`) become the pair. `tuid` is its unit (by default the unit's
number in the file), `creationdate` and `changedate` are its dates; all other attributes, each `prop` by its type, and
each `note` become its attributes. What the target's `tuv` says counts if the `tu` itself does not say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import fairseq_seg
from fairseq_seg.errors import SegError
from fairseq_seg.store.pair import Skipped, StoredPair, TranslationUnit

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# The type of the first prop of each unit in a file of ours: the entry's origin.
ORIGIN = "x-origin"
# Attributes of a unit that are neither its id, its dates nor its language.
ATTRIBUTES = (
    "o-encoding datatype usagecount lastusagedate creationtool creationtoolversion creationid changeid segtype o-tmf"
).split()
# Elements whose content is the markup of the document that a text comes from, not text.
CODES = {"bpt", "ept", "ph", "it", "ut"}


def read_tmx(path: Path, source_lang: str, target_lang: str, keep_tags: bool) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the units of a TMX file; refuse a malformed file when the bad line is reached.

    Nothing is fetched, no entity is expanded, and libxml2 stops at 256 levels of nesting and at 10 MB of one text.
    """
    from lxml import etree

    with open(path, "rb") as file:
        parser = etree.iterparse(
            file, events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False, collect_ids=False
        )
        depth = number = 0
        try:
            for event, element in parser:
                if event == "start":
                    depth += 1
                    if depth == 1:
                        check_root(element, path)
                    continue
                if depth == 3 and local_name(element) == "tu":
                    number += 1
                    yield read_unit(element, number, str(path), source_lang, target_lang, keep_tags)
                if 1 < depth <= 3:
                    # Free what has been read, so that a file of any size needs little RAM.
                    element.clear()
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


def check_root(root: Element, path: Path) -> None:
    """Refuse XML that is not TMX, and a TMX that declares entities, which only serve attacks."""
    if local_name(root) != "tmx":
        raise SegError(f"{path}: line {root.sourceline} starts a <{local_name(root)}>, not a <tmx>: is it a TMX file?")
    declarations = root.getroottree().docinfo.internalDTD
    if declarations is not None and next(declarations.iterentities(), None) is not None:
        raise SegError(f"{path}: entities are declared before line {root.sourceline}, which is not safe: remove them.")


def read_unit(
    unit: Element, number: int, path: str, source_lang: str, target_lang: str, keep_tags: bool
) -> TranslationUnit | Skipped:
    """Read a pair from a `tu`."""
    variants = [child for child in unit if local_name(child) == "tuv"]
    source, target = (find_variant(variants, lang) for lang in (source_lang, target_lang))
    if source is None or target is None:
        missing = source_lang if source is None else target_lang
        return Skipped(f"no text in {missing}, only in {', '.join(sorted(map(language, variants))) or 'none'}")
    texts = []
    for variant in (source, target):
        segment = next((child for child in variant if local_name(child) == "seg"), None)
        text = "" if segment is None else segment_text(segment, keep_tags)
        if text is None:
            return Skipped("an entity that the file does not define")
        texts.append(text)
    attributes: dict[str, str] = {}
    dates: dict[str, str] = {}
    origin = None
    for element in (target, unit):
        attributes |= {name: value for name, value in element.attrib.items() if name in ATTRIBUTES}
        for name in ("creationdate", "changedate"):
            value = element.get(name)
            if value is not None and (date := iso_date(value)):
                dates[name] = date
            elif value is not None:
                attributes[name] = value
        for child in element:
            if local_name(child) not in ("prop", "note"):
                continue
            name = child.get("type", "") if local_name(child) == "prop" else "note"
            value = "".join(child.itertext())
            if name == ORIGIN and origin is None:
                origin = value
            else:
                attributes[name] = f"{attributes[name]}\n{value}" if name in attributes else value
    own_id = unit.get("tuid", str(number) if origin is None else "")
    return TranslationUnit(
        texts[0],
        texts[1],
        path if origin is None else origin,
        own_id,
        attributes,
        dates.get("creationdate"),
        dates.get("changedate"),
    )


def find_variant(variants: list[Element], lang: str) -> Element | None:
    """Return the text in exactly this language, else the first one in a variety of it (en-GB for en)."""
    wanted = lang.lower().replace("_", "-")
    exact = [variant for variant in variants if language(variant) == wanted]
    alike = [variant for variant in variants if language(variant).split("-")[0] == wanted.split("-")[0]]
    return next(iter(exact + alike), None)


def language(variant: Element) -> str:
    """Return the language of a `tuv` in lower case, en or en-gb; before TMX 1.4 the attribute was plain lang."""
    return (variant.get(XML_LANG) or variant.get("lang") or "").lower().replace("_", "-")


def segment_text(segment: Element, keep_tags: bool) -> str | None:
    """Return the text of a `seg`, with or without the codes of its inline tags; None if it has a lost entity.

    `hi` only marks text, which stays; `sub` is a text of its own within a code, and goes or stays with it.
    """
    from lxml import etree

    parts = [segment.text or ""]
    for child in segment:
        if child.tag is etree.Entity:
            return None
        if isinstance(child.tag, str) and (keep_tags or local_name(child) not in CODES):
            text = segment_text(child, keep_tags)
            if text is None:
                return None
            parts.append(text)
        parts.append(child.tail or "")
    return "".join(parts)


def local_name(element: Element) -> str:
    """Return an element's name without its namespace, and nothing for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def iso_date(date: str) -> str | None:
    """Turn TMX's 20260131T125900Z into 2026-01-31T12:59:00Z; return None if it is not such a date."""
    try:
        return datetime.strptime(date, "%Y%m%dT%H%M%SZ").isoformat() + "Z"
    except ValueError:
        return None


def write_tmx(entries: Iterable[StoredPair], file: BinaryIO, source_lang: str, target_lang: str) -> None:
    """Write entries with everything that `read_tmx` reads; revisions and ids stay behind."""
    from lxml import etree

    header = {
        "creationtool": "seg-memory",
        "creationtoolversion": fairseq_seg.__version__,
        "segtype": "sentence",
        "o-tmf": "seg-memory",
        "adminlang": "en",
        "srclang": source_lang,
        "datatype": "plaintext",
    }
    with etree.xmlfile(file, encoding="utf-8") as xml:
        xml.write_declaration()
        with xml.element("tmx", version="1.4"):
            xml.write(etree.Element("header", header), "\n")
            with xml.element("body"):
                for entry in entries:
                    xml.write("\n", unit_element(entry, source_lang, target_lang))
                xml.write("\n")


def unit_element(entry: StoredPair, source_lang: str, target_lang: str) -> Element:
    """Return the `tu` of an entry."""
    from lxml.etree import Element, SubElement

    unit = Element("tu")
    if entry.unit:
        unit.set("tuid", entry.unit)
    for name, date in (("creationdate", entry.created), ("changedate", entry.changed)):
        unit.set(name, date.replace("-", "").replace(":", ""))
    SubElement(unit, "prop", type=ORIGIN).text = entry.origin
    for name, value in entry.attributes.items():
        if name in ATTRIBUTES:
            unit.set(name, value)
        elif name == "note":
            SubElement(unit, "note").text = value
        else:
            SubElement(unit, "prop", type=name).text = value
    for lang, text in ((source_lang, entry.source), (target_lang, entry.target)):
        variant = SubElement(unit, "tuv", {XML_LANG: lang})
        SubElement(variant, "seg").text = text
    return unit
