"""Words of the market: enumerations and frozen values that commands, events and state share.

Everything here is plain data. Units stand at the end of each name: prices are micro-US$ per GPU-hour
excluding tax, amounts are micro-units of a currency, times are nanoseconds since the Unix epoch, rates of
tax are parts per million, fees are basis points. All of them are integers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

HOUR_NS: Final = 3_600 * 10**9
MINUTE_NS: Final = 60 * 10**9
SECOND_NS: Final = 10**9
DAY_NS: Final = 24 * HOUR_NS

#: Largest number of GPUs in one server, so also the largest lot (a DGX-2 and an HGX B200 pair have 16).
GPUS_PER_HOST_MAX: Final = 16
#: Largest amount or time that the engine accepts: a PostgreSQL bigint.
INT_MAX: Final = 2**63 - 1
#: Largest price, US$10,000 per GPU-hour: far above any offer, small enough that no sum of products overflows.
PRICE_MICROS_MAX: Final = 10**10
#: Groups of countries that a host or a filter may name beside ISO 3166 codes. A country whose code is the same
#: (NA, Namibia) is found by its group only.
REGION_GROUPS: Final = frozenset({"AFRICA", "APAC", "EU", "LATAM", "MEA", "NA"})


class _Word(StrEnum):
    """A closed set of words. Hashed as the text that it is: Enum's own hash is Python code, slow in every dict."""

    __hash__ = str.__hash__


class TimeInForce(_Word):
    """How long a bid stays in force (FIX tag 59)."""

    GTC = "GTC"
    GTD = "GTD"
    IOC = "IOC"
    FOK = "FOK"


class Side(_Word):
    """Side of an order (FIX tag 54)."""

    BUY = "BUY"
    SELL = "SELL"


class OrderState(_Word):
    """State of an order (FIX tag 39, FIX spelling)."""

    NEW = "NEW"
    PARTIALLY_FILLED = "PARTIALLY_FILLED"
    FILLED = "FILLED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"


class BookState(_Word):
    """State of the order book of one instrument."""

    CLOSED = "CLOSED"
    PREOPEN = "PREOPEN"
    NO_CANCEL = "NO_CANCEL"
    OPEN = "OPEN"
    HALTED = "HALTED"


class RentalState(_Word):
    """State of a rental. ENDED and FAILED rentals leave the engine once their GPUs are wiped."""

    OPENED = "OPENED"
    STARTED = "STARTED"
    ENDED = "ENDED"
    FAILED = "FAILED"
    WIPED = "WIPED"


class HostState(_Word):
    """Whether a host may sell: only a HEALTHY one whose heartbeat is not silent does."""

    UNCHECKED = "UNCHECKED"
    HEALTHY = "HEALTHY"
    SUSPENDED = "SUSPENDED"


class EndReason(_Word):
    """Why a rental ended or failed."""

    COMPLETED = "completed"
    STOPPED_BY_RENTER = "stopped_by_renter"
    FUNDS = "funds"
    HOST_LOST = "host_lost"
    HOST_RECLAIMED = "host_reclaimed"
    START_FAILED = "start_failed"
    OPERATOR = "operator"
    POLICY = "policy"


class VatScheme(_Word):
    """Where the VAT of a sale is declared; REVERSE_CHARGE and OUTSIDE carry a rate of zero."""

    DOMESTIC = "DOM"
    OSS = "OSS"
    OSS_NON_UNION = "OSS-NU"
    UK = "UK"
    REVERSE_CHARGE = "AE"
    OUTSIDE = "OUT"


class Rejection(_Word):
    """Why a command was refused. The codes are stable: programs may depend on them."""

    UNKNOWN_INSTRUMENT = "UNKNOWN_INSTRUMENT"
    UNKNOWN_HOST = "UNKNOWN_HOST"
    UNKNOWN_ORDER = "UNKNOWN_ORDER"
    UNKNOWN_RENTAL = "UNKNOWN_RENTAL"
    NOT_YOURS = "NOT_YOURS"
    BOOK_CLOSED = "BOOK_CLOSED"
    BOOK_HALTED = "BOOK_HALTED"
    PRICE_NOT_ON_TICK = "PRICE_NOT_ON_TICK"
    PRICE_OUT_OF_BAND = "PRICE_OUT_OF_BAND"
    QUANTITY_OUT_OF_RANGE = "QUANTITY_OUT_OF_RANGE"
    HOURS_OUT_OF_RANGE = "HOURS_OUT_OF_RANGE"
    EXPIRES_TOO_LATE = "EXPIRES_TOO_LATE"
    INSUFFICIENT_FUNDS = "INSUFFICIENT_FUNDS"
    CURRENCY_NOT_FUNDED = "CURRENCY_NOT_FUNDED"
    NO_RATE = "NO_RATE"
    TOO_MANY_OPEN_ORDERS = "TOO_MANY_OPEN_ORDERS"
    HOST_HAS_NO_FREE_GPUS = "HOST_HAS_NO_FREE_GPUS"
    HOST_NOT_HEALTHY = "HOST_NOT_HEALTHY"
    ORDER_ALREADY_CLOSED = "ORDER_ALREADY_CLOSED"
    RENTAL_ALREADY_ENDED = "RENTAL_ALREADY_ENDED"
    ASK_WITHDRAWN = "ASK_WITHDRAWN"
    PARTY_IN_DEBT = "PARTY_IN_DEBT"
    PARTY_SUSPENDED = "PARTY_SUSPENDED"
    NOTHING_TO_FILL = "NOTHING_TO_FILL"
    EXISTS_WITH_DIFFERENT_FIELDS = "EXISTS_WITH_DIFFERENT_FIELDS"
    LIMIT_REACHED = "LIMIT_REACHED"
    # Cases that a program must be able to tell apart from all of the above.
    INVALID_FIELD = "INVALID_FIELD"
    UNKNOWN_PARTY = "UNKNOWN_PARTY"
    UNKNOWN_TRANSFER = "UNKNOWN_TRANSFER"
    AMOUNT_OUT_OF_RANGE = "AMOUNT_OUT_OF_RANGE"
    EXPIRES_TOO_EARLY = "EXPIRES_TOO_EARLY"
    NO_TAX_PROFILE = "NO_TAX_PROFILE"
    NO_CANCEL_PERIOD = "NO_CANCEL_PERIOD"
    HOST_ALREADY_OFFERED = "HOST_ALREADY_OFFERED"
    WRONG_STATE = "WRONG_STATE"
    ENTRY_NOT_ALLOWED = "ENTRY_NOT_ALLOWED"


