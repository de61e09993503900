"""A replay of the log gives the same outcomes and the same digest, at any time, in any process, from any snapshot."""

import os
import subprocess
import sys
from typing import Final

import pytest

from bursa.market import Engine, MarketRules, Rejected
from tests.market.strategies import World, mixed_world

COMMANDS: Final = 1_000
#: Prints the digest of a mixed stream; run in processes of different hash seeds, so that no set's order leaks in.
PROGRAM: Final = "from tests.market.strategies import mixed_world; print(mixed_world({seed}, 400).engine.digest())"


def replay(world: World, engine: Engine, start: int = 0) -> Engine:
    for command, at_ns, outcome in world.log[start:]:
        assert engine.apply(command, at_ns) == outcome
    return engine


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_replay_gives_the_same_outcomes_and_digest(seed: int) -> None:
    world = mixed_world(seed, COMMANDS)
    assert replay(world, Engine(world.engine_rules)).digest() == world.engine.digest()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_replay_from_a_snapshot_gives_the_same_as_one_from_the_start(seed: int) -> None:
    world = mixed_world(seed, COMMANDS)
    for start in (0, 1, len(world.log) // 3, len(world.log) - 1):
        engine = Engine(world.engine_rules)
        for command, at_ns, _ in world.log[:start]:
            engine.apply(command, at_ns)
        restored = Engine.restore(engine.snapshot())
        assert replay(world, restored, start).digest() == world.engine.digest()


def test_refused_commands_leave_no_trace_in_the_log() -> None:
    """The digest depends on accepted commands only, so a log may keep the refused ones or not."""
    world = mixed_world(7, 400)
    engine = Engine(world.engine_rules)
    refused = 0
    for command, at_ns, outcome in world.log:
        if isinstance(outcome.result, Rejected):
            refused += 1
        else:
            assert engine.apply(command, at_ns) == outcome
    assert refused > 20
    assert engine.digest() == world.engine.digest()


def test_rules_are_part_of_the_state() -> None:
    assert Engine(MarketRules()).digest() == Engine().digest() != Engine(MarketRules(fee_bps=1)).digest()


@pytest.mark.slow
def test_the_order_of_sets_and_dicts_never_shows() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        program = [sys.executable, "-c", PROGRAM.format(seed=11)]
        result = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        digests.add(result.stdout)
    assert len(digests) == 1
