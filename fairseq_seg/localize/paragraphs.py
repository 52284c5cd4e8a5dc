"""Sources of several lines: cut into paragraphs, each translated as one text, and put together again.

A line break within a sentence, as in a text that was wrapped by hand, is not the end of a paragraph. Its translation is
wrapped in the same width again.
"""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

# A line shorter than this was not broken because it was full.
FULL = 40
SENTENCE_END = re.compile(r"""[.:;!?…。！？]["'”»)\]]*$""")
ITEM = re.compile(r"[-*•·#<%\d]")


class Paragraph(NamedTuple):
    """A paragraph: its text in one line, what its lines begin with, and how wide they are."""

    text: str
    indent: str
    next_indent: str
    width: int | None  # None: it was one line
    end: str  # the line breaks after it


def split_paragraphs(text: str) -> list[Paragraph]:
    """Cut a text into paragraphs; a text of one line is one."""
    paragraphs: list[Paragraph] = []
    for line, end in re.findall(r"([^\n]*)(\n\s*\n|\n|$)", text):
        if not line.strip():
            if end and paragraphs:
                paragraphs[-1] = paragraphs[-1]._replace(end=paragraphs[-1].end + line + end)
            elif line or end:
                paragraphs.append(Paragraph("", "", "", None, line + end))
            continue
        # Blanks after an empty line belong to the next line.
        end, blanks = (end.rstrip(" \t"), end[len(end.rstrip(" \t")) :]) if end else ("", "")
        carried = paragraphs[-1].end if paragraphs else ""
        indent = line[: len(line) - len(line.lstrip())]
        if paragraphs and carried.endswith((" ", "\t")):
            indent = carried[len(carried.rstrip(" \t")) :] + indent
            paragraphs[-1] = paragraphs[-1]._replace(end=carried.rstrip(" \t"))
        last = paragraphs[-1] if paragraphs else None
        if last is not None and last.text and last.end == "\n" and _goes_on(last, line.strip(), indent):
            joined = f"{last.text} {line.strip()}"
            width = max(last.width or len(last.indent + last.text), len(indent + line.strip()))
            paragraphs[-1] = Paragraph(joined, last.indent, indent, width, end + blanks)
        else:
            paragraphs.append(Paragraph(line.strip(), indent, indent, None, end + blanks))
    return paragraphs


def _goes_on(last: Paragraph, line: str, indent: str) -> bool:
    """Tell whether a line continues a paragraph."""
    if SENTENCE_END.search(last.text) or ITEM.match(line) or (last.width and indent != last.next_indent):
        return False
    full = (last.width or len(last.indent + last.text)) >= FULL
    return full and len(indent) >= len(last.indent) and (line[0].islower() or len(last.text) >= FULL)


def join_paragraphs(paragraphs: list[Paragraph], texts: list[str]) -> str:
    """Put the translations of paragraphs together."""
    parts = []
    for paragraph, text in zip(paragraphs, texts, strict=True):
        if paragraph.width is None:
            parts.append(paragraph.indent + text.strip())
        else:
            lines = textwrap.wrap(
                text.strip(),
                max(paragraph.width, FULL),
                initial_indent=paragraph.indent,
                subsequent_indent=paragraph.next_indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            parts.append("\n".join(lines))
        parts.append(paragraph.end)
    return "".join(parts)
