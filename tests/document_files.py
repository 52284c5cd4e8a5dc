"""Files that are translated in place, in the shapes that tools write them, and a way to edit them."""

import io
from collections.abc import Callable
from pathlib import Path

from fairseq_seg.documents.formats import open_document
from fairseq_seg.documents.segment import Edit, Pair, Segment

PAIR = Pair("Open a <file> & close", "Ouvrir", "client.mem:7 (a.tmx)", 0.875)

PO = r"""# Copyright
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: fr_FR\n"
"Plural-Forms: nplurals=3; plural=(n == 0 || n == 1) ? 0 : n != 0 && n % 1000000 == 0 ? 1 : 2;\n"

#comment without a blank
#. extracted
#: main.c:3
#, c-format
msgctxt "menu"
msgid "Open \"%s\"\n"
"now\t\n"
msgstr ""

#, fuzzy
#| msgid "Close the file"
msgid "Close the window"
msgstr "Ferme le fichier"

msgid "Done" msgstr "Fait"

msgid "one file"
msgid_plural "%d files"
msgstr[0]
"un fichier"
msgstr[1] ""
msgstr[2] ""

#~ msgid "Old"
#~ msgstr "Vieux"
"""

XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"
  xmlns:mq="MQXliff">
<!-- a comment with <target> in it -->
<file original="a.txt" source-language="en-US" target-language='fr' datatype="plaintext"><body>
  <trans-unit id="plain" mq:status="x">
    <source>Save &amp; close &lt;now&gt;</source>
    <note>keep</note>
  </trans-unit>
  <trans-unit id="codes"><source>Press <bpt id="1">&lt;b></bpt>F1<ept id="1">&lt;/b></ept> or <g id='2'
     ctype="x">two <x id="3"/></g>.</source><target state="new"/></trans-unit>
  <trans-unit id="cdata"><source><![CDATA[Hello <b>you</b> & me]]></source><target/></trans-unit>
  <trans-unit id="cut"><source>One. Two.</source>
    <seg-source><mrk mtype="seg" mid="0">One.</mrk> <mrk mtype="seg" mid="1">Two <x id="9"/>.</mrk></seg-source>
    <target><mrk mtype="seg" mid="0">Un.</mrk> <mrk mtype="seg" mid="1"/></target></trans-unit>
  <trans-unit id="uncut"><source>One. Two.</source>
    <seg-source><mrk mtype="seg" mid="0">One.</mrk> <mrk mtype="seg" mid="1">Two.</mrk></seg-source></trans-unit>
  <trans-unit id="no" translate="no"><source>ACME</source></trans-unit>
  <group translate="no"><trans-unit id="group"><source>ACME</source></trans-unit>
    <trans-unit id="yes" translate="yes"><source>Yes</source></trans-unit></group>
  <trans-unit id="final" approved="yes"><source>Final</source>
    <target state="needs-translation">Fin</target></trans-unit>
  <trans-unit id="unsure"><source>Unsure</source><target xml:lang="fr" state="needs-review-translation"
    state-qualifier="leveraged-mt">Pas s\u00fbr</target><alt-trans><source>alt</source><target>alt</target></alt-trans>
  </trans-unit>
</body></file></xliff>
"""

XLIFF2 = """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en">
 <file id="f1">
  <unit id="u1" name="first">
   <originalData><data id="d1">&lt;b&gt;</data></originalData>
   <segment id="s1">
    <source>Click <pc id="1" dataRefStart="d1">here</pc> <ph id="2"/> and <sc id="3"/>there<ec startRef="3"/>.</source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment state="translated"><source>Done</source><target>Fait</target></segment>
   <segment state="initial"><source>Copy</source><target>Copy</target></segment>
  </unit>
  <unit id="u2" translate="no"><segment><source>ACME</source></segment></unit>
  <unit id="u3"><segment id="x"><source>Open <mrk id="m1" translate="no">ACME</mrk></source><target/></segment></unit>
 </file>
</xliff>
"""

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-GB"/>
<body>
<tu tuid="new"><tuv xml:lang="en-GB"><seg>Press <bpt i="1">&lt;b&gt;</bpt>F1<ept i="1">&lt;/b&gt;</ept> now</seg></tuv>
  <tuv xml:lang="de"><seg>Jetzt</seg></tuv></tu>
<tu tuid="empty">
  <tuv xml:lang="en"><seg>Empty</seg></tuv>
  <tuv xml:lang="FR-fr"><seg/></tuv>
</tu>
<tu tuid="done"><tuv xml:lang="en"><seg>Done</seg></tuv><tuv xml:lang="fr"><seg>Fait</seg></tuv></tu>
<tu tuid="other"><tuv xml:lang="de"><seg>Nur deutsch</seg></tuv></tu>
</body></tmx>
"""

LANGS = ("en", "fr")


def segments(path: Path) -> dict[str, Segment]:
    """Return the segments of a file by id."""
    with open_document(path, LANGS) as document:
        return {segment.id: segment for unit in document.units() for segment in unit.segments}


def edited(path: Path, edit: Callable[[Segment], Edit | None]) -> bytes:
    """Return a file with the targets that a function gives."""
    stream = io.BytesIO()
    with open_document(path, LANGS) as document:
        document.write(stream, ((unit, [edit(segment) for segment in unit.segments]) for unit in document.units()))
    return stream.getvalue()


def only(id: str, text: str, **marks) -> Callable[[Segment], Edit | None]:
    """Return a function that edits one segment."""
    return lambda segment: Edit(text, **marks) if segment.id == id else None


def changes(before: bytes, after: bytes) -> list[tuple[bytes, bytes]]:
    """Return what was replaced by what, line by line."""
    import difflib

    old, new = before.split(b"\n"), after.split(b"\n")
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(b"\n".join(old[a:b]), b"\n".join(new[c:d])) for kind, a, b, c, d in codes if kind != "equal"]
