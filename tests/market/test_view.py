"""The view against the engine: after every command of long mixed streams both tell the same public market."""

from collections.abc import Callable
from random import Random

import pytest

from bursa.market import (
    HOUR_NS,
    MINUTE_NS,
    RECENT_TRADES_MAX,
    SIMULATED_DRIVER,
    Ask,
    AskStanding,
    Bid,
    BidStanding,
    BookState,
    Engine,
    HostSpec,
    LevelFacts,
    MarketRules,
    MarketView,
    Outcome,
    RentalState,
    Trade,
    level_changes,
)
from bursa.market import commands as c
from bursa.market.volatility import reference_micros
from tests.market.strategies import H100, World, crowded_world, new_world, open_world, seeded, step
from tests.sim.simulation import Options, Simulation


class Watcher:
    """Feeds a view with every accepted command, as a log would, and compares it with the engine."""

    def __init__(self, engine: Callable[[], Engine], rules: MarketRules | None = None) -> None:
        self.engine = engine
        self.view = MarketView(rules)
        self.seq = 0
        self.compared = 0
        self.trades: list[Trade] = []
        self.pick = Random(5)

    def __call__(self, _: c.Command, at_ns: int, outcome: Outcome) -> None:
        if outcome.events:
            self.seq += 1
            self.view.apply(self.seq, at_ns, outcome.events)
            self.trades += [event for event in outcome.events if isinstance(event, Trade)]
        self.compare(at_ns)

    def compare(self, at_ns: int) -> None:
        engine, view = self.engine(), self.view
        assert view.instruments() == tuple(engine._state.books)
        for instrument in view.instruments():
            compare_instrument(engine, view, instrument, at_ns, self.pick)
        self.compared += 1


def compare_instrument(engine: Engine, view: MarketView, instrument: str, at_ns: int, pick: Random) -> None:
    assert view.depth(instrument) == engine.depth(instrument)
    assert view.depth(instrument, 2) == engine.depth(instrument, 2)
    book, ticker = engine.book(instrument), view.ticker(instrument, at_ns)
    assert book
    assert ticker
    assert (ticker.state, ticker.until_ns) == (book.state, book.due_ns)
    assert ticker.last_micros == book.last_micros
    assert ticker.reference_micros == reference_micros(book, at_ns)
    day_ago = at_ns // MINUTE_NS - 24 * 60
    assert ticker.volume_gpu_hours == sum(volume for minute, _, volume in book.minutes if minute > day_ago)
    depth = engine.depth(instrument, 10_000)
    assert ticker.best_bid_micros == (depth.bids[0][0] if depth.bids else 0)
    assert ticker.gpus_wanted == sum(gpus for _, gpus in depth.bids)
    assert ticker.gpus_on_sale == sum(gpus for _, gpus in depth.asks)
    best = engine.best_ask(instrument, gpus=1, hours=1, at_ns=at_ns)
    assert view.best_ask(instrument, gpus=1, hours=1, at_ns=at_ns) == best
    assert ticker.best_ask_micros == (best.price_micros if best else 0)
    gpus, hours = pick.randint(1, 17), pick.choice((1, 2, 5, 6, 24, 720, 721))
    lot = engine.best_ask(instrument, gpus=gpus, hours=hours, at_ns=at_ns)
    assert view.best_ask(instrument, gpus=gpus, hours=hours, at_ns=at_ns) == lot


