"""What everybody may see: the catalog, tickers, books, trades, candles. No key is needed and nobody is named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from bursa import catalog
from bursa.errors import InputError
from bursa.market import BookFacts, LevelFacts, TickerFacts, TradeFacts
from bursa.services.cursors import before, check_limit, write_cursor
from bursa.services.database import fetch_all
from bursa.services.exchange import Exchange, NotFoundError, RefusedError
from bursa.services.rentals import is_simulated
from bursa.wire import (
    BookView,
    Candle,
    CandlePage,
    Gpu,
    GpuPage,
    Level,
    Price,
    PublicTrade,
    Ticker,
    TickerPage,
    TradePage,
    parse_time,
    show_id,
    show_micros,
    show_time,
)

#: Price levels of a side that a book shows.
LEVELS_MAX: Final = 500
#: Candles in one answer.
CANDLES_MAX: Final = 1_500
#: Minutes of each interval.
INTERVALS: Final = {"1m": 1, "1h": 60, "1d": 1_440}
#: Whose trade it was: an auction has no taker.
AUCTION: Final = "AUCTION"
_MINUTE_NS: Final = 60 * 10**9

_TRADES: Final = """
    SELECT t.*, h.spec FROM bursa.trades AS t LEFT JOIN bursa.hosts AS h USING (host_id)
    WHERE t.instrument = %(instrument)s AND trade_id < %(before)s ORDER BY trade_id DESC LIMIT %(limit)s
"""
_CANDLES: Final = """
    SELECT minute / %(minutes)s AS bucket,
           (array_agg(open_micros ORDER BY minute))[1] AS open_micros,
           max(high_micros) AS high_micros, min(low_micros) AS low_micros,
           (array_agg(close_micros ORDER BY minute DESC))[1] AS close_micros,
           sum(gpu_hours)::bigint AS gpu_hours, sum(trades)::bigint AS trades
    FROM bursa.candles
    WHERE instrument = %(instrument)s AND minute >= %(first)s AND minute < %(end)s
    GROUP BY bucket ORDER BY bucket LIMIT %(limit)s
