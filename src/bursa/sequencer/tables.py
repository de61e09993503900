"""The tables that a batch writes, and the statements that write them.

``COPIED`` tables only grow within a batch's transaction; each change of an older row is one of the ``CHANGES``,
statements over arrays. All of them exist for any schema, so that `verify` can build the same tables beside the
live ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bursa.sequencer.copying import BOOL_OID, BYTEA_OID, INT4_OID, INT8_OID, TEXT_OID, array

_OIDS: Final = {"bigint": INT8_OID, "integer": INT4_OID, "text": TEXT_OID, "bytea": BYTEA_OID, "boolean": BOOL_OID}


class Table(NamedTuple):
    """A table, its key, and its columns as (name, type), in the order in which rows give them."""

    name: str
    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.columns)

    @property
    def oids(self) -> tuple[int, ...]:
        """Object ids of the columns' types."""
        return tuple(_OIDS[kind] for _, kind in self.columns if kind in _OIDS)


def _table(name: str, key: str, columns: str) -> Table:
    """Read a table from "kind: column column; kind: column"."""
    pairs: list[tuple[str, str]] = []
    for part in columns.split(";"):
        kind, _, names = part.partition(":")
        pairs += [(column, kind.strip()) for column in names.split()]
    return Table(name, tuple(key.split()), tuple(pairs))


LOG: Final = _table(
    "command_log", "seq",
    "bigint: seq; integer: epoch; bigint: at_ns; text: command_id kind; bytea: command outcome digest",
)  # fmt: skip
ENTRIES: Final = _table(
    "entries", "entry_id", "bigint: entry_id seq; text: kind; bigint: at_ns party_id order_id rental_id; text: memo"
)
POSTINGS: Final = _table(
    "postings", "entry_id line",
    "bigint: entry_id; smallint: line; text: currency account; bigint: debit_micros credit_micros owner_id",
)  # fmt: skip
TRADES: Final = _table(
    "trades", "trade_id",
    "bigint: trade_id; text: instrument; bigint: bid_id ask_id rental_id host_id buyer_id seller_id;"
    "integer: gpus hours; bigint: price_micros; text: taker; bigint: at_ns seq",
)  # fmt: skip
ORDERS: Final = _table(
    "orders", "order_id",
    "bigint: order_id party_id; text: side instrument state; bigint: price_micros;"
    "integer: gpus hours lots filled leaves canceled; text: currency time_in_force; bigint: expires_at_ns;"
    "bytea: terms; bigint: placed_at_ns updated_at_ns closed_at_ns seq",
)  # fmt: skip
RENTALS: Final = _table(
    "rentals", "rental_id",
    "bigint: rental_id trade_id order_id ask_id; text: instrument; bigint: host_id buyer_id seller_id;"
    "integer: gpus gpu_mask; bigint: price_micros; text: currency; bigint: opened_at_ns start_by_ns;"
    "integer: hours; text: state; bigint: started_at_ns ends_at_ns ended_at_ns; integer: charged_hours; text: reason;"
    "boolean: is_in_doubt; bigint: penalty_micros held_micros cost_micros hour_micros seq",
)  # fmt: skip
HOSTS: Final = _table(
    "hosts", "host_id",
    "bigint: host_id party_id; text: instrument state; boolean: is_verified; bigint: silent_since_ns;"
    "boolean: is_retired; integer: reliability; bytea: spec; bigint: seq",
)  # fmt: skip
PARTIES: Final = _table(
    "parties", "party_id",
    "bigint: party_id; text: tax_id payout_account; boolean: is_suspended is_in_debt; bytea: tax; bigint: seq",
)  # fmt: skip
INSTRUMENTS: Final = _table(
    "instruments", "instrument", "text: instrument state; bigint: until_ns reference_micros last_micros seq"
)
BALANCES: Final = _table(
    "balances", "party_id currency",
    "bigint: party_id; text: currency;"
    "bigint: available_micros held_micros pending_micros payable_micros debt_micros seq",
)  # fmt: skip
CANDLES: Final = _table(
    "candles", "instrument minute",
    "text: instrument; bigint: minute open_micros high_micros low_micros close_micros gpu_hours; integer: trades",
)  # fmt: skip
TRANSFERS: Final = _table(
    "transfers", "transfer_id",
    "bigint: transfer_id party_id; text: currency; bigint: micros; boolean: is_payout; text: state; bigint: at_ns seq",
)  # fmt: skip

#: Tables whose new rows a batch copies, in this order: entries before their postings.
COPIED: Final = (LOG, ENTRIES, POSTINGS, TRADES, ORDERS, RENTALS)
#: Tables that can be rebuilt from the log, so that `verify` compares all of them.
REBUILT: Final = (
    ENTRIES, POSTINGS, TRADES, ORDERS, RENTALS, HOSTS, PARTIES, INSTRUMENTS, BALANCES, CANDLES, TRANSFERS,
)  # fmt: skip

