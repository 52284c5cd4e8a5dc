"""Tab-separated files and plain text edited in place."""

from pathlib import Path

import pytest

from fairseq_seg.documents.formats import open_document
from fairseq_seg.documents.segment import Edit
from fairseq_seg.errors import SegError
from tests.document_files import LANGS, edited, only, segments


def test_a_tab_separated_file_gets_its_second_column(tmp_path: Path):
    path = tmp_path / "a.tsv"
    path.write_bytes("\ufeffone\r\n\r\ntwo\t\tnote\r\nthree\ttrois\\n\r\nf\\tour\\\\\t".encode())
    found = segments(path)
    assert [(s.id, s.source, s.target, s.state) for s in found.values()] == [
        ("1", "one", "", "new"),
        ("3", "two", "", "new"),
        ("4", "three", "trois\n", "done"),
        ("5", "f\tour\\", "", "new"),
    ]
    assert edited(path, lambda segment: None) == path.read_bytes()
    after = edited(path, lambda segment: Edit(f"\u00e9\t{segment.id}") if segment.state == "new" else None)
    assert (
        after.decode()
        == "\ufeffone\t\u00e9\\t1\r\n\r\ntwo\t\u00e9\\t3\tnote\r\nthree\ttrois\\n\r\nf\\tour\\\\\t\u00e9\\t5"
    )


def test_lines_of_a_text_are_replaced(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"  one\r\n\r\n \t\r\ntwo  \nthree")
    assert [(s.id, s.source) for s in segments(path).values()] == [("1", "  one"), ("4", "two  "), ("5", "three")]
    assert edited(path, only("4", "deux\n2")) == b"  one\r\n\r\n \t\r\ndeux 2  \nthree"
    assert edited(path, lambda segment: Edit("x")) == b"  x\r\n\r\n \t\r\nx  \nx"


def test_what_is_not_text_or_has_no_format(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n\xff\n")
    with pytest.raises(SegError, match="line 2 is not UTF-8 text"):
        segments(path)
    with pytest.raises(SegError, match="does not tell its format"):
        open_document(tmp_path / "a.docx", LANGS)
