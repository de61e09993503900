"""Durable answers through `Node.submit`, in one process, by the number of commands in flight."""

import time
from typing import Final

import uvloop

from benchmarks.market.measure import Result
from benchmarks.service.measure import cpu_seconds, run_worker, wait_for_go
from benchmarks.service.streams import STREAMS, Drive, build, leading
from bursa.ops import metrics
from tests.postgres import make_database, run_postgres

ASKS: Final = 1_000
#: (commands in flight, whether the log is asked about each id first, as it is when a client sent an Idempotency-Key).
LEVELS: Final = ((1, False), (8, False), (64, False), (64, True), (512, False))
WARM_UP: Final = 2_000
SECONDS: Final = 2.0
ROUNDS: Final = 2


def bench(seed: int, *, is_quick: bool) -> Result:
    """Measure every stream at every level, each in a process and a database of its own, on one server."""
    seconds, asks, rounds = (0.3, 100, 1) if is_quick else (SECONDS, ASKS, ROUNDS)
    levels = LEVELS[2:4] if is_quick else LEVELS
    cases = [(stream, in_flight, is_asked) for stream in STREAMS for in_flight, is_asked in levels]
    runs: dict[tuple[str, int, bool], list[Result]] = {case: [] for case in cases}
    with run_postgres() as server:
        for number in range(rounds):
            for stream, in_flight, is_asked in cases if number % 2 == 0 else cases[::-1]:
                task: Result = {
                    "kind": "inprocess", "stream": stream, "asks": asks, "in_flight": in_flight, "seconds": seconds,
                    "seed": seed, "is_asked": is_asked, "postmaster": server.pid,
                }  # fmt: skip
                with make_database(server) as database:
                    runs[stream, in_flight, is_asked].append(run_worker(task, database.dsn("app")))
    return {"asks": asks, "cases": [{"stream": s, "in_flight": n, "is_asked": a, "runs": runs[s, n, a]}
                                    for s, n, a in cases]}  # fmt: skip


def measure(
    dsn: str, stream: str, asks: int, in_flight: int, seconds: float, seed: int, *, is_asked: bool, postmaster: int
) -> Result:
    """Measure one level; see `bench`. ``postmaster``: whose CPU time is PostgreSQL's."""
    wait_for_go()
    return uvloop.run(_measure(dsn, stream, asks, in_flight, seconds, seed, is_asked=is_asked, postmaster=postmaster))


async def _measure(
    dsn: str, stream: str, asks: int, in_flight: int, seconds: float, seed: int, *, is_asked: bool, postmaster: int
) -> Result:
    node = await leading(dsn)
    try:
        mix = await build(node, stream, asks, seed)
        drive = Drive(node, mix, is_fresh=not is_asked)
        await drive.run(in_flight, seconds=seconds / 2, commands=WARM_UP)
        mix.trades = 0
        batches, commands, commit_s = _batches()
        ours, main, theirs = time.process_time(), time.thread_time(), cpu_seconds(postmaster)
        result = await drive.run(in_flight, seconds=seconds)
        count = result["commands"]
        ours, main, theirs = time.process_time() - ours, time.thread_time() - main, cpu_seconds(postmaster) - theirs
        after = _batches()
    finally:
        await node.stop()
    return {
        **result,
        "trades": mix.trades,
        "batches": int(after[0] - batches),
        "commands_per_batch": (after[1] - commands) / max(after[0] - batches, 1),
        "commit_ms": (after[2] - commit_s) / max(after[0] - batches, 1) * 1e3,
        "cpu_us": {
            "event loop": main / count * 1e6,
            "writer and other threads": (ours - main) / count * 1e6,
            "postgres": theirs / count * 1e6,
        },
    }


def _batches() -> tuple[float, float, float]:
    """Return batches, commands in them, and seconds from the first COPY to the COMMIT, of this process so far."""
    sums = {
        sample.name: sample.value
        for metric in (metrics.BATCH_COMMANDS, metrics.COMMIT_SECONDS)
        for family in metric.collect()
        for sample in family.samples
    }
    return sums["bursa_batch_commands_count"], sums["bursa_batch_commands_sum"], sums["bursa_commit_seconds_sum"]
