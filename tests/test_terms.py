"""Lists of terms: reading, finding, and what respects them."""

import pytest

from fairseq_seg.corpus.terms import Term, Terms, is_respected
from fairseq_seg.errors import SegError
from tests.evaluate.running import write


def terms(tmp_path, *lines: str) -> Terms:
    return Terms.read(write(tmp_path / "terms.tsv", lines))


def test_terms_are_whole_words_longest_first(tmp_path):
    known = terms(tmp_path, "file\tfichier", "file name\tnom du fichier", "print range\tzone d'impression", "a - b\tc")
    found = known.find("The File Name of a profile; files, the file. File-name print\u00a0range; print; a-b")
    assert [term.source for term in found] == ["file name", "file", "print range", "a - b"]
    assert known.find("") == known.find("profile filename") == []


def test_capitals_inside_a_term_count(tmp_path):
    known = terms(tmp_path, "OpenType\tOpenType", "IT\tinformatique", "it\til", "Writer\tWriter", "Data Source\tSource")
    assert [term.target for term in known.find("IT and it and writer")] == ["informatique", "il", "Writer"]
    assert known.find("opentype and data source") == []
    assert len(known.find("OpenType, Data Source")) == 2


def test_columns_comments_and_repeated_lines(tmp_path):
    known = terms(
        tmp_path, "# a comment\tof two", "", " link \t lien \t liaison | chaînon |", "link\tlien\tliaison|chaînon"
    )
    assert known.terms == [Term("link", "lien", ("liaison", "chaînon"), 3)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["link lien"], "line 1, has 1 columns"),
        (["a\tb", "a\tb\tc\td"], "line 2, has 4 columns"),
        (["\tlien"], "line 1, has an empty source term"),
        (["link\t…"], "line 1, has an empty target term: fill"),
        (["link\tlien", "Link\tliaison"], "lines 1 and 2 translate the term 'Link' differently"),
        (["link\tlien\tlien"], "forbids the target term itself"),
        (["w " * 40 + "\tlien"], "longer than 30 words"),
        (["# nothing"], "has no terms"),
    ],
)
def test_bad_files(tmp_path, lines, message):
    with pytest.raises(SegError, match=message):
        terms(tmp_path, *lines)


@pytest.mark.parametrize(
    ("translation", "respected"),
    [
        ("Le lien vers", True),
        ("LIEN.", True),
        ("Les liens", False),  # an inflected form is another word
        ("la liaison", False),
        ("le lien de la liaison", False),
        ("le lien, la liaison de données", True),  # a longer form that is not forbidden... is not known
        ("", False),
    ],
)
def test_respect(translation, respected):
    term = Term("link", "lien", ("liaison",), 1)
    if "données" in translation:
        term = term._replace(target="liaison de données")
    assert is_respected(term, translation) == respected


def test_a_list_of_many_terms_is_fast(tmp_path):
    known = terms(tmp_path, *(f"term{number} x\tterme {number}" for number in range(20_000)))
    assert len(known.find("a b c " * 5000 + "term7 x")) == 1
