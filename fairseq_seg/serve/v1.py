"""Our own API, in JSON: translations with provenance, searches, and changes of the memories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import fairseq_seg
from fairseq_seg.corpus.codes import tokens_of, without_codes
from fairseq_seg.corpus.faults import faults
from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.corpus.terms import is_respected
from fairseq_seg.documents.segment import Edit
from fairseq_seg.errors import SegError
from fairseq_seg.serve import records
from fairseq_seg.serve.files import read_segments, with_codes, write_segments
from fairseq_seg.serve.keys import Client
from fairseq_seg.serve.languages import name_of_language
from fairseq_seg.serve.memories import SharedMemory
from fairseq_seg.serve.parameters import JSON, MOST_BYTES, media_type, parse_form, read_body, text_of
from fairseq_seg.serve.refusal import Refusal
from fairseq_seg.serve.service import Service
from fairseq_seg.store.concordance import find_words
from fairseq_seg.store.store import TranslationMemory

BANDS = ((1.0, "100 %"), (0.95, "95-99 %"), (0.85, "85-94 %"), (0.75, "75-84 %"), (0.5, "50-74 %"), (0.0, "no match"))


class Call(NamedTuple):
    """A request whose client is known and whose body is valid."""

    request: Request
    service: Service
    client: Client
    body: Any


async def translate(call: Call) -> records.Translations:
    """Translate texts."""
    body: records.TranslateRequest = call.body
    direction = call.service.direction(body.source, body.target)
    texts = [direction.bare(text) for text in body.texts] if body.codes else body.texts
    found = await call.service.translate(call.request, direction, texts, call.client, body.provenance)
    answer = records.Translations([records.translated(translation) for translation in found])
    if body.codes:
        for text, translation in zip(body.texts, answer.translations, strict=True):
            translation.text = with_codes(translation.text, text, {token: token for token in tokens_of(text)})
    return answer


async def search(call: Call) -> records.Pairs:
    """Find the pairs most similar to a text."""
    body: records.SearchRequest = call.body
    direction = call.service.direction(body.source, body.target)
    found = await direction.search(body.text, call.client, body.count)
    return records.Pairs([records.found_pair(pair) for pair in found])


async def concordance(call: Call) -> records.Pairs:
    """Find the pairs in which words occur."""
    body: records.ConcordanceRequest = call.body
    direction = call.service.direction(body.source, body.target)
    found: list[records.Pair] = []
    for memory in direction.readable(call.client):
        try:
            pairs = await memory.call(lambda opened: find_words(opened, body.query, body.side, body.count))  # type: ignore[arg-type]
        except SegError as error:
            raise Refusal(400, str(error)) from None
        found += [records.stored_pair(memory.name, pair) for pair in pairs]
    return records.Pairs(found[: body.count])


async def analyse(call: Call) -> records.Analysis:
    """Say how much of texts the memories have."""
    body: records.AnalyseRequest = call.body
    direction = call.service.direction(body.source, body.target)
    if len(body.texts) > call.service.queue:
        raise Refusal(413, f"{len(body.texts):,} texts are too many: send at most {call.service.queue:,} per request.")
    analysis = records.Analysis([], {band: 0 for _, band in BANDS}, {band: 0 for _, band in BANDS})
    for text in map(without_codes, body.texts) if body.codes else body.texts:
        found = await direction.search(text, call.client, 1)
        score = found[0].score if found else 0.0
        band = next(band for least, band in BANDS if score >= least)
        analysis.matches.append(records.Match(band, round(score, 4)))
        analysis.texts[band] += 1
        analysis.words[band] += len(text.split())
    return analysis


async def check(call: Call) -> records.Findings:
    """Compare numbers, placeholders, tags, addresses and terms of a translation with its source."""
    body: records.CheckRequest = call.body
    direction = call.service.direction(body.source, body.target)
    notations = notation_of(direction.source), notation_of(direction.target)
    found = [records.finding(fault) for fault in faults(body.text, body.translation, *notations)]
    if direction.terms is not None and body.translation.strip():
        for term in direction.terms.find(body.text):
            if not is_respected(term, body.translation):
                found.append(records.Finding("term", f"{term.source}: {term.target}", doubt=True))
    return records.Findings(found)


async def server(call: Call) -> records.Server:
    """List the directions, and the memories that this client may use."""
    service, memories = call.service, []
    for direction in service.directions.values():
        for memory in direction.memories.values():
            if memory.name in call.client.read | call.client.write:
                count = await memory.call(len)
                writable = memory.name in call.client.write
                memories.append(records.Memory(memory.name, direction.source, direction.target, count, writable))
    names = {code: name_of_language(code) for code in service.languages}
    return records.Server([list(pair) for pair in service.directions], names, memories, fairseq_seg.__version__)


async def add(call: Call) -> records.Stored:
    """Add a pair, and answer when it is safely stored."""
    body: records.NewPair = call.body
    memory = memory_of(call, "write")
    origin = body.origin or call.client.name
    source, target = (without_codes(text) if body.codes else text for text in (body.source, body.target))

    def store(opened: TranslationMemory) -> tuple[int, bool]:
        before = opened.revision
        id = opened.add(source, target, origin=origin, conflict=body.conflict)  # type: ignore[arg-type]
        return id, opened.pair(id).revision > before

    return records.Stored(memory.name, *await call.service.change(call.request, memory, store))


async def read(call: Call) -> records.Pair:
    """Return a pair."""
    memory, id = memory_of(call, "read"), number_of(call)
    found = await memory.call(lambda opened: opened.pairs_of([id]))
    if not found:
        raise Refusal(404, f"{memory.name} has no pair {id}.")
    return records.stored_pair(memory.name, found[0])


async def update(call: Call) -> records.Stored:
    """Change the texts of a pair."""
    body: records.ChangedPair = call.body
    memory, id = await existing(call)
    source, target = (without_codes(text) if body.codes and text else text for text in (body.source, body.target))
    await call.service.change(call.request, memory, lambda opened: opened.update(id, source, target))
    return records.Stored(memory.name, id)


async def delete(call: Call) -> records.Stored:
    """Delete a pair."""
    memory, id = await existing(call)
    await call.service.change(call.request, memory, lambda opened: opened.delete(id))
    return records.Stored(memory.name, id)


async def open_file(call: Call) -> records.File:
    """Return the segments of a PO, XLIFF, TMX, TSV or text file, which the server does not keep."""
    query = parse_form(call.request.scope["query_string"])
    source, target = (text_of(query, side, "") or None for side in ("source", "target"))
    direction = call.service.direction(source, target)
    langs = direction.source, direction.target
    format, segments = await asyncio.to_thread(read_segments, text_of(query, "name"), call.body, langs)
    return records.File(
        format,
        [
            records.FileSegment(
                segment.source, segment.target, segment.state, segment.locked, segment.context, bool(segment.codes)
            )
            for segment in segments
        ],
    )


async def write_file(call: Call) -> bytes:
    """Return a file with new targets; every other byte stays."""
    body: records.WriteRequest = call.body
    direction = call.service.direction(body.source, body.target)
    edits = {edit.segment: Edit(edit.text, final=True) for edit in body.edits}
    langs = direction.source, direction.target
    return await asyncio.to_thread(write_segments, body.name, body.content, langs, edits)


def memory_of(call: Call, right: str) -> SharedMemory:
    """Return the memory in the path; one that the client may not use does not exist for it."""
    name = call.request.path_params["memory"]
    if name in call.client.read | call.client.write:
        for direction in call.service.directions.values():
            if name in direction.memories:
                if name not in getattr(call.client, right):
                    raise Refusal(403, f"You may not {right} {name}.")
                return direction.memories[name]
    raise Refusal(404, f"There is no memory called {name}.")


def number_of(call: Call) -> int:
    """Return the id of a pair in the path; no database has one of more than 64 bits."""
    return min(call.request.path_params["id"], 2**63 - 1)


async def existing(call: Call) -> tuple[SharedMemory, int]:
    """Return the memory and the id in the path, if the client may write there and the pair exists."""
    memory, id = memory_of(call, "write"), number_of(call)
    if not await memory.call(lambda opened: opened.pairs_of([id])):
        raise Refusal(404, f"{memory.name} has no pair {id}.")
    return memory, id


class Operation(NamedTuple):
    """An operation of the API."""

    method: str
    path: str
    function: Callable[[Call], Awaitable[msgspec.Struct | bytes]]
    body: type[msgspec.Struct] | type[bytes] | None
    result: type[msgspec.Struct] | type[bytes]
    status: int = 200
    query: tuple[str, ...] = ()


BYTES = "application/octet-stream"
PAIRS, PAIR = "/v1/memories/{memory}/pairs", "/v1/memories/{memory}/pairs/{id}"
OPERATIONS = [
    Operation("GET", "/v1/server", server, None, records.Server),
    Operation("POST", "/v1/translate", translate, records.TranslateRequest, records.Translations),
    Operation("POST", "/v1/search", search, records.SearchRequest, records.Pairs),
    Operation("POST", "/v1/concordance", concordance, records.ConcordanceRequest, records.Pairs),
    Operation("POST", "/v1/analyse", analyse, records.AnalyseRequest, records.Analysis),
    Operation("POST", "/v1/check", check, records.CheckRequest, records.Findings),
    Operation("POST", PAIRS, add, records.NewPair, records.Stored, 201),
    Operation("GET", PAIR, read, None, records.Pair),
    Operation("PATCH", PAIR, update, records.ChangedPair, records.Stored),
    Operation("DELETE", PAIR, delete, None, records.Stored),
    Operation("POST", "/v1/files", open_file, bytes, records.File, query=("name", "source", "target")),
    Operation("POST", "/v1/files/write", write_file, records.WriteRequest, bytes),
]


def endpoint(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers the requests of an operation."""

    async def answer(request: Request) -> Response:
        service: Service = request.app.state.service
        client = service.client(request)
        body = None
        if operation.body is not None:
            kind = BYTES if operation.body is bytes else JSON
            if media_type(request) != kind:
                raise Refusal(415, f"Send the request as {kind}.")
            raw = await read_body(request, 2 * MOST_BYTES if operation.body is records.WriteRequest else MOST_BYTES)
            try:
                body = raw if operation.body is bytes else msgspec.json.decode(raw, type=operation.body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise Refusal(400, f"The request is wrong: {error}.") from None
        result = await operation.function(Call(request, service, client, body))
        if isinstance(result, bytes):
            return Response(result, operation.status, {"Content-Disposition": "attachment"}, media_type=BYTES)
        return Response(msgspec.json.encode(result), operation.status, media_type=JSON)

    return answer


ROUTES = [
    Route(operation.path.replace("{id}", "{id:int}"), endpoint(operation), methods=[operation.method])
    for operation in OPERATIONS
]
