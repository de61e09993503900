"""The demo's market: what it sells, and that seeding it again changes nothing."""

import asyncio

import pytest

from bursa.catalog import gpu, gpus
from bursa.errors import UnavailableError
from bursa.hosts import DEMO_OFFERS, DEMO_SELLERS, seed_demo
from bursa.market import (
    SIMULATED_DRIVER,
    BookState,
    ChangeRules,
    HaltBook,
    HostState,
    ListInstrument,
    MarketRules,
    OpenBook,
    SuspendHost,
    audit,
)
from tests.hosts.exchange import Exchange


def seeded() -> Exchange:
    exchange = Exchange()
    assert asyncio.run(seed_demo(exchange)) > 0
    return exchange


def test_every_model_with_a_seed_price_is_offered_at_it_with_depth_above() -> None:
    view = seeded().view
    prices = {row.slug: row.seed_price_micros for row in gpus() if row.seed_price_micros}
    assert set(view.instruments()) == set(prices)
    assert len(prices) == 9
    for slug, price in prices.items():
        ticker, book = view.ticker(slug), view.book(slug)
        assert ticker
        assert book
        assert (ticker.state, ticker.best_ask_micros, ticker.reference_micros) == (BookState.OPEN, price, price)
        assert ticker.is_demo
        assert ticker.gpus_on_sale == sum(offer.gpus for offer in DEMO_OFFERS)
        assert len(book.asks) >= 3
        assert all(price <= level.price_micros <= price * 11 // 10 for level in book.asks)
        for gpus_wanted in (1, 2, 4, 8):
            best = view.best_ask(slug, gpus=gpus_wanted, hours=24)
            assert best
            assert best.price_micros == price


def test_its_hosts_are_marked_and_stand_in_several_countries() -> None:
    hosts = list(seeded().view.hosts())
    assert {host.spec.driver for host in hosts} == {SIMULATED_DRIVER}
    assert {host.spec.country for host in hosts} == {"DE", "NL", "US"}
    assert {host.party_id for host in hosts} == set(range(1, len(DEMO_SELLERS) + 1))
    assert {host.spec.gpus for host in hosts} == {1, 2, 4, 8}
    h100 = next(host for host in hosts if host.instrument == "h100-sxm")
    assert h100.spec.gpu_memory_mib == gpu("h100-sxm").memory_mib_reported
    assert all(host.state is HostState.HEALTHY and host.is_verified for host in hosts)


def test_seeding_again_changes_nothing() -> None:
    exchange = seeded()
    seq, digest = exchange.seq, exchange.engine.digest()
    assert asyncio.run(seed_demo(exchange)) == 0
    assert (exchange.seq, exchange.engine.digest()) == (seq, digest)
    assert audit(exchange.engine) == ()


def test_what_the_market_has_made_of_it_stays() -> None:
    exchange = seeded()
    exchange.do(HaltBook(command_id="halt", instrument="h200"))
    exchange.do(ListInstrument(command_id="reference", instrument="l40s", reference_micros=900_000))
    exchange.do(SuspendHost(command_id="suspend", host_id=1))
    digest = exchange.engine.digest()
    assert asyncio.run(seed_demo(exchange)) == 0
    assert exchange.engine.digest() == digest


def test_seeding_goes_on_where_it_was_cut_off() -> None:
    whole = seeded()
    cut = Exchange()
    cut.is_answer_lost = True
    cuts = 0
    while cuts < 20:
        try:
            asyncio.run(seed_demo(cut))
            break
        except UnavailableError:
            cuts += 1
    assert cuts == 6, "once in each of its steps, and every time it went one further"
    assert asyncio.run(seed_demo(cut)) == 0
    assert cut.seq == whole.seq
    assert [cut.view.depth(name) for name in cut.view.instruments()] == [
        whole.view.depth(name) for name in whole.view.instruments()
    ]


def test_a_book_that_is_open_already_is_as_good(caplog: pytest.LogCaptureFixture) -> None:
    exchange = Exchange()
    exchange.do(ListInstrument(command_id="mine", instrument="h200", reference_micros=4_190_000))
    exchange.do(OpenBook(command_id="open", instrument="h200"))
    asyncio.run(seed_demo(exchange))
    ticker = exchange.view.ticker("h200")
    assert ticker
    assert ticker.gpus_on_sale == sum(offer.gpus for offer in DEMO_OFFERS)
    assert caplog.text == ""


def test_a_refusal_is_logged_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    exchange = Exchange()
    exchange.do(ChangeRules(command_id="rules", rules=MarketRules(gpus_max=4)))
    asyncio.run(seed_demo(exchange))
    assert "demo-host-h200-a was refused: QUANTITY_OUT_OF_RANGE spec.gpus" in caplog.text
    ticker = exchange.view.ticker("h200")
    assert ticker
    assert ticker.gpus_on_sale == sum(offer.gpus for offer in DEMO_OFFERS if offer.gpus <= 4)
