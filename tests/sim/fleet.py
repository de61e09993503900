"""Hosts and their agents: they start rentals (late, or never), fall silent, come back or not, wipe, are checked.

What is to happen later stands in an agenda ordered by time; it is read by the simulated clock, so a jump of the clock
makes agents late, as it would.
"""

import heapq
from collections.abc import Callable
from typing import Final

from bursa.market import (
    HOUR_NS,
    MINUTE_NS,
    SECOND_NS,
    CheckHost,
    Command,
    EndReason,
    EndRental,
    FailRental,
    HostSpec,
    HostState,
    ListHost,
    ReportHeartbeat,
    ReportSilence,
    ReportWiped,
    RetireHost,
    StartRental,
    SuspendHost,
)
from tests.sim.world import COUNTRIES, Plan, World

HOSTS_MAX: Final = 1_200
_SIZES: Final = (1, 2, 4, 8, 8, 8, 16)


class Fleet:
    """Commands of agents and of the fleet that watches them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._agenda: list[tuple[int, int, str, int]] = []
        self._last = 0
        self._seen_rental = 0
        self._doers: dict[str, Callable[[int], Command | None]] = {
            "start": self._start,
            "fail": self._fail,
            "wipe": self._wipe,
            "heartbeat": self._heartbeat,
            "check": self._check,
        }

    def plan(self, due_ns: int, doing: str, subject: int) -> None:
        """Put something on the agenda."""
        self._last += 1
        heapq.heappush(self._agenda, (due_ns, self._last, doing, subject))

    @property
    def is_behind(self) -> bool:
        """Whether something on the agenda is due: agents do not wait for each other, so the clock then hardly moves."""
        return bool(self._agenda) and self._agenda[0][0] <= self.world.now_ns

    def due(self) -> Command | None:
        """Return the next command whose time has come; what has become pointless is dropped."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= self.world.now_ns:
            _, _, doing, subject = heapq.heappop(agenda)
            command = self._doers[doing](subject)
            if command is not None:
                return command
        return None

    def watch(self) -> None:
        """Plan what follows from rentals that were opened or have ended since the last call."""
        world = self.world
        mirror = world.mirror
        for rental_id in range(self._seen_rental + 1, mirror.last_rental + 1):
            dice = world.between(0, 100)
            if dice < 90:
                self.plan(world.now_ns + world.between(10 * SECOND_NS, 6 * MINUTE_NS), "start", rental_id)
            elif dice < 94:
                self.plan(world.now_ns + world.between(9 * MINUTE_NS, 15 * MINUTE_NS), "start", rental_id)
            elif dice < 97:
                self.plan(world.now_ns + world.between(SECOND_NS, 8 * MINUTE_NS), "fail", rental_id)
        self._seen_rental = mirror.last_rental
        for rental_id in mirror.ended:
            late = 20 * MINUTE_NS if world.chance(0.1) else 2 * MINUTE_NS
            self.plan(world.now_ns + world.between(SECOND_NS, late), "wipe", rental_id)
            rental = mirror.rentals.get(rental_id)
            if rental and mirror.hosts[rental.trade.host_id].state is HostState.SUSPENDED:
                self.plan(world.now_ns + world.between(MINUTE_NS, 4 * HOUR_NS), "check", rental.trade.host_id)

    # ---- on the agenda ---------------------------------------------------------------------------------------------

    def _start(self, rental_id: int) -> Command | None:
        rental = self.world.mirror.rentals.get(rental_id)
        if rental is None:
            return None
        return StartRental(command_id=self.world.next_id(), rental_id=rental_id)

    def _fail(self, rental_id: int) -> Command | None:
        if rental_id not in self.world.mirror.rentals:
            return None
        return FailRental(command_id=self.world.next_id(), rental_id=rental_id, reason=EndReason.START_FAILED)

    def _wipe(self, rental_id: int) -> Command | None:
        rental = self.world.mirror.rentals.get(rental_id)
        if rental is None or not rental.is_over:
            return None
        host = self.world.mirror.hosts[rental.trade.host_id]
        if host.is_silent:
            self.plan(self.world.now_ns + 10 * MINUTE_NS, "wipe", rental_id)
            return None
        return ReportWiped(command_id=self.world.next_id(), rental_id=rental_id)

    def _heartbeat(self, host_id: int) -> Command | None:
        host = self.world.mirror.hosts.get(host_id)
        if host is None or not host.is_silent:
            return None
        self.plan(self.world.now_ns + self.world.between(MINUTE_NS, 3 * HOUR_NS), "check", host_id)
        return ReportHeartbeat(command_id=self.world.next_id(), host_id=host_id)

    def _check(self, host_id: int) -> Command | None:
        host = self.world.mirror.hosts.get(host_id)
        if host is None or host.state is HostState.HEALTHY:
            return None
        return CheckHost(command_id=self.world.next_id(), host_id=host_id, is_verified=host_id % 3 > 0)

    # ---- at any time -----------------------------------------------------------------------------------------------

    def silence(self) -> Command:
        """Report a host silent: back within a minute, within five, too late, or never."""
        world = self.world
        host_id = self._any_host()
        last_ns = world.now_ns - world.between(5 * SECOND_NS, 115 * SECOND_NS)
        if world.chance(0.03):
            last_ns = world.now_ns + MINUTE_NS
        dice = world.between(0, 10)
        longest = MINUTE_NS if dice < 4 else 5 * MINUTE_NS if dice < 7 else 3 * HOUR_NS
        self.plan(world.now_ns + world.between(5 * SECOND_NS, longest), "heartbeat", host_id)
        return ReportSilence(command_id=world.next_id(), host_id=host_id, last_heartbeat_ns=last_ns)

    def heartbeat(self) -> Command:
        return ReportHeartbeat(command_id=self.world.next_id(), host_id=self._any_host())

    def check(self) -> Command:
        """Check a host now; sometimes the probe finds other hardware."""
        world = self.world
        host_id = self._any_host()
        host = world.mirror.hosts.get(host_id)
        spec = self.spec() if host is None or world.chance(0.05) else host.spec if world.chance(0.5) else None
        return CheckHost(command_id=world.next_id(), host_id=host_id, is_verified=world.chance(0.6), spec=spec)

    def suspend(self) -> Command:
        host_id = self._any_host()
        self.plan(self.world.now_ns + self.world.between(MINUTE_NS, 5 * HOUR_NS), "check", host_id)
        return SuspendHost(command_id=self.world.next_id(), host_id=host_id)

    def fail(self) -> Command | None:
        world = self.world
        rental_id = self._any_rental()
        if not rental_id:
            return None
        reason = world.pick((EndReason.HOST_LOST, EndReason.HOST_LOST, EndReason.START_FAILED, EndReason.COMPLETED))
        return FailRental(command_id=world.next_id(), rental_id=rental_id, reason=reason)

    def end(self) -> Command | None:
        world = self.world
        rental_id = self._any_rental()
        if not rental_id:
            return None
        reason = world.pick((EndReason.OPERATOR, EndReason.POLICY, EndReason.OPERATOR, EndReason.FUNDS))
        return EndRental(command_id=world.next_id(), rental_id=rental_id, reason=reason)

    def wipe(self) -> Command | None:
        """Report a wipe that may be due, done already, or of a rental that runs."""
        world = self.world
        rental_id = world.mirror.unwiped.pick(world.rng) if world.chance(0.5) else self._any_rental()
        return ReportWiped(command_id=world.next_id(), rental_id=rental_id) if rental_id else None

    def start(self) -> Command | None:
        rental_id = self._any_rental()
        return StartRental(command_id=self.world.next_id(), rental_id=rental_id) if rental_id else None

    def list_host(self, plan: Plan | None = None) -> Command | None:
        world = self.world
        if len(world.mirror.hosts) >= HOSTS_MAX:
            return None
        party_id = (plan or world.pick(world.sellers)).party_id
        instrument = world.instruments.spin(world.rng)
        if plan is None and world.chance(0.05):
            instrument, party_id = world.pick((("no-such-gpu", party_id), (instrument, 1_000_000)))
        return ListHost(command_id=world.next_id(), party_id=party_id, instrument=instrument, spec=self.spec())

    def retire(self) -> Command:
        world = self.world
        host_id = self._any_host()
        host = world.mirror.hosts.get(host_id)
        party_id = host.party_id if host and world.chance(0.95) else world.party_id()
        return RetireHost(command_id=world.next_id(), party_id=party_id, host_id=host_id)

    def spec(self) -> HostSpec:
        world = self.world
        gpus = world.pick(_SIZES)
        country, region = world.pick(COUNTRIES)
        return HostSpec(
            gpus=gpus,
            country=country,
            region=region,
            vcpus=gpus * world.pick((2, 8, 16)),
            ram_gib=gpus * world.pick((8, 32, 64, 256)),
            disk_gib=gpus * world.pick((20, 100, 1_000)),
            gpu_memory_mib=world.pick((24_564, 81_559)),
        )

    def _any_host(self) -> int:
        """Return a host, mostly one that exists."""
        world = self.world
        if world.chance(0.03) or not world.mirror.hosts:
            return world.between(1, 10_000)
        plan = world.pick(world.sellers)
        hosts = world.mirror.parties[plan.party_id].hosts
        return world.pick(hosts) if hosts else 1

    def _any_rental(self) -> int:
        world = self.world
        if world.chance(0.06):
            return world.between(1, world.mirror.last_rental + 5)
        return world.mirror.live_rentals.pick(world.rng)
