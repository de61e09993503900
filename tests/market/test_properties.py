"""What must hold of every trade, hold and charge, whatever the commands: market rules §2 and §3, money rules §2 and §3.

The oracles are brute force or exact fractions over the engine's public queries and events.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.market import (
    Ask,
    BestAsk,
    Bid,
    BookState,
    Done,
    EntryKind,
    Filters,
    JournalEntry,
    MarketRules,
    Placed,
    Rejected,
    Side,
    TaxProfile,
    TimeInForce,
    Trade,
    VatScheme,
    audit,
)
from bursa.market import commands as c
from bursa.market import events as e
from bursa.market.types import HOUR_NS, SECOND_NS, HostOffer
from bursa.money import Currency
from tests.market.mirror import Mirror
from tests.market.strategies import (
    CENT,
    GERMAN,
    H100,
    WIDE,
    Pick,
    World,
    crowded_world,
    mixed_world,
    one_of,
    open_world,
    picked,
    place_bid,
    proof,
    seeded,
    some_filters,
    some_price,
    step,
)

MIXED_SEEDS: Final = range(3)


# ── trades ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_trades(mirror: Mirror, events: tuple[e.Event, ...]) -> None:
    """Check each trade of one command against both limits and the maker's price, event by event."""
    for event in events:
        mirror.fold((event,))  # checks the limits, and that both orders still stand
        if isinstance(event, Trade) and event.taker is not None:
            maker = mirror.orders[event.ask_id if event.taker is Side.BUY else event.bid_id]
            assert event.price_micros == maker.price_micros, event


@pytest.mark.slow
@pytest.mark.parametrize("seed", MIXED_SEEDS)
def test_no_trade_is_worse_than_a_limit_and_the_maker_makes_the_price(seed: int) -> None:
    mirror = Mirror()
    for _, _, outcome in mixed_world(seed, 1_500).log:
        check_trades(mirror, outcome.events)
    assert len(mirror.trades) > 50


def brute_best(world: World, gpus: int, hours: int, filters: Filters, party_id: int) -> BestAsk | None:
    """Look at every host of every ask for the one that one lot must get."""
    engine = world.engine
    buyer = engine.party(party_id)
    assert buyer
    found = []
    for order in world.mirror.open_asks():
        ask = engine.order(order.order_id)
        assert isinstance(ask, Ask)
        seller = engine.party(ask.party_id)
        assert seller
        linked = seller.party_id == party_id or buyer.tax_id == seller.tax_id != ""
        linked = linked or buyer.payout_account == seller.payout_account != ""
        if linked or ask.instrument != H100 or not ask.min_hours <= hours <= ask.max_hours or gpus < ask.min_gpus:
            continue
        if world.now_ns + hours * HOUR_NS > ask.until_ns:
            continue
        for offer in ask.offers:
            free = brute_free(world, offer, filters)
            if free >= gpus:
                found.append((ask.price_micros, ask.priority, free, offer.host_id, ask.order_id))
    if not found:
        return None
    price, _, _, host_id, order_id = min(found)
    return BestAsk(order_id, host_id, price)


def brute_free(world: World, offer: HostOffer, filters: Filters) -> int:
    """Return the GPUs of an offered host that are on sale to whoever asks for ``filters``; 0 if it does not pass."""
    host = world.engine.host(offer.host_id)
    assert host
    spec = host.spec
    wants = (filters.ram_gib_min, spec.ram_gib), (filters.disk_gib_min, spec.disk_gib), (filters.vcpus_min, spec.vcpus)
    passes = (
        host.can_sell
        and (not filters.regions or bool({spec.country, spec.region} & set(filters.regions)))
        and (host.is_verified or not filters.is_verified_only)
        and host.reliability_ppm // 1_000 >= filters.reliability_min
        and host.host_id not in filters.avoid_hosts
        and all(has >= least * spec.gpus for least, has in wants)
    )
    return max(0, offer.gpus - host.busy_mask.bit_count()) if passes else 0


