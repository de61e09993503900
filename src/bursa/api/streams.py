"""Server-sent events: readers with bounded memory, and one computation of each book's stream that all of them share.

Invariants: a reader never holds more than its limit of chunks, and one that falls behind is dropped and told so. The
deltas of an instrument chain: each names the seq of the one before, and only a snapshot starts a chain. A chunk holds
the trades of a step and then its delta, which alone has an SSE id, so whoever resumes after an id has missed nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from bursa import services, wire
from bursa.api.limits import Limits
from bursa.api.problems import ProblemError
from bursa.errors import BursaError
from bursa.ops import logs, metrics
from bursa.sequencer import Record, SlowReaderError
from bursa.services import Exchange

#: Price levels of each side that a stream shows.
STREAM_LEVELS: Final = 50
#: Longest Last-Event-ID, in digits: a PostgreSQL bigint.
_EVENT_ID_DIGITS_MAX: Final = 18
_HEARTBEAT: Final = b": heartbeat\n\n"
_DROPPED: Final = b'event: dropped\ndata: {"detail":"The reader was too slow. Come back with Last-Event-ID."}\n\n'
_ENDED: Final = b'event: ended\ndata: {"detail":"The stream has lived its time. Come back with Last-Event-ID."}\n\n'
#: What a reader waits before it comes back, in milliseconds.
STREAM_HEAD: Final = b"retry: 2000\n\n"

_encode = msgspec.json.Encoder().encode
_log: Final = logs.log("bursa.api")


def event(name: str, message: object, seq: int = 0) -> bytes:
    """Return one server-sent event; ``seq`` becomes its id, 0 for none."""
    head = f"id: {seq}\nevent: {name}\ndata: " if seq else f"event: {name}\ndata: "
    # JSON has no line break outside of its strings' escapes, so one data line is enough.
    return head.encode() + _encode(message) + b"\n\n"


def parse_event_id(header: str | None) -> int | None:
    """Return the seq of a Last-Event-ID; refuse what no stream has ever sent."""
    if header is None or header == "":
        return None
    if header.isascii() and header.isdecimal() and len(header) <= _EVENT_ID_DIGITS_MAX:
        return int(header)
    found = wire.FieldError("header Last-Event-ID", "the id of an event that was received", header[:80])
    raise ProblemError("INVALID_FIELD", errors=[found])


class Reader:
    """One reader's queue of chunks. ``put`` never waits: a queue that is full drops its reader."""

    __slots__ = ("_chunks", "_limit", "_room", "_waiter", "is_closed", "on_close")

    def __init__(self, limit: int) -> None:
        self._chunks: deque[bytes] = deque()
        self._limit = limit
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self.is_closed = False
        self.on_close: Callable[[], None] | None = None

    def put(self, chunk: bytes) -> None:
        """Queue a chunk, or drop the reader when too many wait."""
        if self.is_closed:
            return
        if len(self._chunks) >= self._limit:
            self.drop()
            return
        self._chunks.append(chunk)
        self._wake()

    def drop(self) -> None:
        """Forget what waits and close; the reader is told, if it ever reads on."""
        if self.is_closed:
            return
        metrics.SSE_DROPPED.inc()
        self._chunks.clear()
        self.end(_DROPPED)

    async def room(self) -> bool:
        """Wait until a chunk fits, for a source that can wait; False when the reader is closed."""
        if len(self._chunks) >= self._limit and not self.is_closed:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        return not self.is_closed

    def end(self, chunk: bytes = b"") -> None:
        """Queue a last chunk and close; what waits is still delivered."""
        if self.is_closed:
            return
        if chunk:
            self._chunks.append(chunk)
        self.is_closed = True
        self._wake()

    def finish(self) -> None:
        """Close in good order: the reader may come back."""
        self.end(_ENDED)

    async def take(self, timeout_s: float) -> bytes | None:
        """Return all that waits as one piece, a heartbeat when nothing came in time, None at the end."""
        if not self._chunks:
            if self.is_closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._waiter
            except TimeoutError:
                return _HEARTBEAT
            finally:
                self._waiter = None
        if not self._chunks:
            return None
        joined = b"".join(self._chunks)
        self._chunks.clear()
        _set(self._room)
        return joined

    def _wake(self) -> None:
        _set(self._waiter)
        if self.is_closed:
            _set(self._room)


