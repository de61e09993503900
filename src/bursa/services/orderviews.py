"""Orders as their owner sees them: from the read tables, or from the events of the answer that placed one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bursa.market import (
    NO_FILTERS,
    BidAccepted,
    Filters,
    HostOffer,
    JournalEntry,
    OrderState,
    Placed,
    Side,
    TimeInForce,
    Trade,
)
from bursa.money import Currency
from bursa.sequencer import Answer
from bursa.services.database import fetch_all, fetch_one
from bursa.services.exchange import Actor, Exchange, NotFoundError
from bursa.wire import Fill, FilterSet, Offer, Order, parse_id, show_amount, show_id, show_micros, show_time

#: Newest fills that an order shows; its rentals show all of them.
FILLS_MAX: Final = 1_000
_NO_FILTERS: Final = FilterSet()
_CLOSED: Final = frozenset({OrderState.FILLED, OrderState.CANCELED, OrderState.EXPIRED})

_FIND_ORDER: Final = "SELECT * FROM bursa.orders WHERE order_id = %(order_id)s AND party_id = %(party_id)s"
_FIND_ORDERS: Final = "SELECT * FROM bursa.orders WHERE order_id = ANY(%(order_ids)s) AND party_id = %(party_id)s"
_BID_FILLS: Final = """
    SELECT trade_id, rental_id, price_micros, gpus, hours FROM bursa.rentals
    WHERE buyer_id = %(party_id)s AND order_id = %(order_id)s ORDER BY rental_id DESC LIMIT %(limit)s
"""
_ASK_FILLS: Final = """
    SELECT trade_id, rental_id, price_micros, gpus, hours FROM bursa.rentals
    WHERE seller_id = %(party_id)s AND ask_id = %(order_id)s ORDER BY rental_id DESC LIMIT %(limit)s
"""


class OrderTerms(msgspec.Struct, frozen=True):
    """What ``orders.terms`` holds; what is missing asks or offers nothing."""

    filters: Filters = Filters()
    offers: tuple[HostOffer, ...] = ()
    min_gpus: int = 0
    min_hours: int = 0
    max_hours: int = 0
    price_lock_hours: int = 0
    gross_micros: int = 0


_decode_terms = msgspec.msgpack.Decoder(OrderTerms).decode


async def find_order(exchange: Exchange, actor: Actor, shown_id: str) -> Any:  # noqa: ANN401 - a row
    """Return the row of an order of the actor's party; NotFoundError for any other."""
    parameters = {"order_id": parse_id("order", shown_id), "party_id": actor.party_id}
    row = await fetch_one(exchange.reader, _FIND_ORDER, parameters)
    if row is None:
        raise NotFoundError("order", shown_id)
    return row


async def find_orders(exchange: Exchange, actor: Actor, order_ids: list[int]) -> dict[int, Any]:
    """Return the rows of those of some orders that are the actor's party's, by number."""
    if not order_ids:
        return {}
    parameters = {"order_ids": order_ids, "party_id": actor.party_id}
    return {row.order_id: row for row in await fetch_all(exchange.reader, _FIND_ORDERS, parameters)}


async def load_order(exchange: Exchange, actor: Actor, shown_id: str) -> Order:
    """Return an order of the actor's party with its fills, as it stands now."""
    row = await find_order(exchange, actor, shown_id)
    if not row.filled and row.side == "BUY":
        return order_of_row(row)
    parameters = {"order_id": row.order_id, "party_id": actor.party_id, "limit": FILLS_MAX}
    fills = await fetch_all(exchange.reader, _BID_FILLS if row.side == "BUY" else _ASK_FILLS, parameters)
    fills.reverse()
    return order_of_row(row, [_fill(f.trade_id, f.rental_id, f.price_micros, f.gpus, f.hours) for f in fills])


