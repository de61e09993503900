"""The operator's actions: parties, books, rates; each only for the operator."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa import services, wire
from bursa.market import VatScheme
from bursa.money import Currency
from bursa.services.admin import tax_profile
from bursa.services.rates import as_of_ns, mid_of
from bursa.wire import RateRequest
from tests.postgres import Database
from tests.services.world import NOON, World, play

#: The day of the world's clock, and the one before it.
DAY = date(2026, 12, 1)
BEFORE = DAY - timedelta(days=1)


def test_a_party_is_registered_once_with_its_tax(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange, operator = world.exchange, world.operator
        request = wire.PartyRequest("Anna", "DE 123", "DE89", wire.TaxRequest("DE", VatScheme.OSS, "19"))
        first = await services.register_party(exchange, operator, request, idempotency_key="p")
        again = await services.register_party(exchange, operator, request, idempotency_key="p")
        assert (first.body.name, first.body.tax_id, again.is_repeat) == ("Anna", "DE123", True)
        assert again.body == first.body
        other = (await services.register_party(exchange, operator, wire.PartyRequest("Bruno"))).body
        await services.set_tax_profile(exchange, operator, other.id, wire.TaxRequest("IT", VatScheme.OSS, "22"))
        assert (await services.suspend_party(exchange, operator, other.id)).body.is_suspended
        assert not (await services.reinstate_party(exchange, operator, other.id)).body.is_suspended
        page = await services.list_parties(exchange, operator, limit=1)
        rest = await services.list_parties(exchange, operator, limit=1, cursor=page.next)
        assert [page.items[0].id, rest.items[0].id, rest.next] == [other.id, first.body.id, None]
        for use_case in (services.show_party, services.suspend_party):
            with pytest.raises(services.NotFoundError):
                await use_case(exchange, operator, "pty_999")
        bad = wire.TaxRequest("DE", VatScheme.OSS, "0")
        with pytest.raises(services.RefusedError) as refused:
            await services.set_tax_profile(exchange, operator, other.id, bad)
        assert refused.value.field == "tax.vat_percent"

    play(database, scene)


@pytest.mark.parametrize(
    ("shown", "ppm"), [("19", 190_000), ("5.5", 55_000), ("0", 0), ("8.1", 81_000), ("0.0001", 1), ("2.0625", 20_625)]
)
def test_percent_become_parts_per_million(shown: str, ppm: int) -> None:
    assert tax_profile(wire.TaxRequest("DE", VatScheme.OSS, shown)).vat_ppm == ppm


def test_books_open_halt_and_resume(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange, operator = world.exchange, world.operator
        for slug in ("h100-sxm", "a100"):
            await services.list_instrument(exchange, operator, wire.InstrumentRequest(slug, "2.50"))
        await services.preopen_book(exchange, operator, "all", wire.PreopenRequest(NOON + timedelta(hours=1)))
        assert {t.state for t in (await services.list_tickers(exchange)).items} == {"PREOPEN"}
        await services.open_book(exchange, operator, "a100")
        await services.halt_book(exchange, operator, "a100")
        assert (await services.show_ticker(exchange, "a100")).state == "HALTED"
        await services.resume_book(exchange, operator, "all")
        with pytest.raises(services.RefusedError) as refused:
            await services.resume_book(exchange, operator, "a100")
        assert refused.value.problem_code == "WRONG_STATE"
        with pytest.raises(services.NotFoundError):
            await services.open_book(exchange, operator, "no-such-gpu")

    play(database, scene)


def rates(*rows: tuple[Currency, str, date]) -> wire.RatesRequest:
    return wire.RatesRequest("ECB", [RateRequest(currency, rate, as_of) for currency, rate, as_of in rows])


def test_rates_become_mids_of_the_newest_day(database: Database) -> None:
    async def scene(world: World) -> None:
        exchange, operator = world.exchange, world.operator
        world.clock.at_ns = as_of_ns(DAY) + 10**9
        both = rates(
            (Currency.USD, "1.10", BEFORE), (Currency.GBP, "0.80", BEFORE),
            (Currency.USD, "1.1172", DAY), (Currency.GBP, "0.8733", DAY),
        )  # fmt: skip
        done = await services.import_rates(exchange, operator, both)
        records = exchange.feed.records_after(done.body.seq - 2) or []
        told = [(e.currency, e.mid_micros) for r in records for e in r.events]  # type: ignore[union-attr]
        # 1.1172 / 0.8733 = 1.27928546…
        assert told == [("EUR", 1_117_200), ("GBP", 1_279_285)]
        again = await services.import_rates(exchange, operator, both, idempotency_key="r")
        repeat = await services.import_rates(exchange, operator, both, idempotency_key="r")
        assert (again.is_repeat, repeat.is_repeat, repeat.body) == (False, True, again.body)
        older = await services.import_rates(exchange, operator, rates((Currency.USD, "1.05", BEFORE)))
        assert older.body.seq == 0
        early = rates((Currency.USD, "1.2", DAY + timedelta(days=1)))
        with pytest.raises(services.RefusedError) as refused:
            await services.import_rates(exchange, operator, early)
        assert refused.value.field == "as_of"
        for wrong in (
            rates((Currency.EUR, "1", DAY)),
            rates((Currency.USD, "0", DAY)),
            rates((Currency.GBP, "0.87", DAY)),
        ):
            with pytest.raises(services.RefusedError):
                await services.import_rates(exchange, operator, wrong)
        async with exchange.reader.connection() as link:
            row = await (await link.execute("SELECT count(*), min(rate_micros) FROM bursa.fx_rates")).fetchone()
        assert row == (4, 800_000)

    play(database, scene)


@given(usd=st.integers(500_000, 3_000_000), gbp=st.integers(400_000, 2_000_000))
def test_the_mid_of_gbp_is_the_cross_rate_half_even(usd: int, gbp: int) -> None:
    assert mid_of(Currency.EUR, usd, gbp) == usd
    mid = mid_of(Currency.GBP, usd, gbp)
    assert abs(2 * (mid * gbp - usd * 10**6)) <= gbp


def test_a_rate_holds_as_of_the_hour_of_its_publication() -> None:
    at = datetime.fromtimestamp(as_of_ns(DAY) / 10**9, UTC)
    assert at == datetime(2026, 12, 1, 14, tzinfo=UTC)