"""


async def list_gpus(exchange: Exchange) -> GpuPage:
    """Return every GPU model of the catalog, each with its ticker where a book is listed."""
    return GpuPage([_show_gpu(exchange, gpu) for gpu in catalog.gpus()], None)


async def show_gpu(exchange: Exchange, slug: str) -> Gpu:
    """Return one GPU model."""
    try:
        return _show_gpu(exchange, catalog.gpu(slug))
    except InputError:
        raise NotFoundError("GPU", slug) from None


def _show_gpu(exchange: Exchange, gpu: catalog.Gpu) -> Gpu:
    facts = exchange.view.ticker(gpu.slug, exchange.clock())
    return Gpu(
        slug=gpu.slug,
        name=gpu.name,
        vendor=gpu.vendor,
        architecture=gpu.architecture,
        memory_gb=gpu.memory_gb,
        memory_type=gpu.memory_type,
        bandwidth_gbs=gpu.bandwidth_gbs,
        source=gpu.source,
        ticker=None if facts is None else ticker_of(facts),
    )


async def list_tickers(exchange: Exchange) -> TickerPage:
    """Return the tickers of all listed instruments."""
    view, at_ns = exchange.view, exchange.clock()
    found = (view.ticker(instrument, at_ns) for instrument in view.instruments())
    return TickerPage([ticker_of(facts) for facts in found if facts is not None], None)


async def show_ticker(exchange: Exchange, instrument: str) -> Ticker:
    """Return the ticker of one instrument."""
    facts = exchange.view.ticker(instrument, exchange.clock())
    if facts is None:
        raise NotFoundError("instrument", instrument)
    return ticker_of(facts)


async def show_book(exchange: Exchange, instrument: str, *, levels: int = 50) -> BookView:
    """Return the book of one instrument, at most ``levels`` prices a side."""
    if not 1 <= levels <= LEVELS_MAX:
        raise RefusedError("INVALID_FIELD", "levels", levels, f"1 to {LEVELS_MAX}")
    facts = exchange.view.book(instrument, levels)
    if facts is None:
        raise NotFoundError("instrument", instrument)
    return book_of(facts)


def ticker_of(facts: TickerFacts) -> Ticker:
    """Return a ticker as everybody sees it."""
    return Ticker(
        instrument=facts.instrument,
        state=facts.state,
        best_ask=_price(facts.best_ask_micros),
        best_bid=_price(facts.best_bid_micros),
        last_price=_price(facts.last_micros),
        reference_price=_price(facts.reference_micros),
        gpus_on_sale=facts.gpus_on_sale,
        gpus_wanted=facts.gpus_wanted,
        volume_gpu_hours=facts.volume_gpu_hours,
        until=show_time(facts.until_ns),
        is_demo=facts.is_demo,
        seq=facts.changed_seq,
        at=show_time(facts.changed_at_ns),
    )


def _price(micros: int) -> Price | None:
    return show_micros(micros) if micros else None


def book_of(facts: BookFacts) -> BookView:
    """Return a book as everybody sees it."""
    return BookView(
        instrument=facts.instrument,
        state=facts.state,
        bids=[level_of(level) for level in facts.bids],
        asks=[level_of(level) for level in facts.asks],
        seq=facts.changed_seq,
        at=show_time(facts.changed_at_ns),
    )


def level_of(facts: LevelFacts) -> Level:
    """Return a level as everybody sees it."""
    return Level(show_micros(facts.price_micros), facts.gpus, facts.is_demo)


def trade_of(facts: TradeFacts) -> PublicTrade:
    """Return a trade as everybody sees it."""
    trade = facts.trade
    at = show_time(trade.at_ns)
    assert at is not None, trade
    return PublicTrade(
        id=show_id("trade", trade.trade_id),
        instrument=trade.instrument,
        price=show_micros(trade.price_micros),
        gpus=trade.gpus,
        hours=trade.hours,
        taker=trade.taker.value if trade.taker is not None else AUCTION,
        at=at,
        seq=facts.seq,
        is_demo=facts.is_demo,
    )


async def list_trades(exchange: Exchange, instrument: str, *, limit: int = 50, cursor: str | None = None) -> TradePage:
    """Return trades of an instrument, newest first."""
    limit = check_limit(limit)
    if exchange.view.ticker(instrument) is None:
        raise NotFoundError("instrument", instrument)
    parameters = {"instrument": instrument, "before": before("trades", cursor), "limit": limit + 1}
    rows = await fetch_all(exchange.reader, _TRADES, parameters)
    page = rows[:limit]
    following = write_cursor("trades", page[-1].trade_id) if len(rows) > limit else None
    return TradePage([_show_trade(row) for row in page], following)


def _show_trade(row: Any) -> PublicTrade:  # noqa: ANN401 - a row
    at = show_time(row.at_ns)
    assert at is not None, row
    return PublicTrade(
        id=show_id("trade", row.trade_id),
        instrument=row.instrument,
        price=show_micros(row.price_micros),
        gpus=row.gpus,
        hours=row.hours,
        taker=row.taker or AUCTION,
        at=at,
        seq=row.seq,
        is_demo=is_simulated(row.spec),
    )


async def list_candles(
    exchange: Exchange,
    instrument: str,
    *,
    interval: str = "1m",
    start: datetime | None = None,
    end: datetime | None = None,
) -> CandlePage:
    """Return candles (1m, 1h, 1d; UTC) that start from ``start`` to before ``end``, oldest first.

    Intervals without a trade have none. Without times: the newest CANDLES_MAX intervals. RefusedError for more.
    """
    minutes = INTERVALS.get(interval)
    if minutes is None:
        raise RefusedError("INVALID_FIELD", "interval", interval, ", ".join(INTERVALS))
    if exchange.view.ticker(instrument) is None:
        raise NotFoundError("instrument", instrument)
    width_ns = minutes * _MINUTE_NS
    last = -(-(parse_time(end, "to") if end is not None else exchange.clock() + 1) // width_ns)
    first = -(-parse_time(start, "from") // width_ns) if start is not None else last - CANDLES_MAX
    if last - first > CANDLES_MAX:
        raise RefusedError(
            "INVALID_FIELD", "from", start and start.isoformat(), f"at most {CANDLES_MAX} intervals before `to`"
        )
    parameters = {
        "instrument": instrument,
        "minutes": minutes,
        "first": first * minutes,
        "end": last * minutes,
        "limit": CANDLES_MAX,
    }
    rows = await fetch_all(exchange.reader, _CANDLES, parameters)
    return CandlePage([_show_candle(row, minutes) for row in rows], None)


def _show_candle(row: Any, minutes: int) -> Candle:  # noqa: ANN401 - a row
    return Candle(
        start=datetime.fromtimestamp(row.bucket * minutes * 60, UTC),
        open=show_micros(row.open_micros),
        high=show_micros(row.high_micros),
        low=show_micros(row.low_micros),
        close=show_micros(row.close_micros),
        gpu_hours=row.gpu_hours,
        trades=row.trades,
    )
