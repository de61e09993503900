"""Calls about what everybody may see: GPUs, tickers, books, trades, candles, the stream, and the exchange's health.

None of them needs a key. In the examples, ``client`` is a `Client`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from bursa.sdk.call import Call, follow, read, segment
from bursa.wire import (
    BookView,
    CandlePage,
    Gpu,
    GpuPage,
    Health,
    StreamMessage,
    Ticker,
    TickerPage,
    TradePage,
)


def list_gpus() -> Call[GpuPage]:
    """List the GPUs of the catalog, each with its ticker; a page holds them all.

    >>> gpus = client.list_gpus().items
    >>> "h100-sxm" in [gpu.slug for gpu in gpus]
    True
    """
    return read("/v1/gpus", GpuPage)


def show_gpu(slug: str) -> Call[Gpu]:
    """Return one GPU of the catalog; ApiError NOT_FOUND when there is none of this name.

    >>> client.show_gpu("h100-sxm").memory_gb
    80.0
    """
    return read(f"/v1/gpus/{segment(slug, 'slug')}", Gpu)


def list_tickers() -> Call[TickerPage]:
    """Return the state of every book: best prices, last price, volume.

    >>> all(ticker.instrument for ticker in client.list_tickers().items)
    True
    """
    return read("/v1/market", TickerPage)


def show_ticker(instrument: str) -> Call[Ticker]:
    """Return the state of one book.

    >>> print(client.show_ticker("h100-sxm").state)
    OPEN
    """
    return read(f"/v1/market/{segment(instrument, 'instrument')}", Ticker)


def show_book(instrument: str, *, levels: int | None = None) -> Call[BookView]:
    """Return the book by price, best first on each side, at most ``levels`` prices a side.

    >>> book = client.show_book("h100-sxm", levels=5)
    >>> len(book.asks) <= 5
    True
    """
    return read(f"/v1/market/{segment(instrument, 'instrument')}/book", BookView, levels=levels)


def list_trades(instrument: str, *, limit: int | None = None, cursor: str | None = None) -> Call[TradePage]:
    """Return a page of an instrument's trades, newest first; `iterate_trades` gives the pages one after the other.

    >>> len(client.list_trades("h100-sxm", limit=10).items) <= 10
    True
    """
    return read(f"/v1/market/{segment(instrument, 'instrument')}/trades", TradePage, limit=limit, cursor=cursor)


def list_candles(
    instrument: str,
    interval: Literal["1m", "1h", "1d"] = "1m",
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Call[CandlePage]:
    """Return prices and volume by interval, oldest first. Intervals without a trade are left out.

    >>> [candle.close for candle in client.list_candles("h100-sxm", "1h").items if not candle.trades]
    []
    """
    path = f"/v1/market/{segment(instrument, 'instrument')}/candles"
    return read(path, CandlePage, interval=interval, from_=start, to=end)


def stream_market(instrument: str, *, after_seq: int | None = None) -> Call[StreamMessage]:
    """Follow a book: a snapshot, then every change and trade; after ``after_seq`` where that is still known.

    A broken connection is opened again and goes on where it broke. `LiveBook` makes the book from these messages.

    >>> for message in client.stream_market("h100-sxm"):
    ...     print(type(message).__name__)
    ...     break
    StreamSnapshot
    """
    # A union is no class, but is what msgspec reads the messages as.
    answer: type[StreamMessage] = StreamMessage  # type: ignore[assignment]
    return follow(f"/v1/market/{segment(instrument, 'instrument')}/stream", answer, after_seq)


def health() -> Call[Health]:
    """Tell whether the process answers at all.

    >>> client.health().status
    'ok'
    """
    return read("/v1/health", Health)


def ready() -> Call[Health]:
    """Tell whether the exchange takes commands; while it does not, ApiError with status 503 says why.

    >>> client.ready().status
    'ready'
    """
    return read("/v1/ready", Health)


def openapi() -> Call[dict[str, Any]]:
    """Return the OpenAPI document of the exchange.

    >>> client.openapi()["info"]["title"]
    'bursa'
    """
    return read("/v1/openapi.json", dict[str, Any])