class Filters(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """What a bid asks of a host, beyond its GPU model. An empty field asks nothing.

    ``regions`` holds ISO 3166 country codes or group codes (``EU``); any one of them will do.
    ``reliability_min`` is per mille. The ``*_min`` of RAM, disk and vCPUs are per rented GPU.
    """

    regions: tuple[str, ...] = ()
    is_verified_only: bool = False
    reliability_min: int = 0
    ram_gib_min: int = 0
    disk_gib_min: int = 0
    vcpus_min: int = 0
    avoid_hosts: tuple[int, ...] = ()


NO_FILTERS: Final = Filters()


class HostSpec(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a host is, as its agent probed it: ``gpus`` identical cards of one model in one server."""

    gpus: int
    country: str
    region: str = ""
    vcpus: int = 8
    ram_gib: int = 32
    disk_gib: int = 100
    network_mbps: int = 1_000
    gpu_memory_mib: int = 0
    has_ecc: bool = False
    interconnect: str = ""
    driver: str = "container"


class HostOffer(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One host of an ask: at most ``gpus`` of its GPUs are let at any time."""

    host_id: int
    gpus: int


class TaxProfile(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The tax decision for a party's purchases, frozen into each order at acceptance.

    ``evidence`` names the stored documents (VIES reply, address, card country); ``rule_version`` names the
    dated table that gave the rate. A rate of zero needs a scheme that says why.
    """

    country: str
    scheme: VatScheme
    vat_ppm: int
    evidence: str = ""
    rule_version: str = ""


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Funds reserved for one open bid (``order_id``) or one running rental (``rental_id``); the other is 0."""

    party_id: int
    currency: str
    micros: int
    order_id: int = 0
    rental_id: int = 0


class Trade(msgspec.Struct, frozen=True, gc=False, tag=True):
    """One lot of a bid met one host of an ask; each trade opens one rental. Event and record in one.

    ``price_micros`` is the maker's price per GPU-hour (in an auction the one price of all its trades).
    """

    trade_id: int
    instrument: str
    bid_id: int
    ask_id: int
    rental_id: int
    host_id: int
    buyer_id: int
    seller_id: int
    gpus: int
    hours: int
    price_micros: int
    taker: Side | None
    at_ns: int


class Posting(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One line of a journal entry; exactly one of debit and credit is positive, the other is zero."""

    currency: str
    account: str
    debit_micros: int
    credit_micros: int


class EntryKind(_Word):
    """What a journal entry records."""

    TOP_UP = "TOP_UP"
    REFUND_REQUESTED = "REFUND_REQUESTED"
    REFUND_SETTLED = "REFUND_SETTLED"
    REFUND_FAILED = "REFUND_FAILED"
    CHARGEBACK = "CHARGEBACK"
    CHARGEBACK_WON = "CHARGEBACK_WON"
    DEBT_WRITTEN_OFF = "DEBT_WRITTEN_OFF"
    HOLD_PLACED = "HOLD_PLACED"
    HOLD_RELEASED = "HOLD_RELEASED"
    HOLD_AMENDED = "HOLD_AMENDED"
    TRADE = "TRADE"
    HOURS_CHARGED = "HOURS_CHARGED"
    HOURS_REVERSED = "HOURS_REVERSED"
    RENTAL_RELEASED = "RENTAL_RELEASED"
    RENTAL_EXTENDED = "RENTAL_EXTENDED"
    PENALTY = "PENALTY"
    EARNINGS_CLEARED = "EARNINGS_CLEARED"
    PAYOUT_REQUESTED = "PAYOUT_REQUESTED"
    PAYOUT_SETTLED = "PAYOUT_SETTLED"
    PAYOUT_RETURNED = "PAYOUT_RETURNED"
    INVOICE = "INVOICE"
    OPERATOR = "OPERATOR"


class JournalEntry(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A balanced set of postings: in each currency, debits equal credits. Event and record in one.

    ``order_id``, ``rental_id`` and ``party_id`` say what it is about (0 = not about one).
    """

    entry_id: int
    kind: EntryKind
    at_ns: int
    postings: tuple[Posting, ...]
    party_id: int = 0
    order_id: int = 0
    rental_id: int = 0
    memo: str = ""
