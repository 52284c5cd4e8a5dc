"""LibreTranslate's API, as its clients use it (Weblate, OmegaT's plugin, libretranslatepy, deep-translator ...)."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairseq_seg.documents.formats import ENDINGS
from fairseq_seg.documents.segment import Edit
from fairseq_seg.serve import apertium
from fairseq_seg.serve.files import read_segments, with_codes, write_segments
from fairseq_seg.serve.languages import base_code, find_code, name_of_language
from fairseq_seg.serve.parameters import parameters, text_of, texts_of, upload
from fairseq_seg.serve.refusal import Refusal
from fairseq_seg.serve.service import AUTO, MOST_CHARACTERS, Service, is_probe


async def translate(request: Request) -> Response:
    """Translate a text or a list; `langpair` marks a request in Apertium's form, which has the same path."""
    service: Service = request.app.state.service
    values = await parameters(request)
    if "langpair" in values:
        return await apertium.answer(request, values)
    client = service.client(request, text_of(values, "api_key", ""))
    texts, is_list = texts_of(values, "q")
    source, target = text_of(values, "source"), text_of(values, "target")
    form = text_of(values, "format", "text") or "text"
    if form not in ("text", "html"):
        raise Refusal(400, f"{form} format is not supported")
    detected = None
    if source == AUTO:
        wanted = find_code(target, service.languages)
        sources = [code for code, to in service.directions if to == wanted] or service.sources
        found = [service.detector.detect(text, sources)[0] for text in texts]
        detected = [{"language": code, "confidence": confidence} for code, confidence in found]
        source = found[0][0] if found else sources[0]
        if any(code != source for code, _ in found):
            raise Refusal(400, "The texts are in several languages: send one request per language.")
    if is_probe(texts, source, target) and not any(base_code(to) == "de" for _, to in service.directions):
        translated = texts
    elif find_code(source, service.languages) == find_code(target, service.languages) is not None:
        translated = texts
    else:
        direction = service.direction(source, target)
        translated = await service.translate_texts(request, direction, texts, client, form == "html")
    body: dict[str, Any] = {"translatedText": translated if is_list else translated[0]}
    if detected is not None:
        body["detectedLanguage"] = detected if is_list else detected[0]
    if str(values.get("alternatives") or "0") != "0":  # one translation is all that there is
        body["alternatives"] = [[] for _ in texts] if is_list else []
    return JSONResponse(body)


async def languages(request: Request) -> Response:
    """List languages; like LibreTranslate, each is translated to itself."""
    service: Service = request.app.state.service
    return JSONResponse(
        [
            {"code": code, "name": name_of_language(code), "targets": [*service.targets(code), code]}
            for code in service.languages
        ]
    )


async def detect(request: Request) -> Response:
    """Guess the language of a text."""
    service: Service = request.app.state.service
    values = await parameters(request)
    service.client(request, text_of(values, "api_key", ""))
    found = service.detector.detect(text_of(values, "q"))
    return JSONResponse([{"confidence": confidence, "language": code} for code, confidence in found if confidence])


async def suggest(request: Request) -> Response:
    """Add a better translation to the client's memory; the next sentence of any client may use it."""
    service: Service = request.app.state.service
    values = await parameters(request)
    client = service.client(request, text_of(values, "api_key", ""))
    source, target = text_of(values, "q"), text_of(values, "s")
    direction = service.direction(text_of(values, "source"), text_of(values, "target"))
    await service.add(request, direction, client, source, target)
    return JSONResponse({"success": True})


