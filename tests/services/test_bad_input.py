"""What passes the shapes of the wire and still cannot be used is refused by name, and never fails in the database."""

from collections.abc import Awaitable
from datetime import UTC, datetime

import pytest

from bursa import services, wire
from bursa.errors import BursaError
from bursa.market import TimeInForce, VatScheme
from bursa.money import Currency
from bursa.wire import RateRequest, Scope
from tests.postgres import Database
from tests.services.test_admin import DAY, rates
from tests.services.world import World, play

FAR = datetime(9999, 12, 31, tzinfo=UTC)
LARGE = "999999999999.999999"


async def fault(call: Awaitable[object]) -> tuple[int, str]:
    """Return status and field of the problem that a call ends in."""
    with pytest.raises(BursaError) as refused:
        await call
    problem = services.problem_of(refused.value)
    return problem.status, problem.errors[0].field if problem.errors else ""


def test_texts_times_and_numbers_that_no_column_holds_are_refused(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange, operator = world.exchange, world.operator
        await world.book()
        anna = await world.funded()
        gtd, iso = TimeInForce.GTD, FAR
        bid = wire.BidRequest("h100-sxm", 1, 1, LARGE)
        tax = wire.TaxRequest("DE", VatScheme.OSS, "5.5\n")
        one_day = wire.RatesRequest("ECB\0", [RateRequest(Currency.USD, "1.1", DAY)])
        cases: list[tuple[Awaitable[object], tuple[int, str]]] = [
            (services.create_key(exchange, anna, wire.KeyRequest("a\0b", [Scope.READ])), (422, "name")),
            (
                services.create_key(exchange, anna, wire.KeyRequest("k", [Scope.READ], expires_at=FAR)),
                (422, "expires_at"),
            ),
            (services.register_party(exchange, operator, wire.PartyRequest("\0")), (422, "name")),
            (services.register_party(exchange, operator, wire.PartyRequest("A", "\0")), (422, "tax_id")),
            (services.register_party(exchange, operator, wire.PartyRequest("A", tax=tax)), (422, "tax.vat_percent")),
            (services.import_rates(exchange, operator, one_day), (422, "source")),
            (services.import_rates(exchange, operator, rates((Currency.USD, LARGE, DAY))), (422, "rates[0].rate")),
            (services.list_orders(exchange, anna, instrument="\0"), (422, "instrument")),
            (services.list_statement(exchange, anna, start=FAR), (422, "from")),
            (services.list_statement(exchange, anna, end=datetime(1950, 1, 1, tzinfo=UTC)), (422, "to")),
            (services.quote_bid(exchange, anna, bid), (422, "limit_price")),
            (services.place_bid(exchange, anna, bid), (422, "limit_price")),
            (
                services.place_bid(
                    exchange, anna, wire.BidRequest("h100-sxm", 1, 1, "1", time_in_force=gtd, expires_at=iso)
                ),
                (422, "expires_at"),
            ),
            (services.place_ask(exchange, anna, wire.AskRequest([wire.Offer("x", 1)], "1")), (422, "offers.host")),
            (services.top_up(exchange, anna, wire.TopUpRequest(LARGE, Currency.USD)), (422, "amount")),
            (services.open_book(exchange, operator, "\0"), (404, "id")),
            (services.show_order(exchange, anna, "ord_999999999999999999"), (404, "id")),
            (services.show_order(exchange, anna, "17"), (422, "id")),
        ]
        for call, expected in cases:
            assert await fault(call) == expected

    play(database, scene)


def test_a_capped_key_refuses_what_no_sum_holds(database: Database) -> None:
    async def scene(world: World) -> None:
        await world.book()
        anna = await world.funded()
        request = wire.KeyRequest("capped", [Scope.TRADE], daily_cap=LARGE)
        made = await services.create_key(world.exchange, anna, request)
        capped = await services.authenticate(world.exchange, made.secret)
        bid = wire.BidRequest("h100-sxm", 16, 8_760, LARGE, lots=1_000)
        assert (await fault(services.place_bid(world.exchange, capped, bid)))[0] == 403

    play(database, scene)


def test_a_database_that_is_away_is_told_as_such(database: Database) -> None:
    async def scene(world: World) -> None:
        await world.exchange.reader.close()
        assert (await fault(services.show_wallet(world.exchange, world.operator)))[0] == 503

    play(database, scene)
