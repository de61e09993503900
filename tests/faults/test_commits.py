"""A COMMIT whose outcome nobody told us: the session is ended before it, after it, and at any moment in between.

Whoever waits submits the same command again (a node does so by itself) and it is carried out exactly once.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import LiteralString

import psycopg
import pytest

from bursa.market import Done
from bursa.sequencer import Answer, Node, verify
from bursa.store import EmbeddedPostgres, connect
from tests.faults.market import TOP_UP_MICROS, counter_id, set_up, top_up
from tests.postgres import Database, make_database, run_postgres
from tests.sequencer.recording import leading

pytestmark = pytest.mark.slow

#: Sessions that are ended at random moments, and commands in flight meanwhile.
CUTS = 10
IN_FLIGHT = 8
WAIT_S = 30
#: How often a COMMIT is cut off until it is one that holds the command.
ATTEMPTS = 10

_IS_WAITING = (
    "SELECT wait_event_type = %s AND wait_event = %s FROM pg_stat_activity WHERE pid = (SELECT pid FROM bursa.leader)"
)
_IS_BATCH = "SELECT query LIKE '%NOTIFY bursa_log%' FROM pg_stat_activity WHERE pid = (SELECT pid FROM bursa.leader)"
_END = "SELECT pg_terminate_backend(pid, 5000) FROM bursa.leader"


def count_once(dsn: str, command_ids: list[str], answers: list[Answer]) -> None:
    """Check that each command is in the log once, at the place that its answer names, and had its effect once."""
    with connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT command_id, seq FROM bursa.command_log WHERE command_id = ANY(%s)", (command_ids,)
        ).fetchall()
        balance = connection.execute(
            "SELECT available_micros FROM bursa.balances WHERE party_id = %s", (counter_id(connection),)
        ).fetchone()
    assert sorted(name for name, _ in rows) == sorted(command_ids)
    assert all(isinstance(answer.result, Done) for answer in answers)
    seqs: dict[str, int] = dict(rows)
    assert [answer.seq for answer in answers] == [seqs[name] for name in command_ids]
    assert balance == (len(command_ids) * TOP_UP_MICROS,)
    report = verify(dsn)
    assert report.is_ok, report.differences


def find_counter(database: Database) -> int:
    """Return the party whose top-ups are counted."""
    with connect(database.dsn()) as connection:
        return counter_id(connection)


async def wait_for(link: psycopg.AsyncConnection[tuple[object, ...]], kind: str, event: str) -> None:
    """Wait until the leader's session waits for something."""
    async with asyncio.timeout(WAIT_S):
        while True:
            row = await (await link.execute(_IS_WAITING, (kind, event))).fetchone()
            if row is not None and row[0]:
                return
            await asyncio.sleep(0.002)


def test_a_session_that_ends_between_copy_and_commit(database: Database) -> None:
    """The rows are copied; a lock on a table that the batch changes next holds the transaction there until it ends."""

    async def run() -> list[Answer]:
        async with leading(database.dsn()) as node:
            await set_up(node)
            party_id, epoch = find_counter(database), node.epoch
            async with await psycopg.AsyncConnection.connect(database.dsn("superuser"), autocommit=True) as link:
                async with await psycopg.AsyncConnection.connect(database.dsn("superuser")) as holder:
                    await holder.execute("LOCK TABLE bursa.balances IN SHARE ROW EXCLUSIVE MODE")
                    waiting = asyncio.create_task(node.submit(top_up("cut", party_id), is_fresh=True))
                    await wait_for(link, "Lock", "relation")
                    await link.execute(_END)
                    await holder.rollback()
                answer = await waiting
            assert node.epoch > epoch
            assert not answer.is_repeat
            return [answer]

    count_once(database.dsn(), ["cut"], asyncio.run(run()))


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedPostgres]:
    """Give a test a server whose settings it may change."""
    with run_postgres() as server:
        yield server


