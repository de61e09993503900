"""A slow and obvious model of matching, written from the rule book and not from the engine.

Role: the second opinion. It keeps plain lists, scans all of them for every lot, and knows nothing of money: whoever
drives it gives every party enough funds. Here is what may trade with what and in which order; what each command
means to it is in naive_market. Ids are the engine's: the driver passes them in.

Source: market rules §1, §2 and the examples A, B, H, K, L, N of §7.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from bursa.market import BookState, Filters, HostOffer, HostSpec, HostState, MarketRules, RentalState
from bursa.market.types import DAY_NS, HOUR_NS, MINUTE_NS

#: Refused, but the rule book does not say with which code.
REFUSED: Final = "refused"
FAR: Final = 2**63 - 1


@dataclass(slots=True, eq=False)
class Party:
    party_id: int
    tax_id: str
    payout_account: str


@dataclass(slots=True, eq=False)
class Host:
    host_id: int
    party_id: int
    instrument: str
    spec: HostSpec
    state: HostState = HostState.UNCHECKED
    is_verified: bool = False
    reliability_ppm: int = 900_000
    lost_at_ns: int = 0  # when a silent host counts as lost; 0 = it is heard

    @property
    def sells(self) -> bool:
        return self.state is HostState.HEALTHY and self.lost_at_ns == 0


@dataclass(slots=True, eq=False)
class Ask:
    order_id: int
    party_id: int
    instrument: str
    offers: tuple[HostOffer, ...]
    price: int
    min_gpus: int
    min_hours: int
    max_hours: int
    until_ns: int
    stamp: int


@dataclass(slots=True, eq=False)
class Bid:
    order_id: int
    party_id: int
    instrument: str
    gpus: int
    hours: int
    limit: int
    lots: int
    filters: Filters
    expires_ns: int
    stamp: int
    filled: int = 0

    @property
    def left(self) -> int:
        return self.lots - self.filled


@dataclass(slots=True, eq=False)
class Rental:
    rental_id: int
    host_id: int
    buyer_id: int
    seller_id: int
    gpus: int
    hours: int
    due_ns: int  # when it must have started, and then when it ends
    state: RentalState = RentalState.OPENED
    is_void: bool = False  # it was over before it started, so its price says nothing


@dataclass(slots=True, eq=False)
class Book:
    instrument: str
    state: BookState = BookState.CLOSED
    opens_ns: int = 0  # of PREOPEN and NO_CANCEL; of HALTED, when it ends by itself; 0 = not planned
    last_auction: int = 0
    operators_reference: int = 0


@dataclass(frozen=True, slots=True)
class Fill:
    """What both sides must agree on."""

    bid: int
    ask: int
    host: int
    gpus: int
    hours: int
    price: int


@dataclass(slots=True, eq=False)
class Auction:
    """One candidate price, tried out."""

    price: int
    gpu_hours: int
    imbalance: int
    pairs: list[tuple[Bid, Ask, int]]
    unfilled: list[int]


OrderT = TypeVar("OrderT", Ask, Bid, Ask | Bid)


class NaiveBook:
    """Orders, hosts and rentals in plain lists, and what may trade with what."""

    def __init__(self, rules: MarketRules) -> None:
        self.rules = rules
        self.now_ns = 0
        self.stamp = 0
        self.parties: list[Party] = []
        self.hosts: list[Host] = []
        self.asks: list[Ask] = []
        self.bids: list[Bid] = []
        self.rentals: list[Rental] = []
        self.books: list[Book] = []
        self.gone_orders: set[int] = set()
        self.history: list[tuple[int, str, Fill, Rental]] = []
        self.fills: list[Fill] = []
        self.unnamed: list[Rental] = []
        self.auctions: list[Auction] = []

    # ── who may trade with whom ──────────────────────────────────────────────────────────────────────────────────────

    def linked(self, one: int, other: int) -> bool:
        a, b = self.party(one), self.party(other)
        same_tax = a.tax_id != "" and a.tax_id == b.tax_id
        same_account = a.payout_account != "" and a.payout_account == b.payout_account
        return a is b or same_tax or same_account

    def free(self, offer: HostOffer) -> int:
        busy = sum(rental.gpus for rental in self.rentals if rental.host_id == offer.host_id)
        return max(0, offer.gpus - busy) if self.host(offer.host_id).sells else 0

    def not_rented(self, host_id: int, ask: Ask | None) -> int:
        """Count the GPUs that an ask offers on a host and that nobody rents, whether the host may sell or not."""
        offered = sum(offer.gpus for offer in ask.offers if offer.host_id == host_id) if ask else 0
        return max(0, offered - sum(rental.gpus for rental in self.rentals if rental.host_id == host_id))

    def passes(self, host: Host, filters: Filters) -> bool:
        spec = host.spec
        return (
            (not filters.regions or spec.country in filters.regions or spec.region in filters.regions)
            and (host.is_verified or not filters.is_verified_only)
            and host.reliability_ppm // 1000 >= filters.reliability_min
            and spec.ram_gib >= filters.ram_gib_min * spec.gpus
            and spec.disk_gib >= filters.disk_gib_min * spec.gpus
            and spec.vcpus >= filters.vcpus_min * spec.gpus
            and host.host_id not in filters.avoid_hosts
        )

    def fitting(self, ask: Ask, bid: Bid) -> list[tuple[int, int]]:
        """(free GPUs, host id) of every host of the ask that can take one lot of the bid, whatever the prices."""
        if self.linked(ask.party_id, bid.party_id) or bid.gpus < ask.min_gpus:
            return []
        if not ask.min_hours <= bid.hours <= ask.max_hours or self.now_ns + bid.hours * HOUR_NS > ask.until_ns:
            return []
        return [
            (self.free(offer), offer.host_id)
            for offer in ask.offers
            if self.free(offer) >= bid.gpus and self.passes(self.host(offer.host_id), bid.filters)
        ]

    # ── matching ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def match_bid(self, bid: Bid) -> None:
        """Each lot walks the asks from the cheapest, then the oldest."""
        if self.book(bid.instrument).state is not BookState.OPEN:
            return
        while bid.left:
            able = [a for a in self.asks_of(bid.instrument) if a.price <= bid.limit and self.fitting(a, bid)]
            if not able:
                return
            ask = min(able, key=lambda a: (a.price, a.stamp))
            self.trade(bid, ask, min(self.fitting(ask, bid))[1], ask.price)

    def match_ask(self, ask: Ask) -> None:
        """Walk the bids from the highest, then the oldest."""
        if self.book(ask.instrument).state is not BookState.OPEN:
            return
        for bid in sorted(self.bids_of(ask.instrument), key=lambda b: (-b.limit, b.stamp)):
            while bid.left and ask.price <= bid.limit and self.fitting(ask, bid):
                self.trade(bid, ask, min(self.fitting(ask, bid))[1], bid.limit)

    def trade(self, bid: Bid, ask: Ask, host_id: int, price: int) -> None:
        bid.filled += 1
        start_by = self.now_ns + self.rules.start_minutes_max * MINUTE_NS
        rental = Rental(0, host_id, bid.party_id, ask.party_id, bid.gpus, bid.hours, start_by)
        self.rentals.append(rental)
        self.unnamed.append(rental)
        fill = Fill(bid.order_id, ask.order_id, host_id, bid.gpus, bid.hours, price)
        self.fills.append(fill)
        self.history.append((self.now_ns, bid.instrument, fill, rental))
        if bid.left == 0 and bid in self.bids:
            self.close(bid)

    def supply(self, ask: Ask) -> int:
        """Count the GPUs that are on sale: what lies idle on a host below min_gpus is not."""
        return sum(free for free in map(self.free, ask.offers) if free >= ask.min_gpus)

    def candidates(self, instrument: str) -> set[int]:
        """All limits; that of an ask with nothing on sale is none."""
        prices = {ask.price for ask in self.asks_of(instrument) if self.supply(ask)}
        return prices | {bid.limit for bid in self.bids_of(instrument)}

    def try_auction(self, instrument: str, price: int) -> Auction:
        """Try one price: each lot takes the tightest host; equally tight ones by price, time, id."""
        asks = [ask for ask in self.asks_of(instrument) if ask.price <= price and self.supply(ask)]
        bids = sorted((b for b in self.bids_of(instrument) if b.limit >= price), key=lambda b: (-b.limit, b.stamp))
        imbalance = abs(sum(bid.left * bid.gpus for bid in bids) - sum(map(self.supply, asks)))
        taken: dict[int, int] = {}
        pairs: list[tuple[Bid, Ask, int]] = []
        unfilled: list[int] = []
        for bid in bids:
            for _ in range(bid.left):
                able = [
                    (free - taken.get(host_id, 0), ask.price, ask.stamp, host_id, ask)
                    for ask in asks
                    for free, host_id in self.fitting(ask, bid)
                    if free - taken.get(host_id, 0) >= bid.gpus
                ]
                if not able:
                    unfilled.append(bid.order_id)
                    break
                *_, host_id, ask = min(able, key=lambda entry: entry[:4])
                taken[host_id] = taken.get(host_id, 0) + bid.gpus
                pairs.append((bid, ask, host_id))
        return Auction(price, sum(b.gpus * b.hours for b, _, _ in pairs), imbalance, pairs, unfilled)

    def best_auction(self, instrument: str) -> Auction | None:
        tried = [self.try_auction(instrument, price) for price in sorted(self.candidates(instrument))]
        reference = self.reference(instrument)

        def merit(auction: Auction) -> tuple[int, int, int, int]:
            away = abs(auction.price - reference) if reference else 0
            return -auction.gpu_hours, auction.imbalance, away, auction.price

        best = min(tried, key=merit, default=None)
        return best if best and best.gpu_hours else None

    def run_auction(self, book: Book) -> None:
        best = self.best_auction(book.instrument)
        self.auctions.append(best or Auction(0, 0, 0, [], []))
        book.state, book.opens_ns = BookState.OPEN, 0
        if best:
            book.last_auction = best.price
            for bid, ask, host_id in best.pairs:
                self.trade(bid, ask, host_id, best.price)
        self.match_rest(book.instrument)

    def match_rest(self, instrument: str) -> None:
        """Trade what still fits at the price of the older of the two, best bid first."""
        for bid in sorted(self.bids_of(instrument), key=lambda b: (-b.limit, b.stamp)):
            while bid.left:
                able = [a for a in self.asks_of(instrument) if a.price <= bid.limit and self.fitting(a, bid)]
                if not able:
                    break
                ask = min(able, key=lambda a: (a.price, a.stamp))
                price = ask.price if ask.stamp < bid.stamp else bid.limit
                self.trade(bid, ask, min(self.fitting(ask, bid))[1], price)

    # ── prices ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def reference(self, instrument: str) -> int:
        """Return the reference price, 0 without one. Ages near 24 h are for the driver to avoid."""
        since = self.now_ns - DAY_NS
        recent = [f for at, name, f, r in self.history if name == instrument and at > since and not r.is_void]
        volume = sum(fill.gpus * fill.hours for fill in recent)
        if volume:
            return round_half_even(sum(fill.price * fill.gpus * fill.hours for fill in recent), volume)
        book = self.book(instrument)
        return book.last_auction or book.operators_reference

    def in_band(self, instrument: str, price: int, *, is_bid: bool) -> bool:
        reference = self.reference(instrument)
        if is_bid:
            return reference == 0 or price * 100 <= reference * self.rules.bid_band_percent
        return reference == 0 or price * 100 >= reference * self.rules.ask_band_percent

    # ── linear look-ups ──────────────────────────────────────────────────────────────────────────────────────────────

    def next_stamp(self) -> int:
        self.stamp += 1
        return self.stamp

    def party(self, party_id: int) -> Party:
        return next(party for party in self.parties if party.party_id == party_id)

    def host(self, host_id: int) -> Host:
        return next(host for host in self.hosts if host.host_id == host_id)

    def book(self, instrument: str) -> Book:
        return next(book for book in self.books if book.instrument == instrument)

    def asks_of(self, instrument: str) -> list[Ask]:
        return [ask for ask in self.asks if ask.instrument == instrument]

    def bids_of(self, instrument: str) -> list[Bid]:
        return [bid for bid in self.bids if bid.instrument == instrument]

    def ask_on(self, host_id: int) -> Ask | None:
        return next((a for a in self.asks if any(offer.host_id == host_id for offer in a.offers)), None)

    def find_rental(self, rental_id: int) -> Rental | None:
        return next((rental for rental in self.rentals if rental.rental_id == rental_id), None)

    @staticmethod
    def find_order(orders: Sequence[OrderT], order_id: int) -> OrderT | None:
        return next((order for order in orders if order.order_id == order_id), None)

    def close(self, order: Bid | Ask) -> None:
        self.gone_orders.add(order.order_id)
        if isinstance(order, Bid):
            self.bids.remove(order)
        else:
            self.asks.remove(order)


def round_half_even(numerator: int, denominator: int) -> int:
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    return quotient + (twice > denominator or (twice == denominator and quotient % 2 == 1))
