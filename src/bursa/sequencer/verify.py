"""Proof that the live tables follow from the log: replay it, build every table anew, compare.

All of it happens in one REPEATABLE READ transaction, so a running exchange can be verified; the tables built anew are
temporary ones of the session. From genesis every row of every table is compared. From a snapshot, which is quicker, the
log after it, the ledger, and what is open or live now.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq

from bursa.errors import LogError, StoreError
from bursa.market import Engine, audit
from bursa.money import Currency
from bursa.sequencer.batch import Batch, Ledgers
from bursa.sequencer.copying import stream
from bursa.sequencer.log import (
    Position,
    apply_row,
    check_row,
    decode_command,
    genesis,
    newest_snapshot,
    read_rows,
    replay,
)
from bursa.sequencer.rows import Rows
from bursa.sequencer.tables import CHANGES, COPIED, REBUILT, Table, change_sql, copy_sql

#: Commands that the replay puts into one batch.
BATCH_COMMANDS: Final = 1_000
#: Differences that are listed for each table.
DIFFERENCES_MAX: Final = 20
#: Tables of what is now, compared after a replay from a snapshot by what the engine holds.
_CHANGES: Final = {change.name: change for change in CHANGES}
Connection = psycopg.Connection[tuple[Any, ...]]


class VerifyReport(NamedTuple):
    """What a verification found: the seq and digest that it reached, and every difference in words."""

    is_ok: bool
    seq: int
    digest: str
    commands: int
    differences: tuple[str, ...]


def verify(dsn: str, *, from_genesis: bool = True) -> VerifyReport:
    """Replay the log and compare what follows from it with the live tables; the database may be in use.

    Raises DatabaseUnavailableError without a connection. A log that is not sound is a difference, not an exception.
    """
    with psycopg.connect(dsn, application_name="bursa-verify") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        start = genesis() if from_genesis else newest_snapshot(connection) or genesis()
        is_whole = start.seq == 0
        try:
            position = _rebuild(connection, start) if is_whole else replay(connection, start)
        except LogError as error:
            return VerifyReport(is_ok=False, seq=start.seq, digest="", commands=0, differences=(f"log: {error}",))
        differences = [f"engine: {text}" for text in audit(position.engine)]
        differences += _compare_ledger(connection, position.engine)
        differences += _compare_snapshots(connection, position) if not is_whole else []
        if is_whole:
            for table in REBUILT:
                differences += _compare_table(connection, table)
        else:
            differences += _compare_live(connection, position.engine)
        connection.rollback()
    return VerifyReport(
        not differences, position.seq, position.digest.hex(), position.seq - start.seq, tuple(differences)
    )


# ---- replaying ---------------------------------------------------------------------------------------------


def _rebuild(connection: Connection, position: Position) -> Position:
    """Carry out all rows and write what follows from them into temporary tables."""
    for table in REBUILT:
        connection.execute(
            f"CREATE TEMPORARY TABLE {table.name} (LIKE bursa.{table.name} INCLUDING INDEXES) ON COMMIT DROP"
        )
    snapshots: dict[int, bytes] = dict(connection.execute("SELECT seq, data FROM bursa.snapshots").fetchall())
    engine, seq, at_ns, digest = position
    ledgers = Ledgers(engine)
    batch = Batch(engine, 0, ledgers)
    for row in read_rows(connection, seq):
        check_row(row, digest)
        outcome = apply_row(engine, row)
        seq, at_ns, digest = row.seq, row.at_ns, row.digest
        batch.add(seq, at_ns, decode_command(row.command), outcome, digest)
        if batch.count >= BATCH_COMMANDS:
            _write(connection, batch.seal())
            batch = Batch(engine, 0, ledgers)
        if seq in snapshots and engine.snapshot() != snapshots[seq]:
            raise LogError("snapshot", f"seq {seq}", "the state that the log leads to")
    _write(connection, batch.seal())
    return Position(engine, seq, at_ns, digest)


def _write(connection: Connection, rows: Rows) -> None:
    """Write a batch's rows into the session's temporary tables; the log itself is not built anew."""
    for table, new in zip(COPIED[1:], rows.copied[1:], strict=True):
        if new:
            with connection.cursor().copy(copy_sql(table, "pg_temp")) as copy:
                copy.write(stream(new))
    for name, changed in rows.changed.items():
        change = _CHANGES[name]
        sql, arrays = change_sql(change, "pg_temp"), change.arrays(changed)
        result = connection.pgconn.exec_params(sql.encode(), arrays, None, [1] * len(arrays), 1)
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise StoreError("verify", result.get_error_message().strip(), "a statement that PostgreSQL takes")


# ---- comparing ---------------------------------------------------------------------------------------------


def _compare_table(connection: Connection, table: Table) -> list[str]:
    """Compare a live table with the one built anew, row by row."""
    keys = ", ".join(table.key)
    columns = ", ".join(table.names)
    sql = (
        f"SELECT {keys}, to_jsonb(a), to_jsonb(b) FROM (SELECT {columns} FROM bursa.{table.name}) AS a"  # noqa: S608
        f" FULL JOIN (SELECT {columns} FROM pg_temp.{table.name}) AS b USING ({keys})"
        f" WHERE a IS DISTINCT FROM b ORDER BY {keys} LIMIT {DIFFERENCES_MAX}"
    )
    found: list[str] = []
    for row in connection.execute(sql).fetchall():
        *key, live, replayed = row
        found.append(f"{table.name} {'/'.join(map(str, key))}: {_describe(live, replayed)}")
    return found


def _describe(live: dict[str, object] | None, replayed: dict[str, object] | None) -> str:
    if live is None:
        return "missing, though the log says it exists"
    if replayed is None:
        return "exists, though the log knows nothing of it"
    return ", ".join(
        f"{name} is {value!r}, the log says {replayed[name]!r}"
        for name, value in live.items()
        if value != replayed[name]
    )


def _compare_ledger(connection: Connection, engine: Engine) -> list[str]:
    """Compare the sums of all postings with the engine's balances, account by account."""
    rows = connection.execute(
        "SELECT currency, account, sum(credit_micros - debit_micros) FROM bursa.postings"
        " GROUP BY currency, account HAVING sum(credit_micros - debit_micros) <> 0"
    ).fetchall()
    live = {(currency, account): int(micros) for currency, account, micros in rows}
    replayed = {
        (currency, account): micros
        for currency, accounts in engine.balances().items()
        for account, micros in accounts.items()
    }
    found = [
        f"ledger {account} {currency}: postings sum to {live.get((currency, account), 0)} micro-units,"
        f" the log leads to {replayed.get((currency, account), 0)}"
        for currency, account in sorted(live.keys() | replayed.keys())
        if live.get((currency, account), 0) != replayed.get((currency, account), 0)
    ]
    return found[:DIFFERENCES_MAX]


