"""Orders: place, amend, cancel and show bids and asks."""

from __future__ import annotations

from typing import Any, Final

from bursa.errors import QueueFullError
from bursa.market import (
    AmendAsk,
    AmendBid,
    CancelOrder,
    Command,
    HostOffer,
    OrderState,
    PlaceAsk,
    PlaceBid,
    Placed,
    Rejected,
    Side,
)
from bursa.sequencer import Answer
from bursa.services import spending as caps
from bursa.services.cursors import before, check_limit, write_cursor
from bursa.services.database import fetch_all
from bursa.services.exchange import Actor, Exchange, RefusedError, Reply, check_text, command_ids, require
from bursa.services.orderviews import (
    find_order,
    load_order,
    order_of_answer,
    order_of_row,
    read_filters,
)
from bursa.services.spending import Spending
from bursa.services.submitting import refusal_of, submit
from bursa.wire import (
    AskAmendment,
    AskRequest,
    BidAmendment,
    BidRequest,
    Offer,
    Order,
    OrderPage,
    Scope,
    parse_id,
    parse_micros,
    parse_time,
    show_id,
)

_LIST_ORDERS: Final = """
    SELECT * FROM bursa.orders
    WHERE party_id = %(party_id)s AND order_id < %(before)s
      AND (%(side)s::text IS NULL OR side = %(side)s)
      AND (%(instrument)s::text IS NULL OR instrument = %(instrument)s)
      AND (%(state)s::text IS NULL OR state = %(state)s)
      AND (%(is_open)s::boolean IS NULL OR (closed_at_ns = 0) = %(is_open)s)
    ORDER BY order_id DESC LIMIT %(limit)s
"""
_OPENNESS: Final = {"open": True, "closed": False}


# ---- bids ----------------------------------------------------------------------------------------------


def bid_command(command_id: str, party_id: int, request: BidRequest) -> PlaceBid:
    """Return the command that a request asks for; InputError naming the field that cannot be read."""
    return PlaceBid(
        command_id=command_id,
        party_id=party_id,
        instrument=request.instrument,
        gpus=request.gpus,
        hours=request.hours,
        limit_micros=parse_micros(request.limit_price, "limit_price"),
        lots=request.lots,
        currency=request.currency,
        time_in_force=request.time_in_force,
        expires_at_ns=parse_time(request.expires_at, "expires_at") if request.expires_at is not None else 0,
        filters=read_filters(request.filters),
    )


def cost_of(command: PlaceBid) -> int:
    """Return what a bid may cost: micro-US$ excluding tax."""
    return command.limit_micros * command.gpus * command.hours * command.lots


async def submit_capped(exchange: Exchange, command: Command, spending: Spending | None, *, is_fresh: bool) -> Answer:
    """Submit a command whose cost is reserved, and give back what it does not cost after all."""
    caps.check(spending, command.command_id)
    try:
        answer = await exchange.node.submit(command, is_fresh=is_fresh)
    except QueueFullError:
        await caps.settle(exchange, spending, [(command.command_id, False, False)])
        raise
    is_accepted = not isinstance(answer.result, Rejected)
    await caps.settle(exchange, spending, [(command.command_id, is_accepted, answer.is_repeat)])
    if isinstance(answer.result, Rejected):
        raise refusal_of(answer.result, command)
    return answer


async def place_bid(
    exchange: Exchange, actor: Actor, request: BidRequest, *, idempotency_key: str | None = None
) -> Reply[Order]:
    """Place a bid; the order as it stood when it was placed, with its fills."""
    require(actor, Scope.TRADE)
    ids = command_ids(actor, idempotency_key)
    command = bid_command(ids.of(), actor.party_id, request)
    spending = await caps.reserve(exchange, actor, [(command.command_id, cost_of(command))])
    answer = await submit_capped(exchange, command, spending, is_fresh=ids.is_fresh)
    return Reply(order_of_answer(answer), answer.is_repeat)


async def amend_bid(
    exchange: Exchange, actor: Actor, order_id: str, request: BidAmendment, *, idempotency_key: str | None = None
) -> Reply[Order]:
    """Give a bid another limit and number of lots; the order as it stands now."""
    require(actor, Scope.TRADE)
    ids = command_ids(actor, idempotency_key)
    limit_micros = parse_micros(request.limit_price, "limit_price")
    row = await find_order(exchange, actor, order_id)
    command = AmendBid(
        command_id=ids.of(),
        party_id=actor.party_id,
        order_id=row.order_id,
        limit_micros=limit_micros,
        lots=request.lots,
    )
    spending = await caps.reserve(
        exchange, actor, [(command.command_id, _cost_of_more(row, limit_micros, request.lots))]
    )
    answer = await submit_capped(exchange, command, spending, is_fresh=ids.is_fresh)
    return Reply(await load_order(exchange, actor, order_id), answer.is_repeat)


