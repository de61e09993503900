"""A full disk under a running exchange: no answers, the reason in words, and all goes on when there is space again."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from bursa.errors import UnavailableError
from bursa.market import Done
from bursa.sequencer import Answer, Node, verify
from bursa.server.assembly import describe_fault
from bursa.store import EmbeddedPostgres, connect, migrate
from tests.faults.market import counter_id, set_up, top_up
from tests.store.test_disk_full import small_disk

__all__ = ["small_disk"]  # a fixture

#: How long the disk stays full after the first refusal, in seconds.
FULL_S = 3.0
#: Commands that a disk without space takes at most before one does not fit.
FITTING_MAX = 5_000
WAIT_S = 60
FULL = "the disk of the database is full"
CHUNK_BYTES = 1 << 16


def fill_up(path: Path) -> None:
    """Write a file until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(CHUNK_BYTES))
        except OSError:
            pass


async def send(node: Node, party_id: int, name: str) -> Answer | None:
    """Send a top-up; None when the exchange cannot answer."""
    try:
        return await node.submit(top_up(name, party_id))
    except UnavailableError:
        return None


async def use(server: EmbeddedPostgres, ballast: Path) -> tuple[list[str], set[str]]:
    """Trade, fill the disk, trade, free it, trade; return the ids that were answered and what the node said."""
    answered: list[str] = []
    said: set[str] = set()
    node = Node(server.dsn(), describe_fault=lambda: describe_fault(server.last_error, is_running=server.is_running))
    await node.start()
    try:
        async with asyncio.timeout(WAIT_S):
            while not node.is_leader:  # noqa: ASYNC110 - a test may poll
                await asyncio.sleep(0.01)
        await set_up(node)
        with connect(server.dsn()) as connection:
            party_id = counter_id(connection)
        fill_up(ballast)
        while await send(node, party_id, f"n-{len(answered)}") is not None:
            answered.append(f"n-{len(answered)}")
            assert len(answered) < FITTING_MAX
        missing = f"n-{len(answered)}"
        is_said = False
        until = time.monotonic() + FULL_S
        trying = asyncio.create_task(send(node, party_id, missing))
        while time.monotonic() < until or not trying.done():
            if trying.done():
                assert trying.result() is None, "an answer though nothing can be kept"
                trying = asyncio.create_task(send(node, party_id, missing))
            said.add(node.detail)
            is_said = is_said or FULL in node.detail
            assert is_said or time.monotonic() < until
            assert not (is_said and node.is_ready), "ready though nothing can be kept"
            await asyncio.sleep(0.01)
        assert trying.result() is None
        os.unlink(ballast)  # noqa: PTH108 - quick, though in the event loop
        async with asyncio.timeout(WAIT_S):
            while (answer := await send(node, party_id, missing)) is None:
                said.add(node.detail)
        assert isinstance(answer.result, Done)
        answered.append(missing)
        assert node.is_ready
        assert await send(node, party_id, "after") is not None
        answered.append("after")
    finally:
        await node.stop()
    return answered, said


@pytest.mark.slow
def test_a_full_disk_answers_nothing_says_why_and_goes_on_when_freed(small_disk: Path) -> None:
    with EmbeddedPostgres(small_disk / "data") as server:
        migrate(server.dsn("migrator"))
        answered, said = asyncio.run(use(server, small_disk / "ballast"))
        assert any(FULL in text for text in said), said
        with connect(server.dsn()) as connection:
            rows = connection.execute(
                "SELECT command_id FROM bursa.command_log WHERE command_id LIKE 'n-%' OR command_id = 'after'"
                " ORDER BY seq"
            ).fetchall()
        assert [name for (name,) in rows] == answered
        report = verify(server.dsn())
        assert report.is_ok, report.differences
    print(said)
