"""The OpenAPI document of our own API, and a page that shows it."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

import fairseq_seg
from fairseq_seg.serve.parameters import JSON
from fairseq_seg.serve.records import Error
from fairseq_seg.serve.v1 import BYTES, OPERATIONS, Operation

REFUSALS = {
    400: "The request is wrong.",
    403: "The key is wrong, or the client may not do this.",
    404: "There is no such memory or pair.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    429: "Too many requests: wait as long as Retry-After says.",
    500: "A text could not be translated.",
    503: "The server is busy or stopping: wait as long as Retry-After says.",
}


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    kinds = dict.fromkeys(kind for item in OPERATIONS for kind in (item.body, item.result))
    types = [kind for kind in kinds if kind not in (None, bytes)] + [Error]
    references, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    names = dict(zip(types, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for item in OPERATIONS:
        paths.setdefault(item.path, {})[item.method.lower()] = describe(item, names)
    return {
        "openapi": "3.1.0",
        "info": {"title": "seg-serve", "version": fairseq_seg.__version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def describe(item: Operation, names: dict[type, dict[str, Any]]) -> dict[str, Any]:
    """Return the document of one operation."""

    def content(kind: type) -> dict[str, Any]:
        return {BYTES: {"schema": {}}} if kind is bytes else {JSON: {"schema": names[kind]}}

    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if name == "id" else "string"}}
        for name in re.findall(r"{(\w+)}", item.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": name == "name", "schema": {"type": "string"}} for name in item.query
    ]
    responses: dict[str, Any] = {str(item.status): {"description": "Done", "content": content(item.result)}}
    responses |= {str(status): {"description": why, "content": content(Error)} for status, why in REFUSALS.items()}
    found: dict[str, Any] = {"operationId": item.function.__name__, "summary": (item.function.__doc__ or "").strip()}
    found |= {"parameters": parameters, "responses": responses}
    if item.body is not None:
        found["requestBody"] = {"required": True, "content": content(item.body)}
    return found


async def openapi(request: Request) -> Response:
    """Return the document."""
    return JSONResponse(document())


async def page(request: Request) -> Response:
    """Show the document."""
    return HTMLResponse(render())


@cache
def render() -> str:
    """Return the page: the operations with the fields of their requests and answers. It needs no script."""
    schemas, sections = document()["components"]["schemas"], []
    for path, methods in document()["paths"].items():
        for method, item in methods.items():
            parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(item['summary'])}</p>"]
            if "requestBody" in item:
                parts.append("<h3>Request</h3>" + fields(item["requestBody"], schemas))
            parts.append("<h3>Answer</h3>" + fields(next(iter(item["responses"].values())), schemas))
            sections.append(f"<section class=card>{''.join(parts)}</section>")
    refusals = "".join(f"<tr><th scope=row>{code}</th><td>{escape(why)}</td></tr>" for code, why in REFUSALS.items())
    return f"""<!doctype html><html lang=en><head><meta charset=utf-8><title>seg-serve: API</title>
<meta name=viewport content="width=device-width, initial-scale=1"><link rel=icon href="static/icon.svg">
<link rel=stylesheet href="static/style.css">
</head><body class=docs><header><h1>seg-serve: API</h1></header><main>
<p>Requests and answers are JSON. A key goes into the header <code>Authorization: Bearer KEY</code>. The same as a
document for programs: <a href="v1/openapi.json">OpenAPI</a>. LibreTranslate's API is in <a href="spec">/spec</a>.</p>
{"".join(sections)}<section class=card><h2>Errors</h2><p>An error is <code>{{"error": "one sentence"}}</code>.</p>
<table>{refusals}</table></section></main></body></html>
"""


def fields(body: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return the fields of a request or answer as a table."""
    if JSON not in body["content"]:
        return "<p class=quiet>The bytes of the file.</p>"
    schema = schemas[body["content"][JSON]["schema"]["$ref"].rpartition("/")[2]]
    rows = []
    for name, field in schema["properties"].items():
        kind = kind_of(field)
        must = "required" if name in schema.get("required", ()) else f"default {json.dumps(field.get('default'))}"
        cells = (f"<code>{escape(kind)}</code>", escape(must), escape(field.get("description", "")))
        rows.append(f"<tr><th scope=row><code>{name}</code></th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return f"<p class=quiet>{escape(schema.get('description', ''))}</p><table>{''.join(rows)}</table>"


def kind_of(field: dict[str, Any]) -> str:
    """Return the type of a field for people."""
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(kind_of(kind) for kind in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {kind_of(field.get('items', {}))}"
    return str(field.get("type", "any"))


ROUTES = [Route("/v1/openapi.json", openapi), Route("/docs", page)]