def check_best(world: World, pick: Pick) -> bool:
    """Ask for the best ask, then buy one lot: both must be what brute force says. Tell whether there was one."""
    gpus, hours, filters = one_of(pick, (1, 2, 3, 4, 8)), 1 + pick(6), some_filters(pick)
    party_id = one_of(pick, world.mirror.parties[:8])
    world.settle()
    expected = brute_best(world, gpus, hours, filters, party_id)
    fields = {"gpus": gpus, "hours": hours, "filters": filters, "party_id": party_id}
    assert world.engine.best_ask(H100, **fields, at_ns=world.now_ns) == expected  # type: ignore[arg-type]
    bid = place_bid(
        world, pick, **fields, instrument=H100, lots=1, limit_micros=some_price(pick), currency=Currency.USD,
        time_in_force=TimeInForce.IOC, expires_at_ns=0,
    )  # fmt: skip
    assert isinstance(bid, c.PlaceBid)
    outcome = world.send(bid)
    if isinstance(outcome.result, Rejected) and outcome.result.code != "NOTHING_TO_FILL":
        return False
    trades = [(t.ask_id, t.host_id, t.price_micros) for t in outcome.events if isinstance(t, Trade)]
    if expected is None or expected.price_micros > bid.limit_micros:
        assert trades == []
        return False
    assert trades == [(expected.order_id, expected.host_id, expected.price_micros)]
    return True


@pytest.mark.slow
@proof(40)
@given(st.data())
def test_the_cheapest_eligible_ask_is_never_skipped(data: st.DataObject) -> None:
    world, pick = crowded_world(sellers=3, hosts_each=2), picked(data)
    for _ in range(data.draw(st.integers(1, 25))):
        step(world, pick)
        check_best(world, pick)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MIXED_SEEDS)
def test_the_cheapest_eligible_ask_is_never_skipped_in_a_long_stream(seed: int) -> None:
    world, pick, found = crowded_world(hosts_each=6), seeded(seed), 0
    for _ in range(1_000):
        step(world, pick)
        found += check_best(world, pick)
    assert found > 10


# ── priority ─────────────────────────────────────────────────────────────────────────────────────────────────────────

PRICE: Final = 2_000_000


def two_asks() -> tuple[World, int, tuple[int, int], int]:
    """Two asks of 8 GPUs at one price, the first older; its (id, host); and a party with money."""
    world = open_world()
    seller, other, buyer = world.party(), world.party(), world.party()
    host, other_host = world.host(seller, 8), world.host(other, 8)
    first = world.ask(seller, PRICE, [(host, 6)])
    world.ask(other, PRICE, [(other_host, 6)])
    return world, seller, (first, host), buyer


def first_filled(world: World, buyer: int) -> int:
    """Return the ask that serves a bid for one GPU."""
    trades = [event for event in world.bid(buyer, PRICE).events if isinstance(event, Trade)]
    return trades[0].ask_id


@pytest.mark.parametrize(
    ("price", "gpus", "keeps"),
    [(PRICE, 6, True), (PRICE, 5, True), (PRICE, 7, False), (PRICE + 1_000, 6, False), (PRICE - 1_000, 6, None)],
)
def test_an_amended_ask_keeps_its_place_only_if_it_offers_less(price: int, gpus: int, keeps: bool | None) -> None:
    world, seller, (ask, host), buyer = two_asks()
    for terms in ((price, gpus), (PRICE, gpus)):  # and back to the old price, if it was changed
        fields = {"price_micros": terms[0], "offers": (HostOffer(host, terms[1]),)}
        assert world.make(c.AmendAsk, party_id=seller, order_id=ask, **fields) == ask
        if keeps is None:  # cheaper: it is first by price, not by time
            assert world.engine.best_ask(H100, gpus=1, hours=1) == BestAsk(ask, host, price)
            break
    else:
        assert (first_filled(world, buyer) == ask) == keeps


