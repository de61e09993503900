"""What a follower of the events knows, and nothing else: orders, rentals, hosts, balances.

`Mirror.fold` is the proof that events suffice: the tests compare it with the engine's own answers. On the way it
checks what no event may contradict: a trade within both limits, an order that closes once, hours that add up.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from bursa.market import OrderState, RentalState, Trade
from bursa.market import events as e
from bursa.market.types import JournalEntry


@dataclass(slots=True)
class Order:
    """A bid or an ask as its events tell it; lots of a bid, an ask counts none."""

    order_id: int
    party_id: int
    instrument: str
    price_micros: int
    hosts: tuple[int, ...] = ()
    gpus: int = 0
    lots: int = 0
    filled: int = 0
    canceled: int = 0
    state: OrderState | None = None  # None = in the book

    @property
    def is_bid(self) -> bool:
        return not self.hosts

    @property
    def leaves(self) -> int:
        return self.lots - self.filled - self.canceled


@dataclass(slots=True)
class Rental:
    rental_id: int
    order_id: int
    host_id: int
    buyer_id: int
    seller_id: int
    gpus: int
    hours: int
    charged_hours: int = 0
    state: RentalState = RentalState.OPENED


@dataclass
class Mirror:
    """All that a follower of the events knows."""

    balances: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    orders: dict[int, Order] = field(default_factory=dict)
    rentals: dict[int, Rental] = field(default_factory=dict)
    hosts: dict[int, int] = field(default_factory=dict)
    instruments: list[str] = field(default_factory=list)
    parties: list[int] = field(default_factory=list)
    trades: list[Trade] = field(default_factory=list)
    entries: list[JournalEntry] = field(default_factory=list)
    gone_hosts: list[int] = field(default_factory=list)

    def fold(self, events: Iterable[e.Event]) -> None:
        for event in events:
            fold_one = getattr(self, f"on_{type(event).__name__}", None)
            if fold_one:
                fold_one(event)

    def on_PartyRegistered(self, event: e.PartyRegistered) -> None:  # noqa: N802 - named as the event
        self.parties.append(event.party_id)

    def on_InstrumentListed(self, event: e.InstrumentListed) -> None:  # noqa: N802
        if event.instrument not in self.instruments:
            self.instruments.append(event.instrument)

    def on_HostListed(self, event: e.HostListed) -> None:  # noqa: N802
        self.hosts[event.host_id] = event.party_id

    def on_HostRetired(self, event: e.HostRetired) -> None:  # noqa: N802
        del self.hosts[event.host_id]
        self.gone_hosts.append(event.host_id)

    def on_BidAccepted(self, event: e.BidAccepted) -> None:  # noqa: N802
        order = Order(event.order_id, event.party_id, event.instrument, event.limit_micros)
        order.gpus, order.lots = event.gpus, event.lots
        self.orders[event.order_id] = order

    def on_AskAccepted(self, event: e.AskAccepted) -> None:  # noqa: N802
        hosts = tuple(offer.host_id for offer in event.offers)
        self.orders[event.order_id] = Order(event.order_id, event.party_id, event.instrument, event.price_micros, hosts)

    def on_BidAmended(self, event: e.BidAmended) -> None:  # noqa: N802
        order = self.orders[event.order_id]
        order.price_micros, order.lots = event.limit_micros, event.lots

    def on_AskAmended(self, event: e.AskAmended) -> None:  # noqa: N802
        order = self.orders[event.order_id]
        order.price_micros, order.hosts = event.price_micros, tuple(offer.host_id for offer in event.offers)

    def on_OrderClosed(self, event: e.OrderClosed) -> None:  # noqa: N802
        order = self.orders[event.order_id]
        assert order.state is None, "closed twice"
        order.state = event.state
        if order.is_bid:
            assert event.filled_lots == order.filled, (event, order)
            order.canceled += event.canceled_lots
            assert order.leaves == 0, (event, order)

    def on_Trade(self, event: Trade) -> None:  # noqa: N802
        bid, ask = self.orders[event.bid_id], self.orders[event.ask_id]
        assert ask.price_micros <= event.price_micros <= bid.price_micros, (event, bid, ask)
        assert bid.state is None, (event, bid)
        assert ask.state is None, (event, ask)
        assert bid.leaves > 0, (event, bid)
        bid.filled += 1
        self.trades.append(event)

    def on_RentalOpened(self, event: e.RentalOpened) -> None:  # noqa: N802
        ids = event.rental_id, event.order_id, event.host_id, event.buyer_id, event.seller_id
        self.rentals[event.rental_id] = Rental(*ids, event.gpus, event.hours)

    def on_RentalStarted(self, event: e.RentalStarted) -> None:  # noqa: N802
        self.rentals[event.rental_id].state = RentalState.STARTED

    def on_RentalHoursCharged(self, event: e.RentalHoursCharged) -> None:  # noqa: N802
        rental = self.rentals[event.rental_id]
        rental.charged_hours += event.hours
        assert rental.charged_hours == event.charged_hours, (event, rental)
        assert rental.charged_hours <= rental.hours, (event, rental)

    def on_RentalHoursReversed(self, event: e.RentalHoursReversed) -> None:  # noqa: N802
        rental = self.rentals[event.rental_id]
        rental.charged_hours -= event.hours
        assert rental.charged_hours == event.charged_hours >= 0, (event, rental)

    def on_RentalExtended(self, event: e.RentalExtended) -> None:  # noqa: N802
        self.rentals[event.rental_id].hours += event.hours

    def on_RentalEnded(self, event: e.RentalEnded) -> None:  # noqa: N802
        rental = self.rentals[event.rental_id]
        assert rental.charged_hours == event.charged_hours, (event, rental)
        rental.state = RentalState.ENDED

    def on_RentalFailed(self, event: e.RentalFailed) -> None:  # noqa: N802
        rental = self.rentals[event.rental_id]
        assert rental.charged_hours == event.charged_hours, (event, rental)
        rental.state = RentalState.FAILED

    def on_RentalWiped(self, event: e.RentalWiped) -> None:  # noqa: N802
        self.rentals[event.rental_id].state = RentalState.WIPED

    def on_JournalEntry(self, event: JournalEntry) -> None:  # noqa: N802
        self.entries.append(event)
        for posting in event.postings:
            self.balances[posting.currency][posting.account] += posting.credit_micros - posting.debit_micros

    def nonzero(self) -> dict[str, dict[str, int]]:
        """Balances as the engine tells them: accounts at zero are forgotten."""
        books = {cur: {name: micros for name, micros in b.items() if micros} for cur, b in self.balances.items()}
        return {cur: accounts for cur, accounts in books.items() if accounts}

    def open_bids(self) -> list[Order]:
        return [order for order in self.orders.values() if order.is_bid and order.state is None]

    def open_asks(self) -> list[Order]:
        return [order for order in self.orders.values() if not order.is_bid and order.state is None]

    def rentals_in(self, *states: RentalState) -> list[Rental]:
        return [rental for rental in self.rentals.values() if rental.state in states]