async def translate_file(request: Request) -> Response:
    """Translate what is untranslated in a file, and return where to fetch it."""
    service: Service = request.app.state.service
    values, name, content = await upload(request)
    client = service.client(request, text_of(values, "api_key", ""))
    source = text_of(values, "source")
    direction = service.direction(None if source == AUTO else source, text_of(values, "target"))
    langs = direction.source, direction.target
    _, segments = await asyncio.to_thread(read_segments, name, content, langs)
    open_ = {
        number: segment
        for number, segment in enumerate(segments)
        if segment.state == "new" and not segment.locked and segment.source.strip()
    }
    translated: dict[str, str] = {}
    plain = list(dict.fromkeys(direction.bare(segment.source) for segment in open_.values()))
    for start in range(0, len(plain), FILE_CHUNK):
        chunk = plain[start : start + FILE_CHUNK]
        translated |= zip(chunk, await service.translate_texts(request, direction, chunk, client), strict=True)
    edits = {}
    for number, segment in open_.items():
        text = translated[direction.bare(segment.source)]
        edits[number] = Edit(with_codes(text, segment.source, segment.codes))
    result = await asyncio.to_thread(write_segments, name, content, langs, edits)
    token = service.results.put(name, result)
    return JSONResponse({"translatedFileUrl": f"{request.base_url}download_file/{token}"})


async def download_file(request: Request) -> Response:
    """Return a translated file."""
    service: Service = request.app.state.service
    name, content = service.results.get(request.path_params["token"])
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(content, headers=headers, media_type="application/octet-stream")


async def settings(request: Request) -> Response:
    """Tell a frontend what the server offers."""
    service: Service = request.app.state.service
    direction = next(iter(service.directions.values()))
    names = {"source": direction.source, "target": direction.target}
    return JSONResponse(
        {
            "apiKeys": service.keys.required,
            "keyRequired": service.keys.required,
            "charLimit": MOST_CHARACTERS,
            "frontendTimeout": 500,
            "suggestions": any(direction.memories for direction in service.directions.values()),
            "filesTranslation": True,
            "supportedFilesFormat": [f".{ending}" for ending in ENDINGS],
            "language": {side: {"code": code, "name": name_of_language(code)} for side, code in names.items()},
        }
    )


FILE_CHUNK = 50  # segments of a file that wait at once
TEXT = {"type": "string"}
ERROR = {"type": "object", "properties": {"error": TEXT}}
# Path, method, summary, parameters (a star marks one that must be there).
OPERATIONS = (
    ("/translate", "post", "Translate a text", "q* source* target* format alternatives api_key"),
    ("/detect", "post", "Guess the language of a text", "q* api_key"),
    ("/languages", "get", "List languages", ""),
    ("/translate_file", "post", "Translate a file", "file* source* target* api_key"),
    ("/suggest", "post", "Add a better translation to the memory", "q* s* source* target* api_key"),
    ("/frontend/settings", "get", "Settings for a frontend", ""),
    ("/health", "get", "Whether the server is up", ""),
)


async def spec(request: Request) -> Response:
    """Describe this API in the form in which LibreTranslate does; clients look for the title."""
    paths = {}
    for path, method, summary, names in OPERATIONS:
        fields = [
            {
                "name": name.rstrip("*"),
                "in": "formData",
                "type": "file" if name == "file*" else "string",
                "required": name.endswith("*"),
            }
            for name in names.split()
        ]
        answers = {"200": {"description": "Done"}, "400": {"description": "Invalid request", "schema": ERROR}}
        paths[path] = {method: {"summary": summary, "parameters": fields, "responses": answers}}
    info = {"title": "LibreTranslate", "version": "1.6.0", "description": "Spoken by seg-serve"}
    return JSONResponse({"swagger": "2.0", "info": info, "basePath": "/", "paths": paths})


ROUTES = [
    Route("/translate", translate, methods=["GET", "POST"]),
    Route("/languages", languages),
    Route("/detect", detect, methods=["GET", "POST"]),
    Route("/suggest", suggest, methods=["POST"]),
    Route("/translate_file", translate_file, methods=["POST"]),
    Route("/download_file/{token}", download_file),
    Route("/frontend/settings", settings),
    Route("/spec", spec),
]
