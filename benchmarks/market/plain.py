"""Plain limit order books on the engine's own index, the stream that all plain books are measured with, and a referee.

`PlainBook` and `LevelBook` do what the peers do and no more: price, then time, cancel by id. PlainBook keeps one index
entry an order, as the engine does; LevelBook one a price with the orders of that price in a queue, as the peers do.
Nothing of the engine's other work (funds, fit, rentals, events) is in either; the engine is measured apart.
"""

from random import Random
from typing import Final, NamedTuple

from bursa.market.index import FitIndex

BUY: Final = 0
SELL: Final = 1
MID_TICKS: Final = 10_000
REACH_TICKS: Final = 20
SIZE_MAX: Final = 100
CANCEL_SHARE: Final = 0.2
#: Share of limits priced beyond the mid; the others are 1 to 20 ticks on their own side of it and mostly rest.
CROSSING_SHARE: Final = 0.15
_SEQ_BITS: Final = 40
_PRICE_TOP: Final = 1 << 40


class Op(NamedTuple):
    """One operation: size 0 cancels ``order_id``, which is live then; else it is a limit order."""

    order_id: int
    side: int
    price: int
    size: int


class Fill(NamedTuple):
    """Taker and maker traded."""

    taker: int
    maker: int
    price: int
    size: int


class PlainBook:
    """Price-time priority over two FitIndexes. Orders are [id, size, key, side] lists, changed in place."""

    def __init__(self) -> None:
        self._asks: FitIndex[list[int]] = FitIndex()
        self._bids: FitIndex[list[int]] = FitIndex()
        self._orders: dict[int, list[int]] = {}
        self._seq = 0
        self.fills: list[tuple[int, int, int, int]] = []

    def place(self, order_id: int, side: int, price: int, size: int) -> None:
        """Match an order against the other side, then let the rest stand."""
        if side == BUY:
            other, limit = self._asks, (price + 1) << _SEQ_BITS
        else:
            other, limit = self._bids, (_PRICE_TOP - price + 1) << _SEQ_BITS
        while (entry := other.peek()) is not None and entry[0] < limit:
            key, maker = entry
            traded = min(size, maker[1])
            price_bits = key >> _SEQ_BITS
            self.fills.append((order_id, maker[0], price_bits if side == BUY else _PRICE_TOP - price_bits, traded))
            size -= traded
            maker[1] -= traded
            if not maker[1]:
                other.remove(key)
                del self._orders[maker[0]]
            if not size:
                return
        self._seq += 1
        key = ((price if side == SELL else _PRICE_TOP - price) << _SEQ_BITS) | self._seq
        order = [order_id, size, key, side]
        self._orders[order_id] = order
        (self._bids if side == BUY else self._asks).insert(key, order)

    def cancel(self, order_id: int) -> None:
        """Take an order out."""
        order = self._orders.pop(order_id)
        (self._bids if order[3] == BUY else self._asks).remove(order[2])


class _Level:
    """The orders of one price, oldest first: id → size left."""

    __slots__ = ("key", "orders", "price", "side")

    def __init__(self, side: int, price: int, key: int) -> None:
        self.side = side
        self.price = price
        self.key = key
        self.orders: dict[int, int] = {}


