"""The engine against the naive book: the same commands, the same refusals, the same trades in the same order.

The naive book follows every command that a world sends, from the first registration on, and is compared after each:
what was refused and why, each fill (bid, ask, host, GPUs, hours, price), each auction, and what still rests.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.market import Bid, BookState, Engine, MarketRules, Outcome, Placed, Rejected, Trade, audit
from bursa.market import commands as c
from bursa.market import events as e
from bursa.market.types import Filters, HostOffer, HostState
from bursa.money import Currency
from tests.market.naive_book import REFUSED, Fill, NaiveBook
from tests.market.naive_book import Ask as NaiveAsk
from tests.market.naive_book import Bid as NaiveBid
from tests.market.naive_market import NaiveMarket
from tests.market.strategies import (
    MAKERS,
    PAUSES,
    WIDE,
    Pick,
    World,
    crowd,
    kinds_by_weight,
    one_of,
    picked,
    place_bid,
    proof,
    seeded,
)

#: Bands that a stream of prices from 1.00 to 1.49 meets often, and a halt that it meets now and then.
TIGHT: Final = MarketRules(bid_band_percent=115, ask_band_percent=90, halt_move_percent=30)
KINDS: Final = kinds_by_weight(
    {
        c.PlaceBid: 40,
        c.PlaceAsk: 12,
        c.AmendBid: 8,
        c.AmendAsk: 6,
        c.CancelOrder: 4,
        c.StartRental: 24,
        c.StopRental: 12,
        c.ReportWiped: 24,
        c.CheckHost: 10,
        c.HaltBook: 1,
        c.ResumeBook: 4,
        **dict.fromkeys((c.FailRental, c.ReclaimRental, c.EndRental, c.ListHost, c.SuspendHost), 1),
        **dict.fromkeys((c.ReportSilence, c.ReportHeartbeat, c.PreopenBook, c.OpenBook), 1),
    }
)
#: Money is not the naive book's matter: bids pay in the one currency that every party has plenty of.
FREE_OF_MONEY: Final = MAKERS | {c.PlaceBid: partial(place_bid, currency=Currency.USD)}
PLENTY: Final = 50_000_000
#: Commands that never change what trades; the naive book does not look at them.
IGNORED: Final = (c.SetTaxProfile, c.CreditTopUp, c.SetRate)


class Follower:
    """Gives the naive book each command that the engine got, and compares."""

    def __init__(self, world: World, rules: MarketRules) -> None:
        self.world = world
        self.naive = NaiveMarket(rules)
        world.watch = self.compare

    def compare(self, command: c.Command, at_ns: int, outcome: Outcome) -> None:
        trades = [event for event in outcome.events if isinstance(event, Trade)]
        if isinstance(command, IGNORED):
            assert not trades
            return
        for host in self.naive.all.hosts:  # an input to matching, not a part of it
            known = self.world.engine.host(host.host_id)
            assert known
            host.reliability_ppm = known.reliability_ppm
        result = outcome.result
        new_id = result.order_id if isinstance(result, Placed) else getattr(result, "id", 0)
        code = self.naive.apply(command, at_ns, new_id)
        if isinstance(result, Rejected):
            assert code in {REFUSED, result.code}, (command, result, code)
        else:
            assert code == "", (command, result, code)
        fills = [Fill(t.bid_id, t.ask_id, t.host_id, t.gpus, t.hours, t.price_micros) for t in trades]
        assert fills == self.naive.all.fills, command
        self.naive.name_rentals([trade.rental_id for trade in trades])
        auctions = [event for event in outcome.events if isinstance(event, e.AuctionHeld)]
        assert [(a.price_micros, a.gpu_hours) for a in auctions] == [
            (a.price, a.gpu_hours) for a in self.naive.all.auctions
        ]
        for event in outcome.events:
            if isinstance(event, e.BookStateChanged) and event.until_ns and event.after is BookState.HALTED:
                self.naive.follow_halt(event.instrument, event.until_ns)

    def compare_rest(self) -> None:
        """Compare what rests: which orders, in which book state, with how much left."""
        engine, naive = self.world.engine, self.naive.all
        mirror = self.world.mirror
        assert {bid.order_id for bid in naive.bids} == {order.order_id for order in mirror.open_bids()}
        assert {ask.order_id for ask in naive.asks} == {order.order_id for order in mirror.open_asks()}
        for bid in naive.bids:
            known = engine.order(bid.order_id)
            assert isinstance(known, Bid)
            assert (known.leaves, known.filled, known.limit_micros) == (bid.left, bid.filled, bid.limit)
        for book in naive.books:
            assert self.world.book(book.instrument).state is book.state
            asks: dict[int, int] = {}
            for ask in naive.asks_of(book.instrument):
                asks[ask.price] = asks.get(ask.price, 0) + naive.supply(ask)
            depth = {price: gpus for price, gpus in engine.depth(book.instrument).asks if gpus}
            assert depth == {price: gpus for price, gpus in asks.items() if gpus}
        assert audit(engine) == ()


def run(pick: Pick, commands: int, rules: MarketRules, *, rest_every: int = 50, hosts_each: int = 4) -> World:
    """Send a stream of valid-looking commands, comparing after each."""
    world = World(Engine(rules))
    follower = Follower(world, rules)
    crowd(world, hosts_each=hosts_each, usd=PLENTY)
    for number in range(commands):
        world.wait(one_of(pick, PAUSES))
        world.send(FREE_OF_MONEY[one_of(pick, KINDS)](world, pick))
        if number % rest_every == 0:
            follower.compare_rest()
    follower.compare_rest()
    return world


@pytest.mark.slow
@proof(120)
@given(st.data())
def test_short_streams_agree(data: st.DataObject) -> None:
    run(
        picked(data),
        data.draw(st.integers(1, 60)),
        data.draw(st.sampled_from([WIDE, TIGHT])),
        rest_every=1,
        hosts_each=2,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_long_streams_agree(seed: int) -> None:
    rules = TIGHT if seed % 4 == 3 else WIDE
    world = run(seeded(seed), 5_000, rules)
    # The stream is worth its name: it trades, refuses, halts and auctions a lot.
    assert len(world.mirror.trades) > 300
    auctions = [event for _, _, outcome in world.log for event in outcome.events if isinstance(event, e.AuctionHeld)]
    assert sum(auction.price_micros > 0 for auction in auctions) > 3
    codes = {outcome.result.code for _, _, outcome in world.log if isinstance(outcome.result, Rejected)}
    assert codes >= {"NOTHING_TO_FILL", "BOOK_HALTED", "ORDER_ALREADY_CLOSED"}
    assert (rules is WIDE) == ("PRICE_OUT_OF_BAND" not in codes)


# ── the comparison can fail: one rule of the naive book is changed, and it is noticed ────────────────────────────────


def never_linked(_: NaiveBook, one: int, other: int) -> bool:
    return one == other


def last_come_first_served(book: NaiveBook) -> int:
    book.stamp -= 1
    return book.stamp


def loosest_first(book: NaiveBook, ask: NaiveAsk, bid: NaiveBid) -> list[tuple[int, int]]:
    fitting = TRUE_FITTING(book, ask, bid)
    return [(-free, host_id) for free, host_id in fitting]


def newest_host_first(book: NaiveBook, ask: NaiveAsk, bid: NaiveBid) -> list[tuple[int, int]]:
    return [(free, -host_id) for free, host_id in TRUE_FITTING(book, ask, bid)]


def ignores_the_rented(book: NaiveBook, offer: HostOffer) -> int:
    return offer.gpus if book.host(offer.host_id).state is HostState.HEALTHY else 0


def passes_all(_: NaiveBook, __: object, ___: Filters) -> bool:
    return True


def takers_price(book: NaiveBook, ask: NaiveAsk) -> None:
    ask_price, trade = ask.price, book.trade
    book.trade = lambda bid, ask, host_id, price: trade(bid, ask, host_id, min(price, ask_price))  # type: ignore[method-assign]
    TRUE_MATCH_ASK(book, ask)
    book.trade = trade  # type: ignore[method-assign]


TRUE_FITTING: Final = NaiveBook.fitting
TRUE_MATCH_ASK: Final = NaiveBook.match_ask
MUTANTS: Final[list[tuple[str, Callable[..., Any]]]] = [
    ("linked", never_linked),
    ("next_stamp", last_come_first_served),
    ("fitting", loosest_first),
    ("fitting", newest_host_first),
    ("free", ignores_the_rented),
    ("passes", passes_all),
    ("match_ask", takers_price),
]


def run_seeds(seeds: int) -> None:
    for seed in range(seeds):
        run(seeded(seed), 400, WIDE)


@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=[mutant.__name__ for _, mutant in MUTANTS])
def test_a_changed_rule_is_noticed(name: str, mutant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NaiveBook, name, mutant)
    with pytest.raises((AssertionError, StopIteration)):
        run_seeds(5)
