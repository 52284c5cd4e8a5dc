"""Apertium-APy's API, as OmegaT and Weblate use it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairseq_seg.serve.languages import base_code
from fairseq_seg.serve.parameters import text_of
from fairseq_seg.serve.refusal import Refusal
from fairseq_seg.serve.service import Service, is_probe


async def answer(request: Request, values: dict[str, Any]) -> Response:
    """Translate `q` as `langpair` (en|fr) says."""
    request.state.protocol = "apertium"
    service: Service = request.app.state.service
    client = service.client(request, text_of(values, "key", "") or text_of(values, "api_key", ""))
    source, bar, target = text_of(values, "langpair").partition("|")
    if not bar:
        raise Refusal(400, "That pair is invalid, use e.g. eng|spa")
    text = text_of(values, "q")
    if is_probe([text], source, target) and not any(base_code(to) == "de" for _, to in service.directions):
        translated = text
    else:
        direction = service.direction(source, target)
        markup = text_of(values, "format", "txt").startswith("html")
        [translated] = await service.translate_texts(request, direction, [text], client, markup)
    return JSONResponse(success({"translatedText": translated}))


async def list_pairs(request: Request) -> Response:
    """List the directions."""
    service: Service = request.app.state.service
    pairs = [{"sourceLanguage": source, "targetLanguage": target} for source, target in service.directions]
    return JSONResponse(success(pairs))


def success(data: Any) -> dict[str, Any]:
    """Return an answer in Apertium's form."""
    return {"responseData": data, "responseDetails": None, "responseStatus": 200}


def error_form(refusal: Refusal) -> dict[str, Any]:
    """Return an error in Apertium's form."""
    phrase = HTTPStatus(refusal.status).phrase
    return {"status": "error", "code": refusal.status, "message": phrase, "explanation": refusal.message}


ROUTES = [Route("/listPairs", list_pairs), Route("/listpairs", list_pairs)]