def _cost_of_more(row: Any, limit_micros: int, lots: int) -> int:  # noqa: ANN401 - a row
    """Return what a bid may cost beyond what was counted for it, once it has another limit and number of lots.

    Lots that were filled have cost their limit and count no more; until the bid is amended, any others may be filled.
    So a lower limit never pays for more lots: those are counted as a whole.
    """
    now: int = limit_micros * (lots - row.filled) - row.price_micros * (row.lots - row.filled)
    later: int = limit_micros * (lots - row.lots)
    gpu_hours: int = row.gpus * row.hours
    return max(0, now, later) * gpu_hours


# ---- asks ----------------------------------------------------------------------------------------------


def _read_offers(offers: list[Offer]) -> tuple[HostOffer, ...]:
    return tuple(HostOffer(parse_id("host", offer.host, "offers.host"), offer.gpus) for offer in offers)


async def place_ask(
    exchange: Exchange, actor: Actor, request: AskRequest, *, idempotency_key: str | None = None
) -> Reply[Order]:
    """Let an ask stand; the order as it stands now."""
    require(actor, Scope.SELL)
    ids = command_ids(actor, idempotency_key)
    command = PlaceAsk(
        command_id=ids.of(),
        party_id=actor.party_id,
        offers=_read_offers(request.offers),
        price_micros=parse_micros(request.price, "price"),
        min_gpus=request.min_gpus,
        min_hours=request.min_hours,
        max_hours=request.max_hours,
        price_lock_hours=request.price_lock_hours,
        until_ns=parse_time(request.until, "until") if request.until is not None else 0,
    )
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    assert isinstance(answer.result, Placed), answer
    order = await load_order(exchange, actor, show_id("order", answer.result.order_id))
    return Reply(order, answer.is_repeat)


async def amend_ask(
    exchange: Exchange, actor: Actor, order_id: str, request: AskAmendment, *, idempotency_key: str | None = None
) -> Reply[Order]:
    """Give an ask another price and other offers; the order as it stands now."""
    require(actor, Scope.SELL)
    ids = command_ids(actor, idempotency_key)
    row = await find_order(exchange, actor, order_id)
    command = AmendAsk(
        command_id=ids.of(),
        party_id=actor.party_id,
        order_id=row.order_id,
        price_micros=parse_micros(request.price, "price"),
        offers=_read_offers(request.offers),
    )
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(await load_order(exchange, actor, order_id), answer.is_repeat)


# ---- both ----------------------------------------------------------------------------------------------


async def cancel_order(
    exchange: Exchange, actor: Actor, order_id: str, *, idempotency_key: str | None = None
) -> Reply[Order]:
    """Cancel what is left of a bid (scope trade) or an ask (scope sell); the order as it stands now."""
    if not actor.scopes & {Scope.TRADE, Scope.SELL}:
        require(actor, Scope.TRADE)
    ids = command_ids(actor, idempotency_key)
    row = await find_order(exchange, actor, order_id)
    require(actor, Scope.TRADE if row.side == Side.BUY else Scope.SELL)
    command = CancelOrder(command_id=ids.of(), party_id=actor.party_id, order_id=row.order_id)
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(await load_order(exchange, actor, order_id), answer.is_repeat)


async def list_orders(
    exchange: Exchange,
    actor: Actor,
    *,
    side: Side | None = None,
    state: str | None = None,
    instrument: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> OrderPage:
    """Return orders of the actor's party, newest first. ``state``: open, closed or an OrderState; None is any."""
    require(actor, Scope.READ)
    limit = check_limit(limit)
    if state is not None and state not in _OPENNESS and state not in set(OrderState):
        raise RefusedError("INVALID_FIELD", "state", state, f"open, closed, {', '.join(OrderState)}")
    if instrument is not None:
        check_text("instrument", instrument)
    parameters = {
        "party_id": actor.party_id,
        "before": before("orders", cursor),
        "side": side,
        "instrument": instrument,
        "state": None if state in _OPENNESS else state,
        "is_open": None if state is None else _OPENNESS.get(state),
        "limit": limit + 1,
    }
    rows = await fetch_all(exchange.reader, _LIST_ORDERS, parameters)
    page = rows[:limit]
    following = write_cursor("orders", page[-1].order_id) if len(rows) > limit else None
    return OrderPage([order_of_row(row) for row in page], following)


async def show_order(exchange: Exchange, actor: Actor, order_id: str) -> Order:
    """Return one order of the actor's party with its fills."""
    require(actor, Scope.READ)
    return await load_order(exchange, actor, order_id)
