"""What all paths of one API share: the exchange, the limits and their buckets, the streams and their seats."""

from __future__ import annotations

from collections.abc import Callable

from bursa.api.answers import Request
from bursa.api.limits import Buckets, Limits, bucket_of
from bursa.api.streams import MarketStreams, Reader, Seats
from bursa.services import Exchange


class Gateway:
    """What all paths share: the exchange, the limits and their buckets, the streams and their seats."""

    def __init__(self, exchange: Exchange, limits: Limits, monotonic: Callable[[], float]) -> None:
        self.exchange = exchange
        self.limits = limits
        self.monotonic = monotonic
        self.by_key = Buckets("key", limits.key_rate, limits.key_burst)
        self.by_address = Buckets("address", limits.address_rate, limits.address_burst)
        self.seats = Seats(limits)
        self.markets = MarketStreams(exchange, limits)
        self.own_readers: set[Reader] = set()

    def open_own(self) -> Reader:
        """Return a reader for a stream of one's own happenings."""
        reader = Reader(self.limits.stream_waiting_max)
        self.own_readers.add(reader)
        reader.on_close = lambda: self.own_readers.discard(reader)
        return reader

    async def stop(self) -> None:
        """End every stream, so that the server can close its connections."""
        for reader in self.own_readers:
            reader.finish()
        await self.markets.stop()

    def take_address(self, request: Request) -> None:
        """Take a token from the address, or refuse."""
        bucket = bucket_of(request.scope.get("client"))
        verdict = self.by_address.take(bucket, self.monotonic())
        request.limit(self.by_address, verdict)