class LevelBook:
    """Price-time priority over two FitIndexes of price levels; the index is touched only when a level comes or goes."""

    def __init__(self) -> None:
        self._sides: tuple[FitIndex[_Level], FitIndex[_Level]] = (FitIndex(), FitIndex())
        self._levels: tuple[dict[int, _Level], dict[int, _Level]] = ({}, {})
        self._where: dict[int, _Level] = {}
        #: Best bid and best ask; what no order crosses while a side is empty.
        self._best = [0, _PRICE_TOP]
        self.fills: list[tuple[int, int, int, int]] = []

    def place(self, order_id: int, side: int, price: int, size: int) -> None:
        """Match an order against the other side, then let the rest stand."""
        if price >= self._best[SELL] if side == BUY else price <= self._best[BUY]:
            size = self._take(order_id, side, price, size)
            if not size:
                return
        level = self._levels[side].get(price) or self._add(side, price)
        level.orders[order_id] = size
        self._where[order_id] = level

    def _take(self, order_id: int, side: int, price: int, size: int) -> int:
        """Trade with the other side as far as the price goes; return the size that is left."""
        limit = price if side == BUY else _PRICE_TOP - price
        other = self._sides[1 - side]
        while size and (entry := other.peek()) is not None and entry[0] <= limit:
            level = entry[1]
            orders = level.orders
            while size and orders:
                maker = next(iter(orders))
                left = orders[maker]
                traded = min(size, left)
                self.fills.append((order_id, maker, level.price, traded))
                size -= traded
                if traded == left:
                    del orders[maker], self._where[maker]
                else:
                    orders[maker] = left - traded
            if not orders:
                self._drop(level)
        return size

    def cancel(self, order_id: int) -> None:
        """Take an order out."""
        level = self._where.pop(order_id)
        del level.orders[order_id]
        if not level.orders:
            self._drop(level)

    def _add(self, side: int, price: int) -> _Level:
        level = _Level(side, price, price if side == SELL else _PRICE_TOP - price)
        self._levels[side][price] = level
        self._sides[side].insert(level.key, level)
        self._best[side] = max(self._best[side], price) if side == BUY else min(self._best[side], price)
        return level

    def _drop(self, level: _Level) -> None:
        side = level.side
        self._sides[side].remove(level.key)
        del self._levels[side][level.price]
        if level.price == self._best[side]:
            entry = self._sides[side].peek()
            empty = 0 if side == BUY else _PRICE_TOP
            self._best[side] = entry[1].price if entry else empty


class NaiveBook:
    """The referee: best price by min() and max(), obviously right; it also tells which orders are live."""

    def __init__(self) -> None:
        self.levels: tuple[dict[int, dict[int, int]], dict[int, dict[int, int]]] = ({}, {})
        self.live: dict[int, tuple[int, int]] = {}
        self.fills: list[Fill] = []

    def place(self, order_id: int, side: int, price: int, size: int) -> None:
        other = self.levels[1 - side]
        while size and other:
            best = min(other) if side == BUY else max(other)
            if (best > price) if side == BUY else (best < price):
                break
            maker, left = next(iter(other[best].items()))
            traded = min(size, left)
            self.fills.append(Fill(order_id, maker, best, traded))
            size -= traded
            other[best][maker] = left - traded
            if traded == left:
                self.cancel(maker)
        if size:
            self.levels[side].setdefault(price, {})[order_id] = size
            self.live[order_id] = (side, price)

    def cancel(self, order_id: int) -> None:
        side, price = self.live.pop(order_id)
        level = self.levels[side][price]
        del level[order_id]
        if not level:
            del self.levels[side][price]

    def volumes(self) -> dict[tuple[int, int], int]:
        """Return side and price → size left."""
        return {
            (side, price): sum(level.values()) for side in (BUY, SELL) for price, level in self.levels[side].items()
        }


def make_stream(ops: int, seed: int, size_max: int = SIZE_MAX) -> tuple[list[Op], NaiveBook]:
    """Return a seeded stream and the referee after it: 80 % limits near a mid, 20 % cancels of live orders.

    About one operation in eight trades, and the book grows to a third of the operations, as in a market with makers.
    """
    rng = Random(seed)
    referee = NaiveBook()
    stream: list[Op] = []
    placed: list[int] = []
    while len(stream) < ops:
        if placed and rng.random() < CANCEL_SHARE:
            order_id = _pick_live(rng, placed, referee)
            if order_id:
                stream.append(Op(order_id, referee.live[order_id][0], referee.live[order_id][1], 0))
                referee.cancel(order_id)
                continue
        side = rng.randrange(2)
        away = rng.randint(1, REACH_TICKS)
        is_above = (side == SELL) != (rng.random() < CROSSING_SHARE)
        price = MID_TICKS + away if is_above else MID_TICKS - away
        op = Op(len(stream) + 1, side, price, rng.randint(1, size_max))
        stream.append(op)
        placed.append(op.order_id)
        referee.place(*op)
    return stream, referee


def _pick_live(rng: Random, placed: list[int], referee: NaiveBook) -> int:
    """Return a live order, each as likely as the other; what is found closed leaves the list."""
    while placed:
        index = rng.randrange(len(placed))
        order_id = placed[index]
        placed[index] = placed[-1]
        placed.pop()
        if order_id in referee.live:
            return order_id
    return 0
