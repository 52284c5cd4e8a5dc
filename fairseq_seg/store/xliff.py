"""XLIFF 1.2 and 2.x, the exchange format of documents in translation: a streaming reader, and a writer of 1.2.

Each segment with a translation becomes a pair; a unit that was not segmented is one. The unit's id is the pair's unit,
and its notes become attributes. What is not translated, must not be, or waits for review is skipped, and so are the
suggestions within a unit (`alt-trans`, matches).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fairseq_seg.corpus.codes import TOKEN, Code, number_codes, restore_codes
from fairseq_seg.errors import SegError
from fairseq_seg.store.locales import SIDES, base_language, language_code
from fairseq_seg.store.pair import Codes, Skipped, StoredPair, TranslationUnit
from fairseq_seg.store.xml import (
    XML_LANG,
    XML_NAMESPACE,
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

NAMESPACE = "urn:oasis:names:tc:xliff:document:1.2"
# Elements of both versions by what their code does: it encloses the text within, or opens, closes or stands alone.
ENCLOSING = {"g", "pc", "mrk"}
OPENING = {"bpt", "bx", "sc", "sm"}
CLOSING = {"ept", "ex", "ec", "em"}
# States of a target that somebody still has to look at.
UNTRANSLATED = {"new", "needs-translation", "initial"}
# Whose notes are not the translators', but what the memory knows of a pair.
OURS = "seg-memory:"


def xliff_units(path: Path) -> Iterator[Element]:
    """Iterate over the units of an XLIFF file; refuse a malformed file when the bad line is reached."""
    return stream(path, "xliff", {"trans-unit", "bin-unit", "unit"})


def read_xliff(path: Path, source_lang: str, target_lang: str) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the pairs of an XLIFF file."""
    version = None
    for unit in xliff_units(path):
        if version is None:
            version = unit.getroottree().getroot().get("version", "")
            if version.split(".")[0] not in ("1", "2"):
                raise SegError(f"{path} is XLIFF {version or 'of no version'}, not 1.2 or 2.x: convert it first.")
        if local_name(unit) != "bin-unit":
            yield from read_unit(unit, str(path), (source_lang, target_lang))


def read_unit(unit: Element, path: str, wanted: tuple[str, str]) -> Iterator[TranslationUnit | Skipped]:
    """Read the pairs of a `trans-unit` (1.2) or a `unit` (2.x)."""
    format = "xliff1" if local_name(unit) == "trans-unit" else "xliff2"
    if inherited(unit, "translate") == "no":
        yield Skipped("a unit that is not to be translated")
        return
    attributes, known = read_notes(unit)
    for source, target, state in find_segments(unit):
        if target is None or state in UNTRANSLATED or not text_of(target).strip():
            yield Skipped("an untranslated unit")
            continue
        if state.startswith("needs-"):
            yield Skipped("a unit that needs review")
            continue
        found = find_languages(unit, source, target)
        if any(own and base_language(own) != base_language(lang) for own, lang in zip(found, wanted, strict=True)):
            missing = wanted[base_language(found[0]) == base_language(wanted[0])]
            yield Skipped(f"no text in {missing}", tuple(filter(None, found)))
            continue
        locales = {
            side: language_code(own)
            for side, own, lang in zip(SIDES, found, wanted, strict=True)
            if own and language_code(own).lower() != language_code(lang).lower()
        }
        pieces = [list(element_pieces(side)) for side in (source, target)]
        texts = number_codes(*pieces)
        yield TranslationUnit(
            texts[0].text,
            texts[1].text,
            known.get("origin", path),
            known.get("unit", "" if "origin" in known else unit.get("id", "")),
            attributes | locales,
            known.get("created"),
            known.get("changed"),
            Codes.of(format, texts),
        )


def find_segments(unit: Element) -> Iterator[tuple[Element, Element | None, str]]:
    """Yield the source, the target and the target's state of each segment of a unit."""
    if local_name(unit) == "unit":
        for segment in children(unit, "segment"):
            sides = [next(iter(children(segment, name)), None) for name in ("source", "target")]
            if sides[0] is not None:
                yield sides[0], sides[1], segment.get("state", "")
        return
    source, cut, target = (next(iter(children(unit, name)), None) for name in ("source", "seg-source", "target"))
    if source is None:
        return
    state = "" if target is None else target.get("state", "")
    segments = segments_of(cut)
    if not segments:
        yield source, target, state
        return
    translated = segments_of(target)
    if len(segments) == 1 and not translated:
        yield segments.popitem()[1], target, state
    for mid, segment in segments.items():
        yield segment, translated.get(mid), state


def segments_of(element: Element | None) -> dict[str, Element]:
    """Return the segments of a `seg-source` or `target` by their ids."""
    if element is None:
        return {}
    marks = [mark for mark in element.iter() if local_name(mark) == "mrk" and mark.get("mtype") == "seg"]
    return {mark.get("mid", ""): mark for mark in marks}


