"""What one may ask of the engine: frozen structs, imperative names, one tagged union.

Every command carries the caller's ``command_id``, unique over all commands ever sent. ``party_id`` is the
party that acts. Commands without a party come from the operator, the fleet of hosts or the payment
provider; who may send which is for the room that calls the engine to decide.
"""

from __future__ import annotations

import msgspec

from bursa.market.rules import MarketRules
from bursa.market.types import NO_FILTERS, EndReason, Filters, HostOffer, HostSpec, Posting, TaxProfile, TimeInForce
from bursa.money import Currency


class _Command(msgspec.Struct, frozen=True, gc=False, tag=True, kw_only=True, forbid_unknown_fields=True):
    command_id: str


# ---- parties -------------------------------------------------------------------------------------------


class RegisterParty(_Command, frozen=True, kw_only=True):
    """Add a legal person. Parties that share a tax id or a payout account never trade with each other."""

    tax_id: str = ""
    payout_account: str = ""


class UpdateParty(_Command, frozen=True, kw_only=True):
    """Replace tax id and payout account; refused while the party has open orders."""

    party_id: int
    tax_id: str = ""
    payout_account: str = ""


class SetTaxProfile(_Command, frozen=True, kw_only=True):
    """Decide the tax of the party's future purchases; open orders and rentals keep theirs."""

    party_id: int
    profile: TaxProfile


class SuspendParty(_Command, frozen=True, kw_only=True):
    """Cancel the party's open orders and refuse new ones; its rentals run on."""

    party_id: int


class ReinstateParty(_Command, frozen=True, kw_only=True):
    """Lift a suspension."""

    party_id: int


# ---- funds ---------------------------------------------------------------------------------------------


class CreditTopUp(_Command, frozen=True, kw_only=True):
    """Credit a captured payment: whole cents, at least ``rules.top_up_cents_min``. Debt is paid first."""

    party_id: int
    currency: Currency
    micros: int
    provider: str


class RequestRefund(_Command, frozen=True, kw_only=True):
    """Take unused balance out of the wallet, in whole cents, on its way back to its source."""

    party_id: int
    currency: Currency
    micros: int


class SettleRefund(_Command, frozen=True, kw_only=True):
    """The provider paid the refund out."""

    refund_id: int
    provider: str


class FailRefund(_Command, frozen=True, kw_only=True):
    """The provider could not pay the refund; it returns to the wallet."""

    refund_id: int


class PostChargeback(_Command, frozen=True, kw_only=True):
    """The bank took a top-up back: from the wallet, and what is short becomes the party's debt."""

    party_id: int
    currency: Currency
    micros: int
    provider: str


class WinChargeback(_Command, frozen=True, kw_only=True):
    """A dispute was won: the sum comes back, to debt first, then to the wallet."""

    party_id: int
    currency: Currency
    micros: int
    provider: str


class WriteOffDebt(_Command, frozen=True, kw_only=True):
    """Give up a party's debt in one currency; it may order again."""

    party_id: int
    currency: Currency


class SetRate(_Command, frozen=True, kw_only=True):
    """Set the ECB mid: micro-US$ for one unit of ``currency`` (EUR or GBP), published at ``as_of_ns``."""

    currency: Currency
    mid_micros: int
    as_of_ns: int


class PostInvoice(_Command, frozen=True, kw_only=True):
    """Move VAT from accrued to payable when an invoice is issued; the fraction of a cent goes to the renter.

    ``accrued_micros`` is what the engine accrued for the invoiced hours, ``invoiced_micros`` the VAT on the
    document, in whole cents; they differ by less than one cent a VAT line.
    """

    party_id: int
    currency: Currency
    country: str
    scheme: str
    accrued_micros: int
    invoiced_micros: int
    invoice: str = ""


class RequestPayout(_Command, frozen=True, kw_only=True):
    """A seller takes available earnings out, whole cents, at least ``rules.payout_cents_min``."""

    party_id: int
    currency: Currency
    micros: int