@contextmanager
def no_standby(server: EmbeddedPostgres) -> Iterator[None]:
    """Let every COMMIT wait for a replica that does not exist, after it is done on the server's own disk."""
    with connect(server.dsn("superuser", "postgres"), autocommit=True) as link:
        link.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        link.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            link.execute("ALTER SYSTEM RESET synchronous_standby_names")
            link.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize(
    "how",
    ["SELECT pg_terminate_backend(pid) FROM bursa.leader", "SELECT pg_cancel_backend(pid) FROM bursa.leader"],
    ids=["the end", "a notice"],
)
def test_a_session_that_ends_after_its_commit_was_sent(own_server: EmbeddedPostgres, how: LiteralString) -> None:
    """The COMMIT is done but not confirmed: the session ends, or it says so only in a notice."""

    async def cut(server: EmbeddedPostgres, database: Database, node: Node, name: str) -> tuple[Answer, bool]:
        """Cut a COMMIT off; return the answer, and whether it was the command's, not an idle leader's sign of life."""
        party_id = find_counter(database)
        async with await psycopg.AsyncConnection.connect(database.dsn("superuser"), autocommit=True) as link:
            with no_standby(server):
                waiting = asyncio.create_task(node.submit(top_up(name, party_id), is_fresh=True))
                await wait_for(link, "IPC", "SyncRep")
                is_ours = await (await link.execute(_IS_BATCH)).fetchone() == (True,)
                await link.execute(how)
                await asyncio.sleep(0.05)
            return await waiting, is_ours

    async def run(server: EmbeddedPostgres, database: Database) -> list[Answer]:
        answers: list[Answer] = []
        is_ours = False
        async with leading(database.dsn()) as node:
            await set_up(node)
            while not is_ours and len(answers) < ATTEMPTS:
                epoch = node.epoch
                answer, is_ours = await cut(server, database, node, f"cut-{len(answers)}")
                answers.append(answer)
                assert node.epoch > epoch
        assert is_ours
        assert answers[-1].is_repeat
        return answers

    with make_database(own_server) as database:
        answers = asyncio.run(run(own_server, database))
        count_once(database.dsn(), [f"cut-{number}" for number in range(len(answers))], answers)


def test_sessions_that_end_at_any_moment(database: Database) -> None:
    rng = Random(5)
    command_ids: list[str] = []

    async def keep_sending(node: Node, party_id: int, name: str, answers: dict[str, Answer]) -> None:
        number = 0
        while not is_done.is_set():
            command_id = f"{name}-{number}"
            command_ids.append(command_id)
            answers[command_id] = await node.submit(top_up(command_id, party_id), is_fresh=True)
            number += 1

    async def run() -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        async with leading(database.dsn()) as node:
            await set_up(node)
            party_id = find_counter(database)
            senders = [
                asyncio.create_task(keep_sending(node, party_id, f"s{number}", answers)) for number in range(IN_FLIGHT)
            ]
            async with await psycopg.AsyncConnection.connect(database.dsn("superuser"), autocommit=True) as link:
                for _ in range(CUTS):
                    seq = node.seq
                    async with asyncio.timeout(WAIT_S):
                        while node.seq < seq + IN_FLIGHT:  # noqa: ASYNC110 - a test may poll
                            await asyncio.sleep(0.001)
                    await asyncio.sleep(rng.random() * 0.02)
                    await link.execute("SELECT pg_terminate_backend(pid) FROM bursa.leader")
            is_done.set()
            await asyncio.gather(*senders)
            assert node.epoch > CUTS // 2
        return answers

    is_done = asyncio.Event()
    answers = asyncio.run(run())
    count_once(database.dsn(), command_ids, [answers[name] for name in command_ids])
    with connect(database.dsn()) as connection:
        epochs = connection.execute("SELECT count(DISTINCT epoch) FROM bursa.command_log").fetchone()
    assert epochs is not None
    assert epochs[0] > CUTS // 2