def _compare_snapshots(connection: Connection, position: Position) -> list[str]:
    """Compare a snapshot at the very end with the state that was reached."""
    row = connection.execute("SELECT data FROM bursa.snapshots WHERE seq = %s", (position.seq,)).fetchone()
    if row is not None and row[0] != position.engine.snapshot():
        return [f"snapshot {position.seq}: not the state that the log leads to"]
    return []


def _compare_live(connection: Connection, engine: Engine) -> list[str]:
    """Compare what is open or live now: orders, rentals, balances."""
    found: list[str] = []
    orders = connection.execute("SELECT order_id, leaves FROM bursa.orders WHERE closed_at_ns = 0").fetchall()
    for order_id, _ in orders:
        if engine.order(order_id) is None:
            found.append(f"orders {order_id}: open, though the log says it is closed")
    rentals = connection.execute(
        "SELECT rental_id, state, held_micros, charged_hours FROM bursa.rentals WHERE state <> 'WIPED'"
    ).fetchall()
    for rental_id, state, held_micros, charged_hours in rentals:
        rental = engine.rental(rental_id)
        facts = None if rental is None else (rental.state.value, rental.held_micros, rental.charged_hours)
        if facts != (state, held_micros, charged_hours):
            found.append(f"rentals {rental_id}: {(state, held_micros, charged_hours)}, the log says {facts}")
    balances = connection.execute("SELECT party_id, currency, available_micros FROM bursa.balances").fetchall()
    for party_id, code, available_micros in balances:
        available = engine.available(party_id, Currency(code))
        if available != available_micros:
            found.append(f"balances {party_id} {code}: {available_micros} available, the log says {available}")
    return found[:DIFFERENCES_MAX]
