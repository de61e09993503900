"""What a server does by the clock: it brings gauges up to date. While the database is away they stand still."""

from __future__ import annotations

import asyncio
import math
from typing import Final, LiteralString

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from bursa.market import MarketView
from bursa.ops import metrics
from bursa.sequencer import Node
from bursa.services import Exchange
from bursa.store import EmbeddedPostgres

#: Time between two looks, in seconds.
EVERY_S: Final = 1.0
_MICROS: Final = 1_000_000
_NEWEST: Final[LiteralString] = "SELECT COALESCE(max(seq), 0) FROM bursa.command_log"


async def run_duties(exchange: Exchange, postgres: EmbeddedPostgres | None) -> None:
    """Bring the gauges up to date until canceled."""
    restarts = 0
    while True:
        try:
            measure_node(exchange.node)
            measure_books(exchange.view)
            if postgres is not None and postgres.restarts > restarts:
                metrics.POSTGRES_RESTARTS.inc(postgres.restarts - restarts)
                restarts = postgres.restarts
            await measure_lag(exchange)
        except (psycopg.OperationalError, PoolTimeout, PoolClosed, TooManyRequests):
            pass  # the database is away, and whoever needs it says so
        await asyncio.sleep(EVERY_S)


def measure_node(node: Node) -> None:
    """Say where this process stands."""
    metrics.SEQ.set(node.seq)
    metrics.EPOCH.set(node.epoch)
    metrics.IS_LEADER.set(node.is_leader)
    metrics.QUEUE_DEPTH.set(node.queue_depth)


def measure_books(view: MarketView) -> None:
    """Say how far bid and ask of each book lie apart, in US$ per GPU-hour; NaN while a side is empty."""
    for name in view.instruments():
        ticker = view.ticker(name)
        if ticker is None:
            continue
        is_two_sided = ticker.best_ask_micros and ticker.best_bid_micros
        spread = (ticker.best_ask_micros - ticker.best_bid_micros) / _MICROS if is_two_sided else math.nan
        metrics.BOOK_SPREAD.labels(name).set(spread)


async def measure_lag(exchange: Exchange) -> None:
    """Say how many committed records this process has not seen: 0 in the leader, what a follower is behind."""
    node = exchange.node
    if node.is_leader:
        metrics.REPLICATION_LAG.set(0)
        return
    async with exchange.reader.connection() as connection:
        row = await (await connection.execute(_NEWEST)).fetchone()
    metrics.REPLICATION_LAG.set(max(0, row[0] - node.seq) if row else 0)
