"""Shapes of the operator's actions and of the exchange's health."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from bursa.market import EndReason, VatScheme
from bursa.money import Currency
from bursa.wire.orders import Instrument
from bursa.wire.values import Amount, Decimal6, Price


class PreopenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Open a book for orders that rest; ``opens_at`` is the time of the opening auction, absent when not yet known."""

    opens_at: datetime | None = None


class InstrumentRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List an instrument, or set the operator's reference price of one."""

    instrument: Instrument
    reference_price: Price = "0"


class TaxRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tax decision for a party's purchases; a rate of zero needs a scheme that says why."""

    country: Annotated[str, Meta(pattern=r"^[A-Z]{2}$")]
    scheme: VatScheme
    vat_percent: Annotated[str, Meta(pattern=r"^[0-9]{1,2}(\.[0-9]{1,4})?$", examples=["19"])]
    evidence: Annotated[str, Meta(max_length=200)] = ""
    rule_version: Annotated[str, Meta(max_length=64)] = ""


class PartyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Register a party; with ``tax`` it can buy at once."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    tax_id: Annotated[str, Meta(max_length=64)] = ""
    payout_account: Annotated[str, Meta(max_length=64)] = ""
    tax: TaxRequest | None = None


class PartyView(msgspec.Struct, frozen=True):
    """A party as the operator sees it."""

    id: str
    name: str
    tax_id: str
    is_suspended: bool
    is_in_debt: bool
    is_demo: bool
    seq: int


class PartyPage(msgspec.Struct, frozen=True):
    """A page of parties."""

    items: list[PartyView]
    next: str | None


class RateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An ECB reference rate: units of ``currency`` (USD or GBP) for one EUR on a day."""

    currency: Currency
    rate: Price
    as_of: date


class RatesRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reference rates of one source."""

    source: Annotated[str, Meta(min_length=1, max_length=100)]
    rates: Annotated[list[RateRequest], Meta(min_length=1, max_length=10_000)]


class EndRentalRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The operator ends a rental: ``operator`` or ``policy``."""

    reason: EndReason = EndReason.OPERATOR


class Done(msgspec.Struct, frozen=True):
    """The command was carried out: its place in the log, and the id of what it made or changed (None: nothing)."""

    seq: int
    id: str | None = None


class TrialBalance(msgspec.Struct, frozen=True):
    """Sum of all ledger accounts of a currency (0.00 when the books balance), and of the main kinds of them."""

    currency: Currency
    sum: Decimal6
    wallets: Decimal6
    holds: Decimal6
    sellers: Decimal6
    revenue: Decimal6


class Status(msgspec.Struct, frozen=True):
    """How the exchange stands."""

    version: str
    epoch: int
    seq: int
    digest: str
    is_leader: bool
    queue_depth: int
    open_orders: int
    live_rentals: int
    trial_balance: list[TrialBalance]
    held: list[Amount]


class Health(msgspec.Struct, frozen=True):
    """Whether the process answers (health) and can take commands (ready); ``detail`` says what is missing."""

    status: str
    seq: int
    epoch: int
    detail: str = ""
