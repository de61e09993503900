"""Who leads: a standby takes over from a leader that was killed or stopped, and only one leads at any time."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bursa.sequencer.node import LEADER_SILENT_S
from bursa.store import connect
from tests.faults.crew import Crew, wait_until
from tests.faults.test_kills import open_market
from tests.postgres import Database

pytestmark = pytest.mark.slow

#: A stopped leader is replaced after LEADER_SILENT_S and this much, in seconds: the machine may be busy.
REPLACED_S = LEADER_SILENT_S + 25.0


@pytest.fixture
def crew(database: Database, tmp_path: Path) -> Iterator[Crew]:
    open_market(database.dsn())
    with Crew(database.dsn(), tmp_path) as crew:
        yield crew


def read_epochs(database: Database) -> list[tuple[int, int, int]]:
    """Return (epoch, its first seq, its last seq) of each epoch that wrote, in order."""
    with connect(database.dsn()) as connection:
        return connection.execute(
            "SELECT epoch, min(seq), max(seq) FROM bursa.command_log GROUP BY epoch ORDER BY epoch"
        ).fetchall()


def test_a_hot_standby_takes_over_from_a_killed_leader(crew: Crew) -> None:
    for name in ("first", "second"):
        crew.hire(name)
    crew.wait_progress()
    for _ in range(2):
        leader = crew.leader()
        assert leader is not None
        _, epoch = crew.leadership()
        killed = time.monotonic()
        leader.kill()
        successor = crew.wait_leader(other_than=leader)
        took_s = time.monotonic() - killed
        before = successor.count()
        wait_until("answers of the successor", lambda: successor.count() > before)  # noqa: B023 - called at once
        print(f"takeover after kill -9: epoch {took_s:.3f} s, next answer {time.monotonic() - killed:.3f} s")
        assert crew.leadership()[1] > epoch
        leader.start()
        crew.wait_progress()
    crew.finish()
    crew.check()


def test_of_two_standbys_one_leads_and_epochs_rise(crew: Crew, database: Database) -> None:
    workers = [crew.hire(name) for name in ("first", "second", "third")]
    crew.wait_progress()
    led = []
    for _ in range(2):
        leader = crew.leader()
        assert leader is not None
        led.append(crew.leadership())
        leader.kill()
        crew.wait_leader(other_than=leader)
        with connect(database.dsn("superuser")) as connection:
            locks = connection.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            ).fetchone()
        assert locks == (1,)
        leader.start()
        crew.wait_progress()
    led.append(crew.leadership())
    epochs = [epoch for _, epoch in led]
    assert epochs == sorted(set(epochs))
    assert all(worker.is_running for worker in workers)
    crew.finish()
    crew.check()
    # `check` saw epochs rise row by row; each wrote one stretch of the log and nothing outside it.
    stretches = read_epochs(database)
    assert [first for _, first, _ in stretches[1:]] == [last + 1 for _, _, last in stretches[:-1]]


def test_a_stopped_leader_is_replaced_and_comes_back_fenced(crew: Crew, database: Database) -> None:
    first, second = crew.hire("first"), crew.hire("second")
    crew.wait_progress()
    stopped = crew.leader()
    assert stopped is not None
    other = second if stopped is first else first
    _, epoch = crew.leadership()
    stopped.send(signal.SIGSTOP)
    began = time.monotonic()
    wait_until("a new leader", lambda: crew.leader() is other, REPLACED_S)
    print(f"a stopped leader is replaced after {time.monotonic() - began:.1f} s")
    before = other.count()
    wait_until("answers of the new leader", lambda: other.count() > before + 10)
    fenced_at = next(first for number, first, _ in read_epochs(database) if number > epoch)

    stopped.send(signal.SIGCONT)
    before = stopped.count()
    wait_until("answers for the old leader, from the new one", lambda: stopped.count() > before + 10)
    assert crew.leader() is other
    assert "leadership of epoch" in stopped.log
    assert os.waitpid(stopped.pid, os.WNOHANG) == (0, 0), "it goes on in the same process"
    crew.finish()
    crew.check()
    with connect(database.dsn()) as connection:
        late = connection.execute(
            "SELECT count(*) FROM bursa.command_log WHERE epoch <= %s AND seq >= %s", (epoch, fenced_at)
        ).fetchone()
    assert late == (0,)
