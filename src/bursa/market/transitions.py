"""The state machines of order, rental, book and host as tables, which the handlers obey and the docs print.

``move`` looks a transition up; one that is not in the table is a bug in the caller, since handlers refuse
what is not allowed before they move anything.
"""

from __future__ import annotations

from typing import Final, TypeVar

from bursa.market.types import BookState, HostState, OrderState, RentalState

S = TypeVar("S", OrderState, RentalState, BookState, HostState)

#: (state, what happens) → next state.
ORDER: Final[dict[tuple[OrderState, str], OrderState]] = {
    (OrderState.NEW, "some lots filled"): OrderState.PARTIALLY_FILLED,
    (OrderState.NEW, "all lots filled"): OrderState.FILLED,
    (OrderState.NEW, "canceled"): OrderState.CANCELED,
    (OrderState.NEW, "time in force over"): OrderState.EXPIRED,
    (OrderState.PARTIALLY_FILLED, "some lots filled"): OrderState.PARTIALLY_FILLED,
    (OrderState.PARTIALLY_FILLED, "all lots filled"): OrderState.FILLED,
    (OrderState.PARTIALLY_FILLED, "canceled"): OrderState.CANCELED,
    (OrderState.PARTIALLY_FILLED, "time in force over"): OrderState.EXPIRED,
}

RENTAL: Final[dict[tuple[RentalState, str], RentalState]] = {
    (RentalState.OPENED, "agent reports ready"): RentalState.STARTED,
    (RentalState.OPENED, "renter stops"): RentalState.ENDED,
    (RentalState.OPENED, "operator ends it"): RentalState.ENDED,
    (RentalState.OPENED, "not started in time"): RentalState.FAILED,
    (RentalState.OPENED, "host lost"): RentalState.FAILED,
    (RentalState.OPENED, "seller reclaims"): RentalState.FAILED,
    (RentalState.STARTED, "hours over"): RentalState.ENDED,
    (RentalState.STARTED, "renter stops"): RentalState.ENDED,
    (RentalState.STARTED, "operator ends it"): RentalState.ENDED,
    (RentalState.STARTED, "host lost"): RentalState.FAILED,
    (RentalState.STARTED, "seller reclaims"): RentalState.FAILED,
    (RentalState.ENDED, "agent reports wiped"): RentalState.WIPED,
    (RentalState.FAILED, "agent reports wiped"): RentalState.WIPED,
}

BOOK: Final[dict[tuple[BookState, str], BookState]] = {
    (BookState.CLOSED, "operator pre-opens"): BookState.PREOPEN,
    (BookState.CLOSED, "operator opens"): BookState.OPEN,
    (BookState.PREOPEN, "operator moves the opening"): BookState.PREOPEN,
    (BookState.PREOPEN, "last minutes begin"): BookState.NO_CANCEL,
    (BookState.PREOPEN, "operator opens"): BookState.OPEN,
    (BookState.NO_CANCEL, "operator moves the opening"): BookState.PREOPEN,
    (BookState.NO_CANCEL, "opening time"): BookState.OPEN,
    (BookState.NO_CANCEL, "operator opens"): BookState.OPEN,
    (BookState.OPEN, "operator halts"): BookState.HALTED,
    (BookState.OPEN, "price moves too far"): BookState.HALTED,
    (BookState.HALTED, "operator halts"): BookState.HALTED,
    (BookState.HALTED, "operator resumes"): BookState.OPEN,
    (BookState.HALTED, "halt is over"): BookState.OPEN,
}

HOST: Final[dict[tuple[HostState, str], HostState]] = {
    (HostState.UNCHECKED, "check passes"): HostState.HEALTHY,
    (HostState.UNCHECKED, "operator suspends"): HostState.SUSPENDED,
    (HostState.UNCHECKED, "fails to deliver"): HostState.SUSPENDED,
    (HostState.HEALTHY, "check passes"): HostState.HEALTHY,
    (HostState.HEALTHY, "operator suspends"): HostState.SUSPENDED,
    (HostState.HEALTHY, "fails to deliver"): HostState.SUSPENDED,
    (HostState.SUSPENDED, "check passes"): HostState.HEALTHY,
    (HostState.SUSPENDED, "operator suspends"): HostState.SUSPENDED,
    (HostState.SUSPENDED, "fails to deliver"): HostState.SUSPENDED,
}


def move(table: dict[tuple[S, str], S], state: S, what: str) -> S:
    """Return the state after ``what`` happens in ``state``; AssertionError when the table does not allow it."""
    after = table.get((state, what))
    assert after is not None, f"{state}: {what!r} is not a transition"
    return after


def allows(table: dict[tuple[S, str], S], state: S, what: str) -> bool:
    """Return whether ``what`` may happen in ``state``."""
    return (state, what) in table
