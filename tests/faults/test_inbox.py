"""The inbox under faults: requests that become visible late, clients that are killed, a command sent twice."""

import asyncio
import signal
import time
import uuid
from pathlib import Path
from random import Random

import msgspec
import psycopg
import pytest

from bursa.market import CreditTopUp
from bursa.sequencer import Answer, Node
from bursa.sequencer.inbox import ANSWER_LIMIT_S, STALE_ANSWERS_S
from bursa.store import connect
from tests.faults.crew import Crew, wait_until
from tests.faults.market import top_up
from tests.faults.test_commits import count_once, find_counter
from tests.faults.test_kills import open_market
from tests.postgres import Database
from tests.sequencer.recording import leading

pytestmark = pytest.mark.slow

#: Sessions that hold an insert open at the same time, and how often that is done.
OPEN_INSERTS = 15
ROUNDS = 4
WAIT_S = 30

#: Ends the sessions of both sides of the inbox, which have no name, and leaves those of the nodes alone.
END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND usename = 'bursa_app' AND application_name = ''"
)
_pack = msgspec.msgpack.Encoder().encode
INSERT = (
    "INSERT INTO bursa.inbox (client_id, command, is_fresh, created_at)"
    " VALUES (%s, %s, false, now() - make_interval(secs => %s)) RETURNING request_id"
)


async def hand_over(link: psycopg.AsyncConnection[tuple[object, ...]], command: CreditTopUp, age_s: float = 0) -> int:
    """Put a request into the inbox, in the link's transaction; return its number."""
    row = await (await link.execute(INSERT, (uuid.uuid4(), _pack(command), age_s))).fetchone()
    assert row is not None
    number = row[0]
    assert isinstance(number, int)
    return number


async def wait_answers(link: psycopg.AsyncConnection[tuple[object, ...]], numbers: list[int]) -> None:
    """Wait until requests are answered."""
    async with asyncio.timeout(WAIT_S):
        while True:
            cursor = await link.execute("SELECT count(*) FROM bursa.answers WHERE request_id = ANY(%s)", (numbers,))
            if await cursor.fetchone() == (len(numbers),):
                return
            await asyncio.sleep(0.01)


def test_a_request_that_becomes_visible_late_is_not_missed(database: Database) -> None:
    """Numbers are given at the insert, rows are seen from the commit on: here in an order of chance."""
    open_market(database.dsn())
    rng = Random(3)
    command_ids: list[str] = []

    async def run() -> None:
        party_id = find_counter(database)
        async with leading(database.dsn()) as node:
            links = [await psycopg.AsyncConnection.connect(database.dsn()) for _ in range(OPEN_INSERTS)]
            async with await psycopg.AsyncConnection.connect(database.dsn(), autocommit=True) as look:
                for number in range(ROUNDS):
                    ids = [f"late-{number}-{place}" for place in range(OPEN_INSERTS)]
                    command_ids.extend(ids)
                    requests = [
                        await hand_over(link, top_up(name, party_id)) for link, name in zip(links, ids, strict=True)
                    ]
                    assert requests == sorted(requests)
                    order = list(range(OPEN_INSERTS))
                    rng.shuffle(order)
                    seen = []
                    for place in order:
                        await links[place].commit()
                        seen.append(requests[place])
                        if rng.random() < 0.5:  # what came before is answered before the next becomes visible
                            await wait_answers(look, seen)
                    await wait_answers(look, requests)
            for link in links:
                await link.close()
            assert node.is_leader
            answers = [await node.submit(top_up(name, party_id)) for name in command_ids]
            assert all(answer.is_repeat for answer in answers)
        count_once(database.dsn(), command_ids, answers)

    asyncio.run(run())


def test_what_a_killed_client_left_is_carried_out_once_and_its_answers_are_removed(
    database: Database, tmp_path: Path
) -> None:
    open_market(database.dsn())

    def count_answers() -> int:
        row = connection.execute("SELECT count(*) FROM bursa.answers").fetchone()
        assert row is not None
        return int(row[0])

    with Crew(database.dsn(), tmp_path) as crew, connect(database.dsn("superuser"), autocommit=True) as connection:
        crew.hire("engine")
        web = crew.hire("web", "--web")
        crew.wait_progress()
        while not count_answers():  # stopped first, so that the engine surely answers somebody who is gone
            web.send(signal.SIGCONT)
            crew.wait_progress(1)
            web.send(signal.SIGSTOP)
            time.sleep(0.2)
        web.kill()
        crew.finish()
        crew.check()
        assert count_answers() > 0
        assert connection.execute("SELECT count(*) FROM bursa.inbox").fetchone() == (0,)
        connection.execute("UPDATE bursa.answers SET created_at = now() - interval '1 second' * %s", (STALE_ANSWERS_S,))
        crew.workers[0].start()
        wait_until("stale answers to be removed", lambda: count_answers() == 0)


def test_a_client_whose_sessions_end_sends_again_at_once(database: Database) -> None:
    """It need not wait until it gives its answer up: the same command with the same id is safe to send."""
    open_market(database.dsn())
    command_ids = [f"again-{number}" for number in range(5)]

    async def run() -> list[Answer]:
        party_id = find_counter(database)
        answers = []
        async with leading(database.dsn()) as leader:
            web = Node(database.dsn(), may_lead=False)
            await web.start()
            try:
                await web.submit(top_up("first", party_id))
                async with await psycopg.AsyncConnection.connect(database.dsn("superuser"), autocommit=True) as link:
                    for name in command_ids:
                        await link.execute(END_OTHERS)
                        async with asyncio.timeout(ANSWER_LIMIT_S - 1):
                            answers.append(await web.submit(top_up(name, party_id)))
            finally:
                await web.stop()
            assert leader.is_leader
        return answers

    answers = asyncio.run(run())
    assert all(answer.seq > 0 for answer in answers)


def test_the_copy_in_the_inbox_comes_first_and_a_request_that_nobody_waits_for_is_not_read(database: Database) -> None:
    """A client that was killed sends its command again; neither copy may be decided behind the other's back."""
    open_market(database.dsn())

    async def run() -> None:
        party_id = find_counter(database)
        async with await psycopg.AsyncConnection.connect(database.dsn(), autocommit=True) as link:
            await hand_over(link, top_up("copy", party_id))
            expired = await hand_over(link, top_up("expired", party_id), ANSWER_LIMIT_S + 1)
            node = Node(database.dsn())
            await node.start()
            try:
                async with asyncio.timeout(WAIT_S):
                    while not node.is_leader:  # noqa: ASYNC110 - it must be the next thing that happens
                        await asyncio.sleep(0)
                answer = await node.submit(top_up("copy", party_id))
                assert answer.is_repeat
                cursor = await link.execute("SELECT request_id FROM bursa.inbox")
                assert await cursor.fetchall() == []
                cursor = await link.execute("SELECT 1 FROM bursa.answers WHERE request_id = %s", (expired,))
                assert await cursor.fetchone() is None
                assert not (await node.submit(top_up("expired", party_id))).is_repeat
            finally:
                await node.stop()

    asyncio.run(run())
