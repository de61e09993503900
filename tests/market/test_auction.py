"""The auction: one price for all of it, the best by brute force, and nothing crossed is left behind (rules §2, H)."""

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.market import Bid as OpenBid
from bursa.market import BookState, Indicative, Rejected, TimeInForce, audit
from bursa.market import commands as c
from bursa.market import events as e
from bursa.market.types import MINUTE_NS, HostOffer
from tests.market.naive_book import Ask, Auction, Bid, NaiveBook
from tests.market.strategies import (
    CENT,
    H100,
    WIDE,
    Pick,
    World,
    new_world,
    one_of,
    picked,
    proof,
    seeded,
    some_filters,
)
from tests.market.test_book_against_naive import Follower

USD: Final = 1_000_000


def preopen_world() -> tuple[World, Follower]:
    """Return a book before its opening with eight parties, the first two linked, and a naive book that follows."""
    world = new_world(WIDE)
    follower = Follower(world, WIDE)
    for number in range(8):
        world.party(tax_id="DE1" if number < 2 else "", usd=9_000_000)
    world.do(c.ListInstrument, instrument=H100)
    world.do(c.PreopenBook, instrument=H100)
    return world, follower


def held(world: World) -> e.AuctionHeld:
    (auction,) = [event for event in world.log[-1][2].events if isinstance(event, e.AuctionHeld)]
    return auction


def test_example_h() -> None:
    world, _ = preopen_world()
    world.do(c.ListInstrument, instrument=H100, reference_micros=2_500_000)
    seller, *buyers = world.mirror.parties
    asks = [
        world.ask(seller, price, [(world.host(seller, n), n)])
        for n, price in ((4, 2 * USD), (8, 2_300_000), (8, 2_700_000))
    ]
    wanted = ((8, 3 * USD), (1, 2_800_000), (4, 2_600_000), (2, 2_400_000), (4, 2_200_000))
    bids = [
        world.make(c.PlaceBid, party_id=buyers[-1], instrument=H100, gpus=gpus, hours=10, limit_micros=limit)
        for gpus, limit in wanted
    ]
    assert world.engine.indicative(H100) == Indicative(2_400_000, 110, 3)
    world.do(c.OpenBook, instrument=H100)
    assert held(world) == e.AuctionHeld(H100, 2_400_000, 110, 3, (bids[2],))
    trades = [(trade.bid_id, trade.ask_id, trade.price_micros) for trade in world.mirror.trades]
    assert trades == [(bids[0], asks[1], 2_400_000), (bids[1], asks[0], 2_400_000), (bids[3], asks[0], 2_400_000)]
    assert {order.order_id for order in world.mirror.open_bids()} == {bids[2], bids[4]}


@pytest.mark.parametrize(
    ("reference", "price"), [(2_310_000, 2_300_000), (2_350_000, 2_300_000), (2_360_000, 2_400_000)]
)
def test_ties_go_to_the_price_nearest_the_reference_then_to_the_lower(reference: int, price: int) -> None:
    world, _ = preopen_world()
    world.do(c.ListInstrument, instrument=H100, reference_micros=reference)
    world.ask(3, 2_300_000, [(world.host(3, 4), 4)])
    world.do(c.PlaceBid, party_id=4, instrument=H100, gpus=4, hours=1, limit_micros=2_400_000)
    world.do(c.OpenBook, instrument=H100)
    assert held(world).price_micros == price


def test_without_a_reference_a_tie_goes_to_the_lower_price() -> None:
    world, _ = preopen_world()
    world.ask(3, 2_300_000, [(world.host(3, 4), 4)])
    world.do(c.PlaceBid, party_id=4, instrument=H100, gpus=4, hours=1, limit_micros=2_400_000)
    world.do(c.OpenBook, instrument=H100)
    assert held(world).price_micros == 2_300_000


