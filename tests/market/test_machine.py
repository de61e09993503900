"""A stateful machine over the engine: any command in any order, and after each one the audit finds nothing.

There is one rule per command type, made from the union, so a new command without a maker fails at import. Besides:
time passes with and without a stop, commands are sent twice, fields are replaced by nonsense, and the engine is swapped
for its restored snapshot in mid-stream. At the end the log is replayed and must give the same digest.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bursa.market import TICK_WORK_MAX, Engine, MarketRules, OrderClosed, Rejected, TimeInForce, audit
from bursa.market import commands as c
from bursa.market.state import State
from bursa.market.types import MINUTE_NS, SECOND_NS
from tests.market.strategies import (
    COMMANDS,
    H100,
    MAKERS,
    PAUSES,
    WEIGHTS,
    crowded_world,
    open_world,
    picked,
    proof,
    seeded,
    step,
)
from tests.market.test_bad_input import rich
from tests.market.test_properties import check_mirror

NONSENSE: Final[tuple[object, ...]] = (
    0,
    -1,
    999_999,
    2**63,
    2**64,
    1.5,
    float("nan"),
    True,
    None,
    "",
    "x" * 300,
    "\ud800",
    b"",
    (),
    [],
)

T = TypeVar("T")


class Market(RuleBasedStateMachine):
    """The machine; its rules for commands are added below, one per type."""

    @initialize(rules=st.sampled_from([None, MarketRules()]))
    def start(self, rules: MarketRules | None) -> None:
        self.world = crowded_world(rules, sellers=3, hosts_each=3)

    def send(self, kind: type, data: st.DataObject) -> None:
        self.world.send(MAKERS[kind](self.world, picked(data)))

    @rule(pause=st.sampled_from(sorted({pause for pause in PAUSES if pause})), with_stops=st.booleans())
    def time_passes(self, pause: int, with_stops: bool) -> None:
        (self.world.wait if with_stops else self.world.jump)(pause)

    @rule(data=st.data())
    def a_duplicate(self, data: st.DataObject) -> None:
        """Send an accepted command again: it answers as it did and changes nothing."""
        world = self.world
        world.settle()
        accepted = [entry for entry in world.log if not isinstance(entry[2].result, Rejected)]
        recent = [entry for entry in accepted if not isinstance(entry[0], c.Tick)][-100:]
        command, at_ns, outcome = recent[-1 - picked(data)(len(recent))]
        before = world.engine.digest()
        again = world.engine.apply(command, world.now_ns)
        if world.now_ns - at_ns < 24 * 3_600 * SECOND_NS:
            assert again == outcome
            assert world.engine.digest() == before
        else:  # forgotten: it was judged anew
            world.log.append((command, world.now_ns, again))
            world.mirror.fold(again.events)

    @rule(data=st.data())
    def nonsense(self, data: st.DataObject) -> None:
        """Replace one field of a command by nonsense: it is refused and changes nothing, or is a command after all."""
        world, pick = self.world, picked(data)
        world.settle()
        command = MAKERS[COMMANDS[pick(len(COMMANDS))]](world, pick)
        fields = command.__struct_fields__
        broken: Any = msgspec.structs.replace(command, **{fields[pick(len(fields))]: NONSENSE[pick(len(NONSENSE))]})
        before = world.engine.digest(), world.engine.now_ns
        outcome = world.apply(broken)
        if isinstance(outcome.result, Rejected):
            assert (outcome.events, world.engine.digest(), world.engine.now_ns) == ((), *before)

    @rule()
    def restored(self) -> None:
        digest = self.world.engine.digest()
        self.world.engine = Engine.restore(self.world.engine.snapshot())
        assert self.world.engine.digest() == digest

    @precondition(lambda self: hasattr(self, "world"))
    @invariant()
    def sound(self) -> None:
        assert audit(self.world.engine) == ()
        check_mirror(self.world)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        twin = Engine(self.world.engine_rules)
        for command, at_ns, outcome in self.world.log:
            assert twin.apply(command, at_ns) == outcome
        assert twin.digest() == self.world.engine.digest()


def add_rule(kind: type, weight: int) -> None:
    """Give the machine a rule for a command; a frequent command gets more than one, so that it is drawn more often."""

    def send(self: Market, data: st.DataObject) -> None:
        self.send(kind, data)

    name = re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()
    for number in range(1 + weight // 10):
        send.__name__ = send.__qualname__ = f"{name}_{number}" if number else name
        setattr(Market, send.__name__, rule(data=st.data())(send))


for command_type in COMMANDS:
    add_rule(command_type, WEIGHTS.get(command_type, 0))


@pytest.mark.slow
def test_the_market_stays_sound_whatever_comes() -> None:
    run_state_machine_as_test(Market, settings=proof(60, steps=60))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_market_stays_sound_in_a_long_stream(seed: int) -> None:
    """The same without Hypothesis: streams longer than it can search, where the state grows rich."""
    world, pick = crowded_world(MarketRules()), seeded(1_000 + seed)
    for number in range(4_000):
        step(world, pick)
        if number % 10 == 0:
            assert audit(world.engine) == ()
    kinds = {type(command) for command, _, outcome in world.log if not isinstance(outcome.result, Rejected)}
    assert len(kinds) > len(COMMANDS) - 6, "a stream that never gets a command accepted proves nothing about it"


def test_every_command_has_a_maker() -> None:
    assert set(MAKERS) == set(COMMANDS)


# ── time-driven work comes in bounded pieces ─────────────────────────────────────────────────────────────────────────


def test_a_tick_does_a_bounded_amount_and_the_next_one_goes_on() -> None:
    world = open_world()
    expires = world.now_ns + MINUTE_NS
    for _ in range(2):
        buyer = world.party(usd=1_000_000)
        for _ in range(700):
            gtd: dict[str, object] = {"time_in_force": TimeInForce.GTD, "expires_at_ns": expires}
            world.do(c.PlaceBid, party_id=buyer, instrument=H100, gpus=1, hours=1, limit_micros=1_000_000, **gtd)
    world.now_ns = expires
    ticks = world.settle()
    closed = [sum(isinstance(event, OrderClosed) for event in outcome.events) for outcome in ticks]
    assert closed == [TICK_WORK_MAX, 1_400 - TICK_WORK_MAX]
    assert world.mirror.open_bids() == []
    assert audit(world.engine) == ()


def test_a_tick_with_nothing_due_changes_only_the_time() -> None:
    world = crowded_world()
    before = world.engine.balances(), world.engine.depth(H100), world.engine.next_due_ns
    world.now_ns += 1_000
    assert world.apply(c.Tick(command_id="t")).events == ()
    assert world.engine.now_ns == world.now_ns
    assert (world.engine.balances(), world.engine.depth(H100), world.engine.next_due_ns) == before


# ── the auditor can fail: each of these faults is one that it finds ──────────────────────────────────────────────────


def first(things: dict[int, T]) -> T:
    return next(iter(things.values()))


def tamper_money(state: State) -> None:
    state.ledger.balances["USD"]["wallet:1"] += 1


def tamper_hold(state: State) -> None:
    first(state.bids).hold_micros += 1


def tamper_leaves(state: State) -> None:
    first(state.bids).leaves -= 1


def tamper_held(state: State) -> None:
    next(rental for rental in state.rentals.values() if rental.is_live).held_micros += 1


def tamper_busy(state: State) -> None:
    next(host for host in state.hosts.values() if host.busy_mask).busy_mask = 0


def tamper_gpus(state: State) -> None:
    first(state.rentals).gpu_mask = 0b11 << 6


def tamper_offer(state: State) -> None:
    next(host for host in state.hosts.values() if host.ask_id).ask_id = 0


def tamper_price(state: State) -> None:
    ask = max(state.asks.values(), key=lambda ask: ask.order_id)
    ask.price_micros = 1_000


def tamper_limit(state: State) -> None:
    first(state.bids).limit_micros *= 9


def tamper_party(state: State) -> None:
    state.parties[first(state.bids).party_id].is_suspended = True


def tamper_pending(state: State) -> None:
    party = next(party for party in state.parties.values() if party.pending)
    party.pending[0] = (party.pending[0][0], party.pending[0][1] + 1)


def tamper_transfer(state: State) -> None:
    del state.transfers[min(state.transfers)]


def tamper_debt(state: State) -> None:
    state.ledger.balances["USD"]["customer_receivable:1"] = -1
    state.ledger.balances["USD"]["wallet:1"] += 1


TAMPERINGS: Final[list[Callable[[State], None]]] = [
    *(tamper_money, tamper_hold, tamper_leaves, tamper_held, tamper_busy, tamper_gpus, tamper_offer, tamper_price),
    *(tamper_limit, tamper_party, tamper_pending, tamper_transfer, tamper_debt),
]


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_the_auditor_finds_a_fault(tamper: Callable[[State], None]) -> None:
    engine = Engine.restore(rich()[1])
    assert audit(engine) == ()
    tamper(engine._state)
    assert audit(engine) != ()
