"""Questions about the state that change nothing: best ask, depth, indicative price, holds."""

from __future__ import annotations

from typing import NamedTuple

from bursa.market.auction import find_auction
from bursa.market.fitting import bid_masks, is_linked, lot_query, pick_host
from bursa.market.refusals import check_filters
from bursa.market.state import Ask, Host, State
from bursa.market.types import HOUR_NS, Filters, Hold


class BestAsk(NamedTuple):
    """The ask and host that would serve a lot first, and its price in micro-US$ per GPU-hour."""

    order_id: int
    host_id: int
    price_micros: int


class Depth(NamedTuple):
    """(price in micro-US$, GPUs) per price, best first."""

    bids: tuple[tuple[int, int], ...]
    asks: tuple[tuple[int, int], ...]


class Indicative(NamedTuple):
    """Price (0 = nothing trades), GPU-hours and imbalance of an auction held now."""

    price_micros: int
    gpu_hours: int
    imbalance_gpus: int


def best_ask(
    state: State, instrument: str, gpus: int, hours: int, filters: Filters, party_id: int, at_ns: int
) -> BestAsk | None:
    """Return the first ask in price-time order that serves a lot; None for a lot that no order may ask for."""
    rules = state.rules
    if (
        instrument not in state.books
        or check_filters(filters)
        or not (1 <= gpus <= rules.gpus_max and 1 <= hours <= rules.hours_max)
    ):
        return None
    buyer = state.parties.get(party_id)
    found: Host | None = None

    def accept(ask: Ask) -> bool:
        nonlocal found
        if buyer is not None and is_linked(buyer, state.parties[ask.party_id]):
            return False
        found = pick_host(state, ask, gpus, hours, filters, at_ns)
        return found is not None

    sides = state.sides[instrument]
    want, need = bid_masks(sides, gpus, hours, filters)
    ask = sides.asks.first(
        want, need, accept, horizon_min=at_ns + hours * HOUR_NS, token=lot_query(gpus, hours, filters, buyer)
    )
    if ask is None or found is None:
        return None
    return BestAsk(ask.order_id, found.host_id, ask.price_micros)


def depth(state: State, instrument: str, levels_max: int) -> Depth:
    """Return GPUs per price on both sides."""
    sides = state.sides.get(instrument)
    if sides is None:
        return Depth((), ())
    bids: dict[int, int] = {}
    for bid in sides.bids:
        if bid.limit_micros not in bids and len(bids) == levels_max:
            break
        bids[bid.limit_micros] = bids.get(bid.limit_micros, 0) + bid.gpus * bid.leaves
    asks: dict[int, int] = {}
    for ask in sides.asks:
        if ask.price_micros not in asks and len(asks) == levels_max:
            break
        on_sale = [state.hosts[offer.host_id].leaves(offer.gpus) for offer in ask.offers]
        gpus = sum(leaves for leaves in on_sale if leaves >= ask.min_gpus)
        asks[ask.price_micros] = asks.get(ask.price_micros, 0) + gpus
    return Depth(tuple(bids.items()), tuple(asks.items()))


def indicative(state: State, instrument: str, at_ns: int) -> Indicative:
    """Return the outcome of an auction held now."""
    book = state.books.get(instrument)
    if book is None:
        return Indicative(0, 0, 0)
    result = find_auction(state, book, at_ns)
    return Indicative(result.price_micros, result.gpu_hours, result.imbalance_gpus)


def holds(state: State) -> tuple[Hold, ...]:
    """Return the holds of open bids, then of live rentals, by id."""
    bids = [Hold(b.party_id, b.currency, b.hold_micros, order_id=b.order_id) for b in state.bids.values()]
    rentals = [
        Hold(r.buyer_id, r.currency, r.held_micros, rental_id=r.rental_id) for r in state.rentals.values() if r.is_live
    ]
    return tuple(sorted(bids, key=lambda hold: hold.order_id) + sorted(rentals, key=lambda hold: hold.rental_id))
