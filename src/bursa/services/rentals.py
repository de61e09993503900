"""Rentals: what a renter rents and a seller lets; stop, extend, reclaim."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bursa.market import (
    SIMULATED_DRIVER,
    EndReason,
    ExtendRental,
    HostSpec,
    ReclaimRental,
    RentalState,
    SetAutoExtend,
    StopRental,
)
from bursa.money import MICROS_PER_UNIT, Currency, round_half_even
from bursa.services import spending as caps
from bursa.services.cursors import before, check_limit, write_cursor
from bursa.services.database import fetch_all, fetch_one
from bursa.services.exchange import Actor, Exchange, NotFoundError, RefusedError, Reply, command_ids, require
from bursa.services.orders import submit_capped
from bursa.services.rates import find_mid
from bursa.services.submitting import submit
from bursa.wire import (
    AutoExtendRequest,
    ExtendRequest,
    RentalPage,
    RentalView,
    Scope,
    parse_id,
    parse_micros,
    show_amount,
    show_id,
    show_micros,
    show_time,
)

BUYER: Final = "BUYER"
SELLER: Final = "SELLER"
_LIVE: Final = (RentalState.OPENED.value, RentalState.STARTED.value)
_OVER: Final = tuple(state.value for state in RentalState if state.value not in _LIVE)
_STATES: Final = {"live": _LIVE, "over": _OVER, **{state.value: (state.value,) for state in RentalState}}

_FIND_RENTAL: Final = """
    SELECT r.*, h.spec FROM bursa.rentals AS r LEFT JOIN bursa.hosts AS h USING (host_id)
    WHERE rental_id = %(rental_id)s AND (buyer_id = %(party_id)s OR seller_id = %(party_id)s)
"""
# One branch a role, each along its own index; nobody is both sides of a rental.
_LIST_RENTALS: Final = """
    WITH mine AS (
        (SELECT * FROM bursa.rentals
         WHERE %(is_buyer)s AND buyer_id = %(party_id)s AND rental_id < %(before)s AND state = ANY(%(states)s)
         ORDER BY rental_id DESC LIMIT %(limit)s)
        UNION ALL
        (SELECT * FROM bursa.rentals
         WHERE %(is_seller)s AND seller_id = %(party_id)s AND rental_id < %(before)s AND state = ANY(%(states)s)
         ORDER BY rental_id DESC LIMIT %(limit)s)
    )
    SELECT mine.*, h.spec FROM mine LEFT JOIN bursa.hosts AS h USING (host_id)
    ORDER BY rental_id DESC LIMIT %(limit)s
"""


async def list_rentals(
    exchange: Exchange,
    actor: Actor,
    *,
    role: str | None = None,
    state: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> RentalPage:
    """Return rentals, newest first. ``role``: BUYER or SELLER; ``state``: live, over or a RentalState; None is any."""
    require(actor, Scope.READ)
    limit = check_limit(limit)
    if role not in {None, BUYER, SELLER}:
        raise RefusedError("INVALID_FIELD", "role", role, f"{BUYER} or {SELLER}")
    if state is not None and state not in _STATES:
        raise RefusedError("INVALID_FIELD", "state", state, ", ".join(_STATES))
    parameters = {
        "party_id": actor.party_id,
        "is_buyer": role != SELLER,
        "is_seller": role != BUYER,
        "states": list(_STATES[state] if state is not None else (*_LIVE, *_OVER)),
        "before": before("rentals", cursor),
        "limit": limit + 1,
    }
    rows = await fetch_all(exchange.reader, _LIST_RENTALS, parameters)
    page = rows[:limit]
    following = write_cursor("rentals", page[-1].rental_id) if len(rows) > limit else None
    return RentalPage([_show(row, actor.party_id) for row in page], following)


async def show_rental(exchange: Exchange, actor: Actor, rental_id: str) -> RentalView:
    """Return a rental that the actor's party rents or lets."""
    require(actor, Scope.READ)
    return _show(await _find(exchange, actor, rental_id), actor.party_id)


async def stop_rental(
    exchange: Exchange, actor: Actor, rental_id: str, *, idempotency_key: str | None = None
) -> Reply[RentalView]:
    """Stop a rental as its renter: the started hour is charged, the rest of its hold is free."""
    require(actor, Scope.TRADE)
    ids = command_ids(actor, idempotency_key)
    row = await _find(exchange, actor, rental_id, role=BUYER)
    command = StopRental(command_id=ids.of(), party_id=actor.party_id, rental_id=row.rental_id)
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(_show(await _find(exchange, actor, rental_id), actor.party_id), answer.is_repeat)


async def extend_rental(
    exchange: Exchange, actor: Actor, rental_id: str, request: ExtendRequest, *, idempotency_key: str | None = None
) -> Reply[RentalView]:
    """Buy more hours on the same GPUs."""
    require(actor, Scope.TRADE)
    ids = command_ids(actor, idempotency_key)
    limit_micros = parse_micros(request.limit_price, "limit_price")
    row = await _find(exchange, actor, rental_id, role=BUYER)
    command = ExtendRental(
        command_id=ids.of(),
        party_id=actor.party_id,
        rental_id=row.rental_id,
        hours=request.hours,
        limit_micros=limit_micros,
    )
    spending = await caps.reserve(exchange, actor, [(command.command_id, limit_micros * row.gpus * request.hours)])
    answer = await submit_capped(exchange, command, spending, is_fresh=ids.is_fresh)
    return Reply(_show(await _find(exchange, actor, rental_id), actor.party_id), answer.is_repeat)