def fill_book(world: World, pick: Pick, orders: int) -> None:
    """Place asks on one to three hosts and bids of one to three lots, at few prices, so that there are ties."""
    for _ in range(orders):
        party_id, price = 1 + pick(8), (200 + pick(8)) * CENT
        if pick(5) < 2:
            sizes = [one_of(pick, (4, 2, 8, 1, 3)) for _ in range(1 + pick(3))]
            hosts = [world.host(party_id, size, is_verified=pick(2) == 0) for size in sizes]
            offers = [(host_id, size) for host_id, size in zip(hosts, sizes, strict=True)]
            world.ask(
                party_id,
                price,
                offers,
                min_gpus=min(1 + pick(2), *sizes),
                min_hours=1 + pick(2),
                max_hours=one_of(pick, (720, 3)),
            )
        else:
            shape = one_of(pick, (1, 2, 3, 4, 8)), 1 + pick(4)
            world.bid(party_id, price, *shape, lots=1 + pick(3), filters=some_filters(pick))


def check_opening(world: World, follower: Follower) -> bool:
    """Open the book and prove the auction; tell whether it traded."""
    naive = follower.naive.all
    best = naive.best_auction(H100)
    tried = [naive.try_auction(H100, price) for price in naive.candidates(H100)]
    indicative = world.engine.indicative(H100)
    free = {offer.host_id: naive.free(offer) for ask in naive.asks for offer in ask.offers}
    world.do(c.OpenBook, instrument=H100)  # the follower compares every trade, and the mirror both limits
    auction = held(world)
    assert (indicative.price_micros, indicative.gpu_hours) == (auction.price_micros, auction.gpu_hours)
    check_price(auction, best, tried)
    if best:
        assert indicative == Indicative(auction.price_micros, auction.gpu_hours, auction.imbalance_gpus)
        assert abs(auction.imbalance_gpus) == best.imbalance
        assert sorted(auction.unfilled_bids) == sorted(best.unfilled)
    taken = Counter[int]()
    for trade in world.mirror.trades:
        taken[trade.host_id] += trade.gpus
    assert all(gpus <= free[host_id] for host_id, gpus in taken.items())
    for number, trade in enumerate(world.mirror.trades):
        in_auction = best is not None and number < len(best.pairs)
        assert not in_auction or trade.price_micros == auction.price_micros
    check_uncrossed(world, naive)
    return best is not None


def check_price(auction: e.AuctionHeld, best: Auction | None, tried: list[Auction]) -> None:
    """No other limit trades more; none that trades as much leaves less over."""
    most = max((other.gpu_hours for other in tried), default=0)
    assert auction.gpu_hours == most
    if best is None:
        assert (auction.price_micros, auction.unfilled_bids) == (0, ())
        return
    equal = [other for other in tried if other.gpu_hours == most]
    least = min(other.imbalance for other in equal)
    assert best.imbalance == least
    assert auction.price_micros == best.price


def check_uncrossed(world: World, naive: NaiveBook) -> None:
    assert world.book().state is BookState.OPEN
    for bid in naive.bids:
        assert not [ask for ask in naive.asks if ask.price <= bid.limit and naive.fitting(ask, bid)]
        known = world.engine.order(bid.order_id)
        assert isinstance(known, OpenBid)
        assert known.leaves == bid.left
    assert audit(world.engine) == ()


@pytest.mark.slow
@proof(150)
@given(st.data())
def test_the_price_is_the_best_there_is(data: st.DataObject) -> None:
    world, follower = preopen_world()
    if data.draw(st.booleans()):
        world.do(c.ListInstrument, instrument=H100, reference_micros=data.draw(st.integers(195, 215)) * CENT)
    fill_book(world, picked(data), data.draw(st.integers(0, 14)))
    check_opening(world, follower)


def open_large_books(seeds: int, orders: int = 80) -> int:
    """Prove the auction of one large book a seed; return how many traded."""
    traded = 0
    for seed in range(seeds):
        world, follower = preopen_world()
        world.do(c.ListInstrument, instrument=H100, reference_micros=seed % 3 * 1_040_000)
        fill_book(world, seeded(seed), orders)
        traded += check_opening(world, follower)
    return traded


@pytest.mark.slow
def test_the_price_is_the_best_there_is_in_large_books() -> None:
    assert open_large_books(25) > 20


def lowest_id_first(book: NaiveBook, ask: Ask, bid: Bid) -> list[tuple[int, int]]:
    return [(0, host_id) for free, host_id in TRUE_FITTING(book, ask, bid)]


def no_reference(_: NaiveBook, __: str) -> int:
    return 0


def nothing_offered(_: NaiveBook, ask: Ask) -> int:
    return len(ask.offers)