def _set(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class Seats:
    """Counts the readers of streams, in all and by address."""

    __slots__ = ("_by_address", "_limits", "_taken")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._taken = 0

    def take(self, address: str) -> None:
        """Take a seat for a reader, or refuse."""
        if self._taken >= self._limits.streams_max:
            raise ProblemError("TOO_MANY_STREAMS", "All seats are taken.", retry_after_s=10)
        if self._by_address[address] >= self._limits.streams_per_address_max:
            detail = f"At most {self._limits.streams_per_address_max} streams from one address."
            raise ProblemError("TOO_MANY_STREAMS", detail, retry_after_s=10)
        self._taken += 1
        self._by_address[address] += 1
        metrics.SSE_READERS.inc()

    def leave(self, address: str) -> None:
        """Give a seat back."""
        self._taken -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        metrics.SSE_READERS.dec()


class _Channel:
    """The stream of one instrument: what its readers were told last, and the newest steps for those who come back."""

    __slots__ = ("asks", "bids", "book", "empty_since", "readers", "ring", "seq", "ticker")

    def __init__(self, seq: int, ticker: wire.Ticker, book: wire.BookView, ring_max: int, now: float) -> None:
        self.seq = seq
        self.ticker = ticker
        self.book = book
        self.bids = _by_price(book.bids)
        self.asks = _by_price(book.asks)
        self.ring: deque[tuple[int, int, bytes]] = deque(maxlen=ring_max)
        self.readers: set[Reader] = set()
        self.empty_since = now

    def first(self, last_seq: int | None) -> bytes:
        """Return what a reader gets first: the steps after the one it knows, else a snapshot."""
        if last_seq == self.seq:
            return b""
        for index, (previous, _, _) in enumerate(self.ring):
            if previous == last_seq:
                return b"".join(chunk for _, _, chunk in list(self.ring)[index:])
        return event("snapshot", wire.StreamSnapshot(self.seq, self.ticker, self.book), self.seq)

    def step(self, seq: int, ticker: wire.Ticker, book: wire.BookView, trades: Sequence[wire.StreamTrade]) -> None:
        """Move on to a newer state and tell every reader what changed."""
        bids, asks = _by_price(book.bids), _by_price(book.asks)
        delta = wire.StreamDelta(seq, self.seq, _changes(self.bids, bids), _changes(self.asks, asks), ticker)
        chunk = b"".join(event("trade", trade) for trade in trades) + event("delta", delta, seq)
        self.ring.append((self.seq, seq, chunk))
        self.seq, self.ticker, self.book, self.bids, self.asks = seq, ticker, book, bids, asks
        for reader in self.readers:
            reader.put(chunk)


class MarketStreams:
    """The streams of all instruments that somebody reads; one task computes them, at most once per interval."""

    def __init__(self, exchange: Exchange, limits: Limits) -> None:
        self._exchange = exchange
        self._limits = limits
        self._channels: dict[str, _Channel] = {}
        self._is_dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_listening = False

    async def open(self, instrument: str, last_seq: int | None) -> Reader:
        """Return a reader whose first chunk continues after ``last_seq``, or is a snapshot."""
        channel = self._channels.get(instrument)
        if channel is None:
            seq, ticker, book = await self._read(instrument)
            now = asyncio.get_running_loop().time()
            channel = self._channels.setdefault(
                instrument, _Channel(seq, ticker, book, self._limits.stream_ring_max, now)
            )
        self._start()
        reader = Reader(self._limits.stream_waiting_max)
        if chunk := channel.first(last_seq):
            reader.put(chunk)
        channel.readers.add(reader)
        reader.on_close = lambda: self._leave(channel, reader)
        return reader

    async def stop(self) -> None:
        """End every stream."""
        for channel in self._channels.values():
            for reader in channel.readers:
                reader.finish()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _leave(self, channel: _Channel, reader: Reader) -> None:
        channel.readers.discard(reader)
        channel.empty_since = asyncio.get_running_loop().time()

    def _start(self) -> None:
        """Listen to the feed and compute, from the first reader on."""
        if not self._is_listening:
            self._is_listening = True
            self._exchange.feed.listen(self._on_records)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _on_records(self, _records: Sequence[Record]) -> None:
        # The view may hear of the records after this: so nothing is read here.
        self._is_dirty.set()

    async def _run(self) -> None:
        """Step every instrument that changed, then rest for an interval; end when nobody has read for a while."""
        loop = asyncio.get_running_loop()
        while self._channels:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.stream_linger_s):
                    await self._is_dirty.wait()
            self._is_dirty.clear()
            oldest = loop.time() - self._limits.stream_linger_s
            for instrument, channel in list(self._channels.items()):
                if not channel.readers and channel.empty_since < oldest:
                    del self._channels[instrument]
                else:
                    await self._step_or_end(instrument, channel)
            await asyncio.sleep(self._limits.stream_interval_s)

    async def _step_or_end(self, instrument: str, channel: _Channel) -> None:
        """Step one instrument; what goes wrong with it ends its own readers, and nobody else's."""
        try:
            await self._step(instrument, channel)
        except Exception:  # noqa: BLE001 - whatever it is, it is written down and its readers are told
            _log.exception("The stream of an instrument failed", extra={"instrument": instrument})
            del self._channels[instrument]
            for reader in channel.readers:
                reader.finish()

    async def _step(self, instrument: str, channel: _Channel) -> None:
        view = self._exchange.view
        if view.changed_seq(instrument) <= channel.seq:
            return
        found = view.trades_after(instrument, channel.seq)
        trades = [wire.StreamTrade(facts.seq, services.trade_of(facts)) for facts in found]
        seq, ticker, book = await self._read(instrument)
        channel.step(seq, ticker, book, trades)

    async def _read(self, instrument: str) -> tuple[int, wire.Ticker, wire.BookView]:
        """Read ticker and book of one moment; both come from memory, so nothing happens in between."""
        ticker = await services.show_ticker(self._exchange, instrument)
        book = await services.show_book(self._exchange, instrument, levels=STREAM_LEVELS)
        return self._exchange.view.changed_seq(instrument), ticker, book


