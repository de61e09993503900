"""What the engine remembers: only what is live. Closed orders and wiped rentals leave; the log keeps them.

The structs here are the engine's own and change in place; nothing outside this room writes to them. They
encode as they are into a snapshot (as arrays, so fields are only ever added at the end), and hold no derived
values: indexes, timers and sets of open orders are rebuilt from them (see snapshot).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from bursa.market.events import Event, Outcome
from bursa.market.index import FitIndex
from bursa.market.ledger import Ledger
from bursa.market.rules import MarketRules
from bursa.market.timers import Timers
from bursa.market.types import (
    BookState,
    EndReason,
    EntryKind,
    Filters,
    HostOffer,
    HostSpec,
    HostState,
    JournalEntry,
    OrderState,
    Posting,
    RentalState,
    TaxProfile,
    TimeInForce,
)
from bursa.money import Currency

#: Accepted commands whose ids the engine itself remembers, newest first to stay, and for how long.
IDEMPOTENCY_COMMANDS_MAX: Final = 32_768
IDEMPOTENCY_NS: Final = 24 * 3_600 * 10**9
# An attribute of an Enum class is looked up ten times slower than a global name; every command passes here.
_HEALTHY = HostState.HEALTHY
_OPENED = RentalState.OPENED
_STARTED = RentalState.STARTED
_PARTIALLY_FILLED = OrderState.PARTIALLY_FILLED
_NEW = OrderState.NEW


class Party(msgspec.Struct, gc=False, array_like=True):
    """A legal person, buyer or seller or both.

    ``currencies`` were topped up at least once. ``pending`` holds a seller's earnings in their dispute
    window as (clears_at_ns, micro-US$), oldest first.
    """

    party_id: int
    tax_id: str
    payout_account: str
    tax: TaxProfile | None = None
    is_suspended: bool = False
    is_in_debt: bool = False
    currencies: tuple[Currency, ...] = ()
    pending: list[tuple[int, int]] = []

    @property
    def due_ns(self) -> int:
        """When the oldest earnings clear; 0 = nothing pending."""
        return self.pending[0][0] if self.pending else 0


class Host(msgspec.Struct, gc=False, array_like=True):
    """A seller's server. ``busy_mask`` has a bit for each GPU in a live or not yet wiped rental."""

    host_id: int
    party_id: int
    instrument: str
    spec: HostSpec
    reliability_ppm: int
    state: HostState = HostState.UNCHECKED
    is_verified: bool = False
    is_in_doubt: bool = False
    silent_since_ns: int = 0
    due_ns: int = 0
    busy_mask: int = 0
    ask_id: int = 0
    rentals: list[int] = []

    @property
    def can_sell(self) -> bool:
        """Whether its free GPUs may be sold now."""
        return self.state is _HEALTHY and not self.silent_since_ns

    @property
    def reliability(self) -> int:
        """Per mille of promised hours delivered, exponentially weighted."""
        return self.reliability_ppm // 1_000

    def leaves(self, offered: int) -> int:
        """Return how many GPUs are on sale now under an offer of ``offered``."""
        if self.state is not _HEALTHY or self.silent_since_ns:
            return 0
        left = offered - self.busy_mask.bit_count()
        return left if left > 0 else 0  # noqa: FURB136 - max() takes three times as long, and this is asked all the time


class Ask(msgspec.Struct, gc=False, array_like=True):
    """A seller's standing offer. Its leaves are derived from its hosts."""

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
    priority: int

    @property
    def due_ns(self) -> int:
        """When it expires."""
        return self.until_ns


class Bid(msgspec.Struct, gc=False, array_like=True):
    """A buyer's order; quantities in lots. ``gross_micros`` is what one GPU-hour at the limit holds, VAT included."""

    order_id: int
    party_id: int
    instrument: str
    gpus: int
    hours: int
    lots: int
    leaves: int
    filled: int
    limit_micros: int
    currency: Currency
    time_in_force: TimeInForce
    expires_at_ns: int
    filters: Filters
    priority: int
    tax: TaxProfile
    gross_micros: int
    hold_micros: int
    mid_micros: int = 0
    rate_micros: int = 0

    @property
    def due_ns(self) -> int:
        """When it expires."""
        return self.expires_at_ns

    @property
    def state(self) -> OrderState:
        """NEW or PARTIALLY_FILLED: an order that is neither is not in memory."""
        return _PARTIALLY_FILLED if self.filled else _NEW