TRUE_FITTING: Final = NaiveBook.fitting
MUTANTS: Final[list[tuple[str, Callable[..., object]]]] = [
    ("fitting", lowest_id_first),
    ("reference", no_reference),
    ("supply", nothing_offered),
]


@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=[name for name, _ in MUTANTS])
def test_a_changed_rule_is_noticed(name: str, mutant: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NaiveBook, name, mutant)
    with pytest.raises(AssertionError):
        open_large_books(100, 6)


def test_before_the_opening_orders_rest_and_may_leave() -> None:
    world, _ = preopen_world()
    ask = world.ask(3, 2 * USD, [(world.host(3, 4), 4)])
    bid = world.make(c.PlaceBid, party_id=4, instrument=H100, gpus=4, hours=1, limit_micros=3 * USD)
    assert world.mirror.trades == []
    assert world.engine.indicative(H100) == Indicative(2 * USD, 4, 0)
    world.do(c.CancelOrder, party_id=4, order_id=bid)
    assert world.engine.indicative(H100).gpu_hours == 0
    world.do(c.AmendAsk, party_id=3, order_id=ask, price_micros=3 * USD, offers=(HostOffer(1, 2),))


def test_in_the_last_minutes_only_better_prices_are_taken() -> None:
    world, _ = preopen_world()
    host = world.host(3, 4)
    ask = world.ask(3, 2 * USD, [(host, 4)])
    bid = world.make(c.PlaceBid, party_id=4, instrument=H100, gpus=1, hours=1, limit_micros=USD, lots=2)
    world.do(c.PreopenBook, instrument=H100, opens_at_ns=world.now_ns + 30 * MINUTE_NS)
    world.wait(20 * MINUTE_NS)
    assert world.book().state is BookState.NO_CANCEL
    amend_ask = {"party_id": 3, "order_id": ask}
    amend_bid = {"party_id": 4, "order_id": bid}
    worse: list[c.Command] = [
        c.CancelOrder(command_id="1", party_id=3, order_id=ask),
        c.CancelOrder(command_id="2", party_id=4, order_id=bid),
        c.AmendAsk(command_id="3", **amend_ask, price_micros=2 * USD + 1_000, offers=(HostOffer(host, 4),)),
        c.AmendAsk(command_id="4", **amend_ask, price_micros=2 * USD, offers=(HostOffer(host, 3),)),
        c.AmendBid(command_id="5", **amend_bid, limit_micros=USD - 1_000, lots=2),
        c.AmendBid(command_id="6", **amend_bid, limit_micros=USD, lots=1),
    ]
    for command in worse:
        result = world.send(command).result
        assert isinstance(result, Rejected)
        assert result.code == "NO_CANCEL_PERIOD", command
    world.do(c.AmendAsk, **amend_ask, price_micros=USD, offers=(HostOffer(host, 4),))
    world.do(c.AmendBid, **amend_bid, limit_micros=USD + 1_000, lots=2)
    world.wait(10 * MINUTE_NS)
    assert world.book().state is BookState.OPEN
    assert len(world.mirror.trades) == 2


@pytest.mark.parametrize("force", [TimeInForce.IOC, TimeInForce.FOK])
def test_buy_now_finds_nothing_before_the_opening(force: TimeInForce) -> None:
    world, _ = preopen_world()
    world.ask(3, 2 * USD, [(world.host(3, 4), 4)])
    bid = c.PlaceBid(
        command_id="b", party_id=4, instrument=H100, gpus=1, hours=1, limit_micros=3 * USD, time_in_force=force
    )
    result = world.send(bid).result
    assert isinstance(result, Rejected)
    assert result.code == "NOTHING_TO_FILL"


def test_a_halt_ends_in_an_auction() -> None:
    world, _ = preopen_world()
    world.do(c.OpenBook, instrument=H100)
    host = world.host(3, 4)
    world.ask(3, 2 * USD, [(host, 4)])
    world.do(c.SuspendHost, host_id=host)
    world.bid(4, 3 * USD)
    world.do(c.HaltBook, instrument=H100)
    world.do(c.CheckHost, host_id=host)
    assert world.mirror.trades == []
    world.do(c.ResumeBook, instrument=H100)
    assert held(world) == e.AuctionHeld(H100, 2 * USD, 1, 3, ())
    assert [(trade.taker, trade.price_micros) for trade in world.mirror.trades] == [(None, 2 * USD)]