async def pump(
    reader: Reader, source: AsyncIterator[wire.OwnEvents], problem_of: Callable[[BaseException], object]
) -> None:
    """Move a party's own happenings into its reader; what goes wrong is told as the last event."""
    try:
        async with aclosing(source) as happenings:  # type: ignore[type-var]
            async for happening in happenings:
                if not await reader.room():
                    return
                reader.put(event("own", happening, happening.seq))
        reader.finish()
    except SlowReaderError:
        reader.drop()
    except Exception as error:  # noqa: BLE001 - whatever it is, the reader is told, and not left waiting
        if not isinstance(error, BursaError):
            _log.exception("A stream failed")
        reader.end(event("problem", problem_of(error)))


async def write_stream(
    reader: Reader,
    send: Callable[[bytes], Awaitable[None]],
    limits: Limits,
    check: Callable[[], Awaitable[None]] | None,
    problem_of: Callable[[BaseException], object],
) -> None:
    """Send a reader's chunks until it ends. ``check`` raises when the reader's key is not good any more."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + limits.stream_life_s
    while True:
        left_s = ends_at - loop.time()
        if left_s <= 0:
            reader.finish()
        chunk = await reader.take(max(min(limits.stream_heartbeat_s, left_s), 0))
        if chunk is None:
            return
        is_over = False
        if check is not None:
            try:
                await check()
            except BursaError as error:
                chunk, is_over = event("problem", problem_of(error)), True
        # A reader that is dropped while this waits gets its last event when, and if, it reads on.
        async with asyncio.timeout(limits.stream_send_s):
            await send(chunk)
        if is_over:
            return


def _by_price(levels: list[wire.Level]) -> dict[str, wire.Level]:
    return {level.price: level for level in levels}


def _changes(before: dict[str, wire.Level], after: dict[str, wire.Level]) -> list[wire.Level]:
    """Return new and changed levels, and those that are gone with 0 GPUs."""
    changed = [level for price, level in after.items() if before.get(price) != level]
    return changed + [wire.Level(price, 0) for price in before if price not in after]
