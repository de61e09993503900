"""The live tables follow from the log: a simulated market through the sequencer, verified, exported, tampered with."""

import asyncio
import io
from pathlib import Path

import pytest
from beancount import loader

from bursa.market import Rejected
from bursa.sequencer import export, verify
from bursa.sequencer.log import read_rows
from bursa.store import connect
from tests.postgres import Database
from tests.sequencer.recording import ManualClock, drive, leading, record, rules_of

pytestmark = pytest.mark.slow


def fill(database: Database, seed: int, commands: int, **options: int) -> int:
    """Put a simulated market through a node; return the newest seq."""
    kept = record(seed, commands)
    kept.insert(0, rules_of(kept))

    async def run() -> int:
        clock = ManualClock()
        async with leading(database.dsn(), clock, **options) as node:
            answers = await drive(node, clock, kept)
            assert node.seq > 0
        expected = [outcome.result for command, _, outcome in kept if type(command).__name__ != "Tick"]
        assert [answer.result for answer in answers] == expected
        assert any(isinstance(answer.result, Rejected) for answer in answers)
        return node.seq

    return asyncio.run(run())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_table_follows_from_the_log(database: Database, seed: int) -> None:
    seq = fill(database, seed, 2_000)
    report = verify(database.dsn())
    assert report.differences == ()
    assert report.is_ok
    assert report.seq == seq
    with connect(database.dsn("reader")) as connection:
        rows = list(read_rows(connection, 0))
        assert [row.seq for row in rows] == list(range(1, seq + 1))
        for table in (
            "orders",
            "trades",
            "rentals",
            "hosts",
            "balances",
            "candles",
            "transfers",
            "entries",
            "postings",
        ):
            count = connection.execute(f"SELECT count(*) FROM bursa.{table}").fetchone()  # noqa: S608
            assert count is not None
            assert count[0] > 0, table


def test_a_snapshot_shortens_the_replay_and_changes_nothing(database: Database) -> None:
    seq = fill(database, 4, 1_500, snapshot_commands=500)
    whole, short = verify(database.dsn()), verify(database.dsn(), from_genesis=False)
    assert whole.is_ok, whole.differences
    assert short.is_ok, short.differences
    assert whole.digest == short.digest
    assert short.seq == seq


def test_beancount_accepts_the_export(database: Database, tmp_path: Path) -> None:
    fill(database, 5, 1_500)
    path = tmp_path / "ledger.beancount"
    with path.open("wb") as out:
        count = export(database.dsn("reader"), "beancount", out)
    entries, errors, _ = loader.load_file(str(path))
    assert errors == []
    assert count > 500
    assert sum(type(entry).__name__ == "Transaction" for entry in entries) == count
    assert any(type(entry).__name__ == "Balance" for entry in entries)


def test_jsonl_and_csv_hold_every_posting(database: Database) -> None:
    fill(database, 6, 500)
    lines, table = io.BytesIO(), io.BytesIO()
    assert export(database.dsn("reader"), "jsonl", lines) == export(database.dsn("reader"), "csv", table)
    postings = lines.getvalue().count(b'"debit"')
    assert table.getvalue().count(b"\n") == postings + 1


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE bursa.orders SET leaves = leaves + 1 WHERE order_id = 1", "orders 1: leaves is"),
        ("DELETE FROM bursa.entries WHERE entry_id = 2", "entries 2: missing"),
        ("UPDATE bursa.balances SET available_micros = available_micros + 1 WHERE party_id = 1", "balances 1/"),
        ("UPDATE bursa.command_log SET at_ns = at_ns + 1 WHERE seq = 10", "log: digest: got 'seq 10'"),
        ("DELETE FROM bursa.command_log WHERE seq = 20", "log: seq: got 21, expected 20"),
        ("UPDATE bursa.postings SET debit_micros = debit_micros * 2 WHERE entry_id = 3", "postings 3/0"),
    ],
)
def test_whatever_is_changed_behind_the_log_is_found(database: Database, sql: str, said: str) -> None:
    fill(database, 7, 400)
    with connect(database.dsn("migrator"), autocommit=True) as connection:
        assert connection.execute(sql).rowcount > 0
    report = verify(database.dsn())
    assert not report.is_ok
    assert any(difference.startswith(said) for difference in report.differences), report.differences[:5]
