"""Orders: place, amend, cancel. Each handler checks everything first and changes something only then."""

from __future__ import annotations

from collections.abc import Iterable

from bursa.market.charging import net_and_vat, place_hold, rate_of, resize_hold
from bursa.market.commands import AmendAsk, AmendBid, CancelOrder, PlaceAsk, PlaceBid
from bursa.market.events import AskAccepted, AskAmended, BidAccepted, BidAmended, Placed, Rejected
from bursa.market.matching import (
    ask_key,
    close_ask,
    close_bid,
    fill,
    match_ask,
    plan_bid,
    reindex_ask,
    rest_bid,
    unrest_bid,
)
from bursa.market.refusals import (
    check_ask_band,
    check_bid_band,
    check_book_takes_orders,
    check_filters,
    check_funds,
    check_may_order,
    check_number,
    check_outlives_opening,
    check_price,
    known_party,
    mid_for,
    missing_order,
    refuse,
)
from bursa.market.rules import MarketRules
from bursa.market.state import Ask, Bid, Book, Party, State
from bursa.market.timers import TimerKind
from bursa.market.types import (
    DAY_NS,
    NO_FILTERS,
    BookState,
    HostOffer,
    OrderState,
    Rejection,
    Side,
    TimeInForce,
)

_ORDER = int(TimerKind.ORDER)
# An attribute of an Enum class is looked up ten times slower than a global name; every command passes here.
_IOC = TimeInForce.IOC
_FOK = TimeInForce.FOK
_GTD = TimeInForce.GTD
_OPEN = BookState.OPEN
_BUY = Side.BUY
_FILLED = OrderState.FILLED
_CANCELED = OrderState.CANCELED
_NEW = OrderState.NEW


# ---- bids ----------------------------------------------------------------------------------------------


def on_place_bid(state: State, command: PlaceBid, at_ns: int) -> Placed | Rejected:
    """Hold the funds, fill what can be filled now, and rest, cancel or refuse the remainder by its time in force."""
    bid = _new_bid(state, command, at_ns)
    if isinstance(bid, Rejected):
        return bid
    book = state.books[bid.instrument]
    plan = plan_bid(state, book, bid, at_ns) if book.state is _OPEN else []
    is_immediate = command.time_in_force is _IOC or command.time_in_force is _FOK
    if is_immediate and not plan:
        return refuse(Rejection.NOTHING_TO_FILL, "limit_micros", "an ask within the limit that fits the bid")
    if command.time_in_force is _FOK and len(plan) < bid.lots:
        return refuse(Rejection.NOTHING_TO_FILL, "lots", f"at most {len(plan)} lots, all that can be filled now")
    state.counters.order += 1
    bid.order_id = state.counters.order
    bid.priority = state.next_priority()
    state.bids[bid.order_id] = bid
    state.open_orders[bid.party_id].add(bid.order_id)
    state.events.append(
        BidAccepted(
            bid.order_id, bid.party_id, bid.instrument, bid.gpus, bid.hours, bid.lots, bid.limit_micros, bid.currency,
            bid.time_in_force, bid.expires_at_ns, bid.filters,
        )
    )  # fmt: skip
    place_hold(state, bid, at_ns)
    for ask, host in plan:
        fill(state, bid, ask, host, ask.price_micros, _BUY, at_ns)
    assert bid.filled == len(plan), (bid, plan)
    if bid.leaves == 0:
        close_bid(state, bid, _FILLED, at_ns, is_resting=False)
        return Placed(bid.order_id, _FILLED, bid.filled, 0, 0)
    if is_immediate:
        close_bid(state, bid, _CANCELED, at_ns, is_resting=False)
        return Placed(bid.order_id, _CANCELED, bid.filled, 0, bid.leaves)
    rest_bid(state, bid)
    state.timers.add(bid.expires_at_ns, _ORDER, bid.order_id)
    assert bid.hold_micros == bid.gross_micros * bid.gpus * bid.hours * bid.leaves, bid
    return Placed(bid.order_id, bid.state, bid.filled, bid.leaves, 0)


