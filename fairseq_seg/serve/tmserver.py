"""The API of the Translate Toolkit's tmserver and of amaGama, as Weblate and Virtaal use it: matches of the memory."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairseq_seg.documents.segment import percent
from fairseq_seg.serve.parameters import parse_form, parse_json, read_body, text_of
from fairseq_seg.serve.refusal import Refusal
from fairseq_seg.serve.service import Service

MOST_MATCHES, LEAST_QUALITY, MOST_UNITS = 5, 30, 1000


async def languages(request: Request) -> Response:
    """List the languages of all directions."""
    service: Service = request.app.state.service
    targets = dict.fromkeys(target for _, target in service.directions)
    return JSONResponse({"sourceLanguages": service.sources, "targetLanguages": list(targets)})


async def find(request: Request) -> Response:
    """Return the pairs most similar to a text, with their quality in per cent; none for unknown languages."""
    service: Service = request.app.state.service
    client = service.client(request)
    try:
        direction = service.direction(request.path_params["source"], request.path_params["target"])
    except Refusal:
        return JSONResponse([])
    values = parse_form(request.scope["query_string"])
    least = number(values, "min_similarity", LEAST_QUALITY, 0, 100)
    most = number(values, "max_candidates", MOST_MATCHES, 1, 100)
    found = await direction.search(request.path_params["text"], client, most)
    matches = []
    for pair in found:
        if percent(pair.score) >= least:
            match = {"source": pair.source, "target": pair.target}
            matches.append(match | {"quality": percent(pair.score), "rank": round(pair.score * 100, 2)})
    return JSONResponse(matches)


def number(values: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    """Return a number among the parameters."""
    text = text_of(values, name, str(default))
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise Refusal(400, f"{name} is not a number from {least} to {most}.")
    return int(text)


async def add(request: Request) -> Response:
    """Add a pair, or with /store a list of pairs, which Virtaal sends when it saves a file."""
    service: Service = request.app.state.service
    client = service.client(request)
    direction = service.direction(request.path_params["source"], request.path_params["target"])
    units = parse_json(await read_body(request))
    units = units if isinstance(units, list) else [units]
    if len(units) > MOST_UNITS:
        raise Refusal(413, f"{len(units):,} pairs are too many: send at most {MOST_UNITS:,} per request.")
    if not all(isinstance(unit, dict) and all(isinstance(unit.get(side), str) for side in SIDES) for unit in units):
        raise Refusal(400, "A unit has texts called source and target.")
    pairs = [(unit["source"], unit["target"]) for unit in units if unit["target"].strip()]
    if len(pairs) == 1:
        await service.add(request, direction, client, *pairs[0])
    elif pairs:
        await service.add_many(request, direction, client, pairs)
    return JSONResponse({"success": True}, 201)


SIDES = ("source", "target")
UNIT, STORE = "/tmserver/{source}/{target}/unit/{text:path}", "/tmserver/{source}/{target}/store/{name:path}"
ROUTES = [
    Route("/tmserver/languages/", languages),
    Route(UNIT, find, methods=["GET"]),
    Route(UNIT, add, methods=["PUT", "POST"]),
    Route(STORE, add, methods=["PUT", "POST"]),
]
