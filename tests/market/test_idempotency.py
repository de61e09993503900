"""Every command carries the caller's id: the same again gives the same answer, other content is refused (rules §5)."""

from typing import Any, Final

import msgspec
import pytest

from bursa.market import IDEMPOTENCY_COMMANDS_MAX, Engine, Outcome, Rejected
from bursa.market import commands as c
from bursa.market.types import HOUR_NS, SECOND_NS
from tests.market.strategies import H100, World, crowded_world, mixed_world, open_world

PRICE: Final = 2_000_000
DAY: Final = 24 * HOUR_NS
COUNT: Final = IDEMPOTENCY_COMMANDS_MAX


def again(world: World, command: c.Command) -> Outcome:
    """Send a command outside the world's log; the engine must not move."""
    world.settle()
    engine = world.engine
    before = engine.digest(), engine.snapshot(), engine.next_due_ns
    outcome = engine.apply(command, world.now_ns)
    assert (engine.digest(), engine.snapshot(), engine.next_due_ns) == before
    return outcome


def bought() -> tuple[World, c.PlaceBid, Outcome]:
    """Return a world where a bid was filled, the bid and its outcome."""
    world = open_world()
    seller, buyer = world.party(), world.party()
    world.ask(seller, PRICE, [(world.host(seller, 8), 8)])
    bid = c.PlaceBid(command_id="bid-1", party_id=buyer, instrument=H100, gpus=2, hours=3, limit_micros=PRICE)
    outcome = world.send(bid)
    assert len(world.mirror.trades) == 1
    return world, bid, outcome


def test_the_same_again_gives_the_same_outcome_and_changes_nothing() -> None:
    world, bid, outcome = bought()
    assert again(world, bid) == outcome
    twin = msgspec.structs.replace(bid)  # equal, but another object
    assert again(world, twin) == outcome
    for pause in (SECOND_NS, HOUR_NS, 22 * HOUR_NS):
        world.wait(pause)
        assert again(world, bid) == outcome


@pytest.mark.parametrize(
    "change",
    [
        {"gpus": 1},
        {"limit_micros": PRICE + 1_000},
        {"party_id": 1},
        {"lots": 2},
        {"instrument": "other"},
        {"gpus": "x"},
    ],
    ids=str,
)
def test_the_same_id_with_other_content_is_refused(change: dict[str, Any]) -> None:
    world, bid, _ = bought()
    result = again(world, msgspec.structs.replace(bid, **change)).result
    assert isinstance(result, Rejected)
    # What is no command at all may be refused as such.
    assert result.code in {"EXISTS_WITH_DIFFERENT_FIELDS", "INVALID_FIELD"}
    assert result.code == "EXISTS_WITH_DIFFERENT_FIELDS" or change == {"gpus": "x"}


def test_the_same_id_with_another_command_is_refused() -> None:
    world, bid, _ = bought()
    for other in (
        c.RegisterParty(command_id=bid.command_id),
        c.CancelOrder(command_id="bid-1", party_id=2, order_id=1),
    ):
        result = again(world, other).result
        assert isinstance(result, Rejected)
        assert result.code == "EXISTS_WITH_DIFFERENT_FIELDS"


def test_a_tick_is_not_remembered() -> None:
    world, bid, outcome = bought()
    assert not isinstance(world.apply(c.Tick(command_id=bid.command_id)).result, Rejected)
    assert again(world, bid) == outcome
    assert not isinstance(world.apply(c.Tick(command_id="t")).result, Rejected)
    assert not isinstance(world.send(c.RegisterParty(command_id="t")).result, Rejected)


def test_a_refused_command_is_judged_anew() -> None:
    world = open_world()
    buyer = world.party(usd=10)
    bid = c.PlaceBid(command_id="b", party_id=buyer, instrument=H100, gpus=8, hours=1, limit_micros=PRICE)
    refused = again(world, bid).result
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.shortfall_micros) == ("INSUFFICIENT_FUNDS", 9_040_000)
    world.top_up(buyer, 100)
    assert not isinstance(world.send(bid).result, Rejected)


def test_a_refused_id_may_carry_another_command_later() -> None:
    world = open_world()
    assert isinstance(again(world, c.SuspendParty(command_id="x", party_id=99)).result, Rejected)
    assert not isinstance(world.send(c.RegisterParty(command_id="x")).result, Rejected)


def test_memory_survives_a_restore() -> None:
    world, bid, outcome = bought()
    world.engine = Engine.restore(world.engine.snapshot())
    assert again(world, bid) == outcome
    result = again(world, msgspec.structs.replace(bid, hours=4)).result
    assert isinstance(result, Rejected)
    assert result.code == "EXISTS_WITH_DIFFERENT_FIELDS"


def test_memory_ends_after_a_day() -> None:
    """The engine keeps ids for 24 h; it may let go of them a little later, never earlier."""
    world = open_world()
    command = c.RegisterParty(command_id="r")
    first = world.send(command)
    world.wait(DAY - 1_000)
    assert again(world, command) == first
    world.wait(HOUR_NS)
    world.make(c.RegisterParty)  # forgetting is work that goes with a command
    second = world.send(command)
    assert second != first
    assert len(world.mirror.parties) == 3


@pytest.mark.slow
def test_memory_is_of_the_newest_commands() -> None:
    world = open_world()
    command = c.RegisterParty(command_id="r")
    first = world.send(command)
    for _ in range(COUNT - 1):
        other = c.ListInstrument(command_id=world.new_id(), instrument=H100, reference_micros=PRICE)
        assert not isinstance(world.engine.apply(other, world.now_ns).result, Rejected)
    assert world.engine.apply(command, world.now_ns) == first  # the oldest one that is still known
    world.do(c.ListInstrument, instrument=H100)
    assert world.engine.apply(command, world.now_ns) != first


@pytest.mark.slow
def test_every_accepted_command_of_a_stream_can_be_sent_again() -> None:
    world = mixed_world(5, 600)
    world.settle()
    recent = [entry for entry in world.log if world.now_ns - entry[1] < DAY and not isinstance(entry[0], c.Tick)]
    accepted = [entry for entry in recent if not isinstance(entry[2].result, Rejected)]
    digest = world.engine.digest()
    for command, _, outcome in accepted:
        assert world.engine.apply(command, world.now_ns) == outcome
    assert world.engine.digest() == digest
    assert len(accepted) > 10


def test_ids_of_all_commands_share_one_space() -> None:
    world = crowded_world(sellers=1, hosts_each=1)
    used = world.log[0][0].command_id
    result = again(world, c.ReinstateParty(command_id=used, party_id=1)).result
    assert isinstance(result, Rejected)
    assert result.code == "EXISTS_WITH_DIFFERENT_FIELDS"
