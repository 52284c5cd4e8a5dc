"""Read the parameters of a request, however a client sends them: in the URL, as a form, or as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from fairseq_seg.serve.refusal import Refusal

MOST_BYTES = 10 * 2**20
BODY_SECONDS = 30
FORM, JSON = "application/x-www-form-urlencoded", "application/json"


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return the body; refuse one that is too long, or that does not arrive."""
    too_long = Refusal(413, f"The request is too large: send at most {most:,} bytes.")
    if int(request.headers.get("content-length") or 0) > most:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_long
    except TimeoutError:
        raise Refusal(408, f"The request did not arrive within {BODY_SECONDS} seconds.") from None
    except ClientDisconnect:
        raise Refusal(400, "The request ended early.") from None
    return bytes(body)


def media_type(request: Request) -> str:
    """Return the type of the body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_json(body: bytes) -> Any:
    """Parse JSON."""
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is not valid JSON in UTF-8.") from None


def parse_form(text: bytes) -> dict[str, Any]:
    """Parse a query string or a form; a name that comes several times stands for a list."""
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20_000)
    except ValueError:  # a UnicodeError, too
        raise Refusal(400, "The parameters are not percent-encoded UTF-8, or they are too many.") from None
    for name, value in pairs:
        found[name] = value if name not in found else [*aslist(found[name]), value]
    return found


def aslist(value: Any) -> list[Any]:
    """Return a value as a list."""
    return value if isinstance(value, list) else [value]


async def parameters(request: Request) -> dict[str, Any]:
    """Return the parameters in the URL and in the body, which has the last word."""
    found = parse_form(request.scope["query_string"])
    body = await read_body(request)
    if not body:
        return found
    kind = media_type(request)
    if kind == JSON or kind.endswith("+json"):
        values = parse_json(body)
        if not isinstance(values, dict):
            raise Refusal(400, "The request is not a JSON object.")
        return found | values
    if kind in (FORM, ""):
        return found | parse_form(body)
    raise Refusal(415, f"The request is of type {kind or 'none'}: send {JSON} or {FORM}.")


async def upload(request: Request) -> tuple[dict[str, Any], str, bytes]:
    """Return the fields of a form with a file, and the name and the content of `file`."""
    body = await read_body(request)

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        form = await MultiPartParser(request.headers, stream(), max_files=1, max_fields=20).parse()
    except (MultiPartException, KeyError, ValueError):
        raise Refusal(400, "The request is not a form with a file (multipart/form-data).") from None
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise Refusal(400, "Invalid request: missing file parameter")
    content = await file.read()
    await form.close()
    return {name: value for name, value in form.items() if name != "file"}, file.filename or "", content


def text_of(values: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a parameter that is a text; without a default it must be there."""
    value = values.get(name, default)
    if value is None:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise Refusal(400, f"Invalid request: {name} must be a text")
    return value


def texts_of(values: dict[str, Any], name: str) -> tuple[list[str], bool]:
    """Return a parameter that is a text or a list of texts, and whether it was a list."""
    value = values.get(name)
    if value is None:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    texts = aslist(value)
    if not all(isinstance(text, str) for text in texts):
        raise Refusal(400, f"Invalid request: {name} must be a text or a list of texts")
    return texts, isinstance(value, list)
