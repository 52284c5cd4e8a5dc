"""The inline codes of XML formats as tokens, and their bytes back in a translation (see `fairseq_seg.corpus.codes`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import accumulate

from fairseq_seg.corpus.codes import TOKEN, Code, CodedText, number_codes, restore_codes, without_codes
from fairseq_seg.documents.markup import Node, escape
from fairseq_seg.documents.raw import Raw
from fairseq_seg.errors import SegError

# Attributes that name a code, the first one that it has counts: XLIFF 2, XLIFF 1.2, TMX.
NAMES = ("id", "startRef", "mid", "rid", "i", "x")
# Elements that open or close a code for another one, by the attributes that they have in common.
OPENS = {"bpt": ("rid", "id", "i"), "bx": ("rid", "id"), "sc": ("id",), "sm": ("id",)}
CLOSES = {"ept": ("rid", "id", "i"), "ex": ("rid", "id"), "ec": ("startRef", "id"), "em": ("startRef",)}


def coded_texts(raw: Raw, pairs: Collection[str], source: Node, target: Node | None) -> tuple[CodedText, CodedText]:
    """Return the texts of a source and of its target, with tokens for codes.

    `pairs` are the elements whose content is text; all others are codes as a whole.
    """
    sides = number_codes(_pieces(raw, pairs, source), [] if target is None else _pieces(raw, pairs, target))
    return sides[0], sides[1]


def _pieces(raw: Raw, pairs: Collection[str], node: Node) -> list[str | Code]:
    pieces: list[str | Code] = []

    def add(kind, key: str, start: int, end: int) -> None:
        pieces.append(Code(kind, key, raw.data[start:end].decode()))

    for part in node.parts:
        if isinstance(part, str):
            pieces.append(part)
        elif part.name in pairs and not part.empty_tag and part.attributes.get("translate") != "no":
            key = f"{part.name} {named(part, NAMES)}"
            add("open", key, part.start, part.inner)
            pieces += _pieces(raw, pairs, part)
            add("close", key, part.inner_end, part.end)
        elif (key := named(part, OPENS.get(part.name, ()))) or (key := named(part, CLOSES.get(part.name, ()))):
            add("close" if part.name in CLOSES else "open", f"joined {key}", part.start, part.end)
        else:
            key = named(part, NAMES) or raw.data[part.start : part.end].decode()
            add("alone", f"{part.name} {key}", part.start, part.end)
    return pieces


def named(part: Node, names: Collection[str]) -> str:
    """Return the first of some attributes that an element has."""
    return next((part.attributes[name] for name in names if name in part.attributes), "")


def tokens_of(text: str, codes: Mapping[str, str]) -> list[str]:
    """List the tokens of a text that stand for codes; a source may have such words of its own."""
    return [token for token in TOKEN.findall(text) if token in codes] if codes else []


def split_tokens(text: str, codes: Mapping[str, str]) -> list[str]:
    """Split a text at its tokens: text, token, text ... token, text."""
    if not codes:
        return [text]
    return re.split(f"({'|'.join(map(re.escape, codes))})", text)


def code_fault(text: str, codes: Mapping[str, str]) -> str | None:
    """Say what is wrong with the tokens of a translation.

    Each must be there once, an end after its start, and elements must nest; other codes may overlap.
    """
    found = tokens_of(text, codes)
    counts = Counter(found)
    for what, tokens in (
        ("lost", [token for token in codes if not counts[token]]),
        ("repeated", [token for token in counts if counts[token] > 1]),
    ):
        if tokens:
            return f"{what} {', '.join(tokens)}"
    open_: list[str] = []
    for token in found:
        start = "<" + token[2:]
        if token.startswith("<g") and codes.get("</" + token[1:], "").startswith("</"):
            open_.append(token)
        elif token.startswith("</"):
            nests = open_ and open_.pop() == start if codes[token].startswith("</") else True
            if not nests or (start in codes and found.index(start) > found.index(token)):
                return f"misplaced {token}"
    return None


def place_codes(text: str, source: str, codes: Mapping[str, str]) -> str:
    """Put the source's codes into a translation without any, at the best guess.

    Their order is the source's, so elements nest. Those before its first and after its last word stay there. Each of
    the others is put at the same share of the translation's length, an end behind a word, all else in front of one.
    """
    words = [word for word in re.split(r"(\s+)", without_codes(text).strip()) if word]
    parts = split_tokens(source, codes)
    ends = list(accumulate(map(len, words), initial=0))
    total, spoken = max(sum(map(len, parts[::2])), 1), 0
    placed, at = [""] * len(ends), 0
    for index, part in enumerate(parts):
        if index % 2 == 0:
            spoken += len(part)
            continue
        if not "".join(parts[:index:2]).strip():
            wanted = [0]
        elif not "".join(parts[index + 1 :: 2]).strip():
            wanted = [len(words)]
        else:
            beside = -1 if part.startswith("</") else 0
            wanted = [cut for cut in range(1, len(words)) if cut >= at and not words[cut + beside].isspace()]
        share = spoken / total * ends[-1]
        at = max(at, min(wanted, key=lambda cut: abs(ends[cut] - share), default=at))
        placed[at] += part
    return "".join(code + word for code, word in zip(placed, [*words, ""], strict=True))


def markup(text: str, codes: Mapping[str, str], cdata: bool = False) -> bytes:
    """Return a target as XML: its text escaped or in a CDATA section, its tokens as the bytes of their codes."""
    fault = code_fault(text, codes)
    if fault:
        raise SegError(f"The codes of a translation do not fit its source: {fault}.")
    if cdata and not codes:
        return b"<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>").encode() + b"]]>"
    return restore_codes(text, codes, lambda part: escape(part).decode()).encode()
