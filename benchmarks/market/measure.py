"""How things are measured: one process per contender, collector off in all of them, wall and CPU time, environment."""

import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = Path(__file__).parent / "results"
PACKAGES: Final = ("msgspec", "pyorderbook", "lightmatchingengine", "order-matching", "limit-order-book")
#: A contender that takes longer than this, in seconds, is ended and reported as such.
WORKER_SECONDS_MAX: Final = 900

Result = dict[str, Any]


@dataclass
class Span:
    """Wall and CPU seconds of one measured stretch."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def quiet_gc() -> Iterator[None]:
    """Collect once, then keep the collector off, for every contender alike: none pays for another's garbage."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def timed() -> Iterator[Span]:
    """Measure what runs inside, with the collector off."""
    span = Span()
    with quiet_gc():
        cpu, wall = time.process_time(), time.perf_counter()
        yield span
        span.wall, span.cpu = time.perf_counter() - wall, time.process_time() - cpu


def run_worker(task: Result) -> Result:
    """Run one task in a process of its own and return its result; a failure is a result too."""
    command = [sys.executable, "-m", "benchmarks.market.worker", json.dumps(task)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(  # noqa: S603 - this file's own worker
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WORKER_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {WORKER_SECONDS_MAX} s"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return result


def rounds(tasks: list[Result], count: int) -> list[list[Result]]:
    """Run all tasks ``count`` times, every other round in reverse: a slow spell of the machine hits all alike."""
    results: list[list[Result]] = [[] for _ in tasks]
    for number in range(count):
        order = range(len(tasks)) if number % 2 == 0 else range(len(tasks) - 1, -1, -1)
        for index in order:
            results[index].append(run_worker(tasks[index]))
    return results


def best_and_median(runs: list[Result], key: str) -> tuple[float, float]:
    """Return the smallest and the median value of a measured key; the smallest is the least disturbed run."""
    values = [run[key] for run in runs]
    return min(values), median(values)


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def environment() -> Result:
    """Return what a result needs to be judged: machine, date, versions, state of the tree."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_name(),
        "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "git": _git_state(),
    }


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _git_state() -> str:
    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
        return done.stdout.strip()

    commit = git("rev-parse", "--short", "HEAD") if git("rev-parse", "--verify", "-q", "HEAD") else "no commit yet"
    return f"{commit}, {'changed' if git('status', '--porcelain') else 'clean'}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return rows as text in columns; the first column is left, the others right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def goal_line(name: str, goal: str, measured: str, *, is_met: bool) -> str:
    """Return one line that says what was aimed at and what was measured."""
    return f"{'met   ' if is_met else 'MISSED'}  {name}: goal {goal}, measured {measured}"
