"""Price, then time: a bid walks the asks from the cheapest, an ask walks the bids from the highest.

Inside one ask the tightest-fitting host serves, then the lowest host id. The trade price is that of the
order that rested. What does not fit is skipped and keeps its place. An ask has one time priority, renewed
when GPUs come back to it: inside an ask the tightest fit decides, which leaves no room for a time of each
GPU (docs/decisions/0004).
"""

from __future__ import annotations

from typing import Final

from bursa.market.charging import make_terms, move_hold, resize_hold
from bursa.market.events import OrderClosed, RentalOpened
from bursa.market.fitting import (
    CAPS_ALL,
    LotQuery,
    ask_masks,
    bid_fits,
    bid_masks,
    cap_hours,
    is_linked,
    lot_query,
    pick_host,
)
from bursa.market.state import Ask, Bid, Book, Host, Rental, State
from bursa.market.timers import TimerKind
from bursa.market.transitions import ORDER, allows, move
from bursa.market.types import (
    HOUR_NS,
    MINUTE_NS,
    PRICE_MICROS_MAX,
    BookState,
    OrderState,
    Side,
    Trade,
)
from bursa.market.volatility import record_trade

_TIME_BITS: Final = 48
_LAST_TIME: Final = (1 << _TIME_BITS) - 1
_RENTAL: Final = int(TimerKind.RENTAL)
_CLOSED_BY: Final = {
    OrderState.FILLED: "all lots filled",
    OrderState.CANCELED: "canceled",
    OrderState.EXPIRED: "time in force over",
}
# An attribute of an Enum class is looked up ten times slower than a global name; every command passes here.
_OPEN = BookState.OPEN
_FILLED = OrderState.FILLED
_SELL = Side.SELL


def ask_key(price_micros: int, priority: int) -> int:
    """Return the key of an ask: cheapest first, then oldest."""
    return price_micros << _TIME_BITS | priority


def bid_key(limit_micros: int, priority: int) -> int:
    """Return the key of a bid: highest first, then oldest."""
    return PRICE_MICROS_MAX - limit_micros << _TIME_BITS | priority


def plan_bid(state: State, book: Book, bid: Bid, at_ns: int) -> list[tuple[Ask, Host]]:
    """Return the asks and hosts that would serve a bid's lots now, in order, changing nothing."""
    sides = state.sides[book.instrument]
    asks = sides.asks
    if not asks:
        return []
    buyer = state.parties[bid.party_id]
    want, need = bid_masks(sides, bid.gpus, bid.hours, bid.filters)
    taken: dict[int, int] = {}
    found: Host | None = None

    def accept(ask: Ask) -> bool:
        nonlocal found
        if is_linked(buyer, state.parties[ask.party_id]):
            return False
        found = pick_host(state, ask, bid.gpus, bid.hours, bid.filters, at_ns, taken)
        return found is not None

    plan: list[tuple[Ask, Host]] = []
    key_min, key_max = 0, ask_key(bid.limit_micros, _LAST_TIME)
    token: LotQuery | None = lot_query(bid.gpus, bid.hours, bid.filters, buyer)
    horizon_min = at_ns + bid.hours * HOUR_NS
    while len(plan) < bid.leaves:
        ask = asks.first(want, need, accept, key_min=key_min, key_max=key_max, horizon_min=horizon_min, token=token)
        token = None  # further lots depend on what the plan has taken, which no later search shares
        if ask is None:
            break
        assert found is not None
        plan.append((ask, found))
        taken[found.host_id] = taken.get(found.host_id, 0) + bid.gpus
        key_min = ask_key(ask.price_micros, ask.priority)
    return plan


def match_ask(state: State, ask: Ask, at_ns: int) -> None:
    """Let an ask that is new, cheaper or has more to sell walk the resting bids of an OPEN book."""
    book = state.books[ask.instrument]
    sides = state.sides[ask.instrument]
    bids = sides.bids
    first = bids.peek()
    key_min, key_max = 0, bid_key(ask.price_micros, _LAST_TIME)
    if first is None or first[0] > key_max or book.state is not _OPEN:
        return
    hours_left = (ask.until_ns - at_ns) // HOUR_NS
    while True:
        fit, caps = ask_masks(state, sides, ask)
        if not fit:
            break
        if hours_left < ask.max_hours:
            caps = cap_hours(caps, hours_left)
        need = CAPS_ALL & ~caps
        bid = bids.first(
            fit, need, lambda bid: bid_fits(state, ask, bid, at_ns) is not None, key_min=key_min, key_max=key_max
        )
        if bid is None:
            break
        key_min = bid_key(bid.limit_micros, bid.priority)
        host = bid_fits(state, ask, bid, at_ns)
        while host is not None:
            fill(state, bid, ask, host, bid.limit_micros, _SELL, at_ns)
            host = bid_fits(state, ask, bid, at_ns) if bid.leaves else None
        if bid.leaves == 0:
            close_bid(state, bid, _FILLED, at_ns)