def _new_bid(state: State, command: PlaceBid, at_ns: int) -> Bid | Rejected:
    """Return the bid that a command asks for, not yet placed, or the refusal."""
    rules = state.rules
    filters = NO_FILTERS if command.filters == NO_FILTERS else command.filters
    refusal = (
        _check_lots(rules, command)
        or check_price(state, "limit_micros", command.limit_micros)
        or (None if filters is NO_FILTERS else check_filters(filters))
    )
    if refusal:
        return refusal
    expires_at_ns = _expiry(state, command, at_ns)
    if isinstance(expires_at_ns, Rejected):
        return expires_at_ns
    book = state.books.get(command.instrument)
    if book is None:
        return refuse(Rejection.UNKNOWN_INSTRUMENT, "instrument", "the slug of a listed GPU model")
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    tax = party.tax
    if tax is None:
        return refuse(Rejection.NO_TAX_PROFILE, "party_id", "a party whose tax profile is set")
    refusal = (
        check_may_order(party)
        or _check_open_orders(state, party)
        or check_book_takes_orders(book, command.time_in_force)
        or check_outlives_opening("expires_at_ns", expires_at_ns, book)
        or check_bid_band(state, book, command.limit_micros, at_ns)
    )
    if refusal:
        return refusal
    mid = mid_for(state, command.currency, at_ns)
    if isinstance(mid, Rejected):
        return mid
    rate = rate_of(state, mid)
    net, vat = net_and_vat(command.limit_micros, rate, tax.vat_ppm)
    gross = net + vat
    hold = gross * command.gpus * command.hours * command.lots
    if refusal := check_funds(state, party, command.currency, hold):
        return refusal
    return Bid(
        order_id=0, party_id=command.party_id, instrument=book.instrument, gpus=command.gpus, hours=command.hours,
        lots=command.lots, leaves=command.lots, filled=0, limit_micros=command.limit_micros, currency=command.currency,
        time_in_force=command.time_in_force, expires_at_ns=expires_at_ns,
        filters=filters,
        priority=0, tax=tax, gross_micros=gross, hold_micros=hold, mid_micros=mid, rate_micros=rate,
    )  # fmt: skip


def _check_lots(rules: MarketRules, command: PlaceBid) -> Rejected | None:
    """Refuse lots of a size that no host or rule allows; nearly all bids pass by the first line."""
    if (
        1 <= command.gpus <= rules.gpus_max
        and 1 <= command.hours <= rules.hours_max
        and 1 <= command.lots <= rules.lots_max
    ):
        return None
    return (
        check_number(Rejection.QUANTITY_OUT_OF_RANGE, "gpus", command.gpus, 1, rules.gpus_max)
        or check_number(Rejection.HOURS_OUT_OF_RANGE, "hours", command.hours, 1, rules.hours_max)
        or check_number(Rejection.QUANTITY_OUT_OF_RANGE, "lots", command.lots, 1, rules.lots_max)
    )


def _expiry(state: State, command: PlaceBid, at_ns: int) -> int | Rejected:
    """Return when a bid expires, or the refusal."""
    latest = at_ns + state.rules.bid_days_max * DAY_NS
    if command.time_in_force is not _GTD:
        if command.expires_at_ns:
            return refuse(Rejection.INVALID_FIELD, "expires_at_ns", "0 unless the time in force is GTD")
        return latest
    return _until("expires_at_ns", command.expires_at_ns, at_ns, latest)


def _until(field: str, until_ns: int, at_ns: int, latest_ns: int) -> int | Rejected:
    """Return an end of validity that lies between now and the latest allowed, or the refusal."""
    if until_ns <= at_ns:
        return refuse(Rejection.EXPIRES_TOO_EARLY, field, f"later than {at_ns}")
    if until_ns > latest_ns:
        return refuse(Rejection.EXPIRES_TOO_LATE, field, f"at most {latest_ns}")
    return until_ns


def _check_open_orders(state: State, party: Party) -> Rejected | None:
    if len(state.open_orders[party.party_id]) < state.rules.open_orders_max:
        return None
    return refuse(Rejection.TOO_MANY_OPEN_ORDERS, "party_id", f"at most {state.rules.open_orders_max} open orders")


