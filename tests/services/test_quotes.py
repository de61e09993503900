"""A quote tells what the engine would do: the same hold to the micro, the same lots, the same best price."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bursa import services, wire
from bursa.market import (
    BidAccepted,
    Command,
    CreditTopUp,
    Engine,
    EntryKind,
    Filters,
    JournalEntry,
    ListInstrument,
    OpenBook,
    PlaceBid,
    RegisterParty,
    SetRate,
    SetTaxProfile,
    TaxProfile,
    VatScheme,
)
from bursa.money import Currency, customer_rate
from bursa.services.orderviews import read_filters
from bursa.services.quotes import price_of, show_percent
from bursa.services.rates import as_of_ns
from bursa.wire import Amount, FilterSet, parse_micros
from tests.postgres import Database, empty_database
from tests.services.test_admin import DAY, rates
from tests.services.world import NOON_NS, World, play


def engine_hold(*, limit: int, gpus: int, hours: int, lots: int, vat_ppm: int, currency: Currency, mid: int) -> int:
    """Place the bid in an engine of its own and return what it held."""
    engine = Engine()
    commands: list[Command] = [
        RegisterParty(command_id="1"),
        SetTaxProfile(command_id="2", party_id=1, profile=TaxProfile("DE", VatScheme.OSS, vat_ppm)),
        CreditTopUp(command_id="3", party_id=1, currency=currency, micros=10**15, provider="sandbox"),
        ListInstrument(command_id="4", instrument="h100-sxm"),
        OpenBook(command_id="5", instrument="h100-sxm"),
    ]
    if currency is not Currency.USD:
        commands.append(SetRate(command_id="6", currency=currency, mid_micros=mid, as_of_ns=NOON_NS))
    bid = PlaceBid(
        command_id="7", party_id=1, instrument="h100-sxm", gpus=gpus, hours=hours, limit_micros=limit, lots=lots,
        currency=currency,
    )  # fmt: skip
    for command in commands:
        engine.apply(command, NOON_NS)
    events = engine.apply(bid, NOON_NS).events
    assert isinstance(events[0], BidAccepted), events
    entry = events[1]
    assert isinstance(entry, JournalEntry), events
    assert entry.kind is EntryKind.HOLD_PLACED
    return entry.postings[0].debit_micros


@given(
    limit=st.integers(1, 100_000).map(lambda ticks: ticks * 1_000),
    gpus=st.integers(1, 16),
    hours=st.integers(1, 720),
    lots=st.integers(1, 64),
    vat_ppm=st.integers(1, 500_000),
    currency=st.sampled_from(Currency),
    mid=st.integers(500_000, 2_000_000),
)
def test_the_quoted_hold_is_the_engines(
    *, limit: int, gpus: int, hours: int, lots: int, vat_ppm: int, currency: Currency, mid: int
) -> None:
    rate = 0 if currency is Currency.USD else customer_rate(mid, 100)
    price = price_of(limit, rate, vat_ppm)
    held = engine_hold(limit=limit, gpus=gpus, hours=hours, lots=lots, vat_ppm=vat_ppm, currency=currency, mid=mid)
    assert (price.net_micros + price.tax_micros) * gpus * hours * lots == held


def test_the_bruno_of_the_money_rules_is_quoted_what_he_pays(database: Database) -> None:
    """EUR wallet, 22 %, mid 1.1172: net 2.712409 and VAT 0.59673 an hour at US$3.00."""

    async def scene(world: World) -> None:
        exchange = world.exchange
        world.clock.at_ns = as_of_ns(DAY) + 10**9
        await world.book()
        bruno = await world.party("Bruno", vat="22")
        bid = wire.BidRequest("h100-sxm", gpus=1, hours=4, limit_price="3.00", currency=Currency.EUR)
        with pytest.raises(services.RefusedError) as refused:
            await services.quote_bid(exchange, bruno, bid)
        assert refused.value.problem_code == "NO_RATE"
        await services.import_rates(exchange, world.operator, rates((Currency.USD, "1.1172", DAY)))
        await services.top_up(exchange, bruno, wire.TopUpRequest("10", Currency.EUR))
        quote = await services.quote_bid(exchange, bruno, bid)
        assert (quote.hold, quote.net, quote.tax) == tuple(
            Amount(text, Currency.EUR) for text in ("13.236556", "10.849636", "2.38692")
        )
        assert (quote.tax_percent, quote.rate, quote.shortfall.amount) == ("22", "1.106028", "3.236556")
        assert (quote.fillable_lots, quote.best_price) == (0, None)
        await services.top_up(exchange, bruno, wire.TopUpRequest("10", Currency.EUR))
        order = (await services.place_bid(exchange, bruno, bid)).body
        assert order.held == quote.hold
        # Four days later the rate is too old for the quote as for the order.
        world.clock.at_ns += 97 * 3_600 * 10**9
        for use_case in (services.quote_bid, services.place_bid):
            with pytest.raises(services.RefusedError) as refused:
                await use_case(exchange, bruno, bid)
            assert (refused.value.problem_code, refused.value.field) == ("NO_RATE", "currency")

    play(database, scene)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_fillable_lots_are_what_an_order_fills(database: Database, data: st.DataObject) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna = await world.funded(amount="1000000")
        sellers = [await world.party(f"Seller {number}") for number in range(2)]
        for _ in range(data.draw(st.integers(1, 4))):
            price = data.draw(st.sampled_from(["2.00", "2.50", "3.00"]))
            await world.ask(data.draw(st.sampled_from(sellers)), price, gpus=data.draw(st.integers(1, 8)))
        for _ in range(3):
            bid = wire.BidRequest(
                "h100-sxm",
                gpus=data.draw(st.integers(1, 4)),
                hours=data.draw(st.integers(1, 24)),
                limit_price=data.draw(st.sampled_from(["1.90", "2.40", "2.60", "3.50"])),
                lots=data.draw(st.integers(1, 8)),
                filters=FilterSet(
                    regions=data.draw(st.sampled_from([[], ["EU"], ["US"]])),
                    verified_only=data.draw(st.booleans()),
                    reliability_min=data.draw(st.sampled_from([0, 900, 901])),
                    ram_gib_min=data.draw(st.sampled_from([0, 64, 1_000])),
                ),
            )
            quote = await services.quote_bid(exchange, anna, bid)
            order = (await services.place_bid(exchange, anna, bid)).body
            assert quote.fillable_lots == order.filled
            assert quote.best_price == (order.fills[0].price if order.fills else None)
            paid = sum(parse_micros(fill.price, "price") * fill.gpus * fill.hours for fill in order.fills)
            # 19 %; every price here is a whole number of cents, so that nothing is rounded.
            assert parse_micros(quote.expected.amount, "expected") == paid * 119 // 100
            if order.leaves:
                await services.cancel_order(exchange, anna, order.id)

    empty_database(database)
    play(database, scene)


def test_nobody_is_quoted_their_own_offers(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        seller, twin, anna = (
            await world.party("S", tax_id="T1"),
            await world.party("B", tax_id="T1"),
            await world.party(),
        )
        await world.ask(seller)
        bid = wire.BidRequest("h100-sxm", gpus=1, hours=1, limit_price="3.00", lots=3)
        lots = [(await services.quote_bid(exchange, actor, bid)).fillable_lots for actor in (seller, twin, anna)]
        assert lots == [0, 0, 3]

    play(database, scene)


def test_a_quote_refuses_what_an_order_would_be_refused_for(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna, untaxed = await world.party(), await world.party("Untaxed", vat="")
        good = wire.BidRequest("h100-sxm", gpus=1, hours=1, limit_price="3.00")
        cases = [
            (anna, wire.BidRequest("no-such", 1, 1, "3"), "UNKNOWN_INSTRUMENT", "instrument"),
            (anna, wire.BidRequest("h100-sxm", 1, 721, "3"), "HOURS_OUT_OF_RANGE", "hours"),
            (anna, wire.BidRequest("h100-sxm", 1, 1, "3", lots=65), "QUANTITY_OUT_OF_RANGE", "lots"),
            (anna, wire.BidRequest("h100-sxm", 1, 1, "3.0001"), "PRICE_NOT_ON_TICK", "limit_price"),
            (untaxed, good, "NO_TAX_PROFILE", "party"),
        ]
        for actor, bid, code, field in cases:
            for use_case in (services.quote_bid, services.place_bid):
                with pytest.raises(services.RefusedError) as refused:
                    await use_case(exchange, actor, bid)
                assert (refused.value.problem_code, refused.value.field) == (code, field)
        empty = await services.quote_bid(exchange, anna, good)
        assert (empty.available.amount, empty.shortfall) == ("0.00", empty.hold)

    play(database, scene)


def test_percents_are_shown_without_needless_places() -> None:
    assert [show_percent(ppm) for ppm in (190_000, 55_000, 0, 1, 20_625)] == ["19", "5.5", "0", "0.0001", "2.0625"]


def test_no_filters_on_the_wire_are_no_filters_in_the_market() -> None:
    assert read_filters(FilterSet()) == Filters()