_ORDER_CHANGE: Final = _table(
    "orders", "order_id",
    "bigint: order_id; text: state; bigint: price_micros; integer: lots filled leaves canceled; bytea: terms;"
    "bigint: updated_at_ns closed_at_ns seq",
)  # fmt: skip
_RENTAL_CHANGE: Final = _table(
    "rentals", "rental_id",
    "bigint: rental_id; integer: hours; text: state; bigint: started_at_ns ends_at_ns ended_at_ns;"
    "integer: charged_hours; text: reason; boolean: is_in_doubt;"
    "bigint: penalty_micros held_micros cost_micros hour_micros seq",
)  # fmt: skip
_WIPED: Final = _table("rentals", "rental_id", "bigint: rental_id seq")
_RETIRED: Final = _table("hosts", "host_id", "bigint: host_id seq")
_TRANSFER_CHANGE: Final = _table("transfers", "transfer_id", "bigint: transfer_id; text: state; bigint: seq")


class Change(NamedTuple):
    """A statement that changes older rows of a table, from one array for each of ``table``'s columns."""

    name: str
    table: Table
    #: Text of the statement; {schema} and {rows} stand for the schema and the rows of the arrays, called n.
    sql: str

    def arrays(self, rows: Sequence[tuple[bytes, ...]]) -> list[bytes]:
        """Return the statement's parameters, one array a column, from rows of fields."""
        return [array(oid, column) for oid, column in zip(self.table.oids, zip(*rows, strict=True), strict=True)]


def _upsert(table: Table, updates: str = "") -> Change:
    """Insert rows, or replace those that are there by the new ones."""
    columns = ", ".join(table.names)
    if not updates:
        updates = ", ".join(f"{name} = EXCLUDED.{name}" for name in table.names if name not in table.key)
    return Change(
        f"put_{table.name}",
        table,
        # S608: the names are this module's own.
        f"INSERT INTO {{schema}}.{table.name} AS old ({columns}) SELECT {columns} FROM {{rows}} "  # noqa: S608
        f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {updates}",
    )


#: A price or number of lots of -1, and terms of no length, mean: as it was.
CHANGES: Final = (
    Change(
        "change_orders", _ORDER_CHANGE,
        "UPDATE {schema}.orders AS old SET state = n.state,"
        " price_micros = CASE WHEN n.price_micros < 0 THEN old.price_micros ELSE n.price_micros END,"
        " lots = CASE WHEN n.lots < 0 THEN old.lots ELSE n.lots END,"
        " terms = CASE WHEN n.terms = '' THEN old.terms ELSE n.terms END,"
        " filled = n.filled, leaves = n.leaves, canceled = n.canceled,"
        " updated_at_ns = n.updated_at_ns, closed_at_ns = n.closed_at_ns, seq = n.seq"
        " FROM {rows} WHERE old.order_id = n.order_id",
    ),
    Change(
        "change_rentals", _RENTAL_CHANGE,
        "UPDATE {schema}.rentals AS old SET hours = n.hours, state = n.state, started_at_ns = n.started_at_ns,"
        " ends_at_ns = n.ends_at_ns, ended_at_ns = n.ended_at_ns, charged_hours = n.charged_hours, reason = n.reason,"
        " is_in_doubt = n.is_in_doubt, penalty_micros = GREATEST(old.penalty_micros, n.penalty_micros),"
        " held_micros = n.held_micros, cost_micros = n.cost_micros, hour_micros = n.hour_micros, seq = n.seq"
        " FROM {rows} WHERE old.rental_id = n.rental_id",
    ),
    Change(
        "wipe_rentals", _WIPED,
        "UPDATE {schema}.rentals AS old SET state = 'WIPED', seq = n.seq FROM {rows} WHERE old.rental_id = n.rental_id",
    ),
    _upsert(HOSTS),
    Change(
        "retire_hosts", _RETIRED,
        "UPDATE {schema}.hosts AS old SET is_retired = true, seq = n.seq FROM {rows} WHERE old.host_id = n.host_id",
    ),
    _upsert(PARTIES),
    _upsert(INSTRUMENTS),
    _upsert(BALANCES),
    _upsert(
        CANDLES,
        "high_micros = GREATEST(old.high_micros, EXCLUDED.high_micros),"
        " low_micros = LEAST(old.low_micros, EXCLUDED.low_micros), close_micros = EXCLUDED.close_micros,"
        " gpu_hours = old.gpu_hours + EXCLUDED.gpu_hours, trades = old.trades + EXCLUDED.trades",
    ),
    _upsert(TRANSFERS),
    Change(
        "change_transfers", _TRANSFER_CHANGE,
        "UPDATE {schema}.transfers AS old SET state = n.state, seq = n.seq FROM {rows}"
        " WHERE old.transfer_id = n.transfer_id",
    ),
)  # fmt: skip


def copy_sql(table: Table, schema: str) -> str:
    """Return the COPY statement of a table's new rows."""
    return f"COPY {schema}.{table.name} ({', '.join(table.names)}) FROM STDIN (FORMAT binary)"


def change_sql(change: Change, schema: str) -> str:
    """Return the statement of a change, with one array parameter a column."""
    arrays = ", ".join(f"${number}::{kind}[]" for number, (_, kind) in enumerate(change.table.columns, 1))
    rows = f"unnest({arrays}) AS n({', '.join(change.table.names)})"
    return change.sql.format(schema=schema, rows=rows)
