"""What the clients do when the network or the server fails. The other side is played, since faults must be exact."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from bursa.errors import ApiError, InputError, NetworkError
from bursa.sdk import AsyncClient, Client, Retries
from bursa.sdk.retries import retry_after_s
from bursa.wire import BidRequest, Done, KeyRequest, Problem, Scope

URL = "http://127.0.0.1:8000"
KEY = "bursa_17_" + "s" * 43
DONE = msgspec.json.encode(Done(seq=7))
BID = BidRequest(instrument="h100-sxm", gpus=1, hours=1, limit_price="2.00")
Step = httpx.Response | type[httpx.TransportError] | bytes


def refusal(status: int, code: str, **headers: str) -> httpx.Response:
    problem = Problem(type="urn:bursa:problem:x", title="No", status=status, code=code, detail="so", trace_id="t" * 32)
    return httpx.Response(status, content=msgspec.json.encode(problem), headers=headers)


class Play:
    """The other side: answers or fails step by step, and remembers what it was sent."""

    def __init__(self, *steps: Step) -> None:
        self.steps = iter(steps)
        self.sent: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        step = next(self.steps)
        if isinstance(step, type):
            raise step("played", request=request)
        return httpx.Response(200, content=step) if isinstance(step, bytes) else step

    @property
    def idempotency_keys(self) -> list[str | None]:
        return [request.headers.get("idempotency-key") for request in self.sent]


class Sync:
    """A `Client` that meets a play; its waits are remembered, not waited."""

    def __init__(self, play: Play, retries: Retries | None = None) -> None:
        self.waits: list[float] = []
        self.client = Client(URL, KEY, retries=retries, transport=httpx.MockTransport(play))
        self.client._sleep = self.waits.append  # type: ignore[assignment]

    def do(self, verb: str, *arguments: object, **named: object) -> object:
        with self.client:
            return getattr(self.client, verb)(*arguments, **named)

    def take(self, verb: str, count: int, *arguments: object) -> list[Any]:
        with self.client:
            messages: Iterator[Any] = getattr(self.client, verb)(*arguments)
            return [next(messages) for _ in range(count)]


class Async:
    """The same around an `AsyncClient`."""

    def __init__(self, play: Play, retries: Retries | None = None) -> None:
        self.waits: list[float] = []
        self.client = AsyncClient(URL, KEY, retries=retries, transport=httpx.MockTransport(play))
        self.client._sleep = self._sleep  # type: ignore[assignment]

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def do(self, verb: str, *arguments: object, **named: object) -> object:
        async def run() -> object:
            async with self.client:
                return await getattr(self.client, verb)(*arguments, **named)

        return asyncio.run(run())

    def take(self, verb: str, count: int, *arguments: object) -> list[Any]:
        async def run() -> list[Any]:
            async with self.client:
                messages = getattr(self.client, verb)(*arguments)
                taken = [await anext(messages) for _ in range(count)]
                await messages.aclose()
                return taken

        return asyncio.run(run())


Kind = Callable[..., Sync | Async]
both = pytest.mark.parametrize("kind", [Sync, Async])


@both
def test_repeats_carry_one_idempotency_key(kind: Kind) -> None:
    play = Play(httpx.ReadTimeout, refusal(503, "NOT_LEADER"), httpx.ConnectError, DONE)
    assert kind(play).do("open_book", "h100-sxm") == Done(seq=7)
    assert len(play.sent) == 4
    assert len(set(play.idempotency_keys)) == 1
    assert play.idempotency_keys[0]


@both
def test_a_given_idempotency_key_is_the_one_that_is_sent(kind: Kind) -> None:
    play = Play(refusal(503, "QUEUE_FULL"), DONE)
    kind(play).do("open_book", "h100-sxm", idempotency_key="monday-1")
    assert play.idempotency_keys == ["monday-1", "monday-1"]


@both
def test_two_requests_have_two_idempotency_keys(kind: Kind) -> None:
    first, second = Play(DONE), Play(DONE)
    kind(first).do("open_book", "h100-sxm")
    kind(second).do("open_book", "h100-sxm")
    assert first.idempotency_keys != second.idempotency_keys


@both
def test_what_only_looks_carries_none(kind: Kind) -> None:
    play = Play(httpx.Response(200, content=b'{"status":"ok","seq":1,"epoch":1}'))
    kind(play).do("health")
    assert play.idempotency_keys == [None]


@both
def test_the_wait_that_the_server_asks_for_is_kept(kind: Kind) -> None:
    made = kind(Play(refusal(429, "RATE_LIMITED", **{"retry-after": "7"}), DONE))
    made.do("open_book", "h100-sxm")
    assert len(made.waits) == 1
    assert 7 <= made.waits[0] < 8


@both
def test_a_wait_that_is_too_long_goes_to_the_caller(kind: Kind) -> None:
    play = Play(refusal(429, "RATE_LIMITED", **{"retry-after": "31"}))
    with pytest.raises(ApiError) as caught:
        kind(play).do("open_book", "h100-sxm")
    assert caught.value.retry_after_s == 31
    assert len(play.sent) == 1


@both
def test_attempts_are_limited(kind: Kind) -> None:
    play = Play(*[httpx.ConnectError] * 3)
    made = kind(play, Retries(attempts_max=3))
    with pytest.raises(NetworkError, match="is the exchange running"):
        made.do("open_book", "h100-sxm")
    assert len(play.sent) == 3
    assert len(made.waits) == 2


@both
def test_an_unknown_outcome_says_how_to_find_out(kind: Kind) -> None:
    play = Play(httpx.ReadTimeout)
    with pytest.raises(NetworkError) as caught:
        kind(play, Retries(attempts_max=1)).do("open_book", "h100-sxm", idempotency_key="monday-2")
    assert "idempotency_key='monday-2'" in str(caught.value)


@both
@pytest.mark.parametrize(("status", "code"), [(402, "INSUFFICIENT_FUNDS"), (409, "BOOK_HALTED"), (500, "INTERNAL")])
def test_a_refusal_or_a_bug_is_not_repeated(kind: Kind, status: int, code: str) -> None:
    play = Play(refusal(status, code))
    with pytest.raises(ApiError) as caught:
        kind(play).do("place_bid", BID)
    assert (caught.value.status, caught.value.problem_code) == (status, code)
    assert caught.value.trace_id == "t" * 32
    assert len(play.sent) == 1


REQUEST = KeyRequest(name="x", scopes=[Scope.READ])


@both
def test_a_key_is_not_made_twice(kind: Kind) -> None:
    """The answer holds the only copy of the secret: a repeat would leave a key behind that nobody has."""
    for fault in (httpx.ReadTimeout, httpx.RemoteProtocolError):
        play = Play(fault)
        with pytest.raises(NetworkError, match="whether it took effect is unknown"):
            kind(play).do("create_key", REQUEST)
        assert len(play.sent) == 1
    play = Play(refusal(502, "X"))
    with pytest.raises(ApiError):
        kind(play).do("create_key", REQUEST)


@both
def test_a_key_is_asked_for_again_where_none_can_have_been_made(kind: Kind) -> None:
    play = Play(httpx.ConnectError, refusal(503, "UNAVAILABLE"), refusal(403, "FORBIDDEN"))
    with pytest.raises(ApiError) as caught:
        kind(play).do("create_key", REQUEST)
    assert caught.value.problem_code == "FORBIDDEN"
    assert len(play.sent) == 3


@both
@pytest.mark.parametrize("content", [b"<html>", b'{"seq":"seven"}', b""])
def test_an_answer_of_something_else_is_told_as_such(kind: Kind, content: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        kind(Play(httpx.Response(200, content=content))).do("open_book", "h100-sxm")
    assert caught.value.problem_code == "UNREADABLE_ANSWER"


def test_a_fault_of_a_proxy_is_an_api_error() -> None:
    with pytest.raises(ApiError, match="Bad Gateway") as caught:
        Sync(Play(httpx.Response(502, content=b"<h1>down</h1>")), Retries(attempts_max=1)).do("health")
    assert caught.value.status == 502


def test_waits_grow_and_are_spread() -> None:
    retries = Retries(first_wait_s=1.0, wait_max_s=4.0)
    assert [retries.wait_s(attempt, None, 0.5) for attempt in (1, 2, 3, 4, 9)] == [1, 2, 4, 4, 4]
    assert [retries.wait_s(1, None, chance) for chance in (0.0, 0.75)] == [0.5, 1.25]
    assert retries.wait_s(1, 9.0, 0.0) == 9


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "0"}, 0),
        ({"retry-after": "12"}, 12),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT", "date": "Mon, 30 Nov 2026 12:00:00 GMT"}, 9),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:00 GMT", "date": "Mon, 30 Nov 2026 12:00:09 GMT"}, 0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(httpx.Response(429, headers=headers)) == seconds


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@both
def test_the_key_is_sent_and_never_shown(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    play = Play(httpx.ConnectError, refusal(500, "INTERNAL"))
    made = kind(play)
    with pytest.raises(ApiError) as caught:
        made.do("open_book", "h100-sxm")
    assert play.sent[0].headers["authorization"] == f"Bearer {KEY}"
    told = f"{made.client!r} {made.client} {caught.value!r} {caught.value} {vars(caught.value)} {caplog.text}"
    assert "s" * 43 not in told


@pytest.mark.parametrize("key", ["bursa_1_x\r\nHost: evil", "schlüssel", "x" * 201, "a b"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(InputError) as caught:
        Client(URL, key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://x", "http://", "http://user:secret@x", "http://x?a=1", "http+unix://relative"]
)
def test_a_url_of_no_exchange_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="url"):
        Client(url)


@pytest.mark.parametrize("key", ["", "x" * 65, "a b", "ü", "a\n"])
def test_an_idempotency_key_that_cannot_be_sent_is_refused(key: str) -> None:
    with pytest.raises(InputError, match="idempotency_key"):
        Sync(Play()).do("open_book", "h100-sxm", idempotency_key=key)


@pytest.mark.parametrize("order", ["", ".", ".."])
def test_an_id_that_would_change_the_path_is_refused(order: str) -> None:
    with pytest.raises(InputError, match="order"):
        Sync(Play()).do("show_order", order)


def test_an_id_stays_one_segment() -> None:
    play = Play(refusal(404, "NOT_FOUND"))
    with pytest.raises(ApiError):
        Sync(play).do("show_order", "../admin/status?x=1#y")
    assert play.sent[0].url.raw_path == b"/v1/orders/..%2Fadmin%2Fstatus%3Fx%3D1%23y"
