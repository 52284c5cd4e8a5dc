"""The application: all protocols on one port."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fairseq_seg.errors import SegError
from fairseq_seg.serve import apertium, libretranslate, openapi, tmserver, v1
from fairseq_seg.serve.guard import Guard
from fairseq_seg.serve.refusal import Refusal
from fairseq_seg.serve.service import Service

logger = logging.getLogger(__name__)

STATIC = Path(__file__).with_name("static")


def make_app(service: Service, hosts: Collection[str], rate: int = 0) -> Guard:
    """Return the application, which starts and closes the service."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.start()
        logger.info(json.dumps({"event": "ready", "directions": [f"{a}-{b}" for a, b in service.directions]}))
        yield
        await service.close()
        logger.info(json.dumps({"event": "stopped"}))

    routes = [
        Route("/health", health),
        Route("/metrics", metrics),
        *libretranslate.ROUTES,
        *apertium.ROUTES,
        *tmserver.ROUTES,
        *v1.ROUTES,
        *openapi.ROUTES,
        Route("/", workbench),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            Refusal: on_refusal,
            SegError: on_seg_error,
            HTTPException: on_http_error,
            Exception: on_bug,
        },
    )
    app.state.service = service
    return Guard(app, hosts, rate, service.metrics, answer)


async def health(request: Request) -> Response:
    """Tell that the server is up."""
    return JSONResponse({"status": "ok"})


async def workbench(request: Request) -> Response:
    """Show the workbench."""
    return FileResponse(STATIC / "index.html")


async def metrics(request: Request) -> Response:
    """Return the figures for Prometheus."""
    service: Service = request.app.state.service
    return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


def answer(request: Request, refusal: Refusal) -> Response:
    """Return an error in the form of the request's protocol."""
    is_apertium = getattr(request.state, "protocol", "") == "apertium" or "langpair" in request.query_params
    body = apertium.error_form(refusal) if is_apertium else {"error": refusal.message}
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    return JSONResponse(body, refusal.status, headers)


async def on_refusal(request: Request, error: Exception) -> Response:
    """Answer a request that was refused."""
    assert isinstance(error, Refusal)
    return answer(request, error)


async def on_seg_error(request: Request, error: Exception) -> Response:
    """Answer a request that something here is wrong for, a damaged memory for example."""
    logger.error(json.dumps({"event": "error", "error": str(error)}))
    return answer(request, Refusal(500, "The server has a problem with a memory or model: its log says which."))


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer a request for a path that does not exist, or with a wrong method."""
    assert isinstance(error, HTTPException)
    return answer(request, Refusal(error.status_code, f"{error.detail}."))


async def on_bug(request: Request, error: Exception) -> Response:
    """Answer a request that failed; Starlette logs the traceback."""
    return answer(request, Refusal(500, "This request could not be answered: the server's log says why."))
