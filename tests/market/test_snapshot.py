"""A snapshot is the whole state, in one canonical form, and nothing else is taken for one."""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from bursa.errors import SnapshotError
from bursa.market import Engine, MarketRules, audit
from tests.market.strategies import World, crowded_world, mixed_world, new_world, one_of, seeded, step

COMMANDS: Final = 500


def snapshot_of(seed: int = 1, commands: int = COMMANDS) -> bytes:
    return mixed_world(seed, commands).engine.snapshot()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_round_trip_keeps_all(seed: int) -> None:
    world, pick = crowded_world(), seeded(seed)
    for _ in range(COMMANDS // 25):
        for _ in range(25):
            step(world, pick)
        check_round_trip(world)


def check_round_trip(world: World) -> None:
    engine = world.engine
    taken = engine.snapshot()
    twin = Engine.restore(taken)
    assert twin.snapshot() == taken == engine.snapshot()
    assert (twin.digest(), twin.now_ns, twin.next_due_ns) == (engine.digest(), engine.now_ns, engine.next_due_ns)
    assert twin.balances() == engine.balances()
    assert twin.holds() == engine.holds()
    assert audit(twin) == ()
    for instrument in world.mirror.instruments:
        assert twin.depth(instrument) == engine.depth(instrument)
        assert twin.indicative(instrument) == engine.indicative(instrument)
        assert twin.book(instrument) == engine.book(instrument)
    for order_id in world.mirror.orders:
        assert twin.order(order_id) == engine.order(order_id)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_restored_engine_goes_on_as_if_nothing_had_been(seed: int) -> None:
    """One world is restored at every tenth command, its twin never: outcomes and bytes stay equal.

    The twin's containers were filled in the order of events, the restored one's in the order of the snapshot: equal
    bytes show that the form is canonical.
    """
    restored, twin = crowded_world(), crowded_world()
    restored_pick, twin_pick = seeded(seed), seeded(seed)
    for number in range(COMMANDS):
        assert step(restored, restored_pick) == step(twin, twin_pick)
        if number % 10 == 0:
            restored.engine = Engine.restore(restored.engine.snapshot())
            assert restored.engine.snapshot() == twin.engine.snapshot()
    assert restored.engine.digest() == twin.engine.digest()


def test_an_empty_engine_has_a_snapshot() -> None:
    for rules in (MarketRules(), MarketRules(fee_bps=1)):
        engine = Engine(rules)
        assert Engine.restore(engine.snapshot()).digest() == engine.digest()


def test_a_snapshot_is_a_copy() -> None:
    world = mixed_world(2, 100)
    taken = world.engine.snapshot()
    twin = Engine.restore(taken)
    pick = seeded(3)
    for _ in range(50):
        step(world, pick)
    assert twin.snapshot() == taken
    assert world.engine.snapshot() != taken


@pytest.mark.parametrize(
    "junk", [b"", b"\x00", b"bursa", b"x" * 1_000, b"\xc1" * 200, b"{}", b"null", b"\x80" * 64], ids=repr
)
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(SnapshotError):
        Engine.restore(junk)


@pytest.mark.parametrize("thing", [None, 1, "text", [], {}, bytearray(b"abc"), memoryview(b"abc")], ids=range(7))
def test_what_is_no_bytes_is_refused(thing: object) -> None:
    with pytest.raises((SnapshotError, TypeError)):
        Engine.restore(thing)  # type: ignore[arg-type]


def test_a_truncated_or_lengthened_snapshot_is_refused() -> None:
    taken = snapshot_of(commands=60)
    for length in {0, 1, 7, 31, 32, 64, len(taken) // 2, len(taken) - 32, len(taken) - 1}:
        with pytest.raises(SnapshotError):
            Engine.restore(taken[:length])
    for more in (b"\x00", b"\xc0", taken):
        with pytest.raises(SnapshotError):
            Engine.restore(taken + more)


def test_one_wrong_bit_is_noticed_wherever_it_is() -> None:
    taken = snapshot_of(commands=60)
    pick = seeded(0)
    places = [*range(min(120, len(taken))), *(pick(len(taken)) for _ in range(200)), len(taken) - 1]
    for place in places:
        flipped = bytearray(taken)
        flipped[place] ^= 1 << pick(8)
        with pytest.raises(SnapshotError):
            Engine.restore(bytes(flipped))


def test_the_digest_is_of_the_state() -> None:
    world = new_world()
    assert len(world.engine.digest()) == len(hashlib.sha256().hexdigest())
    before = world.engine.digest()
    world.open()
    assert world.engine.digest() != before


# ── signed, but not by this engine: magic, version and digest are right, the payload is not ──────────────────────────


def head() -> bytes:
    """Return magic and version as this engine writes them."""
    return Engine().snapshot().split(hashlib.sha256(payload_of(Engine())).digest())[0]


def payload_of(engine: Engine) -> bytes:
    taken = engine.snapshot()
    for start in range(len(taken)):
        if hashlib.sha256(taken[start:]).digest() == taken[start - 32 : start]:
            return taken[start:]
    raise AssertionError("a snapshot ends with its digest and the payload")


def signed(payload: bytes) -> bytes:
    return head() + hashlib.sha256(payload).digest() + payload


def places(thing: object, path: tuple[int | str, ...] = ()) -> Iterator[tuple[int | str, ...]]:
    """Yield the path of every part of a decoded payload."""
    yield path
    if isinstance(thing, list):
        for number, part in enumerate(thing):
            yield from places(part, (*path, number))
    elif isinstance(thing, dict):
        for name, part in thing.items():
            yield from places(part, (*path, name))


def replaced(thing: Any, path: tuple[int | str, ...], part: object) -> Any:  # noqa: ANN401 - msgpack holds anything
    if not path:
        return part
    copy = thing.copy()
    copy[path[0]] = replaced(thing[path[0]], path[1:], part)
    return copy


def test_the_magic_and_the_version_are_looked_at() -> None:
    payload = payload_of(Engine())
    assert Engine.restore(signed(payload)).digest() == Engine().digest()
    sign = hashlib.sha256(payload).digest() + payload
    magic, version = head()[:-2], int.from_bytes(head()[-2:], "big")
    others = [0, version - 1, version + 1, 2**16 - 1]
    for other in [magic[::-1] + head()[-2:], *(magic + number.to_bytes(2, "big") for number in others)]:
        with pytest.raises(SnapshotError):
            Engine.restore(other + sign)


@pytest.mark.slow
def test_a_signed_payload_with_any_part_replaced_is_refused_or_is_a_state() -> None:
    """Whatever the part: SnapshotError, or an engine that can be asked and written again; nothing else escapes."""
    decoded = msgspec.msgpack.decode(payload_of(mixed_world(4, 150).engine))
    pick = seeded(9)
    everywhere = list(places(decoded))
    refused = 0
    for _ in range(3_000):
        path = one_of(pick, everywhere)
        part = one_of(pick, (None, 0, -1, 1, 7, 10**18, 2**63, 1.5, True, "", "x", b"", [], [1], {}, {"a": 1}))
        broken = signed(msgspec.msgpack.encode(replaced(decoded, path, part)))
        try:
            engine = Engine.restore(broken)
        except SnapshotError:
            refused += 1
        else:
            assert Engine.restore(engine.snapshot()).digest() == engine.digest(), (path, part)
    assert refused > 1_500