def test_an_ask_that_leaves_and_comes_back_stands_behind() -> None:
    world, seller, (ask, host), buyer = two_asks()
    world.do(c.CancelOrder, party_id=seller, order_id=ask)
    again = world.ask(seller, PRICE, [(host, 6)])
    assert first_filled(world, buyer) not in {ask, again}


@pytest.mark.parametrize(
    ("limit", "lots", "keeps"), [(PRICE, 3, True), (PRICE, 2, True), (PRICE, 4, False), (PRICE - 1_000, 3, False)]
)
def test_an_amended_bid_keeps_its_place_only_if_it_wants_less(limit: int, lots: int, keeps: bool) -> None:
    world = open_world()
    seller, buyer, other = world.party(), world.party(), world.party()
    bid = world.make(c.PlaceBid, party_id=buyer, instrument=H100, gpus=1, hours=1, limit_micros=PRICE, lots=3)
    world.bid(other, PRICE)
    for terms in (limit, PRICE):
        world.do(c.AmendBid, party_id=buyer, order_id=bid, limit_micros=terms, lots=lots)
    world.ask(seller, PRICE, [(world.host(seller, 1), 1)])
    assert (world.mirror.trades[0].bid_id == bid) == keeps


def test_a_bid_that_leaves_and_comes_back_stands_behind() -> None:
    world = open_world()
    seller, buyer, other = world.party(), world.party(), world.party()
    bid = world.make(c.PlaceBid, party_id=buyer, instrument=H100, gpus=1, hours=1, limit_micros=PRICE)
    world.bid(other, PRICE)
    world.do(c.CancelOrder, party_id=buyer, order_id=bid)
    world.bid(buyer, PRICE)
    world.ask(seller, PRICE, [(world.host(seller, 1), 1)])
    assert world.mirror.trades[0].buyer_id == other


def test_gpus_of_an_ended_rental_come_back_behind_whatever_the_host_went_through() -> None:
    """Example L, with a suspension while the rental is wiped: its seller must not gain a place in time by it."""
    for is_suspended in (False, True):
        world, seller, (ask, host), buyer = two_asks()
        other = max(order.order_id for order in world.mirror.open_asks())
        world.bid(buyer, PRICE, 6)
        rental = world.mirror.trades[0]
        assert rental.ask_id == ask
        world.do(c.StopRental, party_id=buyer, rental_id=rental.rental_id)
        if is_suspended:
            world.do(c.SuspendHost, host_id=host)
        world.do(c.ReportWiped, rental_id=rental.rental_id)
        world.do(c.CheckHost, host_id=host)
        assert first_filled(world, buyer) == other, f"suspended: {is_suspended}, seller {seller}"


# ── what one sees of the book ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("more", [(), (8,)])
def test_depth_counts_gpus_that_can_be_had_and_no_others(more: tuple[int, ...]) -> None:
    """A host with fewer free GPUs than min_gpus sells none of them, alone in its ask or not."""
    world = open_world()
    seller, buyer = world.party(), world.party()
    sizes = (4, *more)
    world.ask(seller, PRICE, [(world.host(seller, size), size) for size in sizes], min_gpus=3)
    world.bid(buyer, PRICE, 3)
    world.bid(buyer, PRICE - 1_000, 2, lots=3)
    depth = world.engine.depth(H100)
    assert depth.bids == ((PRICE - 1_000, 6),)
    assert sum(gpus for _, gpus in depth.asks) == sum(more)


# ── events suffice ───────────────────────────────────────────────────────────────────────────────────────────────────


def check_mirror(world: World) -> None:
    """Compare what events told with what the engine answers."""
    engine, mirror = world.engine, world.mirror
    assert mirror.nonzero() == {cur: accounts for cur, accounts in engine.balances().items() if accounts}
    for order in mirror.open_bids():
        bid = engine.order(order.order_id)
        assert isinstance(bid, Bid)
        assert (bid.lots, bid.filled, bid.leaves, bid.limit_micros) == (
            *(order.filled + order.leaves + order.canceled, order.filled, order.leaves, order.price_micros),
        )
    for order in list(mirror.orders.values())[-100:]:
        assert (engine.order(order.order_id) is None) == (order.state is not None)
    for rental in mirror.rentals.values():
        known = engine.rental(rental.rental_id)
        if known:
            assert (known.state, known.charged_hours, known.hours) == (rental.state, rental.charged_hours, rental.hours)
        else:
            assert rental.state == "WIPED"


