"""A whole exchange without HTTP: a real PostgreSQL, a real node, and a clock that tests set."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bursa import services, wire
from bursa.market import (
    CheckHost,
    Done,
    HostSpec,
    ListHost,
    MarketView,
    StartRental,
    VatScheme,
)
from bursa.money import Currency
from bursa.sequencer import Node, Position, Record
from bursa.services import Actor, Exchange, KeyCache
from bursa.store import open_pool
from bursa.wire import Scope
from tests.postgres import Database

#: When the clock of a new world stands.
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
NOON_NS = 1_796_126_400 * 10**9
HOUR_NS = 3_600 * 10**9
START_LIMIT_S = 10
POLL_S = 0.005
ALL_SCOPES = frozenset(Scope)


@dataclass
class HandClock:
    """Time that stands until it is moved, for the market and for the keys alike."""

    at_ns: int = NOON_NS

    def now_ns(self) -> int:
        return self.at_ns

    def __call__(self) -> int:
        return self.at_ns


@dataclass
class World:
    exchange: Exchange
    clock: HandClock
    operator: Actor
    counter: int = field(default=0)

    def command_id(self) -> str:
        self.counter += 1
        return f"test {self.counter}"

    async def party(
        self, name: str = "Anna", *, vat: str = "19", tax_id: str = "", scopes: frozenset[Scope] = ALL_SCOPES
    ) -> Actor:
        tax = wire.TaxRequest("DE", VatScheme.OSS, vat) if vat else None
        reply = await services.register_party(self.exchange, self.operator, wire.PartyRequest(name, tax_id, tax=tax))
        made = await services.create_party_key(
            self.exchange, self.operator, reply.body.id, wire.KeyRequest(name, sorted(scopes))
        )
        return await services.authenticate(self.exchange, made.secret)

    async def funded(self, name: str = "Anna", amount: str = "1000", currency: Currency = Currency.USD) -> Actor:
        actor = await self.party(name)
        await services.top_up(self.exchange, actor, wire.TopUpRequest(amount, currency))
        return actor

    async def book(self, instrument: str = "h100-sxm") -> None:
        await services.list_instrument(self.exchange, self.operator, wire.InstrumentRequest(instrument))
        await services.open_book(self.exchange, self.operator, instrument)

    async def host(self, seller: Actor, *, gpus: int = 8, instrument: str = "h100-sxm") -> str:
        spec = HostSpec(gpus=gpus, country="DE", region="EU", vcpus=64, ram_gib=512, disk_gib=4_000)
        listed = await self.exchange.node.submit(
            ListHost(command_id=self.command_id(), party_id=seller.party_id, instrument=instrument, spec=spec)
        )
        assert isinstance(listed.result, Done), listed
        await self.exchange.node.submit(
            CheckHost(command_id=self.command_id(), host_id=listed.result.id, is_verified=True)
        )
        return wire.show_id("host", listed.result.id)

    async def ask(self, seller: Actor, price: str = "2.88", *, gpus: int = 8) -> wire.Order:
        host = await self.host(seller, gpus=gpus)
        request = wire.AskRequest([wire.Offer(host, gpus)], price)
        return (await services.place_ask(self.exchange, seller, request)).body

    async def start(self, rental_id: str) -> None:
        number = wire.parse_id("rental", rental_id)
        answer = await self.exchange.node.submit(StartRental(command_id=self.command_id(), rental_id=number))
        assert isinstance(answer.result, Done), answer

    async def pass_hours(self, hours: int) -> None:
        """Let time pass, and wait until the market has done what was due."""
        self.clock.at_ns += hours * HOUR_NS
        # Any command comes after the ticks that are due before it.
        await services.list_instrument(self.exchange, self.operator, wire.InstrumentRequest("tick"))


@asynccontextmanager
async def open_world(database: Database, *, is_sandbox: bool = True) -> AsyncIterator[World]:
    """Run an exchange with an operator in an empty database."""
    clock = HandClock()
    views: list[MarketView] = []

    def take(position: Position) -> None:
        view = MarketView.from_engine(position.engine, position.seq, position.at_ns)
        views.append(view)

        def follow(records: Sequence[Record]) -> None:
            for record in records:
                view.apply(record.seq, record.at_ns, record.events)

        node.feed.listen(follow)

    node = Node(database.dsn("app"), make_clock=lambda _: clock, on_load=take)
    keys = KeyCache(database.dsn("app"))
    reader = await open_pool(database.dsn("reader"))
    writer = await open_pool(database.dsn("app"))
    await node.start()
    await keys.start()
    try:
        exchange = Exchange(node, views[0], reader, writer, keys, clock=clock, is_sandbox=is_sandbox)
        await keys.wait_live()
        async with asyncio.timeout(START_LIMIT_S):
            while not node.is_leader:  # noqa: ASYNC110 - a node tells of its lead by nothing else
                await asyncio.sleep(POLL_S)
        operator = Actor(0, 0, ALL_SCOPES, is_operator=True, name="operator")
        made = await services.issue_key(writer, party_id=0, name="operator", scopes=Scope, is_operator=True)
        operator = await services.authenticate(exchange, made.secret)
        yield World(exchange, clock, operator)
    finally:
        await keys.stop()
        await node.stop()
        await reader.close()
        await writer.close()


def play(database: Database, scene: Callable[[World], Awaitable[None]], *, is_sandbox: bool = True) -> None:
    """Let a scene happen in an exchange of its own."""

    async def run() -> None:
        async with open_world(database, is_sandbox=is_sandbox) as world:
            await scene(world)

    asyncio.run(run())
