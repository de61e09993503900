"""The opening auction: how long a big one takes, that it keeps every limit, and how near to the optimum it comes."""

from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.market.engine import _FILTERS, BUYERS, INSTRUMENT, TICK_MICROS, Market, build
from benchmarks.market.measure import timed
from bursa.market import (
    NO_FILTERS,
    CheckHost,
    Filters,
    HostOffer,
    HostSpec,
    ListHost,
    OpenBook,
    PlaceAsk,
    PlaceBid,
    Placed,
    PreopenBook,
    Trade,
    audit,
)
from bursa.market.events import AuctionHeld

_LOW_TICKS: Final = 1_500


def measure_auction(bids: int, asks: int, seed: int) -> dict[str, Any]:
    """Open a book with that many bids and asks, each side at distinct prices, and check the trades."""
    market, _ = build(0, seed, is_open=False)
    market.must(PreopenBook(command_id="preopen", instrument=INSTRUMENT))
    rng = market.rng
    hosts: dict[int, PlaceAsk] = {}
    for price in rng.sample(range(_LOW_TICKS, _LOW_TICKS + 2 * asks), asks):
        ask = _ask(market, rng, price * TICK_MICROS)
        market.must(ask)
        hosts[ask.offers[0].host_id] = ask
    placed: dict[int, PlaceBid] = {}
    for price in rng.sample(range(_LOW_TICKS, _LOW_TICKS + 2 * bids), bids):
        bid = _bid(market, rng, price * TICK_MICROS)
        result = market.must(bid).result
        assert isinstance(result, Placed), result
        placed[result.order_id] = bid
    with timed() as span:
        outcome = market.apply(OpenBook(command_id="open", instrument=INSTRUMENT))
    held = next(event for event in outcome.events if isinstance(event, AuctionHeld))
    trades = [event for event in outcome.events if isinstance(event, Trade) and event.taker is None]
    after = sum(isinstance(event, Trade) and event.taker is not None for event in outcome.events)
    return {
        "bids": bids,
        "asks": asks,
        "seconds": span.wall,
        "cpu_seconds": span.cpu,
        "price_micros": held.price_micros,
        "gpu_hours": held.gpu_hours,
        "trades": len(trades),
        "trades_after": after,
        "faults": _faults(trades, held, hosts, placed) + list(audit(market.engine)),
    }


def _ask(market: Market, rng: Random, price_micros: int) -> PlaceAsk:
    seller = rng.choice(market.sellers)
    country, region = rng.choice((("DE", "EU"), ("FR", "EU"), ("US", "NA"), ("SG", "APAC")))
    gpus = rng.choice((1, 2, 4, 8, 8, 8))
    spec = HostSpec(
        gpus=gpus,
        country=country,
        region=region,
        vcpus=16 * gpus,
        ram_gib=gpus * rng.choice((32, 64, 128)),
        disk_gib=2_000,
    )
    host = market.made(ListHost(command_id=market.next_id(), party_id=seller, instrument=INSTRUMENT, spec=spec))
    market.must(CheckHost(command_id=market.next_id(), host_id=host, is_verified=rng.random() < 0.6))
    return PlaceAsk(
        command_id=market.next_id(),
        party_id=seller,
        offers=(HostOffer(host, gpus),),
        price_micros=price_micros,
        min_gpus=1 if gpus < 4 or rng.random() < 0.8 else 2,
        min_hours=rng.choice((1, 1, 1, 2)),
        max_hours=rng.choice((720, 720, 24)),
    )


def _bid(market: Market, rng: Random, limit_micros: int) -> PlaceBid:
    party_id, currency = market.buyers[rng.randrange(BUYERS)]
    return PlaceBid(
        command_id=market.next_id(),
        party_id=party_id,
        instrument=INSTRUMENT,
        gpus=rng.choice((1, 1, 2, 2, 3, 4, 8)),
        hours=rng.choice((1, 2, 4, 8, 12, 24, 48)),
        limit_micros=limit_micros,
        currency=currency,
        filters=rng.choice(_FILTERS),
    )


def _faults(trades: list[Trade], held: AuctionHeld, hosts: dict[int, PlaceAsk], bids: dict[int, PlaceBid]) -> list[str]:
    """Return what is wrong with the trades of an auction: one price, no limit passed, no GPU sold twice."""
    faults: list[str] = []
    sold: dict[int, int] = {}
    for trade in trades:
        bid, ask = bids[trade.bid_id], hosts[trade.host_id]
        sold[trade.host_id] = sold.get(trade.host_id, 0) + trade.gpus
        is_right = (
            trade.price_micros == held.price_micros
            and ask.price_micros <= trade.price_micros <= bid.limit_micros
            and ask.min_gpus <= trade.gpus == bid.gpus
            and ask.min_hours <= trade.hours == bid.hours <= ask.max_hours
        )
        if not is_right:
            faults.append(f"{trade} of {bid} and {ask}")
    faults += [f"host {host} oversold" for host, gpus in sold.items() if gpus > hosts[host].offers[0].gpus]
    volume = sum(trade.gpus * trade.hours for trade in trades)
    if volume != held.gpu_hours:
        faults.append(f"{volume} GPU-hours traded, {held.gpu_hours} reported")
    return faults


