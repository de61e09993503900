"""A key's daily cap: what its orders may cost in a UTC day, in US$ excluding tax at their limit prices.

What an order may cost is reserved before the order is sent and given back when it is refused, so that many requests at
once never spend more than the cap. What is canceled later is not given back: the cap limits what was risked, not what
was paid.

Invariant: each try of a command has a reservation of its own, ``<command id> <try>``, for all that it may cost. Of
several requests that share an id (retries, or other bodies under one Idempotency-Key) only one is carried out, and
nobody knows which beforehand: so none of them may lean on what another has reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from secrets import token_hex
from typing import Any, Final

from bursa.services.database import cursor as lend
from bursa.services.exchange import Actor, Exchange, RefusedError
from bursa.wire import show_micros

#: Random bytes that tell the tries of one command apart.
_TRY_BYTES: Final = 8

_LOCK_KEY: Final = "SELECT daily_cap_micros FROM bursa.api_keys WHERE key_id = %(key_id)s FOR UPDATE"
# What was carried out counts already, here or with another key: the market will only repeat its answer.
_DONE: Final = "SELECT command_id FROM bursa.command_log WHERE command_id = ANY(%(ids)s)"
_SPENT: Final = """
    SELECT COALESCE(sum(micros), 0)::bigint AS micros FROM bursa.key_spending
    WHERE key_id = %(key_id)s AND day = %(day)s
"""
# An id ends where its try begins; no key of a client holds a space. "!" is the character after it.
_SHARED: Final = """
    SELECT wish.id, sum(spent.micros)::bigint AS micros
    FROM unnest(%(ids)s::text[]) AS wish(id) JOIN bursa.key_spending AS spent
      ON spent.key_id = %(key_id)s AND spent.day = %(day)s
     AND spent.command_id > wish.id || ' ' AND spent.command_id < wish.id || '!'
    GROUP BY wish.id
"""
#: Nothing asks any more for what was reserved before yesterday; it goes with the first order of a day.
_CLEAN: Final = "DELETE FROM bursa.key_spending WHERE key_id = %(key_id)s AND day < %(day)s - 1"
_RESERVE: Final = """
    INSERT INTO bursa.key_spending (key_id, day, command_id, micros)
    SELECT %(key_id)s, %(day)s, id, micros FROM unnest(%(ids)s::text[], %(micros)s::bigint[]) AS wish(id, micros)
"""
_GIVE_BACK: Final = """
    DELETE FROM bursa.key_spending WHERE key_id = %(key_id)s AND day = %(day)s AND command_id = ANY(%(ids)s)
"""
# A repeat is another try's order, which has its own reservation; with none it is this one's, found again after a fault.
_GIVE_BACK_REPEAT: Final = """
    DELETE FROM bursa.key_spending AS mine
    WHERE key_id = %(key_id)s AND day = %(day)s AND command_id = %(id)s || ' ' || %(try)s
      AND EXISTS (SELECT FROM bursa.key_spending AS other
                  WHERE other.key_id = mine.key_id AND other.day >= mine.day - 1 AND other.command_id <> mine.command_id
                    AND other.command_id > %(id)s || ' ' AND other.command_id < %(id)s || '!')
"""
# No other try of a command that was carried out costs anything.
_DROP_OTHERS: Final = """
    DELETE FROM bursa.key_spending
    WHERE key_id = %(key_id)s AND day >= %(day)s - 1 AND command_id <> %(id)s || ' ' || %(try)s
      AND command_id > %(id)s || ' ' AND command_id < %(id)s || '!'
