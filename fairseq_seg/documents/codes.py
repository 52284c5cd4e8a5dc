"""Inline codes as tokens: `<x1/>` for one that stands alone, `<g2>` and `</g2>` for two that belong together.

A token stands for the bytes of its code, which come back as they were. The codes of a target have the tokens of the
source's codes that they repeat.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from fairseq_seg.documents.markup import Node, escape
from fairseq_seg.errors import SegError

TOKEN = re.compile(r"<x\d+/>|</?g\d+>")
# Attributes that name a code, the first one that it has counts: XLIFF 2, XLIFF 1.2, TMX.
NAMES = ("id", "startRef", "mid", "rid", "i", "x")
# Elements that open or close a code for another one, by the attributes that they have in common.
OPENS = {"bpt": ("rid", "id", "i"), "bx": ("rid", "id"), "sc": ("id",), "sm": ("id",)}
CLOSES = {"ept": ("rid", "id", "i"), "ex": ("rid", "id"), "ec": ("startRef", "id"), "em": ("startRef",)}


@dataclass
class Codes:
    """The codes of a segment: bytes by token, and the tokens by what names a code."""

    found: dict[str, bytes] = field(default_factory=dict)
    _tokens: dict[tuple, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _count: int = 0

    def read(self, node: Node, data, pairs: Collection[str], first: bool = True) -> str:
        """Return the text of a node with tokens for its codes.

        `pairs` are the elements whose content is text; all others are codes as a whole. The source is read first.
        """
        if first:
            self._taken.update(TOKEN.findall(node.text))
        opened = {key for child in node.children(*OPENS) if (key := shared(child, OPENS))}
        closed = {key for child in node.children(*CLOSES) if (key := shared(child, CLOSES))}
        seen: Counter[tuple] = Counter()
        return self._read(node, data, pairs, opened & closed, seen)

    def _read(self, node: Node, data, pairs: Collection[str], joined: set[str], seen: Counter[tuple]) -> str:
        parts = []
        for part in node.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            key = self._key(part, data, seen)
            if part.name in pairs and not part.empty_tag and part.attributes.get("translate") != "no":
                number = self._number(("pair", *key))
                self._keep(f"<g{number}>", data[part.start : part.inner])
                self._keep(f"</g{number}>", data[part.inner_end : part.end])
                parts += [f"<g{number}>", self._read(part, data, pairs, joined, seen), f"</g{number}>"]
                continue
            partner = shared(part, OPENS) or shared(part, CLOSES)
            if partner in joined:
                token = f"<{'/' if part.name in CLOSES else ''}g{self._number(('joined', partner))}>"
            else:
                token = f"<x{self._number(('alone', *key))}/>"
            self._keep(token, data[part.start : part.end])
            parts.append(token)
        return "".join(parts)

    def _keep(self, token: str, code: bytes) -> None:
        self.found.setdefault(token, code)

    def _key(self, part: Node, data, seen: Counter[tuple]) -> tuple:
        name = next((part.attributes[name] for name in NAMES if name in part.attributes), None)
        key = (part.name, name if name is not None else data[part.start : part.end])
        seen[key] += 1
        return (*key, seen[key])

    def _number(self, key: tuple) -> str:
        if key not in self._tokens:
            self._count += 1
            while self._taken & {f"<x{self._count}/>", f"<g{self._count}>", f"</g{self._count}>"}:
                self._count += 1
            self._tokens[key] = str(self._count)
        return self._tokens[key]


def shared(part: Node, kinds: Mapping[str, tuple[str, ...]]) -> str:
    """Return what a code that opens or closes has in common with its other half."""
    return next((part.attributes[name] for name in kinds.get(part.name, ()) if name in part.attributes), "")


def tokens_of(text: str, codes: Mapping[str, bytes]) -> list[str]:
    """List the tokens of a text that stand for codes; a source may have such words of its own."""
    return [token for token in TOKEN.findall(text) if token in codes]


def without_codes(text: str, codes: Mapping[str, bytes]) -> str:
    """Return a text without its codes, and without a blank where a code had one on both sides."""
    if not codes:
        return text
    parts = split_tokens(text, codes)
    kept = parts[0]
    for part in parts[2::2]:
        kept += part.lstrip(" ") if kept.endswith(" ") else part
    return kept


def split_tokens(text: str, codes: Mapping[str, bytes]) -> list[str]:
    """Split a text at its tokens: text, token, text ... token, text."""
    if not codes:
        return [text]
    return re.split(f"({'|'.join(map(re.escape, codes))})", text)


def code_fault(text: str, codes: Mapping[str, bytes]) -> str | None:
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
        if token.startswith("<g") and codes.get("</" + token[1:], b"").startswith(b"</"):
            open_.append(token)
        elif token.startswith("</"):
            nests = open_ and open_.pop() == start if codes[token].startswith(b"</") else True
            if not nests or (start in codes and found.index(start) > found.index(token)):
                return f"misplaced {token}"
    return None


def place_codes(text: str, source: str, codes: Mapping[str, bytes]) -> str:
    """Put the source's codes into a translation without any, at the best guess.

    Their order is the source's, so pairs nest. Those before its first and after its last word stay there; each of the
    others is put between two words of the translation, at the same share of its length.
    """
    words = [word for word in re.split(r"(\s+)", without_codes(text, codes).strip()) if word]
    total = max(sum(len(part) for part in split_tokens(source, codes)[::2]), 1)
    parts = split_tokens(source, codes)
    length = sum(map(len, words))
    cuts = [0]
    for word in words:
        cuts.append(cuts[-1] + len(word))
    spoken, placed, at = 0, [""] * (len(words) + 1), 0
    for index, part in enumerate(parts):
        if index % 2 == 0:
            spoken += len(part)
            continue
        before, after = "".join(parts[:index:2]), "".join(parts[index + 1 :: 2])
        if not before.strip():
            at = 0
        elif not after.strip():
            at = len(words)
        else:
            wanted = spoken / total * length
            at = max(at, min(range(len(cuts)), key=lambda cut: abs(cuts[cut] - wanted)))
        placed[at] += part
    return "".join(code + word for code, word in zip(placed, [*words, ""], strict=True))


def markup(text: str, codes: Mapping[str, bytes], cdata: bool = False) -> bytes:
    """Return a target as XML: its text escaped or in a CDATA section, its tokens as the bytes of their codes."""
    fault = code_fault(text, codes)
    if fault:
        raise SegError(f"The codes of a translation do not fit its source: {fault}.")
    if cdata and not codes:
        return b"<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>").encode() + b"]]>"
    parts: Iterable[bytes] = (
        codes[part] if index % 2 else escape(part) for index, part in enumerate(split_tokens(text, codes))
    )
    return b"".join(parts)
