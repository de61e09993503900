"""A whole exchange for tests of its API: PostgreSQL, sequencer, view, services, and the ASGI app, in one event loop.

The loop runs in a thread of its own, so that tests are plain functions and no test can leave it half closed. Everything
a test changes belongs to parties of its own; the instrument `h100-sxm` and its seller are shared.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
from starlette.applications import Starlette

from bursa import services, wire
from bursa.api import Limits, create_app
from bursa.market import Done, MarketView, RegisterParty
from bursa.sequencer import Node, Position, Record
from bursa.services import Exchange, KeyCache, issue_key
from bursa.store import open_pool
from tests.postgres import Database

T = TypeVar("T")
Json = dict[str, Any]
Headers = dict[str, str]

INSTRUMENT = "h100-sxm"
ALL_SCOPES = list(wire.Scope)
#: No test but those of the limits themselves is to meet one.
GENEROUS = Limits(key_rate=100_000, key_burst=100_000, address_rate=100_000, address_burst=100_000)
READY_S = 10.0
WAIT_S = 10.0
_numbers = itertools.count(1)


@dataclass
class Party:
    """A party with a key that may do all for it."""

    id: str
    key: str

    @property
    def headers(self) -> Headers:
        return {"authorization": f"Bearer {self.key}"}


@dataclass
class Stand:
    """The exchange, its app, and a client that talks to it within the loop."""

    loop: asyncio.AbstractEventLoop
    exchange: Exchange
    app: Starlette
    operator: Party
    apps: list[Starlette] = field(default_factory=list)
    seller: Party = field(default_factory=lambda: Party("", ""))
    host: str = ""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the exchange's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        party: Party | None = None,
        headers: Headers | None = None,
        content: bytes | None = None,
        app: Starlette | None = None,
        client: tuple[str, int] = ("127.0.0.1", 1),
    ) -> httpx.Response:
        """Send one request; a body is sent as JSON."""
        sent = {**(party.headers if party else {}), **(headers or {})}
        given: Json = {"content": content} if content is not None else {} if body is None else {"json": body}

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app or self.app, client=client)
            async with httpx.AsyncClient(transport=transport, base_url="http://bursa.test") as asker:
                return await asker.request(method, path, headers=sent, **given)

        return self.run(ask())

    def make_app(self, limits: Limits, **more: Any) -> Starlette:  # noqa: ANN401 - arguments of create_app
        """Return another app in front of the same exchange; its streams are ended with the stand."""
        app = create_app(self.exchange, limits, **more)
        self.apps.append(app)
        return app

    def make_key(self, party: Party, **body: object) -> str:
        """Make a key for a party by its own key; return the secret."""
        given = {"name": "test", "scopes": ALL_SCOPES, **body}
        answer = self.call("POST", "/v1/keys", given, party=party)
        assert answer.status_code == 201, answer.text
        secret: str = answer.json()["secret"]
        return secret

    def register(self, *, funds: str = "0", is_taxed: bool = True) -> Party:
        """Register a party, with a tax profile and funds in US$ as told."""
        number = next(_numbers)
        body: Json = {"name": f"Party {number}", "tax_id": f"DE{number:09}"}
        if is_taxed:
            body["tax"] = {"country": "DE", "scheme": "DOM", "vat_percent": "19"}
        party_id = self.made("/v1/admin/parties", body, self.operator)["id"]
        given = {"name": "first key", "scopes": ALL_SCOPES}
        key = self.made(f"/v1/admin/parties/{party_id}/keys", given, self.operator)["secret"]
        party = Party(party_id, key)
        if funds != "0":
            self.made("/v1/wallet/top-ups", {"amount": funds, "currency": "USD"}, party)
        return party

    def made(self, path: str, body: object, party: Party, **headers: str) -> Json:
        """POST and expect success."""
        answer = self.call("POST", path, body, party=party, headers=headers)
        assert answer.status_code in {200, 201}, answer.text
        found: Json = answer.json()
        return found


@contextmanager
def run_stand(database: Database, limits: Limits = GENEROUS) -> Iterator[Stand]:
    """Run an exchange on an empty database, with an open book and a host on sale."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="exchange")
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    running = _run_exchange(database)
    try:
        exchange = run(running.__aenter__())
        try:
            stand = run(_furnish(exchange, limits, loop))
            open_market(stand)
            yield stand
            for app in (stand.app, *stand.apps):
                run(app.state.api.stop())
        finally:
            run(running.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def _run_exchange(database: Database) -> AsyncIterator[Exchange]:
    views: list[MarketView] = []

    def on_load(position: Position) -> None:
        views.append(MarketView.from_engine(position.engine, position.seq, position.at_ns))

    node = Node(database.dsn("app"), on_load=on_load)
    reader = await open_pool(database.dsn("reader"), size_max=4)
    writer = await open_pool(database.dsn("app"), size_max=4)
    keys = KeyCache(database.dsn("app"))
    try:
        await node.start()
        node.feed.listen(_feeding(views[0]))
        await keys.start()
        async with asyncio.timeout(READY_S):
            while not (node.is_ready and node.is_leader):  # noqa: ASYNC110 - a node has no event for it
                await asyncio.sleep(0.01)
        yield Exchange(node=node, view=views[0], reader=reader, writer=writer, keys=keys, is_sandbox=True)
    finally:
        await keys.stop()
        await node.stop()
        await reader.close()
        await writer.close()


def _feeding(view: MarketView) -> Callable[..., None]:
    def feed(records: list[Record]) -> None:
        for record in records:
            view.apply(record.seq, record.at_ns, record.events)

    return feed


async def _furnish(exchange: Exchange, limits: Limits, loop: asyncio.AbstractEventLoop) -> Stand:
    """Register the operator and give it a key, as `bursa up` does."""
    answer = await exchange.node.submit(RegisterParty(command_id="stand:operator"))
    assert isinstance(answer.result, Done)
    number = answer.result.id
    made = await issue_key(exchange.writer, party_id=number, name="operator", scopes=ALL_SCOPES, is_operator=True)
    operator = Party(wire.show_id("party", number), made.secret)
    return Stand(loop, exchange, create_app(exchange, limits), operator)


def open_market(stand: Stand) -> None:
    """List and open the instrument, and put one host with sixteen GPUs on sale at US$2."""
    stand.made("/v1/admin/instruments", {"instrument": INSTRUMENT, "reference_price": "2"}, stand.operator)
    stand.made(f"/v1/admin/books/{INSTRUMENT}/open", None, stand.operator)
    stand.seller = stand.register()
    stand.host = make_host(stand, stand.seller)
    stand.made("/v1/asks", {"offers": [{"host": stand.host, "gpus": 16}], "price": "2"}, stand.seller)


def make_host(stand: Stand, seller: Party) -> str:
    """List a host of sixteen GPUs and let it pass its check."""
    spec = {"gpus": 16, "country": "DE"}
    host: str = stand.made("/v1/hosts", {"instrument": INSTRUMENT, "spec": spec}, seller)["id"]
    stand.made(f"/v1/admin/hosts/{host}/check", {"is_verified": True}, stand.operator)
    return host


def bid(**changes: object) -> Json:
    """Return the body of a bid that rests: far below the ask."""
    return {"instrument": INSTRUMENT, "gpus": 1, "hours": 2, "limit_price": "1.5", **changes}


def assert_problem(answer: httpx.Response, status: int, code: str) -> Json:
    """Check that an answer is a problem in every respect, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    problem: Json = answer.json()
    assert problem["code"] == code, answer.text
    assert problem["status"] == status
    assert problem["type"] == services.problem_type(code)
    assert len(problem["trace_id"]) == 32
    assert answer.headers["traceparent"].split("-")[1] == problem["trace_id"]
    return problem
