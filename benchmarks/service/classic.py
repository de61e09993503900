"""The classic way: each order is one SQL transaction that locks the row of the wallet it spends from.

It does less than we do: it places an order and holds funds for it, and matches nothing. ``statements`` sends one
statement after the other, as an ORM or a program does; ``function`` does the same in one call of a stored function.
"""

import time
from random import Random
from typing import Any, Final

import psycopg

from benchmarks.market.measure import Result
from benchmarks.service.measure import latencies, wait_for_go

WALLETS: Final = 1_000
SCHEMA: Final = """
    CREATE TABLE wallets (
        party_id bigint PRIMARY KEY,
        available_micros bigint NOT NULL CHECK (available_micros >= 0),
        held_micros bigint NOT NULL CHECK (held_micros >= 0)
    );
    CREATE TABLE orders (
        order_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        party_id bigint NOT NULL REFERENCES wallets,
        instrument text NOT NULL,
        gpus integer NOT NULL,
        hours integer NOT NULL,
        limit_micros bigint NOT NULL,
        state text NOT NULL DEFAULT 'OPEN',
        placed_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ON orders (instrument, limit_micros) WHERE state = 'OPEN';
    CREATE TABLE postings (
        posting_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        order_id bigint NOT NULL REFERENCES orders,
        account text NOT NULL,
        debit_micros bigint NOT NULL,
        credit_micros bigint NOT NULL
    );
    CREATE FUNCTION place(party bigint, model text, gpu_count integer, hour_count integer, price bigint)
    RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        funds bigint;
        hold bigint := price * gpu_count * hour_count;
        made bigint;
    BEGIN
        SELECT available_micros INTO funds FROM wallets WHERE party_id = party FOR UPDATE;
        IF funds < hold THEN
            RETURN 0;
        END IF;
        INSERT INTO orders (party_id, instrument, gpus, hours, limit_micros)
        VALUES (party, model, gpu_count, hour_count, price) RETURNING order_id INTO made;
        UPDATE wallets SET available_micros = available_micros - hold, held_micros = held_micros + hold
        WHERE party_id = party;
        INSERT INTO postings (order_id, account, debit_micros, credit_micros)
        VALUES (made, 'wallet:' || party, hold, 0), (made, 'hold:' || made, 0, hold);
        RETURN made;
    END
    $$;
"""


def prepare(dsn: str) -> None:
    """Make the tables, and wallets with more than anybody spends."""
    with psycopg.connect(dsn) as connection:
        connection.execute(SCHEMA)
        connection.execute(
            "INSERT INTO wallets SELECT n, 10^17::bigint, 0 FROM generate_series(1, %s) AS n", (WALLETS,)
        )


def measure(dsn: str, way: str, seconds: float, seed: int) -> Result:
    """Place orders over one connection for so long."""
    rng = Random(seed)
    times: list[float] = []
    place = {"statements": _place, "function": _call}[way]
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(20):  # until psycopg has prepared what it sends
            place(connection, rng)
        wait_for_go()
        start = time.perf_counter()
        while (began := time.perf_counter()) < start + seconds:
            place(connection, rng)
            times.append(time.perf_counter() - began)
    wall = time.perf_counter() - start
    return {"orders": len(times), "seconds": wall, "per_second": len(times) / wall, "times": times} | latencies(times)


def _order(rng: Random) -> tuple[int, str, int, int, int]:
    return (
        rng.randint(1, WALLETS),
        "h100-sxm",
        rng.choice((1, 2, 4, 8)),
        rng.randint(1, 24),
        rng.randint(1, 2_000) * 1_000,
    )


def _place(connection: psycopg.Connection[tuple[Any, ...]], rng: Random) -> None:
    party, model, gpus, hours, price = _order(rng)
    hold = price * gpus * hours
    with connection.transaction():
        row = connection.execute(
            "SELECT available_micros FROM wallets WHERE party_id = %s FOR UPDATE", (party,)
        ).fetchone()
        assert row is not None
        assert row[0] >= hold
        made = connection.execute(
            "INSERT INTO orders (party_id, instrument, gpus, hours, limit_micros) VALUES (%s, %s, %s, %s, %s)"
            " RETURNING order_id",
            (party, model, gpus, hours, price),
        ).fetchone()
        assert made is not None
        connection.execute(
            "UPDATE wallets SET available_micros = available_micros - %s, held_micros = held_micros + %s"
            " WHERE party_id = %s",
            (hold, hold, party),
        )
        connection.execute(
            "INSERT INTO postings (order_id, account, debit_micros, credit_micros)"
            " VALUES (%s, %s, %s, 0), (%s, %s, 0, %s)",
            (made[0], f"wallet:{party}", hold, made[0], f"hold:{made[0]}", hold),
        )


def _call(connection: psycopg.Connection[tuple[Any, ...]], rng: Random) -> None:
    row = connection.execute("SELECT place(%s, %s, %s, %s, %s)", _order(rng)).fetchone()
    assert row is not None
    assert row[0] > 0


def check(dsn: str, orders: int) -> str:
    """Return what is wrong with what was written, "" when nothing is."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM postings),"
            " (SELECT sum(debit_micros - credit_micros) FROM postings)"
        ).fetchone()
    assert row is not None
    found, postings, difference = row
    is_right = found >= orders and postings == 2 * found and difference == 0
    return (
        "" if is_right else f"{orders} orders answered, {found} written with {postings} postings, off by {difference}"
    )
