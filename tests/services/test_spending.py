"""A key's daily cap holds whatever comes at once, and counts each order once."""

import asyncio

import pytest

from bursa import services, wire
from bursa.market import TimeInForce
from bursa.services import Actor, spending
from bursa.wire import Scope
from tests.postgres import Database
from tests.services.world import HOUR_NS, World, play

#: 1 GPU for 1 hour at US$3: the cap of 10 has room for three.
BID = wire.BidRequest("h100-sxm", gpus=1, hours=1, limit_price="3.00")


async def capped(world: World, cap: str = "10") -> Actor:
    await world.book()
    anna = await world.funded()
    request = wire.KeyRequest("capped", [Scope.TRADE, Scope.READ], daily_cap=cap)
    return await services.authenticate(
        world.exchange, (await services.create_key(world.exchange, anna, request)).secret
    )


async def spent(world: World) -> int:
    async with world.exchange.writer.connection() as connection:
        row = await (await connection.execute("SELECT sum(micros)::bigint FROM bursa.key_spending")).fetchone()
    return (row[0] if row else 0) or 0


def test_many_at_once_never_spend_more_than_the_cap(database: Database) -> None:
    async def scene(world: World) -> None:
        actor = await capped(world)
        results = await asyncio.gather(
            *(services.place_bid(world.exchange, actor, BID) for _ in range(12)), return_exceptions=True
        )
        placed = [result for result in results if isinstance(result, services.Reply)]
        over = [result for result in results if isinstance(result, services.RefusedError)]
        assert (len(placed), len(over)) == (3, 9)
        assert {error.problem_code for error in over} == {"SPENDING_CAP_REACHED"}
        assert await spent(world) == 9_000_000
        # The next day starts anew.
        world.clock.at_ns += 24 * HOUR_NS
        await services.place_bid(world.exchange, actor, BID)

    play(database, scene)


def test_a_retry_counts_once_and_a_refusal_not_at_all(database: Database) -> None:
    async def scene(world: World) -> None:
        actor = await capped(world)
        for _ in range(3):
            await services.place_bid(world.exchange, actor, BID, idempotency_key="same")
        assert await spent(world) == 3_000_000
        nothing = wire.BidRequest("h100-sxm", 1, 1, "3", time_in_force=TimeInForce.IOC)
        with pytest.raises(services.RefusedError, match="an ask within the limit"):
            await services.place_bid(world.exchange, actor, nothing)
        assert await spent(world) == 3_000_000
        # A retry after midnight still counts on the day before.
        world.clock.at_ns += 13 * HOUR_NS
        again = await services.place_bid(world.exchange, actor, BID, idempotency_key="same")
        assert again.is_repeat
        assert await spent(world) == 3_000_000

    play(database, scene)


def test_a_repeat_of_another_keys_order_costs_this_key_nothing(database: Database) -> None:
    async def scene(world: World) -> None:
        actor = await capped(world)
        owner = Actor(actor.party_id, actor.key_id + 1_000, actor.scopes)
        await services.place_bid(world.exchange, owner, BID, idempotency_key="first")
        again = await services.place_bid(world.exchange, actor, BID, idempotency_key="first")
        assert again.is_repeat
        assert await spent(world) == 0

    play(database, scene)


def test_a_batch_goes_as_far_as_the_cap(database: Database) -> None:
    async def scene(world: World) -> None:
        actor = await capped(world)
        request = wire.BatchRequest([wire.BatchItem(bid=BID)] * 5)
        reply = await services.place_many(world.exchange, actor, request)
        assert [result.status for result in reply.body.results] == [201, 201, 201, 403, 403]
        problem = reply.body.results[3].problem
        assert problem is not None
        assert problem.code == "SPENDING_CAP_REACHED"

    play(database, scene)


