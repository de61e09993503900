"""Rentals and hosts: buyer and seller see theirs, nobody else sees anything."""

import pytest

from bursa import services, wire
from bursa.market import EndReason, HostState, RentalState
from bursa.services import Actor
from bursa.wire import Scope
from tests.postgres import Database
from tests.services.world import World, play


async def rent(world: World, gpus: int = 1) -> tuple[Actor, Actor, str]:
    await world.book()
    anna, gamma = await world.funded(), await world.party("Gamma")
    await world.ask(gamma, gpus=8)
    bid = wire.BidRequest("h100-sxm", gpus=gpus, hours=4, limit_price="3.00")
    order = (await services.place_bid(world.exchange, anna, bid)).body
    return anna, gamma, order.fills[0].rental


def test_both_sides_see_a_rental_and_nobody_else(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna, gamma, rental = await rent(world)
        mine = await services.show_rental(exchange, anna, rental)
        theirs = await services.show_rental(exchange, gamma, rental)
        assert (mine.role, theirs.role) == ("BUYER", "SELLER")
        assert mine.state is RentalState.OPENED
        assert mine.start_by is not None
        assert mine.held is not None
        assert (theirs.held, theirs.cost) == (None, None)
        assert theirs.order != mine.order
        bruno = await world.funded("Bruno")
        for number in (rental, "rnt_999"):
            with pytest.raises(services.NotFoundError):
                await services.show_rental(exchange, bruno, number)
            with pytest.raises(services.NotFoundError):
                await services.stop_rental(exchange, bruno, number)
        # The seller is no renter, and the renter no seller.
        with pytest.raises(services.NotFoundError):
            await services.stop_rental(exchange, gamma, rental)
        with pytest.raises(services.NotFoundError):
            await services.reclaim_rental(exchange, anna, rental)

    play(database, scene)


def test_a_foreign_rental_stays_unknown_once_it_is_over(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna, gamma, rental = await rent(world)
        await world.start(rental)
        stopped = await services.stop_rental(exchange, anna, rental)
        assert (stopped.body.state, stopped.body.reason) == (RentalState.ENDED, EndReason.STOPPED_BY_RENTER)
        assert stopped.body.ended_at is not None
        with pytest.raises(services.RefusedError) as over:
            await services.stop_rental(exchange, anna, rental)
        assert over.value.problem_code == "RENTAL_ALREADY_ENDED"
        bruno = await world.funded("Bruno")
        with pytest.raises(services.NotFoundError):
            await services.stop_rental(exchange, bruno, rental)
        assert [r.id for r in (await services.list_rentals(exchange, anna, state="over")).items] == [rental]
        assert (await services.list_rentals(exchange, anna, state="live")).items == []
        assert (await services.list_rentals(exchange, anna, role="SELLER")).items == []
        assert [r.role for r in (await services.list_rentals(exchange, gamma)).items] == ["SELLER"]
        with pytest.raises(services.RefusedError):
            await services.list_rentals(exchange, anna, role="LANDLORD")

    play(database, scene)


def test_a_seller_reclaims_and_an_operator_ends(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna, gamma, rental = await rent(world)
        reclaimed = (await services.reclaim_rental(exchange, gamma, rental)).body
        assert (reclaimed.state, reclaimed.reason) == (RentalState.FAILED, EndReason.HOST_RECLAIMED)
        hosts = (await services.list_hosts(exchange, gamma)).items
        assert hosts[0].state is HostState.SUSPENDED
        await services.check_host(exchange, world.operator, hosts[0].id, wire.CheckRequest(is_verified=True))
        bid = wire.BidRequest("h100-sxm", gpus=1, hours=4, limit_price="3.00")
        other = (await services.place_bid(exchange, anna, bid)).body.fills[0].rental
        done = await services.end_rental(exchange, world.operator, other, wire.EndRentalRequest(EndReason.POLICY))
        assert done.body.id == other
        assert (await services.show_rental(exchange, anna, other)).reason is EndReason.POLICY
        with pytest.raises(services.NotFoundError):
            await services.end_rental(exchange, world.operator, "rnt_999", wire.EndRentalRequest())

    play(database, scene)


def test_auto_extension_is_set_and_taken_off(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna, _, rental = await rent(world)
        await world.start(rental)
        await services.set_auto_extend(exchange, anna, rental, wire.AutoExtendRequest(1, "2.88", "4"))
        await world.pass_hours(4)
        assert (await services.show_rental(exchange, anna, rental)).hours == 5
        await services.set_auto_extend(exchange, anna, rental, wire.AutoExtendRequest(0))
        await world.pass_hours(1)
        ended = await services.show_rental(exchange, anna, rental)
        assert (ended.state, ended.charged_hours) == (RentalState.ENDED, 5)

    play(database, scene)


def test_hosts_belong_to_their_seller(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        gamma, delta = await world.party("Gamma"), await world.party("Delta")
        request = wire.HostRequest("h100-sxm", wire.HostFacts(gpus=8, country="DE", region="EU"))
        host = (await services.list_host(exchange, gamma, request)).body
        assert (host.state, host.reliability, host.ask, host.spec) == (HostState.UNCHECKED, 900, None, request.spec)
        for number in (host.id, "hst_999"):
            with pytest.raises(services.NotFoundError):
                await services.show_host(exchange, delta, number)
            with pytest.raises(services.NotFoundError):
                await services.retire_host(exchange, delta, number)
        assert (await services.list_hosts(exchange, delta)).items == []
        assert (await services.retire_host(exchange, gamma, host.id)).body.is_retired
        played = wire.HostRequest("h100-sxm", wire.HostFacts(gpus=1, country="DE", driver="simulated"))
        with pytest.raises(services.RefusedError, match="container or process"):
            await services.list_host(exchange, gamma, played)
        unknown = wire.HostRequest("no-such-gpu", request.spec)
        with pytest.raises(services.RefusedError) as refused:
            await services.list_host(exchange, gamma, unknown)
        assert refused.value.problem_code == "UNKNOWN_INSTRUMENT"
        reader = await world.party("Reader", scopes=frozenset({Scope.READ}))
        with pytest.raises(services.ForbiddenError):
            await services.list_host(exchange, reader, request)

    play(database, scene)