def find_languages(unit: Element, source: Element, target: Element) -> tuple[str, str]:
    """Return the languages of a pair, "" for one that the file does not say."""
    root, file = unit.getroottree().getroot(), next(unit.iterancestors("{*}file", "file"), unit)
    return (
        source.get(XML_LANG) or file.get("source-language") or root.get("srcLang") or "",
        target.get(XML_LANG) or file.get("target-language") or root.get("trgLang") or "",
    )


def inherited(unit: Element, name: str) -> str:
    """Return an attribute of a unit, or of the closest group or file around it that has it."""
    return next((value for element in chain([unit], unit.iterancestors()) if (value := element.get(name))), "")


def read_notes(unit: Element) -> tuple[dict[str, str], dict[str, str]]:
    """Return the attributes that the notes of a unit hold, and what else a memory that wrote the file knew of it."""
    attributes, known = {}, {}
    notes: list[str] = []
    for note in chain(children(unit, "note"), *(children(group, "note") for group in children(unit, "notes"))):
        name = note.get("from", "")
        if name.startswith(f"{OURS}="):
            attributes[name.removeprefix(f"{OURS}=")] = text_of(note)
        elif name.startswith(OURS):
            known[name.removeprefix(OURS)] = text_of(note)
        else:
            notes.append(text_of(note))
    return ({"note": "\n".join(notes)} if notes else {}) | attributes, known


def element_pieces(element: Element) -> Iterator[str | Code]:
    """Yield the texts and codes within a source, a target or a segment."""
    yield element.text or ""
    for child in element:
        name = local_name(child)
        # A code's id is the same in source and target. What ends a code names the one that it ends.
        key = child.get("startRef") or child.get("rid") or child.get("id") or child.get("mid") or ""
        if name in ENCLOSING:
            yield Code("open", f"{name} {key}", start_tag(child))
            yield from element_pieces(child)
            yield Code("close", f"{name} {key}", f"</{name}>")
        elif name in OPENING | CLOSING:
            yield Code("open" if name in OPENING else "close", f"{name in ('sm', 'em')} {key}", fragment(child))
        elif name:
            yield Code("alone", f"{name} {key or child.get('hex', '')}", fragment(child))
        yield child.tail or ""


def write_xliff(pairs: Iterable[StoredPair], file: BinaryIO, source_lang: str, target_lang: str) -> None:
    """Write pairs as XLIFF 1.2 with everything that `read_xliff` reads; revisions stay behind."""
    from lxml import etree

    languages = {"source-language": source_lang, "target-language": target_lang}
    with etree.xmlfile(file, encoding="utf-8") as xml:
        xml.write_declaration()
        with (
            xml.element("xliff", version="1.2", nsmap={None: NAMESPACE}),
            xml.element("file", {"original": "seg-memory", "datatype": "plaintext"} | languages),
            xml.element("body"),
        ):
            for pair in pairs:
                xml.write("\n", unit_element(pair))
            xml.write("\n")


def unit_element(pair: StoredPair) -> Element:
    """Return the `trans-unit` of a pair."""
    from lxml.etree import Element, SubElement

    unit = Element("trans-unit", id=str(pair.id))
    # As it is: blanks and line breaks of a text count.
    unit.set(f"{XML_NAMESPACE}space", "preserve")
    sides = ("source", pair.source, pair.codes.source), ("target", pair.target, pair.codes.target)
    for side, (name, text, codes) in zip(SIDES, sides, strict=True):
        unit.append(side_element(name, text, codes, pair.codes.format))
        if side in pair.attributes:
            unit[-1].set(XML_LANG, pair.attributes[side])
    known = {"origin": pair.origin, "unit": pair.unit, "created": pair.created, "changed": pair.changed}
    known |= {f"={name}": value for name, value in pair.attributes.items() if name not in SIDES}
    for name, value in known.items():
        SubElement(unit, "note", {"from": OURS + name}).text = value
    return unit


def side_element(name: str, text: str, codes: dict[str, str], format: str) -> Element:
    """Return a `source` or `target`, with its codes as they were, or those of another format as XLIFF's own."""
    from lxml.etree import Element

    if codes:
        own = codes if format == "xliff1" else {token: own_code(token, code) for token, code in codes.items()}
        # What a damaged memory holds instead of a code stays text.
        if (element := parse_fragment(name, restore_codes(text, own, escape))) is not None:
            return element
    element = Element(name)
    element.text = text
    return element


def own_code(token: str, original: str) -> str:
    """Return the code of another format as an element of XLIFF 1.2, whose content is the original."""
    match = TOKEN.fullmatch(token)
    number = match[0].strip("</gx>") if match else ""
    kind = "ph" if token.startswith("<x") else "ept" if token[1] == "/" else "bpt"
    # bpt and ept share the number of their pair, ph has one of its own.
    id, rid = (f"x{number}", "") if kind == "ph" else (f"g{number}", f' rid="{number}"')
    return f'<{kind} id="{id}"{rid}>{escape(original)}</{kind}>'
