"""Keys: found, compared, expired, revoked at once, and never more than the key that made them."""

import asyncio
from datetime import timedelta

import pytest

from bursa import services, wire
from bursa.services import KeyCache
from bursa.wire import Scope
from tests.postgres import Database
from tests.services.world import NOON, World, play


async def refuse_key(world: World, secret: str) -> str:
    with pytest.raises(services.UnauthenticatedError) as refused:
        await services.authenticate(world.exchange, secret)
    assert not secret or secret not in str(refused.value)
    return refused.value.problem_code


def test_only_the_very_key_opens(database: Database) -> None:
    async def scene(world: World) -> None:
        made = await services.create_key(world.exchange, world.operator, wire.KeyRequest("k", [Scope.READ]))
        actor = await services.authenticate(world.exchange, made.secret)
        assert (actor.scopes, actor.name, actor.party_id) == (frozenset({Scope.READ}), "k", world.operator.party_id)
        head, number, tail = made.secret.split("_", 2)
        assert made.key.prefix == f"{head}_{number}_{tail[:4]}"
        flipped = ("B" if tail[0] == "A" else "A") + tail[1:]
        for wrong in (
            "",
            "bursa",
            f"{head}_{number}_{flipped}",
            f"{head}_999_{tail}",
            f"{made.secret}x",
            f" {made.secret}",
        ):
            assert await refuse_key(world, wrong) == "UNAUTHENTICATED"
        # What is in memory opens no more than what is read.
        assert await refuse_key(world, f"{head}_{number}_{flipped}") == "UNAUTHENTICATED"

    play(database, scene)


def test_a_revoked_key_stops_at_once_in_every_process(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        made = await services.create_key(exchange, world.operator, wire.KeyRequest("k", [Scope.READ]))
        await services.authenticate(exchange, made.secret)
        other = KeyCache(database.dsn("app"))
        await other.start()
        await other.wait_live()
        elsewhere = services.Exchange(
            exchange.node, exchange.view, exchange.reader, exchange.writer, other, clock=world.clock
        )
        await services.authenticate(elsewhere, made.secret)
        number = wire.parse_id("key", made.key.id)
        assert other.get(number) is not None
        revoked = await services.revoke_key(exchange, world.operator, made.key.id)
        assert revoked.revoked_at == NOON
        assert await refuse_key(world, made.secret) == "KEY_REVOKED"
        async with asyncio.timeout(5):
            while other.get(number) is not None:  # noqa: ASYNC110 - the notice comes from another process
                await asyncio.sleep(0)
        with pytest.raises(services.UnauthenticatedError):
            await services.authenticate(elsewhere, made.secret)
        await other.stop()
        assert (await services.revoke_key(exchange, world.operator, made.key.id)).revoked_at == NOON

    play(database, scene)


def test_while_nobody_listens_every_request_reads_its_key(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        made = await services.create_key(exchange, world.operator, wire.KeyRequest("k", [Scope.READ]))
        await services.authenticate(exchange, made.secret)
        await exchange.keys.stop()
        async with exchange.writer.connection() as connection:
            await connection.execute("UPDATE bursa.api_keys SET revoked_at = now() WHERE name = 'k'")
        assert not exchange.keys.is_live
        assert await refuse_key(world, made.secret) == "KEY_REVOKED"

    play(database, scene)


def test_what_was_read_before_a_change_is_not_remembered_after_it(database: Database) -> None:
    async def scene(world: World) -> None:
        keys = world.exchange.keys
        number = world.operator.key_id
        known = keys.get(number)
        assert known is not None
        generation = keys.generation
        keys.forget(number)
        keys.put(number, known, generation)
        assert keys.get(number) is None
        keys.put(number, known, keys.generation)
        assert keys.get(number) is known

    play(database, scene)


def test_a_key_expires_in_memory_too(database: Database) -> None:
    async def scene(world: World) -> None:
        expires_at = NOON + timedelta(hours=1)
        request = wire.KeyRequest("k", [Scope.READ], expires_at=expires_at)
        made = await services.create_key(world.exchange, world.operator, request)
        await services.authenticate(world.exchange, made.secret)
        world.clock.at_ns += 3_600 * 10**9
        assert await refuse_key(world, made.secret) == "KEY_EXPIRED"

    play(database, scene)


def test_a_key_makes_only_lesser_keys(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        latest = NOON + timedelta(days=1)
        scopes = [Scope.ADMIN, Scope.READ, Scope.TRADE]
        request = wire.KeyRequest("maker", scopes, daily_cap="10", expires_at=latest)
        party = (await services.register_party(exchange, world.operator, wire.PartyRequest("Anna"))).body
        made = await services.create_party_key(exchange, world.operator, party.id, request)
        maker = await services.authenticate(exchange, made.secret)
        assert not maker.is_operator
        too_much = [
            (wire.KeyRequest("k", [Scope.SELL], daily_cap="1", expires_at=latest), "scopes"),
            (wire.KeyRequest("k", [Scope.TRADE], daily_cap="1", expires_at=latest), "scopes"),
            (wire.KeyRequest("k", [Scope.READ], daily_cap="10.01", expires_at=latest), "daily_cap"),
            (wire.KeyRequest("k", [Scope.READ], expires_at=latest), "daily_cap"),
            (wire.KeyRequest("k", [Scope.READ], daily_cap="1"), "expires_at"),
            (wire.KeyRequest("k", [Scope.READ], daily_cap="1", expires_at=latest + timedelta(seconds=1)), "expires_at"),
        ]
        for wish, field in too_much:
            with pytest.raises(services.ForbiddenError) as refused:
                await services.create_key(exchange, maker, wish)
            assert refused.value.field == field
        past = wire.KeyRequest("k", [Scope.READ], daily_cap="1", expires_at=NOON)
        with pytest.raises(services.RefusedError, match="a time to come"):
            await services.create_key(exchange, maker, past)
        lesser = await services.create_key(
            exchange, maker, wire.KeyRequest("k", [Scope.READ], daily_cap="1", expires_at=latest)
        )
        assert [key.name for key in (await services.list_keys(exchange, maker)).items] == ["k", "maker"]
        child = await services.authenticate(exchange, lesser.secret)
        with pytest.raises(services.ForbiddenError):
            await services.list_keys(exchange, child)
        # Another party's key is not there.
        bruno = await world.party("Bruno")
        for number in (made.key.id, "key_999"):
            with pytest.raises(services.NotFoundError):
                await services.revoke_key(exchange, bruno, number)

    play(database, scene)


def test_whoami_tells_the_party_and_its_standing(database: Database) -> None:
    async def scene(world: World) -> None:
        anna = await world.party()
        shown = wire.show_id("party", anna.party_id)
        await services.suspend_party(world.exchange, world.operator, shown)
        me = await services.whoami(world.exchange, anna)
        assert (me.party, me.name, me.is_suspended, me.is_operator) == (shown, "Anna", True, False)
        assert me.key.last_used_at == NOON
        assert (await services.whoami(world.exchange, world.operator)).is_operator

    play(database, scene)
