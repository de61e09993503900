"""kill -9 of engine, standby, API-side process and postmaster at random moments under load, again and again.

Ten rounds belong to every test run; the long run is `BURSA_TEST_KILL_ROUNDS=200 make test ARGS='-k kill -s'`.
"""

import asyncio
import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Final

import pytest

from bursa.sequencer import Node
from bursa.store import EmbeddedPostgres
from tests.faults.crew import Crew, wait_until
from tests.faults.market import set_up
from tests.postgres import make_folder, run_postgres

pytestmark = pytest.mark.slow

ROUNDS: Final = int(os.environ.get("BURSA_TEST_KILL_ROUNDS", "10"))
SEED: Final = int(os.environ.get("BURSA_TEST_KILL_SEED", "1"))
#: The longest that a round lets the load run before it kills, in seconds.
LOAD_S: Final = 0.5
VICTIMS: Final = ("leader", "standby", "web", "postmaster", "everything")


def open_market(dsn: str) -> None:
    """Set the market up through a node that is gone afterwards."""

    async def run() -> None:
        node = Node(dsn)
        await node.start()
        await set_up(node)
        await node.stop()

    asyncio.run(run())


def kill_postmaster(server: EmbeddedPostgres) -> None:
    """Kill the database's first process; its supervisor starts another."""
    restarts = server.restarts
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until("a new postmaster", lambda: server.restarts > restarts and server.is_running)


def hurt(crew: Crew, server: EmbeddedPostgres, victim: str) -> None:
    """Kill one part of the exchange, or all of it, and start it again."""
    leader = crew.leader()
    standby = next(worker for worker in crew.workers if worker is not leader and not worker.is_web)
    chosen = {
        "leader": [leader or standby],
        "standby": [standby],
        "web": [worker for worker in crew.workers if worker.is_web],
        "postmaster": [],
        "everything": crew.workers,
    }[victim]
    for worker in chosen:
        worker.kill()
    if victim in ("postmaster", "everything"):
        kill_postmaster(server)
    for worker in chosen:
        worker.start()


def test_kill_9_of_any_process_loses_no_answer_and_does_nothing_twice() -> None:
    rng = Random(SEED)
    began = time.monotonic()
    plan = [VICTIMS[number % len(VICTIMS)] for number in range(ROUNDS)]
    rng.shuffle(plan)
    with make_folder() as folder, run_postgres() as server, Crew(server.dsn(), Path(folder)) as crew:
        open_market(server.dsn())
        crew.hire("first")
        crew.hire("second")
        crew.hire("web", "--web")
        crew.wait_progress()
        for number, victim in enumerate(plan, 1):
            time.sleep(rng.random() * LOAD_S)  # the load is real, and so is the moment
            hurt(crew, server, victim)
            crew.wait_progress()
            if number % 10 == 0:
                print(f"round {number}: {sum(w.count() for w in crew.workers)} answers")
        crew.finish()
        counts = crew.check()
    print(
        f"{ROUNDS} rounds of kill -9 (seed {SEED}) in {time.monotonic() - began:.0f} s:"
        f" {', '.join(f'{plan.count(name)} x {name}' for name in VICTIMS)}; 0 answers lost, 0 applied twice, verify ok;"
        f" {', '.join(f'{value} {name}' for name, value in counts.items())}"
    )
    assert counts["accepted"] > 10 * ROUNDS
    assert counts["epochs"] > ROUNDS // 3
