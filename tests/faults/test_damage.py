"""Damage on disk or by hand: a snapshot, a page, a row. What is not sound is refused in words that say where."""

import asyncio
import os
from pathlib import Path

import psycopg
import pytest

from bursa.errors import LogError, UnavailableError
from bursa.market import CreditTopUp
from bursa.money import Currency
from bursa.sequencer import Node, load, verify
from bursa.store import EmbeddedPostgres, connect, migrate
from tests.faults.market import set_up, top_up
from tests.faults.test_commits import find_counter
from tests.faults.test_kills import open_market
from tests.postgres import Database
from tests.sequencer.recording import leading

pytestmark = pytest.mark.slow

#: The size of a page of PostgreSQL, in bytes.
PAGE_BYTES = 8192
WAIT_S = 30


def fill(database: Database, snapshots: int) -> int:
    """Make a market with that many snapshots, and some records after the last; return the newest seq."""

    async def run() -> int:
        async with leading(database.dsn(), snapshot_commands=10) as node:
            await set_up(node)
            party_id = find_counter(database)
            for number in range(snapshots):
                await node.submit_many([top_up(f"{number}-{n}", party_id) for n in range(20)])
                async with asyncio.timeout(WAIT_S):
                    while count_snapshots(database, node.seq) == 0:  # noqa: ASYNC110 - a test may poll
                        await asyncio.sleep(0.05)
            await node.submit_many([top_up(f"tail-{n}", party_id) for n in range(5)])
            return node.seq

    return asyncio.run(run())


def count_snapshots(database: Database, seq: int) -> int:
    """Return how many snapshots stand at a seq."""
    with connect(database.dsn()) as connection:
        row = connection.execute("SELECT count(*) FROM bursa.snapshots WHERE seq = %s", (seq,)).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    "damage",
    [
        "data = set_byte(data, length(data) / 2, get_byte(data, length(data) / 2) # 1)",
        "data = substr(data, 1, length(data) - 100)",
        "digest = sha256(digest)",
    ],
    ids=["a flipped bit", "a missing end", "another log's"],
)
def test_instead_of_a_damaged_snapshot_the_older_one_is_used(
    database: Database, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    seq = fill(database, 2)
    with connect(database.dsn("migrator"), autocommit=True) as connection:
        newest, older = (
            number for (number,) in connection.execute("SELECT seq FROM bursa.snapshots ORDER BY seq DESC LIMIT 2")
        )
        whole = load(connection)
        assert connection.execute(f"UPDATE bursa.snapshots SET {damage} WHERE seq = %s", (newest,)).rowcount == 1  # noqa: S608
        # What stands before the older snapshot is not needed: proof that this one is where the replay begins.
        connection.execute("DELETE FROM bursa.command_log WHERE seq < %s", (older,))
        again = load(connection)
    assert f"snapshot {newest} cannot be used" in caplog.text
    assert (again.seq, again.digest) == (whole.seq, whole.digest) == (seq, whole.digest)
    assert again.engine.digest() == whole.engine.digest()

    async def go_on() -> int:
        async with leading(database.dsn()) as node:
            return (await node.submit(top_up("after", find_counter(database)))).seq

    assert asyncio.run(go_on()) > seq


def find_file(server: EmbeddedPostgres, table: str) -> Path:
    """Return the file that holds a table's rows."""
    with connect(server.dsn("superuser")) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_relation_filepath(%s::regclass)", (table,)).fetchone()
    assert row is not None
    return server.data_dir / "postgres" / str(row[0])


def test_a_flipped_page_of_the_log_is_refused(reachable_path: Path) -> None:
    with EmbeddedPostgres(reachable_path / "data") as server:
        migrate(server.dsn("migrator"))
        open_market(server.dsn())
        path = find_file(server, "bursa.command_log")
        server.stop()
        with path.open("r+b") as file:
            file.seek(PAGE_BYTES - 100)
            byte = file.read(1)[0]
            file.seek(PAGE_BYTES - 100)
            file.write(bytes([byte ^ 0x10]))
            os.fsync(file.fileno())
        server.start()

        async def start() -> None:
            node = Node(server.dsn())
            try:
                await node.start()
            finally:
                await node.stop()

        with pytest.raises(LogError, match="invalid page in block 0"):
            asyncio.run(start())
        report = verify(server.dsn())
        assert not report.is_ok
        assert "invalid page in block 0" in report.differences[0]


CHANGED = "SET {0} = set_byte({0}, length({0}) - 1, get_byte({0}, length({0}) - 1) # 1) WHERE seq = %s"


@pytest.mark.parametrize("column", ["command", "outcome", "digest"])
def test_a_flipped_byte_in_a_row_of_the_log_is_refused(database: Database, column: str) -> None:
    async def run() -> tuple[int, bool, str]:
        async with leading(database.dsn()) as node:
            await set_up(node)
            seq = node.seq // 2
            async with await psycopg.AsyncConnection.connect(database.dsn("superuser"), autocommit=True) as link:
                await link.execute(f"UPDATE bursa.command_log {CHANGED.format(column)}", (seq,))
                await link.execute("SELECT pg_terminate_backend(pid) FROM bursa.leader")
            async with asyncio.timeout(WAIT_S):
                while "not sound" not in node.detail:  # noqa: ASYNC110 - a test may poll
                    await asyncio.sleep(0.01)
            assert not node.is_ready
            with pytest.raises(UnavailableError):
                await node.submit(
                    CreditTopUp(command_id="x", party_id=1, currency=Currency.USD, micros=10**7, provider="stripe")
                )
            return seq, node.is_leader, node.detail

    seq, is_leader, detail = asyncio.run(run())
    assert not is_leader
    assert "bursa admin verify" in detail
    with connect(database.dsn()) as connection, pytest.raises(LogError, match=f"seq {seq}"):
        load(connection)
    report = verify(database.dsn())
    assert not report.is_ok
    assert f"seq {seq}" in report.differences[0]
