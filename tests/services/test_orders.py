"""Orders as their owner and nobody else sees them."""

import pytest

from bursa import services, wire
from bursa.market import OrderState, Side, TimeInForce
from bursa.money import Currency
from bursa.wire import Amount, Scope
from tests.postgres import Database
from tests.services.world import World, play

BID = wire.BidRequest("h100-sxm", gpus=2, hours=4, limit_price="3.00")


def test_a_bid_is_shown_from_its_answer_as_the_tables_show_it(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna, gamma = await world.funded(), await world.party("Gamma")
        await world.ask(gamma, "2.88", gpus=4)
        placed = await services.place_bid(
            exchange, anna, wire.BidRequest("h100-sxm", gpus=2, hours=4, limit_price="3.00", lots=3)
        )
        order = placed.body
        assert (order.state, order.filled, order.leaves) == (OrderState.PARTIALLY_FILLED, 2, 1)
        # One lot of 2 GPUs for 4 hours at US$3.00 and 19 %: 3.57 × 8.
        assert order.held == Amount("28.56", Currency.USD)
        assert [fill.price for fill in order.fills] == ["2.88", "2.88"]
        assert await services.show_order(exchange, anna, order.id) == order

    play(database, scene)


def test_a_repeat_has_the_same_body_and_says_so(database: Database) -> None:
    async def scene(world: World) -> None:
        await world.book()
        anna = await world.funded()
        first = await services.place_bid(world.exchange, anna, BID, idempotency_key="k1")
        await services.cancel_order(world.exchange, anna, first.body.id)
        again = await services.place_bid(world.exchange, anna, BID, idempotency_key="k1")
        assert (first.is_repeat, again.is_repeat) == (False, True)
        assert again.body == first.body
        other = wire.BidRequest("h100-sxm", gpus=1, hours=4, limit_price="3.00")
        with pytest.raises(services.RefusedError) as refused:
            await services.place_bid(world.exchange, anna, other, idempotency_key="k1")
        assert refused.value.problem_code == "EXISTS_WITH_DIFFERENT_FIELDS"
        assert refused.value.field == "Idempotency-Key"

    play(database, scene)


def test_a_foreign_order_is_not_found_open_or_closed(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna, bruno = await world.funded(), await world.funded("Bruno")
        order = (await services.place_bid(exchange, anna, BID)).body
        texts = []
        for number, is_closed in ((order.id, False), (order.id, True), ("ord_999", True)):
            if is_closed and number == order.id:
                await services.cancel_order(exchange, anna, order.id)
            for use_case in (services.show_order, services.cancel_order):
                with pytest.raises(services.NotFoundError) as missing:
                    await use_case(exchange, bruno, number)
                texts.append(str(missing.value).replace(number, "X"))
            with pytest.raises(services.NotFoundError):
                await services.amend_bid(exchange, bruno, number, wire.BidAmendment("3.00", 1))
            batch = await services.place_many(exchange, bruno, wire.BatchRequest([wire.BatchItem(cancel=number)]))
            assert batch.body.results[0].status == 404
        assert len(set(texts)) == 1

    play(database, scene)


def test_own_closed_order_says_that_it_is_closed(database: Database) -> None:
    async def scene(world: World) -> None:
        await world.book()
        anna = await world.funded()
        order = (await services.place_bid(world.exchange, anna, BID)).body
        canceled = (await services.cancel_order(world.exchange, anna, order.id)).body
        assert (canceled.state, canceled.canceled, canceled.held) == (OrderState.CANCELED, 1, None)
        assert canceled.closed_at is not None
        with pytest.raises(services.RefusedError) as refused:
            await services.cancel_order(world.exchange, anna, order.id)
        assert refused.value.problem_code == "ORDER_ALREADY_CLOSED"

    play(database, scene)


def test_scopes_come_first(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        reader = await world.party("Reader", scopes=frozenset({Scope.READ}))
        with pytest.raises(services.ForbiddenError, match="scope trade"):
            await services.place_bid(exchange, reader, BID)
        with pytest.raises(services.ForbiddenError, match="scope trade"):
            await services.place_many(exchange, reader, wire.BatchRequest([wire.BatchItem(bid=BID)]))
        with pytest.raises(services.ForbiddenError, match="scope sell"):
            await services.place_ask(exchange, reader, wire.AskRequest([], "1"))
        with pytest.raises(services.ForbiddenError, match="scope trade"):
            await services.cancel_order(exchange, reader, "ord_1")
        with pytest.raises(services.ForbiddenError, match="key of the operator"):
            await services.open_book(exchange, reader, "all")

    play(database, scene)


def test_refusals_speak_of_decimals_times_and_the_fields_of_the_wire(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna = await world.funded(amount="10")
        with pytest.raises(services.RefusedError) as short:
            await services.place_bid(exchange, anna, BID)
        assert short.value.problem_code == "INSUFFICIENT_FUNDS"
        assert short.value.shortfall == Amount("18.56", Currency.USD)
        assert short.value.expected == "18.56 more in USD"
        problem = services.problem_of(short.value, trace_id="t")
        assert (problem.status, problem.type) == (402, "urn:bursa:problem:insufficient-funds")
        off_tick = wire.BidRequest("h100-sxm", gpus=1, hours=1, limit_price="3.0001")
        with pytest.raises(services.RefusedError) as refused:
            await services.place_bid(exchange, anna, off_tick)
        assert (refused.value.field, refused.value.value) == ("limit_price", "3.0001")
        assert refused.value.expected == "a multiple of US$0.001"
        past = wire.show_time(world.clock.at_ns - 1_000_000)
        gone = wire.BidRequest("h100-sxm", 1, 1, "3", time_in_force=TimeInForce.GTD, expires_at=past)
        with pytest.raises(services.RefusedError) as refused:
            await services.place_bid(exchange, anna, gone)
        assert (refused.value.field, refused.value.expected) == ("expires_at", "later than 2026-12-01T12:00:00Z")

    play(database, scene)


def test_an_ask_is_shown_amended_and_withdrawn(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        gamma, anna = await world.party("Gamma"), await world.funded()
        ask = await world.ask(gamma, "2.88", gpus=8)
        assert (ask.side, ask.quantity, ask.leaves, ask.filled) == (Side.SELL, 8, 8, 0)
        await services.place_bid(exchange, anna, BID)
        sold = await services.show_order(exchange, gamma, ask.id)
        assert (sold.leaves, sold.filled, len(sold.fills)) == (6, 2, 1)
        host = ask.offers[0].host
        amended = await services.amend_ask(exchange, gamma, ask.id, wire.AskAmendment("3.10", [wire.Offer(host, 4)]))
        assert (amended.body.price, amended.body.quantity) == ("3.10", 4)
        assert (await services.show_host(exchange, gamma, host)).ask == ask.id
        withdrawn = await services.cancel_order(exchange, gamma, ask.id)
        assert withdrawn.body.state is OrderState.CANCELED
        other = await world.party("Delta")
        with pytest.raises(services.RefusedError) as refused:
            await services.place_ask(exchange, other, wire.AskRequest([wire.Offer(host, 1)], "3"))
        with pytest.raises(services.RefusedError) as unknown:
            await services.place_ask(exchange, other, wire.AskRequest([wire.Offer("hst_999", 1)], "3"))
        told = [(error.value.problem_code, error.value.field, error.value.expected) for error in (refused, unknown)]
        assert told == [("UNKNOWN_HOST", "offers.host", "the id of a host of yours")] * 2

    play(database, scene)


def test_a_batch_answers_each_item_and_can_be_sent_again(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna = await world.funded(amount="100")
        first = (await services.place_bid(exchange, anna, BID)).body
        request = wire.BatchRequest(
            [
                wire.BatchItem(bid=BID),
                wire.BatchItem(cancel=first.id),
                wire.BatchItem(bid=wire.BidRequest("h100-sxm", 8, 720, "9.00")),
                wire.BatchItem(),
                wire.BatchItem(cancel="ord_x"),
                wire.BatchItem(bid=BID, idempotency_key="own"),
            ]
        )
        reply = await services.place_many(exchange, anna, request, idempotency_key="batch")
        assert [result.status for result in reply.body.results] == [201, 200, 402, 422, 422, 201]
        assert reply.body.results[1].order is not None
        assert reply.body.results[1].order.state is OrderState.CANCELED
        again = await services.place_many(exchange, anna, request, idempotency_key="batch")
        assert [result.status for result in again.body.results] == [201, 200, 402, 422, 422, 201]
        assert [r.order for r in again.body.results] == [r.order for r in reply.body.results]
        # An item with a key of its own is the same request as one that comes alone.
        alone = await services.place_bid(exchange, anna, BID, idempotency_key="own")
        assert alone.is_repeat
        assert alone.body == reply.body.results[5].order

    play(database, scene)


def test_lists_have_pages_and_filters(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna, bruno = await world.funded(amount="100000"), await world.funded("Bruno")
        orders = [(await services.place_bid(exchange, anna, BID)).body.id for _ in range(5)]
        await services.place_bid(exchange, bruno, BID)
        await services.cancel_order(exchange, anna, orders[0])
        page = await services.list_orders(exchange, anna, limit=2)
        seen = [order.id for order in page.items]
        while page.next is not None:
            page = await services.list_orders(exchange, anna, limit=2, cursor=page.next)
            seen += [order.id for order in page.items]
        assert seen == orders[::-1]
        shut = await services.list_orders(exchange, anna, state="closed")
        assert [order.id for order in shut.items] == [orders[0]]
        assert len((await services.list_orders(exchange, anna, state="open", side=Side.BUY)).items) == 4
        assert (await services.list_orders(exchange, anna, instrument="other")).items == []
        with pytest.raises(services.RefusedError) as refused:
            await services.list_orders(exchange, anna, state="lost")
        assert refused.value.field == "state"
        with pytest.raises(services.RefusedError) as refused:
            await services.list_orders(exchange, anna, cursor="xy")
        assert refused.value.problem_code == "INVALID_CURSOR"

    play(database, scene)
