"""What a market view shows: frozen facts to hand out, the standing of what is live, and one board per instrument.

Facts are values, made at the moment of a read. Standings (orders, hosts, rentals) are the view's own objects and change
in place; nothing outside this room writes to them. Units stand at the end of each name, as everywhere in this room.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final, NamedTuple

import msgspec

from bursa.market.events import BidAccepted
from bursa.market.state import Book
from bursa.market.types import (
    DAY_NS,
    MINUTE_NS,
    BookState,
    HostOffer,
    HostSpec,
    HostState,
    RentalState,
    Trade,
)
from bursa.market.volatility import drop_old_minutes

#: Trades that a view remembers of each instrument, newest to stay; the read tables keep all of them.
RECENT_TRADES_MAX: Final = 200
#: Price levels of a side that a read gives when its caller does not say.
LEVELS_DEFAULT: Final = 50
#: What ``HostSpec.driver`` says of a host that is not there: its GPUs are only played.
SIMULATED_DRIVER: Final = "simulated"
_MINUTES_OF_DAY: Final = DAY_NS // MINUTE_NS


# ---- facts ---------------------------------------------------------------------------------------------


class LevelFacts(NamedTuple):
    """GPUs at one price; ``is_demo`` when every one of them is a simulated host's."""

    price_micros: int
    gpus: int
    is_demo: bool = False


class BookFacts(msgspec.Struct, frozen=True, gc=False):
    """The book of one instrument by price, best first on each side.

    ``changed_seq`` and ``changed_at_ns`` are of the newest command that touched the instrument.
    """

    instrument: str
    state: BookState
    until_ns: int
    bids: tuple[LevelFacts, ...]
    asks: tuple[LevelFacts, ...]
    changed_seq: int
    changed_at_ns: int


class TickerFacts(msgspec.Struct, frozen=True, gc=False):
    """One instrument in one line; a price of 0 means that there is none.

    ``best_ask_micros`` is the price of the ask that would serve one GPU for one hour first, ``until_ns`` when the
    next move of ``state`` is due (0 = not planned), ``volume_gpu_hours`` what traded within 24 h. ``is_demo``: there is
    something on sale, and all of it is simulated.
    """

    instrument: str
    state: BookState
    until_ns: int
    best_ask_micros: int
    best_bid_micros: int
    last_micros: int
    reference_micros: int
    gpus_on_sale: int
    gpus_wanted: int
    volume_gpu_hours: int
    is_demo: bool
    changed_seq: int
    changed_at_ns: int


class TradeFacts(NamedTuple):
    """A trade, the place in the log of the command that made it, and whether its host is simulated."""

    trade: Trade
    seq: int
    is_demo: bool


def level_changes(before: tuple[LevelFacts, ...], after: tuple[LevelFacts, ...]) -> list[LevelFacts]:
    """Return what turns one side of a book into another: new totals by price, and 0 GPUs for a level that is gone.

    Both cut to the same number of levels, the changes keep a reader's copy cut to that number too.
    """
    old = {level.price_micros: level for level in before}
    changes = [level for level in after if old.pop(level.price_micros, None) != level]
    changes.extend(LevelFacts(price_micros, 0) for price_micros in old)
    return changes


# ---- standings -----------------------------------------------------------------------------------------


class BidStanding(msgspec.Struct, gc=False):
    """An open bid: the terms of its acceptance, and what has become of limit and lots since."""

    terms: BidAccepted
    limit_micros: int
    lots: int
    filled: int = 0

    @property
    def leaves(self) -> int:
        """Lots still wanted."""
        return self.lots - self.filled


class AskStanding(msgspec.Struct, gc=False):
    """An open ask; ``on_sale`` GPUs of it may be bought now."""

    order_id: int
    party_id: int
    instrument: str
    offers: tuple[HostOffer, ...]
    price_micros: int
    min_gpus: int
    min_hours: int
    max_hours: int
    until_ns: int
    on_sale: int = 0


class HostStanding(msgspec.Struct, gc=False):
    """A listed host; ``offered`` GPUs stand in the ask ``ask_id`` (0 = in none), ``on_sale`` of them are free now."""

    host_id: int
    party_id: int
    instrument: str
    spec: HostSpec
    is_demo: bool
    state: HostState = HostState.UNCHECKED
    is_verified: bool = False
    silent_since_ns: int = 0
    busy_mask: int = 0
    ask_id: int = 0
    offered: int = 0
    on_sale: int = 0


