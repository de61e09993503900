"""Other authors' order books behind one call: `play(stream)` returns (seconds, fills, end state) of one contender.

Each is used the way its documentation does, in a loop of its own without a common wrapper, orders made inside the
measured time since its interface asks for them. What it found is turned into `Fill`s after the clock has stopped.
"""

import importlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from benchmarks.market.measure import Span, timed
from benchmarks.market.plain import BUY, SELL, Fill, LevelBook, Op, PlainBook

#: Fills (None where a book does not report them) and (side, price) → size left (None where it was not asked).
Played = tuple[Span, list[Fill] | None, dict[tuple[int, int], int] | None]


def play_plain(stream: list[Op]) -> Played:
    """Ours: one FitIndex entry an order."""
    return _play_ours(PlainBook(), stream)


def play_levels(stream: list[Op]) -> Played:
    """Ours: one FitIndex entry a price level."""
    return _play_ours(LevelBook(), stream)


def _play_ours(book: PlainBook | LevelBook, stream: list[Op]) -> Played:
    place, cancel = book.place, book.cancel
    with timed() as span:
        for order_id, side, price, size in stream:
            if size:
                place(order_id, side, price, size)
            else:
                cancel(order_id)
    return span, [Fill(*fill) for fill in book.fills], None


def play_pyorderbook(stream: list[Op]) -> Played:
    """pyorderbook: heap of levels, Decimal prices, UUID ids."""
    module = importlib.import_module("pyorderbook")
    book, bid, ask = module.Book(), module.bid, module.ask
    orders: dict[int, Any] = {}
    blotters = []
    with timed() as span:
        for order_id, side, price, size in stream:
            if size:
                order = bid("x", price, size) if side == BUY else ask("x", price, size)
                orders[order_id] = order
                blotters.append((order_id, book.match(order)))
            else:
                book.cancel(orders[order_id])
    ids = {order.id: order_id for order_id, order in orders.items()}
    fills = [
        Fill(order_id, ids[trade.standing_order_id], int(trade.fill_price), trade.fill_quantity)
        for order_id, blotter in blotters
        for trade in blotter.trades
    ]
    return span, fills, None


def play_lightmatchingengine(stream: list[Op]) -> Played:
    """lightmatchingengine: dict of lists, best price by min() and max(); prices are whole ticks here."""
    module = importlib.import_module("lightmatchingengine.lightmatchingengine")
    engine = module.LightMatchingEngine()
    buy, sell = module.Side.BUY, module.Side.SELL
    theirs: dict[int, int] = {}
    answers = []
    with timed() as span:
        for order_id, side, price, size in stream:
            if size:
                order, trades = engine.add_order("x", price, size, buy if side == BUY else sell)
                theirs[order_id] = order.order_id
                answers.append((order_id, trades))
            else:
                engine.cancel_order(theirs[order_id], "x")
    ids = {number: order_id for order_id, number in theirs.items()}
    fills = [
        Fill(order_id, ids[trade.order_id], trade.trade_price, trade.trade_qty)
        for order_id, trades in answers
        for trade in trades
        if trade.order_id != theirs[order_id]  # the taker's side is reported as a trade of its own
    ]
    return span, fills, None


def play_order_matching(stream: list[Op]) -> Played:
    """order-matching: place, then match; floats; one microsecond between orders, since it sorts by time."""
    importlib.import_module("loguru").logger.disable("order_matching")
    engine = importlib.import_module("order_matching.matching_engine").MatchingEngine(seed=1)
    make = importlib.import_module("order_matching.order").LimitOrder
    orders_of = importlib.import_module("order_matching.orders").Orders
    sides = importlib.import_module("order_matching.enums").Side
    now, step = datetime(2026, 1, 1), timedelta(microseconds=1)  # noqa: DTZ001 - it compares with datetime.max, naive
    found = []
    with timed() as span:
        for order_id, side, price, size in stream:
            now += step
            if size:
                order = make(
                    side=sides.BUY if side == BUY else sides.SELL,
                    price=price,
                    size=size,
                    timestamp=now,
                    order_id=str(order_id),
                    trader_id="x",
                )
                engine.place(orders=orders_of([order]))
                found.append(engine.match(timestamp=now))
            else:
                engine.cancel_order(str(order_id))
    fills = [
        Fill(int(trade.incoming_order_id), int(trade.book_order_id), int(trade.price), int(trade.size))
        for trades in found
        for trade in trades.trades
    ]
    return span, fills, None


def play_limit_order_book(stream: list[Op]) -> Played:
    """limit-order-book: C++ through ctypes. It reports no trades, so what is left in the book is compared instead."""
    book = importlib.import_module("limit_order_book").LimitOrderBook()
    buy, sell, cancel = book.limit_buy, book.limit_sell, book.cancel
    with timed() as span:
        for order_id, side, price, size in stream:
            if not size:
                cancel(order_id)
            elif side == BUY:
                buy(order_id, size, price)
            else:
                sell(order_id, size, price)
    prices = {op.price for op in stream}
    left = {(BUY, price): int(book.volume_buy(price)) for price in prices}
    left |= {(SELL, price): int(book.volume_sell(price)) for price in prices}
    return span, None, {place: size for place, size in left.items() if size}


CONTENDERS: Final[dict[str, Callable[[list[Op]], Played]]] = {
    "bursa": play_levels,
    "bursa-per-order": play_plain,
    "limit-order-book": play_limit_order_book,
    "pyorderbook": play_pyorderbook,
    "lightmatchingengine": play_lightmatchingengine,
    "order-matching": play_order_matching,
}
#: Longest prefix of the stream that a contender gets: beyond it, it would take minutes to hours.
OPS_MAX: Final = {"lightmatchingengine": 200_000, "order-matching": 2_000}
#: Which of them are Python all through; the goal of 5x is against the fastest of these.
PURE_PYTHON: Final = ("pyorderbook", "lightmatchingengine", "order-matching")
