"""The command log as it stands in PostgreSQL: reading it, checking its chain, replaying it into an engine.

A replay carries out every command again and compares what comes out with what the log says, byte for byte; so it proves
that this version of the engine decides as the one did that wrote the log. A snapshot only shortens a replay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import psycopg

from bursa.errors import LogError, SnapshotError
from bursa.market import Command, Engine, Event, Outcome
from bursa.sequencer.batch import next_digest
from bursa.sequencer.records import Record

#: Digest of the empty log.
GENESIS: Final = bytes(32)
#: Rows that are read at a time.
READ_ROWS_MAX: Final = 5_000
#: Snapshots that are kept.
SNAPSHOTS_KEPT: Final = 2

_log = logging.getLogger("bursa.sequencer.log")
_pack = msgspec.msgpack.Encoder().encode
decode_command = msgspec.msgpack.Decoder(Command).decode
decode_outcome = msgspec.msgpack.Decoder(Outcome).decode

Connection = psycopg.Connection[tuple[Any, ...]]


class LogRow(NamedTuple):
    """One row of the command log."""

    seq: int
    epoch: int
    at_ns: int
    command_id: str
    kind: str
    command: bytes
    outcome: bytes
    digest: bytes


class Position(NamedTuple):
    """An engine and the place in the log at which it stands."""

    engine: Engine
    seq: int
    at_ns: int
    digest: bytes


def read_rows(connection: Connection, after_seq: int, until_seq: int | None = None) -> Iterator[LogRow]:
    """Yield the rows after a seq in order; LogError at a gap, or where the disk does not give back what was written."""
    seq = after_seq
    while True:
        rows = _read(connection, seq)
        for fields in rows:
            row = LogRow(*fields)
            if row.seq != seq + 1:
                raise LogError("seq", row.seq, f"{seq + 1}: the log has a gap")
            if until_seq is not None and row.seq > until_seq:
                return
            seq = row.seq
            yield row
        if len(rows) < READ_ROWS_MAX:
            return


def _read(connection: Connection, seq: int) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(_READ_SQL, (seq, READ_ROWS_MAX), binary=True, prepare=True).fetchall()
    except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted) as error:
        raise LogError("command_log", str(error), "pages as they were written: restore a backup") from error


def check_row(row: LogRow, digest: bytes) -> None:
    """Raise LogError when a row does not continue the chain of digests."""
    if next_digest(digest, row.seq, row.epoch, row.at_ns, row.command, row.outcome) != row.digest:
        raise LogError(
            "digest", f"seq {row.seq}", "the digest of this row after the rows before it: the log was changed"
        )


def apply_row(engine: Engine, row: LogRow) -> Outcome:
    """Carry out a row's command again; LogError when the engine decides otherwise than the log says."""
    try:
        command = decode_command(row.command)
    except msgspec.MsgspecError as error:
        raise LogError("command", f"seq {row.seq}: {error}", "a command of this version") from error
    outcome = engine.apply(command, row.at_ns)
    if _pack(outcome) != row.outcome:
        raise LogError("outcome", f"seq {row.seq}, {row.kind} {row.command_id}", "what the log says happened then")
    return outcome


def record_of(row: LogRow) -> Record:
    """Return a row as the feed carries it."""
    try:
        events: tuple[Event, ...] = decode_outcome(row.outcome).events
    except msgspec.MsgspecError as error:
        raise LogError("outcome", f"seq {row.seq}: {error}", "an outcome of this version") from error
    return Record(row.seq, row.at_ns, row.kind, events)


def replay(connection: Connection, position: Position, until_seq: int | None = None) -> Position:
    """Carry out the rows after a position, checking chain and outcomes; return where that leads."""
    engine, seq, at_ns, digest = position
    for row in read_rows(connection, seq, until_seq):
        check_row(row, digest)
        apply_row(engine, row)
        seq, at_ns, digest = row.seq, row.at_ns, row.digest
    return Position(engine, seq, at_ns, digest)


def genesis() -> Position:
    """Return an empty market before the first command."""
    return Position(Engine(), 0, 0, GENESIS)


def load(connection: Connection, until_seq: int | None = None) -> Position:
    """Return the newest state: the newest snapshot that is sound, and the rows after it."""
    return replay(connection, newest_snapshot(connection, until_seq) or genesis(), until_seq)


def newest_snapshot(connection: Connection, until_seq: int | None = None) -> Position | None:
    """Return the newest sound snapshot, None when there is none; a damaged one is passed over, with a warning."""
    seqs = connection.execute("SELECT seq FROM bursa.snapshots ORDER BY seq DESC").fetchall()
    for (seq,) in seqs:
        if until_seq is not None and seq > until_seq:
            continue
        try:
            return _read_snapshot(connection, seq)
        except (SnapshotError, LogError) as error:
            _log.warning("snapshot %d cannot be used, an older one will be: %s", seq, error)
    return None


def _read_snapshot(connection: Connection, seq: int) -> Position:
    row = connection.execute(_SNAPSHOT_SQL, (seq,), binary=True).fetchone()
    if row is None:
        raise SnapshotError("seq", seq, "a snapshot of a record of the log")
    at_ns, digest, data, log_digest = row
    if digest != log_digest:
        raise SnapshotError(
            "digest", digest.hex(), f"the log's digest {log_digest.hex() if log_digest else 'at its seq'}"
        )
    return Position(Engine.restore(data), seq, at_ns, digest)


def write_snapshot(connection: Connection, position: Position, data: bytes) -> None:
    """Keep a snapshot of a committed position, and drop all but the newest ones."""
    with connection.transaction():
        connection.execute(
            "INSERT INTO bursa.snapshots (seq, at_ns, digest, data) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (seq) DO NOTHING",
            (position.seq, position.at_ns, position.digest, data),
        )
        connection.execute(
            "DELETE FROM bursa.snapshots WHERE seq NOT IN (SELECT seq FROM bursa.snapshots ORDER BY seq DESC LIMIT %s)",
            (SNAPSHOTS_KEPT,),
        )


_READ_SQL: Final = (
    "SELECT seq, epoch, at_ns, command_id, kind, command, outcome, digest FROM bursa.command_log"
    " WHERE seq > %s ORDER BY seq LIMIT %s"
)
_SNAPSHOT_SQL: Final = (
    "SELECT s.at_ns, s.digest, s.data, l.digest FROM bursa.snapshots AS s"
    " LEFT JOIN bursa.command_log AS l USING (seq) WHERE s.seq = %s"
)
