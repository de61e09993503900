"""Measure the service.

    python -m benchmarks.service [inprocess|http|peers|replay|takeover|reads|startup|all] [--quick] [--out FILE]

Prints a small table and the goals beside what was measured; a full run writes its results to results/. A goal missed
is not an error: the numbers are what they are. Exit code 1 means that something failed, answered with an error, or lost
what it had confirmed.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.market.measure import Result
from benchmarks.service import inprocess, over_http, peers, replay, report, startup, takeover
from benchmarks.service.measure import RESULTS, BenchError, environment

SEED: Final = 20_260_105

BENCHES: Final[dict[str, tuple[Callable[..., Result], Callable[[Result], report.Shown]]]] = {
    "inprocess": (inprocess.bench, report.show_inprocess),
    "http": (over_http.bench, report.show_http),
    "peers": (peers.bench, report.show_peers),
    "replay": (replay.bench, report.show_replay),
    "takeover": (takeover.bench, report.show_takeover),
    "reads": (over_http.bench_reads, report.show_reads),
    "startup": (startup.bench, report.show_startup),
}


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, print it, write it down; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description="Measure the service.")
    parser.add_argument("which", nargs="?", default="all", choices=[*BENCHES, "all"])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--out", type=Path, help="write results here (default: results/NAME.json, unless --quick)")
    chosen = parser.parse_args(arguments)
    faults: list[str] = []
    written: Result = {}
    for name in list(BENCHES) if chosen.which == "all" else [chosen.which]:
        measure, show = BENCHES[name]
        result = {"bench": name, "is_quick": chosen.quick, "seed": SEED, "environment": environment()}
        try:
            result |= measure(SEED, is_quick=chosen.quick)
        except BenchError as error:
            faults.append(f"{name}: {error}")
            continue
        text, found = show(result)
        print(f"{name}\n\n{text}\n", flush=True)
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
