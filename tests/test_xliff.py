"""XLIFF 1.2 and 2.x: every translated segment becomes a pair, with its codes."""

from pathlib import Path

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.store.formats import PairFile, check, read_pairs
from fairseq_seg.store.pair import Skipped
from tests.corpus import SOURCE, TARGET

XLIFF1 = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a.html" source-language="en-GB" target-language="fr" datatype="html"><header><skl/></header><body>
<trans-unit id="1"><source>Press <g id="1" ctype="bold">F1</g><x id="2"/></source>
  <target state="translated"><x id="2"/>Tapez <g id="1" ctype="bold">F1</g></target>
  <alt-trans><source>Press</source><target>Tape</target></alt-trans><note>a</note><note>b</note></trans-unit>
<group><trans-unit id="2"><source>One. Two.</source>
  <seg-source><mrk mtype="seg" mid="0">One.</mrk> <mrk mtype="seg" mid="1">Two <bpt id="1">&lt;b></bpt>b<ept id="1">
&lt;/b></ept>.</mrk></seg-source>
  <target><mrk mtype="seg" mid="1">Deux <bpt id="1">&lt;b></bpt>b<ept id="1">&lt;/b></ept>.</mrk>
  <mrk mtype="seg" mid="0">Un.</mrk></target></trans-unit></group>
<trans-unit id="3"><source>New</source><target state="new">New</target></trans-unit>
<trans-unit id="4"><source>Untranslated</source></trans-unit>
<trans-unit id="5"><source>Look</source><target state="needs-review-translation">Voir</target></trans-unit>
<group translate="no"><trans-unit id="6"><source>No</source><target>No</target></trans-unit></group>
<trans-unit id="7"><source>German</source><target xml:lang="de">Deutsch</target></trans-unit>
</body></file></xliff>"""
XLIFF2 = """<xliff version="2.1" srcLang="en" trgLang="fr-CA" xmlns="urn:oasis:names:tc:xliff:document:2.0">
<file id="f"><unit id="u1"><notes><note>n</note></notes><originalData><data id="d1">&lt;br/></data></originalData>
<segment state="final"><source>A<ph id="1" dataRef="d1"/><pc id="2">b</pc></source>
  <target>a<ph id="1" dataRef="d1"/><pc id="2">b</pc></target></segment>
<ignorable><source> </source></ignorable>
<segment><source><sc id="3"/>half</source><target>moiti\u00e9<sc id="3"/><ec startRef="3"/></target></segment>
<segment state="initial"><source>x</source><target>y</target></segment></unit></file></xliff>"""


def read(tmp_path: Path, content: str) -> list:
    path = tmp_path / "a.xlf"
    path.write_text(content, encoding="utf-8")
    assert check(PairFile("xliff", [path]), SOURCE, TARGET) >= 0
    return list(read_pairs(PairFile("xliff", [path]), SOURCE, TARGET))


def test_version_1(tmp_path: Path):
    units = read(tmp_path, XLIFF1)
    british = {"source-lang": "en-GB"}
    assert [(unit[:2], *unit[3:5]) for unit in units[:3]] == [
        (("Press <g1>F1</g1><x2/>", "<x2/>Tapez <g1>F1</g1>"), "1", {"note": "a\nb"} | british),
        (("One.", "Un."), "2", british),
        (("Two <g1>b</g1>.", "Deux <g1>b</g1>."), "2", british),
    ]
    assert units[0].codes.source == {"<g1>": '<g id="1" ctype="bold">', "</g1>": "</g>", "<x2/>": '<x id="2"/>'}
    assert units[2].codes.source["</g1>"] == '<ept id="1">\n&lt;/b&gt;</ept>'
    assert units[3:] == [
        Skipped("an untranslated unit"),
        Skipped("an untranslated unit"),
        Skipped("a unit that needs review"),
        Skipped("a unit that is not to be translated"),
        Skipped("no text in fr", ("en-GB", "de")),
    ]


def test_version_2(tmp_path: Path):
    first, half, initial = read(tmp_path, XLIFF2)
    assert first[:2] == ("A<x1/><g2>b</g2>", "a<x1/><g2>b</g2>") and first.unit == "u1"
    assert first.attributes == {"note": "n", "target-lang": "fr-CA"}
    assert first.codes.target["<x1/>"] == '<ph id="1" dataRef="d1"/>'
    assert half[:2] == ("<x1/>half", "moiti\u00e9<g2></g2>")
    assert initial == Skipped("an untranslated unit")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (XLIFF1[: XLIFF1.index("Deux")], r"line 1\d is not valid XML \(Premature end"),
        (XLIFF1.replace('version="1.2"', 'version="3.0"'), r"is XLIFF 3.0, not 1.2 or 2.x: convert it first\."),
        ("<tmx/>", "line 1 starts a <tmx>, not a <xliff>"),
        ('<!DOCTYPE xliff [<!ENTITY e "x">]><xliff version="1.2"/>', "entities are declared before line 1"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, content: str, message: str):
    with pytest.raises(SegError, match=message) as stop:
        read(tmp_path, content)
    assert "\n" not in str(stop.value)
