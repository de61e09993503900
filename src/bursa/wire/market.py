"""Shapes of public market data: GPUs, tickers, books, trades, candles, and the messages of the stream."""

from __future__ import annotations

from datetime import datetime

import msgspec

from bursa.market import BookState
from bursa.wire.values import Price


class Ticker(msgspec.Struct, frozen=True, omit_defaults=False):
    """State of one instrument's book. Prices are None where there is none.

    ``best_ask`` is the best live offer for one GPU for one hour (what "from US$…" shows), ``best_bid`` the highest
    resting limit. ``volume_gpu_hours`` counts the last 24 h. ``is_demo`` says that all of its offers are simulated.
    """

    instrument: str
    state: BookState
    best_ask: Price | None
    best_bid: Price | None
    last_price: Price | None
    reference_price: Price | None
    gpus_on_sale: int
    gpus_wanted: int
    volume_gpu_hours: int
    until: datetime | None
    is_demo: bool
    seq: int
    at: datetime | None


class Gpu(msgspec.Struct, frozen=True):
    """A GPU model of the catalog with its ticker; None when no book is listed for it."""

    slug: str
    name: str
    vendor: str
    architecture: str
    memory_gb: float
    memory_type: str
    bandwidth_gbs: float
    source: str
    ticker: Ticker | None


class GpuPage(msgspec.Struct, frozen=True):
    """The catalog, all on one page."""

    items: list[Gpu]
    next: str | None


class TickerPage(msgspec.Struct, frozen=True):
    """Tickers of all instruments, all on one page."""

    items: list[Ticker]
    next: str | None


class Level(msgspec.Struct, frozen=True):
    """GPUs at one price. In a delta, ``gpus`` is the new total; 0 means that the level is gone."""

    price: Price
    gpus: int
    is_demo: bool = False


class BookView(msgspec.Struct, frozen=True):
    """The book of one instrument by price, best first on each side, as of ``seq``."""

    instrument: str
    state: BookState
    bids: list[Level]
    asks: list[Level]
    seq: int
    at: datetime | None


class PublicTrade(msgspec.Struct, frozen=True):
    """A trade as everybody sees it: nobody's name. ``taker`` is BUY, SELL or AUCTION."""

    id: str
    instrument: str
    price: Price
    gpus: int
    hours: int
    taker: str
    at: datetime
    seq: int
    is_demo: bool


class Candle(msgspec.Struct, frozen=True):
    """Prices and volume of an interval that starts at ``start``."""

    start: datetime
    open: Price
    high: Price
    low: Price
    close: Price
    gpu_hours: int
    trades: int


class TradePage(msgspec.Struct, frozen=True):
    """A page of trades, newest first."""

    items: list[PublicTrade]
    next: str | None


class CandlePage(msgspec.Struct, frozen=True):
    """Candles, oldest first; ``next`` is None: ask for another time instead."""

    items: list[Candle]
    next: str | None


class StreamSnapshot(msgspec.Struct, frozen=True, tag_field="type", tag="snapshot"):
    """First message of a stream: the whole book and the ticker. SSE event ``snapshot``, id = seq."""

    seq: int
    ticker: Ticker
    book: BookView


class StreamDelta(msgspec.Struct, frozen=True, tag_field="type", tag="delta"):
    """What changed since the message before: levels by price (gpus 0 = gone), and the ticker. SSE event ``delta``."""

    seq: int
    previous_seq: int
    bids: list[Level]
    asks: list[Level]
    ticker: Ticker


class StreamTrade(msgspec.Struct, frozen=True, tag_field="type", tag="trade"):
    """A trade. SSE event ``trade``."""

    seq: int
    trade: PublicTrade


StreamMessage = StreamSnapshot | StreamDelta | StreamTrade
