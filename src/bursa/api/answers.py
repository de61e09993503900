"""The head and the bytes of every answer: trace, rate limits, security headers, problems."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec

from bursa.api.limits import Buckets, Verdict
from bursa.api.problems import PROBLEM_MEDIA, ProblemError, problem_from
from bursa.ops import logs, metrics, trace

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_SERVER_FAULT: Final = 500
_UNAUTHORIZED: Final = 401
#: What whoever asks for readiness expects while the exchange starts or recovers: no news for the log.
_NOT_READY: Final = "NOT_READY"
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")

encode: Final = msgspec.json.Encoder().encode
_log: Final = logs.log("bursa.api")


class Request:
    """A request on its way: what came in, and what its answer's head will hold."""

    __slots__ = (
        "_headers_out",
        "_limited",
        "_send",
        "headers_in",
        "is_head",
        "is_started",
        "receive",
        "scope",
        "started",
        "status",
        "trace_id",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.started = time.perf_counter()
        self.scope = scope
        self.receive = receive
        self._send = send
        self.headers_in: dict[bytes, bytes] = dict(scope["headers"])
        self.is_head = scope["method"] == "HEAD"
        self.is_started = False
        self.status = 0
        traceparent = self.headers_in.get(b"traceparent")
        self.trace_id = (
            trace.new_trace_id() if traceparent is None else trace.from_traceparent(traceparent.decode("latin-1"))
        )
        self._headers_out: list[tuple[bytes, bytes]] = []
        self._limited: tuple[Buckets, Verdict] | None = None

    def add(self, name: bytes, value: bytes) -> None:
        """Add a header to the answer."""
        self._headers_out.append((name, value))

    def limit(self, buckets: Buckets, verdict: Verdict) -> None:
        """Show what a bucket says in the answer; refuse when it says no."""
        self._limited = (buckets, verdict)
        if verdict.retry_after_s:
            raise ProblemError("RATE_LIMITED", "Slow down.", retry_after_s=verdict.retry_after_s)

    async def respond(self, status: int, body: bytes, media: bytes | None, storing: bytes) -> None:
        """Send a whole answer; HEAD gets its head alone."""
        await self._start(status, media, storing, None if media is None else len(body))
        await self._send({"type": "http.response.body", "body": b"" if self.is_head else body})

    async def start_stream(self, media: str) -> None:
        """Send the head of a stream; proxies are asked not to hold it back."""
        self.add(b"x-accel-buffering", b"no")
        await self._start(200, media.encode(), b"no-store", None)

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a piece of a stream."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish_stream(self) -> None:
        """Send the end of a stream."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, status: int, media: bytes | None, storing: bytes, length: int | None) -> None:
        headers = self._headers_out
        headers.append(_NOSNIFF)
        headers.append((b"cache-control", storing))
        # The low bytes of a new random number: this answer's own span within the trace.
        headers.append((b"traceparent", f"00-{self.trace_id}-{os.urandom(8).hex()}-01".encode()))
        if media is not None:
            headers.append((b"content-type", media))
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        if self._limited is not None:
            buckets, verdict = self._limited
            headers.append((b"ratelimit-policy", buckets.policy))
            headers.append((b"ratelimit", buckets.show(verdict)))
        self.status = status
        self.is_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


class Answerer:
    """Sends problems for one route, and counts those that no operation of it counts."""

    def __init__(self, route: str) -> None:
        self._route = route

    async def send_problem(self, request: Request, error: BaseException) -> None:
        """Send what an exception looks like from outside."""
        problem = problem_from(error, request.trace_id)
        method = request.scope["method"]
        if problem.status >= _SERVER_FAULT:
            extra = {"route": self._route, "method": method, "code": problem.code, "error": str(error)}
            level = logging.DEBUG if problem.code == _NOT_READY else logging.WARNING
            _log.log(level, "A request was answered with a fault", extra=extra)
        if request.is_started:
            return  # A stream that broke: its head is gone, so all that is left is to cut it off.
        if problem.status == _UNAUTHORIZED:
            reason = ', error="invalid_token"' if b"authorization" in request.headers_in else ""
            request.add(b"www-authenticate", f'Bearer realm="bursa"{reason}'.encode())
        if problem.retry_after_s:
            request.add(b"retry-after", b"%d" % problem.retry_after_s)
        if isinstance(error, ProblemError):
            for name, value in error.headers:
                request.add(name.encode(), value.encode())
        await request.respond(problem.status, encode(problem), PROBLEM_MEDIA.encode(), b"no-store")

    def count(self, request: Request) -> None:
        """Count an answer that belongs to no operation, under a method from a closed list."""
        method = request.scope["method"]
        shown = method if method in _METHODS else "OTHER"
        metrics.HTTP_REQUESTS.labels(shown, self._route, str(request.status)).inc()
