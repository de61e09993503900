"""The fleet of simulated hosts: it plays the agent of each, so that a rental on one starts, ends and is wiped.

Invariants: it acts on hosts whose driver is "simulated" and on no other. What it plans has an id made of what it is
about, so a plan carried out twice, by this process or another, happens once. A plan is kept until it is carried out or
no longer wanted; before it is sent, the view is asked whether it still is. Nothing is written down: after a restart the
view says all that is open (``catch_up``).

It is fed with committed records (``feed.listen(fleet.take)``), after the view that it asks: whoever wires them lets the
view listen first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from heapq import heappop, heappush
from typing import Final

from bursa.errors import UnavailableError
from bursa.hosts.ports import CommandPort, Committed
from bursa.market import (
    SECOND_NS,
    CheckHost,
    Command,
    HostState,
    HostStateChanged,
    MarketView,
    Rejected,
    Rejection,
    RentalEnded,
    RentalFailed,
    RentalOpened,
    RentalState,
    ReportWiped,
    StartRental,
    SuspendHost,
)
from bursa.ops import logs

#: How long a simulated host takes to start a rental, in nanoseconds: spread between the two, by the rental's number.
START_NS_MIN: Final = 1 * SECOND_NS
START_NS_MAX: Final = 2 * SECOND_NS
#: How long it takes to wipe one that has ended.
WIPE_NS: Final = 1 * SECOND_NS
#: How long after a suspension it passes its check again.
RECHECK_NS: Final = 5 * SECOND_NS
#: How long to wait before a plan is tried again, when the exchange is away or the host is silent.
RETRY_NS: Final = 2 * SECOND_NS
#: Most commands handed over at once.
BATCH_COMMANDS_MAX: Final = 128
_STEPS: Final = 10
_BY_OPERATOR: Final = 0
_log = logs.log("bursa.hosts")


class _Task(Enum):
    START = "start"
    WIPE = "wipe"
    CHECK = "check"


_Plan = tuple[_Task, int]
Pause = Callable[[asyncio.Event, float | None], Awaitable[None]]


async def pause(wake: asyncio.Event, seconds: float | None) -> None:
    """Wait until ``wake`` is set, at most ``seconds`` (None = as long as it takes)."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass


