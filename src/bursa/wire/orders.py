"""Shapes of orders: what a renter or a seller sends, and what comes back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from bursa.market import OrderState, Side, TimeInForce
from bursa.money import Currency
from bursa.wire.problems import Problem
from bursa.wire.values import Amount, Price

Instrument = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9-]*$", examples=["h100-sxm"])]
Hours = Annotated[int, Meta(ge=1, le=8_760)]
#: Regions, and hosts to avoid, that a bid may name.
NAMES_MAX: Final = 64
Gpus = Annotated[int, Meta(ge=1, le=16)]


class FilterSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a bid asks of a host. An empty field asks nothing; RAM, disk and vCPUs are per GPU."""

    regions: Annotated[list[Annotated[str, Meta(min_length=2, max_length=8)]], Meta(max_length=NAMES_MAX)] = []
    verified_only: bool = False
    reliability_min: Annotated[int, Meta(ge=0, le=1_000, description="per mille")] = 0
    ram_gib_min: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    disk_gib_min: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    vcpus_min: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    avoid_hosts: Annotated[list[Annotated[str, Meta(max_length=22)]], Meta(max_length=NAMES_MAX)] = []


class BidRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A bid: ``lots`` lots, each of ``gpus`` GPUs on one host for ``hours`` hours, at no more than ``limit_price``.

    GTC rests up to 30 days, GTD until ``expires_at``, IOC fills what it can now, FOK all lots now or nothing.
    """

    instrument: Instrument
    gpus: Gpus
    hours: Hours
    limit_price: Price
    lots: Annotated[int, Meta(ge=1, le=1_000)] = 1
    currency: Currency = Currency.USD
    time_in_force: TimeInForce = TimeInForce.GTC
    expires_at: datetime | None = None
    filters: FilterSet = FilterSet()


class BidAmendment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New limit and total number of lots of a bid. Another limit or more lots loses time priority."""

    limit_price: Price
    lots: Annotated[int, Meta(ge=1, le=1_000)]


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host of an ask: at most ``gpus`` of its GPUs are let at any time."""

    host: str
    gpus: Gpus


class AskRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An ask: GPUs of one or more hosts of one model at one price, until ``until`` (absent: as long as allowed)."""

    offers: Annotated[list[Offer], Meta(min_length=1, max_length=1_000)]
    price: Price
    min_gpus: Gpus = 1
    min_hours: Hours = 1
    max_hours: Hours = 720
    price_lock_hours: Annotated[int, Meta(ge=0, le=8_760)] = 24
    until: datetime | None = None


class AskAmendment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New price and offers of an ask. Another price, more GPUs or another host loses time priority."""

    price: Price
    offers: Annotated[list[Offer], Meta(min_length=1, max_length=1_000)]


class Fill(msgspec.Struct, frozen=True):
    """One trade of an order: the price it got and the rental it opened."""

    trade: str
    rental: str
    price: Price
    gpus: int
    hours: int


class Order(msgspec.Struct, frozen=True):
    """A bid (side BUY, quantities in lots) or an ask (side SELL, quantities in GPUs).

    ``held`` is what an open bid holds. ``fills`` is given where one order is asked for or placed, else empty.
    """

    id: str
    side: Side
    instrument: str
    state: OrderState
    price: Price
    gpus: int
    hours: int
    quantity: int
    filled: int
    leaves: int
    canceled: int
    currency: Currency
    time_in_force: TimeInForce
    expires_at: datetime | None
    placed_at: datetime
    closed_at: datetime | None
    held: Amount | None
    filters: FilterSet
    offers: list[Offer]
    min_gpus: int
    min_hours: int
    max_hours: int
    price_lock_hours: int
    fills: list[Fill]
    seq: int


class OrderPage(msgspec.Struct, frozen=True):
    """A page of orders, newest first; ``next`` is the cursor of the page after it, None at the end."""

    items: list[Order]
    next: str | None


class BatchItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One order of a batch; ``idempotency_key`` is its own, so that a batch can be sent again."""

    bid: BidRequest | None = None
    cancel: str | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


class BatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """At most 1,000 bids and cancels, applied in this order, each with its own result."""

    items: Annotated[list[BatchItem], Meta(min_length=1, max_length=1_000)]


class BatchResult(msgspec.Struct, frozen=True):
    """Answer to one item: the order, or the problem that refused it."""

    status: int
    order: Order | None = None
    problem: Problem | None = None


class BatchAnswer(msgspec.Struct, frozen=True):
    """Answers in the order of the items."""

    results: list[BatchResult]


class Quote(msgspec.Struct, frozen=True):
    """What a bid would cost now, before it is placed; nothing is reserved.

    ``hold`` is what would be held, tax included; ``net`` and ``tax`` are its parts. ``fillable_lots`` counts the lots
    that today's offers could fill at once, ``best_price`` is the price of the first of them. ``expected`` is what the
    fillable lots would cost, tax included. ``shortfall`` is what the wallet lacks (0 when it suffices).
    """

    hold: Amount
    net: Amount
    tax: Amount
    tax_percent: str
    fillable_lots: int
    best_price: Price | None
    expected: Amount
    available: Amount
    shortfall: Amount
    rate: str | None