class RentalStanding(msgspec.Struct, gc=False):
    """A rental that is not yet wiped; ``traded_hours`` and ``price_micros`` are those of its trade."""

    rental_id: int
    order_id: int
    instrument: str
    host_id: int
    buyer_id: int
    seller_id: int
    gpus: int
    gpu_mask: int
    traded_hours: int
    price_micros: int
    opened_at_ns: int
    state: RentalState = RentalState.OPENED
    started_at_ns: int = 0
    ends_at_ns: int = 0
    ended_at_ns: int = 0

    @property
    def is_live(self) -> bool:
        """Whether it may still be charged; one that is not live waits to be wiped."""
        return self.state is RentalState.OPENED or self.state is RentalState.STARTED


# ---- boards --------------------------------------------------------------------------------------------


class Level:
    """Orders at one price, in the order of their time priority, and the GPUs that they want or have on sale."""

    __slots__ = ("demo_gpus", "gpus", "orders")

    def __init__(self) -> None:
        self.gpus = 0
        self.demo_gpus = 0
        self.orders: dict[int, BidStanding | AskStanding] = {}


class LevelSide:
    """One side of a book: levels by price, their prices in rising order, and sums over all of them."""

    __slots__ = ("demo_gpus", "gpus", "levels", "prices")

    def __init__(self) -> None:
        self.levels: dict[int, Level] = {}
        self.prices: list[int] = []
        self.gpus = 0
        self.demo_gpus = 0

    def add(self, price_micros: int, order_id: int, order: BidStanding | AskStanding) -> None:
        """Put an order last at a price; its GPUs are counted by ``change``."""
        level = self.levels.get(price_micros)
        if level is None:
            level = self.levels[price_micros] = Level()
            insort(self.prices, price_micros)
        level.orders[order_id] = order

    def remove(self, price_micros: int, order_id: int) -> None:
        """Take out an order whose GPUs are no longer counted."""
        level = self.levels[price_micros]
        del level.orders[order_id]
        if not level.orders:
            assert level.gpus == 0 == level.demo_gpus, (price_micros, level.gpus, level.demo_gpus)
            del self.levels[price_micros]
            del self.prices[bisect_left(self.prices, price_micros)]

    def change(self, price_micros: int, gpus: int, *, is_demo: bool = False) -> None:
        """Count more or fewer GPUs at a price."""
        level = self.levels[price_micros]
        level.gpus += gpus
        self.gpus += gpus
        if is_demo:
            level.demo_gpus += gpus
            self.demo_gpus += gpus


class Board:
    """All that is public of one instrument. ``book`` is the view's own copy: state, prices, volume per minute."""

    __slots__ = ("asks", "bids", "book", "changed_at_ns", "changed_seq", "trades")

    def __init__(self, book: Book) -> None:
        self.book = book
        self.bids = LevelSide()
        self.asks = LevelSide()
        self.trades: deque[TradeFacts] = deque(maxlen=RECENT_TRADES_MAX)
        self.changed_seq = 0
        self.changed_at_ns = 0

    def bid_levels(self, levels_max: int) -> tuple[LevelFacts, ...]:
        """Return the highest bids' levels; every resting bid wants something."""
        levels, prices = self.bids.levels, self.bids.prices
        return tuple(LevelFacts(price, levels[price].gpus) for price in prices[: -levels_max - 1 : -1])

    def ask_levels(self, levels_max: int) -> tuple[LevelFacts, ...]:
        """Return the lowest asks' levels that have something on sale."""
        found: list[LevelFacts] = []
        levels = self.asks.levels
        for price in self.asks.prices:
            if len(found) == levels_max:
                break
            level = levels[price]
            if level.gpus:
                found.append(LevelFacts(price, level.gpus, level.gpus == level.demo_gpus))
        return tuple(found)

    def volume_gpu_hours(self, at_ns: int) -> int:
        """Return the GPU-hours traded in the 24 h before a time, less those of rentals that never started."""
        oldest = at_ns // MINUTE_NS - _MINUTES_OF_DAY
        volume = self.book.minutes_gpu_hours
        for minute, _, gpu_hours in self.book.minutes:
            if minute > oldest:
                break
            volume -= gpu_hours
        return volume

    def record(self, trade: Trade) -> None:
        """Count one trade into last price and volume."""
        book = self.book
        minute = trade.at_ns // MINUTE_NS
        minutes = book.minutes
        if not minutes or minutes[-1][0] != minute:
            minutes.append([minute, 0, 0])
            drop_old_minutes(book, trade.at_ns)
        gpu_hours = trade.gpus * trade.hours
        value = trade.price_micros * gpu_hours
        bucket = minutes[-1]
        bucket[1] += value
        bucket[2] += gpu_hours
        book.minutes_value += value
        book.minutes_gpu_hours += gpu_hours
        book.last_micros = trade.price_micros