@pytest.mark.slow
@pytest.mark.parametrize("seed", MIXED_SEEDS)
def test_events_alone_rebuild_every_balance_order_and_rental(seed: int) -> None:
    world, pick = crowded_world(), seeded(seed)
    for _ in range(60):
        for _ in range(25):
            step(world, pick)
        check_mirror(world)
    ids = [entry.entry_id for entry in world.mirror.entries]
    assert all(later == earlier + 1 for earlier, later in pairwise(ids)), "entries are numbered without a gap"
    assert {entry.kind for entry in world.mirror.entries} >= set(EntryKind) - RARE


#: Entries that a mixed stream may not meet; scenarios do.
RARE: Final = {
    *(EntryKind.PAYOUT_REQUESTED, EntryKind.PAYOUT_SETTLED, EntryKind.PAYOUT_RETURNED, EntryKind.DEBT_WRITTEN_OFF),
    *(EntryKind.HOURS_REVERSED, EntryKind.INVOICE, EntryKind.CHARGEBACK_WON, EntryKind.REFUND_FAILED),
    *(EntryKind.REFUND_SETTLED, EntryKind.EARNINGS_CLEARED, EntryKind.PENALTY),
}


# ── money ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sides(entry: JournalEntry, currency: str) -> Counter[str]:
    """Credit minus debit by the first word of the account."""
    words: Counter[str] = Counter()
    for posting in entry.postings:
        assert (posting.debit_micros > 0) != (posting.credit_micros > 0), entry
        assert min(posting.debit_micros, posting.credit_micros) == 0, entry
        if posting.currency == currency:
            words[posting.account.split(":")[0]] += posting.credit_micros - posting.debit_micros
    return words


def check_charge(entry: JournalEntry) -> None:
    """Check that VAT + fee + seller's share is what the buyer paid, across currencies too."""
    usd = sides(entry, "USD")
    sign = -1 if entry.kind is EntryKind.HOURS_REVERSED else 1
    assert usd["revenue.passthrough"] == -usd["cost.gpu_hours"]
    seller = usd["seller_pending"] + usd["seller_available"]
    assert seller == usd["revenue.passthrough"]
    assert seller * sign >= 0
    wallets = {posting.currency for posting in entry.postings if posting.account.startswith(("held:", "wallet:"))}
    assert len(wallets) <= 1, entry
    wallet = wallets.pop() if wallets else "USD"
    own = sides(entry, wallet)
    paid = -own["held"] - own["wallet"]
    if wallet == "USD":
        assert paid == own["vat_accrued"] + usd["revenue.platform_fee"] + seller, entry
    else:
        assert paid == own["vat_accrued"] + own["fx_position"] + own["revenue.fx_margin"], entry
        assert own["revenue.fx_margin"] * sign >= 0, "a customer never pays less than mid"
        assert -usd["fx_position"] == usd["revenue.platform_fee"] + seller, entry


@pytest.mark.slow
@pytest.mark.parametrize("seed", MIXED_SEEDS)
def test_vat_fee_and_seller_are_what_the_buyer_paid(seed: int) -> None:
    world = mixed_world(100 + seed, 1_500)
    charges = [en for en in world.mirror.entries if en.kind in {EntryKind.HOURS_CHARGED, EntryKind.HOURS_REVERSED}]
    assert len(charges) > 50
    assert {posting.currency for entry in charges for posting in entry.postings} >= {"USD", "EUR"}
    for entry in charges:
        check_charge(entry)
    for currency in Currency:
        engine = world.engine
        assert engine.balance("revenue.passthrough", currency) == -engine.balance("cost.gpu_hours", currency)
        for entry in world.mirror.entries:
            assert sum(sides(entry, currency).values()) == 0, entry


