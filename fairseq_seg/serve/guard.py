"""What every request passes: hosts, browsers and limits before the answer; headers, log and metrics after it.

A page of another site must not write to a memory, or read one, through its visitor's browser. Browsers say where a
request comes from (`Sec-Fetch-Site`, `Origin`), and there is no CORS. Against a name that an attacker points at this
machine (DNS rebinding) only known names are answered.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairseq_seg.serve.metrics import Metrics
from fairseq_seg.serve.refusal import Refusal

logger = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
SAFE = ("GET", "HEAD", "OPTIONS")
MOST_CLIENTS = 10_000  # whose rates are remembered


class Guard:
    """Wraps the application.

    Args:
        hosts: names under which the server answers; `*` stands for all.
        rate: requests per minute of one address, 0 for any number.
        answer: turns a refusal into a response in the protocol's own form.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        rate: int,
        metrics: Metrics,
        answer: Callable[[Request, Refusal], Response],
    ):
        self._app, self._hosts, self._metrics, self._answer = app, frozenset(hosts), metrics, answer
        self._rates = Rates(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(item for item in HEADERS if item[0] not in present)]
            await send(message)

        request = Request(scope, receive)
        scope.setdefault("state", {})
        try:
            try:
                self._check(request)
            except Refusal as refusal:
                await self._answer(request, refusal)(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _check(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if "*" not in self._hosts and hostname(host) not in self._hosts:
            raise Refusal(421, f"This server does not answer to the name {host!r}: start it with --allow-host.")
        site, navigates = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode") == "navigate"
        if site in ("cross-site", "same-site") and not (navigates and request.method in SAFE):
            raise Refusal(403, "Pages of other sites may not use this server.")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refusal(403, "Pages of other sites may not use this server.")
        if request.url.path not in ("/health", "/metrics") and request.client is not None:
            self._rates.check(request.client.host)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request: by its route, because a path or query may hold texts and keys."""
        state = scope.get("state", {})
        route = getattr(scope.get("route"), "path", None) or state.get("route", "other")
        self._metrics.requests.labels(route, status).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        line = {"event": "request", "method": scope["method"], "route": route, "status": status}
        line |= {"ms": round(seconds * 1000, 1), "client": state.get("client", "")}
        line |= {name: state[name] for name in ("texts", "memory") if name in state}
        logger.info(json.dumps(line))


class Rates:
    """How many requests the addresses may still send: a bucket each, which fills up over a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic):
        self._most, self._clock = per_minute, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when

    def check(self, address: str) -> None:
        """Count a request; refuse one too many."""
        if not self._most:
            return
        now = self._clock()
        left, then = self._buckets.pop(address, (float(self._most), now))
        left = min(self._most, left + (now - then) * self._most / 60)
        self._buckets[address] = (max(left - 1, 0) if left >= 1 else left, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = int((1 - left) * 60 / self._most) + 1
            raise Refusal(429, f"Slowdown: {self._most} per 1 minute", retry_after=wait)


def hostname(host: str) -> str:
    """Return the name in a Host header, without the port, in small letters."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def known_hosts(host: str, allowed: Collection[str]) -> set[str]:
    """Return the names under which a server on an address answers."""
    names = {"localhost", "127.0.0.1", "::1", *(name.lower() for name in allowed)}
    try:
        is_any = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        is_any = False
    return names if is_any else names | {host.lower()}
