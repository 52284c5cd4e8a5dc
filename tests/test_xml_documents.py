"""XLIFF and TMX files edited in place: what is read, that only targets and marks change, and what is refused."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairseq_seg.documents.codes import code_fault, place_codes
from fairseq_seg.documents.formats import open_document
from fairseq_seg.documents.segment import Edit
from fairseq_seg.errors import SegError
from tests.document_files import LANGS, PAIR, TMX, XLIFF, XLIFF2, changes, edited, only, segments

FILES = {"a.xlf": XLIFF, "b.xliff": XLIFF2, "c.tmx": TMX}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_units_of_xliff_1(folder):
    found = segments(folder / "a.xlf")
    assert {id: (segment.source, segment.target, segment.state) for id, segment in found.items()} == {
        "plain": ("Save & close <now>", "", "new"),
        "codes": ("Press <g1>F1</g1> or <g2>two <x3/></g2>.", "", "new"),
        "cdata": ("Hello <b>you</b> & me", "", "new"),
        "cut#0": ("One.", "Un.", "done"),
        "cut#1": ("Two <x1/>.", "", "new"),
        "uncut#0": ("One.", "", "new"),
        "uncut#1": ("Two.", "", "new"),
        "no": ("ACME", "", "new"),
        "group": ("ACME", "", "new"),
        "yes": ("Yes", "", "new"),
        "final": ("Final", "Fin", "done"),
        "unsure": ("Unsure", "Pas s\u00fbr", "fuzzy"),
    }
    assert [id for id, segment in found.items() if segment.locked] == ["no", "group"]
    assert found["codes"].codes["<g2>"] == "<g id='2'\n     ctype=\"x\">" and found["plain"].line == 7


def test_units_of_xliff_2(folder):
    found = segments(folder / "b.xliff")
    assert {id: (segment.source, segment.target, segment.state) for id, segment in found.items()} == {
        "u1#s1": ("Click <g1>here</g1> <x2/> and <g3>there</g3>.", "", "new"),
        "u1#2": ("Done", "Fait", "done"),
        "u1#3": ("Copy", "Copy", "new"),
        "u2": ("ACME", "", "new"),
        "u3": ("Open <x1/>", "", "new"),
    }
    assert found["u2"].locked and found["u1#s1"].context == "first"
    assert found["u3"].codes == {"<x1/>": '<mrk id="m1" translate="no">ACME</mrk>'}


def test_units_of_tmx(folder):
    found = segments(folder / "c.tmx")
    assert {id: (segment.source, segment.target, segment.state) for id, segment in found.items()} == {
        "new": ("Press <g1>F1</g1> now", "", "new"),
        "empty": ("Empty", "", "new"),
        "done": ("Done", "Fait", "done"),
    }


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_targets_change_in_any_encoding(folder, name, encoding, newline):
    path = folder / name
    text = FILES[name].replace("UTF-8", encoding.removesuffix("-sig")).replace("\n", newline)
    if "encoding=" not in text:
        text = text.replace('version="1.0"', f'version="1.0" encoding="{encoding.removesuffix("-sig")}"')
    path.write_bytes(text.encode(encoding))
    assert edited(path, lambda segment: None) == path.read_bytes()
    before = segments(path)
    path.write_bytes(edited(path, lambda segment: Edit(f"\u20ac\u00e9 {segment.source}", pair=PAIR)))
    assert path.read_bytes().decode(encoding).count("\n") == path.read_bytes().decode(encoding).count(newline)
    after = segments(path)
    for segment, old in zip(after.values(), before.values(), strict=True):
        assert segment.source == old.source and segment.target == f"\u20ac\u00e9 {segment.source}"
        assert segment.state == "fuzzy" or segment.id == "final"  # approved


def test_what_changes_in_xliff_1(folder):
    path = folder / "a.xlf"
    alternative = (
        b'<alt-trans match-quality="87%" origin="seg-translate: client.mem:7 (a.tmx)"><source xml:lang="en">Open a '
        b'&lt;file&gt; &amp; close</source><target xml:lang="fr">Ouvrir</target></alt-trans>'
    )
    marks = b'<target state="needs-review-translation" state-qualifier="leveraged-mt">'

    def change(id: str, text: str, **more) -> list[tuple[bytes, bytes]]:
        return changes(path.read_bytes(), edited(path, only(id, text, **more)))

    assert change("plain", "Fermer & <ici>", pair=PAIR) == [
        (b"", b"    " + marks + b"Fermer &amp; &lt;ici&gt;</target>\n    " + alternative)
    ]
    [(before, after)] = change("codes", "<g2>deux <x3/></g2> ou <g1>F1</g1>.", final=True)
    assert after.startswith(before.split(b"<target")[0])
    assert after.endswith(
        b'<target state="translated" state-qualifier="exact-match"><g id=\'2\'\n'
        b'     ctype="x">deux <x id="3"/></g> ou <bpt id="1">&lt;b></bpt>F1<ept id="1">&lt;/b></ept>.</target>'
        b"</trans-unit>"
    )
    [(_, after)] = change("cdata", "Salut <b>toi</b> & ]]> moi")
    assert b"<![CDATA[Salut <b>toi</b> & ]]]]><![CDATA[> moi]]></target>" in after
    [(_, after)] = change("cut#1", "Deux <x1/>.")
    assert (
        marks + b'<mrk mtype="seg" mid="0">Un.</mrk> <mrk mtype="seg" mid="1">Deux <x id="9"/>.</mrk></target>' in after
    )
    [(_, after)] = change("uncut#0", "Un.")
    assert marks + b'<mrk mtype="seg" mid="0">Un.</mrk> <mrk mtype="seg" mid="1"></mrk></target>' in after
    [(_, after)] = change("unsure", "S\u00fbr", pair=PAIR)
    assert after.startswith(b'    state-qualifier="leveraged-mt">S\xc3\xbbr</target>' + alternative)


def test_a_second_run_replaces_its_own_alternatives(folder):
    for name, element in (("a.xlf", b"<alt-trans"), ("b.xliff", b"<mtc:match ")):
        path = folder / name
        before = path.read_bytes().count(element)
        for _ in range(2):
            path.write_bytes(edited(path, lambda segment: Edit(segment.source, pair=PAIR)))
            ElementTree.parse(path)
        assert path.read_bytes().count(element) == before + len(segments(path))
        path.write_bytes(edited(path, lambda segment: Edit(segment.source)))
        assert path.read_bytes().count(element) == before and b"<mtc:matches" not in path.read_bytes()


def test_what_changes_in_xliff_2(folder):
    path = folder / "b.xliff"
    after = edited(path, only("u1#3", "Copie", pair=PAIR))
    assert changes(path.read_bytes(), after) == [
        (
            b'<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en">',
            b'<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en" trgLang="fr">',
        ),
        (
            b"",
            b'   <mtc:matches xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0">'
            b'<mtc:match xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0" ref="#s2" type="tm" matchQuality="87" '
            b'similarity="87" origin="seg-translate: client.mem:7 (a.tmx)">'
            b"<source>Open a &lt;file&gt; &amp; close</source><target>Ouvrir</target></mtc:match></mtc:matches>",
        ),
        (
            b'   <segment state="initial"><source>Copy</source><target>Copy</target></segment>',
            b'   <segment state="translated" subState="seg:machine" id="s2"><source>Copy</source><target>Copie</target>'
            b"</segment>",
        ),
    ]
    assert b'subState="seg:exact"' in edited(path, only("u3", "Ouvrir <x1/>", final=True))


def test_what_changes_in_tmx(folder):
    path = folder / "c.tmx"
    [(before, after)] = changes(path.read_bytes(), edited(path, only("new", "Tapez <g1>F1</g1>", pair=PAIR)))
    assert after.startswith(before.removesuffix(b"</tu>") + b'\n  <tuv xml:lang="fr" creationtool="seg-translate"')
    assert b'creationid="MT!"' in after and b'<prop type="x-match-quality">87</prop>' in after
    assert after.endswith(b'<seg>Tapez <bpt i="1">&lt;b&gt;</bpt>F1<ept i="1">&lt;/b&gt;</ept></seg></tuv></tu>')
    [(_, after)] = changes(path.read_bytes(), edited(path, only("empty", "Vide", final=True)))
    assert b'creationid="seg-translate"' in after and after.endswith(b"<seg>Vide</seg></tuv>")


def test_prefixed_elements_get_prefixed_targets(tmp_path):
    path = tmp_path / "a.xlf"
    text = XLIFF2.replace("xmlns=", "xmlns:x=")
    for name in ("xliff", "file", "unit", "segment", "source", "target", "ignorable", "originalData", "data"):
        text = text.replace(f"<{name}", f"<x:{name}").replace(f"</{name}", f"</x:{name}")
    path.write_text(
        text.replace("<pc", "<x:pc").replace("</pc", "</x:pc").replace("<mrk", "<x:mrk").replace("</mrk", "</x:mrk")
    )
    path.write_bytes(edited(path, lambda segment: Edit(segment.source, pair=PAIR)))
    names = {element.tag for element in ElementTree.parse(path).iter()}
    assert "target" not in names and "{urn:oasis:names:tc:xliff:document:2.0}target" in names


CODES = {"<g1>": "<g id='1'>", "</g1>": "</g>", "<x2/>": "<x id='2'/>", "<g3>": "<bpt/>", "</g3>": "<ept/>"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<g1>a</g1> <x2/> <g3>b</g3>", None),
        ("<g3>b <g1>a</g3></g1> <x2/>", None),  # only elements must nest
        ("<g1>a</g1> <g3>b</g3>", "lost <x2/>"),
        ("<g1>a</g1> <x2/><x2/> <g3>b</g3>", "repeated <x2/>"),
        ("</g1>a<g1> <x2/> <g3>b</g3>", "misplaced </g1>"),
        ("<g1>a</g1> <x2/> </g3>b<g3>", "misplaced </g3>"),
    ],
)
def test_faults_of_codes(text, fault):
    assert code_fault(text, CODES) == fault


def test_codes_are_placed_in_their_order():
    codes = {"<g1>": "<g>", "</g1>": "</g>", "<x2/>": "<x/>"}
    assert place_codes("le mot", "<g1>the word</g1><x2/>", codes) == "<g1>le mot</g1><x2/>"
    assert place_codes("un deux trois quatre", "one <g1>two</g1> three <x2/>four", codes) == (
        "un <g1>deux</g1> trois <x2/>quatre"
    )
    assert place_codes("", "<g1>a</g1> b <x2/>", codes) == "<g1></g1><x2/>"


def test_a_target_that_breaks_its_codes_is_never_written(folder):
    with pytest.raises(SegError, match="lost <g1>"):
        edited(folder / "a.xlf", only("codes", "F1"))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("a.xlf", "</body>", "", "line 26 is not valid XML .mismatched tag"),
        ("a.xlf", "</file></xliff>", "", "line 27 is not valid XML .no element found"),
        ("a.xlf", '<xliff xmlns="', '<!DOCTYPE x [<!ENTITY a "b">]><xliff xmlns="', "line 2 declares the entity a"),
        ("c.tmx", "Press", "Press&nbsp;", "line 5 has the entity &nbsp;, which the file does not define"),
        ("a.xlf", '1.2" version="1.2"', '1.2" version="3.0"', "line 2 names XLIFF version '3.0'"),
        (
            "a.xlf",
            "target-language='fr'",
            "target-language='de'",
            "it translates to de, but the model translates en-fr",
        ),
        ("b.xliff", 'srcLang="en"', 'srcLang="cs"', "it translates from cs, but the model"),
        ("c.tmx", "<tmx", "<html", "is not valid XML|starts a <html>"),
        ("a.xlf", 'encoding="UTF-8"', 'encoding="KLINGON"', "is not text in KLINGON"),
        ("a.xlf", "Unsure", "<g>" * 300 + "</g>" * 300, "nests elements 256 deep"),
    ],
)
def test_what_is_wrong_is_refused_with_the_line(folder, name, old, new, message):
    path = folder / name
    assert old in FILES[name]
    path.write_text(FILES[name].replace(old, new), encoding="utf-8")
    with pytest.raises(SegError, match=message) as caught:
        segments(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_changes_meanwhile_is_not_mixed_up(folder):
    path = folder / "a.xlf"
    document = open_document(path, LANGS)
    with document:
        list(document.units())
    path.write_text(XLIFF.replace("Save", "Store"), encoding="utf-8")
    with pytest.raises(SegError, match="changed while it was being translated"), document:
        pass


def test_an_empty_file(tmp_path):
    for name in ("a.po", "a.tsv", "a.txt"):
        (tmp_path / name).touch()
        assert segments(tmp_path / name) == {} and edited(tmp_path / name, lambda segment: None) == b""
    (tmp_path / "a.xlf").touch()
    with pytest.raises(SegError, match="line 1 is not valid XML"):
        segments(tmp_path / "a.xlf")
