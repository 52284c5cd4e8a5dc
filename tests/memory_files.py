"""Files that pairs are imported from, whole and broken."""

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<!-- exported -->
<tmx version="1.4">
<header creationtool="x" srclang="en-GB"><prop type="client">not of a unit</prop></header>
<body>
<tu tuid="t1" creationdate="20200131T125900Z" changeid="ann" srclang="en">
  <note>first</note><prop type="client">ACME</prop><note>second</note>
  <tuv xml:lang="EN-gb"><prop type="x">not ours</prop><seg>Press <bpt i="1">&lt;b&gt;</bpt>F1<ept i="1">&lt;/b&gt;</ept>
<ph x="1">&lt;img alt="<sub>picture</sub>"/&gt;</ph>&amp; <hi>wait</hi>.<!-- c --><it pos="begin">\\i</it></seg></tuv>
  <tuv xml:lang="fr-CA" changedate="20210131T125900Z" changeid="bob" usagecount="7">
    <seg>Appuyez<ut>{0}</ut>.</seg></tuv>
</tu>
<tu creationdate="yesterday"><tuv lang="fr"><seg>deux</seg></tuv><tuv lang="en_US"><seg>two</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>three</seg></tuv><tuv xml:lang="de"><seg>drei</seg></tuv></tu>
<tu><tuv xml:lang="en-AU"><seg>variety</seg></tuv><tuv xml:lang="en"><seg>four</seg></tuv>
    <tuv xml:lang="fr"><seg>quatre</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>five&nbsp;</seg></tuv><tuv xml:lang="fr"><seg>cinq</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>six</seg></tuv><tuv xml:lang="fr"/></tu>
</body></tmx>
"""

PO = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=ISO-8859-1\n"
"Language: fr_CA\n"

#: main.c:3
msgctxt "menu"
msgid "Open \"file\"\n"
"now"
msgstr "Ouvrir \"le\"\n"
"fichier"

#, fuzzy
msgid "Close"
msgstr "Ferme"

msgid "Untranslated"
msgstr ""

msgid "one file"
msgid_plural "%d files"
msgstr[0] "un fichier"
msgstr[1] "%d fichiers"
msgstr[2] "%d de fichiers"

#~ msgid "Old"
#~ msgstr "Vieux"

msgid "summer"
msgstr "été"
"""


def entities(levels: int, body: str) -> str:
    """Return a document whose entity, expanded, would fill any machine."""
    lines = [f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, levels)]
    return "\n".join(['<!DOCTYPE tmx [<!ENTITY e0 "ha">', *lines, "]>", f"<tmx><body><tu>{body}</tu></body></tmx>"])


UNIT = "<tu><tuv xml:lang='en'><seg>a</seg></tuv><tuv xml:lang='fr'><seg>b</seg></tuv></tu>\n"
BROKEN = [
    ("tmx", TMX[: TMX.index("quatre")].encode(), r"line 17 is not valid XML \(Premature end of data"),
    ("tmx", TMX.encode()[:100], r"line \d is not valid XML"),
    ("tmx", TMX.replace("quatre", "é").encode("latin-1"), "line 17 is not valid XML"),
    ("tmx", TMX.replace("UTF-8", "utf-16").encode(), "line 1 is not valid XML"),
    ("tmx", TMX.replace("UTF-8", "klingon").encode(), r"line 1 is not valid XML \(Unsupported encoding: klingon"),
    ("tmx", TMX.replace("</hi>", "</it>").encode(), "line 10 is not valid XML"),
    ("tmx", b"", "line 1 is not valid XML"),
    ("tmx", b"a\tb\n", "line 1 is not valid XML"),
    ("tmx", b"\x00\xff\x80" * 50, "line 1 is not valid XML"),
    ("tmx", b"<?xml version='1.0'?>\n<html><body/></html>", "line 2 starts a <html>, not a <tmx>"),
    ("tmx", f"<tmx><body>\n{UNIT}<tu>&nbsp;</tu></body></tmx>".encode(), "line 3 is not valid XML"),
    ("tmx", entities(12, "&e11;").encode(), "line|entities"),
    ("tmx", entities(12, "<tuv lang='&e11;'/>").encode(), "line|entities"),
    ("tmx", entities(1, "harmless").encode(), "entities are declared before line 3"),
    (
        "tmx",
        b"<!DOCTYPE tmx [<!ENTITY % x SYSTEM 'file:///etc/passwd'> %x;]>\n<tmx/>",
        "entities are declared before line 2",
    ),
    (
        "tmx",
        f"<tmx><body>{UNIT}<tu>{'a' * 11_000_000}</tu></body></tmx>".encode(),
        r"line 2 is not valid XML \(.*too long",
    ),
    ("po", b'msgid "a"\nmsgstr "b"\n\nmsgid "cut', "line 4 is not valid PO"),
    ("po", b'msgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr "', "line 5 is not valid PO"),
    ("po", b'msgid "a"\nmsgstr "b \\"', "line 2 is not valid PO"),
    ("po", b'msgid "a"\nmsgstr "\xe9"\n', "line 2 is not UTF-8 text"),
    ("po", b'msgid ""\nmsgstr "Content-Type: text/plain; charset=hex\\n"\n', "line 1 is not HEX text"),
    ("po", b'msgid "a"\nmsgstr "b"\nhello\n', "line 3 is not valid PO"),
    ("po", b'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a"\nmsgstr "b"\n', "translates to de, not to fr"),
    ("tsv", b"a\tb\nc\n", "line 2 has 1 columns, not a source and a target"),
    ("tsv", b"a\tb\nc\td\te\n", "line 2 has 3 columns"),
    ("tsv", b"a\tb\nc\t\xe9\n", "line 2 is not UTF-8 text"),
    ("tsv", "a\tb\n".encode("utf-16"), "line 1 is not UTF-8 text"),
]
