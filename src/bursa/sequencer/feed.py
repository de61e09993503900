"""The feed: every committed record, in order, to whoever in this process wants it.

A record enters the feed after its commit and never before. Listeners are called at once and in order; subscribers read
at their own pace from a queue with a bound, and are dropped when they fall behind: nothing is buffered without limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Self

from bursa.errors import UnavailableError
from bursa.sequencer.records import Record

#: Newest records that the feed itself keeps; older ones are in the log. Fewer than may wait for one subscriber.
RING_RECORDS_MAX: Final = 4_000
#: Records that may wait for one subscriber.
SUBSCRIPTION_RECORDS_MAX: Final = 5_000


_log = logging.getLogger("bursa.sequencer.feed")


class SlowReaderError(UnavailableError):
    """A subscriber fell behind by more than SUBSCRIPTION_RECORDS_MAX records and was dropped."""

    code = "slow_reader"


class Feed:
    """Committed records of this process's view of the log."""

    def __init__(self, seq: int = 0) -> None:
        self.seq = seq
        self.at_ns = 0
        self._ring: deque[Record] = deque(maxlen=RING_RECORDS_MAX)
        self._listeners: list[Callable[[Sequence[Record]], None]] = []
        self._subscriptions: set[Subscription] = set()

    def start_at(self, seq: int, at_ns: int) -> None:
        """Say where the feed begins, before anything was published."""
        assert not self._ring, self.seq
        self.seq = seq
        self.at_ns = at_ns

    def publish(self, records: Sequence[Record]) -> None:
        """Hand committed records on; they follow the newest one without a gap."""
        if not records:
            return
        assert records[0].seq == self.seq + 1, (records[0].seq, self.seq)
        self.seq = records[-1].seq
        self.at_ns = records[-1].at_ns
        self._ring.extend(records)
        for listener in self._listeners:
            try:
                listener(records)
            except Exception:  # noqa: BLE001 - a bug of whatever kind must not keep an answer from its caller
                _log.critical(
                    "a listener failed at seq %d; what it shows is not to be trusted", self.seq, exc_info=True
                )
        for subscription in tuple(self._subscriptions):
            subscription.put(records)

    def listen(self, callback: Callable[[Sequence[Record]], None]) -> None:
        """Call back with each batch of records right after its commit, in the event loop."""
        self._listeners.append(callback)

    def records_after(self, seq: int) -> list[Record] | None:
        """Return the records after a seq; None when the feed no longer has all of them (ask the log)."""
        if seq >= self.seq:
            return []
        if not self._ring or self._ring[0].seq > seq + 1:
            return None
        return [record for record in self._ring if record.seq > seq]

    def subscribe(self, after_seq: int | None = None) -> Subscription:
        """Return an iterator over records from here on, or from after a seq that the feed still has.

        Raises UnavailableError when the feed no longer has all records after ``after_seq``.
        """
        backlog: list[Record] | None = [] if after_seq is None else self.records_after(after_seq)
        if backlog is None:
            raise UnavailableError(
                "after_seq", after_seq, f"a seq of at least {self._ring[0].seq if self._ring else self.seq}"
            )
        subscription = Subscription(self, backlog)
        self._subscriptions.add(subscription)
        return subscription

    def drop(self, subscription: Subscription) -> None:
        """Forget a subscriber."""
        self._subscriptions.discard(subscription)

    @property
    def subscribers(self) -> int:
        """How many subscribers there are."""
        return len(self._subscriptions)


class Subscription:
    """An iterator over committed records. Close it, or use it as a context manager."""

    def __init__(self, feed: Feed, backlog: Sequence[Record]) -> None:
        self._feed = feed
        self._queue: deque[Record] = deque(backlog)
        self._wakeup = asyncio.Event()
        self._is_dropped = False
        if backlog:
            self._wakeup.set()

    def put(self, records: Sequence[Record]) -> None:
        """Take records, or drop the reader when too many wait."""
        if len(self._queue) + len(records) > SUBSCRIPTION_RECORDS_MAX:
            self._is_dropped = True
            self._queue.clear()
            self._feed.drop(self)
        else:
            self._queue.extend(records)
        self._wakeup.set()

    def __aiter__(self) -> Self:
        """Iterate over the records."""
        return self

    async def __anext__(self) -> Record:
        """Return the next record; SlowReaderError when this reader was dropped."""
        while not self._queue:
            if self._is_dropped:
                raise SlowReaderError("reader", "slow", f"at most {SUBSCRIPTION_RECORDS_MAX} records behind")
            self._wakeup.clear()
            await self._wakeup.wait()
        return self._queue.popleft()

    def close(self) -> None:
        """End the subscription."""
        self._feed.drop(self)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the subscription."""
        self.close()
