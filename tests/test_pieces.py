"""Texts are cut into what is translated and what stays."""

import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_seg.serve.pieces import cut_html, cut_text, put_together

MARKUP = st.lists(
    st.sampled_from(["<b>", "</b>", "<!--", "-->", "<script>", "</script>", "<", ">", "&amp;", " ", "\n", "a", "b c"])
).map("".join)


def translated(text: str, markup: bool = False) -> str:
    pieces = (cut_html if markup else cut_text)(text)
    return put_together(pieces, iter([piece.text.upper() for piece in pieces if piece.translated]), markup)


@given(st.text(alphabet="ab \n\t\r\u00a0."))
def test_lines_keep_their_breaks_and_blanks(text: str):
    assert translated(text) == text.upper()
    assert all(
        piece.text == piece.text.strip() and "\n" not in piece.text for piece in cut_text(text) if piece.translated
    )


@given(MARKUP)
def test_markup_is_never_lost_and_never_made(text: str):
    pieces = cut_html(text)
    same = put_together(pieces, iter([piece.text for piece in pieces if piece.translated]), True)
    assert unescape(same) == unescape(text)
    hostile = put_together(pieces, iter(["<img src=x onerror=alert(1)>"] * len(pieces)), True)
    assert "<img" not in hostile


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p title='a'>one <b>two</b></p>", "<p title='a'>ONE <b>TWO</b></p>"),
        ("a &lt; b &amp; c", "A &lt; B &amp; C"),
        ("<script>if (a < b) x()</script>a", "<script>if (a < b) x()</script>A"),
        ("<style>p {}</style>", "<style>p {}</style>"),
        ("<!-- a > b -->c", "<!-- a > b -->C"),
        ("a < b", "A &lt; B"),
        ("<script>never ends", "<script>never ends"),
        ("<br/>\n  a", "<br/>\n  A"),
    ],
)
def test_html(text: str, expected: str):
    assert translated(text, markup=True) == expected


@pytest.mark.parametrize("part", ["<!--", "<", "<script>", "<script", "<b>", "&", "</script"])
def test_malice_takes_no_more_than_linear_time(part: str):
    began = time.process_time()
    cut_html(part * 20_000)
    assert time.process_time() - began < 5
