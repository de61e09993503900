"""More than fits: ten times as many commands as the queue holds, and readers of the feed that do not keep up."""

import asyncio
from pathlib import Path

import pytest

from bursa.errors import QueueFullError
from bursa.market import Done
from bursa.sequencer import Answer, Node, SlowReaderError, Subscription
from bursa.sequencer.feed import SUBSCRIPTION_RECORDS_MAX
from bursa.sequencer.sequencer import QUEUE_COMMANDS_MAX
from bursa.store import connect
from tests.faults.market import top_up
from tests.faults.test_commits import find_counter
from tests.faults.test_kills import open_market
from tests.postgres import Database
from tests.sequencer.recording import leading

pytestmark = pytest.mark.slow

#: Commands that one caller submits together, and how often ten times the queue's length is thrown at it.
TOGETHER = 100
WAVES = 3
#: How much the process may grow from the first wave to the last, in bytes.
GROWTH_MAX = 64 * 1024 * 1024
PAGE_BYTES = 4096


def read_rss() -> int:
    """Return this process's resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


async def throw(node: Node, party_id: int, wave: int) -> tuple[int, int]:
    """Submit ten times what the queue holds at once; return how many commands were accepted and refused."""
    callers = [
        node.submit_many([top_up(f"{wave}-{caller}-{n}", party_id) for n in range(TOGETHER)], is_fresh=True)
        for caller in range(10 * QUEUE_COMMANDS_MAX // TOGETHER)
    ]
    results: list[list[Answer] | BaseException] = await asyncio.gather(*callers, return_exceptions=True)
    accepted = refused = 0
    for result in results:
        if isinstance(result, QueueFullError):
            assert result.retry_after_s > 0
            refused += TOGETHER
        else:
            assert isinstance(result, list), result
            assert all(isinstance(answer.result, Done) for answer in result)
            accepted += TOGETHER
    return accepted, refused


def test_overload_is_refused_with_a_time_to_come_back_and_leaves_no_trace(database: Database) -> None:
    open_market(database.dsn())

    async def run() -> int:
        accepted = 0
        sizes = []
        async with leading(database.dsn()) as node:
            party_id, first_seq = find_counter(database), node.seq
            for wave in range(WAVES):
                done, refused = await throw(node, party_id, wave)
                assert done >= QUEUE_COMMANDS_MAX
                assert refused >= 8 * QUEUE_COMMANDS_MAX
                accepted += done
                sizes.append(read_rss())
                assert node.queue_depth == 0
            assert sizes[-1] - sizes[0] < GROWTH_MAX, sizes
            async with asyncio.timeout(1):  # afterwards all is as before
                assert isinstance((await node.submit(top_up("after", party_id))).result, Done)
            assert node.seq == first_seq + accepted + 1
            assert node.epoch == 2
        return node.seq

    seq = asyncio.run(run())
    with connect(database.dsn()) as connection:
        counts = connection.execute("SELECT count(*), max(seq) FROM bursa.command_log").fetchone()
    assert counts == (seq, seq)


def test_a_slow_reader_is_dropped_and_the_others_are_not(database: Database) -> None:
    open_market(database.dsn())

    async def read(subscription: Subscription, until_seq: int) -> list[int]:
        seqs = []
        async for record in subscription:
            seqs.append(record.seq)
            if record.seq == until_seq:
                break
        return seqs

    async def run() -> None:
        async with leading(database.dsn()) as node:
            party_id, first = find_counter(database), node.seq
            count = SUBSCRIPTION_RECORDS_MAX + 1_000
            with node.feed.subscribe() as slow, node.feed.subscribe() as quick:
                reading = asyncio.create_task(read(quick, first + count))
                assert (await anext_after(node, slow, party_id)) == first + 1
                for start in range(1, count, 1_000):
                    names = [f"n-{number}" for number in range(start, min(start + 1_000, count))]
                    await node.submit_many([top_up(name, party_id) for name in names], is_fresh=True)
                assert await reading == list(range(first + 1, first + count + 1))
                assert node.feed.subscribers == 1
                with pytest.raises(SlowReaderError):
                    await anext(slow)
                assert not slow._queue, "what it did not read is not kept"
            with node.feed.subscribe(node.seq - 10) as again:
                assert await read(again, node.seq) == list(range(node.seq - 9, node.seq + 1))

    async def anext_after(node: Node, subscription: Subscription, party_id: int) -> int:
        await node.submit(top_up("n-0", party_id))
        return (await anext(subscription)).seq

    asyncio.run(run())
