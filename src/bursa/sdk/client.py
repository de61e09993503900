"""The two clients: the same verbs, one that waits and one for event loops.

They hold the connection and the key and do the I/O; what to send, when to repeat and what an answer means is decided in
`call`, `retries` and `sse`. The key is in no repr, no error and no log line.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Final, Self, TypeVar, cast
from urllib.parse import urlsplit

import httpx

from bursa import __version__
from bursa.errors import ApiError, InputError
from bursa.sdk.call import Call, Page, check_url
from bursa.sdk.retries import RETRIED_STATUSES, Met, Retries, Send, Wait, converse, read_problem, retry_after_s
from bursa.sdk.sse import StreamReader
from bursa.sdk.verbs import Verbs

T = TypeVar("T")

#: Longest wait for a connection, in seconds.
CONNECT_TIMEOUT_S: Final = 5.0
#: Longest silence of a stream, in seconds: three heartbeats of the API.
STREAM_SILENCE_S: Final = 45.0
#: Longest key that is sent, in characters.
KEY_CHARS_MAX: Final = 200
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_CHANCES: Final = 1 << 20


class Client(Verbs):
    """A client of one exchange that waits for each answer; safe to share between threads.

    ``url`` is http, https or ``http+unix:///path`` of a socket; ``key`` is absent for what everybody may see.
    ``timeout_s`` is the longest silence while an answer is awaited, in seconds. Verbs raise ApiError (with
    ``problem_code`` and ``status``), NetworkError (no answer within `Retries`) and InputError (cannot be sent).

    >>> with Client(url, key) as mine:
    ...     mine.show_ticker("h100-sxm").instrument
    'h100-sxm'
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        base, socket_path = check_url(url)
        if transport is None and socket_path is not None:
            transport = httpx.HTTPTransport(uds=socket_path)
        self.url = url
        self.retries = retries or Retries()
        self._sleep = time.sleep
        self._http = httpx.Client(
            base_url=base,
            headers=_standing_headers(key),
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            transport=transport,
            trust_env=_may_use_proxy(base),
            verify=_may_use_tls(base),
        )

    def send(self, call: Call[T]) -> T:
        """Send a call and return its answer, repeating it as `Retries` allows."""
        steps = converse(call, self.retries, _chance)
        step = next(steps)
        while True:
            met: Met = None
            match step:
                case Send(call=sent):
                    try:
                        met = self._http.request(sent.method, sent.target, content=sent.content, headers=sent.headers)
                    except httpx.TransportError as fault:
                        met = fault
                case Wait(seconds=seconds):
                    self._sleep(seconds)
            try:
                step = steps.send(met)
            except StopIteration as done:
                return cast("T", done.value)

    def pages(self, call: Call[Page[T]]) -> Iterator[T]:
        """Yield the items of a list's pages, asking for the next page when it is needed."""
        while True:
            page = self.send(call)
            yield from page.items
            if page.next is None:
                return
            call = call.with_query(cursor=page.next)

    def stream(self, call: Call[T]) -> Iterator[T]:
        """Yield the messages of a stream; a broken connection is opened again where it broke."""
        reader = StreamReader(call, self.retries)
        while True:
            asked_s: float | None = None
            fault: object = "the stream ended"
            now = reader.connect()
            try:
                with self._http.stream("GET", now.target, headers=now.headers, timeout=_STREAM_TIMEOUT) as response:
                    if response.is_success:
                        for chunk in response.iter_raw():
                            yield from reader.feed(chunk)
                    else:
                        response.read()
                        fault, asked_s = _read_refusal(now, response)
            except httpx.TransportError as broken:
                fault = broken
            self._sleep(reader.wait_s(fault, _chance(), asked_s))

    def close(self) -> None:
        """Close the connections; the client cannot be used after."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return the URL, and only whether there is a key."""
        return f"Client({self.url!r}, has_key={'authorization' in self._http.headers})"


