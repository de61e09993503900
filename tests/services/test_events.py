"""A party follows its own happenings, all of them, once each, and nobody else's."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bursa import services, wire
from bursa.money import Currency
from bursa.services import Actor
from bursa.services.events import REPLAY_RECORDS_MAX
from bursa.wire import OwnEventKind, OwnEvents
from tests.postgres import Database
from tests.services.world import World, play

BID = wire.BidRequest("h100-sxm", gpus=1, hours=2, limit_price="3.00")


async def take(events: AsyncIterator[OwnEvents], until_seq: int) -> list[OwnEvents]:
    found: list[OwnEvents] = []
    async with asyncio.timeout(10):
        async for own in events:
            found.append(own)
            if own.seq >= until_seq:
                return found
    return found


async def live_through(world: World, buyer: Actor, seller: Actor) -> None:
    """Ask, bid, start, let two hours pass."""
    await world.ask(seller)
    order = (await services.place_bid(world.exchange, buyer, BID)).body
    await world.start(order.fills[0].rental)
    await world.pass_hours(2)


def kinds(items: list[OwnEvents]) -> list[str]:
    return [event.kind.value for own in items for event in own.events]


def test_both_sides_of_a_rental_hear_their_part(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna, gamma = await world.funded(), await world.party("Gamma")
        start = exchange.node.seq
        await live_through(world, anna, gamma)
        # The two hours fall due in the record before the one that made time pass.
        newest = exchange.node.seq - 1
        heard = await take(services.own_events(exchange, anna, after_seq=start), newest)
        assert kinds(heard) == [
            "ORDER_PLACED", "FUNDS", "FILL", "RENTAL_OPENED", "FUNDS", "ORDER_CLOSED",
            "RENTAL_STARTED", "RENTAL_CHARGED", "RENTAL_ENDED",
        ]  # fmt: skip
        told = await take(services.own_events(exchange, gamma, after_seq=start), newest)
        assert kinds(told) == [
            "HOST_LISTED", "HOST_CHANGED", "ORDER_PLACED", "FILL", "RENTAL_OPENED",
            "RENTAL_STARTED", "FUNDS", "RENTAL_CHARGED", "RENTAL_ENDED",
        ]  # fmt: skip
        funds = [event for own in told for event in own.events if event.kind is OwnEventKind.FUNDS]
        assert funds[0].funds == [wire.FundsChange("seller_pending", "5.184", Currency.USD)]
        bruno = await world.party("Bruno")
        await services.top_up(exchange, bruno, wire.TopUpRequest("10", Currency.USD))
        alone = await take(services.own_events(exchange, bruno, after_seq=0), exchange.node.seq)
        assert kinds(alone) == ["FUNDS"]

    play(database, scene)


def test_what_is_heard_from_the_log_and_live_is_the_same(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna, gamma = await world.funded(), await world.party("Gamma")
        start = exchange.node.seq
        heard: list[OwnEvents] = []

        async def follow() -> None:
            async for own in services.own_events(exchange, anna):
                heard.append(own)  # noqa: PERF401 - it is canceled while it waits for more

        live = asyncio.create_task(follow())
        async with asyncio.timeout(10):
            while not exchange.feed.subscribers:  # noqa: ASYNC110 - nothing tells of a subscription
                await asyncio.sleep(0.005)
        await live_through(world, anna, gamma)
        newest = exchange.node.seq - 1
        rest = await take(services.own_events(exchange, anna, after_seq=start), newest)
        exchange.feed._ring.clear()
        from_log = await take(services.own_events(exchange, anna, after_seq=start), newest)
        assert from_log == rest
        assert heard == rest
        live.cancel()
        half = rest[len(rest) // 2 - 1]
        assert await take(services.own_events(exchange, anna, after_seq=half.seq), newest) == rest[len(rest) // 2 :]

    monkeypatch.setattr("bursa.services.events.REPLAY_CHUNK", 2)
    play(database, scene)


def test_a_reader_who_comes_late_is_told_so(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna = await world.party()
        exchange.feed.seq += REPLAY_RECORDS_MAX + 1
        with pytest.raises(services.RefusedError) as refused:
            await anext(services.own_events(exchange, anna, after_seq=0))
        exchange.feed.seq -= REPLAY_RECORDS_MAX + 1
        assert refused.value.problem_code == "EVENTS_TOO_OLD"

    play(database, scene)


def test_a_place_that_the_log_has_not_reached_is_refused(database: Database) -> None:
    """As after a restored backup, or with the id of another exchange: else the stream would stay silent for ever."""

    async def scene(world: World) -> None:
        anna = await world.funded()
        newest = world.exchange.node.seq
        with pytest.raises(services.RefusedError) as refused:
            await anext(services.own_events(world.exchange, anna, after_seq=newest + 1))
        assert (refused.value.problem_code, refused.value.field) == ("INVALID_FIELD", "Last-Event-ID")

    play(database, scene)
