"""The wallet and its statement: every line's balance is what the ledger held after it."""

import pytest

from bursa import services, wire
from bursa.market import EntryKind
from bursa.money import Currency
from bursa.services import Actor
from bursa.services.cursors import write_cursor
from bursa.wire import Amount, Scope, parse_micros
from tests.postgres import Database
from tests.services.world import World, play


async def rent(world: World, buyer: Actor, *, hours: int = 4) -> str:
    bid = wire.BidRequest("h100-sxm", gpus=1, hours=hours, limit_price="3.00")
    order = (await services.place_bid(world.exchange, buyer, bid)).body
    return order.fills[0].rental


async def whole_statement(world: World, actor: Actor, limit: int) -> list[wire.StatementLine]:
    lines: list[wire.StatementLine] = []
    cursor: str | None = None
    while True:
        page = await services.list_statement(world.exchange, actor, limit=limit, cursor=cursor)
        lines += page.items
        cursor = page.next
        if cursor is None:
            return lines


def test_a_statement_runs_back_from_the_balance_to_nothing(database: Database) -> None:
    """Anna of the money rules: top-up 100, bid 4 h at 3.00, trade at 2.88, hours, stopped in hour 3."""

    async def scene(world: World) -> None:
        await world.book()
        anna, gamma = await world.funded(amount="100"), await world.party("Gamma")
        await world.ask(gamma)
        rental = await rent(world, anna)
        await world.start(rental)
        await world.pass_hours(2)
        world.clock.at_ns += 1
        await services.stop_rental(world.exchange, anna, rental)
        lines = await whole_statement(world, anna, 100)
        told = [(line.kind, line.change, line.balance) for line in reversed(lines)]
        assert told == [
            (EntryKind.TOP_UP, "100.00", "100.00"),
            (EntryKind.HOLD_PLACED, "-14.28", "85.72"),
            (EntryKind.TRADE, "0.5712", "86.2912"),
            (EntryKind.RENTAL_RELEASED, "3.4272", "89.7184"),
        ]
        assert [line.rental for line in lines[:1]] == [rental]
        for limit in (1, 2, 3):
            assert await whole_statement(world, anna, limit) == lines
        earned = await whole_statement(world, gamma, 2)
        assert {line.account for line in earned} == {"seller_pending"}
        # Two hours fell due at once; the third was begun.
        assert (earned[0].balance, earned[-1].balance) == ("7.776", "5.184")

    play(database, scene)