class SettlePayout(_Command, frozen=True, kw_only=True):
    """The bank executed the payout."""

    payout_id: int


class ReturnPayout(_Command, frozen=True, kw_only=True):
    """The bank returned the payout; it is available again."""

    payout_id: int


class PostEntry(_Command, frozen=True, kw_only=True):
    """An operator's own balanced entry (settlement, fees, hedging, revaluation), made by one, approved by another.

    It may not touch wallets, holds, sellers' earnings in their dispute window, or transfers on their way.
    """

    made_by: str
    approved_by: str
    memo: str
    postings: tuple[Posting, ...]


# ---- instruments and books -----------------------------------------------------------------------------


class ListInstrument(_Command, frozen=True, kw_only=True):
    """Add an order book for a GPU model, CLOSED; or set the operator's reference price of one (0 = none)."""

    instrument: str
    reference_micros: int = 0


class PreopenBook(_Command, frozen=True, kw_only=True):
    """CLOSED → PREOPEN, or another time of the opening; 0 = not yet known. Empty instrument = all not yet opened."""

    instrument: str = ""
    opens_at_ns: int = 0


class OpenBook(_Command, frozen=True, kw_only=True):
    """Run the opening auction and trade continuously. Empty instrument = all books that are not open."""

    instrument: str = ""


class HaltBook(_Command, frozen=True, kw_only=True):
    """Stop matching and new orders, cancels stay possible; also prolongs a halt. Empty instrument = all opened."""

    instrument: str = ""


class ResumeBook(_Command, frozen=True, kw_only=True):
    """End a halt by an auction. Empty instrument = all halted books."""

    instrument: str = ""


class ChangeRules(_Command, frozen=True, kw_only=True):
    """Replace the market's parameters."""

    rules: MarketRules


# ---- hosts ---------------------------------------------------------------------------------------------


class ListHost(_Command, frozen=True, kw_only=True):
    """Add a seller's server. It can sell once CheckHost has passed."""

    party_id: int
    instrument: str
    spec: HostSpec


class CheckHost(_Command, frozen=True, kw_only=True):
    """The host passed ``bursa host check``: it is HEALTHY, with what the probe found. Lifts a suspension."""

    host_id: int
    is_verified: bool = False
    spec: HostSpec | None = None


class SuspendHost(_Command, frozen=True, kw_only=True):
    """Take the host off the market until it passes a check; rentals on it run on."""

    host_id: int


class RetireHost(_Command, frozen=True, kw_only=True):
    """Remove a host for good; refused while an ask or a live rental stands on it."""

    party_id: int
    host_id: int


class ReportSilence(_Command, frozen=True, kw_only=True):
    """The fleet has not heard from the host since ``last_heartbeat_ns``."""

    host_id: int
    last_heartbeat_ns: int


class ReportHeartbeat(_Command, frozen=True, kw_only=True):
    """The fleet hears from the host again."""

    host_id: int


# ---- orders --------------------------------------------------------------------------------------------


class PlaceAsk(_Command, frozen=True, kw_only=True):
    """Offer GPUs of one or more hosts of one model at one price, until ``until_ns`` (0 = the longest allowed)."""

    party_id: int
    offers: tuple[HostOffer, ...]
    price_micros: int
    min_gpus: int = 1
    min_hours: int = 1
    max_hours: int = 720
    price_lock_hours: int = 24
    until_ns: int = 0


class PlaceBid(_Command, frozen=True, kw_only=True):
    """Bid for ``lots`` lots, each of ``gpus`` GPUs on one host for ``hours`` whole hours.

    ``limit_micros`` is US$ per GPU-hour excluding tax, whatever ``currency`` pays. ``expires_at_ns`` is for
    GTD only.
    """

    party_id: int
    instrument: str
    gpus: int
    hours: int
    limit_micros: int
    lots: int = 1
    currency: Currency = Currency.USD
    time_in_force: TimeInForce = TimeInForce.GTC
    expires_at_ns: int = 0
    filters: Filters = NO_FILTERS