def compare_what_is_live(engine: Engine, view: MarketView) -> None:
    state = engine._state
    assert {rental.rental_id for rental in view.rentals()} == set(state.rentals)
    for known in state.rentals.values():
        rental = view.rental(known.rental_id)
        assert rental
        assert (rental.state, rental.is_live) == (known.state, known.is_live)
        assert (rental.host_id, rental.gpu_mask, rental.instrument) == (known.host_id, known.gpu_mask, known.instrument)
        assert (rental.opened_at_ns, rental.started_at_ns) == (known.opened_at_ns, known.started_at_ns)
        assert rental.ended_at_ns == known.ended_at_ns
        if known.started_at_ns:
            assert rental.ends_at_ns == known.started_at_ns + known.hours * HOUR_NS
    assert {host.host_id for host in view.hosts()} == set(state.hosts)
    for listed in state.hosts.values():
        host = view.host(listed.host_id)
        assert host
        assert (host.state, host.silent_since_ns, host.busy_mask, host.ask_id, host.spec, host.is_verified) == (
            *(listed.state, listed.silent_since_ns, listed.busy_mask, listed.ask_id, listed.spec, listed.is_verified),
        )
    for order_id in {*state.bids, *state.asks}:
        compare_order(engine.order(order_id), view.order(order_id))
    assert all(view.order(order_id) is None for order_id in range(state.counters.order) if not engine.order(order_id))


def compare_order(known: Bid | Ask | None, order: BidStanding | AskStanding | None) -> None:
    if isinstance(known, Bid):
        assert isinstance(order, BidStanding)
        assert (order.limit_micros, order.lots, order.leaves) == (known.limit_micros, known.lots, known.leaves)
        assert (order.terms.filters, order.terms.time_in_force) == (known.filters, known.time_in_force)
    else:
        assert isinstance(order, AskStanding)
        assert isinstance(known, Ask)
        assert (order.price_micros, order.offers, order.until_ns) == (known.price_micros, known.offers, known.until_ns)


def watched(world: World) -> Watcher:
    """Let a watcher see a world from its first command on."""
    rules = world.engine_rules
    watcher = Watcher(lambda: world.engine, rules)
    for _, at_ns, outcome in world.log:
        if outcome.events:
            watcher.seq += 1
            watcher.view.apply(watcher.seq, at_ns, outcome.events)
    world.watch = watcher
    return watcher


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_view_is_the_engines_market_after_every_command(seed: int) -> None:
    """Mixed streams of every kind of command, with bands and halts in half of them."""
    world, pick = crowded_world(MarketRules() if seed % 2 else None), seeded(7_000 + seed)
    watcher = watched(world)
    for number in range(2_500):
        step(world, pick)
        if number % 100 == 0:
            compare_what_is_live(world.engine, watcher.view)
        if number % 500 == 499:
            watcher.view = MarketView.from_engine(world.engine, watcher.seq, world.now_ns)
    assert len(watcher.trades) > 100
    assert watcher.compared > 2_500


@pytest.mark.slow
@pytest.mark.parametrize("seed", [21, 22])
def test_the_view_is_the_engines_market_in_the_simulator(seed: int) -> None:
    """Hundreds of parties, silent and lost hosts, auctions and halts: the market at large, compared as it runs."""
    run = Simulation(Options(seed, 6_000, 80, audit_every=0, is_followed=False))
    watcher = Watcher(lambda: run.engine, run.engine.rules)
    fold = run._fold

    def watch(outcome: Outcome) -> None:
        fold(outcome)
        watcher.seq += 1
        watcher.view.apply(watcher.seq, run.world.now_ns, outcome.events)
        watcher.trades += [event for event in outcome.events if isinstance(event, Trade)]
        if watcher.seq % 3 == 0:
            watcher.compare(run.world.now_ns)

    run._fold = watch  # type: ignore[method-assign]
    run.run()
    assert run.faults == []
    compare_what_is_live(run.engine, watcher.view)
    assert len(watcher.trades) > 100


def test_a_short_mixed_stream_is_the_engines_market() -> None:
    """The same as the long streams, small enough for every run of the quick tests."""
    world, pick = crowded_world(sellers=2, hosts_each=3), seeded(1)
    watcher = watched(world)
    for _ in range(300):
        step(world, pick)
    compare_what_is_live(world.engine, watcher.view)
    assert watcher.trades


