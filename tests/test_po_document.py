"""PO files edited in place: what is read, and that only targets and marks change."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fairseq_seg.documents.formats import open_document
from fairseq_seg.documents.po_syntax import quote, unquote
from fairseq_seg.documents.segment import Edit
from fairseq_seg.errors import SegError
from tests.document_files import LANGS, PAIR, PO, changes, edited, only, segments


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.po"
    path.write_text(PO, encoding="utf-8")
    return path


def write(path: Path, entries: str, charset: str = "UTF-8", encoding: str = "utf-8") -> Path:
    path.write_bytes(f'msgid ""\nmsgstr "Content-Type: text/plain; charset={charset}\\n"\n\n{entries}'.encode(encoding))
    return path


def test_messages_are_read_as_gettext_reads_them(file):
    found = segments(file)
    assert list(found) == ["13", "19", "22", "24[0]", "24[1]", "24[2]"]
    menu, close, done, *forms = found.values()
    assert (menu.source, menu.target, menu.state, menu.context) == ('Open "%s"\nnow\t\n', "", "new", "menu")
    assert menu.hints == ("c-format",)
    assert (close.state, close.previous) == ("fuzzy", ("Close the file", "Ferme le fichier"))
    assert (done.source, done.target, done.state) == ("Done", "Fait", "done")
    assert [form.source for form in forms] == ["one file", "%d files", "%d files"]
    assert [form.target for form in forms] == ["un fichier", "", ""]


def test_nothing_changes_without_an_edit(file):
    assert edited(file, lambda segment: None) == file.read_bytes()


def test_a_new_target_is_fuzzy_and_says_why(file):
    after = edited(file, only("13", 'Ouvrir "%s"\nmaintenant', pair=PAIR, flags=("unknown",)))
    assert changes(file.read_bytes(), after) == [
        (b"", b"# seg-translate: machine translation, 87 % match: client.mem:7 (a.tmx) (check: unknown)"),
        (b"#, c-format", b"#, fuzzy, c-format"),
        (b"", b'"Ouvrir \\"%s\\"\\n"\n"maintenant\\t\\n"'),
    ]


def test_a_final_target_has_no_mark_and_takes_marks_away(file):
    after = edited(file, only("19", "Fermer la fen\u00eatre", final=True))
    assert changes(file.read_bytes(), after) == [
        (b'#, fuzzy\n#| msgid "Close the file"', b""),
        (b'msgstr "Ferme le fichier"', 'msgstr "Fermer la fen\u00eatre"'.encode()),
    ]


def test_a_second_run_replaces_its_own_remark(file):
    file.write_bytes(edited(file, only("22", "Finie")))
    assert file.read_bytes().count(b"# seg-translate: ") == file.read_bytes().count(b'#, fuzzy\nmsgid "Done"') == 1
    file.write_bytes(edited(file, lambda segment: Edit("Fini", pair=PAIR) if segment.source == "Done" else None))
    assert file.read_bytes().count(b"# seg-translate: ") == 1
    assert b'87 % match: client.mem:7 (a.tmx)\n#, fuzzy\nmsgid "Done" msgstr "Fini"\n' in file.read_bytes()


def test_plural_forms_are_filled_and_added(file, tmp_path):
    after = edited(file, only("24[2]", "%d fichiers"))
    assert b'msgstr[1] ""\nmsgstr[2] "%d fichiers"\n' in after and b"un fichier" in after
    entries = '#| msgid ""\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n'
    path = write(tmp_path / "b.po", entries)
    assert segments(path)["5[0]"].locked == "the header has no Plural-Forms"
    path.write_bytes(path.read_bytes().replace(b"UTF-8\\n", b"UTF-8\\nPlural-Forms: nplurals=2; plural=n>1;\\n"))
    after = edited(path, only("5[0]", "A"))
    assert after.endswith(b'msgid_plural "b"\nmsgstr[0] "A"\nmsgstr[1] ""\n')
    path.write_bytes(path.read_bytes() + b'msgstr[2] ""\n')
    assert "other plural forms" in segments(path)["5[0]"].locked


def test_line_endings_and_encodings_stay(tmp_path):
    entries = 'msgid "caf\u00e9"\nmsgstr ""\n\nmsgid "long"\nmsgstr ""\n'.replace("\n", "\r\n")
    path = write(tmp_path / "a.po", entries, "ISO-8859-15", "iso-8859-15")
    assert [segment.source for segment in segments(path).values()] == ["caf\u00e9", "long"]
    after = edited(path, only("4", "th\u00e9 \u20ac"))
    assert 'msgstr "th\u00e9 \u20ac"\r\n'.encode("iso-8859-15") in after and b"\xc3" not in after
    # What the charset lacks cannot be written: the message stays as it was.
    assert edited(path, only("4", "\u65e5\u672c")) == path.read_bytes()
    both = "caf\u00e9\n" * 2
    path = write(tmp_path / "b.po", 'msgid "a\\nb\\n"\r\nmsgstr ""\r\n')
    path.write_bytes(path.read_bytes().replace(b'msgstr "Con', b'msgstr ""\r\n"Con').replace(b"\n\n", b"\r\n\r\n", 1))
    path.write_bytes(b'msgid ""\r\n' + path.read_bytes().split(b"\n", 1)[1])
    assert 'caf\u00e9\\n"\r\n"caf\u00e9\\n"\r\n'.encode() in edited(path, only("5", both))


@pytest.mark.parametrize(
    "text", ["", "plain", 'q"u\\o\te', "\a\b\f\v\r", "a\nb\n", "\n", "word " * 60, "x" * 200, "l\n\n\nm"]
)
@pytest.mark.parametrize("wrap", [True, False])
def test_quoting_keeps_every_character(text, wrap):
    lines = quote(text, "\n", wrap).split("\n")
    assert "".join(map(unquote, lines)) == text
    assert not wrap or all(len(line) <= 80 or " " not in line for line in lines)


def test_octal_and_hexadecimal_escapes():
    assert unquote(r'"\101\x42\q\\n"') == "ABq\\n"


def test_msgfmt_accepts_what_is_written(file):
    if shutil.which("msgfmt") is None:
        pytest.skip("gettext is not installed")
    file.write_bytes(edited(file, lambda segment: Edit(segment.source, final=True)))
    done = subprocess.run(["msgfmt", "-c", "-o", "/dev/null", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ('msgid "a"\nmsgstr ""\n\nmsgid "a"\nmsgstr "b"\n', "line 7 repeats the message of line 4"),
        ('msgid "a\nmsgstr ""\n', "line 4 is not valid PO (a string has no end)"),
        ('msgid "a"\nmsgid "b"\nmsgstr ""\n', "line 5 is not valid PO (msgid without msgstr)"),
        ('msgid "a"\n', "line 5 is not valid PO (msgid without msgstr)"),
        ('msgstr "a"\n', "line 4 is not valid PO (msgstr twice)"),
        ('msgid "a"\nmsgstr\n', "line 6 is not valid PO (msgstr without a string)"),
        ("<html>\n", "line 4 is not valid PO (what is '<html>'?)"),
    ],
)
def test_a_malformed_file_is_refused_with_the_line(tmp_path, entries, message):
    path = write(tmp_path / "a.po", entries)
    with pytest.raises(SegError) as caught:
        segments(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


def test_encodings_and_languages_that_contradict(tmp_path):
    path = write(tmp_path / "a.po", 'msgid "\u00e9"\nmsgstr ""\n', "UTF-8", "latin-1")
    with pytest.raises(SegError, match="line 4 is not valid PO .it is not UTF-8 text"):
        segments(path)
    path = write(tmp_path / "b.po", "", "KLINGON-8")
    with pytest.raises(SegError, match="is not text in KLINGON-8"):
        segments(path)
    path = write(tmp_path / "d.po", 'msgid "a"\nmsgstr ""\n', "ASCII")
    with open_document(path, LANGS) as document:
        list(document.units())
        with pytest.raises(SegError, match="names the charset ASCII, which lacks letters"):
            document.check_writable()
    path = write(tmp_path / "c.po", 'msgid "a"\nmsgstr ""\n', "UTF-8\\nLanguage: de")
    with pytest.raises(SegError, match="it translates to de, but the model translates en-fr"):
        segments(path)
