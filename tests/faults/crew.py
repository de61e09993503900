"""The harness of the fault tests: workers in processes of their own, ways to hurt them, and what must be true after.

Everything that is started here is a child that is killed by its pid and reaped, whatever happens in a test.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import psycopg

from bursa.errors import DatabaseUnavailableError
from bursa.sequencer import verify
from bursa.sequencer.log import decode_outcome, read_rows
from bursa.store import connect
from tests.faults.journal import Acknowledged, Journal, digest_of
from tests.faults.market import TOP_UP_MICROS, counter_id

#: How long anything may take before a test fails, in seconds: the machine may be busy.
PATIENCE_S: Final = 60.0
#: How often a test looks again, in seconds.
POLL_S: Final = 0.01
#: How much of a worker's log a failure shows, in characters.
LOG_CHARS: Final = 4_000
_ROOT: Final = Path(__file__).resolve().parents[2]


def wait_until(what: str, is_so: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait for something to become true; AssertionError when it does not in time."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {patience_s} s"
        time.sleep(POLL_S)


class Worker:
    """One process of tests.faults.worker, which can be started again under the same name."""

    def __init__(self, dsn: str, folder: Path, name: str, *options: str) -> None:
        self.name = name
        self._dsn = dsn
        self._folder = folder
        self._options = options
        self.is_web = "--web" in options
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Start the process."""
        assert self._process is None, self.name
        self._starts += 1
        command = [sys.executable, "-m", "tests.faults.worker", str(self._folder), self.name, str(self._starts)]
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._options, *more],
                cwd=_ROOT,
                env={**os.environ, "BURSA_TEST_DSN": self._dsn},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """The process's pid."""
        assert self._process is not None, self.name
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the process said, in all its runs."""
        return (self._folder / f"{self.name}.log").read_text()

    def send(self, what: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None, self.name
        self._process.send_signal(what)

    def kill(self) -> None:
        """Kill -9 and reap; does nothing when there is no process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def finished(self) -> Path:
        """The file that it makes when all is answered."""
        return self._folder / f"{self.name}.finished"

    def count(self) -> int:
        """Return how many answers it has written down."""
        path = self._folder / f"{self.name}.acknowledged"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def journal(self) -> Journal:
        """Open what it wrote down."""
        return Journal(self._folder, self.name)


class Crew:
    """Workers on one database. Leaving the block kills those that run."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
        if kind is not None:
            for worker in self.workers:
                sys.stderr.write(f"--- {worker.name}\n{worker.log[-LOG_CHARS:]}\n")

    def hire(self, name: str, *options: str) -> Worker:
        """Start a worker: it may lead, unless ``options`` has --web."""
        worker = Worker(self._dsn, self._folder, name, *options)
        self.workers.append(worker)
        worker.start()
        return worker

    def leader(self) -> Worker | None:
        """Return the worker that leads, as far as the database knows; None when nobody, or it does not answer."""
        holder, _ = self.leadership()
        return next((worker for worker in self.workers if worker.is_running and worker.pid == holder), None)

    def leadership(self) -> tuple[int, int]:
        """Return the pid of the process that took the lead last, and its epoch; zeros when nobody can say."""
        try:
            with connect(self._dsn, autocommit=True) as connection:
                row = connection.execute("SELECT holder, epoch FROM bursa.leader").fetchone()
        except (psycopg.Error, DatabaseUnavailableError):
            return 0, 0
        assert row is not None
        return int(row[0].rpartition(":")[2] or 0), row[1]

    def wait_leader(self, other_than: Worker | None = None) -> Worker:
        """Wait until a worker leads, another one than the given; return it."""
        found: list[Worker] = []

        def is_so() -> bool:
            worker = self.leader()
            if worker is not None and worker is not other_than:
                found.append(worker)
            return bool(found)

        wait_until("a leader", is_so)
        return found[0]

    def wait_progress(self, answers: int = 3) -> None:
        """Wait until each worker that runs got some more answers."""
        waiting = {worker: worker.count() + answers for worker in self.workers}
        deadline = time.monotonic() + PATIENCE_S
        while waiting := {worker: count for worker, count in waiting.items() if worker.count() < count}:
            assert time.monotonic() < deadline, f"no more answers for {[worker.name for worker in waiting]}"
            time.sleep(POLL_S)

    def finish(self) -> None:
        """Stop all load, and let each worker get the answers that it still waits for."""
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.finished.unlink(missing_ok=True)
            worker.start("--finish")
        for worker in self.workers:
            wait_until(f"the last answers of {worker.name}", worker.finished.exists)
        for worker in self.workers:
            worker.kill()

    def check(self) -> dict[str, int]:
        """Check all that must be true after `finish`; return what was counted."""
        sent: dict[str, Any] = {}
        answered: dict[str, Acknowledged] = {}
        for worker in self.workers:
            with worker.journal() as journal:
                sent |= journal.sent()
                ones = journal.acknowledged()
                assert len({one.command_id for one in ones}) == len(ones), f"{worker.name}: answered twice"
                answered |= {one.command_id: one for one in ones}
        assert answered.keys() == sent.keys()
        with connect(self._dsn, autocommit=True) as connection:
            counts = _check_log(connection, sent, answered)
        report = verify(self._dsn)
        assert report.is_ok, report.differences
        assert report.seq == counts["rows"]
        return counts


def _check_log(
    connection: psycopg.Connection[Any], sent: dict[str, Any], answered: dict[str, Acknowledged]
) -> dict[str, int]:
    """Compare the log with the answers: nothing lost, nothing twice, nothing that nobody sent, seq dense."""
    seqs: Counter[str] = Counter()
    lost: list[Acknowledged] = []
    epoch = rows = top_ups = 0
    for row in read_rows(connection, 0):
        rows += 1
        assert row.seq == rows
        assert row.epoch >= epoch, f"seq {row.seq}: epoch {row.epoch} wrote after epoch {epoch}"
        epoch = row.epoch
        seqs[row.command_id] += 1
        one = answered.get(row.command_id)
        if one is None:
            assert row.kind == "Tick" or row.command_id.startswith("setup-"), row.command_id
            continue
        outcome = decode_outcome(row.outcome)
        # Seq 0: a repeat whose place was forgotten; that is an answer of the first time too.
        if one.digest != digest_of(outcome) or one.seq not in (row.seq, 0):
            lost.append(one)
        top_ups += type(sent[row.command_id]).__name__ == "CreditTopUp"
    lost += [one for one in answered.values() if one.seq and one.command_id not in seqs]
    assert not lost, f"{len(lost)} answers are not in the log: {lost[:5]}"
    assert max(seqs.values()) == 1
    balance = connection.execute(
        "SELECT available_micros FROM bursa.balances WHERE party_id = %s", (counter_id(connection),)
    ).fetchone()
    assert (balance[0] if balance else 0) == top_ups * TOP_UP_MICROS, "a top-up was lost or made twice"
    accepted = sum(name in seqs for name in answered)
    return {
        "rows": rows, "epochs": epoch, "sent": len(sent), "accepted": accepted, "refused": len(sent) - accepted,
        "top_ups": top_ups,
    }  # fmt: skip