def test_a_view_of_a_restored_engine_reads_like_one_that_was_fed_all_events() -> None:
    world, pick = crowded_world(), seeded(3)
    watcher = watched(world)
    for _ in range(400):
        step(world, pick)
    fed = watcher.view
    restored = Engine.restore(world.engine.snapshot())
    made = MarketView.from_engine(restored, watcher.seq, fed.at_ns)
    assert made.instruments() == fed.instruments()
    for instrument in fed.instruments():
        changed = {"changed_seq": watcher.seq, "changed_at_ns": fed.at_ns}
        for read in ("ticker", "book"):
            of_fed, of_made = (getattr(view, read)(instrument) for view in (fed, made))
            fields = {name: getattr(of_fed, name) for name in of_fed.__struct_fields__}
            assert {name: getattr(of_made, name) for name in of_made.__struct_fields__} == fields | changed
        for gpus in (1, 2, 4, 8):
            assert made.best_ask(instrument, gpus=gpus, hours=2) == fed.best_ask(instrument, gpus=gpus, hours=2)
    assert list(made.rentals()) == list(fed.rentals())
    assert list(made.hosts()) == list(fed.hosts())
    compare_what_is_live(restored, made)
    # The made one goes on where the engine was, down to which of two asks at one price has priority.
    watcher.view = made
    for _ in range(200):
        step(world, pick)
    compare_what_is_live(world.engine, made)


# ---- what a reader of the stream builds on --------------------------------------------------------------


def demo_world() -> tuple[World, Watcher, int, int]:
    """Return a world with a real and a simulated host of 4 GPUs each, not yet offered."""
    world = open_world()
    watcher = watched(world)
    seller = world.party()
    real = world.host(seller, 4)
    spec = HostSpec(4, "DE", "EU", driver=SIMULATED_DRIVER)
    demo = world.make(c.ListHost, party_id=seller, instrument=H100, spec=spec)
    world.do(c.CheckHost, host_id=demo)
    return world, watcher, real, demo


def test_what_only_simulated_hosts_offer_is_marked() -> None:
    world, watcher, real, demo = demo_world()
    view, seller = watcher.view, 1
    ticker = view.ticker(H100)
    assert ticker
    assert not ticker.is_demo, "nothing is on sale"
    low = world.ask(seller, 1_000_000, [(demo, 4)])
    ticker = view.ticker(H100)
    assert ticker
    assert ticker.is_demo
    high = world.ask(seller, 2_000_000, [(real, 4)])
    ticker, book = view.ticker(H100), view.book(H100)
    assert ticker
    assert book
    assert not ticker.is_demo
    assert book.asks == (LevelFacts(1_000_000, 4, is_demo=True), LevelFacts(2_000_000, 4, is_demo=False))
    assert (view.is_demo_ask(low), view.is_demo_ask(high), view.is_demo_ask(999)) == (True, False, False)
    buyer = world.party()
    world.bid(buyer, 2_000_000, gpus=4)
    world.bid(buyer, 2_000_000, gpus=4)
    assert [trade.is_demo for trade in view.recent_trades(H100)] == [False, True]


def test_a_host_that_turns_out_to_be_real_is_no_longer_marked() -> None:
    world, watcher, _, demo = demo_world()
    world.ask(1, 1_000_000, [(demo, 4)])
    world.do(c.CheckHost, host_id=demo, spec=HostSpec(4, "DE", "EU"))
    book = watcher.view.book(H100)
    assert book
    assert book.asks == (LevelFacts(1_000_000, 4, is_demo=False),)
    world.do(c.CheckHost, host_id=demo, spec=HostSpec(4, "DE", "EU", driver=SIMULATED_DRIVER))
    book = watcher.view.book(H100)
    assert book
    assert book.asks == (LevelFacts(1_000_000, 4, is_demo=True),)


