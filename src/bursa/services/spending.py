"""A key's daily cap: what its orders may cost in a UTC day, in US$ excluding tax at their limit prices.

What an order may cost is reserved before the order is sent and given back when it is refused, so that many requests at
once never spend more than the cap. A reservation carries the id of its command, so that a retry does not count twice.
What is canceled later is not given back: the cap limits what was risked, not what was paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final

from bursa.services.database import cursor as lend
from bursa.services.exchange import Actor, Exchange, RefusedError
from bursa.wire import show_micros

_LOCK_KEY: Final = "SELECT daily_cap_micros FROM bursa.api_keys WHERE key_id = %(key_id)s FOR UPDATE"
# A retry may come after midnight; its reservation stands on the day before.
_KNOWN: Final = """
    SELECT command_id FROM bursa.key_spending
    WHERE key_id = %(key_id)s AND day >= %(day)s - 1 AND command_id = ANY(%(ids)s)
"""
_SPENT: Final = """
    SELECT COALESCE(sum(micros), 0)::bigint AS micros FROM bursa.key_spending
    WHERE key_id = %(key_id)s AND day = %(day)s
"""
#: What no retry asks for any more goes with the first order of a day.
_CLEAN: Final = "DELETE FROM bursa.key_spending WHERE key_id = %(key_id)s AND day < %(day)s - 1"
_RESERVE: Final = """
    INSERT INTO bursa.key_spending (key_id, day, command_id, micros)
    SELECT %(key_id)s, %(day)s, id, micros FROM unnest(%(ids)s::text[], %(micros)s::bigint[]) AS wish(id, micros)
    ON CONFLICT DO NOTHING
"""
# Not what another request has carried out under the same id meanwhile.
_GIVE_BACK: Final = """
    DELETE FROM bursa.key_spending AS spent
    WHERE key_id = %(key_id)s AND day = %(day)s AND command_id = ANY(%(ids)s)
      AND NOT EXISTS (SELECT FROM bursa.command_log AS log WHERE log.command_id = spent.command_id)
"""
# The command had been carried out before, for another key or on an earlier day: it counts there.
_FORGET: Final = """
    DELETE FROM bursa.key_spending WHERE key_id = %(key_id)s AND day = %(day)s AND command_id = ANY(%(ids)s)
"""


@dataclass(slots=True)
class Spending:
    """Reservations of one request: what each of its commands may cost, in micro-US$."""

    key_id: int
    day: date
    wishes: dict[str, int]
    #: Reserved by this request itself.
    taken: set[str] = field(default_factory=set)
    #: Ids for which the cap leaves no room.
    over: dict[str, RefusedError] = field(default_factory=dict)


async def reserve(exchange: Exchange, actor: Actor, wishes: Sequence[tuple[str, int]]) -> Spending | None:
    """Reserve what commands (id, micro-US$) may cost, in order, as far as the cap goes; None without a cap."""
    if actor.daily_cap_micros is None:
        return None
    day = datetime.fromtimestamp(exchange.clock() // 10**9, UTC).date()
    spending = Spending(actor.key_id, day, dict(wishes))
    key: dict[str, Any] = {"key_id": actor.key_id, "day": day, "ids": list(spending.wishes)}
    async with lend(exchange.writer) as rows:
        await rows.execute(_LOCK_KEY, key)
        row = await rows.fetchone()
        cap = row.daily_cap_micros if row is not None else 0
        await rows.execute(_KNOWN, key)
        known = {found.command_id for found in await rows.fetchall()}
        await rows.execute(_SPENT, key)
        found = await rows.fetchone()
        assert found is not None, "a sum is one row"
        if found.micros == 0:
            await rows.execute(_CLEAN, key)
        left = actor.daily_cap_micros - found.micros if cap is None else min(cap, actor.daily_cap_micros) - found.micros
        for command_id, micros in spending.wishes.items():
            if command_id in known:
                continue
            if micros > left:
                spending.over[command_id] = _refuse(micros, left)
                continue
            left -= micros
            spending.taken.add(command_id)
        await _insert(rows, spending, sorted(spending.taken))
    return spending


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
    refused = [key for key, is_accepted, _ in outcomes if not is_accepted and key in spending.taken]
    repeated = [key for key, is_accepted, is_repeat in outcomes if is_accepted and is_repeat and key in spending.taken]
    # Another request with this id may have been refused and have given back what this one found reserved.
    kept = [key for key, is_accepted, _ in outcomes if is_accepted and key not in spending.taken]
    if not (refused or repeated or kept):
        return
    key: dict[str, Any] = {"key_id": spending.key_id, "day": spending.day}
    async with lend(exchange.writer) as rows:
        if refused:
            await rows.execute(_GIVE_BACK, {**key, "ids": refused})
        if repeated:
            await rows.execute(_FORGET, {**key, "ids": repeated})
        if kept:
            await rows.execute(_KNOWN, {**key, "ids": kept})
            known = {found.command_id for found in await rows.fetchall()}
            await _insert(rows, spending, [key_id for key_id in kept if key_id not in known])


async def _insert(rows: Any, spending: Spending, ids: Sequence[str]) -> None:  # noqa: ANN401 - a cursor of any rows
    if ids:
        micros = [spending.wishes[command_id] for command_id in ids]
        parameters = {"key_id": spending.key_id, "day": spending.day, "ids": list(ids), "micros": micros}
        await rows.execute(_RESERVE, parameters)