def on_amend_bid(state: State, command: AmendBid, at_ns: int) -> Placed | Rejected:
    """Give a resting bid another limit or number of lots; a better chance to trade costs its place in time."""
    bid = _own_bid(state, command)
    if isinstance(bid, Rejected):
        return bid
    book = state.books[bid.instrument]
    refusal = _check_amend_bid(state, book, bid, command, at_ns)
    if refusal:
        return refusal
    can_trade = command.limit_micros > bid.limit_micros or command.lots > bid.lots
    mid, rate, tax = bid.mid_micros, bid.rate_micros, bid.tax
    if can_trade:
        # More money is a new decision: it is converted and taxed as of now, not as of when the bid was placed.
        now_mid = mid_for(state, bid.currency, at_ns)
        if isinstance(now_mid, Rejected):
            return now_mid
        mid, rate, tax = now_mid, rate_of(state, now_mid), state.parties[bid.party_id].tax or bid.tax
    net, vat = net_and_vat(command.limit_micros, rate, tax.vat_ppm)
    leaves = command.lots - bid.filled
    hold = (net + vat) * bid.gpus * bid.hours * leaves
    more = hold - bid.hold_micros
    if more > 0 and (refusal := check_funds(state, state.parties[bid.party_id], bid.currency, more)):
        return refusal
    keeps_priority = command.limit_micros == bid.limit_micros and command.lots <= bid.lots
    unrest_bid(state, bid)
    bid.limit_micros, bid.lots, bid.leaves, bid.gross_micros = command.limit_micros, command.lots, leaves, net + vat
    bid.mid_micros, bid.rate_micros, bid.tax = mid, rate, tax
    if not keeps_priority:
        bid.priority = state.next_priority()
    resize_hold(state, bid, hold, at_ns)
    state.events.append(BidAmended(bid.order_id, bid.limit_micros, bid.lots, keeps_priority))
    plan = plan_bid(state, book, bid, at_ns) if book.state is _OPEN and can_trade else []
    for ask, host in plan:
        fill(state, bid, ask, host, ask.price_micros, _BUY, at_ns)
    if bid.leaves == 0:
        close_bid(state, bid, _FILLED, at_ns, is_resting=False)
        return Placed(bid.order_id, _FILLED, bid.filled, 0, 0)
    rest_bid(state, bid)
    assert bid.filled + bid.leaves == bid.lots, bid
    assert bid.hold_micros == bid.gross_micros * bid.gpus * bid.hours * bid.leaves, bid
    return Placed(bid.order_id, bid.state, bid.filled, bid.leaves, 0)


def _own_bid(state: State, command: AmendBid) -> Bid | Rejected:
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    bid = state.bids.get(command.order_id)
    if bid is None:
        if command.order_id in state.asks:
            return refuse(Rejection.UNKNOWN_ORDER, "order_id", "the id of a bid")
        return missing_order(state, command.order_id)
    if bid.party_id != command.party_id:
        return refuse(Rejection.NOT_YOURS, "order_id", "an order of this party")
    return bid


def _check_amend_bid(state: State, book: Book, bid: Bid, command: AmendBid, at_ns: int) -> Rejected | None:
    is_new_price = command.limit_micros != bid.limit_micros
    refusal = (
        (check_price(state, "limit_micros", command.limit_micros) if is_new_price else None)
        or check_number(Rejection.QUANTITY_OUT_OF_RANGE, "lots", command.lots, bid.filled + 1, state.rules.lots_max)
        or check_book_takes_orders(book)
        or (check_bid_band(state, book, command.limit_micros, at_ns) if is_new_price else None)
    )
    if refusal:
        return refusal
    is_worse = command.limit_micros < bid.limit_micros or command.lots < bid.lots
    if book.state is BookState.NO_CANCEL and is_worse:
        return refuse(Rejection.NO_CANCEL_PERIOD, "limit_micros", "a better price and no fewer lots until the opening")
    return None


# ---- asks ----------------------------------------------------------------------------------------------


def on_place_ask(state: State, command: PlaceAsk, at_ns: int) -> Placed | Rejected:
    """Let an ask stand, and sell at once to the resting bids that it fits."""
    refusal = _check_ask_fields(state, command)
    if refusal:
        return refusal
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    latest = at_ns + state.rules.ask_days_max * DAY_NS
    until = _until("until_ns", command.until_ns, at_ns, latest) if command.until_ns else latest
    if isinstance(until, Rejected):
        return until
    refusal = check_may_order(party) or _check_open_orders(state, party)
    refusal = refusal or _check_offers(state, party, command.offers, ask_id=0)
    if refusal:
        return refusal
    book = state.books[state.hosts[command.offers[0].host_id].instrument]
    refusal = (
        check_book_takes_orders(book)
        or check_outlives_opening("until_ns", until, book)
        or check_ask_band(state, book, command.price_micros, at_ns)
    )
    if refusal:
        return refusal
    state.counters.order += 1
    ask = Ask(
        order_id=state.counters.order, party_id=command.party_id, instrument=book.instrument, offers=command.offers,
        price_micros=command.price_micros, min_gpus=command.min_gpus, min_hours=command.min_hours,
        max_hours=command.max_hours, price_lock_hours=command.price_lock_hours, until_ns=until,
        priority=state.next_priority(),
    )  # fmt: skip
    state.asks[ask.order_id] = ask
    state.open_orders[ask.party_id].add(ask.order_id)
    for offer in ask.offers:
        state.hosts[offer.host_id].ask_id = ask.order_id
    state.timers.add(until, _ORDER, ask.order_id)
    state.events.append(
        AskAccepted(
            ask.order_id, ask.party_id, ask.instrument, ask.offers, ask.price_micros, ask.min_gpus, ask.min_hours,
            ask.max_hours, ask.price_lock_hours, ask.until_ns,
        )
    )  # fmt: skip
    on_sale = _on_sale(state, ask.offers)
    reindex_ask(state, ask)
    match_ask(state, ask, at_ns)
    left = _on_sale(state, ask.offers)
    assert 0 <= left <= on_sale, (left, on_sale)
    assert ask.order_id in state.asks, ask
    return Placed(ask.order_id, _NEW, on_sale - left, left, 0)


