"""Time: the one command that does what is due of itself."""

from __future__ import annotations

from typing import Final

from bursa.market.booking import book_is_due
from bursa.market.commands import Tick
from bursa.market.events import Done, Rejected
from bursa.market.funding import earnings_are_due
from bursa.market.hosting import host_is_due
from bursa.market.renting import rental_is_due
from bursa.market.state import State
from bursa.market.timers import TimerKind
from bursa.market.trading import close_order
from bursa.market.types import MINUTE_NS, OrderState
from bursa.market.volatility import drop_old_minutes

#: Pieces of due work that one Tick does; a caller ticks again while more is due.
TICK_WORK_MAX: Final = 1_000


def on_tick(state: State, command: Tick, at_ns: int) -> Done | Rejected:
    """Do what is due by now, earliest first; return how many pieces that was."""
    assert isinstance(command, Tick), command
    done = 0
    while done < TICK_WORK_MAX and (timer := state.timers.pop_due(at_ns)):
        due_ns, kind, number = timer
        assert due_ns <= at_ns, timer
        _do(state, TimerKind(kind), number, at_ns)
        done += 1
    if at_ns // MINUTE_NS != state.now_ns // MINUTE_NS:
        for book in state.books.values():
            drop_old_minutes(book, at_ns)
    return Done(done)


def _do(state: State, kind: TimerKind, number: int, at_ns: int) -> None:
    match kind:
        case TimerKind.RENTAL:
            rental_is_due(state, state.rentals[number], at_ns)
        case TimerKind.HOST:
            host_is_due(state, state.hosts[number], at_ns)
        case TimerKind.ORDER:
            order = state.bids.get(number) or state.asks[number]
            close_order(state, order, OrderState.EXPIRED, at_ns)
        case TimerKind.BOOK:
            book_is_due(state, state.book_by_number(number), at_ns)
        case TimerKind.EARNINGS:
            earnings_are_due(state, state.parties[number], at_ns)