class SimulatedFleet:
    """Plans what simulated hosts do, and does it when it is due."""

    def __init__(
        self,
        port: CommandPort,
        view: MarketView,
        *,
        clock: Callable[[], int] = time.time_ns,
        wait: Pause = pause,
    ) -> None:
        """Take commands' way in, and the view of what is committed; ``clock`` is in nanoseconds since the epoch."""
        self._port = port
        self._view = view
        self._clock = clock
        self._wait = wait
        self._wake = asyncio.Event()
        #: (due_ns, serial, task, number), earliest first. The serial keeps plans of one instant in order.
        self._heap: list[tuple[int, int, _Task, int]] = []
        self._serial = 0
        #: Suspended host → place in the log of its suspension, which names the check that lifts it; or _BY_OPERATOR.
        self._suspended_at: dict[int, int] = {}

    @property
    def next_due_ns(self) -> int | None:
        """When the next plan is due; None when nothing is planned."""
        return self._heap[0][0] if self._heap else None

    # ---- planning --------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Plan what the view says is open: rentals to start or to wipe, hosts to check. For the start of a process."""
        view = self._view
        for rental in view.rentals():
            if not self._is_simulated(rental.host_id):
                continue
            if rental.state is RentalState.OPENED:
                self._plan(_Task.START, rental.rental_id, rental.opened_at_ns + _start_ns(rental.rental_id))
            elif not rental.is_live:
                self._plan(_Task.WIPE, rental.rental_id, rental.ended_at_ns + WIPE_NS)
        for host in view.hosts():
            if host.is_demo and host.state is HostState.SUSPENDED:
                self._suspended_at[host.host_id] = view.seq
                self._plan(_Task.CHECK, host.host_id, view.at_ns + RECHECK_NS)

    def take(self, records: Sequence[Committed]) -> None:
        """Plan what follows from newly committed records, which the view knows already."""
        for record in records:
            for event in record.events:
                kind = type(event)
                if kind is RentalOpened or kind is RentalEnded or kind is RentalFailed or kind is HostStateChanged:
                    self._follow(record, event)

    def _follow(self, record: Committed, event: object) -> None:
        if isinstance(event, RentalOpened):
            if self._is_simulated(event.host_id):
                self._plan(_Task.START, event.rental_id, record.at_ns + _start_ns(event.rental_id))
        elif isinstance(event, RentalEnded | RentalFailed):
            rental = self._view.rental(event.rental_id)
            if rental is not None and self._is_simulated(rental.host_id):
                self._plan(_Task.WIPE, event.rental_id, event.at_ns + WIPE_NS)
        elif isinstance(event, HostStateChanged) and self._is_simulated(event.host_id):
            self._follow_host(record, event)

    def _follow_host(self, record: Committed, event: HostStateChanged) -> None:
        number = event.host_id
        if event.state is not HostState.SUSPENDED:
            self._suspended_at.pop(number, None)
        elif record.kind == SuspendHost.__name__:
            # What the operator takes off the market stays off it, as long as this process remembers.
            self._suspended_at[number] = _BY_OPERATOR
        elif self._suspended_at.get(number) != _BY_OPERATOR:
            self._suspended_at[number] = record.seq
            self._plan(_Task.CHECK, number, record.at_ns + RECHECK_NS)

    def _is_simulated(self, host_id: int) -> bool:
        host = self._view.host(host_id)
        return host is not None and host.is_demo

    def _plan(self, task: _Task, number: int, due_ns: int) -> None:
        """Plan a task; one that is planned twice is found unwanted, or answered as a repeat, the second time."""
        self._serial += 1
        heappush(self._heap, (due_ns, self._serial, task, number))
        self._wake.set()

    # ---- doing -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do what is due, whenever it is, until canceled. A fault that is not the exchange being away ends it."""
        while True:
            self._wake.clear()
            await self.work()
            due_ns = self.next_due_ns
            if due_ns is None:
                await self._wait(self._wake, None)
            elif (left_ns := due_ns - self._clock()) > 0:
                await self._wait(self._wake, left_ns / SECOND_NS)

    async def work(self) -> None:
        """Do what is due now, in batches of at most BATCH_COMMANDS_MAX."""
        now_ns = self._clock()
        while plans := self._pop_due(now_ns):
            wanted = [(plan, command) for plan in plans if (command := self._command(*plan)) is not None]
            if wanted and not await self._submit(wanted, now_ns):
                return

    def _pop_due(self, now_ns: int) -> list[_Plan]:
        plans: list[_Plan] = []
        while self._heap and self._heap[0][0] <= now_ns and len(plans) < BATCH_COMMANDS_MAX:
            plans.append(heappop(self._heap)[2:])
        return plans

    def _command(self, task: _Task, number: int) -> Command | None:
        """Return the command of a plan; None when it is no longer wanted."""
        if task is _Task.CHECK:
            host = self._view.host(number)
            suspended_at = self._suspended_at.get(number, _BY_OPERATOR)
            if host is None or suspended_at == _BY_OPERATOR:
                return None
            command_id = f"fleet-check-{number}-{suspended_at}"
            return CheckHost(command_id=command_id, host_id=number, is_verified=host.is_verified)
        rental = self._view.rental(number)
        if rental is None:
            return None
        if task is _Task.START:
            is_open = rental.state is RentalState.OPENED
            return StartRental(command_id=f"fleet-start-{number}", rental_id=number) if is_open else None
        return None if rental.is_live else ReportWiped(command_id=f"fleet-wipe-{number}", rental_id=number)

    async def _submit(self, wanted: list[tuple[_Plan, Command]], now_ns: int) -> bool:
        """Send commands; plan anew what could not be done yet. Return whether the exchange took them."""
        try:
            answers = await self._port.submit_many([command for _, command in wanted])
        except UnavailableError as error:
            _log.warning("the simulated fleet waits for the exchange: %s", error)
            for plan, _ in wanted:
                self._plan(*plan, now_ns + RETRY_NS)
            return False
        for (plan, command), answer in zip(wanted, answers, strict=True):
            result = answer.result
            if isinstance(result, Rejected) and result.code is Rejection.HOST_NOT_HEALTHY:
                self._plan(*plan, now_ns + RETRY_NS)  # a silent host may be heard again
            elif isinstance(result, Rejected):
                # Somebody else was faster: the renter stopped, the hours were over, another process did it.
                _log.info("the simulated fleet's %s came too late: %s", command.command_id, result.code)
        return True


def _start_ns(rental_id: int) -> int:
    """Return how long a rental takes to start: any of a few steps between the two limits, always the same."""
    return START_NS_MIN + (START_NS_MAX - START_NS_MIN) * (rental_id % (_STEPS + 1)) // _STEPS