@pytest.mark.slow
@proof(150)
@given(st.data())
def test_hold_arithmetic(data: st.DataObject) -> None:
    world = open_world()
    mid = data.draw(st.integers(200_000, 5_000_000))
    vat_ppm = data.draw(st.one_of(st.just(0), st.integers(1, 300_000)))
    profile = TaxProfile("DE", VatScheme.OSS if vat_ppm else VatScheme.REVERSE_CHARGE, vat_ppm)
    buyer = world.party(tax=profile, usd=9_000_000)
    world.do(c.SetRate, currency=Currency.EUR, mid_micros=mid, as_of_ns=world.now_ns)
    world.top_up(buyer, 9_000_000, Currency.EUR)
    currency = data.draw(st.sampled_from([Currency.USD, Currency.EUR]))
    limit = data.draw(st.integers(1, 20_000)) * 1_000
    gpus, hours, lots = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    world.bid(buyer, limit, gpus, hours, lots=lots, currency=currency)
    net = limit
    if currency is Currency.EUR:
        rate = math.floor(Fraction(mid * 99, 100))
        net = math.ceil(Fraction(limit * 1_000_000, rate))
    vat = round(Fraction(net * vat_ppm, 1_000_000))  # Fraction rounds half to even
    (hold,) = world.engine.holds()
    assert hold.micros == (net + vat) * gpus * hours * lots
    assert (hold.currency, hold.party_id) == (currency, buyer)
    assert world.engine.available(buyer, currency) == 9_000_000 * 1_000_000 - hold.micros


def rented_world(price: int, gpus: int, hours: int, currency: Currency) -> tuple[World, int, int, int]:
    """Return a world with one started rental, and the ids of rental, buyer and seller."""
    world = open_world()
    seller, buyer = world.party(usd=0), world.party(tax=GERMAN)
    world.do(c.SetRate, currency=Currency.EUR, mid_micros=1_117_200, as_of_ns=world.now_ns)
    world.top_up(buyer, 100_000, Currency.EUR)
    world.ask(seller, price, [(world.host(seller, 16), 16)])
    world.bid(buyer, price, gpus, hours, currency=currency)
    rental_id = world.mirror.trades[0].rental_id
    world.do(c.StartRental, rental_id=rental_id)
    return world, rental_id, buyer, seller


@pytest.mark.slow
@proof(60)
@given(st.data())
def test_any_partition_of_the_hours_sums_to_the_total(data: st.DataObject) -> None:
    price = data.draw(st.integers(1, 9_999)) * 1_000
    gpus, hours = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 12))
    currency = data.draw(st.sampled_from([Currency.USD, Currency.EUR]))
    ends = []
    cuts = data.draw(st.lists(st.integers(1, 5_000), max_size=12))
    for pauses in ([12 * 3_600], cuts):
        world, rental_id, *_ = rented_world(price, gpus, hours, currency)
        for seconds in pauses:
            world.jump(seconds * SECOND_NS)
        world.jump(max(0, 12 * 3_600 - sum(pauses)) * SECOND_NS)
        assert world.mirror.rentals[rental_id].charged_hours == hours
        assert f"held:{rental_id}" not in world.engine.balances()[currency]
        assert audit(world.engine) == ()
        ends.append(without_pending(world))
    assert ends[0] == ends[1]


def without_pending(world: World) -> dict[str, Counter[str]]:
    """Balances with the seller's pending and available as one: when earnings clear is not what is compared."""
    joined: dict[str, Counter[str]] = {}
    for currency, accounts in world.engine.balances().items():
        for account, micros in accounts.items():
            name = account.replace("seller_available", "seller_pending")
            joined.setdefault(currency, Counter())[name] += micros
    return joined


