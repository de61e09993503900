"""What happened: frozen structs, past-tense names, one tagged union; and the Outcome that carries them.

A program that follows the events alone can rebuild every order, rental and balance: ``Trade`` and
``JournalEntry`` (see types) are events too.
"""

from __future__ import annotations

import msgspec

from bursa.market.rules import MarketRules
from bursa.market.types import (
    BookState,
    EndReason,
    Filters,
    HostOffer,
    HostSpec,
    HostState,
    JournalEntry,
    OrderState,
    Rejection,
    TaxProfile,
    TimeInForce,
    Trade,
)


class _Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    pass


class PartyRegistered(_Event, frozen=True):
    """A party exists."""

    party_id: int
    tax_id: str
    payout_account: str


class PartyUpdated(_Event, frozen=True):
    """A party's identifiers changed."""

    party_id: int
    tax_id: str
    payout_account: str


class TaxProfileSet(_Event, frozen=True):
    """A party's future purchases are taxed like this."""

    party_id: int
    profile: TaxProfile


class PartySuspended(_Event, frozen=True):
    """The party may not order."""

    party_id: int


class PartyReinstated(_Event, frozen=True):
    """The party may order again."""

    party_id: int


class RateSet(_Event, frozen=True):
    """A new mid: micro-US$ for one unit of the currency."""

    currency: str
    mid_micros: int
    as_of_ns: int


class RulesChanged(_Event, frozen=True):
    """The market's parameters from here on."""

    rules: MarketRules


class InstrumentListed(_Event, frozen=True):
    """An order book exists, or has a new operator's reference price."""

    instrument: str
    reference_micros: int


class BookStateChanged(_Event, frozen=True):
    """A book moved to another state; ``until_ns`` is when the next move is due (0 = not planned)."""

    instrument: str
    before: BookState
    after: BookState
    until_ns: int = 0


class AuctionHeld(_Event, frozen=True):
    """An auction found its price (0 when nothing could trade).

    ``unfilled_bids`` were in the money but fitted no host; they rest on.
    """

    instrument: str
    price_micros: int
    gpu_hours: int
    imbalance_gpus: int
    unfilled_bids: tuple[int, ...]


class HostListed(_Event, frozen=True):
    """A host exists, not yet checked."""

    host_id: int
    party_id: int
    instrument: str
    spec: HostSpec


class HostStateChanged(_Event, frozen=True):
    """A host may sell (HEALTHY) or may not."""

    host_id: int
    state: HostState
    is_verified: bool
    spec: HostSpec


class HostWentSilent(_Event, frozen=True):
    """No heartbeat since ``last_heartbeat_ns``."""

    host_id: int
    last_heartbeat_ns: int


class HostCameBack(_Event, frozen=True):
    """Heartbeats are heard again."""

    host_id: int


class HostRetired(_Event, frozen=True):
    """The host left for good."""

    host_id: int


class AskAccepted(_Event, frozen=True):
    """An ask stands."""

    order_id: int
    party_id: int
    instrument: str
    offers: tuple[HostOffer, ...]
    price_micros: int
    min_gpus: int
    min_hours: int
    max_hours: int
    price_lock_hours: int
    until_ns: int


class BidAccepted(_Event, frozen=True):
    """A bid is in force; its funds are held."""

    order_id: int
    party_id: int
    instrument: str
    gpus: int
    hours: int
    lots: int
    limit_micros: int
    currency: str
    time_in_force: TimeInForce
    expires_at_ns: int
    filters: Filters


class AskAmended(_Event, frozen=True):
    """An ask has new terms; ``has_priority`` says whether it kept its place in time."""

    order_id: int
    price_micros: int
    offers: tuple[HostOffer, ...]
    has_priority: bool


class BidAmended(_Event, frozen=True):
    """A bid has new terms; ``has_priority`` says whether it kept its place in time."""

    order_id: int
    limit_micros: int
    lots: int
    has_priority: bool