class AmendAsk(_Command, frozen=True, kw_only=True):
    """Replace price and offers of an ask. Another price, more GPUs or another host loses time priority."""

    party_id: int
    order_id: int
    price_micros: int
    offers: tuple[HostOffer, ...]


class AmendBid(_Command, frozen=True, kw_only=True):
    """Replace limit and total number of lots of a bid. Another limit or more lots loses time priority."""

    party_id: int
    order_id: int
    limit_micros: int
    lots: int


class CancelOrder(_Command, frozen=True, kw_only=True):
    """Cancel what is left of a bid or an ask; the unused hold is free at once."""

    party_id: int
    order_id: int


# ---- rentals -------------------------------------------------------------------------------------------


class StartRental(_Command, frozen=True, kw_only=True):
    """The agent reports ready: the clock of the rental starts."""

    rental_id: int


class StopRental(_Command, frozen=True, kw_only=True):
    """The renter stops: the started hour, or the ask's min_hours if longer, is charged; the rest is released."""

    party_id: int
    rental_id: int


class ExtendRental(_Command, frozen=True, kw_only=True):
    """The renter buys more hours on the same GPUs, at no more than ``limit_micros``."""

    party_id: int
    rental_id: int
    hours: int
    limit_micros: int


class SetAutoExtend(_Command, frozen=True, kw_only=True):
    """Extend by ``hours`` at each end, up to a limit price and a cap on spending; hours = 0 turns it off.

    ``cap_micros`` counts what the extensions made by this setting hold, tax included, in the rental's
    currency.
    """

    party_id: int
    rental_id: int
    hours: int
    limit_micros: int = 0
    cap_micros: int = 0


class FailRental(_Command, frozen=True, kw_only=True):
    """The fleet reports that the host cannot deliver (``start_failed`` or ``host_lost``); the host is suspended."""

    rental_id: int
    reason: EndReason


class ReclaimRental(_Command, frozen=True, kw_only=True):
    """The seller takes a rented host back, against a penalty."""

    party_id: int
    rental_id: int


class EndRental(_Command, frozen=True, kw_only=True):
    """The operator ends a rental (``operator`` or ``policy``): complete hours are charged, nothing else."""

    rental_id: int
    reason: EndReason


class ReportWiped(_Command, frozen=True, kw_only=True):
    """The agent wiped the workspace of an ended rental: its GPUs may be sold again."""

    rental_id: int


# ---- time ----------------------------------------------------------------------------------------------


class Tick(_Command, frozen=True, kw_only=True):
    """Do what is due by now, at most ``TICK_WORK_MAX`` pieces; needs no memory of its id, it repeats harmlessly."""


TradingCommand = (
    PlaceBid
    | CancelOrder
    | AmendBid
    | PlaceAsk
    | AmendAsk
    | StartRental
    | StopRental
    | ExtendRental
    | SetAutoExtend
    | FailRental
    | ReclaimRental
    | EndRental
    | ReportWiped
    | Tick
)
"""What happens to orders, rentals and time: the frequent ones."""

VenueCommand = (
    ListHost
    | CheckHost
    | SuspendHost
    | RetireHost
    | ReportSilence
    | ReportHeartbeat
    | ListInstrument
    | PreopenBook
    | OpenBook
    | HaltBook
    | ResumeBook
    | ChangeRules
)
"""What happens to hosts, books and rules."""

MoneyCommand = (
    RegisterParty
    | UpdateParty
    | SetTaxProfile
    | SuspendParty
    | ReinstateParty
    | CreditTopUp
    | RequestRefund
    | SettleRefund
    | FailRefund
    | PostChargeback
    | WinChargeback
    | WriteOffDebt
    | SetRate
    | PostInvoice
    | RequestPayout
    | SettlePayout
    | ReturnPayout
    | PostEntry
)
"""What happens to parties and funds."""

Command = TradingCommand | VenueCommand | MoneyCommand
"""Any command; msgspec decodes it by its tag, the class name."""
