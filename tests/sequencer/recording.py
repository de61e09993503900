"""A simulated market as a list of commands with their times, and ways to give them to a node."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bursa.market import ChangeRules, Command, Done, Outcome, Tick
from bursa.sequencer import Answer, Node
from tests.sim.simulation import Options, Simulation
from tests.sim.world import RULES

START_WAIT_S = 30


class _Recorder(Simulation):
    """A simulation that keeps what it applied."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.kept: list[tuple[Command, int, Outcome]] = []

    def _apply(self, command: Command, *, is_wire: bool = True) -> Outcome:
        outcome = super()._apply(command, is_wire=is_wire)
        if is_wire:
            self.kept.append((command, self.world.now_ns, outcome))
        return outcome


def record(seed: int, commands: int, parties: int = 40) -> list[tuple[Command, int, Outcome]]:
    """Return what a simulation sent, each command with its time and outcome."""
    run = _Recorder(Options(seed, commands, parties, 0, is_followed=False))
    run.run()
    assert not run.faults, run.faults
    return run.kept


def rules_of(kept: Sequence[tuple[Command, int, Outcome]]) -> tuple[Command, int, Outcome]:
    """Return the command that gives a new market the simulation's rules, just before a recording."""
    rules: Command = ChangeRules(command_id="rules", rules=RULES)
    return rules, kept[0][1], Outcome(Done())


class ManualClock:
    """Time as a test sets it; it never falls."""

    def __init__(self, now_ns: int = 0) -> None:
        self.time_ns = now_ns

    def now_ns(self) -> int:
        return self.time_ns

    def set(self, now_ns: int) -> None:
        self.time_ns = max(self.time_ns, now_ns)


@asynccontextmanager
async def leading(
    dsn: str,
    clock: ManualClock | None = None,
    **options: Any,  # noqa: ANN401 - whatever a Node takes
) -> AsyncIterator[Node]:
    """Run a node until it leads, and stop it afterwards."""
    make_clock = {} if clock is None else {"make_clock": lambda _floor: clock}
    node = Node(dsn, **make_clock, **options)  # type: ignore[arg-type]
    await node.start()
    try:
        async with asyncio.timeout(START_WAIT_S):
            while not node.is_leader:  # noqa: ASYNC110 - a test may poll
                await asyncio.sleep(0.005)
        yield node
    finally:
        await node.stop()


async def drive(node: Node, clock: ManualClock, kept: Sequence[tuple[Command, int, Outcome]]) -> list[Answer]:
    """Submit a recording, many in flight while time stands still, and return the answers."""
    answers: list[Answer] = []
    index = 0
    while index < len(kept):
        at_ns = kept[index][1]
        clock.set(at_ns)
        group = []
        while index < len(kept) and kept[index][1] == at_ns:
            command, _, _ = kept[index]
            if not isinstance(command, Tick):
                group.append(command)
            index += 1
        answers += await node.submit_many(group)
    return answers
