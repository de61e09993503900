"""Public operations: GPUs and market data. Each has an ETag made from the place in the log that changed it last."""

from __future__ import annotations

from typing import Final

from bursa import services, wire
from bursa.api.operation import SSE_MEDIA, Call, Operation
from bursa.api.queries import BookQuery, CandlesQuery, PageQuery

_MINUTE_NS: Final = 60 * 10**9


def _tag_of_one(call: Call) -> str:
    """Return the tag of one instrument: volumes of a day also change by the minute. Nothing for one not listed."""
    seq = call.exchange.view.changed_seq(call.path.get("instrument") or call.path["gpu"])
    return f'"{seq}-{call.exchange.clock() // _MINUTE_NS}"' if seq else ""


def _tag_of_all(call: Call) -> str:
    """Return the tag of all instruments."""
    view = call.exchange.view
    seq = max(map(view.changed_seq, view.instruments()), default=0)
    return f'"{seq}-{call.exchange.clock() // _MINUTE_NS}"'


MARKET_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="GET",
        path="/v1/market/{instrument}/book",
        name="show_book",
        tag="market",
        summary="Show the book of an instrument by price",
        carry=lambda c: services.show_book(c.exchange, c.path["instrument"], levels=c.query.levels),
        answer=wire.BookView,
        query=BookQuery,
        tag_of=_tag_of_one,
    ),
    Operation(
        method="GET",
        path="/v1/market",
        name="list_tickers",
        tag="market",
        summary="List every instrument with its best prices",
        carry=lambda c: services.list_tickers(c.exchange),
        answer=wire.TickerPage,
        tag_of=_tag_of_all,
    ),
    Operation(
        method="GET",
        path="/v1/market/{instrument}",
        name="show_ticker",
        tag="market",
        summary="Show one instrument in one line",
        carry=lambda c: services.show_ticker(c.exchange, c.path["instrument"]),
        answer=wire.Ticker,
        tag_of=_tag_of_one,
    ),
    Operation(
        method="GET",
        path="/v1/market/{instrument}/trades",
        name="list_trades",
        tag="market",
        summary="List the trades of an instrument, newest first",
        carry=lambda c: services.list_trades(
            c.exchange, c.path["instrument"], limit=c.query.limit, cursor=c.query.cursor
        ),
        answer=wire.TradePage,
        query=PageQuery,
        tag_of=_tag_of_one,
        problems=("INVALID_CURSOR",),
    ),
    Operation(
        method="GET",
        path="/v1/market/{instrument}/candles",
        name="list_candles",
        tag="market",
        summary="List prices and volume by minute, hour or day",
        carry=lambda c: services.list_candles(
            c.exchange, c.path["instrument"], interval=c.query.interval, start=c.query.start, end=c.query.end
        ),
        answer=wire.CandlePage,
        query=CandlesQuery,
        tag_of=_tag_of_one,
    ),
    Operation(
        method="GET",
        path="/v1/market/{instrument}/stream",
        name="follow_market",
        tag="market",
        summary="Follow an instrument",
        description=(
            "Server-sent events: a `snapshot` of the book's best 50 levels a side, then at most ten steps a second,"
            " each its `trade`s and one `delta`. Deltas chain by `previous_seq`; their id is `seq`. With Last-Event-ID"
            " the stream goes on after that step while it is remembered, else it begins with a snapshot. A reader that"
            " falls behind gets `dropped`, one that has read for an hour `ended`; both may come back."
        ),
        stream="market",
        answer=str,
        media=(SSE_MEDIA,),
        events={"snapshot": wire.StreamSnapshot, "delta": wire.StreamDelta, "trade": wire.StreamTrade},
        problems=("TOO_MANY_STREAMS",),
    ),
    Operation(
        method="GET",
        path="/v1/gpus",
        name="list_gpus",
        tag="market",
        summary="List the GPU models with their best prices",
        carry=lambda c: services.list_gpus(c.exchange),
        answer=wire.GpuPage,
        tag_of=_tag_of_all,
    ),
    Operation(
        method="GET",
        path="/v1/gpus/{gpu}",
        name="show_gpu",
        tag="market",
        summary="Show a GPU model",
        carry=lambda c: services.show_gpu(c.exchange, c.path["gpu"]),
        answer=wire.Gpu,
        tag_of=_tag_of_one,
    ),
)
