"""Ours beside the classic way and beside django-hordak, on one server, in one run."""

from collections.abc import Callable
from typing import Final

from benchmarks.market.measure import Result
from benchmarks.service import classic
from benchmarks.service.measure import best_of, failure_of, latencies, run_worker, run_workers
from benchmarks.service.report import ratios
from bursa.store import EmbeddedPostgres
from tests.postgres import Database, make_database, run_postgres

ASKS: Final = 1_000
SECONDS: Final = 2.5
ROUNDS: Final = 2
OURS: Final = (1, 8, 64)
#: (way of the classic contender, connections).
CLASSIC: Final = (("statements", 1), ("statements", 8), ("function", 1), ("function", 8))
HORDAK: Final = (1, 8)
QUICK_CLASSIC: Final = (("statements", 2), ("function", 1))
QUICK_HORDAK: Final = (1,)


def bench(seed: int, *, is_quick: bool) -> Result:
    """Measure all contenders in rounds, every other round in reverse."""
    seconds, asks, rounds = (0.3, 100, 1) if is_quick else (SECONDS, ASKS, ROUNDS)
    with run_postgres() as server, make_database(server, is_migrated=False) as tables, \
            make_database(server, is_migrated=False) as hordak:  # fmt: skip
        classic.prepare(tables.dsn("migrator"))
        prepared = run_worker({"kind": "hordak", "seconds": 0, "seed": 0, "is_preparing": True}, hordak.dsn("migrator"))
        runs: dict[str, Callable[[], Result]] = {}
        for in_flight in OURS[-1:] if is_quick else OURS:
            runs[f"bursa, {in_flight} in flight"] = _ours(server, asks, in_flight, seconds, seed)
        for way, connections in QUICK_CLASSIC if is_quick else CLASSIC:
            runs[f"classic, {way}, {_count(connections)}"] = _classic(tables, way, connections, seconds, seed)
        for connections in QUICK_HORDAK if is_quick else HORDAK:
            name = f"django-hordak, {_count(connections)}"
            runs[name] = (lambda: prepared) if "failed" in prepared else _hordak(hordak, connections, seconds, seed)
        results: dict[str, list[Result]] = {name: [] for name in runs}
        for number in range(rounds):
            for name in list(runs) if number % 2 == 0 else list(runs)[::-1]:
                results[name].append(runs[name]())
    best = {name: best_of(found)["per_second"] for name, found in results.items() if not failure_of(found)}
    return {"contenders": results, "ratios": ratios(best)}


def _count(connections: int) -> str:
    return "1 connection" if connections == 1 else f"{connections} connections"


def _ours(server: EmbeddedPostgres, asks: int, in_flight: int, seconds: float, seed: int) -> Callable[[], Result]:
    def run() -> Result:
        task: Result = {
            "kind": "inprocess", "stream": "order flow", "asks": asks, "in_flight": in_flight, "seconds": seconds,
            "seed": seed, "is_asked": False, "postmaster": server.pid,
        }  # fmt: skip
        with make_database(server) as database:
            return run_worker(task, database.dsn("app"))

    return run


def _classic(tables: Database, way: str, connections: int, seconds: float, seed: int) -> Callable[[], Result]:
    def run() -> Result:
        tasks: list[Result] = [
            {"kind": "classic", "way": way, "seconds": seconds, "seed": seed + number} for number in range(connections)
        ]
        result = _together(run_workers(tasks, tables.dsn("migrator")))
        if "failed" not in result and (wrong := classic.check(tables.dsn("migrator"), result["orders"])):
            return {"failed": wrong}
        return result

    return run


def _hordak(database: Database, connections: int, seconds: float, seed: int) -> Callable[[], Result]:
    def run() -> Result:
        tasks: list[Result] = [
            {"kind": "hordak", "seconds": seconds, "seed": seed + number} for number in range(connections)
        ]
        return _together(run_workers(tasks, database.dsn("migrator")))

    return run


def _together(results: list[Result]) -> Result:
    """Return one result for processes that ran side by side, one connection each."""
    if "failed" in results[0]:
        return results[0]
    times = [seconds for result in results for seconds in result.pop("times")]
    rate = sum(result["per_second"] for result in results)
    return {"connections": len(results), "orders": len(times), "per_second": rate} | latencies(times)