class _Lot(NamedTuple):
    price: int
    gpus: int
    hours: int
    filters: Filters


class _Offer(NamedTuple):
    price: int
    gpus: int
    country: str


def measure_optimum(books: int, seed: int) -> dict[str, Any]:
    """Compare the auction's volume with an exact optimum on small books: the best price and the best packing there is.

    The auction serves bids in price-time order, which is fair but need not pack best; the ratio says what that costs.
    """
    ratios: list[float] = []
    best_total = held_total = 0
    rng = Random(seed)
    for number in range(books):
        lots = [
            _Lot(
                rng.randint(18, 30), rng.choice((1, 2, 3, 4, 8)), rng.choice((1, 2, 4, 10)), rng.choice(_SMALL_FILTERS)
            )
            for _ in range(rng.randint(3, 7))
        ]
        offers = [_Offer(rng.randint(16, 28), rng.choice((2, 4, 8)), rng.choice(("DE", "US"))) for _ in range(3)]
        held = _hold(lots, offers, seed + number)
        prices = {lot.price for lot in lots} | {offer.price for offer in offers}
        best = max(_best_at(price, lots, offers) for price in prices)
        assert held <= best, (lots, offers, held, best)
        held_total += held
        best_total += best
        if best:
            ratios.append(held / best)
    return {
        "books": books,
        "with_trades": len(ratios),
        "ratio_total": held_total / best_total,
        "ratio_mean": sum(ratios) / len(ratios),
        "ratio_min": min(ratios),
        "optimal_share": sum(ratio == 1 for ratio in ratios) / len(ratios),
    }


_SMALL_FILTERS: Final = (NO_FILTERS, NO_FILTERS, Filters(regions=("DE",)), Filters(regions=("US",)))


def _hold(lots: list[_Lot], offers: list[_Offer], seed: int) -> int:
    """Return the GPU-hours that the engine's auction trades."""
    market, _ = build(0, seed, is_open=False)
    market.must(PreopenBook(command_id="preopen", instrument=INSTRUMENT))
    for offer in offers:
        spec = HostSpec(gpus=offer.gpus, country=offer.country)
        seller = market.sellers[0]
        host = market.made(ListHost(command_id=market.next_id(), party_id=seller, instrument=INSTRUMENT, spec=spec))
        market.must(CheckHost(command_id=market.next_id(), host_id=host))
        market.must(PlaceAsk(
            command_id=market.next_id(), party_id=seller, offers=(HostOffer(host, offer.gpus),),
            price_micros=offer.price * TICK_MICROS,
        ))  # fmt: skip
    for lot in lots:
        party_id, currency = market.buyers[0]
        market.must(PlaceBid(
            command_id=market.next_id(), party_id=party_id, instrument=INSTRUMENT, gpus=lot.gpus, hours=lot.hours,
            limit_micros=lot.price * TICK_MICROS, currency=currency, filters=lot.filters,
        ))  # fmt: skip
    outcome = market.must(OpenBook(command_id="open", instrument=INSTRUMENT))
    return sum(event.gpu_hours for event in outcome.events if isinstance(event, AuctionHeld))


def _best_at(price: int, lots: list[_Lot], offers: list[_Offer]) -> int:
    """Return the most GPU-hours that any assignment of lots to hosts trades at a price: every one is tried."""
    wanted = sorted((lot for lot in lots if lot.price >= price), key=lambda lot: -lot.gpus * lot.hours)
    hosts = [offer for offer in offers if offer.price <= price]
    rest = [sum(lot.gpus * lot.hours for lot in wanted[n:]) for n in range(len(wanted) + 1)]
    best = 0

    def place(n: int, free: tuple[int, ...], volume: int) -> None:
        nonlocal best
        best = max(best, volume)
        if n == len(wanted) or volume + rest[n] <= best:
            return
        lot = wanted[n]
        for index, gpus in enumerate(free):
            fits = not lot.filters.regions or hosts[index].country in lot.filters.regions
            if gpus >= lot.gpus and fits:
                place(n + 1, (*free[:index], gpus - lot.gpus, *free[index + 1 :]), volume + lot.gpus * lot.hours)
        place(n + 1, free, volume)

    place(0, tuple(offer.gpus for offer in hosts), 0)
    return best
