"""One path of the API as an ASGI app: who asks, how often, with what; then the use case, then the answer.

The same steps for every operation, in this order: trace, method, address, key, scopes, query, body, use case, answer.
Whatever is raised on the way leaves as a problem. The path that carries orders is kept short: no Request or Response
objects, headers read from one dict, decoders and label sets made once.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

from bursa import services
from bursa.api.answers import Answerer, Receive, Request, Scope, Send, encode
from bursa.api.bodies import ReaderGoneError, check_media, read_body
from bursa.api.following import follow
from bursa.api.gateway import Gateway
from bursa.api.inputs import body_reader, check_idempotency_key, query_reader, refuse_body
from bursa.api.limits import BAD_KEY_COST, bucket_of
from bursa.api.operation import JSON_MEDIA, PATH_PARAMETERS, Call, Operation, Raw
from bursa.api.problems import ProblemError
from bursa.errors import BursaError
from bursa.ops import logs, metrics, trace
from bursa.services import Reply, UnauthenticatedError

#: Longest key, in characters: longer ones are not looked at.
SECRET_CHARS_MAX: Final = 128
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})
_JSON: Final = JSON_MEDIA.encode()
_CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_log: Final = logs.log("bursa.api")


class _Plan:
    """An operation with all that can be made once: decoders, path patterns, headers, metrics."""

    __slots__ = ("_requests", "_seconds", "op", "patterns", "read_body", "read_query", "storing")

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.read_query = query_reader(op.query)
        self.read_body = body_reader(op.body) if op.body is not None else None
        self.patterns = [(name, re.compile(PATH_PARAMETERS[name][1])) for name in op.path_names]
        self._requests: dict[int, Any] = {}
        self._seconds = metrics.HTTP_SECONDS.labels(op.path)
        self.storing = b"no-cache" if op.tag_of is not None else b"no-store"

    def count(self, status: int, started: float) -> None:
        """Count an answer; a stream's time says nothing and is left out."""
        counter = self._requests.get(status)
        if counter is None:
            labels = (self.op.method, self.op.path, str(status))
            counter = self._requests[status] = metrics.HTTP_REQUESTS.labels(*labels)
        counter.inc()
        if self.op.stream is None:
            self._seconds.observe(time.perf_counter() - started)