def _check_ask_fields(state: State, command: PlaceAsk) -> Rejected | None:
    rules = state.rules
    return (
        check_number(Rejection.QUANTITY_OUT_OF_RANGE, "min_gpus", command.min_gpus, 1, rules.gpus_max)
        or check_number(Rejection.HOURS_OUT_OF_RANGE, "min_hours", command.min_hours, 1, rules.hours_max)
        or check_number(
            Rejection.HOURS_OUT_OF_RANGE, "max_hours", command.max_hours, command.min_hours, rules.hours_max
        )
        or check_number(Rejection.HOURS_OUT_OF_RANGE, "price_lock_hours", command.price_lock_hours, 0, rules.hours_max)
        or check_price(state, "price_micros", command.price_micros)
        or _check_offer_list(state, command.offers, command.min_gpus)
    )


def _check_offer_list(state: State, offers: tuple[HostOffer, ...], min_gpus: int) -> Rejected | None:
    """Refuse offers that are none, too many, twice the same host, or too small to serve anybody."""
    most = state.rules.hosts_per_ask_max
    if not 0 < len(offers) <= most:
        return refuse(Rejection.QUANTITY_OUT_OF_RANGE, "offers", f"1 to {most} hosts")
    if len({offer.host_id for offer in offers}) < len(offers):
        return refuse(Rejection.INVALID_FIELD, "offers", "each host once")
    gpus_max = state.rules.gpus_max
    for offer in offers:
        if refusal := check_number(Rejection.QUANTITY_OUT_OF_RANGE, "offers.gpus", offer.gpus, min_gpus, gpus_max):
            return refusal
    return None


def _check_offers(state: State, party: Party, offers: tuple[HostOffer, ...], *, ask_id: int) -> Rejected | None:
    """Refuse hosts that are unknown, another's, of several models, unfit to sell or already in another ask."""
    for offer in offers:
        host = state.hosts.get(offer.host_id)
        if host is None:
            return refuse(Rejection.UNKNOWN_HOST, "offers.host_id", "the id of a listed host")
        if host.party_id != party.party_id:
            return refuse(Rejection.NOT_YOURS, "offers.host_id", "a host of this party")
        if host.instrument != state.hosts[offers[0].host_id].instrument:
            return refuse(Rejection.INVALID_FIELD, "offers", "hosts with one GPU model")
        if offer.gpus > host.spec.gpus:
            return refuse(Rejection.QUANTITY_OUT_OF_RANGE, "offers.gpus", f"at most {host.spec.gpus}, all that it has")
        if host.ask_id not in {0, ask_id}:
            return refuse(Rejection.HOST_ALREADY_OFFERED, "offers.host_id", "a host that stands in no other ask")
        if not host.can_sell and host.ask_id == 0:
            return refuse(Rejection.HOST_NOT_HEALTHY, "offers.host_id", "a host that passed its check and is heard")
    if ask_id == 0 and _on_sale(state, offers) == 0:
        return refuse(Rejection.HOST_HAS_NO_FREE_GPUS, "offers", "at least one GPU that is free now")
    return None


def _on_sale(state: State, offers: Iterable[HostOffer]) -> int:
    return sum(state.hosts[offer.host_id].leaves(offer.gpus) for offer in offers)


def on_amend_ask(state: State, command: AmendAsk, at_ns: int) -> Placed | Rejected:
    """Give an ask another price or other offers; another price, more GPUs or another host costs its place in time."""
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    ask = state.asks.get(command.order_id)
    if ask is None:
        if command.order_id in state.bids:
            return refuse(Rejection.UNKNOWN_ORDER, "order_id", "the id of an ask")
        return missing_order(state, command.order_id)
    book = state.books[ask.instrument]
    refusal = _check_amend_ask(state, party, book, ask, command, at_ns)
    if refusal:
        return refusal
    before = {offer.host_id: offer.gpus for offer in ask.offers}
    has_more = any(offer.gpus > before.get(offer.host_id, 0) for offer in command.offers)
    keeps_priority = command.price_micros == ask.price_micros and not has_more
    for host_id in before:
        state.hosts[host_id].ask_id = 0
    ask.price_micros, ask.offers = command.price_micros, command.offers
    for offer in ask.offers:
        state.hosts[offer.host_id].ask_id = ask.order_id
    if not keeps_priority:
        ask.priority = state.next_priority()
    state.events.append(AskAmended(ask.order_id, ask.price_micros, ask.offers, keeps_priority))
    on_sale = _on_sale(state, ask.offers)
    reindex_ask(state, ask)
    match_ask(state, ask, at_ns)
    left = _on_sale(state, ask.offers)
    assert 0 <= left <= on_sale, (left, on_sale)
    assert all(state.hosts[offer.host_id].ask_id == ask.order_id for offer in ask.offers), ask
    return Placed(ask.order_id, _NEW, on_sale - left, left, 0)


