"""Measure the market: `python -m benchmarks.market [plain|engine|auction|snapshot|all] [--quick] [--out FILE]`.

Prints a small table and the goals beside what was measured; a full run writes its results to results/. A goal missed
is not an error: the numbers are what they are. Exit code 1 means that a benchmark failed or disagreed with its referee.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.market import report
from benchmarks.market.measure import RESULTS, Result, environment, rounds, run_worker
from benchmarks.market.peers import CONTENDERS

SEED: Final = 20_260_105


def bench_plain(*, is_quick: bool) -> Result:
    """Measure the plain stream by all contenders, and the real engine on a stream mapped to it."""
    sizes = (2_000,) if is_quick else (20_000, 200_000)
    rounds_count = 1 if is_quick else 5
    result: Result = {"sizes": {}}
    for ops in sizes:
        tasks: list[Result] = [
            {"kind": "plain", "contender": name, "ops": min(ops, 500) if is_quick and name == "order-matching" else ops}
            | {"seed": SEED}
            for name in CONTENDERS
        ]
        runs = rounds(tasks, rounds_count)
        result["sizes"][str(ops)] = {task["contender"]: run for task, run in zip(tasks, runs, strict=True)}
    mapped = {"kind": "mapped", "ops": 300 if is_quick else 20_000, "seed": SEED}
    result["engine on the same kind of stream"] = rounds([mapped], 1 if is_quick else 3)[0]
    return result


def bench_engine(*, is_quick: bool) -> Result:
    """Measure the steady mix and the needles by the number of resting asks."""
    sizes = (20, 100) if is_quick else (100, 1_000, 10_000, 100_000)
    commands = 400 if is_quick else 40_000
    mixes: list[Result] = [{"kind": "mix", "asks": asks, "commands": commands, "seed": SEED} for asks in sizes]
    needle_sizes = (20,) if is_quick else (1_000, 10_000, 100_000)
    needles: list[Result] = [
        {"kind": "needle", "asks": asks, "commands": 200 if is_quick else 4_000, "seed": SEED, "needles": needles}
        for needles in ("region", "pair")
        for asks in needle_sizes
    ]
    count = 1 if is_quick else 3
    return {"mix": rounds(mixes, count), "needle": rounds(needles, 1 if is_quick else 2)}


def bench_auction(*, is_quick: bool) -> Result:
    """Measure one big auction, and how near to the optimum small ones come."""
    bids, asks, books = (40, 20, 10) if is_quick else (2_000, 1_000, 400)
    big = {"kind": "auction", "bids": bids, "asks": asks, "seed": SEED}
    small = {"kind": "optimum", "books": books, "seed": SEED}
    return {"auction": rounds([big], 1 if is_quick else 5)[0], "optimum": run_worker(small)}


def bench_snapshot(*, is_quick: bool) -> Result:
    """Measure a million open orders: time to save and to load, bytes an order."""
    memory = {"kind": "memory", "orders": 2_000 if is_quick else 1_000_000, "seed": SEED}
    traced = {"kind": "traced", "orders": 1_000 if is_quick else 160_000, "seed": SEED}
    return {"memory": rounds([memory], 1 if is_quick else 2)[0], "traced": run_worker(traced)}


BENCHES: Final[dict[str, tuple[Callable[..., Result], Callable[[Result], report.Shown]]]] = {
    "plain": (bench_plain, report.show_plain),
    "engine": (bench_engine, report.show_engine),
    "auction": (bench_auction, report.show_auction),
    "snapshot": (bench_snapshot, report.show_snapshot),
}


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, print it, write it down; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market", description="Measure the market.")
    parser.add_argument("which", nargs="?", default="all", choices=[*BENCHES, "all"])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--out", type=Path, help="write results here (default: results/NAME.json, unless --quick)")
    chosen = parser.parse_args(arguments)
    names = list(BENCHES) if chosen.which == "all" else [chosen.which]
    faults: list[str] = []
    written: Result = {}
    for name in names:
        measure, show = BENCHES[name]
        result = {"bench": name, "is_quick": chosen.quick, "seed": SEED, "environment": environment()}
        result |= measure(is_quick=chosen.quick)
        text, found = show(result)
        print(f"{name}\n\n{text}\n")
        faults += found
        written[name] = result
        if not chosen.quick and chosen.out is None:
            _write(RESULTS / f"{name}.json", result)
    if chosen.out is not None:
        _write(chosen.out, written)
    for fault in faults:
        print(f"FAULT  {fault}")
    return 1 if faults else 0


def _write(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path}")


if __name__ == "__main__":
    sys.exit(main())