class Terms(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What ``hours`` hours of a rental cost: fixed at the trade or at an extension, whatever changes later.

    All amounts are for the whole rental and one hour: price, fee and seller's share in micro-US$, net and
    VAT in the wallet's currency. ``mid_net_micros`` is the price at the ECB mid, 0 when the wallet is US$.
    """

    hours: int
    price_micros: int
    usd_micros: int
    fee_micros: int
    net_micros: int
    vat_micros: int
    mid_net_micros: int
    country: str


class AutoExtend(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The renter's standing wish to extend; ``spent_micros`` counts what it has held so far."""

    hours: int
    limit_micros: int
    cap_micros: int
    spent_micros: int = 0


class Rental(msgspec.Struct, gc=False, array_like=True):
    """The right to use GPUs of a host for hours. Hours run from ``started_at_ns``."""

    rental_id: int
    order_id: int
    ask_id: int
    host_id: int
    instrument: str
    buyer_id: int
    seller_id: int
    gpus: int
    gpu_mask: int
    currency: Currency
    terms: list[Terms]
    min_hours: int
    max_hours: int
    until_ns: int
    lock_hours: int
    mid_micros: int
    due_ns: int
    held_micros: int
    state: RentalState = _OPENED
    started_at_ns: int = 0
    charged_hours: int = 0
    auto: AutoExtend | None = None
    reason: EndReason | None = None
    opened_at_ns: int = 0
    ended_at_ns: int = 0

    @property
    def hours(self) -> int:
        """Hours bought so far."""
        if len(self.terms) == 1:
            return self.terms[0].hours
        return sum(terms.hours for terms in self.terms)

    @property
    def is_live(self) -> bool:
        """Whether it holds funds and may still be charged."""
        return self.state is _OPENED or self.state is _STARTED


class Book(msgspec.Struct, gc=False, array_like=True):
    """The order book of one instrument; its orders stand in Sides.

    ``due_ns`` is the time of the next planned move of ``state`` (0 = none). ``minutes`` are [minute, Σ price ×
    GPU-hours, Σ GPU-hours] of the last 24 h; ``window`` are 10-second buckets of recent trades for the
    volatility halt: [bucket, lowest, highest price, up to 64 parties], and ``window_low`` and ``window_high``
    are bounds of them, perhaps wider than what is in them.
    """

    number: int
    instrument: str
    state: BookState = BookState.CLOSED
    opens_at_ns: int = 0
    due_ns: int = 0
    reference_micros: int = 0
    auction_micros: int = 0
    last_micros: int = 0
    minutes: list[list[int]] = []
    minutes_value: int = 0
    minutes_gpu_hours: int = 0
    window: list[list[int]] = []
    window_low: int = 0
    window_high: int = 0


class Sides:
    """What can trade in a book, in the order in which it trades (derived state).

    ``ask_keys`` are the keys of the asks that have something on sale; ``region_slots`` number the region codes
    in the bit masks, and ``host_bits`` keep the parts of a host's masks that seldom change (see fitting).
    """

    __slots__ = ("ask_keys", "asks", "bids", "host_bits", "region_slots")

    def __init__(self) -> None:
        self.asks: FitIndex[Ask] = FitIndex()
        self.bids: FitIndex[Bid] = FitIndex()
        self.ask_keys: dict[int, int] = {}
        self.region_slots: dict[str, int] = {}
        self.host_bits: dict[int, tuple[HostSpec, bool, int, int]] = {}


class Transfer(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A refund or payout on its way."""

    transfer_id: int
    party_id: int
    currency: Currency
    micros: int
    is_payout: bool


class Rate(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The ECB mid of a currency: micro-US$ for one unit."""

    mid_micros: int
    as_of_ns: int


class Counters(msgspec.Struct, gc=False, array_like=True):
    """The last number given of each kind; all start at zero."""

    party: int = 0
    host: int = 0
    order: int = 0
    trade: int = 0
    rental: int = 0
    transfer: int = 0
    entry: int = 0
    priority: int = 0


class State:
    """All of the engine's state; the handlers of this room are functions over it."""

    __slots__ = (
        "asks",
        "bids",
        "books",
        "counters",
        "events",
        "hosts",
        "instruments",
        "ledger",
        "moved",
        "now_ns",
        "open_orders",
        "parties",
        "rates",
        "remembered",
        "rentals",
        "rules",
        "sides",
        "timers",
        "transfers",
    )  # fmt: skip

    def __init__(self, rules: MarketRules) -> None:
        self.rules = rules
        self.now_ns = 0
        self.counters = Counters()
        self.parties: dict[int, Party] = {}
        self.hosts: dict[int, Host] = {}
        self.books: dict[str, Book] = {}
        self.bids: dict[int, Bid] = {}
        self.asks: dict[int, Ask] = {}
        self.rentals: dict[int, Rental] = {}
        self.transfers: dict[int, Transfer] = {}
        self.rates: dict[Currency, Rate] = {}
        self.ledger = Ledger()
        #: command id → (encoded command, outcome, at_ns), oldest first. Ordered, because a plain dict
        #: takes longer and longer to find its first key as keys before it are deleted.
        self.remembered: OrderedDict[str, tuple[bytes, Outcome, int]] = OrderedDict()
        # Derived from the above, rebuilt on restore.
        self.sides: dict[str, Sides] = {}
        self.instruments: list[str] = []
        self.open_orders: dict[int, set[int]] = {}
        self.timers = Timers(self)
        #: What the command in hand has caused so far.
        self.events: list[Event] = []
        #: Instruments in which the command in hand moved the price far enough to look at the volatility halt.
        self.moved: set[str] = set()

    def book_by_number(self, number: int) -> Book:
        """Return a book by the number that its timers carry."""
        return self.books[self.instruments[number]]

    def post(
        self,
        kind: EntryKind,
        postings: tuple[Posting, ...],
        at_ns: int,
        *,
        party_id: int = 0,
        order_id: int = 0,
        rental_id: int = 0,
        memo: str = "",
    ) -> None:
        """Post a balanced entry and report it; postings of one currency stand together."""
        self.ledger.post(postings)
        self.counters.entry += 1
        number = self.counters.entry
        self.events.append(JournalEntry(number, kind, at_ns, postings, party_id, order_id, rental_id, memo))

    def next_priority(self) -> int:
        """Return a new place in time, behind all others."""
        self.counters.priority += 1
        return self.counters.priority