async def set_auto_extend(
    exchange: Exchange, actor: Actor, rental_id: str, request: AutoExtendRequest, *, idempotency_key: str | None = None
) -> Reply[RentalView]:
    """Extend by so many hours at each end, up to a price and a cap; 0 hours turns it off.

    What it may spend counts against the daily cap of the key on the day that it is set, tax included.
    """
    require(actor, Scope.TRADE)
    ids = command_ids(actor, idempotency_key)
    row = await _find(exchange, actor, rental_id, role=BUYER)
    command = SetAutoExtend(
        command_id=ids.of(),
        party_id=actor.party_id,
        rental_id=row.rental_id,
        hours=request.hours,
        limit_micros=parse_micros(request.limit_price, "limit_price"),
        cap_micros=parse_micros(request.cap, "cap"),
    )
    wish = 0
    if actor.daily_cap_micros is not None and command.cap_micros:
        wish = await _in_us_dollars(exchange, Currency(row.currency), command.cap_micros)
    spending = await caps.reserve(exchange, actor, [(command.command_id, wish)])
    answer = await submit_capped(exchange, command, spending, is_fresh=ids.is_fresh)
    return Reply(_show(await _find(exchange, actor, rental_id), actor.party_id), answer.is_repeat)


async def _in_us_dollars(exchange: Exchange, currency: Currency, micros: int) -> int:
    """Return an amount in micro-US$ at the mid of now."""
    mid = await find_mid(exchange, currency, exchange.clock())
    return round_half_even(micros * mid, MICROS_PER_UNIT) if mid else micros


async def reclaim_rental(
    exchange: Exchange, actor: Actor, rental_id: str, *, idempotency_key: str | None = None
) -> Reply[RentalView]:
    """Take a rented host back as its seller, against a penalty."""
    require(actor, Scope.SELL)
    ids = command_ids(actor, idempotency_key)
    row = await _find(exchange, actor, rental_id, role=SELLER)
    command = ReclaimRental(command_id=ids.of(), party_id=actor.party_id, rental_id=row.rental_id)
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(_show(await _find(exchange, actor, rental_id), actor.party_id), answer.is_repeat)


async def _find(exchange: Exchange, actor: Actor, shown_id: str, *, role: str | None = None) -> Any:  # noqa: ANN401 - a row
    """Return the row of a rental on whose side (or on either) the actor's party is; NotFoundError for any other."""
    parameters = {"rental_id": parse_id("rental", shown_id), "party_id": actor.party_id}
    row = await fetch_one(exchange.reader, _FIND_RENTAL, parameters)
    if row is None or (role is not None and role != _role_of(row, actor.party_id)):
        raise NotFoundError("rental", shown_id)
    return row


def _role_of(row: Any, party_id: int) -> str:  # noqa: ANN401 - a row
    return BUYER if row.buyer_id == party_id else SELLER


def _show(row: Any, party_id: int) -> RentalView:  # noqa: ANN401 - a row
    """Return a rental as one side sees it; what the renter pays with tax is no business of the seller's."""
    role = _role_of(row, party_id)
    currency = Currency(row.currency)
    opened_at = show_time(row.opened_at_ns)
    assert opened_at is not None, row
    is_live = row.state in _LIVE
    return RentalView(
        id=show_id("rental", row.rental_id),
        role=role,
        order=show_id("order", row.order_id if role == BUYER else row.ask_id),
        host=show_id("host", row.host_id),
        instrument=row.instrument,
        gpus=row.gpus,
        hours=row.hours,
        price=show_micros(row.price_micros),
        currency=currency,
        state=RentalState(row.state),
        is_in_doubt=row.is_in_doubt,
        is_demo=is_simulated(row.spec),
        reason=EndReason(row.reason) if row.reason else None,
        charged_hours=row.charged_hours,
        cost=show_amount(row.cost_micros, currency) if role == BUYER else None,
        held=show_amount(row.held_micros, currency) if role == BUYER and is_live else None,
        opened_at=opened_at,
        start_by=show_time(row.start_by_ns) if row.state == RentalState.OPENED else None,
        started_at=show_time(row.started_at_ns),
        ends_at=show_time(row.ends_at_ns),
        ended_at=show_time(row.ended_at_ns),
        seq=row.seq,
    )


_decode_spec = msgspec.msgpack.Decoder(HostSpec).decode


def read_spec(data: bytes) -> HostSpec:
    """Return the specification in a host's row."""
    return _decode_spec(data)


def is_simulated(data: bytes | None) -> bool:
    """Return whether the specification in a host's row is of a host that is only played."""
    return data is not None and read_spec(bytes(data)).driver == SIMULATED_DRIVER
