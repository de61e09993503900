"""How fast the log is read, decoded and carried out again, from its beginning and from a snapshot."""

import time
from collections.abc import Callable
from typing import Any, Final

import psycopg
import uvloop

from benchmarks.market.measure import Result
from benchmarks.service.measure import run_worker, wait_for_go
from benchmarks.service.streams import STREAMS, Drive, build, leading
from bursa.market import Engine
from bursa.sequencer import verify
from bursa.sequencer.log import (
    GENESIS,
    check_row,
    decode_command,
    decode_outcome,
    genesis,
    load,
    read_rows,
    replay,
    write_snapshot,
)
from tests.postgres import make_database, run_postgres

ASKS: Final = 1_000
COMMANDS: Final = 30_000
IN_FLIGHT: Final = 512


def bench(seed: int, *, is_quick: bool) -> Result:
    """Write a log of each stream, then read and replay it in a process of its own."""
    commands, asks = (300, 20) if is_quick else (COMMANDS, ASKS)
    results: Result = {}
    with run_postgres() as server:
        for stream in STREAMS:
            with make_database(server) as database:
                task: Result = {"kind": "record", "stream": stream, "asks": asks, "commands": commands, "seed": seed}
                written = run_worker(task, database.dsn("app"))
                measured = written if "failed" in written else run_worker({"kind": "replay"}, database.dsn("app"))
                results[stream] = {"written": written, **measured}
    return {"asks": asks, "streams": results}


def record(dsn: str, stream: str, asks: int, commands: int, seed: int) -> Result:
    """Write a log."""
    wait_for_go()

    async def run() -> Result:
        node = await leading(dsn, snapshot_commands=10**9)
        try:
            mix = await build(node, stream, asks, seed)
            return await Drive(node, mix, is_fresh=True).run(IN_FLIGHT, commands=commands)
        finally:
            await node.stop()

    return uvloop.run(run())


def measure(dsn: str) -> Result:
    """Read, decode, check and replay what is there."""
    wait_for_go()
    with psycopg.connect(dsn, autocommit=True) as connection:
        result: Result = {
            "read": _timed(lambda: _read(connection, is_decoding=False)),
            "read and decode": _timed(lambda: _read(connection, is_decoding=True)),
            "check the chain": _timed(lambda: _check(connection)),
            "replay with all checks": _timed(lambda: replay(connection, genesis()).seq),
        }
        result["bytes"] = _one(connection, "SELECT sum(length(command) + length(outcome)) FROM bursa.command_log")
        half = replay(connection, genesis(), result["read"]["rows"] // 2)
        data = half.engine.snapshot()
        connection.execute("DELETE FROM bursa.snapshots")  # the node left one at its end
        write_snapshot(connection, half, data)
        restored = _timed(lambda: _restore(data))
        loaded = _timed(lambda: load(connection).seq - half.seq)
        whole, part = replay(connection, genesis()), load(connection)
        result["agrees"] = whole.engine.digest() == part.engine.digest() and whole.digest == part.digest
    result["snapshot"] = {
        "bytes": len(data),
        "seq": half.seq,
        "restore_seconds": restored["seconds"],
        "load_seconds": loaded["seconds"],
        "rows_after": loaded["rows"],
        "per_second": loaded["rows"] / max(loaded["seconds"] - restored["seconds"], 1e-9),
    }
    start = time.perf_counter()
    report = verify(dsn)
    spent = time.perf_counter() - start
    result["verify"] = {"rows": report.commands, "seconds": spent, "per_second": report.commands / spent}
    result["is_ok"] = report.is_ok
    return result


def _timed(work: Callable[[], int]) -> Result:
    start, cpu = time.perf_counter(), time.process_time()
    rows = work()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"rows": rows, "seconds": wall, "cpu_seconds": cpu, "per_second": rows / wall}


def _read(connection: psycopg.Connection[Any], *, is_decoding: bool) -> int:
    count = 0
    for row in read_rows(connection, 0):
        if is_decoding:
            decode_command(row.command)
            decode_outcome(row.outcome)
        count += 1
    return count


def _check(connection: psycopg.Connection[Any]) -> int:
    digest, count = GENESIS, 0
    for row in read_rows(connection, 0):
        check_row(row, digest)
        digest = row.digest
        count += 1
    return count


def _restore(data: bytes) -> int:
    Engine.restore(data)
    return 1


def _one(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])