"""


@dataclass(slots=True)
class Spending:
    """Reservations of one request: what each of its commands may cost, in micro-US$."""

    key_id: int
    day: date
    wishes: dict[str, int]
    #: Which try of its commands the request is.
    number: str
    #: Reserved by this request.
    taken: set[str] = field(default_factory=set)
    #: Ids for which others had reserved something.
    shared: set[str] = field(default_factory=set)
    #: Ids for which the cap leaves no room.
    over: dict[str, RefusedError] = field(default_factory=dict)


async def reserve(exchange: Exchange, actor: Actor, wishes: Sequence[tuple[str, int]]) -> Spending | None:
    """Reserve what commands (id, micro-US$) may cost, in order, as far as the cap goes; None without a cap."""
    if actor.daily_cap_micros is None:
        return None
    day = datetime.fromtimestamp(exchange.clock() // 10**9, UTC).date()
    spending = Spending(actor.key_id, day, _dearest(wishes), token_hex(_TRY_BYTES))
    key: dict[str, Any] = {"key_id": actor.key_id, "day": day, "ids": list(spending.wishes)}
    async with lend(exchange.writer) as rows:
        await rows.execute(_LOCK_KEY, key)
        row = await rows.fetchone()
        cap = row.daily_cap_micros if row is not None else 0
        await rows.execute(_DONE, key)
        done = {found.command_id for found in await rows.fetchall()}
        await rows.execute(_SHARED, key)
        shared = {found.id: found.micros for found in await rows.fetchall()}
        await rows.execute(_SPENT, key)
        found = await rows.fetchone()
        assert found is not None, "a sum is one row"
        if found.micros == 0:
            await rows.execute(_CLEAN, key)
        left = actor.daily_cap_micros - found.micros if cap is None else min(cap, actor.daily_cap_micros) - found.micros
        for command_id, micros in spending.wishes.items():
            if command_id in done:
                continue
            # The tries of one command cost what one of them does: what others hold for it is room for this one.
            room = left + shared.get(command_id, 0)
            if micros > room:
                spending.over[command_id] = _refuse(micros, room)
                continue
            left -= micros
            spending.taken.add(command_id)
        spending.shared = spending.taken & shared.keys()
        if spending.taken:
            names = [_name(spending, command_id) for command_id in spending.wishes if command_id in spending.taken]
            amounts = [micros for command_id, micros in spending.wishes.items() if command_id in spending.taken]
            await rows.execute(_RESERVE, {**key, "ids": names, "micros": amounts})
    return spending


def _dearest(wishes: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the most that each id may cost: in a batch several items may share one, and the first is carried out."""
    dearest: dict[str, int] = {}
    for command_id, micros in wishes:
        dearest[command_id] = max(micros, dearest.get(command_id, 0))
    return dearest


def _name(spending: Spending, command_id: str) -> str:
    return f"{command_id} {spending.number}"


def check(spending: Spending | None, command_id: str) -> None:
    """Raise RefusedError when the cap left no room for a command."""
    if spending is not None and command_id in spending.over:
        raise spending.over[command_id]


def _refuse(micros: int, left: int) -> RefusedError:
    expected = f"an order of at most US${show_micros(max(0, left))} excluding tax, what the key's daily cap leaves"
    return RefusedError("SPENDING_CAP_REACHED", "limit_price", f"US${show_micros(micros)}", expected)


async def settle(exchange: Exchange, spending: Spending | None, outcomes: Sequence[tuple[str, bool, bool]]) -> None:
    """Give back what was refused and keep what was carried out: (command id, is accepted, is a repeat)."""
    if spending is None or not outcomes:
        return
    carried_out = {key for key, is_accepted, is_repeat in outcomes if is_accepted and not is_repeat} & spending.taken
    repeated = {key for key, is_accepted, _ in outcomes if is_accepted} & spending.taken - carried_out
    refused = {key for key, _, _ in outcomes} & spending.taken - carried_out - repeated
    final = sorted(carried_out & spending.shared)
    if not (refused or repeated or final):
        return
    key: dict[str, Any] = {"key_id": spending.key_id, "day": spending.day, "try": spending.number}
    async with lend(exchange.writer) as rows:
        await rows.execute(_LOCK_KEY, key)
        if refused:
            await rows.execute(_GIVE_BACK, {**key, "ids": [_name(spending, name) for name in sorted(refused)]})
        for command_id in sorted(repeated):
            await rows.execute(_GIVE_BACK_REPEAT, {**key, "id": command_id})
        for command_id in final:
            await rows.execute(_DROP_OTHERS, {**key, "id": command_id})
