"""Builds the parts of an exchange from settings and a database, and takes them apart again in the reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from bursa.config import Role, Settings
from bursa.hosts import SimulatedFleet
from bursa.market import MarketView
from bursa.ops import logs
from bursa.sequencer import Node, Position, Record
from bursa.server.database import Database
from bursa.server.duties import run_duties
from bursa.services import Exchange, KeyCache
from bursa.store import open_pool

_LOG: Final = logs.log("bursa.server")


@dataclass(slots=True)
class Parts:
    """A running exchange: what use cases need, and the simulated hosts' part where this process plays it."""

    exchange: Exchange
    fleet: SimulatedFleet | None

    def describe(self) -> str:
        """Return where this process stands, for people."""
        node = self.exchange.node
        place = "leads" if node.is_leader else node.detail or "follows"
        return f"{place}, epoch {node.epoch}, seq {node.seq}"


@asynccontextmanager
async def assemble(settings: Settings, database: Database) -> AsyncIterator[Parts]:
    """Start the parts in order, keep them while the block lasts, and stop them: what was taken is committed first.

    LogError: the log is not sound. DatabaseUnavailableError: the database does not answer.
    """
    async with AsyncExitStack() as stack:
        node, view = await _start_node(settings, database, stack)
        size = settings.database_pool_max
        reader = await open_pool(database.reader, application_name="bursa reads", size_max=size)
        stack.push_async_callback(reader.close)
        writer = await open_pool(database.app, application_name="bursa writes", size_max=size)
        stack.push_async_callback(writer.close)
        keys = KeyCache(database.app)
        stack.push_async_callback(keys.stop)
        await keys.start()
        is_sandbox = settings.is_sandbox is True
        exchange = Exchange(node=node, view=view, reader=reader, writer=writer, keys=keys, is_sandbox=is_sandbox)
        await stack.enter_async_context(_running(run_duties(exchange, database.postgres), "bursa-duties"))
        fleet = None
        if settings.role is not Role.WEB and (settings.is_demo or any(host.is_demo for host in view.hosts())):
            fleet = SimulatedFleet(node, view)
            # After the view, which it asks about what it hears.
            node.feed.listen(fleet.take)
            fleet.catch_up()
            await stack.enter_async_context(_running(fleet.run(), "bursa-simulated-fleet"))
        yield Parts(exchange, fleet)


async def _start_node(settings: Settings, database: Database, stack: AsyncExitStack) -> tuple[Node, MarketView]:
    """Replay the log, and let the market's view follow it from there on without a gap."""
    views: list[MarketView] = []
    postgres = database.postgres

    def on_load(position: Position) -> None:
        view = MarketView.from_engine(position.engine, position.seq, position.at_ns)
        views.append(view)

        def follow(records: Sequence[Record]) -> None:
            for record in records:
                view.apply(record.seq, record.at_ns, record.events)

        node.feed.listen(follow)

    def say_fault() -> str:
        return "" if postgres is None else describe_fault(postgres.last_error, is_running=postgres.is_running)

    node = Node(database.app, may_lead=settings.role is not Role.WEB, on_load=on_load, describe_fault=say_fault)
    stack.push_async_callback(node.stop)
    await node.start()
    assert len(views) == 1, "a node loads once"
    return node, views[0]


def describe_fault(last_error: str, *, is_running: bool) -> str:
    """Return what the database's last words mean for whoever asks why there are no answers; "" when unknown."""
    if "No space left on device" in last_error or "Disk quota exceeded" in last_error:
        return "the disk of the database is full: free some space, trading goes on by itself"
    if not is_running:
        return f"the database is started again{f' ({last_error})' if last_error else ''}"
    return f"the database says: {last_error}" if last_error else ""


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run work that has no end beside the block. Should it end, that is a bug: it is logged, and all else goes on."""
    task = asyncio.create_task(work, name=name)

    def on_done(done: asyncio.Task[None]) -> None:
        if not done.cancelled():
            _LOG.critical("%s ended", name, exc_info=done.exception())

    task.add_done_callback(on_done)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
