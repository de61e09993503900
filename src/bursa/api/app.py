"""The API as Starlette sees it: one route a path, and an application of its own for where nothing stands beside it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.routing import Route

from bursa.api.endpoint import Endpoint, Nowhere
from bursa.api.gateway import Gateway
from bursa.api.limits import Limits
from bursa.api.operation import Operation
from bursa.api.operations import OPERATIONS
from bursa.services import Exchange

_ALL_ELSE: Final = "/v1/{rest:path}"


class Api:
    """The HTTP API of one exchange. ``monotonic`` (seconds) is what rate limits count with."""

    def __init__(
        self, exchange: Exchange, limits: Limits | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._gateway = Gateway(exchange, limits or Limits(), monotonic)

    def routes(self, *, is_service_only: bool = False) -> list[Route]:
        """Return a route for each path, those that are asked most first, and one that answers for all else in /v1.

        ``is_service_only``: health, readiness and metrics alone, for a process that takes no orders.
        """
        by_path: dict[str, list[Operation]] = {}
        for op in OPERATIONS:
            if op.tag == "service" or not is_service_only:
                by_path.setdefault(op.path, []).append(op)
        found = [Route(path, Endpoint(path, ops, self._gateway), name=path) for path, ops in by_path.items()]
        nowhere = Nowhere(self._gateway)
        return [*found, Route("/v1", nowhere, name="/v1"), Route(_ALL_ELSE, nowhere, name="nowhere")]

    async def stop(self) -> None:
        """End every stream. The server calls it before it waits for its connections to close."""
        await self._gateway.stop()


def routes(exchange: Exchange, limits: Limits | None = None) -> list[Route]:
    """Return the routes of an API that nobody needs to stop; see Api."""
    return Api(exchange, limits).routes()


def create_app(
    exchange: Exchange,
    limits: Limits | None = None,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    is_service_only: bool = False,
) -> Starlette:
    """Return an application with the API alone; what is outside of /v1 is a problem too.

    ``app.state.api`` is its Api: a server that runs without lifespan calls ``await app.state.api.stop()`` at shutdown.
    """
    api = Api(exchange, limits, monotonic=monotonic)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await api.stop()

    found = api.routes(is_service_only=is_service_only)
    app = Starlette(routes=[*found, Route("/{rest:path}", found[-1].endpoint, name="outside")], lifespan=lifespan)
    app.state.api = api
    return app
