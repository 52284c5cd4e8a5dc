"""Hosts, browsers of other sites, and rates; languages and how requests are read."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse

from fairseq_seg.serve.guard import MOST_CLIENTS, Guard, Rates, known_hosts
from fairseq_seg.serve.languages import base_code, find_code, name_of_language
from fairseq_seg.serve.metrics import Metrics
from fairseq_seg.serve.parameters import parameters, parse_form
from fairseq_seg.serve.refusal import Refusal


def send(guard: Guard, method: str = "POST", **headers: str) -> tuple[int, dict[str, str]]:
    """Send a request through a guard, and return status and headers."""
    found = {"host": "localhost:5000"} | {name.replace("_", "-"): value for name, value in headers.items()}
    raw = [(name.encode(), value.encode()) for name, value in found.items()]
    scope = {"type": "http", "method": method, "path": "/suggest", "query_string": b"", "headers": raw}
    scope |= {"client": ("10.0.0.1", 1), "server": ("localhost", 5000), "scheme": "http", "root_path": ""}
    messages = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def collect(message):
        messages.append(message)

    asyncio.run(guard(scope, receive, collect))
    return messages[0]["status"], {name.decode(): value.decode() for name, value in messages[0]["headers"]}


def make_guard(hosts=("localhost", "127.0.0.1"), rate: int = 0) -> Guard:
    async def app(scope, receive, send):
        await JSONResponse({})(scope, receive, send)

    return Guard(app, hosts, rate, Metrics(), lambda request, refusal: JSONResponse({}, refusal.status))


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {}),
        (200, {"origin": "http://localhost:5000", "sec_fetch_site": "same-origin"}),
        (200, {"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}),
        (403, {"origin": "http://evil.example"}),
        (403, {"origin": "http://localhost:8000"}),  # another program on this machine
        (403, {"origin": "null"}),  # a sandboxed frame, or a file
        (403, {"sec_fetch_site": "cross-site"}),
        (403, {"sec_fetch_site": "same-site"}),
        (403, {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}),  # a form that is sent by POST
        (421, {"host": "evil.example:5000", "origin": "http://evil.example:5000"}),  # DNS rebinding
        (421, {"host": "evil.example"}),
        (421, {"host": ""}),
    ],
)
def test_pages_of_other_sites_cannot_write(status: int, headers: dict[str, str]):
    assert send(make_guard(), **headers)[0] == status


def test_a_link_from_another_site_may_be_followed():
    headers = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert send(make_guard(), "GET", **headers)[0] == 200
    assert send(make_guard(), "GET", sec_fetch_site="cross-site")[0] == 403  # an image, a script


def test_every_answer_has_the_policy_and_no_cors():
    for headers in ({}, {"origin": "http://evil.example"}):
        _, found = send(make_guard(), **headers)
        assert "default-src 'none'" in found["content-security-policy"]
        assert "unsafe" not in found["content-security-policy"]
        assert found["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control") for name in found)


def test_names_of_the_server():
    assert known_hosts("127.0.0.1", ["TM.example"]) == {"localhost", "127.0.0.1", "::1", "tm.example"}
    assert "10.1.2.3" in known_hosts("10.1.2.3", [])
    assert "0.0.0.0" not in known_hosts("0.0.0.0", [])
    assert send(make_guard(["*"]), host="anything")[0] == 200
    assert send(make_guard(["::1"]), host="[::1]:5000")[0] == 200


def test_rates_are_per_address_and_say_when_to_come_back():
    now = [0.0]
    rates = Rates(6, lambda: now[0])
    for _ in range(6):
        rates.check("a")
    with pytest.raises(Refusal) as refused:
        rates.check("a")
    assert (refused.value.status, refused.value.retry_after) == (429, 11)
    rates.check("b")
    now[0] += refused.value.retry_after
    rates.check("a")
    with pytest.raises(Refusal):
        rates.check("a")
    for number in range(MOST_CLIENTS + 10):
        rates.check(str(number))
    assert len(rates._buckets) == MOST_CLIENTS


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_nobody_gets_more_than_the_rate(pauses: list[int]):
    now, passed = [0.0], 0
    rates = Rates(10, lambda: now[0])
    for pause in pauses:
        now[0] += pause
        try:
            rates.check("a")
            passed += 1
        except Refusal:
            pass
    assert passed <= 10 + sum(pauses) / 6 + 1


@pytest.mark.parametrize(
    ("code", "known", "found"),
    [
        ("en", ["en"], "en"),
        ("EN", ["en"], "en"),
        ("eng", ["en"], "en"),
        ("en-GB", ["en"], "en"),
        ("en_us", ["en_GB", "en_US"], "en_US"),
        ("pt", ["pt_BR"], "pt_BR"),
        ("e", ["en"], None),
        ("", ["en"], None),
    ],
)
def test_codes_of_languages(code: str, known: list[str], found: str | None):
    assert find_code(code, known) == found


def test_names_of_languages():
    assert (name_of_language("nb"), name_of_language("pt_BR")) == ("Norwegian Bokmål", "Portuguese (BR)")
    assert name_of_language("xx") == "xx" and base_code("deu") == "de"


def read(body: bytes = b"", kind: str = "", query: bytes = b"") -> dict:
    headers = [(b"content-type", kind.encode())] if kind else []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": query, "headers": headers}
    return asyncio.run(parameters(Request(scope, receive)))


def test_four_encodings_say_the_same():
    values = {"q": "é & ü", "source": "en"}
    form = b"q=%C3%A9+%26+%C3%BC&source=en"
    assert read(json.dumps(values).encode(), "application/json; charset=utf-8") == values
    assert read(form, "application/x-www-form-urlencoded") == values
    assert read(b"", "", form) == values
    assert read(b'{"q": "a"}', "application/json", b"q=b&source=en") == {"q": "a", "source": "en"}
    assert parse_form(b"q=a&q=b") == {"q": ["a", "b"]}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"{", "application/json"),
        (400, b"[]", "application/json"),
        (400, b'{"q": "\xff"}', "application/json"),
        (400, b"[" * 100_000, "application/json"),
        (400, b"q=%ff", "application/x-www-form-urlencoded"),
        (400, b"\xff=1", "application/x-www-form-urlencoded"),
        (400, b"a=b&" * 30_000, "application/x-www-form-urlencoded"),
        (415, b"q=1", "text/plain"),
        (413, b"x" * (10 * 2**20 + 1), "application/json"),
    ],
)
def test_what_cannot_be_read_is_refused(status: int, body: bytes, kind: str):
    with pytest.raises(Refusal) as refused:
        read(body, kind)
    assert refused.value.status == status