class AsyncClient(Verbs):
    """The same for event loops: each verb is awaited, lists and streams are walked with ``async for``.

    >>> async def look() -> str:
    ...     async with AsyncClient(url, key) as mine:
    ...         return (await mine.show_ticker("h100-sxm")).instrument
    >>> asyncio.run(look())
    'h100-sxm'
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        base, socket_path = check_url(url)
        if transport is None and socket_path is not None:
            transport = httpx.AsyncHTTPTransport(uds=socket_path)
        self.url = url
        self.retries = retries or Retries()
        self._sleep = asyncio.sleep
        self._http = httpx.AsyncClient(
            base_url=base,
            headers=_standing_headers(key),
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            transport=transport,
            trust_env=_may_use_proxy(base),
            verify=_may_use_tls(base),
        )

    async def send(self, call: Call[T]) -> T:
        """Send a call and return its answer, repeating it as `Retries` allows."""
        steps = converse(call, self.retries, _chance)
        step = next(steps)
        while True:
            met: Met = None
            match step:
                case Send(call=sent):
                    try:
                        met = await self._http.request(
                            sent.method, sent.target, content=sent.content, headers=sent.headers
                        )
                    except httpx.TransportError as fault:
                        met = fault
                case Wait(seconds=seconds):
                    await self._sleep(seconds)
            try:
                step = steps.send(met)
            except StopIteration as done:
                return cast("T", done.value)

    async def pages(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Yield the items of a list's pages, asking for the next page when it is needed."""
        while True:
            page = await self.send(call)
            for item in page.items:
                yield item
            if page.next is None:
                return
            call = call.with_query(cursor=page.next)

    async def stream(self, call: Call[T]) -> AsyncIterator[T]:
        """Yield the messages of a stream; a broken connection is opened again where it broke."""
        reader = StreamReader(call, self.retries)
        while True:
            asked_s: float | None = None
            fault: object = "the stream ended"
            now = reader.connect()
            try:
                async with self._http.stream(
                    "GET", now.target, headers=now.headers, timeout=_STREAM_TIMEOUT
                ) as response:
                    if response.is_success:
                        async for chunk in response.aiter_raw():
                            for message in reader.feed(chunk):
                                yield message
                    else:
                        await response.aread()
                        fault, asked_s = _read_refusal(now, response)
            except httpx.TransportError as broken:
                fault = broken
            await self._sleep(reader.wait_s(fault, _chance(), asked_s))

    async def close(self) -> None:
        """Close the connections; the client cannot be used after."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        """Return the URL, and only whether there is a key."""
        return f"AsyncClient({self.url!r}, has_key={'authorization' in self._http.headers})"


_STREAM_TIMEOUT: Final = httpx.Timeout(CONNECT_TIMEOUT_S, read=STREAM_SILENCE_S)


def _standing_headers(key: str | None) -> dict[str, str]:
    headers = {"User-Agent": f"bursa-sdk/{__version__}"}
    if key:
        # A line break would end the header; the value is a secret, so the error does not show it.
        if len(key) > KEY_CHARS_MAX or not all("!" <= letter <= "~" for letter in key):
            raise InputError("key", "(hidden)", "a key like bursa_17_…, as printed when it was made")
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _may_use_proxy(base: str) -> bool:
    # A proxy from the environment cannot reach this machine's own loopback, and should not see what is sent there.
    return urlsplit(base).hostname not in _LOOPBACK


def _may_use_tls(base: str) -> bool:
    # Reading the certificate authorities takes longer than a request; plain HTTP to this machine needs none.
    return urlsplit(base).scheme == "https" or _may_use_proxy(base)


def _read_refusal(call: Call[object], response: httpx.Response) -> tuple[ApiError, float | None]:
    """Return why a stream was refused and the wait asked for; raise where asking again cannot help."""
    problem = read_problem(call, response)
    if response.status_code not in RETRIED_STATUSES:
        raise problem
    return problem, retry_after_s(response)


def _chance() -> float:
    return secrets.randbelow(_CHANCES) / _CHANCES
