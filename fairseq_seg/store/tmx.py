"""TMX 1.4, the exchange format of translation memories: a streaming reader, and a writer.

Each text in a variety of the source language, with each in a variety of the target language, becomes a pair of the
translation unit (`tu`). `tuid` is its unit (by default the unit's number in the file), `creationdate` and `changedate`
are its dates; all other attributes, each `prop` by its type, and each `note` become its attributes. What the target's
`tuv` says counts if the `tu` itself does not say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import fairseq_seg
from fairseq_seg.corpus.codes import TOKEN, Code, number_codes, restore_codes
from fairseq_seg.store.locales import SIDES, language_code, varieties
from fairseq_seg.store.pair import Codes, Skipped, StoredPair, TranslationUnit
from fairseq_seg.store.xml import (
    XML_LANG,
    children,
    escape,
    fragment,
    local_name,
    parse_fragment,
    start_tag,
    stream,
    text_of,
)

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

# The type of the first prop of each unit in a file of ours: the pair's origin.
ORIGIN = "x-origin"
DATE = re.compile(r"\d{8}T\d{6}Z")
# Attributes of a unit that are neither its id, its dates nor its language.
ATTRIBUTES = (
    "o-encoding datatype usagecount lastusagedate creationtool creationtoolversion creationid changeid segtype o-tmf"
).split()


def tmx_units(path: Path) -> Iterator[Element]:
    """Iterate over the `tu` elements of a TMX file; refuse a malformed file when the bad line is reached."""
    return stream(path, "tmx", {"tu"})


def read_tmx(path: Path, source_lang: str, target_lang: str) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the pairs of a TMX file."""
    for number, unit in enumerate(tmx_units(path), start=1):
        yield from read_unit(unit, number, str(path), source_lang, target_lang)


def read_unit(
    unit: Element, number: int, path: str, source_lang: str, target_lang: str
) -> Iterator[TranslationUnit | Skipped]:
    """Read the pairs of a `tu`."""
    # Before TMX 1.4 the attribute was plain lang.
    variants = [
        (language_code(child.get(XML_LANG) or child.get("lang") or ""), child) for child in children(unit, "tuv")
    ]
    languages = [language for language, _ in variants]
    sources, targets = varieties(variants, source_lang), varieties(variants, target_lang)
    if not sources or not targets:
        yield Skipped(f"no text in {target_lang if sources else source_lang}", tuple(languages))
        return
    of_unit = read_properties(unit)
    for source_language, source in sources:
        for target_language, target in targets:
            pieces = segment_pieces(source), segment_pieces(target)
            if pieces[0] is None or pieces[1] is None:
                yield Skipped("an entity that the file does not define")
                continue
            texts = number_codes(pieces[0], pieces[1])
            (attributes, dates, _), (of_all, unit_dates, origin) = read_properties(target), of_unit
            attributes, dates = attributes | of_all, dates | unit_dates
            for side, own, found in zip(
                SIDES, (source_lang, target_lang), (source_language, target_language), strict=True
            ):
                if found.lower() != own.lower().replace("_", "-"):
                    attributes[side] = found
            yield TranslationUnit(
                texts[0].text,
                texts[1].text,
                path if origin is None else origin,
                unit.get("tuid", str(number) if origin is None else ""),
                attributes,
                dates.get("creationdate"),
                dates.get("changedate"),
                Codes.of("tmx", texts),
            )


def read_properties(element: Element) -> tuple[dict[str, str], dict[str, str], str | None]:
    """Return the attributes, dates and origin that a `tu` or `tuv` says."""
    attributes = {name: value for name, value in element.attrib.items() if name in ATTRIBUTES}
    dates: dict[str, str] = {}
    for name in ("creationdate", "changedate"):
        value = element.get(name)
        if value is not None and (date := iso_date(value)):
            dates[name] = date
        elif value is not None:
            attributes[name] = value
    origin = None
    values: dict[str, list[str]] = {}
    for child in children(element, "prop", "note"):
        name = child.get("type", "") if local_name(child) == "prop" else "note"
        if name == ORIGIN and origin is None and local_name(element) == "tu":
            origin = text_of(child)
        else:
            values.setdefault(name, [attributes[name]] if name in attributes else []).append(text_of(child))
    return attributes | {name: "\n".join(texts) for name, texts in values.items()}, dates, origin


