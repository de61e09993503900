"""What each command means to the naive book: when it is refused, and what it sets in motion.

Role: the second half of the second opinion (see naive_book). It answers each command with the code of a refusal
("" = accepted) and the fills that follow, in order.

Source: market rules §2, §4 and the examples K, L, N of §7.
"""

from collections.abc import Callable

from bursa.market import BookState, EndReason, HostOffer, HostState, MarketRules, RentalState, TimeInForce
from bursa.market import commands as c
from bursa.market.types import DAY_NS, HOUR_NS, MINUTE_NS, SECOND_NS
from tests.market.naive_book import FAR, REFUSED, Ask, Bid, Book, Host, NaiveBook, Party, Rental


class NaiveMarket:
    """One method for each command that concerns matching."""

    def __init__(self, rules: MarketRules | None = None) -> None:
        self.all = NaiveBook(rules or MarketRules())
        self.gone_rentals: set[int] = set()
        self.handlers: dict[type, Callable[..., str]] = {
            c.RegisterParty: self.register,
            c.ListInstrument: self.list_instrument,
            c.PreopenBook: self.preopen,
            c.OpenBook: self.open_book,
            c.HaltBook: self.halt,
            c.ResumeBook: self.resume,
            c.ChangeRules: self.change_rules,
            c.ListHost: self.list_host,
            c.CheckHost: self.check_host,
            c.SuspendHost: self.suspend_host,
            c.ReportSilence: self.silence,
            c.ReportHeartbeat: self.heartbeat,
            c.PlaceAsk: self.place_ask,
            c.PlaceBid: self.place_bid,
            c.AmendAsk: self.amend_ask,
            c.AmendBid: self.amend_bid,
            c.CancelOrder: self.cancel,
            c.StartRental: self.start,
            c.StopRental: self.stop,
            c.EndRental: self.end,
            c.FailRental: self.fail,
            c.ReclaimRental: self.reclaim,
            c.ReportWiped: self.wiped,
        }

    def apply(self, command: c.Command, at_ns: int, new_id: int) -> str:
        """Do one command; return the code of its refusal, or "" with what it did in ``fills`` and ``auctions``.

        ``new_id`` is what the engine called the thing it made.
        """
        assert at_ns >= self.all.now_ns
        self.all.now_ns, self.all.fills, self.all.auctions = at_ns, [], []
        if isinstance(command, c.Tick):
            self.tick()
            return ""
        assert self.next_due_ns() > at_ns, "the engine took a command though something was due"
        return self.handlers[type(command)](command, new_id)

    def name_rentals(self, rental_ids: list[int]) -> None:
        """Give the rentals of the last fills the ids that the engine gave them."""
        for rental, rental_id in zip(self.all.unnamed, rental_ids, strict=True):
            rental.rental_id = rental_id
        self.all.unnamed = []

    # ── orders ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def place_bid(self, command: c.PlaceBid, new_id: int) -> str:
        book = self.all.book(command.instrument)
        immediate = command.time_in_force in {TimeInForce.IOC, TimeInForce.FOK}
        if book.state in {BookState.CLOSED, BookState.HALTED}:
            return f"BOOK_{book.state}"
        if immediate and book.state is not BookState.OPEN:
            return "NOTHING_TO_FILL"
        if not self.all.in_band(command.instrument, command.limit_micros, is_bid=True):
            return "PRICE_OUT_OF_BAND"
        expires = command.expires_at_ns or self.all.now_ns + self.all.rules.bid_days_max * DAY_NS
        if not immediate and expires < book.opens_ns:
            return "EXPIRES_TOO_EARLY"
        bid = Bid(
            order_id=new_id,
            party_id=command.party_id,
            instrument=command.instrument,
            gpus=command.gpus,
            hours=command.hours,
            limit=command.limit_micros,
            lots=command.lots,
            filters=command.filters,
            expires_ns=FAR if immediate else expires,
            stamp=self.all.next_stamp(),
        )
        if immediate:
            return self.place_immediate(bid, needs_all=command.time_in_force is TimeInForce.FOK)
        self.all.bids.append(bid)
        self.all.match_bid(bid)
        return ""

    def place_immediate(self, bid: Bid, *, needs_all: bool) -> str:
        before = len(self.all.rentals), len(self.all.history)
        self.all.match_bid(bid)
        if bid.filled == 0 or (needs_all and bid.left):
            del self.all.rentals[before[0] :]
            del self.all.history[before[1] :]
            self.all.fills, self.all.unnamed = [], []
            return "NOTHING_TO_FILL"
        self.all.gone_orders.add(bid.order_id)
        return ""

    def place_ask(self, command: c.PlaceAsk, new_id: int) -> str:
        code = self.check_offers(command.party_id, command.offers, command.min_gpus, None)
        if code:
            return code
        if all(self.all.free(offer) == 0 for offer in command.offers):
            return "HOST_HAS_NO_FREE_GPUS"
        book = self.all.book(self.all.host(command.offers[0].host_id).instrument)
        if book.state in {BookState.CLOSED, BookState.HALTED}:
            return f"BOOK_{book.state}"
        if not self.all.in_band(book.instrument, command.price_micros, is_bid=False):
            return "PRICE_OUT_OF_BAND"
        until = command.until_ns or self.all.now_ns + self.all.rules.ask_days_max * DAY_NS
        if until < book.opens_ns:
            return "EXPIRES_TOO_EARLY"
        ask = Ask(
            order_id=new_id,
            party_id=command.party_id,
            instrument=book.instrument,
            offers=command.offers,
            price=command.price_micros,
            min_gpus=command.min_gpus,
            min_hours=command.min_hours,
            max_hours=command.max_hours,
            until_ns=until,
            stamp=self.all.next_stamp(),
        )
        self.all.asks.append(ask)
        self.all.match_ask(ask)
        return ""

    def amend_bid(self, command: c.AmendBid, _: int) -> str:
        bid = self.all.find_order(self.all.bids, command.order_id)
        if bid is None or bid.party_id != command.party_id:
            return self.no_order(command.order_id, bid)
        book = self.all.book(bid.instrument)
        if command.lots <= bid.filled:
            return "QUANTITY_OUT_OF_RANGE"
        if book.state is BookState.HALTED:
            return "BOOK_HALTED"
        if book.state is BookState.NO_CANCEL and (command.limit_micros < bid.limit or command.lots < bid.lots):
            return "NO_CANCEL_PERIOD"
        if command.limit_micros != bid.limit and not self.all.in_band(
            bid.instrument, command.limit_micros, is_bid=True
        ):
            return "PRICE_OUT_OF_BAND"
        if command.limit_micros != bid.limit or command.lots > bid.lots:
            bid.stamp = self.all.next_stamp()
        bid.limit, bid.lots = command.limit_micros, command.lots
        self.all.match_bid(bid)
        return ""

    def amend_ask(self, command: c.AmendAsk, _: int) -> str:
        ask = self.all.find_order(self.all.asks, command.order_id)
        if ask is None or ask.party_id != command.party_id:
            return self.no_order(command.order_id, ask)
        code = self.check_offers(ask.party_id, command.offers, ask.min_gpus, ask)
        if code:
            return code
        book = self.all.book(ask.instrument)
        if book.state is BookState.HALTED:
            return "BOOK_HALTED"
        before = {offer.host_id: offer.gpus for offer in ask.offers}
        after = {offer.host_id: offer.gpus for offer in command.offers}
        less = any(after.get(host_id, 0) < gpus for host_id, gpus in before.items())
        more = any(before.get(host_id, 0) < gpus for host_id, gpus in after.items())
        if command.price_micros != ask.price and not self.all.in_band(
            ask.instrument, command.price_micros, is_bid=False
        ):
            return "PRICE_OUT_OF_BAND"
        if book.state is BookState.NO_CANCEL and (command.price_micros > ask.price or less):
            return "NO_CANCEL_PERIOD"
        if command.price_micros != ask.price or more:
            ask.stamp = self.all.next_stamp()
        ask.price, ask.offers = command.price_micros, command.offers
        self.all.match_ask(ask)
        return ""

    def cancel(self, command: c.CancelOrder, _: int) -> str:
        orders: list[Ask | Bid] = [*self.all.bids, *self.all.asks]
        order = self.all.find_order(orders, command.order_id)
        if order is None or order.party_id != command.party_id:
            return self.no_order(command.order_id, order)
        if self.all.book(order.instrument).state is BookState.NO_CANCEL:
            return "NO_CANCEL_PERIOD"
        self.all.close(order)
        return ""

    def check_offers(self, party_id: int, offers: tuple[HostOffer, ...], min_gpus: int, ask: Ask | None) -> str:
        """Return why hosts cannot be offered: the first fault of the first host with one."""
        if any(offer.gpus < min_gpus for offer in offers):
            return "QUANTITY_OUT_OF_RANGE"
        for offer in offers:
            host = self.all.host(offer.host_id)
            if host.party_id != party_id:
                return "NOT_YOURS"
            if host.instrument != self.all.host(offers[0].host_id).instrument:
                return "INVALID_FIELD"
            if offer.gpus > host.spec.gpus:
                return "QUANTITY_OUT_OF_RANGE"
            stands_in = self.all.ask_on(host.host_id)
            if stands_in and stands_in is not ask:
                return "HOST_ALREADY_OFFERED"
            if not host.sells and not stands_in:
                return "HOST_NOT_HEALTHY"
        return ""

    def no_order(self, order_id: int, order: Bid | Ask | None) -> str:
        if order:
            return "NOT_YOURS"
        return "ORDER_ALREADY_CLOSED" if order_id in self.all.gone_orders else "UNKNOWN_ORDER"

    # ── hosts and rentals: what changes capacity ─────────────────────────────────────────────────────────────────────

    def register(self, command: c.RegisterParty, new_id: int) -> str:
        self.all.parties.append(Party(new_id, command.tax_id, command.payout_account))
        return ""

    def list_host(self, command: c.ListHost, new_id: int) -> str:
        self.all.hosts.append(Host(new_id, command.party_id, command.instrument, command.spec))
        return ""

    def check_host(self, command: c.CheckHost, _: int) -> str:
        host = self.all.host(command.host_id)
        host.state, host.is_verified = HostState.HEALTHY, command.is_verified
        host.spec = command.spec or host.spec
        host.lost_at_ns = 0  # who passes a check is heard
        self.came_back(host)
        return ""

    def suspend_host(self, command: c.SuspendHost, _: int) -> str:
        self.all.host(command.host_id).state = HostState.SUSPENDED
        return ""

    def silence(self, command: c.ReportSilence, _: int) -> str:
        host = self.all.host(command.host_id)
        if host.lost_at_ns:
            return REFUSED
        host.lost_at_ns = command.last_heartbeat_ns + self.all.rules.lost_seconds * SECOND_NS
        return ""

    def heartbeat(self, command: c.ReportHeartbeat, _: int) -> str:
        host = self.all.host(command.host_id)
        if host.lost_at_ns == 0:
            return REFUSED
        host.lost_at_ns = 0
        self.came_back(host)
        return ""

    def came_back(self, host: Host) -> None:
        """Let the ask of a host that sells again walk the bids; its place in time stays as it was."""
        ask = self.all.ask_on(host.host_id)
        if host.sells and ask:
            self.all.match_ask(ask)

    def start(self, command: c.StartRental, _: int) -> str:
        rental = self.all.find_rental(command.rental_id)
        if rental is None or rental.state is not RentalState.OPENED:
            return REFUSED
        if self.all.host(rental.host_id).lost_at_ns:
            return "HOST_NOT_HEALTHY"
        rental.state, rental.due_ns = RentalState.STARTED, self.all.now_ns + rental.hours * HOUR_NS
        return ""

    def stop(self, command: c.StopRental, _: int) -> str:
        return self.finish(command.rental_id, RentalState.ENDED, buyer_id=command.party_id)

    def end(self, command: c.EndRental, _: int) -> str:
        return self.finish(command.rental_id, RentalState.ENDED)

    def reclaim(self, command: c.ReclaimRental, _: int) -> str:
        rental = self.all.find_rental(command.rental_id)
        code = self.finish(command.rental_id, RentalState.FAILED, seller_id=command.party_id)
        if code == "" and rental:  # what the seller took back for himself is not sold on before a check
            self.all.host(rental.host_id).state = HostState.SUSPENDED
        return code

    def fail(self, command: c.FailRental, _: int) -> str:
        rental = self.all.find_rental(command.rental_id)
        if rental and rental.state is RentalState.STARTED and command.reason is EndReason.START_FAILED:
            return REFUSED
        code = self.finish(command.rental_id, RentalState.FAILED)
        if code == "" and rental:
            self.all.host(rental.host_id).state = HostState.SUSPENDED
        return code

    def finish(self, rental_id: int, state: RentalState, *, buyer_id: int = 0, seller_id: int = 0) -> str:
        rental = self.all.find_rental(rental_id)
        if rental is None:
            return "RENTAL_ALREADY_ENDED" if rental_id in self.gone_rentals else "UNKNOWN_RENTAL"
        if rental.state in {RentalState.ENDED, RentalState.FAILED}:
            return "RENTAL_ALREADY_ENDED"
        if buyer_id not in {0, rental.buyer_id} or seller_id not in {0, rental.seller_id}:
            return "NOT_YOURS"
        rental.is_void = rental.state is RentalState.OPENED
        rental.state, rental.due_ns = state, FAR
        return ""

    def wiped(self, command: c.ReportWiped, _: int) -> str:
        rental = self.all.find_rental(command.rental_id)
        if rental is None or rental.state in {RentalState.OPENED, RentalState.STARTED}:
            return REFUSED
        ask = self.all.ask_on(rental.host_id)
        before = self.all.not_rented(rental.host_id, ask)
        self.all.rentals.remove(rental)
        self.gone_rentals.add(rental.rental_id)
        if ask and self.all.not_rented(rental.host_id, ask) > before:  # GPUs come back to it, on sale now or later
            ask.stamp = self.all.next_stamp()
            self.all.match_ask(ask)
        return ""

    # ── books and time ───────────────────────────────────────────────────────────────────────────────────────────────

    def list_instrument(self, command: c.ListInstrument, _: int) -> str:
        if all(book.instrument != command.instrument for book in self.all.books):
            self.all.books.append(Book(command.instrument))
        self.all.book(command.instrument).operators_reference = command.reference_micros
        return ""

    def change_rules(self, command: c.ChangeRules, _: int) -> str:
        self.all.rules = command.rules
        return ""

    def preopen(self, command: c.PreopenBook, _: int) -> str:
        book = self.all.book(command.instrument)
        if book.state not in {BookState.CLOSED, BookState.PREOPEN}:
            return REFUSED
        book.state, book.opens_ns = BookState.PREOPEN, command.opens_at_ns
        return ""

    def open_book(self, command: c.OpenBook, _: int) -> str:
        book = self.all.book(command.instrument)
        if book.state in {BookState.OPEN, BookState.HALTED}:
            return REFUSED
        self.all.run_auction(book)
        return ""

    def halt(self, command: c.HaltBook, _: int) -> str:
        book = self.all.book(command.instrument)
        if book.state not in {BookState.OPEN, BookState.HALTED}:
            return REFUSED
        book.state, book.opens_ns = BookState.HALTED, 0  # until the operator resumes, whatever was planned
        return ""

    def follow_halt(self, instrument: str, until_ns: int) -> None:
        """Halt as the engine did for a move of the price: that rule is proved elsewhere, here it is only followed."""
        book = self.all.book(instrument)
        assert book.state is BookState.OPEN, book
        book.state, book.opens_ns = BookState.HALTED, until_ns

    def resume(self, command: c.ResumeBook, _: int) -> str:
        book = self.all.book(command.instrument)
        if book.state is not BookState.HALTED:
            return REFUSED
        self.all.run_auction(book)
        return ""

    def next_due_ns(self) -> int:
        """When the next thing happens by itself."""
        dues = [book.opens_ns for book in self.all.books if book.opens_ns]
        dues += [
            self.no_cancel_ns(book) for book in self.all.books if book.state is BookState.PREOPEN and book.opens_ns
        ]
        dues += [rental.due_ns for rental in self.all.rentals]
        dues += [bid.expires_ns for bid in self.all.bids] + [ask.until_ns for ask in self.all.asks]
        dues += [host.lost_at_ns for host in self.all.hosts if host.lost_at_ns and host.state is HostState.HEALTHY]
        return min(dues, default=FAR)

    def no_cancel_ns(self, book: Book) -> int:
        return book.opens_ns - self.all.rules.no_cancel_minutes * MINUTE_NS

    def tick(self) -> None:
        """Do all that is due; the driver calls at each due time exactly, and nothing that matters is due together."""
        now = self.all.now_ns
        orders: list[Ask | Bid] = [*self.all.bids, *self.all.asks]
        for order in orders:
            if now >= (order.expires_ns if isinstance(order, Bid) else order.until_ns):
                self.all.close(order)
        for rental in [rental for rental in self.all.rentals if now >= rental.due_ns]:
            self.finish_due(rental)
        for host in [host for host in self.all.hosts if host.lost_at_ns and now >= host.lost_at_ns]:
            self.lose(host)
        for book in [book for book in self.all.books if book.opens_ns]:
            if now >= book.opens_ns:
                self.all.run_auction(book)
            elif book.state is BookState.PREOPEN and now >= self.no_cancel_ns(book):
                book.state = BookState.NO_CANCEL

    def finish_due(self, rental: Rental) -> None:
        """End a rental whose time is over; one that never started failed, and its host must be checked."""
        if rental.state is RentalState.STARTED:
            rental.state = RentalState.ENDED
        else:
            rental.state, rental.is_void = RentalState.FAILED, True
            self.all.host(rental.host_id).state = HostState.SUSPENDED
        rental.due_ns = FAR

    def lose(self, host: Host) -> None:
        host.state = HostState.SUSPENDED
        for rental in self.all.rentals:
            if rental.host_id == host.host_id and rental.state in {RentalState.OPENED, RentalState.STARTED}:
                rental.is_void = rental.state is RentalState.OPENED
                rental.state, rental.due_ns = RentalState.FAILED, FAR