def test_a_change_is_noted_for_the_instrument_that_it_touches_only() -> None:
    world = open_world(instruments=(H100, "l40s"))
    watcher = watched(world)
    view = watcher.view
    buyer = world.party()
    before = watcher.seq
    assert view.changed_since(before) == ()
    world.bid(buyer, 1_000_000)
    assert view.changed_since(before) == (H100,)
    assert view.changed_seq(H100) == watcher.seq == view.seq
    assert view.changed_seq("l40s") <= before
    assert view.changed_seq("no-such-gpu") == 0
    world.do(c.HaltBook, instrument="l40s")
    assert view.changed_since(watcher.seq - 1) == ("l40s",)


def test_deltas_rebuild_the_book() -> None:
    """A reader that keeps levels by price and takes each change has the book, also when cut to a number of levels."""
    world, pick = crowded_world(), seeded(9)
    watcher = watched(world)
    kept: dict[str, dict[int, LevelFacts]] = {"bids": {}, "asks": {}}
    sent: dict[str, tuple[LevelFacts, ...]] = {"bids": (), "asks": ()}
    changes = 0
    for _ in range(600):
        step(world, pick)
        book = watcher.view.book(H100, levels_max=3)
        assert book
        for side, now in (("bids", book.bids), ("asks", book.asks)):
            for level in level_changes(sent[side], now):
                changes += 1
                if level.gpus:
                    kept[side][level.price_micros] = level
                else:
                    del kept[side][level.price_micros]
            sent[side] = now
            assert sorted(kept[side].values()) == sorted(now)
    assert changes > 50


def test_recent_trades_are_bounded_and_newest_first() -> None:
    world = open_world()
    watcher = watched(world)
    seller, buyer = world.party(), world.party(usd=1_000_000)
    host = world.host(seller, 1)
    world.ask(seller, 1_000_000, [(host, 1)])
    for _ in range(RECENT_TRADES_MAX + 5):
        world.bid(buyer, 1_000_000)
        (rental,) = [rental for rental in watcher.view.rentals() if rental.is_live]
        assert rental.state is RentalState.OPENED
        world.do(c.StopRental, party_id=buyer, rental_id=rental.rental_id)
        world.do(c.ReportWiped, rental_id=rental.rental_id)
    trades = watcher.view.recent_trades(H100)
    assert len(trades) == RECENT_TRADES_MAX
    assert [trade.trade.trade_id for trade in trades] == list(range(RECENT_TRADES_MAX + 5, 5, -1))
    assert watcher.view.recent_trades(H100, 2) == trades[:2]
    assert watcher.view.trades_after(H100, trades[3].seq) == trades[2::-1]
    ticker = watcher.view.ticker(H100)
    assert ticker
    assert ticker.volume_gpu_hours == 0, "none of them ever started"


def test_what_is_not_listed_reads_as_nothing() -> None:
    view = MarketView()
    assert view.ticker("h100-sxm") is None
    assert view.book("h100-sxm") is None
    assert view.depth("h100-sxm") == ((), ())
    assert view.best_ask("h100-sxm", gpus=1, hours=1) is None
    assert view.recent_trades("h100-sxm") == view.trades_after("h100-sxm", 0) == []
    assert (view.order(1), view.host(1), view.rental(1)) == (None, None, None)


def test_the_same_command_twice_is_a_bug() -> None:
    view = MarketView()
    view.apply(1, 1, ())
    with pytest.raises(AssertionError):
        view.apply(1, 1, ())


def test_states_of_a_book_are_told_with_their_next_move() -> None:
    world = new_world()
    watcher = watched(world)
    world.do(c.ListInstrument, instrument=H100, reference_micros=2_880_000)
    opens = world.now_ns + HOUR_NS
    world.do(c.PreopenBook, instrument=H100, opens_at_ns=opens)
    ticker = watcher.view.ticker(H100)
    assert ticker
    assert (ticker.state, ticker.until_ns) == (BookState.PREOPEN, opens - 10 * MINUTE_NS)
    assert ticker.reference_micros == 2_880_000
    world.wait(2 * HOUR_NS)
    ticker = watcher.view.ticker(H100)
    assert ticker
    assert (ticker.state, ticker.until_ns) == (BookState.OPEN, 0)
