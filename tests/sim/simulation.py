"""The simulation: makes commands, applies them as a sequencer would, and checks each answer against the mirror.

Invariants of the driver itself: every decision comes from the seed and from events; time never falls towards the
engine; Tick goes first whenever something is due; checks draw from a chance of their own, so how often one audits
changes nothing.
"""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from msgspec import msgpack

from bursa.errors import ClockError, TickDueError
from bursa.market import (
    BestAsk,
    CancelOrder,
    Command,
    Done,
    Engine,
    Outcome,
    PlaceBid,
    Rejected,
    Rejection,
    RequestPayout,
    RequestRefund,
    Tick,
    Trade,
    audit,
)
from tests.sim import oracle
from tests.sim.chaos import Chaos
from tests.sim.fleet import Fleet
from tests.sim.follower import Follower
from tests.sim.mirror import Mirror
from tests.sim.opening import opening
from tests.sim.people import People
from tests.sim.staff import Staff
from tests.sim.world import RULES, Clock, Wheel, World

FAULTS_MAX: Final = 20
#: Most Ticks before one command. A jump of 30 hours over some thousand rentals needs a few hundred.
TICKS_MAX: Final = 20_000

#: Prices wander once in so many commands.
PRICES_EVERY: Final = 4

#: How often each action is tried, in the main part of a run.
ACTIONS: Final = (
    (180, "people.bid"), (40, "people.pile"), (25, "people.cancel_bids"), (20, "people.cancel"),
    (30, "people.amend_bid"), (45, "people.ask"), (35, "people.amend_ask"), (28, "people.stop"),
    (12, "people.extend"), (9, "people.auto_extend"), (6, "people.refund"), (8, "people.payout"),
    (2, "people.reclaim"), (45, "staff.top_up"), (5, "staff.refund_result"), (6, "staff.payout_result"),
    (3, "staff.chargeback"), (1, "staff.write_off"), (15, "staff.invoice"), (4, "staff.entry"), (3, "staff.rate"),
    (1, "staff.halt"), (3, "staff.resume"), (1, "staff.book"), (1, "staff.rules"), (2, "staff.suspend"),
    (3, "staff.party"), (6, "fleet.silence"), (2, "fleet.heartbeat"), (8, "fleet.check"), (1, "fleet.suspend"),
    (2, "fleet.fail"), (2, "fleet.end"), (2, "fleet.wipe"), (2, "fleet.start"), (2, "fleet.list_host"),
    (1, "fleet.retire"), (16, "chaos.duplicate"), (5, "chaos.clash"), (6, "chaos.retry"), (8, "chaos.garbage"),
    (2, "tick"),
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What a run is made of; seed, commands and parties alone decide what happens in it."""

    seed: int
    commands: int
    parties: int = 300
    audit_every: int = 20_000
    is_followed: bool = True
    #: Simulated seconds between commands, on average, outside rush hours.
    step_seconds: int = 3


class Simulation:
    """One run. `step` sends one command; `finish` makes the last checks. `faults` is empty when all is sound."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.engine = Engine(RULES)
        self.faults: list[str] = []
        self.mirror = Mirror(RULES, self._fault)
        self.clock = Clock(step_mean_ns=options.step_seconds * 10**9)
        self.world = World(Random(f"market-{options.seed}"), self.mirror)
        self.people = People(self.world)
        self.staff = Staff(self.world)
        self.fleet = Fleet(self.world)
        self.chaos = Chaos(self.world)
        self.checks = Random(f"checks-{options.seed}")
        self.follower = Follower(RULES) if options.is_followed else None
        self.sent = 0
        self.results: Counter[tuple[str, str]] = Counter()
        self.events: Counter[type] = Counter()
        self.done: Counter[str] = Counter()
        self.open_orders_max = 0
        self.rentals_max = 0
        self.digest = ""
        self._command: Command | None = None
        self._wheel = Wheel(ACTIONS)
        self._makers = {name: self._maker(name) for _, name in ACTIONS}
        self._opening = opening(self.world, self.people, self.staff, self.fleet, options.parties)
        self._next: Command | None = next(self._opening)
        #: A restore is swapped in this often on average, at random moments.
        self._restore_mean = max(400, options.commands // 40)
        #: Checks that cost a digest are as many in a long run as in one of 100,000 commands.
        self._sampling = min(1.0, 100_000 / options.commands)

    @property
    def is_over(self) -> bool:
        return bool(self.faults) or self.sent >= self.options.commands

    def run(self) -> None:
        """Run to the end or to the first fault."""
        while not self.is_over:
            self.step()
        self.finish()

    def step(self) -> None:
        """Let time pass, make one command, send it, check."""
        self.clock.advance(self.world.rng, is_busy=self.fleet.is_behind)
        self.world.now_ns = max(self.engine.now_ns, self.clock.now_ns)
        if self.sent % PRICES_EVERY == 0:
            self.world.move_prices()
        try:
            self._catch_up()
            self._one_command()
        except Exception:  # noqa: BLE001 - an assertion in the engine is what is looked for
            self._fault(traceback.format_exc())
        self._maybe_check()

    def finish(self) -> None:
        """Audit once more, and compare with the follower."""
        if not self.faults:
            self._audit()
            self.digest = self.engine.digest()
        if self.follower is None:
            return
        if self.faults:
            self.follower.abandon()
            return
        verdict = self.follower.finish()
        if verdict.differs_at:
            self._fault(f"replay in another process differs at frame {verdict.differs_at}: {verdict.why}")
        elif verdict.digest != self.digest:
            self._fault(f"replay in another process ends with digest {verdict.digest}, this one with {self.digest}")
        self.done["frames replayed"] = verdict.frames

    # ---- making a command ------------------------------------------------------------------------------------------

    def _one_command(self) -> None:
        command = self.fleet.due()
        if command is not None:
            self.submit(command)
            return
        if self._next is not None:
            self._next = self._resume_opening(self.submit(self._next))
            return
        for _ in range(50):
            if self._makers[self._wheel.spin(self.world.rng)]():
                return
        self.submit(self.people.bid())

    def _resume_opening(self, outcome: Outcome) -> Command | None:
        try:
            return self._opening.send(outcome)
        except StopIteration:
            return None

    def _maker(self, name: str) -> Callable[[], bool]:
        """Return what makes and sends one command of this action; it answers False when there was none to make."""
        special = {"chaos.duplicate": self._duplicate, "chaos.garbage": self._garbage, "chaos.clash": self._clash}
        if name == "tick":
            return self._idle_tick
        if name in special:
            return special[name]
        owner, _, method = name.partition(".")
        make: Callable[[], Command | None] = getattr(getattr(self, owner), method)

        def send() -> bool:
            command = make()
            if command is None:
                return False
            self.submit(command)
            return True

        return send

    def _duplicate(self) -> bool:
        sent = self.chaos.duplicate()
        if sent is None:
            return False
        command, before = sent
        digest = self._sampled_digest(0.004)
        outcome = self._apply(command)
        self.done["duplicates"] += 1
        if outcome != before or msgpack.encode(outcome) != msgpack.encode(before):
            self._fault(f"the same command again was answered {outcome}, the first time {before}")
        self._compare_digest(digest)
        return True

    def _clash(self) -> bool:
        command = self.chaos.clash()
        if command is None:
            return False
        digest = self._sampled_digest(0.01)
        outcome = self._apply(command)
        self._count(command, outcome)
        if (
            not isinstance(outcome.result, Rejected)
            or outcome.result.code is not Rejection.EXISTS_WITH_DIFFERENT_FIELDS
        ):
            self._fault(f"another command under an id in use was answered {outcome}")
        self._compare_digest(digest)
        return True

    def _garbage(self) -> bool:
        made = self.chaos.garbage()
        if made is None:
            return False
        command, name = made
        digest = self._sampled_digest(0.01)
        outcome = self._apply(command, is_wire=False)
        self._count(command, outcome)
        result = outcome.result
        is_invalid = isinstance(result, Rejected) and result.code is Rejection.INVALID_FIELD and name in result.field
        is_huge = getattr(command, name) == 2**63  # it fits 64 bits without a sign: any refusal will do
        if not is_invalid and not (is_huge and isinstance(result, Rejected)):
            self._fault(f"a wrong {name} was answered {outcome}")
        self._compare_digest(digest)
        return True

    def _idle_tick(self) -> bool:
        self._tick()
        return True

    # ---- sending it ------------------------------------------------------------------------------------------------

    def submit(self, command: Command) -> Outcome:
        """Send one command and check its outcome against what the mirror expects."""
        cheapest, best = self._prediction(command)
        digest = self._sampled_digest(0.000_1)
        outcome = self._apply(command)
        result = outcome.result
        self._count(command, outcome)
        if isinstance(result, Rejected):
            self._check_refusal(command, outcome, result)
            self._compare_digest(digest)
        else:
            self._fold(outcome)
            if isinstance(result, Done) and type(command) is RequestRefund:
                self.world.refunds.append(result.id)
            elif isinstance(result, Done) and type(command) is RequestPayout:
                self.world.payouts.append(result.id)
        self.chaos.keep(command, outcome, self.world.now_ns, is_accepted=not isinstance(result, Rejected))
        if cheapest is not None and isinstance(command, PlaceBid):
            self.done["buy-now predicted"] += 1
            code = result.code.value if isinstance(result, Rejected) else "OK"
            trades = [event for event in outcome.events if isinstance(event, Trade)]
            problem = oracle.fault_of_buy_now(cheapest, best, command.limit_micros, code, trades)
            if problem:
                self._fault(problem)
        return outcome

    def _apply(self, command: Command, *, is_wire: bool = True) -> Outcome:
        self.sent += 1
        self._command = command
        outcome = self.engine.apply(command, self.world.now_ns)
        if self.follower is not None and is_wire:
            self.follower.send(command, self.world.now_ns, outcome)
        return outcome

    def _catch_up(self) -> None:
        """Apply Tick while something is due, as a sequencer must; now and then see that the engine insists on it."""
        now_ns = self.world.now_ns
        if self.engine.next_due_ns <= now_ns and self.checks.random() < 0.002 * self._sampling:
            self._must_raise(TickDueError, now_ns)
        if self.checks.random() < 0.000_2 * self._sampling:
            self._must_raise(ClockError, self.engine.now_ns - 1)
        for _ in range(TICKS_MAX):
            if self.engine.next_due_ns > now_ns:
                return
            self._tick()
        self._fault(f"still due after {TICKS_MAX} Ticks: {self.engine.next_due_ns} at {now_ns}")

    def _tick(self) -> None:
        command = Tick(command_id="tick")
        self._command = command
        outcome = self.engine.apply(command, self.world.now_ns)
        if self.follower is not None:
            self.follower.send(command, self.world.now_ns, outcome)
        self._count(command, outcome)
        self._fold(outcome)

    def _must_raise(self, error: type[Exception], at_ns: int) -> None:
        digest = self.engine.digest()
        self._command = CancelOrder(command_id="never", party_id=1, order_id=1)
        try:
            outcome = self.engine.apply(self._command, at_ns)
        except error:
            self.done[error.__name__] += 1
        else:
            self._fault(f"expected {error.__name__}, got {outcome}")
        self._compare_digest(digest)

    # ---- checking it -----------------------------------------------------------------------------------------------

    def _fold(self, outcome: Outcome) -> None:
        mirror = self.mirror
        for event in outcome.events:
            self.events[type(event)] += 1
            mirror.fold(event)
        for bid in mirror.accepted:
            expected = oracle.hold_micros(mirror, bid)
            placed = mirror.holds_placed.get(bid.order_id, 0)
            if placed != expected:
                self._fault(f"holds {placed}, must hold {expected}: {bid}")
        self.fleet.watch()
        mirror.settle()
        self.open_orders_max = max(self.open_orders_max, len(mirror.bids) + len(mirror.asks))
        self.rentals_max = max(self.rentals_max, len(mirror.live_rentals))

    def _count(self, command: Command, outcome: Outcome) -> None:
        result = outcome.result
        code = result.code.value if isinstance(result, Rejected) else "OK"
        self.results[type(command).__name__, code] += 1

    def _check_refusal(self, command: Command, outcome: Outcome, result: Rejected) -> None:
        if outcome.events:
            self._fault(f"refused with events: {outcome}")
        if result.code not in oracle.ALWAYS and result.code not in oracle.PLAUSIBLE[type(command).__name__]:
            self._fault(f"{result} is not plausible for this command")
        if (result.code is Rejection.INSUFFICIENT_FUNDS) != (result.shortfall_micros > 0):
            self._fault(f"the shortfall does not go with the code: {result}")

    def _prediction(self, command: Command) -> tuple[int | None, BestAsk | None]:
        """Predict a sample of the buy-nows: the cheapest fit by looking at all asks, and the engine's own quote."""
        if (
            type(command) is not PlaceBid
            or self.checks.random() > 0.1
            or not oracle.is_predictable(self.mirror, command)
        ):
            return None, None
        best = self.engine.best_ask(
            command.instrument,
            gpus=command.gpus,
            hours=command.hours,
            filters=command.filters,
            party_id=command.party_id,
            at_ns=self.world.now_ns,
        )
        return oracle.cheapest_fit(self.mirror, command, self.world.now_ns), best

    def _sampled_digest(self, probability: float) -> str:
        return self.engine.digest() if self.checks.random() < probability * self._sampling else ""

    def _compare_digest(self, before: str) -> None:
        if before:
            self.done["refusals that left the digest alone"] += 1
            if self.engine.digest() != before:
                self._fault("what was refused has changed the state")

    def _maybe_check(self) -> None:
        every = self.options.audit_every
        if every and self.sent % every == 0 and not self.faults:
            self._audit()
        if self.checks.random() * self._restore_mean < 1 and not self.faults:
            self._restore()

    def _audit(self) -> None:
        self.done["audits"] += 1
        for violation in audit(self.engine):
            self._fault(f"audit: {violation}")
        self.mirror.ledger.compare(self.engine.balances())
        mirror, engine = self.mirror, self.engine
        missing = [i for i in (*mirror.open_bids, *mirror.open_asks) if engine.order(i) is None]
        lost = [i for i in mirror.rentals if engine.rental(i) is None]
        if missing or lost:
            self._fault(f"open by its events, but unknown to the engine: orders {missing[:5]}, rentals {lost[:5]}")
        held: Counter[str] = Counter()
        for hold in engine.holds():
            held[f"hold:{hold.order_id}" if hold.order_id else f"held:{hold.rental_id}"] += hold.micros
        mine = {
            name: micros
            for accounts in mirror.ledger.balances.values()
            for name, micros in accounts.items()
            if name.startswith(("hold:", "held:"))
        }
        if {name: micros for name, micros in held.items() if micros} != mine:
            self._fault("holds() are not what the entries held")

    def _restore(self) -> None:
        """Swap in an engine restored from a snapshot: nobody may notice."""
        data, digest = self.engine.snapshot(), self.engine.digest()
        restored = Engine.restore(data)
        self.done["restores"] += 1
        if restored.digest() != digest or restored.snapshot() != data or restored.now_ns != self.engine.now_ns:
            self._fault("a restored engine is not equal to the one that made the snapshot")
        self.engine = restored
        self._audit()

    def _fault(self, message: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"command {self.sent}: {message}\n    at {self.world.now_ns} {self._command!r}")
