"""Rows of what changes, read off the engine: pure functions from its objects to the fields of a row."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

import msgspec

from bursa.market import Ask, AskAccepted, Bid, BidAccepted, Host, Rental, Trade
from bursa.sequencer.copying import boolean, int4, int8, raw, word

_pack = msgspec.msgpack.Encoder().encode
_two_int8 = Struct(">iqiq").pack
_two_int4 = Struct(">iiii").pack
_six_int4 = Struct(">iiiiiiiiiiii").pack
_NOT_RETIRED: Final = boolean(False)  # noqa: FBT003 - the value itself
_HOUR_NS: Final = 3_600 * 10**9
#: (state, price, lots, filled, leaves, canceled) of an order, and its (placed, updated, closed at, seq).
OrderFacts = tuple[str, int, int, int, int, int]
OrderTimes = tuple[int, int, int, int]


class Rows(NamedTuple):
    """All rows of a batch: those to copy, in the order of ``tables.COPIED``, and those of each change by its name."""

    copied: tuple[list[bytes], ...]
    changed: dict[str, list[tuple[bytes, ...]]]


NO_ROWS: Final = Rows((), {})


def order_row(event: BidAccepted | AskAccepted, terms: bytes, facts: OrderFacts, times: OrderTimes) -> bytes:
    """Return the first row of an order."""
    if isinstance(event, BidAccepted):
        side, gpus, hours, expires_at_ns = "BUY", event.gpus, event.hours, event.expires_at_ns
        currency, time_in_force = event.currency, event.time_in_force.value
    else:
        side, gpus, hours, expires_at_ns = "SELL", event.min_gpus, event.max_hours, event.until_ns
        currency, time_in_force = "USD", "GTD"
    state, price, lots, filled, leaves, canceled = facts
    placed_at_ns, updated_at_ns, closed_at_ns, seq = times
    return (
        b"\0\x14"
        + _two_int8(8, event.order_id, 8, event.party_id)
        + word(side)
        + word(event.instrument)
        + word(state)
        + int8(price)
        + _six_int4(4, gpus, 4, hours, 4, lots, 4, filled, 4, leaves, 4, canceled)
        + word(currency)
        + word(time_in_force)
        + int8(expires_at_ns)
        + raw(terms)
        + _two_int8(8, placed_at_ns, 8, updated_at_ns)
        + _two_int8(8, closed_at_ns, 8, seq)
    )


def terms_of(order: Bid | Ask | BidAccepted | AskAccepted) -> bytes:
    """Return what an order asks or offers beyond the columns of its row."""
    if isinstance(order, Bid):
        return _pack({"filters": order.filters, "gross_micros": order.gross_micros})
    if isinstance(order, BidAccepted):
        return _pack({"filters": order.filters, "gross_micros": 0})
    return _pack(
        {
            "offers": order.offers,
            "min_gpus": order.min_gpus,
            "min_hours": order.min_hours,
            "max_hours": order.max_hours,
            "price_lock_hours": order.price_lock_hours,
        }
    )


def rental_head(rental: Rental, trade: Trade, start_by_ns: int) -> bytes:
    """Return the columns of a rental that never change, and the number of all."""
    return (
        b"\0\x1b"
        + _two_int8(8, rental.rental_id, 8, trade.trade_id)
        + _two_int8(8, rental.order_id, 8, rental.ask_id)
        + word(rental.instrument)
        + _two_int8(8, rental.host_id, 8, rental.buyer_id)
        + int8(rental.seller_id)
        + _two_int4(4, rental.gpus, 4, rental.gpu_mask)
        + int8(trade.price_micros)
        + word(rental.currency)
        + _two_int8(8, rental.opened_at_ns, 8, start_by_ns)
    )


def costs_of(rental: Rental) -> tuple[int, int]:
    """Return what was charged so far and what the next hour will cost, tax included, in micro-units."""
    cost = 0
    left = rental.charged_hours
    for terms in rental.terms:
        gross = terms.net_micros + terms.vat_micros
        if left < terms.hours:
            return cost + left * gross, gross if rental.is_live else 0
        cost += terms.hours * gross
        left -= terms.hours
    assert left == 0, rental
    return cost, 0


def host_row(host: Host, seq: int) -> tuple[bytes, ...]:
    """Return the row of a host that is not retired."""
    return (
        int8(host.host_id), int8(host.party_id), word(host.instrument), word(host.state), boolean(host.is_verified),
        int8(host.silent_since_ns), _NOT_RETIRED, int4(host.reliability), raw(_pack(host.spec)), int8(seq),
    )  # fmt: skip


def rental_facts(rental: Rental, penalty_micros: int, seq: int, *, is_in_doubt: bool) -> tuple[bytes, ...]:
    """Return the columns of a rental that change."""
    started = rental.started_at_ns
    cost, hour = costs_of(rental)
    return (
        int4(rental.hours), word(rental.state), int8(started),
        int8(started + rental.hours * _HOUR_NS if started else 0), int8(rental.ended_at_ns),
        int4(rental.charged_hours), word(rental.reason or ""), boolean(is_in_doubt),
        int8(penalty_micros), int8(rental.held_micros), int8(cost), int8(hour), int8(seq),
    )  # fmt: skip