def test_a_part_of_a_statement_has_the_balances_of_the_whole(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna = await world.party()
        times = []
        for amount, currency in (
            ("10", Currency.USD),
            ("20", Currency.EUR),
            ("30", Currency.USD),
            ("40", Currency.USD),
        ):
            times.append(wire.show_time(world.clock.at_ns))
            await services.top_up(exchange, anna, wire.TopUpRequest(amount, currency))
            world.clock.at_ns += 10**9
        part = await services.list_statement(exchange, anna, start=times[1], end=times[3])
        told = [(line.change, line.currency, line.balance) for line in part.items]
        assert told == [("30.00", "USD", "40.00"), ("20.00", "EUR", "20.00")]
        euros = await services.list_statement(exchange, anna, currency=Currency.EUR)
        assert [line.balance for line in euros.items] == ["20.00"]
        assert (await services.list_statement(exchange, anna, account="seller_pending")).items == []
        with pytest.raises(services.RefusedError) as refused:
            await services.list_statement(exchange, anna, account="hold")
        assert refused.value.field == "account"

    play(database, scene)


def test_pages_fit_together_whatever_happens_between_them(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna = await world.party()
        for _ in range(3):
            await services.top_up(exchange, anna, wire.TopUpRequest("10", Currency.USD))
        first = await services.list_statement(exchange, anna, limit=2)
        await services.top_up(exchange, anna, wire.TopUpRequest("500", Currency.USD))
        second = await services.list_statement(exchange, anna, limit=2, cursor=first.next)
        assert [line.balance for line in first.items + second.items] == ["30.00", "20.00", "10.00"]

    play(database, scene)


def test_a_page_of_a_statement_holds_a_thousand_lines(database: Database) -> None:
    """As the API's document says; 1,001 are refused."""

    async def scene(world: World) -> None:
        anna = await world.funded()
        assert len((await services.list_statement(world.exchange, anna, limit=1_000)).items) == 1
        with pytest.raises(services.RefusedError, match="1 to 1000"):
            await services.list_statement(world.exchange, anna, limit=1_001)

    play(database, scene)


@pytest.mark.parametrize("micros", [-(2**63), -(2**62) - 1, 2**62 + 1, 2**64 - 1])
def test_a_cursor_made_by_hand_holds_no_balance_that_there_cannot_be(database: Database, micros: int) -> None:
    """The checksum of a cursor is no secret; a balance at the end of the integers was a fault of the next page."""

    async def scene(world: World) -> None:
        anna = await world.party()
        for _ in range(2):
            await services.top_up(world.exchange, anna, wire.TopUpRequest("10", Currency.USD))
        cursor = write_cursor("statement", 2**62, 0, {"wallet USD": micros})
        with pytest.raises(services.RefusedError) as refused:
            await services.list_statement(world.exchange, anna, limit=1, cursor=cursor)
        assert refused.value.problem_code == "INVALID_CURSOR"

    play(database, scene)


def test_the_wallet_tells_what_burns_and_for_how_long(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        await world.book()
        anna, gamma = await world.funded(amount="100"), await world.party("Gamma")
        await world.ask(gamma)
        assert (await services.show_wallet(exchange, anna)).hours_left is None
        rental = await rent(world, anna)
        wallet = await services.show_wallet(exchange, anna)
        assert wallet.burn_per_hour == [Amount("3.4272", Currency.USD)]
        assert (wallet.balances[0].available, wallet.balances[0].held) == ("86.2912", "13.7088")
        assert wallet.hours_left == 29
        await world.start(rental)
        await world.pass_hours(1)
        seen = await services.show_rental(exchange, anna, rental)
        assert (seen.cost, seen.held) == (Amount("3.4272", Currency.USD), Amount("10.2816", Currency.USD))
        await services.extend_rental(exchange, anna, rental, wire.ExtendRequest(2, "2.88"))
        assert (await services.show_rental(exchange, anna, rental)).hours == 6

    play(database, scene)


def test_funds_go_in_and_out(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange = world.exchange
        anna = await world.party()
        first = await services.top_up(exchange, anna, wire.TopUpRequest("50", Currency.EUR), idempotency_key="t")
        again = await services.top_up(exchange, anna, wire.TopUpRequest("50", Currency.EUR), idempotency_key="t")
        assert (first.body, again.is_repeat) == (again.body, True)
        assert (first.body.kind, first.body.state, first.body.amount) == (
            "TOP_UP",
            "SETTLED",
            Amount("50.00", Currency.EUR),
        )
        sent = (await services.request_refund(exchange, anna, wire.TransferRequest("20", Currency.EUR))).body
        assert (sent.kind, sent.state) == ("REFUND", "SENT")
        back = (await services.request_refund(exchange, anna, wire.TransferRequest("5", Currency.EUR))).body
        await services.settle_transfer(exchange, world.operator, sent.id)
        await services.return_transfer(exchange, world.operator, back.id)
        listed = (await services.list_transfers(exchange, anna)).items
        assert [(item.id, item.state) for item in listed] == [(back.id, "RETURNED"), (sent.id, "SETTLED")]
        wallet = await services.show_wallet(exchange, anna)
        assert [(b.currency, b.available) for b in wallet.balances] == [("EUR", "30.00")]
        with pytest.raises(services.RefusedError) as short:
            await services.request_refund(exchange, anna, wire.TransferRequest("31", Currency.EUR))
        assert short.value.shortfall == Amount("1.00", Currency.EUR)
        with pytest.raises(services.RefusedError) as refused:
            await services.top_up(exchange, anna, wire.TopUpRequest("0.01", Currency.EUR))
        assert (refused.value.field, refused.value.expected) == ("amount", "whole cents, 5.00 to 1000000000.00")
        with pytest.raises(services.RefusedError) as refused:
            await services.request_payout(exchange, anna, wire.TransferRequest("20", Currency.USD))
        assert refused.value.problem_code == "INSUFFICIENT_FUNDS"
        with pytest.raises(services.NotFoundError):
            await services.settle_transfer(exchange, world.operator, "tfr_999")

    play(database, scene)


def test_only_a_sandbox_makes_money(database: Database) -> None:
    async def scene(world: World) -> None:
        anna = await world.party(scopes=frozenset({Scope.FUND}))
        with pytest.raises(services.RefusedError) as refused:
            await services.top_up(world.exchange, anna, wire.TopUpRequest("10", Currency.USD))
        assert refused.value.problem_code == "TOP_UPS_UNAVAILABLE"
        with pytest.raises(services.ForbiddenError):
            await services.show_wallet(world.exchange, anna)

    play(database, scene, is_sandbox=False)


def test_the_books_of_a_busy_exchange_balance(database: Database) -> None:
    async def scene(world: World) -> None:
        await world.book()
        anna, gamma = await world.funded(amount="100"), await world.party("Gamma")
        await world.ask(gamma)
        rental = await rent(world, anna)
        await world.start(rental)
        await world.pass_hours(1)
        status = await services.status(world.exchange, world.operator)
        assert [(row.currency, row.sum) for row in status.trial_balance] == [("USD", "0.00")]
        assert parse_micros(status.trial_balance[0].sellers, "sellers") == 2_592_000
        assert status.held == [Amount("10.2816", Currency.USD)]
        assert (status.live_rentals, status.open_orders, status.is_leader) == (1, 1, True)
        assert status.seq == world.exchange.node.seq

    play(database, scene)
