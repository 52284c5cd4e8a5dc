"""PO in the layouts that msgfmt accepts, read as polib reads them."""

import shutil
import subprocess
import sys
from pathlib import Path

import polib
import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.store.pair import Skipped, TranslationUnit
from fairseq_seg.store.po import read_po
from tests.memory_files import PO

LAYOUTS = r"""#comment without a blank
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\n"
#, c-format, fuzzy
msgid "not sure"   msgstr "pas sûr"
#: a.c:1

   msgid   "one %d"
   msgid_plural
"many"
	" %d"
msgstr [0]
"un %d"
msgstr[ 1 ] "beaucoup "

# a comment between strings of different messages
"%d"
msgctxt "menu" msgid "tab\t\"quote\" \\ \101 \x42" msgstr "ta" "b"
msgid "tab"
msgstr ""
"\ttab"
#~| msgid "older"
#~ msgctxt "old"
#~ msgid "old"
#~ msgstr "vieux"
#~ msgid "old too"
#~ msgstr "vieux"
"""


def read(path: Path, text: str) -> list[TranslationUnit | Skipped]:
    path.write_text(text, encoding="utf-8")
    return list(read_po(path, "fr"))


def test_layouts(tmp_path: Path):
    text = LAYOUTS.replace("\n# a comment between strings of different messages\n", "")
    units = read(tmp_path / "a.po", text)
    assert [unit if isinstance(unit, Skipped) else (*unit[:2], unit.unit, unit.attributes) for unit in units] == [
        Skipped("a fuzzy message"),
        ("one %d", "un %d", "10", {"plural": "0"}),
        ("many %d", "beaucoup %d", "10", {"plural": "1"}),
        ('tab\t"quote" \\ A B', "tab", "18", {"msgctxt": "menu"}),
        ("tab", "\ttab", "19", {}),
        Skipped("an obsolete message"),
        Skipped("an obsolete message"),
    ]
    if shutil.which("msgfmt"):
        subprocess.run(["msgfmt", "-o", "/dev/null", tmp_path / "a.po"], check=True)


def test_messages_are_those_of_polib(tmp_path: Path):
    path = tmp_path / "a.po"
    path.write_text(PO, encoding="latin-1")
    ours = [unit[:2] for unit in read_po(path, "fr") if isinstance(unit, TranslationUnit)]
    theirs = []
    for message in polib.pofile(str(path)):
        if message.translated():
            forms = message.msgstr_plural or {0: message.msgstr}
            texts = [message.msgid, *[message.msgid_plural] * len(forms)]
            theirs += [(texts[form], forms[form]) for form in sorted(forms)]
    assert sorted(ours) == sorted(theirs) and len(ours) == 5


def test_a_long_string_takes_no_gigabytes(tmp_path: Path):
    path = tmp_path / "a.po"
    path.write_text('msgid "a"\nmsgstr "' + r"\n" * 5_000_000 + '"\n')
    code = (
        "import resource, sys; from pathlib import Path; from fairseq_seg.store.po import read_po\n"
        "resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))\n"
        "[unit] = read_po(Path(sys.argv[1]), 'fr'); print(len(unit.target))"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60)
    assert done.stdout == "5000000\n", done.stderr[-300:]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"a"\n', "line 1 is not valid PO \\(a string belongs to no keyword"),
        ('msgid "a"\nmsgid "b"\n', "line 2 is not valid PO \\(msgid is not expected here"),
        ('msgid "a"\n\n# c\nmsgstr "b"\n', "line 1 is not valid PO \\(a message lacks its msgid or msgstr"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', "line 3 is not valid PO \\(a msgstr is repeated"),
        ('msgstr "b"\n', "is not valid PO \\(a message lacks"),
    ],
)
def test_what_msgfmt_refuses_is_refused(tmp_path: Path, text: str, message: str):
    with pytest.raises(SegError, match=message):
        read(tmp_path / "a.po", text)
    if shutil.which("msgfmt"):
        assert subprocess.run(["msgfmt", "-o", "/dev/null", tmp_path / "a.po"], capture_output=True).returncode
