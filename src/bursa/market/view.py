"""The public market, rebuilt from events alone: what a follower of the committed log may show.

The engine may be ahead of the commit, so nobody outside reads it; a view is fed with what was committed. Invariants:

* After each command ``depth`` and ``best_ask`` give what the engine's of the same name would, for anybody's bid.
* An event costs a few dict updates, whatever the size of the book; what costs more is done by reads.
* A level's orders stand in time priority: an order that loses its place moves to the end of its level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from bursa.market.engine import Engine
from bursa.market.events import (
    AskAccepted,
    AskAmended,
    AuctionHeld,
    BidAccepted,
    BidAmended,
    BookStateChanged,
    Event,
    HostCameBack,
    HostListed,
    HostRetired,
    HostStateChanged,
    HostWentSilent,
    InstrumentListed,
    OrderClosed,
    RentalEnded,
    RentalExtended,
    RentalFailed,
    RentalOpened,
    RentalStarted,
    RentalWiped,
    RulesChanged,
)
from bursa.market.queries import BestAsk, Depth
from bursa.market.rules import MarketRules
from bursa.market.state import Ask, Bid, Book, Host, Rental
from bursa.market.types import (
    GPUS_PER_HOST_MAX,
    HOUR_NS,
    HostOffer,
    HostState,
    RentalState,
    TimeInForce,
    Trade,
)
from bursa.market.viewing import (
    LEVELS_DEFAULT,
    RECENT_TRADES_MAX,
    SIMULATED_DRIVER,
    AskStanding,
    BidStanding,
    Board,
    BookFacts,
    HostStanding,
    RentalStanding,
    TickerFacts,
    TradeFacts,
)
from bursa.market.volatility import forget_trade, reference_micros

# An attribute of an Enum class is looked up ten times slower than a global name; every command passes here.
_HEALTHY = HostState.HEALTHY
_OPENED = RentalState.OPENED
_STARTED = RentalState.STARTED
_ENDED = RentalState.ENDED
_FAILED = RentalState.FAILED
_IOC = TimeInForce.IOC
_FOK = TimeInForce.FOK


class MarketView:
    """Public state of all instruments as of ``seq``, the newest command applied, at ``at_ns``, its time."""

    __slots__ = ("_asks", "_bids", "_boards", "_folds", "_hosts", "_rentals", "_rules", "at_ns", "seq")

    def __init__(self, rules: MarketRules | None = None) -> None:
        """Start with an empty market, under the rules that its engine starts with."""
        self.seq = 0
        self.at_ns = 0
        self._rules = rules or MarketRules()
        self._boards: dict[str, Board] = {}
        self._bids: dict[int, BidStanding] = {}
        self._asks: dict[int, AskStanding] = {}
        self._hosts: dict[int, HostStanding] = {}
        self._rentals: dict[int, RentalStanding] = {}
        self._folds: dict[type, Callable[[Any], None]] = {
            AskAccepted: self._ask_accepted,
            AskAmended: self._ask_amended,
            AuctionHeld: self._auction_held,
            BidAccepted: self._bid_accepted,
            BidAmended: self._bid_amended,
            BookStateChanged: self._book_state_changed,
            HostCameBack: self._host_came_back,
            HostListed: self._host_listed,
            HostRetired: self._host_retired,
            HostStateChanged: self._host_state_changed,
            HostWentSilent: self._host_went_silent,
            InstrumentListed: self._instrument_listed,
            OrderClosed: self._order_closed,
            RentalEnded: self._rental_over,
            RentalExtended: self._rental_extended,
            RentalFailed: self._rental_over,
            RentalOpened: self._rental_opened,
            RentalStarted: self._rental_started,
            RentalWiped: self._rental_wiped,
            RulesChanged: self._rules_changed,
            Trade: self._trade,
        }

    @classmethod
    def from_engine(cls, engine: Engine, seq: int, at_ns: int) -> Self:
        """Return the view of an engine's state as of a place in the log; it remembers no trades and no changes before.

        Raises nothing; ``seq`` and ``at_ns`` are those of the newest command that the engine applied.
        """
        view = cls(engine.rules)
        view.seq, view.at_ns = seq, at_ns
        state = engine._state  # noqa: SLF001 - a view is the only reader beside the engine itself
        for book in state.books.values():
            board = view._boards[book.instrument] = Board(_copy_book(book))
            board.changed_seq, board.changed_at_ns = seq, at_ns
        for host in state.hosts.values():
            view._hosts[host.host_id] = _host_standing(host)
        for bid in sorted(state.bids.values(), key=lambda bid: bid.priority):
            view._rest(_bid_standing(bid))
        for ask in sorted(state.asks.values(), key=lambda ask: ask.priority):
            view._stand(_ask_standing(ask))
        for rental in state.rentals.values():
            view._rentals[rental.rental_id] = _rental_standing(rental)
        return view

    # ---- feeding ---------------------------------------------------------------------------------------

    def apply(self, seq: int, at_ns: int, events: Iterable[Event]) -> None:
        """Take the events of one committed command; commands come in the order of the log, each once."""
        assert seq > self.seq, (seq, self.seq)
        self.seq = seq
        self.at_ns = at_ns
        folds = self._folds
        for event in events:
            fold = folds.get(type(event))
            if fold is not None:
                fold(event)

    # ---- reading ---------------------------------------------------------------------------------------

    def instruments(self) -> tuple[str, ...]:
        """Return every instrument, in the order of listing."""
        return tuple(self._boards)

    def changed_seq(self, instrument: str) -> int:
        """Return the place in the log of the newest command that touched an instrument; 0 when it is not listed."""
        board = self._boards.get(instrument)
        return board.changed_seq if board is not None else 0

    def changed_since(self, seq: int) -> tuple[str, ...]:
        """Return the instruments that commands after ``seq`` touched."""
        return tuple(instrument for instrument, board in self._boards.items() if board.changed_seq > seq)

    def ticker(self, instrument: str, at_ns: int | None = None) -> TickerFacts | None:
        """Return one instrument in one line, as of a time (by default the newest command's); None when not listed."""
        board = self._boards.get(instrument)
        if board is None:
            return None
        at_ns = self.at_ns if at_ns is None else at_ns
        book, bids, asks = board.book, board.bids, board.asks
        best = self.best_ask(instrument, gpus=1, hours=1, at_ns=at_ns)
        return TickerFacts(
            instrument=instrument,
            state=book.state,
            until_ns=book.due_ns,
            best_ask_micros=best.price_micros if best else 0,
            best_bid_micros=bids.prices[-1] if bids.prices else 0,
            last_micros=book.last_micros,
            reference_micros=reference_micros(book, at_ns),
            gpus_on_sale=asks.gpus,
            gpus_wanted=bids.gpus,
            volume_gpu_hours=board.volume_gpu_hours(at_ns),
            is_demo=asks.gpus == asks.demo_gpus > 0,
            changed_seq=board.changed_seq,
            changed_at_ns=board.changed_at_ns,
        )

    def book(self, instrument: str, levels_max: int = LEVELS_DEFAULT) -> BookFacts | None:
        """Return state and price levels of a book, best first, at most ``levels_max`` a side; None when not listed."""
        board = self._boards.get(instrument)
        if board is None:
            return None
        return BookFacts(
            instrument=instrument,
            state=board.book.state,
            until_ns=board.book.due_ns,
            bids=board.bid_levels(levels_max),
            asks=board.ask_levels(levels_max),
            changed_seq=board.changed_seq,
            changed_at_ns=board.changed_at_ns,
        )

    def depth(self, instrument: str, levels_max: int = LEVELS_DEFAULT) -> Depth:
        """Return GPUs wanted and on sale at each price, as ``Engine.depth`` does."""
        board = self._boards.get(instrument)
        if board is None:
            return Depth((), ())
        return Depth(
            tuple((level.price_micros, level.gpus) for level in board.bid_levels(levels_max)),
            tuple((level.price_micros, level.gpus) for level in board.ask_levels(levels_max)),
        )

    def best_ask(self, instrument: str, *, gpus: int, hours: int, at_ns: int | None = None) -> BestAsk | None:
        """Return the ask that would serve one lot without filters first, as ``Engine.best_ask`` does; None = none."""
        board = self._boards.get(instrument)
        rules = self._rules
        if board is None or not (1 <= gpus <= rules.gpus_max and 1 <= hours <= rules.hours_max):
            return None
        ends_at_ns = (self.at_ns if at_ns is None else at_ns) + hours * HOUR_NS
        levels = board.asks.levels
        for price in board.asks.prices:
            level = levels[price]
            if level.gpus < gpus:
                continue
            for order_id, ask in level.orders.items():
                assert isinstance(ask, AskStanding), ask
                if (
                    ask.on_sale >= gpus >= ask.min_gpus
                    and ask.min_hours <= hours <= ask.max_hours
                    and ends_at_ns <= ask.until_ns
                    and (host_id := self._tightest(ask, gpus))
                ):
                    return BestAsk(order_id, host_id, price)
        return None

    def recent_trades(self, instrument: str, limit: int = RECENT_TRADES_MAX) -> list[TradeFacts]:
        """Return the newest trades that this view saw, newest first; at most RECENT_TRADES_MAX are remembered."""
        board = self._boards.get(instrument)
        return [trade for trade, _ in zip(reversed(board.trades), range(limit), strict=False)] if board else []

    def trades_after(self, instrument: str, seq: int) -> list[TradeFacts]:
        """Return the remembered trades of commands after ``seq``, oldest first."""
        board = self._boards.get(instrument)
        found: list[TradeFacts] = []
        for trade in reversed(board.trades) if board else ():
            if trade.seq <= seq:
                break
            found.append(trade)
        found.reverse()
        return found

    @property
    def rules(self) -> MarketRules:
        """The parameters in force."""
        return self._rules

    def asks(self, instrument: str) -> Iterator[AskStanding]:
        """Return every open ask of an instrument in price-time order (the view's own objects: read only)."""
        board = self._boards.get(instrument)
        for price in board.asks.prices if board else ():
            for ask in board.asks.levels[price].orders.values() if board else ():
                assert isinstance(ask, AskStanding), ask
                yield ask

    def order(self, order_id: int) -> BidStanding | AskStanding | None:
        """Return an open order (the view's own object: read only); None when it is closed or unknown."""
        return self._bids.get(order_id) or self._asks.get(order_id)

    def host(self, host_id: int) -> HostStanding | None:
        """Return a listed host (the view's own object: read only)."""
        return self._hosts.get(host_id)

    def hosts(self) -> Iterator[HostStanding]:
        """Return every listed host, in the order of listing (the view's own objects: read only)."""
        return iter(self._hosts.values())

    def rental(self, rental_id: int) -> RentalStanding | None:
        """Return a rental that is not yet wiped (the view's own object: read only)."""
        return self._rentals.get(rental_id)

    def rentals(self) -> Iterator[RentalStanding]:
        """Return every rental that is not yet wiped, oldest first (the view's own objects: read only)."""
        return iter(self._rentals.values())

    def is_demo_ask(self, order_id: int) -> bool:
        """Return whether an ask is open and all of its hosts are simulated."""
        ask = self._asks.get(order_id)
        return ask is not None and all(self._hosts[offer.host_id].is_demo for offer in ask.offers)

    def _tightest(self, ask: AskStanding, gpus: int) -> int:
        """Return the host of an ask with the fewest GPUs on sale that still serve a lot, 0 when none does."""
        best, best_on_sale = 0, GPUS_PER_HOST_MAX + 1
        for offer in ask.offers:
            on_sale = self._hosts[offer.host_id].on_sale
            if on_sale < gpus or on_sale > best_on_sale:
                continue
            if on_sale < best_on_sale or offer.host_id < best:
                best, best_on_sale = offer.host_id, on_sale
        return best

    # ---- instruments and rules -------------------------------------------------------------------------

    def _touch(self, instrument: str) -> Board:
        board = self._boards[instrument]
        board.changed_seq = self.seq
        board.changed_at_ns = self.at_ns
        return board

    def _rules_changed(self, event: RulesChanged) -> None:
        self._rules = event.rules

    def _instrument_listed(self, event: InstrumentListed) -> None:
        if event.instrument not in self._boards:
            self._boards[event.instrument] = Board(Book(number=len(self._boards), instrument=event.instrument))
        self._touch(event.instrument).book.reference_micros = event.reference_micros

    def _book_state_changed(self, event: BookStateChanged) -> None:
        book = self._touch(event.instrument).book
        book.state, book.due_ns = event.after, event.until_ns

    def _auction_held(self, event: AuctionHeld) -> None:
        board = self._touch(event.instrument)
        if event.price_micros:
            board.book.auction_micros = event.price_micros

    # ---- hosts -----------------------------------------------------------------------------------------

    def _host_listed(self, event: HostListed) -> None:
        is_demo = event.spec.driver == SIMULATED_DRIVER
        self._hosts[event.host_id] = HostStanding(event.host_id, event.party_id, event.instrument, event.spec, is_demo)

    def _host_state_changed(self, event: HostStateChanged) -> None:
        host = self._hosts[event.host_id]
        is_demo = event.spec.driver == SIMULATED_DRIVER
        if is_demo != host.is_demo:
            self._sell(host, 0)  # what it sold was counted under its old driver
            host.is_demo = is_demo
        host.state, host.is_verified, host.spec = event.state, event.is_verified, event.spec
        self._recount(host)

    def _host_went_silent(self, event: HostWentSilent) -> None:
        host = self._hosts[event.host_id]
        host.silent_since_ns = event.last_heartbeat_ns
        self._recount(host)

    def _host_came_back(self, event: HostCameBack) -> None:
        host = self._hosts[event.host_id]
        host.silent_since_ns = 0
        self._recount(host)

    def _host_retired(self, event: HostRetired) -> None:
        host = self._hosts.pop(event.host_id)
        assert not host.ask_id, host

    def _recount(self, host: HostStanding) -> None:
        """Count anew what a host has on sale: free GPUs of its offer, if enough for its ask and it may sell."""
        ask = self._asks.get(host.ask_id)
        if ask is None:
            return
        on_sale = 0
        if host.state is _HEALTHY and not host.silent_since_ns:
            on_sale = host.offered - host.busy_mask.bit_count()
            if on_sale < ask.min_gpus:
                on_sale = 0
        if on_sale != host.on_sale:
            self._sell(host, on_sale)

    def _sell(self, host: HostStanding, on_sale: int) -> None:
        """Bring a host's GPUs on sale, and with it the level of its ask, to a new number."""
        more = on_sale - host.on_sale
        if more:
            host.on_sale = on_sale
            ask = self._asks[host.ask_id]
            ask.on_sale += more
            self._touch(ask.instrument).asks.change(ask.price_micros, more, is_demo=host.is_demo)

    # ---- asks ------------------------------------------------------------------------------------------

    def _ask_accepted(self, event: AskAccepted) -> None:
        self._touch(event.instrument)
        self._stand(
            AskStanding(
                event.order_id, event.party_id, event.instrument, event.offers, event.price_micros, event.min_gpus,
                event.min_hours, event.max_hours, event.until_ns,
            )
        )  # fmt: skip

    def _stand(self, ask: AskStanding) -> None:
        """Put an ask last at its price, with what its hosts have on sale."""
        self._asks[ask.order_id] = ask
        self._boards[ask.instrument].asks.add(ask.price_micros, ask.order_id, ask)
        self._offer(ask, ask.offers)

    def _offer(self, ask: AskStanding, offers: tuple[HostOffer, ...]) -> None:
        ask.offers = offers
        for offer in offers:
            host = self._hosts[offer.host_id]
            host.ask_id, host.offered = ask.order_id, offer.gpus
            self._recount(host)

    def _withdraw(self, ask: AskStanding) -> None:
        for offer in ask.offers:
            host = self._hosts[offer.host_id]
            self._sell(host, 0)
            host.ask_id = host.offered = 0

    def _ask_amended(self, event: AskAmended) -> None:
        ask = self._asks[event.order_id]
        side = self._touch(ask.instrument).asks
        self._withdraw(ask)
        if not event.has_priority:
            side.remove(ask.price_micros, ask.order_id)
            ask.price_micros = event.price_micros
            side.add(ask.price_micros, ask.order_id, ask)
        assert ask.price_micros == event.price_micros, (event, ask)
        self._offer(ask, event.offers)

    # ---- bids ------------------------------------------------------------------------------------------

    def _bid_accepted(self, event: BidAccepted) -> None:
        self._touch(event.instrument)
        self._rest(BidStanding(event, event.limit_micros, event.lots))

    def _rest(self, bid: BidStanding) -> None:
        """Put a bid last at its limit; one that never rests is kept until its command closes it."""
        terms = bid.terms
        self._bids[terms.order_id] = bid
        if terms.time_in_force is not _IOC and terms.time_in_force is not _FOK:
            side = self._boards[terms.instrument].bids
            side.add(bid.limit_micros, terms.order_id, bid)
            side.change(bid.limit_micros, terms.gpus * (bid.lots - bid.filled))

    def _unrest(self, bid: BidStanding) -> None:
        terms = bid.terms
        if terms.time_in_force is not _IOC and terms.time_in_force is not _FOK:
            side = self._boards[terms.instrument].bids
            leaves = bid.lots - bid.filled
            if leaves:
                side.change(bid.limit_micros, -terms.gpus * leaves)
            side.remove(bid.limit_micros, terms.order_id)

    def _bid_amended(self, event: BidAmended) -> None:
        bid = self._bids[event.order_id]
        side = self._touch(bid.terms.instrument).bids
        if event.has_priority:
            side.change(bid.limit_micros, bid.terms.gpus * (event.lots - bid.lots))
            bid.lots = event.lots
            return
        self._unrest(bid)
        bid.limit_micros, bid.lots = event.limit_micros, event.lots
        self._rest(bid)

    def _order_closed(self, event: OrderClosed) -> None:
        bid = self._bids.pop(event.order_id, None)
        if bid is not None:
            self._touch(bid.terms.instrument)
            self._unrest(bid)
            return
        ask = self._asks[event.order_id]
        side = self._touch(ask.instrument).asks
        self._withdraw(ask)
        side.remove(ask.price_micros, ask.order_id)
        del self._asks[event.order_id]

    # ---- trades and rentals ----------------------------------------------------------------------------

    def _trade(self, event: Trade) -> None:
        board = self._touch(event.instrument)
        board.record(event)
        board.trades.append(TradeFacts(event, self.seq, self._hosts[event.host_id].is_demo))
        bid = self._bids[event.bid_id]
        bid.filled += 1
        force = bid.terms.time_in_force
        if force is not _IOC and force is not _FOK:
            board.bids.change(bid.limit_micros, -event.gpus)

    def _rental_opened(self, event: RentalOpened) -> None:
        host = self._hosts[event.host_id]
        self._rentals[event.rental_id] = RentalStanding(
            event.rental_id, event.order_id, host.instrument, event.host_id, event.buyer_id, event.seller_id,
            event.gpus, event.gpu_mask, event.hours, event.price_micros, self.at_ns,
        )  # fmt: skip
        host.busy_mask |= event.gpu_mask
        self._recount(host)

    def _rental_started(self, event: RentalStarted) -> None:
        rental = self._rentals[event.rental_id]
        rental.state, rental.started_at_ns, rental.ends_at_ns = _STARTED, event.at_ns, event.ends_at_ns

    def _rental_extended(self, event: RentalExtended) -> None:
        self._rentals[event.rental_id].ends_at_ns = event.ends_at_ns

    def _rental_over(self, event: RentalEnded | RentalFailed) -> None:
        rental = self._rentals[event.rental_id]
        if rental.state is _OPENED:
            # A trade whose rental never started cost nobody anything: it says nothing of the price.
            book = self._touch(rental.instrument).book
            forget_trade(book, rental.gpus * rental.traded_hours, rental.price_micros, rental.opened_at_ns)
        rental.state = _ENDED if type(event) is RentalEnded else _FAILED
        rental.ended_at_ns = event.at_ns

    def _rental_wiped(self, event: RentalWiped) -> None:
        rental = self._rentals.pop(event.rental_id)
        host = self._hosts[event.host_id]
        before = host.offered - host.busy_mask.bit_count()
        host.busy_mask &= ~rental.gpu_mask
        ask = self._asks.get(host.ask_id)
        if ask is None:
            return
        if max(0, host.offered - host.busy_mask.bit_count()) > max(0, before):
            # GPUs that come back give their ask a new time.
            orders = self._boards[ask.instrument].asks.levels[ask.price_micros].orders
            orders[ask.order_id] = orders.pop(ask.order_id)
        self._recount(host)


# ---- from the engine's own structs ---------------------------------------------------------------------


def _copy_book(book: Book) -> Book:
    """Return what a view needs of a book; times of volatility are the engine's alone."""
    return Book(
        number=book.number,
        instrument=book.instrument,
        state=book.state,
        due_ns=book.due_ns,
        reference_micros=book.reference_micros,
        auction_micros=book.auction_micros,
        last_micros=book.last_micros,
        minutes=[list(minute) for minute in book.minutes],
        minutes_value=book.minutes_value,
        minutes_gpu_hours=book.minutes_gpu_hours,
    )


def _host_standing(host: Host) -> HostStanding:
    return HostStanding(
        host_id=host.host_id,
        party_id=host.party_id,
        instrument=host.instrument,
        spec=host.spec,
        is_demo=host.spec.driver == SIMULATED_DRIVER,
        state=host.state,
        is_verified=host.is_verified,
        silent_since_ns=host.silent_since_ns,
        busy_mask=host.busy_mask,
    )


def _bid_standing(bid: Bid) -> BidStanding:
    terms = BidAccepted(
        bid.order_id, bid.party_id, bid.instrument, bid.gpus, bid.hours, bid.lots, bid.limit_micros, bid.currency,
        bid.time_in_force, bid.expires_at_ns, bid.filters,
    )  # fmt: skip
    return BidStanding(terms, bid.limit_micros, bid.lots, bid.filled)


def _ask_standing(ask: Ask) -> AskStanding:
    return AskStanding(
        ask.order_id, ask.party_id, ask.instrument, ask.offers, ask.price_micros, ask.min_gpus, ask.min_hours,
        ask.max_hours, ask.until_ns,
    )  # fmt: skip


def _rental_standing(rental: Rental) -> RentalStanding:
    return RentalStanding(
        rental_id=rental.rental_id,
        order_id=rental.order_id,
        instrument=rental.instrument,
        host_id=rental.host_id,
        buyer_id=rental.buyer_id,
        seller_id=rental.seller_id,
        gpus=rental.gpus,
        gpu_mask=rental.gpu_mask,
        traded_hours=rental.terms[0].hours,
        price_micros=rental.terms[0].price_micros,
        opened_at_ns=rental.opened_at_ns,
        state=rental.state,
        started_at_ns=rental.started_at_ns,
        ends_at_ns=rental.started_at_ns + rental.hours * HOUR_NS if rental.started_at_ns else 0,
        ended_at_ns=rental.ended_at_ns,
    )
