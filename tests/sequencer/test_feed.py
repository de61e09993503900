"""The feed hands on what is committed, in order, and drops who is too slow."""

import asyncio

import pytest

from bursa.errors import UnavailableError
from bursa.sequencer import Feed, Record, SlowReaderError
from bursa.sequencer.feed import RING_RECORDS_MAX, SUBSCRIPTION_RECORDS_MAX


def records(first: int, last: int) -> list[Record]:
    return [Record(seq, seq * 1_000, "Tick", ()) for seq in range(first, last + 1)]


def test_listeners_hear_every_batch_in_order() -> None:
    feed = Feed()
    heard: list[int] = []
    feed.listen(lambda batch: heard.extend(record.seq for record in batch))
    feed.publish(records(1, 3))
    feed.publish([])
    feed.publish(records(4, 4))
    assert heard == [1, 2, 3, 4]
    assert (feed.seq, feed.at_ns) == (4, 4_000)


def test_a_gap_is_a_bug() -> None:
    feed = Feed()
    feed.publish(records(1, 2))
    with pytest.raises(AssertionError):
        feed.publish(records(4, 4))


def test_a_subscriber_reads_what_came_before_and_after() -> None:
    async def run() -> list[int]:
        feed = Feed()
        feed.publish(records(1, 5))
        with feed.subscribe(after_seq=3) as subscription:
            first = [(await anext(subscription)).seq for _ in range(2)]
            waiting = asyncio.ensure_future(anext(subscription))
            await asyncio.sleep(0)
            feed.publish(records(6, 6))
            return [*first, (await waiting).seq]

    assert asyncio.run(run()) == [4, 5, 6]


def test_a_slow_subscriber_is_dropped_and_others_are_not() -> None:
    async def run() -> None:
        feed = Feed()
        slow, quick = feed.subscribe(), feed.subscribe()
        for first in range(1, SUBSCRIPTION_RECORDS_MAX + 1_001, 100):
            feed.publish(records(first, first + 99))
            for _ in range(100):
                await anext(quick)
        with pytest.raises(SlowReaderError):
            await anext(slow)
        assert feed.subscribers == 1
        quick.close()
        assert feed.subscribers == 0

    asyncio.run(run())


def test_old_records_are_the_logs_to_give() -> None:
    feed = Feed()
    feed.publish(records(1, RING_RECORDS_MAX + 10))
    assert feed.records_after(5) is None
    found = feed.records_after(RING_RECORDS_MAX)
    assert found is not None
    assert [record.seq for record in found] == list(range(RING_RECORDS_MAX + 1, RING_RECORDS_MAX + 11))
    assert feed.records_after(feed.seq) == []

    async def subscribe() -> None:
        with pytest.raises(UnavailableError):
            feed.subscribe(after_seq=5)

    asyncio.run(subscribe())


def test_a_listener_that_fails_does_not_silence_the_others(caplog: pytest.LogCaptureFixture) -> None:
    feed = Feed()
    heard: list[int] = []

    def fail(_: object) -> None:
        raise ValueError("broken")

    feed.listen(fail)
    feed.listen(lambda batch: heard.append(batch[-1].seq))
    feed.publish(records(1, 2))
    assert heard == [2]
    assert "a listener failed at seq 2" in caplog.text
