"""The mirror: the market as its events tell it, folded by code that shares nothing with the engine.

It checks what events alone can prove: a GPU is let to one renter at a time, each trade lies within both limits and
between orders that fit each other, filled + leaves + canceled = quantity, a closed order and an ended rental hold
nothing, a rental is charged its hours at the traded price. The generators read it to know what exists.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from bursa.market import (
    HOUR_NS,
    AskAccepted,
    AskAmended,
    AuctionHeld,
    BidAccepted,
    BidAmended,
    BookState,
    BookStateChanged,
    EntryKind,
    Event,
    HostCameBack,
    HostListed,
    HostRetired,
    HostState,
    HostStateChanged,
    HostWentSilent,
    InstrumentListed,
    JournalEntry,
    MarketRules,
    OrderClosed,
    PartyRegistered,
    PartyReinstated,
    PartySuspended,
    PartyUpdated,
    RateSet,
    RentalEnded,
    RentalExtended,
    RentalFailed,
    RentalHoursCharged,
    RentalHoursReversed,
    RentalOpened,
    RentalStarted,
    RentalWiped,
    RulesChanged,
    TaxProfileSet,
    Trade,
)
from tests.sim.arithmetic import customer_rate, net_in_wallet, vat
from tests.sim.ledger import LedgerMirror
from tests.sim.pool import Pool
from tests.sim.views import AskView, BidView, HostView, PartyView, RentalView

TRADES_SHOWN: Final = 12


class Mirror:
    """State by events. `fold` takes each event in order, `settle` is called when a command is done."""

    def __init__(self, rules: MarketRules, fault: Callable[[str], None]) -> None:
        self.fault = fault
        self.rules = rules
        self.ledger = LedgerMirror(fault)
        self.parties: dict[int, PartyView] = {}
        self.hosts: dict[int, HostView] = {}
        self.books: dict[str, BookState] = {}
        self.rates: dict[str, int] = {}
        self.asks: dict[int, AskView] = {}
        self.bids: dict[int, BidView] = {}
        self.asks_by_book: dict[str, dict[int, AskView]] = {}
        self.rentals: dict[int, RentalView] = {}
        self.open_bids = Pool()
        self.open_asks = Pool()
        self.live_rentals = Pool()
        self.unwiped = Pool()
        self.last_trades: deque[Trade] = deque(maxlen=TRADES_SHOWN)
        self.last_order = 0
        self.last_rental = 0
        self.counts: Counter[str] = Counter()
        #: What the command in hand has to be checked for when it is done.
        self.accepted: list[BidAccepted] = []
        self.holds_placed: dict[int, int] = {}
        self.closed: list[int] = []
        self.ended: list[int] = []
        self.is_auction = False
        self._folds: dict[type, Callable[[Any], None]] = {
            AskAccepted: self._ask_accepted,
            AskAmended: self._ask_amended,
            AuctionHeld: self._auction_held,
            BidAccepted: self._bid_accepted,
            BidAmended: self._bid_amended,
            BookStateChanged: self._book_state,
            HostCameBack: self._host_back,
            HostListed: self._host_listed,
            HostRetired: self._host_retired,
            HostStateChanged: self._host_state,
            HostWentSilent: self._host_silent,
            InstrumentListed: self._instrument_listed,
            JournalEntry: self._entry,
            OrderClosed: self._order_closed,
            PartyRegistered: self._party_registered,
            PartyReinstated: self._party_reinstated,
            PartySuspended: self._party_suspended,
            PartyUpdated: self._party_updated,
            RateSet: self._rate_set,
            RentalEnded: self._rental_over,
            RentalExtended: self._rental_extended,
            RentalFailed: self._rental_over,
            RentalHoursCharged: self._hours,
            RentalHoursReversed: self._hours,
            RentalOpened: self._rental_opened,
            RentalStarted: self._rental_started,
            RentalWiped: self._rental_wiped,
            RulesChanged: self._rules_changed,
            TaxProfileSet: self._tax_set,
            Trade: self._trade,
        }

    def fold(self, event: Event) -> None:
        """Take one event; types that carry no state of the mirror's are only counted by the report."""
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(event)

    def settle(self) -> None:
        """Check what must hold once a command is done."""
        balances = self.ledger.balances
        for order_id in self.closed:
            name = f"hold:{order_id}"
            if any(name in accounts for accounts in balances.values()):
                self.fault(f"order {order_id} is closed, yet funds are held for it")
        for rental_id in self.ended:
            self._check_ended(rental_id)
        if self.closed:
            self.closed.clear()
        if self.ended:
            self.ended.clear()
        if self.accepted:
            self.accepted.clear()
        if self.holds_placed:
            self.holds_placed.clear()
        self.is_auction = False

    def _check_ended(self, rental_id: int) -> None:
        rental = self.rentals.get(rental_id)
        if rental is None:
            return
        if self.ledger.balance(f"held:{rental_id}", rental.currency):
            self.fault(f"rental {rental_id} is over, yet funds are held for it")
        charged = rental.charged_hours * rental.hour_micros
        if not rental.is_extended and rental.held_out_micros != charged:
            self.fault(f"rental {rental_id}: {rental.charged_hours} h cost {charged}, taken {rental.held_out_micros}")

    # ---- parties, books, rules -------------------------------------------------------------------------------------

    def _party_registered(self, event: PartyRegistered) -> None:
        if event.party_id != len(self.parties) + 1:
            self.fault(f"party {event.party_id} follows {len(self.parties)}")
        self.parties[event.party_id] = PartyView(event.party_id, event.tax_id, event.payout_account)

    def _party_updated(self, event: PartyUpdated) -> None:
        party = self.parties[event.party_id]
        party.tax_id, party.payout_account = event.tax_id, event.payout_account

    def _tax_set(self, event: TaxProfileSet) -> None:
        self.parties[event.party_id].profile = event.profile

    def _party_suspended(self, event: PartySuspended) -> None:
        self.parties[event.party_id].is_suspended = True

    def _party_reinstated(self, event: PartyReinstated) -> None:
        self.parties[event.party_id].is_suspended = False

    def _rate_set(self, event: RateSet) -> None:
        self.rates[event.currency] = event.mid_micros

    def _rules_changed(self, event: RulesChanged) -> None:
        self.rules = event.rules

    def _instrument_listed(self, event: InstrumentListed) -> None:
        self.books.setdefault(event.instrument, BookState.CLOSED)
        self.asks_by_book.setdefault(event.instrument, {})

    def _book_state(self, event: BookStateChanged) -> None:
        if self.books[event.instrument] is not event.before:
            self.fault(f"{event.instrument} was {self.books[event.instrument]}, the event says {event.before}")
        self.books[event.instrument] = event.after
        self.counts[f"{event.before} to {event.after}"] += 1

    def _auction_held(self, event: AuctionHeld) -> None:
        self.is_auction = True
        self.counts["auctions"] += 1
        if event.price_micros:
            self.counts["auctions with trades"] += 1

    # ---- hosts -----------------------------------------------------------------------------------------------------

    def _host_listed(self, event: HostListed) -> None:
        self.hosts[event.host_id] = HostView(event.host_id, event.party_id, event.instrument, event.spec)
        self.parties[event.party_id].hosts.append(event.host_id)

    def _host_state(self, event: HostStateChanged) -> None:
        host = self.hosts[event.host_id]
        host.state, host.is_verified, host.spec = event.state, event.is_verified, event.spec
        if event.state is HostState.HEALTHY:
            host.is_silent = False

    def _host_silent(self, event: HostWentSilent) -> None:
        self.hosts[event.host_id].is_silent = True

    def _host_back(self, event: HostCameBack) -> None:
        self.hosts[event.host_id].is_silent = False

    def _host_retired(self, event: HostRetired) -> None:
        host = self.hosts.pop(event.host_id)
        if host.ask_id or host.busy_mask:
            self.fault(f"host {event.host_id} retired while in use")
        self.parties[host.party_id].hosts.remove(event.host_id)

    # ---- orders ----------------------------------------------------------------------------------------------------

    def _next_order(self, order_id: int) -> None:
        if order_id != self.last_order + 1:
            self.fault(f"order {order_id} follows {self.last_order}")
        self.last_order = order_id

    def _ask_accepted(self, event: AskAccepted) -> None:
        self._next_order(event.order_id)
        ask = AskView(event, event.price_micros, {})
        self.asks[event.order_id] = ask
        self.asks_by_book[event.instrument][event.order_id] = ask
        self.open_asks.add(event.order_id)
        self._offer(ask, {offer.host_id: offer.gpus for offer in event.offers})

    def _ask_amended(self, event: AskAmended) -> None:
        ask = self.asks[event.order_id]
        ask.price_micros = event.price_micros
        self._offer(ask, {offer.host_id: offer.gpus for offer in event.offers})

    def _offer(self, ask: AskView, offers: dict[int, int]) -> None:
        order_id = ask.terms.order_id
        for host_id in ask.offers:
            self.hosts[host_id].ask_id = 0
        for host_id, gpus in offers.items():
            host = self.hosts[host_id]
            if host.ask_id or gpus > host.spec.gpus or host.party_id != ask.terms.party_id:
                self.fault(f"ask {order_id} offers {gpus} GPUs of host {host_id}, which it cannot")
            host.ask_id = order_id
        ask.offers = offers

    def _bid_accepted(self, event: BidAccepted) -> None:
        self._next_order(event.order_id)
        self.bids[event.order_id] = BidView(event, event.limit_micros, event.lots, *self.tax_and_rate(event))
        self.open_bids.add(event.order_id)
        self.accepted.append(event)

    def tax_and_rate(self, event: BidAccepted) -> tuple[int, int]:
        """Return what is frozen into a bid accepted now: VAT in ppm, customer rate (0 for US$)."""
        profile = self.parties[event.party_id].profile
        if profile is None:
            self.fault(f"accepted without a tax profile: {event}")
            return 0, 0
        is_usd = event.currency == "USD"
        return profile.vat_ppm, 0 if is_usd else customer_rate(self.rates[event.currency], self.rules.fx_margin_bps)

    def _bid_amended(self, event: BidAmended) -> None:
        bid = self.bids[event.order_id]
        if event.limit_micros > bid.limit_micros or event.lots > bid.lots:
            bid.vat_ppm, bid.rate_micros = self.tax_and_rate(bid.terms)
        bid.limit_micros, bid.lots = event.limit_micros, event.lots
        if bid.filled > bid.lots:
            self.fault(f"bid {event.order_id} has {bid.filled} of {bid.lots} lots filled")

    def _order_closed(self, event: OrderClosed) -> None:
        order_id = event.order_id
        self.closed.append(order_id)
        self.counts[f"orders {event.state}"] += 1
        bid = self.bids.pop(order_id, None)
        if bid is not None:
            self.open_bids.discard(order_id)
            if event.filled_lots != bid.filled or event.filled_lots + event.canceled_lots != bid.lots:
                self.fault(f"bid {order_id}: {bid.filled} of {bid.lots} lots filled, closed as {event}")
            return
        ask = self.asks.pop(order_id, None)
        if ask is None:
            self.fault(f"order {order_id} closed twice")
            return
        self.open_asks.discard(order_id)
        del self.asks_by_book[ask.terms.instrument][order_id]
        for host_id in ask.offers:
            self.hosts[host_id].ask_id = 0

    # ---- trades and rentals ----------------------------------------------------------------------------------------

    def _trade(self, trade: Trade) -> None:
        self.counts["trades"] += 1
        self.last_trades.append(trade)
        bid, ask, host = self.bids.get(trade.bid_id), self.asks.get(trade.ask_id), self.hosts.get(trade.host_id)
        if bid is None or ask is None or host is None:
            self.fault(f"trade between orders that are not open: {trade}")
            return
        bid.filled += 1
        problem = self._unfit(trade, bid, ask, host)
        if problem:
            self.fault(f"{problem}: {trade} of {bid} with {ask} on {host}")
        net = net_in_wallet(trade.price_micros, bid.rate_micros)
        tax = vat(net, bid.vat_ppm)
        fee = trade.gpus * trade.price_micros * self.rules.fee_bps // 10_000
        self.rentals[trade.rental_id] = RentalView(
            trade, bid.terms.currency, (net + tax) * trade.gpus, fee, tax * trade.gpus
        )

    def _unfit(self, trade: Trade, bid: BidView, ask: AskView, host: HostView) -> str:
        """Say why these two may not trade like this, or nothing."""
        terms, asked = bid.terms, ask.terms
        buyer, seller = self.parties[trade.buyer_id], self.parties[trade.seller_id]
        is_makers_price = trade.price_micros == (ask.price_micros if trade.taker == "BUY" else bid.limit_micros)
        tests = (
            (self.books[trade.instrument] is BookState.OPEN or trade.taker is None, "the book is not open"),
            (buyer.party_id == terms.party_id and seller.party_id == asked.party_id, "the parties are not theirs"),
            (terms.instrument == asked.instrument == host.instrument == trade.instrument, "another instrument"),
            (not buyer.is_linked_to(seller), "one owner on both sides"),
            (ask.price_micros <= trade.price_micros <= bid.limit_micros, "the price is outside the limits"),
            (trade.taker is None or is_makers_price, "not the maker's price"),
            (bid.filled <= bid.lots, "more lots than bid for"),
            (trade.gpus == terms.gpus and trade.hours == terms.hours, "another lot"),
            (trade.gpus >= asked.min_gpus, "fewer GPUs than the ask serves"),
            (asked.min_hours <= trade.hours <= asked.max_hours, "hours that the ask does not serve"),
            (trade.at_ns + trade.hours * HOUR_NS <= asked.until_ns, "runs beyond the ask"),
            (host.free_gpus(ask.offers.get(host.host_id, 0)) >= trade.gpus, "the GPUs are not on sale"),
            (host.passes(terms.filters), "the host is not what was asked for"),
        )
        return next((problem for is_right, problem in tests if not is_right), "")

    def _rental_opened(self, event: RentalOpened) -> None:
        if event.rental_id != self.last_rental + 1:
            self.fault(f"rental {event.rental_id} follows {self.last_rental}")
        self.last_rental = event.rental_id
        rental, host = self.rentals[event.rental_id], self.hosts[event.host_id]
        if event.gpu_mask & host.busy_mask:
            self.fault(f"GPUs {event.gpu_mask:b} of host {host.host_id} are let twice (busy {host.busy_mask:b})")
        if event.gpu_mask.bit_count() != event.gpus or event.gpu_mask >> host.spec.gpus:
            self.fault(f"rental {event.rental_id} of {event.gpus} GPUs has mask {event.gpu_mask:b}")
        if event.price_micros != rental.trade.price_micros:
            self.fault(f"rental {event.rental_id} is not at its trade's price")
        rental.mask = event.gpu_mask
        host.busy_mask |= event.gpu_mask
        host.rentals.append(event.rental_id)
        self.live_rentals.add(event.rental_id)

    def _rental_started(self, event: RentalStarted) -> None:
        self.rentals[event.rental_id].is_started = True

    def _rental_extended(self, event: RentalExtended) -> None:
        self.rentals[event.rental_id].is_extended = True

    def _hours(self, event: RentalHoursCharged | RentalHoursReversed) -> None:
        self.rentals[event.rental_id].charged_hours = event.charged_hours

    def _rental_over(self, event: RentalEnded | RentalFailed) -> None:
        rental = self.rentals[event.rental_id]
        if rental.is_over:
            self.fault(f"rental {event.rental_id} ended twice")
        if rental.charged_hours != event.charged_hours:
            self.fault(f"rental {event.rental_id}: charged {rental.charged_hours} h, the end says {event}")
        rental.is_over = True
        self.live_rentals.discard(event.rental_id)
        self.unwiped.add(event.rental_id)
        self.ended.append(event.rental_id)
        self.counts[f"rentals {event.reason}"] += 1

    def _rental_wiped(self, event: RentalWiped) -> None:
        rental = self.rentals.pop(event.rental_id)
        host = self.hosts[event.host_id]
        if not rental.is_over or rental.mask & host.busy_mask != rental.mask:
            self.fault(f"rental {event.rental_id} wiped while it ran")
        host.busy_mask &= ~rental.mask
        host.rentals.remove(event.rental_id)
        self.unwiped.discard(event.rental_id)

    def _entry(self, entry: JournalEntry) -> None:
        self.ledger.fold(entry)
        kind = entry.kind
        if kind is EntryKind.HOLD_PLACED:
            name = f"hold:{entry.order_id}"
            self.holds_placed[entry.order_id] = sum(p.credit_micros for p in entry.postings if p.account == name)
            return
        rental = self.rentals.get(entry.rental_id) if entry.rental_id else None
        if rental is None:
            return
        name = f"held:{entry.rental_id}"
        moved = sum(
            posting.credit_micros - posting.debit_micros for posting in entry.postings if posting.account == name
        )
        if kind is EntryKind.TRADE:
            if moved != rental.hour_micros * rental.trade.hours:
                self.fault(f"rental {entry.rental_id} holds {moved}, {rental.hour_micros} an hour: {rental.trade}")
        elif kind is EntryKind.HOURS_CHARGED:
            rental.held_out_micros -= moved
            if not rental.is_extended:
                self._check_charge(entry, rental, -moved)
        elif kind is EntryKind.HOURS_REVERSED:
            wallet = f"wallet:{rental.trade.buyer_id}"
            back = moved + sum(p.credit_micros for p in entry.postings if p.account == wallet)
            rental.held_out_micros -= back

    def _check_charge(self, entry: JournalEntry, rental: RentalView, paid: int) -> None:
        """Check fee and VAT of charged hours, hour by hour from the rules."""
        hours, rest = divmod(paid, rental.hour_micros)
        if rest:
            self.fault(f"rental {entry.rental_id} paid {paid}, which is no multiple of {rental.hour_micros}")
        for posting in entry.postings:
            micros = posting.credit_micros - posting.debit_micros
            is_fee, is_vat = posting.account == "revenue.platform_fee", posting.account.startswith("vat_accrued:")
            if (is_fee and micros != hours * rental.fee_micros) or (is_vat and micros != hours * rental.vat_micros):
                self.fault(f"rental {entry.rental_id}, {hours} h: {posting}, by the rules {rental}")