@pytest.mark.slow
@proof(60)
@given(st.data())
def test_a_started_hour_is_a_charged_hour(data: st.DataObject) -> None:
    price = data.draw(st.integers(1, 9_999)) * 1_000
    gpus, hours = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 6))
    world, rental_id, buyer, seller = rented_world(price, gpus, hours, Currency.USD)
    before = world.engine.available(buyer, Currency.USD) + price_with_vat(price * gpus) * hours
    seconds = data.draw(st.integers(1, hours * 3_600 - 1))
    world.wait(seconds * SECOND_NS)
    world.do(c.StopRental, party_id=buyer, rental_id=rental_id)
    charged = -(-seconds // 3_600)
    assert world.mirror.rentals[rental_id].charged_hours == charged
    # Each GPU-hour's VAT is rounded once, and a charge is a multiple of it.
    assert world.engine.available(buyer, Currency.USD) == before - price_with_vat(price) * gpus * charged
    fee = price * gpus * 1_000 // 10_000
    assert world.engine.balance(f"seller_pending:{seller}", Currency.USD) == (price * gpus - fee) * charged
    assert world.engine.holds() == ()


def price_with_vat(net: int) -> int:
    return net + round(Fraction(net * 190_000, 1_000_000))


# ── the halt for volatility ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@proof(80)
@given(st.data())
def test_a_move_of_the_price_halts_the_book_and_nothing_less_does(data: st.DataObject) -> None:
    """Within less than the window, so that which trades count is beyond doubt; the first halt ends the example."""
    pick = picked(data)
    world = open_world(MarketRules(bid_band_percent=100_000, ask_band_percent=0))
    buyers = [world.party(tax_id=f"NL{number}") for number in range(3)]
    sellers = [world.party(tax_id="FR1"), world.party(tax_id="FR1"), world.party(tax_id="FR2")]
    owners: set[str] = set()
    prices: list[int] = []
    for _ in range(data.draw(st.integers(1, 25))):
        world.wait(pick(20) * SECOND_NS)
        seller, buyer, price = one_of(pick, sellers), one_of(pick, buyers), (100 + pick(41)) * CENT
        ask = world.ask(seller, price, [(world.host(seller, 1), 1)])
        world.bid(buyer, price)
        if world.engine.order(ask):
            world.do(c.CancelOrder, party_id=seller, order_id=ask)
        last = world.mirror.trades[-1]
        owners |= {party.tax_id for party in map(world.engine.party, (last.seller_id, last.buyer_id)) if party}
        prices.append(last.price_micros)
        expected = BookState.HALTED if len(owners) >= 3 and has_moved(prices, 30) else BookState.OPEN
        assert world.book().state is expected, (prices, owners)
        if expected is BookState.HALTED:
            world.wait(300 * SECOND_NS)
            assert world.book().state is BookState.OPEN
            return


def test_linked_parties_are_one_owner_to_the_halt() -> None:
    for other_tax_id, expected in (("FR1", BookState.OPEN), ("FR2", BookState.HALTED)):
        world = open_world(MarketRules(bid_band_percent=100_000, ask_band_percent=0))
        buyer, *sellers = (world.party(tax_id=tax_id) for tax_id in ("NL1", "FR1", other_tax_id))
        for seller, price in zip(sellers, (PRICE, PRICE * 2), strict=True):
            world.ask(seller, price, [(world.host(seller, 1), 1)])
            world.bid(buyer, price)
        assert world.book().state is expected, other_tax_id


def has_moved(prices: list[int], percent: int) -> bool:
    """Tell whether the last price lies this far above the lowest or below the highest."""
    last = prices[-1] * 100
    return last > min(prices) * (100 + percent) or last < max(prices) * (100 - percent)


def test_done_and_placed_say_what_was_made() -> None:
    world = open_world(WIDE)
    assert world.do(c.RegisterParty).result == Done(1)
    world.do(c.SetTaxProfile, party_id=1, profile=GERMAN)
    world.top_up(1, 100)
    result = world.bid(1, PRICE, lots=2).result
    assert isinstance(result, Placed)
    assert (result.order_id, result.state, result.leaves_lots) == (1, "NEW", 2)
