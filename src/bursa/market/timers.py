"""When the engine has work to do of itself: a heap of due times, checked against the state when they come up.

A timer is not removed when its order closes or its rental ends; it is stale, and dropped when it reaches
the top. The heap is rebuilt from the state when stale timers outnumber the live, so its size stays in
proportion to what is live, however many orders come and go.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from bursa.market.types import INT_MAX

if TYPE_CHECKING:
    from bursa.market.state import State

#: Stale timers that are not worth a rebuild.
STALE_TIMERS_MAX: Final = 1_024


class TimerKind(IntEnum):
    """What a timer is about; at one instant, lower kinds come first."""

    RENTAL = 0
    HOST = 1
    ORDER = 2
    BOOK = 3
    EARNINGS = 4


_RENTAL, _HOST, _ORDER, _BOOK, _EARNINGS = (int(kind) for kind in TimerKind)


class Timers:
    """Due times of one engine's state."""

    __slots__ = ("_heap", "_live", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._heap: list[tuple[int, int, int]] = []
        self._live = 0

    def add(self, at_ns: int, kind: int, number: int) -> None:
        """Plan work at ``at_ns``; 0 plans nothing."""
        if at_ns:
            heappush(self._heap, (at_ns, kind, number))
            if len(self._heap) > 2 * self._live + STALE_TIMERS_MAX:
                self.rebuild()

    def next_due_ns(self) -> int:
        """Return the time of the earliest work, INT_MAX when there is none."""
        heap = self._heap
        while heap:
            at_ns, kind, number = heap[0]
            if self._due_ns(kind, number) == at_ns:
                return at_ns
            heappop(heap)
        return INT_MAX

    def is_due(self, at_ns: int) -> bool:
        """Return whether there is work by ``at_ns``; cheap when there is none, which is nearly always."""
        heap = self._heap
        return bool(heap) and heap[0][0] <= at_ns and self.next_due_ns() <= at_ns

    def pop_due(self, at_ns: int) -> tuple[int, int, int] | None:
        """Remove and return the earliest timer due by ``at_ns``; None when nothing is."""
        if not self.is_due(at_ns):
            return None
        return heappop(self._heap)

    def rebuild(self) -> None:
        """Make the heap anew from the state, without stale timers."""
        heap = self._wanted()
        heapify(heap)
        self._heap = heap
        self._live = len(heap)

    def missing(self) -> list[tuple[int, TimerKind, int]]:
        """Return timers that the state needs and the heap lacks; for the audit."""
        present = set(self._heap)
        return [
            (at_ns, TimerKind(kind), number)
            for at_ns, kind, number in self._wanted()
            if (at_ns, kind, number) not in present
        ]

    def _wanted(self) -> list[tuple[int, int, int]]:
        """Return every timer that the state needs."""
        state = self._state
        heap = [(rental.due_ns, _RENTAL, rental.rental_id) for rental in state.rentals.values() if rental.due_ns]
        heap += [(host.due_ns, _HOST, host.host_id) for host in state.hosts.values() if host.due_ns]
        heap += [(bid.expires_at_ns, _ORDER, bid.order_id) for bid in state.bids.values()]
        heap += [(ask.until_ns, _ORDER, ask.order_id) for ask in state.asks.values()]
        heap += [(book.due_ns, _BOOK, book.number) for book in state.books.values() if book.due_ns]
        heap += [(party.due_ns, _EARNINGS, party.party_id) for party in state.parties.values() if party.pending]
        return heap

    def _due_ns(self, kind: int, number: int) -> int:
        """Return when the thing that a timer is about is really due; 0 = not at all."""
        state = self._state
        if kind == _ORDER:
            order = state.bids.get(number) or state.asks.get(number)
            return order.due_ns if order is not None else 0
        if kind == _RENTAL:
            rental = state.rentals.get(number)
            return rental.due_ns if rental is not None else 0
        if kind == _HOST:
            host = state.hosts.get(number)
            return host.due_ns if host is not None else 0
        if kind == _EARNINGS:
            return state.parties[number].due_ns
        assert kind == _BOOK, kind
        return state.book_by_number(number).due_ns
