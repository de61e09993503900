"""What everybody may see: no key, no names, demo offers marked as such."""

from datetime import timedelta

import pytest

from bursa import services, wire
from bursa.market import CheckHost, Done, HostSpec, ListHost
from bursa.services.market import CANDLES_MAX
from bursa.wire import Level
from tests.postgres import Database
from tests.services.world import NOON, World, play

BID = wire.BidRequest("h100-sxm", gpus=1, hours=2, limit_price="3.00")


async def trade(world: World, count: int, price: str = "3.00") -> None:
    anna = await world.funded(f"Anna {price}", "10000")
    for _ in range(count):
        await services.place_bid(world.exchange, anna, wire.BidRequest("h100-sxm", 1, 2, price))
        world.clock.at_ns += 60 * 10**9


def test_tickers_and_books_show_prices_and_nobody(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        await services.list_instrument(exchange, world.operator, wire.InstrumentRequest("a100", "1.5"))
        gamma, anna = await world.party("Gamma"), await world.funded()
        await world.ask(gamma, "2.88", gpus=4)
        await services.place_bid(exchange, anna, wire.BidRequest("h100-sxm", 2, 1, "2.00", lots=3))
        ticker = await services.show_ticker(exchange, "h100-sxm")
        assert (ticker.best_ask, ticker.best_bid, ticker.gpus_on_sale, ticker.gpus_wanted) == ("2.88", "2.00", 4, 6)
        assert (ticker.last_price, ticker.is_demo) == (None, False)
        book = await services.show_book(exchange, "h100-sxm")
        assert (book.bids, book.asks) == ([Level("2.00", 6)], [Level("2.88", 4)])
        assert [t.instrument for t in (await services.list_tickers(exchange)).items] == ["h100-sxm", "a100"]
        for use_case in (services.show_ticker, services.show_book, services.list_trades, services.list_candles):
            with pytest.raises(services.NotFoundError):
                await use_case(exchange, "no-such-gpu")
        with pytest.raises(services.RefusedError):
            await services.show_book(exchange, "h100-sxm", levels=0)

    play(database, scene)


def test_demo_offers_are_marked_wherever_they_show(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        seller, anna = await world.party("Demo"), await world.funded()
        spec = HostSpec(gpus=8, country="DE", driver="simulated")
        listed = await exchange.node.submit(
            ListHost(command_id="d1", party_id=seller.party_id, instrument="h100-sxm", spec=spec)
        )
        assert isinstance(listed.result, Done), listed
        await exchange.node.submit(CheckHost(command_id="d2", host_id=listed.result.id))
        host = wire.show_id("host", listed.result.id)
        await services.place_ask(exchange, seller, wire.AskRequest([wire.Offer(host, 8)], "2.88"))
        assert (await services.show_ticker(exchange, "h100-sxm")).is_demo
        assert (await services.show_book(exchange, "h100-sxm")).asks == [Level("2.88", 8, is_demo=True)]
        rental = (await services.place_bid(exchange, anna, BID)).body.fills[0].rental
        assert (await services.show_rental(exchange, anna, rental)).is_demo
        assert (await services.list_trades(exchange, "h100-sxm")).items[0].is_demo
        assert (await services.show_host(exchange, seller, host)).is_demo

    play(database, scene)


def test_trades_have_pages(database: Database) -> None:
    async def scene(world: World) -> None:
        await world.book()
        await world.ask(await world.party("Gamma"), "2.88")
        await trade(world, 3)
        page = await services.list_trades(world.exchange, "h100-sxm", limit=2)
        rest = await services.list_trades(world.exchange, "h100-sxm", limit=2, cursor=page.next)
        shown = [(t.id, t.price, t.taker) for t in page.items + rest.items]
        assert shown == [("trd_3", "2.88", "BUY"), ("trd_2", "2.88", "BUY"), ("trd_1", "2.88", "BUY")]
        assert rest.next is None
        with pytest.raises(services.RefusedError) as refused:
            await services.list_orders(world.exchange, world.operator, cursor=page.next)
        assert refused.value.problem_code == "INVALID_CURSOR"

    play(database, scene)


def test_candles_add_up_minutes(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        gamma = await world.party("Gamma")
        await world.ask(gamma, "2.00", gpus=1)
        await trade(world, 1)
        await world.ask(gamma, "2.50", gpus=1)
        await trade(world, 1, "2.60")
        minutes = (await services.list_candles(exchange, "h100-sxm")).items
        assert [(c.start, c.open, c.gpu_hours, c.trades) for c in minutes] == [
            (NOON, "2.00", 2, 1), (NOON + timedelta(minutes=1), "2.50", 2, 1),
        ]  # fmt: skip
        (hour,) = (await services.list_candles(exchange, "h100-sxm", interval="1h")).items
        assert (hour.start, hour.open, hour.high, hour.low, hour.close) == (NOON, "2.00", "2.50", "2.00", "2.50")
        assert (hour.gpu_hours, hour.trades) == (4, 2)
        part = await services.list_candles(exchange, "h100-sxm", start=NOON + timedelta(seconds=1))
        assert [c.open for c in part.items] == ["2.50"]
        before = await services.list_candles(exchange, "h100-sxm", end=NOON)
        assert before.items == []
        with pytest.raises(services.RefusedError) as refused:
            await services.list_candles(exchange, "h100-sxm", start=NOON - timedelta(minutes=CANDLES_MAX))
        assert refused.value.field == "from"
        with pytest.raises(services.RefusedError, match="1m, 1h, 1d"):
            await services.list_candles(exchange, "h100-sxm", interval="2m")

    play(database, scene)


def test_the_catalog_carries_live_prices(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        gpus = (await services.list_gpus(exchange)).items
        slug = gpus[0].slug
        assert gpus[0].ticker is None
        await world.book(slug)
        gpu = await services.show_gpu(exchange, slug)
        assert gpu.ticker is not None
        assert gpu.ticker.state == "OPEN"
        with pytest.raises(services.NotFoundError):
            await services.show_gpu(exchange, "no-such-gpu")

    play(database, scene)
