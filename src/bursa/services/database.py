"""Reading and writing rows: connections out of a pool, with an outage told as what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.rows import namedtuple_row
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from bursa.errors import DatabaseUnavailableError
from bursa.services.exchange import Pool

Parameters = Mapping[str, Any] | Sequence[Any]


@asynccontextmanager
async def cursor(pool: Pool) -> AsyncIterator[psycopg.AsyncCursor[Any]]:
    """Lend a cursor in a transaction of its own, whose rows have names; DatabaseUnavailableError when there is none."""
    try:
        async with (
            pool.connection() as connection,
            connection.transaction(),
            connection.cursor(row_factory=namedtuple_row) as lent,
        ):
            yield lent
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed, TooManyRequests) as error:
        raise DatabaseUnavailableError("database", type(error).__name__, "a PostgreSQL that answers") from error


async def fetch_all(pool: Pool, query: LiteralString, parameters: Parameters = ()) -> list[Any]:
    """Return all rows of a query; its LIMIT bounds them."""
    async with cursor(pool) as lent:
        await lent.execute(query, parameters)
        return await lent.fetchall()


async def fetch_one(pool: Pool, query: LiteralString, parameters: Parameters = ()) -> Any:  # noqa: ANN401 - a named tuple of the query's making
    """Return the first row of a query, None when it has none."""
    async with cursor(pool) as lent:
        await lent.execute(query, parameters)
        return await lent.fetchone()