def segment_pieces(variant: Element) -> list[str | Code] | None:
    """Return the text and the codes of a `tuv`; None if it has an entity that nobody defined.

    A `bpt` and the `ept` with its number enclose a text, as a `hi` does; every other code stands alone.
    """
    from lxml import etree

    segment = next(iter(children(variant, "seg")), None)
    if segment is None:
        return []
    if not len(segment):
        return [segment.text or ""]
    if any(child.tag is etree.Entity for child in segment.iter()):
        return None
    # An ept has no type, no content and no x that would say which code it is: its bpt has.
    keys = {child.get("i", ""): code_key(child) for child in segment.iter() if local_name(child) == "bpt"}
    return list(element_pieces(segment, keys))


def element_pieces(element: Element, keys: dict[str, str]) -> Iterator[str | Code]:
    """Yield the texts and codes within a `seg` or `hi`; `keys` are those of the `bpt`s by their numbers."""
    yield element.text or ""
    for child in element:
        name = local_name(child)
        if name == "hi":
            key = code_key(child)
            yield Code("open", key, start_tag(child))
            yield from element_pieces(child, keys)
            yield Code("close", key, "</hi>")
        elif name == "bpt":
            yield Code("open", keys[child.get("i", "")], fragment(child))
        elif name == "ept":
            yield Code("close", keys.get(child.get("i", ""), ""), fragment(child))
        elif name:
            yield Code("alone", code_key(child), fragment(child))
        yield child.tail or ""


def code_key(element: Element) -> str:
    """Identify a code in both languages: by its number `x`, else by its kind and content."""
    name = local_name(element)
    if element.get("x") is not None:
        return f"{name} x={element.get('x')}"
    return f"{name} {element.get('type', '')} {'' if name == 'hi' else text_of(element)}"


def iso_date(date: str) -> str | None:
    """Turn TMX's 20260131T125900Z into 2026-01-31T12:59:00Z; return None if it is not such a date."""
    try:
        # Thrice as fast as strptime, but it takes other forms of dates, too.
        return f"{datetime.fromisoformat(date[:15]).isoformat()}Z" if DATE.fullmatch(date) else None
    except ValueError:
        return None


def write_tmx(pairs: Iterable[StoredPair], file: BinaryIO, source_lang: str, target_lang: str) -> None:
    """Write pairs with everything that `read_tmx` reads; revisions and ids stay behind."""
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
                for pair in pairs:
                    xml.write("\n", unit_element(pair, source_lang, target_lang))
                xml.write("\n")


def unit_element(pair: StoredPair, source_lang: str, target_lang: str) -> Element:
    """Return the `tu` of a pair."""
    from lxml.etree import Element, SubElement

    unit = Element("tu")
    if pair.unit:
        unit.set("tuid", pair.unit)
    for name, date in (("creationdate", pair.created), ("changedate", pair.changed)):
        unit.set(name, date.replace("-", "").replace(":", ""))
    SubElement(unit, "prop", type=ORIGIN).text = pair.origin
    for name, value in pair.attributes.items():
        if name in ATTRIBUTES:
            unit.set(name, value)
        elif name == "note":
            SubElement(unit, "note").text = value
        elif name not in SIDES:
            SubElement(unit, "prop", type=name).text = value
    texts = (pair.source, pair.codes.source), (pair.target, pair.codes.target)
    for side, lang, (text, codes) in zip(SIDES, (source_lang, target_lang), texts, strict=True):
        variant = SubElement(unit, "tuv", {XML_LANG: pair.attributes.get(side, lang)})
        variant.append(segment_element(text, codes, pair.codes.format))
    return unit


def segment_element(text: str, codes: dict[str, str], format: str) -> Element:
    """Return the `seg` of a text, with its codes as they were, or those of another format as TMX's own."""
    from lxml.etree import Element

    if codes:
        own = codes if format == "tmx" else {token: own_code(token, code) for token, code in codes.items()}
        # What a damaged memory holds instead of a code stays text.
        if (segment := parse_fragment("seg", restore_codes(text, own, escape))) is not None:
            return segment
    segment = Element("seg")
    segment.text = text
    return segment


def own_code(token: str, original: str) -> str:
    """Return the code of another format as an element of TMX, whose content is the original."""
    number = TOKEN.fullmatch(token)[0].strip("</gx>")  # type: ignore[index]
    if token.startswith("<g"):
        return f'<bpt i="{number}" x="{number}">{escape(original)}</bpt>'
    return (
        f'<ept i="{number}">{escape(original)}</ept>'
        if token[1] == "/"
        else f'<ph x="{number}">{escape(original)}</ph>'
    )