class OrderClosed(_Event, frozen=True):
    """An order left the book: FILLED, CANCELED or EXPIRED. For an ask, lots are GPUs withdrawn."""

    order_id: int
    party_id: int
    state: OrderState
    filled_lots: int
    canceled_lots: int


class RentalOpened(_Event, frozen=True):
    """A trade opened a rental; GPUs are numbered by the bits of ``gpu_mask``."""

    rental_id: int
    order_id: int
    host_id: int
    buyer_id: int
    seller_id: int
    gpus: int
    gpu_mask: int
    hours: int
    price_micros: int
    start_by_ns: int


class RentalStarted(_Event, frozen=True):
    """The clock runs."""

    rental_id: int
    at_ns: int
    ends_at_ns: int


class RentalHoursCharged(_Event, frozen=True):
    """``hours`` more complete or started hours were charged; ``charged_hours`` in all."""

    rental_id: int
    hours: int
    charged_hours: int


class RentalHoursReversed(_Event, frozen=True):
    """``hours`` charged hours turned out not to be delivered and were given back."""

    rental_id: int
    hours: int
    charged_hours: int


class RentalExtended(_Event, frozen=True):
    """More hours were bought; ``hours`` of them at ``price_micros``."""

    rental_id: int
    hours: int
    price_micros: int
    ends_at_ns: int


class AutoExtendSet(_Event, frozen=True):
    """Automatic extension is on (hours > 0) or off."""

    rental_id: int
    hours: int
    limit_micros: int
    cap_micros: int


class RentalInDoubt(_Event, frozen=True):
    """The host has been silent for ``rules.in_doubt_seconds``."""

    rental_id: int


class RentalConfirmed(_Event, frozen=True):
    """The host is heard again; the rental is no longer in doubt."""

    rental_id: int


class RentalEnded(_Event, frozen=True):
    """The rental is over in good order."""

    rental_id: int
    reason: EndReason
    charged_hours: int
    at_ns: int


class RentalFailed(_Event, frozen=True):
    """The host did not deliver; ``penalty_micros`` (micro-US$) went from seller to renter."""

    rental_id: int
    reason: EndReason
    charged_hours: int
    at_ns: int
    penalty_micros: int


class RentalWiped(_Event, frozen=True):
    """The workspace is gone; the rental leaves the engine."""

    rental_id: int
    host_id: int


Event = (
    PartyRegistered
    | PartyUpdated
    | TaxProfileSet
    | PartySuspended
    | PartyReinstated
    | RateSet
    | RulesChanged
    | InstrumentListed
    | BookStateChanged
    | AuctionHeld
    | HostListed
    | HostStateChanged
    | HostWentSilent
    | HostCameBack
    | HostRetired
    | AskAccepted
    | BidAccepted
    | AskAmended
    | BidAmended
    | OrderClosed
    | Trade
    | RentalOpened
    | RentalStarted
    | RentalHoursCharged
    | RentalHoursReversed
    | RentalExtended
    | AutoExtendSet
    | RentalInDoubt
    | RentalConfirmed
    | RentalEnded
    | RentalFailed
    | RentalWiped
    | JournalEntry
)
"""Any event."""


class Done(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The command was carried out; ``id`` is that of what it made or changed (0 = nothing with an id)."""

    id: int = 0


class Placed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """An order was accepted or amended. For an ask, lots are GPUs: ``leaves_lots`` are on sale now."""

    order_id: int
    state: OrderState
    filled_lots: int
    leaves_lots: int
    canceled_lots: int


class Rejected(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The command was refused and changed nothing.

    ``field`` names the field at fault, ``expected`` says what would be right; ``shortfall_micros`` is set
    with INSUFFICIENT_FUNDS, in the currency of the command.
    """

    code: Rejection
    field: str = ""
    expected: str = ""
    shortfall_micros: int = 0


Result = Done | Placed | Rejected


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The answer to one command and, when it was carried out, all that happened, in order."""

    result: Done | Placed | Rejected
    events: tuple[Event, ...] = ()