def order_of_row(row: Any, fills: list[Fill] | None = None) -> Order:  # noqa: ANN401 - a row
    """Return an order from its row in the read table."""
    terms = _decode_terms(bytes(row.terms)) if row.terms else OrderTerms()
    is_bid = row.side == "BUY"
    held = terms.gross_micros * row.gpus * row.hours * row.leaves
    currency = Currency(row.currency)
    placed_at = show_time(row.placed_at_ns)
    assert placed_at is not None, row
    return Order(
        id=show_id("order", row.order_id),
        side=Side(row.side),
        instrument=row.instrument,
        state=OrderState(row.state),
        price=show_micros(row.price_micros),
        gpus=row.gpus,
        hours=row.hours,
        quantity=row.lots,
        filled=row.filled,
        leaves=row.leaves,
        canceled=row.canceled,
        currency=currency,
        time_in_force=TimeInForce(row.time_in_force),
        expires_at=show_time(row.expires_at_ns),
        placed_at=placed_at,
        closed_at=show_time(row.closed_at_ns),
        held=show_amount(held, currency) if is_bid and not row.closed_at_ns else None,
        filters=show_filters(terms.filters),
        offers=[Offer(show_id("host", offer.host_id), offer.gpus) for offer in terms.offers],
        min_gpus=terms.min_gpus,
        min_hours=terms.min_hours,
        max_hours=terms.max_hours,
        price_lock_hours=terms.price_lock_hours,
        fills=fills or [],
        seq=row.seq,
    )


def order_of_answer(answer: Answer) -> Order:
    """Return a bid from the answer to the command that placed it, as it stood then; no other source is asked."""
    placed = answer.result
    assert isinstance(placed, Placed), answer
    accepted: BidAccepted | None = None
    held = 0
    fills: list[Fill] = []
    account = f"hold:{placed.order_id}"
    for event in answer.events:
        if type(event) is BidAccepted:
            accepted = event
        elif type(event) is JournalEntry:
            for posting in event.postings:
                if posting.account == account:
                    held += posting.credit_micros - posting.debit_micros
        elif type(event) is Trade and event.bid_id == placed.order_id:
            fills.append(_fill(event.trade_id, event.rental_id, event.price_micros, event.gpus, event.hours))
    assert accepted is not None, answer
    at = show_time(answer.at_ns)
    assert at is not None, answer
    currency = Currency(accepted.currency)
    is_closed = placed.state in _CLOSED
    return Order(
        id=show_id("order", placed.order_id),
        side=Side.BUY,
        instrument=accepted.instrument,
        state=placed.state,
        price=show_micros(accepted.limit_micros),
        gpus=accepted.gpus,
        hours=accepted.hours,
        quantity=accepted.lots,
        filled=placed.filled_lots,
        leaves=placed.leaves_lots,
        canceled=placed.canceled_lots,
        currency=currency,
        time_in_force=accepted.time_in_force,
        expires_at=show_time(accepted.expires_at_ns),
        placed_at=at,
        closed_at=at if is_closed else None,
        held=None if is_closed else show_amount(held, currency),
        filters=show_filters(accepted.filters),
        offers=[],
        min_gpus=0,
        min_hours=0,
        max_hours=0,
        price_lock_hours=0,
        fills=fills,
        seq=answer.seq,
    )


def _fill(trade_id: int, rental_id: int, price_micros: int, gpus: int, hours: int) -> Fill:
    return Fill(show_id("trade", trade_id), show_id("rental", rental_id), show_micros(price_micros), gpus, hours)


def show_filters(filters: Filters) -> FilterSet:
    """Return filters as the wire has them."""
    if filters == NO_FILTERS:
        return _NO_FILTERS
    return FilterSet(
        regions=list(filters.regions),
        verified_only=filters.is_verified_only,
        reliability_min=filters.reliability_min,
        ram_gib_min=filters.ram_gib_min,
        disk_gib_min=filters.disk_gib_min,
        vcpus_min=filters.vcpus_min,
        avoid_hosts=[show_id("host", host_id) for host_id in filters.avoid_hosts],
    )


def read_filters(filters: FilterSet) -> Filters:
    """Return the market's filters; InputError for a host id that is none."""
    if filters == _NO_FILTERS:
        return NO_FILTERS
    return Filters(
        regions=tuple(filters.regions),
        is_verified_only=filters.verified_only,
        reliability_min=filters.reliability_min,
        ram_gib_min=filters.ram_gib_min,
        disk_gib_min=filters.disk_gib_min,
        vcpus_min=filters.vcpus_min,
        avoid_hosts=tuple(parse_id("host", host, "filters.avoid_hosts") for host in filters.avoid_hosts),
    )