def test_more_of_a_bid_and_more_hours_of_a_rental_count_too(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        actor = await capped(world)
        order = (await services.place_bid(exchange, actor, BID)).body
        with pytest.raises(services.RefusedError) as over:
            await services.amend_bid(exchange, actor, order.id, wire.BidAmendment("3.00", 4))
        assert over.value.problem_code == "SPENDING_CAP_REACHED"
        await services.amend_bid(exchange, actor, order.id, wire.BidAmendment("3.00", 2))
        assert await spent(world) == 6_000_000
        await services.cancel_order(exchange, actor, order.id)
        assert await spent(world) == 6_000_000
        await world.ask(await world.party("Gamma"), "2.00")
        filled = (await services.place_bid(exchange, actor, wire.BidRequest("h100-sxm", 1, 1, "2.00"))).body
        rental = filled.fills[0].rental
        for wish in (wire.ExtendRequest(2, "2.00"), wire.ExtendRequest(1, "2.001")):
            with pytest.raises(services.RefusedError) as over:
                await services.extend_rental(exchange, actor, rental, wish)
            assert over.value.problem_code == "SPENDING_CAP_REACHED"
        with pytest.raises(services.RefusedError) as over:
            await services.set_auto_extend(exchange, actor, rental, wire.AutoExtendRequest(1, "2.00", "2.01"))
        assert over.value.problem_code == "SPENDING_CAP_REACHED"
        extended = await services.extend_rental(exchange, actor, rental, wire.ExtendRequest(1, "2.00"))
        assert extended.body.hours == 2
        assert await spent(world) == 10_000_000

    play(database, scene)


def test_items_of_a_batch_that_share_a_key_cost_what_the_dearest_may(database: Database) -> None:
    """Only one of them is carried out, and the last one's cost says nothing about the first one's."""

    async def scene(world: World) -> None:
        actor = await capped(world)
        dear = wire.BidRequest("h100-sxm", gpus=1, hours=100, limit_price="3.00")
        items = [wire.BatchItem(bid=bid, idempotency_key="same") for bid in (dear, BID)]
        reply = await services.place_many(world.exchange, actor, wire.BatchRequest(items))
        assert [result.status for result in reply.body.results] == [403, 403]
        # A repeat in the same batch gives nothing back of what the first of them cost.
        items = [wire.BatchItem(bid=BID, idempotency_key="twice")] * 2
        reply = await services.place_many(world.exchange, actor, wire.BatchRequest(items))
        assert [result.status for result in reply.body.results] == [201, 201]
        assert await spent(world) == 3_000_000

    play(database, scene)


def test_requests_that_share_a_key_do_not_lean_on_each_others_reservation(database: Database) -> None:
    """A cheap bid that the market refuses may not hold the door open for a dear one under the same key."""

    async def scene(world: World) -> None:
        actor = await capped(world)
        cheap = wire.BidRequest("h100-sxm", 1, 1, "0.01", time_in_force=TimeInForce.FOK)
        dear = wire.BidRequest("h100-sxm", gpus=1, hours=100, limit_price="3.00")
        for number in range(20):
            results = await asyncio.gather(
                *(
                    services.place_bid(world.exchange, actor, bid, idempotency_key=f"shared-{number}")
                    for bid in (cheap, dear, dear)
                ),
                return_exceptions=True,
            )
            assert not [result for result in results if isinstance(result, services.Reply)]
        assert await spent(world) == 0
        # The same bid at once: one is carried out, the others repeat it, and it counts once.
        results = await asyncio.gather(
            *(services.place_bid(world.exchange, actor, BID, idempotency_key="once") for _ in range(8)),
            return_exceptions=True,
        )
        assert {type(result) for result in results} == {services.Reply}
        assert await spent(world) == 3_000_000

    play(database, scene)


def test_what_a_lost_try_has_reserved_leaves_room_for_the_next(database: Database) -> None:
    async def scene(world: World) -> None:
        actor = await capped(world, "4")
        # As a process leaves it that was killed between reservation and answer.
        assert await spending.reserve(world.exchange, actor, [(f"{actor.party_id}:again", 3_000_000)]) is not None
        reply = await services.place_bid(world.exchange, actor, BID, idempotency_key="again")
        assert not reply.is_repeat
        assert await spent(world) == 3_000_000

    play(database, scene)


def test_more_lots_are_not_paid_for_by_a_lower_limit(database: Database) -> None:
    """Filled lots have cost the old limit already: a lower one makes none of that free again."""

    async def scene(world: World) -> None:
        actor = await capped(world)
        bid = wire.BidRequest("h100-sxm", 1, 1, "3.00", lots=3)
        await world.ask(await world.party("Gamma"), "3.00", gpus=2)
        order = (await services.place_bid(world.exchange, actor, bid)).body
        assert order.filled == 2
        with pytest.raises(services.RefusedError) as over:
            await services.amend_bid(world.exchange, actor, order.id, wire.BidAmendment("1.50", 6))
        assert over.value.problem_code == "SPENDING_CAP_REACHED"
        await services.amend_bid(world.exchange, actor, order.id, wire.BidAmendment("1.50", 3))
        assert await spent(world) == 9_000_000

    play(database, scene)
