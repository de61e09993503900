"""The checks that several handlers share; each returns a Rejected, or None when all is well.

A handler makes all of its checks before it changes anything, so a refused command leaves no trace.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bursa.market.charging import usable_mid
from bursa.market.events import Rejected
from bursa.market.state import Book, Host, Party, Rental, State
from bursa.market.types import (
    INT_MAX,
    PRICE_MICROS_MAX,
    REGION_GROUPS,
    BookState,
    Filters,
    HostSpec,
    Rejection,
    TimeInForce,
    VatScheme,
)
from bursa.market.volatility import reference_micros
from bursa.money import MICROS_PER_CENT, Currency

#: Longest text of any field, in characters.
TEXT_MAX: Final = 200
FILTER_ITEMS_MAX: Final = 64
#: Largest RAM, disk (GiB) or vCPU count of a host, and network in Mbit/s.
SPEC_NUMBER_MAX: Final = 2**20
#: Largest sum of one command, in micro-units: one billion.
AMOUNT_MICROS_MAX: Final = 10**15
_COUNTRY_LETTERS: Final = 2
_REGION_CHARS_MAX: Final = 8
# An attribute of an Enum class is looked up ten times slower than a global name; every command passes here.
_OPEN = BookState.OPEN
_USD = Currency.USD
_INSUFFICIENT_FUNDS = Rejection.INSUFFICIENT_FUNDS


def refuse(code: Rejection, field: str = "", expected: str = "", shortfall_micros: int = 0) -> Rejected:
    """Return a refusal."""
    return Rejected(code, field, expected, shortfall_micros)


def check_text(field: str, text: str, *, may_be_empty: bool = False) -> Rejected | None:
    """Refuse a text that is empty, too long, blank at an end, or not fit for a log line."""
    if text == "":
        is_good = may_be_empty
    else:
        is_good = len(text) <= TEXT_MAX and text.isprintable() and text[0] != " " != text[-1]
    if is_good:
        return None
    return refuse(Rejection.INVALID_FIELD, field, f"1 to {TEXT_MAX} printable characters, no space at either end")


def check_slug(field: str, text: str) -> Rejected | None:
    """Refuse what is not a slug: it would break the account names and URLs that it becomes a part of."""
    is_slug = (
        text.isascii() and text.replace("-", "").replace(".", "").replace("_", "").isalnum() and text == text.lower()
    )
    if is_slug and len(text) <= 64:  # noqa: PLR2004 - the number stands in the message
        return None
    return refuse(Rejection.INVALID_FIELD, field, "1 to 64 of a-z, 0-9, - . _")


def check_country(field: str, code: str) -> Rejected | None:
    """Refuse what is not an ISO 3166 alpha-2 code by its form."""
    if len(code) == _COUNTRY_LETTERS and code.isascii() and code.isalpha() and code.isupper():
        return None
    return refuse(Rejection.INVALID_FIELD, field, "an ISO 3166 country code such as DE")


def check_amount(field: str, micros: int, *, cents_min: int = 1) -> Rejected | None:
    """Refuse a sum that is not a whole number of cents of at least ``cents_min``."""
    low = cents_min * MICROS_PER_CENT
    if low <= micros <= AMOUNT_MICROS_MAX and micros % MICROS_PER_CENT == 0:
        return None
    return refuse(Rejection.AMOUNT_OUT_OF_RANGE, field, f"whole cents, {low} to {AMOUNT_MICROS_MAX} micro-units")


def check_number(code: Rejection, field: str, number: int, low: int, high: int) -> Rejected | None:
    """Refuse a number outside low..high."""
    if low <= number <= high:
        return None
    return refuse(code, field, f"{low} to {high}")


def check_filters(filters: Filters) -> Rejected | None:
    """Refuse filters that no host could be meant by."""
    if len(filters.regions) > FILTER_ITEMS_MAX or len(filters.avoid_hosts) > FILTER_ITEMS_MAX:
        return refuse(Rejection.INVALID_FIELD, "filters", f"at most {FILTER_ITEMS_MAX} regions and hosts")
    if any(len(code) > _REGION_CHARS_MAX for code in filters.regions):
        return refuse(Rejection.INVALID_FIELD, "filters.regions", "ISO 3166 codes such as DE, or groups such as EU")
    return _check_small_filters(filters)


@lru_cache(maxsize=4_096)
def _check_small_filters(filters: Filters) -> Rejected | None:
    """Check filters of bounded size; cached, since few different ones are in use."""
    for code in filters.regions:
        if code not in REGION_GROUPS and (refusal := check_country("filters.regions", code)):
            return refusal
    for host_id in filters.avoid_hosts:
        if refusal := check_number(Rejection.INVALID_FIELD, "filters.avoid_hosts", host_id, 1, INT_MAX):
            return refusal
    if refusal := check_number(Rejection.INVALID_FIELD, "filters.reliability_min", filters.reliability_min, 0, 1_000):
        return refusal
    for field in ("ram_gib_min", "disk_gib_min", "vcpus_min"):
        number = getattr(filters, field)
        if refusal := check_number(Rejection.INVALID_FIELD, f"filters.{field}", number, 0, SPEC_NUMBER_MAX):
            return refusal
    return None


def check_spec(spec: HostSpec, gpus_max: int) -> Rejected | None:
    """Refuse a host that cannot be."""
    if refusal := check_number(Rejection.QUANTITY_OUT_OF_RANGE, "spec.gpus", spec.gpus, 1, gpus_max):
        return refusal
    if refusal := check_country("spec.country", spec.country):
        return refusal
    if spec.region and spec.region not in REGION_GROUPS:
        return refuse(Rejection.INVALID_FIELD, "spec.region", f"one of {', '.join(sorted(REGION_GROUPS))}, or empty")
    for field in ("vcpus", "ram_gib", "disk_gib"):
        if refusal := check_number(Rejection.INVALID_FIELD, f"spec.{field}", getattr(spec, field), 1, SPEC_NUMBER_MAX):
            return refusal
    for field in ("network_mbps", "gpu_memory_mib"):
        if refusal := check_number(Rejection.INVALID_FIELD, f"spec.{field}", getattr(spec, field), 0, 2**31):
            return refusal
    if spec.driver not in {"container", "process", "simulated"}:
        return refuse(Rejection.INVALID_FIELD, "spec.driver", "container, process or simulated")
    return check_text("spec.interconnect", spec.interconnect, may_be_empty=True)


def check_profile(country: str, scheme: VatScheme, vat_ppm: int) -> Rejected | None:
    """Refuse a tax decision that contradicts itself: a zero rate needs a scheme that says why."""
    if refusal := check_country("profile.country", country):
        return refusal
    is_untaxed = scheme in {VatScheme.REVERSE_CHARGE, VatScheme.OUTSIDE}
    if is_untaxed and vat_ppm != 0:
        return refuse(Rejection.INVALID_FIELD, "profile.vat_ppm", f"0 under the scheme {scheme}")
    if not is_untaxed and not 0 < vat_ppm <= 500_000:  # noqa: PLR2004 - the number stands in the message
        return refuse(Rejection.INVALID_FIELD, "profile.vat_ppm", "1 to 500000 (50 %), or 0 with AE or OUT")
    return None


def known_party(state: State, party_id: int) -> Party | Rejected:
    """Return a party that may order, or the refusal."""
    party = state.parties.get(party_id)
    if party is None:
        return refuse(Rejection.UNKNOWN_PARTY, "party_id", "the id of a registered party")
    return party


def check_may_order(party: Party) -> Rejected | None:
    """Refuse a party that is suspended or in debt: it neither orders nor takes money out."""
    if party.is_suspended:
        return refuse(Rejection.PARTY_SUSPENDED, "party_id", "a party that is not suspended")
    if party.is_in_debt:
        return refuse(Rejection.PARTY_IN_DEBT, "party_id", "a party whose debt is paid by a top-up")
    return None


def known_host(state: State, host_id: int) -> Host | Rejected:
    """Return a host, or the refusal."""
    host = state.hosts.get(host_id)
    return host or refuse(Rejection.UNKNOWN_HOST, "host_id", "the id of a listed host")


def missing_order(state: State, order_id: int) -> Rejected:
    """Return why an order is not in memory: closed long ago, or never there."""
    if 0 < order_id <= state.counters.order:
        return refuse(Rejection.ORDER_ALREADY_CLOSED, "order_id", "an open order")
    return refuse(Rejection.UNKNOWN_ORDER, "order_id", "the id of an order")


def live_rental(state: State, rental_id: int) -> Rental | Rejected:
    """Return a rental that is OPENED or STARTED, or the refusal."""
    rental = state.rentals.get(rental_id)
    if rental is not None and rental.is_live:
        return rental
    if 0 < rental_id <= state.counters.rental:
        return refuse(Rejection.RENTAL_ALREADY_ENDED, "rental_id", "a rental that is opened or started")
    return refuse(Rejection.UNKNOWN_RENTAL, "rental_id", "the id of a rental")


def renters_rental(state: State, party_id: int, rental_id: int) -> Rental | Rejected:
    """Return a live rental of this renter, or the refusal."""
    party = known_party(state, party_id)
    if isinstance(party, Rejected):
        return party
    rental = live_rental(state, rental_id)
    if isinstance(rental, Rental) and rental.buyer_id != party_id:
        return refuse(Rejection.NOT_YOURS, "rental_id", "a rental of this party")
    return rental


def check_price(state: State, field: str, price_micros: int) -> Rejected | None:
    """Refuse a price that is not on the tick, or beyond what any price may be."""
    if not 0 < price_micros <= PRICE_MICROS_MAX:
        return refuse(Rejection.PRICE_OUT_OF_BAND, field, f"1 to {PRICE_MICROS_MAX} micro-US$ per GPU-hour")
    if price_micros % state.rules.tick_micros:
        return refuse(Rejection.PRICE_NOT_ON_TICK, field, f"a multiple of {state.rules.tick_micros} micro-US$")
    return None


def check_bid_band(state: State, book: Book, limit_micros: int, at_ns: int) -> Rejected | None:
    """Refuse a bid far above the reference price."""
    reference = reference_micros(book, at_ns)
    high = reference * state.rules.bid_band_percent // 100
    if reference and limit_micros > high:
        return refuse(Rejection.PRICE_OUT_OF_BAND, "limit_micros", f"at most {high} micro-US$ (reference {reference})")
    return None


def check_ask_band(state: State, book: Book, price_micros: int, at_ns: int) -> Rejected | None:
    """Refuse an ask far below the reference price."""
    reference = reference_micros(book, at_ns)
    low = -(-reference * state.rules.ask_band_percent // 100)
    if reference and price_micros < low:
        return refuse(Rejection.PRICE_OUT_OF_BAND, "price_micros", f"at least {low} micro-US$ (reference {reference})")
    return None


def check_book_takes_orders(book: Book, time_in_force: TimeInForce = TimeInForce.GTC) -> Rejected | None:
    """Refuse an order that this book does not take in its present state."""
    if book.state is _OPEN:
        return None
    if book.state is BookState.CLOSED:
        return refuse(Rejection.BOOK_CLOSED, "instrument", "a market that has begun to take orders")
    if book.state is BookState.HALTED:
        return refuse(Rejection.BOOK_HALTED, "instrument", "a market that is not halted")
    if time_in_force in {TimeInForce.IOC, TimeInForce.FOK}:
        return refuse(Rejection.NOTHING_TO_FILL, "time_in_force", "GTC or GTD until the market is open")
    return None


def check_outlives_opening(field: str, ends_at_ns: int, book: Book) -> Rejected | None:
    """Refuse an order that would end before a planned opening: it would be a cancel in the last minutes."""
    if ends_at_ns >= book.opens_at_ns:
        return None
    return refuse(Rejection.EXPIRES_TOO_EARLY, field, f"at least {book.opens_at_ns}, when the market opens")


def mid_for(state: State, currency: Currency, at_ns: int) -> int | Rejected:
    """Return the mid that converts US$ prices for a wallet (0 for US$ itself), or the refusal."""
    if currency is _USD:
        return 0
    mid = usable_mid(state, currency, at_ns)
    if mid:
        return mid
    hours = state.rules.fx_age_hours_max
    return refuse(Rejection.NO_RATE, "currency", f"USD, or a rate for {currency} not older than {hours} h")


def check_funds(state: State, party: Party, currency: Currency, micros: int) -> Rejected | None:
    """Refuse what the available balance does not cover."""
    if currency not in party.currencies:
        return refuse(Rejection.CURRENCY_NOT_FUNDED, "currency", "a currency that the party has topped up")
    available = state.ledger.balance(currency, f"wallet:{party.party_id}")
    if micros > INT_MAX:
        return refuse(Rejection.AMOUNT_OUT_OF_RANGE, "limit_micros", "an order that holds less than 2^63 micro-units")
    if micros > available:
        short = micros - available
        return refuse(_INSUFFICIENT_FUNDS, "currency", f"{short} micro-units more in {currency}", short)
    return None