class Endpoint:
    """The ASGI app of one path with all its methods."""

    def __init__(self, path: str, operations: list[Operation], gateway: Gateway) -> None:
        assert operations, path
        self._path = path
        self._gateway = gateway
        self._plans = {op.method: _Plan(op) for op in operations}
        if "GET" in self._plans:
            self._plans["HEAD"] = self._plans["GET"]
        self._answerer = Answerer(path)
        self._allow = ", ".join(sorted({*self._plans, "OPTIONS"}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing but the end of the process gets out of here."""
        request = Request(scope, receive, send)
        token = trace.current_trace_id.set(request.trace_id)
        plan = self._plans.get(scope["method"])
        try:
            if plan is None:
                await self._answer_without_plan(request)
            else:
                await self._answer(plan, request)
        except ReaderGoneError:
            return  # Nobody is left to answer.
        except Exception as error:  # noqa: BLE001 - the border of the process: every fault becomes a problem
            if not isinstance(error, ProblemError | BursaError):
                _log.exception("A request failed", extra={"route": self._path, "method": scope["method"]})
            await self._answerer.send_problem(request, error)
        finally:
            trace.current_trace_id.reset(token)
        if plan is None:
            self._answerer.count(request)
        else:
            plan.count(request.status, request.started)

    async def _answer_without_plan(self, request: Request) -> None:
        """Answer OPTIONS, or say which methods there are."""
        self._gateway.take_address(request)
        if request.scope["method"] != "OPTIONS":
            raise ProblemError(
                "METHOD_NOT_ALLOWED", f"This path knows {self._allow}.", headers=(("allow", self._allow),)
            )
        request.add(b"allow", self._allow.encode())
        await request.respond(204, b"", None, b"no-store")

    async def _answer(self, plan: _Plan, request: Request) -> None:
        """Check all that comes in, then carry it out."""
        op = plan.op
        path = request.scope["path_params"]
        call = Call(self._gateway.exchange, path, request.headers_in)
        await self._admit(op, request, call)
        for name, pattern in plan.patterns:
            # fullmatch: "$" alone would let a line break through.
            if not pattern.fullmatch(path[name]):
                raise ProblemError("NOT_FOUND", f"There is no {name} with this id.")
        call.query = plan.read_query(request.scope["query_string"])
        if op.is_command:
            call.idempotency_key = check_idempotency_key(call.header(b"idempotency-key"))
        if op.method in _CHANGING:
            await self._read_body(plan, request, call)
        if op.stream is not None:
            await follow(self._gateway, op, request, call)
        elif op.tag_of is not None and (tag := op.tag_of(call)) and _is_known(tag, call.header(b"if-none-match")):
            request.add(b"etag", tag.encode())
            await request.respond(304, b"", None, plan.storing)
        else:
            if op.tag_of is not None and tag:
                request.add(b"etag", tag.encode())
            await self._carry_out(plan, request, call)

    async def _carry_out(self, plan: _Plan, request: Request, call: Call) -> None:
        """Call the use case and show its answer."""
        op = plan.op
        assert op.carry is not None, "an operation is carried out or streamed"
        answer = await op.carry(call)
        if isinstance(answer, Reply):
            if answer.is_repeat:
                request.add(b"idempotent-replayed", b"true")
            answer = answer.body
        if isinstance(answer, Raw):
            for name, text in answer.headers:
                request.add(name.encode(), text.encode())
            await request.respond(op.status, answer.body, answer.media.encode(), plan.storing)
            return
        if op.location is not None:
            request.add(b"location", op.location(answer).encode())
        await request.respond(op.status, encode(answer), _JSON, plan.storing)

    async def _admit(self, op: Operation, request: Request, call: Call) -> None:
        """Let a request in: by its address where anyone may ask, else by its key and the key's scopes."""
        gateway = self._gateway
        client = request.scope.get("client")
        call.address = bucket_of(client)
        if op.scopes is None or (op.is_open_to_loopback and _is_loopback(client, request.headers_in)):
            gateway.take_address(request)
            return
        now = gateway.monotonic()
        # Guesses empty the address's bucket; while it is empty no key from there is looked at.
        if not gateway.by_address.has_tokens(call.address, now):
            request.limit(gateway.by_address, gateway.by_address.take(call.address, now))
        call.secret = _bearer(call.header(b"authorization"))
        if not call.secret:
            gateway.take_address(request)
            raise ProblemError("UNAUTHENTICATED", "Send the header `Authorization: Bearer <key>`.")
        try:
            call.actor = actor = await services.authenticate(gateway.exchange, call.secret)
        except UnauthenticatedError:
            gateway.by_address.charge(call.address, now, BAD_KEY_COST)
            raise
        request.limit(gateway.by_key, gateway.by_key.take(actor.key_id, now))
        if actor.scopes.isdisjoint(op.scopes) or (op.is_operators and not actor.is_operator):
            needed = " or ".join(scope.value for scope in op.scopes)
            whose = "an operator's key" if op.is_operators else "a key"
            raise ProblemError("FORBIDDEN", f"This needs {whose} with the scope {needed}.")

    async def _read_body(self, plan: _Plan, request: Request, call: Call) -> None:
        """Read, decode and, for a batch, charge the body."""
        op = plan.op
        has_media = check_media(request.headers_in) if op.body is not None else True
        body = await read_body(request, self._gateway.limits)
        if plan.read_body is None:
            refuse_body(body)
            return
        if body and not has_media:
            raise ProblemError("UNSUPPORTED_MEDIA_TYPE", f"Send the header `Content-Type: {JSON_MEDIA}`.")
        call.body = plan.read_body(body)
        if op.items_of is not None:
            gateway = self._gateway
            # A batch that costs more than a burst would never get through.
            cost = min(op.items_of(call.body) / gateway.limits.batch_items_per_token, gateway.limits.key_burst)
            request.limit(gateway.by_key, gateway.by_key.take(call.actor.key_id, gateway.monotonic(), cost))


class Nowhere:
    """The ASGI app of every path under the API that is none."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._answerer = Answerer("unmatched")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a problem."""
        request = Request(scope, receive, send)
        try:
            self._gateway.take_address(request)
            problem = ProblemError("NO_SUCH_PATH", "GET /v1/openapi.json lists the paths.")
        except ProblemError as limited:
            problem = limited
        await self._answerer.send_problem(request, problem)
        self._answerer.count(request)


def _bearer(header: str | None) -> str:
    """Return the key of an Authorization header; nothing when there is none that could be one."""
    if header is None:
        return ""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and len(header) <= SECRET_CHARS_MAX else ""


def _is_loopback(client: object, headers: dict[bytes, bytes]) -> bool:
    """Tell whether a request comes from this machine itself, and not through a proxy that runs on it."""
    if b"x-forwarded-for" in headers or b"forwarded" in headers:
        return False
    host = client[0] if isinstance(client, tuple | list) and client else None
    return host is None or host in _LOOPBACK


def _is_known(tag: str, header: str | None) -> bool:
    """Tell whether If-None-Match names a tag (weak comparison, RFC 9110)."""
    if header is None:
        return False
    return header.strip() == "*" or tag in {part.strip().removeprefix("W/") for part in header.split(",")}
