"""Query parameters of the operations: one struct a shape, whose types and descriptions also make the document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bursa.market import Side
from bursa.money import Currency
from bursa.wire.orders import Instrument

Limit = Annotated[int, Meta(ge=1, le=200, description="Items of a page, at most.")]
Cursor = Annotated[
    Annotated[str, Meta(min_length=1, max_length=512)] | None,
    Meta(description="Where the page starts: `next` of the page before it. Opaque."),
]
Moment = Annotated[datetime, Meta(tz=True)]
OrderFilter = Literal["open", "closed", "NEW", "PARTIALLY_FILLED", "FILLED", "CANCELED", "EXPIRED"]
RentalFilter = Literal["live", "over", "OPENED", "STARTED", "ENDED", "FAILED", "WIPED"]


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of a list."""

    limit: Limit = 50
    cursor: Cursor = None


class OrdersQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of orders that match."""

    side: Annotated[Side | None, Meta(description="Bids (BUY) or asks (SELL) only.")] = None
    state: Annotated[OrderFilter | None, Meta(description="Open or closed ones, or those in one state.")] = None
    instrument: Annotated[Instrument | None, Meta(description="Orders of one instrument only.")] = None
    limit: Limit = 50
    cursor: Cursor = None


class RentalsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of rentals that match."""

    role: Annotated[
        Literal["BUYER", "SELLER"] | None, Meta(description="Those one rents (BUYER) or lets (SELLER) only.")
    ] = None
    state: Annotated[RentalFilter | None, Meta(description="Live ones, those that are over, or one state.")] = None
    limit: Limit = 50
    cursor: Cursor = None


class StatementQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of a statement."""

    currency: Annotated[Currency | None, Meta(description="Lines in one currency only.")] = None
    account: Annotated[
        Literal["wallet", "seller_pending", "seller_available"] | None,
        Meta(description="Lines of one ledger account only."),
    ] = None
    start: Annotated[Moment | None, Meta(description="Lines at or after this time.")] = msgspec.field(
        name="from", default=None
    )
    end: Annotated[Moment | None, Meta(description="Lines before this time.")] = msgspec.field(name="to", default=None)
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Lines of a page, at most.")] = 100
    cursor: Cursor = None
    format: Annotated[
        Literal["json", "csv"] | None,
        Meta(description="The form of the answer; it goes before the Accept header."),
    ] = None


class BookQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How deep a book is shown."""

    levels: Annotated[int, Meta(ge=1, le=200, description="Price levels of each side, at most.")] = 50


class CandlesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which candles."""

    interval: Annotated[Literal["1m", "1h", "1d"], Meta(description="Length of each candle.")] = "1m"
    start: Annotated[Moment | None, Meta(description="Candles that start at or after this time.")] = msgspec.field(
        name="from", default=None
    )
    end: Annotated[Moment | None, Meta(description="Candles that start before this time.")] = msgspec.field(
        name="to", default=None
    )
