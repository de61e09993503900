"""A book kept up to date from the messages of its stream."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bursa.wire import BookView, Level, StreamDelta, StreamMessage, StreamSnapshot, StreamTrade, Ticker, parse_micros


class LiveBook(msgspec.Struct):
    """The newest known state of one market: ``ticker``, ``book`` and ``last_trade``, None until they came.

    >>> live = LiveBook()
    >>> for message in client.stream_market("h100-sxm"):
    ...     if live.apply(message):
    ...         break
    >>> live.book.instrument
    'h100-sxm'
    """

    ticker: Ticker | None = None
    book: BookView | None = None
    last_trade: StreamTrade | None = None

    def apply(self, message: StreamMessage) -> bool:
        """Take the next message; return whether there is a book to show."""
        match message:
            case StreamSnapshot(ticker=ticker, book=book):
                self.ticker, self.book = ticker, book
            case StreamDelta() if self.book is not None:
                self.ticker = message.ticker
                self.book = msgspec.structs.replace(
                    self.book,
                    state=message.ticker.state,
                    bids=_merge(self.book.bids, message.bids, is_bid=True),
                    asks=_merge(self.book.asks, message.asks, is_bid=False),
                    seq=message.seq,
                    at=message.ticker.at,
                )
            case StreamTrade():
                self.last_trade = message
            case _:  # a delta before any snapshot: nothing to apply it to
                pass
        return self.book is not None


def _merge(levels: Iterable[Level], changes: Iterable[Level], *, is_bid: bool) -> list[Level]:
    """Return the levels with the changed ones in place of theirs; levels without GPUs are gone; best price first."""
    merged = {parse_micros(level.price, "price"): level for level in [*levels, *changes]}
    return [merged[price] for price in sorted(merged, reverse=is_bid) if merged[price].gpus]
