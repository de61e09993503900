"""A small exchange for tests of hosts: a real engine behind a port, a log, a view, and a clock that tests move."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from bursa.errors import UnavailableError
from bursa.hosts import SimulatedFleet
from bursa.market import (
    SECOND_NS,
    Command,
    CreditTopUp,
    Done,
    Engine,
    Event,
    MarketView,
    Outcome,
    PlaceBid,
    Placed,
    RegisterParty,
    Rejected,
    SetTaxProfile,
    TaxProfile,
    Tick,
    VatScheme,
)
from bursa.money import Currency

T0 = 1_767_225_600 * SECOND_NS


class Answer(msgspec.Struct, frozen=True):
    result: Done | Placed | Rejected
    is_repeat: bool = False


class Record(msgspec.Struct, frozen=True):
    seq: int
    at_ns: int
    kind: str
    events: tuple[Event, ...]


@dataclass
class Exchange:
    """Applies commands as a sequencer does: what is due first, repeats answered from the log, then the listeners."""

    engine: Engine = field(default_factory=Engine)
    view: MarketView = field(default_factory=MarketView)
    now_ns: int = T0
    seq: int = 0
    log: dict[str, tuple[Command, Outcome]] = field(default_factory=dict)
    batches: list[list[str]] = field(default_factory=list)
    listeners: list[Callable[[Sequence[Record]], None]] = field(default_factory=list)
    is_away: bool = False
    is_answer_lost: bool = False

    def clock(self) -> int:
        return self.now_ns

    async def submit_many(self, commands: list[Command], *, is_fresh: bool = False) -> list[Answer]:
        assert not is_fresh, "the ids of the fleet and the demo may repeat"
        if self.is_away:
            raise UnavailableError("exchange", "away", "a leader")
        self.batches.append([command.command_id for command in commands])
        answers = [self.apply(command) for command in commands]
        await asyncio.sleep(0)
        if self.is_answer_lost and not all(answer.is_repeat for answer in answers):
            raise UnavailableError("exchange", "gone before its answer", "a leader")
        return answers

    def apply(self, command: Command) -> Answer:
        self.tick()
        known = self.log.get(command.command_id)
        if known is not None:
            assert known[0] == command, "another command under a known id"
            return Answer(known[1].result, is_repeat=True)
        outcome = self._apply(command)
        if not isinstance(outcome.result, Rejected):
            self.log[command.command_id] = command, outcome
        return Answer(outcome.result)

    def tick(self) -> None:
        while self.engine.next_due_ns <= self.now_ns:
            self._apply(Tick(command_id="tick"))

    def _apply(self, command: Command) -> Outcome:
        outcome = self.engine.apply(command, self.now_ns)
        if not isinstance(outcome.result, Rejected):
            self.seq += 1
            self.view.apply(self.seq, self.now_ns, outcome.events)
            for listener in self.listeners:
                listener([Record(self.seq, self.now_ns, type(command).__name__, outcome.events)])
        return outcome

    def do(self, command: Command) -> int:
        """Apply a command that must be accepted; return the id of what it made."""
        result = self.apply(command).result
        assert not isinstance(result, Rejected), (command, result)
        return result.order_id if isinstance(result, Placed) else result.id

    def buyer(self) -> int:
        number = self.seq
        party_id = self.do(RegisterParty(command_id=f"buyer-{number}", payout_account=f"buyer {number}"))
        profile = TaxProfile("DE", VatScheme.OSS, 190_000)
        self.do(SetTaxProfile(command_id=f"tax-{number}", party_id=party_id, profile=profile))
        name, micros = f"top-up-{number}", 10**11
        self.do(
            CreditTopUp(command_id=name, party_id=party_id, currency=Currency.USD, micros=micros, provider="stripe")
        )
        return party_id

    def rent(self, buyer_id: int, instrument: str = "h100-sxm", gpus: int = 1, hours: int = 1) -> int:
        """Buy one lot at the market; return the rental."""
        before = {rental.rental_id for rental in self.view.rentals()}
        best = self.view.best_ask(instrument, gpus=gpus, hours=hours)
        assert best
        bid = PlaceBid(
            command_id=f"bid-{self.seq}",
            party_id=buyer_id,
            instrument=instrument,
            gpus=gpus,
            hours=hours,
            limit_micros=best.price_micros,
        )
        self.do(bid)
        (rental_id,) = {rental.rental_id for rental in self.view.rentals()} - before
        return rental_id

    def fleet(self) -> SimulatedFleet:
        """Return a fleet that listens, as the process that serves this exchange makes one at its start."""
        fleet = SimulatedFleet(self, self.view, clock=self.clock)
        fleet.catch_up()
        self.listeners.append(fleet.take)
        return fleet

    def let_pass(self, fleet: SimulatedFleet, ns: int) -> None:
        """Let time pass, stopping whenever the market or the fleet has something to do."""
        until = self.now_ns + ns
        while True:
            due_ns = fleet.next_due_ns
            due = min(self.engine.next_due_ns, until if due_ns is None else due_ns)
            if due > until:
                break
            self.now_ns = max(self.now_ns, due)
            self.tick()
            asyncio.run(fleet.work())
            if due >= until:
                break
        self.now_ns = until
