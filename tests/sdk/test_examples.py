"""The example in each verb's docstring, run against a running exchange."""

from __future__ import annotations

import asyncio
import doctest
import inspect
from collections.abc import Callable, Iterator
from datetime import date

import pytest

from bursa import market, money, wire
from bursa.sdk import AsyncClient, Client, LiveBook
from bursa.sdk.verbs import Pages, Stream, Verb, Verbs
from tests.api.stand import INSTRUMENT, make_host
from tests.sdk.served import Served

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
BUILDERS: dict[str, Callable[..., object]] = {
    name: verb.build for name, verb in vars(Verbs).items() if isinstance(verb, Verb | Stream)
}
CLASSES: dict[str, type] = {"Client": Client, "AsyncClient": AsyncClient, "LiveBook": LiveBook}


def run_example(name: str, text: str, names: dict[str, object]) -> None:
    parsed = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), names, name, None, 0)
    assert parsed.examples, f"{name} has no example"
    told: list[str] = []
    results = doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(parsed, out=told.append, clear_globs=False)
    assert results.failed == 0, "".join(told)


@pytest.fixture(scope="module")
def names(served: Served) -> Iterator[dict[str, object]]:
    """Give the examples what they may use: clients, shapes, rentals that run, and for the seller a host on sale."""
    party = served.stand.register()
    host = make_host(served.stand, party)
    shapes = {name: getattr(wire, name) for name in wire.__all__}
    words = {"Side": market.Side, "TimeInForce": market.TimeInForce, "VatScheme": market.VatScheme}
    modules = {"Currency": money.Currency, "date": date, "asyncio": asyncio}
    buy = wire.BidRequest(
        instrument=INSTRUMENT, gpus=1, hours=2, lots=4, limit_price="4.00", time_in_force=market.TimeInForce.IOC
    )
    renter = served.client(served.renter())
    with renter as client, served.client(party) as seller, served.client(served.stand.operator) as operator:
        client.place_bid(buy)
        seller.place_ask(wire.AskRequest(offers=[wire.Offer(host=host, gpus=8)], price="2.00"))
        clients = {"client": client, "seller": seller, "operator": operator}
        yield {**shapes, **words, **modules, **CLASSES, **clients, "url": served.url, "key": party.key}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_example_of_a_verb_runs(name: str, names: dict[str, object]) -> None:
    run_example(name, BUILDERS[name].__doc__ or "", dict(names))


@pytest.mark.parametrize("name", CLASSES)
def test_the_example_of_a_class_runs(name: str, names: dict[str, object]) -> None:
    run_example(name, CLASSES[name].__doc__ or "", dict(names))


def test_a_wrong_example_is_found() -> None:
    with pytest.raises(AssertionError, match="Expected"):
        run_example("sample", ">>> 1 + 1\n3\n", {})


def test_lists_are_walked_by_a_verb_of_their_own() -> None:
    """Each `iterate_…` is built on the list verb of the same name, whose example stands for both."""
    for name, verb in vars(Verbs).items():
        if isinstance(verb, Pages):
            assert verb.build is BUILDERS[name.replace("iterate_", "list_")]
