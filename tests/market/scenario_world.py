"""The exchange a scenario plays in: one engine driven as the sequencer drives it, and all that came of it.

Role: applies commands and time, and after each of them demands what must always hold: the audit is clean, a refusal
changed nothing, a repeated command changed nothing, the balances are the sum of the journal entries.
Invariant: `log` holds every accepted or refused command with its time and outcome, so a fresh engine can replay it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from bursa.market import Engine, audit
from bursa.market.commands import Command, Tick
from bursa.market.events import (
    Event,
    OrderClosed,
    Outcome,
    Placed,
    Rejected,
    RentalEnded,
    RentalFailed,
    RentalHoursCharged,
    RentalHoursReversed,
    RentalOpened,
    RentalStarted,
    RentalWiped,
)
from bursa.market.types import INT_MAX, JournalEntry, RentalState
from tests.market.scenario_grammar import Place
from tests.market.scenario_names import START_NS, Names

#: Most Ticks between two lines: more means that the engine never gets done.
TICKS_MAX: Final = 100_000


@dataclass
class RentalRecord:
    """What the events said of a rental, kept after the engine has forgotten it."""

    state: RentalState = RentalState.OPENED
    reason: str = ""
    charged_hours: int = 0
    ends_at_ns: int = 0


@dataclass
class World:
    """One engine and its history. With `restores`, the engine is replaced by its own snapshot after each command."""

    restores: bool = False
    engine: Engine = field(default_factory=Engine)
    names: Names = field(default_factory=Names)
    now_ns: int = START_NS
    log: list[tuple[Command, int, Outcome]] = field(default_factory=list)
    accepted: dict[str, tuple[Command, Outcome]] = field(default_factory=dict)
    closed: dict[int, OrderClosed] = field(default_factory=dict)
    rentals: dict[int, RentalRecord] = field(default_factory=dict)
    lots_seen: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    balances: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def apply(self, place: Place, command: Command, new: tuple[str, str] | None = None) -> Outcome:
        """Apply one command now, give what it makes its (kind, name), and demand what must hold after any command."""
        before = self.engine.digest()
        outcome = self.engine.apply(command, self.now_ns)
        self.log.append((command, self.now_ns, outcome))
        earlier = self.accepted.get(command.command_id)
        is_repeated = earlier is not None and earlier == (command, outcome)
        if isinstance(outcome.result, Rejected) or is_repeated:
            if outcome.events and not is_repeated:
                raise place.mismatch("a refused command has events", (), outcome.events)
            if self.engine.digest() != before:
                raise place.mismatch("a refused or repeated command changed the engine", before, self.engine.digest())
        else:
            if not isinstance(command, Tick):
                self.accepted[command.command_id] = (command, outcome)
            if new is not None:
                result = outcome.result
                self.names.bind(place, *new, result.order_id if isinstance(result, Placed) else result.id)
            self._follow(place, outcome.events)
        self._demand_sound(place)
        return outcome

    def tick_until(self, place: Place, target_ns: int) -> tuple[Event, ...]:
        """Let time pass as a sequencer would, jumping from one due moment to the next; return all events."""
        if target_ns < self.now_ns:
            raise place.error("time", place.text, "a time that is not in the past: time never falls")
        events: list[Event] = []
        for _count in range(TICKS_MAX):
            due_ns = self.engine.next_due_ns
            if due_ns > target_ns:
                self.now_ns = target_ns
                return tuple(events)
            self.now_ns = max(self.now_ns, due_ns)
            outcome = self.apply(place, Tick(command_id=f"tick-{len(self.log)}"))
            if isinstance(outcome.result, Rejected):
                raise place.mismatch("a Tick was refused", "Done", outcome.result)
            events.extend(outcome.events)
        raise place.mismatch(f"time-driven work is not done after {TICKS_MAX} ticks", "an end", self.engine.next_due_ns)

    def demand_replay(self, place: Place) -> None:
        """Replay all commands into a fresh engine, and restore a snapshot: the digests must be the same."""
        fresh = Engine()
        for command, at_ns, outcome in self.log:
            if fresh.apply(command, at_ns) != outcome:
                raise place.mismatch("a replay gave another outcome", outcome, command)
        if fresh.digest() != self.engine.digest():
            raise place.mismatch("a replay gave another digest", self.engine.digest(), fresh.digest())
        snapshot = self.engine.snapshot()
        restored = Engine.restore(snapshot)
        if restored.digest() != self.engine.digest() or restored.snapshot() != snapshot:
            raise place.mismatch("a restored snapshot differs", self.engine.digest(), restored.digest())

    def _demand_sound(self, place: Place) -> None:
        broken = audit(self.engine)
        if broken:
            raise place.mismatch("the audit found broken invariants", "none", "; ".join(broken))
        followed = {key: micros for key, micros in self.balances.items() if micros}
        actual = {
            (currency, account): micros
            for currency, accounts in self.engine.balances().items()
            for account, micros in accounts.items()
            if micros
        }
        if followed != actual:
            wrong = {key for key in followed | actual if followed.get(key) != actual.get(key)}
            raise place.mismatch(
                "balances differ from the sum of the journal entries",
                {key: followed.get(key) for key in sorted(wrong)},
                {key: actual.get(key) for key in sorted(wrong)},
            )
        if self.restores:
            self.engine = Engine.restore(self.engine.snapshot())
        assert self.engine.next_due_ns <= INT_MAX

    def _follow(self, place: Place, events: tuple[Event, ...]) -> None:
        """Keep up with the events: names of new rentals, their states, closed orders, balances."""
        for event in events:
            if isinstance(event, JournalEntry):
                for posting in event.postings:
                    key = (posting.currency, posting.account)
                    self.balances[key] += posting.credit_micros - posting.debit_micros
            elif isinstance(event, OrderClosed):
                self.closed[event.order_id] = event
            elif isinstance(event, RentalOpened):
                self.lots_seen[event.order_id] += 1
                name = f"{self.names.name_of('order', event.order_id)}.{self.lots_seen[event.order_id]}"
                self.rentals[event.rental_id] = RentalRecord()
                self.names.bind(place, "rental", name, event.rental_id)
            else:
                self._follow_rental(event)

    def _follow_rental(self, event: Event) -> None:
        if isinstance(event, RentalStarted):
            record = self.rentals[event.rental_id]
            record.state, record.ends_at_ns = RentalState.STARTED, event.ends_at_ns
        elif isinstance(event, RentalHoursCharged | RentalHoursReversed):
            self.rentals[event.rental_id].charged_hours = event.charged_hours
        elif isinstance(event, RentalEnded | RentalFailed):
            record = self.rentals[event.rental_id]
            record.state = RentalState.ENDED if isinstance(event, RentalEnded) else RentalState.FAILED
            record.reason, record.charged_hours, record.ends_at_ns = event.reason, event.charged_hours, event.at_ns
        elif isinstance(event, RentalWiped):
            self.rentals[event.rental_id].state = RentalState.WIPED