def _check_amend_ask(
    state: State, party: Party, book: Book, ask: Ask, command: AmendAsk, at_ns: int
) -> Rejected | None:
    if ask.party_id != command.party_id:
        return refuse(Rejection.NOT_YOURS, "order_id", "an order of this party")
    is_new_price = command.price_micros != ask.price_micros
    refusal = (
        (check_price(state, "price_micros", command.price_micros) if is_new_price else None)
        or _check_offer_list(state, command.offers, ask.min_gpus)
        or _check_offers(state, party, command.offers, ask_id=ask.order_id)
        or check_book_takes_orders(book)
        or (check_ask_band(state, book, command.price_micros, at_ns) if is_new_price else None)
    )
    if refusal:
        return refusal
    if state.hosts[command.offers[0].host_id].instrument != ask.instrument:
        return refuse(Rejection.INVALID_FIELD, "offers", f"hosts with the GPU model {ask.instrument}")
    after = {offer.host_id: offer.gpus for offer in command.offers}
    has_less = any(after.get(offer.host_id, 0) < offer.gpus for offer in ask.offers)
    if book.state is BookState.NO_CANCEL and (command.price_micros > ask.price_micros or has_less):
        return refuse(Rejection.NO_CANCEL_PERIOD, "price_micros", "a better price and no fewer GPUs until the opening")
    return None


# ---- both ----------------------------------------------------------------------------------------------


def on_cancel_order(state: State, command: CancelOrder, at_ns: int) -> Placed | Rejected:
    """Cancel a bid or an ask, in any state of the book but the last minutes before the opening."""
    party = known_party(state, command.party_id)
    if isinstance(party, Rejected):
        return party
    order = state.bids.get(command.order_id) or state.asks.get(command.order_id)
    if order is None:
        return missing_order(state, command.order_id)
    if order.party_id != command.party_id:
        return refuse(Rejection.NOT_YOURS, "order_id", "an order of this party")
    if state.books[order.instrument].state is BookState.NO_CANCEL:
        return refuse(Rejection.NO_CANCEL_PERIOD, "order_id", "to wait for the opening: orders are firm until then")
    close_order(state, order, _CANCELED, at_ns)
    assert order.order_id not in state.bids, order
    assert order.order_id not in state.asks, order
    if isinstance(order, Bid):
        return Placed(order.order_id, _CANCELED, order.filled, 0, order.leaves)
    return Placed(order.order_id, _CANCELED, 0, 0, _on_sale(state, order.offers))


def close_order(state: State, order: Bid | Ask, final: OrderState, at_ns: int) -> None:
    """Close a resting order, bid or ask."""
    if isinstance(order, Bid):
        close_bid(state, order, final, at_ns)
    else:
        close_ask(state, order, final)


def cancel_all(state: State, party_id: int, at_ns: int) -> None:
    """Cancel every open order of a party, oldest first, whatever the state of the book."""
    for order_id in sorted(state.open_orders[party_id]):
        order = state.bids.get(order_id) or state.asks[order_id]
        close_order(state, order, _CANCELED, at_ns)


def match_resting(state: State, book: Book, at_ns: int) -> None:
    """Trade what still fits after an auction, highest bid first, at the price of the older of the two orders."""
    sides = state.sides[book.instrument]
    for bid in list(sides.bids):
        first = sides.asks.peek()
        if first is None or first[0] > ask_key(bid.limit_micros, (1 << 48) - 1):
            break
        plan = plan_bid(state, book, bid, at_ns)
        for ask, host in plan:
            is_ask_older = ask.priority < bid.priority
            price = ask.price_micros if is_ask_older else bid.limit_micros
            fill(state, bid, ask, host, price, _BUY if is_ask_older else Side.SELL, at_ns)
        if bid.leaves == 0:
            close_bid(state, bid, _FILLED, at_ns)
