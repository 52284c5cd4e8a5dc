"""What requests and answers of our own API hold; the OpenAPI document is derived from these classes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fairseq_seg.corpus.faults import Fault
from fairseq_seg.serve.direction import Found
from fairseq_seg.store.pair import StoredPair
from fairseq_seg.translator import Translation

Lang = Annotated[str, Meta(description="Code of a language; may be left out where the server has one direction.")]
Count = Annotated[int, Meta(ge=1, le=100, description="Most pairs to return.")]
Codes = Annotated[bool, Meta(description="<g1> </g1> <x2/> are inline codes: the translation gets them, too.")]
Text = Annotated[str, Meta(max_length=100_000)]


NoCodes = Annotated[bool, Meta(description="<g1> </g1> <x2/> are inline codes: they are left out.")]


class Asked(Struct, forbid_unknown_fields=True):
    """A request; fields that it does not have are refused."""


class TranslateRequest(Asked):
    """Texts to translate, each as a whole."""

    texts: list[Text]
    source: Lang | None = None
    target: Lang | None = None
    provenance: Annotated[bool, Meta(description="Say of each word where it came from.")] = False
    codes: Codes = False


class SearchRequest(Asked):
    """A text to find similar pairs for."""

    text: Text
    source: Lang | None = None
    target: Lang | None = None
    count: Count = 5


class ConcordanceRequest(Asked):
    """Words to find in pairs: `"..."` is a phrase, `word*` the beginning of a word."""

    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    source: Lang | None = None
    target: Lang | None = None
    side: Annotated[str, Meta(pattern="^(source|target|both)$")] = "both"
    count: Count = 20


class AnalyseRequest(Asked):
    """Texts to find the match band of."""

    texts: list[Text]
    codes: NoCodes = False
    source: Lang | None = None
    target: Lang | None = None


class CheckRequest(Asked):
    """A translation to compare with its source."""

    text: Text
    translation: Text
    source: Lang | None = None
    target: Lang | None = None


class NewPair(Asked):
    """A pair for a memory."""

    source: Text
    target: Text
    origin: Annotated[str, Meta(max_length=1000)] = ""
    conflict: Annotated[
        str,
        Meta(pattern="^(keep|overwrite|skip)$", description="What happens if the source has another target already."),
    ] = "keep"
    codes: NoCodes = False


class ChangedPair(Asked):
    """New texts of a pair; what is left out stays."""

    source: Text | None = None
    target: Text | None = None
    codes: NoCodes = False


class NewTarget(Asked):
    """The target of a segment of a file."""

    segment: Annotated[int, Meta(ge=0, description="Its number in the answer of /v1/files, from 0.")]
    text: Text


class WriteRequest(Asked):
    """A file, and new targets for some of its segments."""

    name: Annotated[str, Meta(max_length=1000)]
    content: Annotated[bytes, Meta(description="The file, in base64.")]
    edits: list[NewTarget]
    source: Lang | None = None
    target: Lang | None = None


class Pair(Struct):
    """A pair of a memory."""

    memory: str
    id: int
    origin: str
    source: str
    target: str
    score: float | None = None
    created: str | None = None
    changed: str | None = None


class Word(Struct):
    """A word of a translation."""

    text: str
    gate: Annotated[float, Meta(description="Weight of the memory, from 0 to 1.")]
    share: Annotated[float, Meta(description="Share of its probability that the memory gave.")]
    pair: Annotated[int | None, Meta(description="Which of the pairs it was copied from.")] = None
    position: Annotated[int | None, Meta(description="Which word of that pair's target.")] = None


class Translated(Struct):
    """A translation."""

    source: str
    text: str
    score: Annotated[float, Meta(description="Mean log probability of its symbols.")]
    flags: Annotated[list[str], Meta(description="empty, cut, unknown or exact.")]
    pairs: Annotated[list[Pair], Meta(description="What the memories had, the best first.")]
    words: list[Word] | None = None


class Translations(Struct):
    """Translations in the order of the texts."""

    translations: list[Translated]


class Pairs(Struct):
    """Pairs, the best first."""

    pairs: list[Pair]


class Match(Struct):
    """The match band of a text."""

    band: str
    score: float


class Analysis(Struct):
    """Match bands in the order of the texts, and how many texts and words each band has."""

    matches: list[Match]
    texts: dict[str, int]
    words: dict[str, int]


class Finding(Struct):
    """Something wrong with a translation, or perhaps wrong."""

    kind: str
    detail: str
    doubt: bool


class Findings(Struct):
    """What was found."""

    findings: list[Finding]


class Memory(Struct):
    """A memory that the client may read or write."""

    name: str
    source: str
    target: str
    pairs: int
    writable: bool


class Server(Struct):
    """What the server has for this client."""

    directions: list[list[str]]
    names: dict[str, str]
    memories: list[Memory]
    version: str


class Stored(Struct):
    """The pair is safely stored."""

    memory: str
    id: int
    added: Annotated[bool, Meta(description="Whether the pair is new or changed.")] = True


class FileSegment(Struct):
    """A segment of a file."""

    source: str
    target: str
    state: Annotated[str, Meta(description="new, fuzzy or done.")]
    locked: Annotated[str, Meta(description="Why it is not to be translated, if so.")]
    context: str
    codes: Annotated[bool, Meta(description="Whether the source has inline codes.")]


class File(Struct):
    """A file, as a translator sees it."""

    format: str
    segments: list[FileSegment]


class Error(Struct):
    """Why a request was refused."""

    error: str


def translated(translation: Translation) -> Translated:
    """Return a translation as the API shows it."""
    pairs = [
        Pair(
            pair.origin.partition(f":{pair.id}")[0],
            pair.id,
            pair.origin,
            pair.source,
            pair.target,
            round(pair.score, 4),
        )
        for pair in translation.pairs
    ]
    words = None
    if translation.explanation is not None:
        words = [
            Word(word.text, round(word.gate, 4), round(word.share, 4))
            if word.copied_from is None
            else Word(
                word.text, round(word.gate, 4), round(word.share, 4), word.copied_from.pair, word.copied_from.position
            )
            for word in translation.explanation.words
        ]
    head = translation.source, translation.text, round(translation.score, 4)
    return Translated(*head, translation.flags, pairs, words)


def found_pair(found: Found) -> Pair:
    """Return a pair that a search found."""
    return Pair(found.memory, found.id, found.origin, found.source, found.target, round(found.score, 4))


def stored_pair(memory: str, pair: StoredPair) -> Pair:
    """Return a pair as a memory holds it."""
    return Pair(memory, pair.id, pair.origin, pair.source, pair.target, None, pair.created, pair.changed)


def finding(fault: Fault) -> Finding:
    """Return a fault."""
    return Finding(fault.kind, fault.detail, fault.is_weak)