def fill(state: State, bid: Bid, ask: Ask, host: Host, price_micros: int, taker: Side | None, at_ns: int) -> None:
    """Trade one lot: move the hold, take the GPUs, open the rental. The caller closes a bid that is filled."""
    assert bid.leaves > 0, bid
    assert allows(ORDER, bid.state, "some lots filled"), bid
    assert ask.price_micros <= price_micros <= bid.limit_micros, (ask, price_micros, bid)
    counters = state.counters
    counters.trade += 1
    counters.rental += 1
    number = counters.rental
    mask = free_gpus(host, bid.gpus)
    start_by_ns = at_ns + state.rules.start_minutes_max * MINUTE_NS
    terms = make_terms(
        state,
        price_micros=price_micros,
        gpus=bid.gpus,
        hours=bid.hours,
        mid_micros=bid.mid_micros,
        rate_micros=bid.rate_micros,
        tax=bid.tax,
    )
    rental = Rental(
        rental_id=number, order_id=bid.order_id, ask_id=ask.order_id, host_id=host.host_id, instrument=bid.instrument,
        buyer_id=bid.party_id, seller_id=ask.party_id, gpus=bid.gpus, gpu_mask=mask, currency=bid.currency,
        terms=[terms], min_hours=ask.min_hours, max_hours=ask.max_hours, until_ns=ask.until_ns,
        lock_hours=ask.price_lock_hours, mid_micros=bid.mid_micros, due_ns=start_by_ns, held_micros=0,
        opened_at_ns=at_ns,
    )  # fmt: skip
    state.rentals[number] = rental
    state.timers.add(start_by_ns, _RENTAL, number)
    host.busy_mask |= mask
    host.rentals.append(number)
    bid.leaves -= 1
    bid.filled += 1
    events = state.events
    events.append(
        Trade(
            counters.trade, bid.instrument, bid.order_id, ask.order_id, number, host.host_id, bid.party_id,
            ask.party_id, bid.gpus, bid.hours, price_micros, taker, at_ns,
        )
    )  # fmt: skip
    events.append(
        RentalOpened(
            number,
            bid.order_id,
            host.host_id,
            bid.party_id,
            ask.party_id,
            bid.gpus,
            mask,
            bid.hours,
            price_micros,
            start_by_ns,
        )
    )
    move_hold(state, bid, rental, at_ns)
    reindex_ask(state, ask)
    owners = (state.parties[bid.party_id], state.parties[ask.party_id])
    gpu_hours, move_percent = bid.gpus * bid.hours, state.rules.halt_move_percent
    if record_trade(state.books[bid.instrument], owners, gpu_hours, price_micros, at_ns, move_percent):
        state.moved.add(bid.instrument)


def free_gpus(host: Host, gpus: int) -> int:
    """Return the bits of the lowest-numbered free GPUs of a host."""
    if not host.busy_mask:
        assert gpus <= host.spec.gpus, (host, gpus)
        return (1 << gpus) - 1
    mask, free = 0, ~host.busy_mask & (1 << host.spec.gpus) - 1
    for _ in range(gpus):
        low = free & -free
        assert low, (host, gpus)
        mask |= low
        free ^= low
    return mask


def reindex_ask(state: State, ask: Ask) -> None:
    """Bring the index in line with what an ask has on sale now, at the place that its price and time give it."""
    sides = state.sides[ask.instrument]
    fit, caps = ask_masks(state, sides, ask)
    key = ask_key(ask.price_micros, ask.priority)
    old_key = sides.ask_keys.get(ask.order_id)
    if old_key is not None and (old_key != key or not fit):
        sides.asks.remove(old_key)
        del sides.ask_keys[ask.order_id]
        old_key = None
    if not fit:
        return
    if old_key is None:
        sides.asks.insert(key, ask, fit, caps, ask.until_ns)
        sides.ask_keys[ask.order_id] = key
    else:
        sides.asks.update(key, fit, caps, ask.until_ns)


def rest_bid(state: State, bid: Bid) -> None:
    """Put what is left of a bid into the book."""
    sides = state.sides[bid.instrument]
    want, need = bid_masks(sides, bid.gpus, bid.hours, bid.filters)
    sides.bids.insert(bid_key(bid.limit_micros, bid.priority), bid, want, CAPS_ALL & ~need)


def unrest_bid(state: State, bid: Bid) -> None:
    """Take a bid out of the book, to close it or to put it back elsewhere."""
    state.sides[bid.instrument].bids.remove(bid_key(bid.limit_micros, bid.priority))


def close_bid(state: State, bid: Bid, final: OrderState, at_ns: int, *, is_resting: bool = True) -> None:
    """Close a bid: its hold is free at once and it leaves the engine."""
    assert (final is _FILLED) == (bid.leaves == 0), (bid, final)
    assert move(ORDER, bid.state, _CLOSED_BY[final]) is final, (bid, final)
    if is_resting:
        unrest_bid(state, bid)
    resize_hold(state, bid, 0, at_ns)
    assert bid.hold_micros == 0, bid
    del state.bids[bid.order_id]
    state.open_orders[bid.party_id].discard(bid.order_id)
    state.events.append(OrderClosed(bid.order_id, bid.party_id, final, bid.filled, bid.leaves))


def close_ask(state: State, ask: Ask, final: OrderState) -> None:
    """Withdraw an ask: nothing more is sold under it, rentals made under it run on."""
    assert move(ORDER, OrderState.NEW, _CLOSED_BY[final]) is final is not _FILLED, final
    sides = state.sides[ask.instrument]
    key = sides.ask_keys.pop(ask.order_id, None)
    if key is not None:
        sides.asks.remove(key)
    withdrawn = 0
    for offer in ask.offers:
        host = state.hosts[offer.host_id]
        assert host.ask_id == ask.order_id, (host, ask)
        withdrawn += host.leaves(offer.gpus)
        host.ask_id = 0
    del state.asks[ask.order_id]
    state.open_orders[ask.party_id].discard(ask.order_id)
    state.events.append(OrderClosed(ask.order_id, ask.party_id, final, 0, withdrawn))
