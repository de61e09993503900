"""Shapes of a party's own happenings, for those who follow along."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from bursa.market import EntryKind
from bursa.money import Currency
from bursa.wire.values import Decimal6, Price


class OwnEventKind(StrEnum):
    """What happened to an order, a rental, a host, the funds or the standing of a party."""

    ORDER_PLACED = "ORDER_PLACED"
    ORDER_AMENDED = "ORDER_AMENDED"
    ORDER_CLOSED = "ORDER_CLOSED"
    FILL = "FILL"
    RENTAL_OPENED = "RENTAL_OPENED"
    RENTAL_STARTED = "RENTAL_STARTED"
    RENTAL_CHARGED = "RENTAL_CHARGED"
    RENTAL_REVERSED = "RENTAL_REVERSED"
    RENTAL_EXTENDED = "RENTAL_EXTENDED"
    RENTAL_IN_DOUBT = "RENTAL_IN_DOUBT"
    RENTAL_CONFIRMED = "RENTAL_CONFIRMED"
    RENTAL_ENDED = "RENTAL_ENDED"
    RENTAL_FAILED = "RENTAL_FAILED"
    RENTAL_WIPED = "RENTAL_WIPED"
    AUTO_EXTEND_SET = "AUTO_EXTEND_SET"
    HOST_LISTED = "HOST_LISTED"
    HOST_CHANGED = "HOST_CHANGED"
    HOST_SILENT = "HOST_SILENT"
    HOST_BACK = "HOST_BACK"
    HOST_RETIRED = "HOST_RETIRED"
    FUNDS = "FUNDS"
    PARTY_SUSPENDED = "PARTY_SUSPENDED"
    PARTY_REINSTATED = "PARTY_REINSTATED"


class FundsChange(msgspec.Struct, frozen=True):
    """What an entry did to the balance of one of the party's ledger accounts."""

    account: str
    change: Decimal6
    currency: Currency


class OwnEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened. Fields that it does not have are left out.

    ``state`` is the new state of what it is about, ``reason`` why a rental ended; ``quantity`` counts lots of a bid or
    GPUs of an ask; ``hours`` are those bought, charged or given back; ``entry`` names the kind of a journal entry.
    """

    kind: OwnEventKind
    order: str | None = None
    rental: str | None = None
    host: str | None = None
    instrument: str | None = None
    state: str | None = None
    reason: str | None = None
    price: Price | None = None
    gpus: int | None = None
    hours: int | None = None
    quantity: int | None = None
    ends_at: datetime | None = None
    entry: EntryKind | None = None
    funds: list[FundsChange] = []


class OwnEvents(msgspec.Struct, frozen=True):
    """All that one record of the log did to the party, in order. SSE event ``own``, id = seq."""

    seq: int
    at: datetime
    events: list[OwnEvent]
