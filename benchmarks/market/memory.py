"""A million open orders: seconds to snapshot and to restore, bytes an order in memory and on disk.

One order in ten is an ask on a host of its own, the others are bids of 200 parties in three currencies. What is
measured is the growth after the first orders, when the table of remembered command ids (65,536) is full and costs no
more.
"""

import gc
import time
import tracemalloc
from typing import Any, Final

from benchmarks.market.engine import _FILTERS, BASE_MICROS, BUYERS, INSTRUMENT, TICK_MICROS, Market, build
from benchmarks.market.measure import rss_bytes, timed
from bursa.market import CheckHost, Command, Engine, HostOffer, HostSpec, ListHost, PlaceAsk, PlaceBid
from bursa.market.state import IDEMPOTENCY_COMMANDS_MAX

_ASK_EVERY: Final = 10


def measure_memory(orders: int, seed: int) -> dict[str, Any]:
    """Measure resident memory, snapshot and restore with that many open orders."""
    market, hosts = _prepare(orders, seed)
    first = min(orders // 10, IDEMPOTENCY_COMMANDS_MAX * 3 // 2)
    start = time.perf_counter()
    gc.disable()
    for number in range(first):
        market.must(_order(market, hosts, number))
    gc.collect()
    rss = rss_bytes()
    for number in range(first, orders):
        market.must(_order(market, hosts, number))
    placed_seconds = time.perf_counter() - start
    gc.collect()
    per_order = (rss_bytes() - rss) / (orders - first)
    gc.enable()
    with timed() as saving:
        data = market.engine.snapshot()
    before = rss_bytes()
    with timed() as loading:
        restored = Engine.restore(data)
    restored_bytes = rss_bytes() - before
    assert restored.digest() == market.engine.digest(), "the restored engine differs"
    return {
        "orders": orders,
        "place_us": placed_seconds / orders * 1e6,
        "snapshot_seconds": saving.wall,
        "restore_seconds": loading.wall,
        "snapshot_bytes": len(data),
        "disk_bytes_per_order": len(data) / orders,
        "rss_bytes_per_order": per_order,
        "rss_bytes_per_order_restored": restored_bytes / orders,
    }


def measure_traced(orders: int, seed: int) -> dict[str, Any]:
    """Measure what Python itself allocates an order; slow under tracemalloc, so with fewer orders."""
    market, hosts = _prepare(orders, seed)
    first = orders // 2
    gc.collect()
    tracemalloc.start()
    for number in range(first):
        market.must(_order(market, hosts, number))
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(first, orders):
        market.must(_order(market, hosts, number))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"orders": orders, "traced_bytes_per_order": (after - before) / (orders - first)}


def _prepare(orders: int, seed: int) -> tuple[Market, list[tuple[int, int]]]:
    """Return a market with a listed host for each ask to come; hosts are not what is measured."""
    market, _ = build(0, seed)
    hosts = []
    spec = HostSpec(gpus=8, country="DE", region="EU", vcpus=128, ram_gib=512, disk_gib=2_000)
    for number in range(orders // _ASK_EVERY + 1):
        seller = market.sellers[number % len(market.sellers)]
        host = market.made(ListHost(command_id=market.next_id(), party_id=seller, instrument=INSTRUMENT, spec=spec))
        market.must(CheckHost(command_id=market.next_id(), host_id=host))
        hosts.append((host, seller))
    return market, hosts


def _order(market: Market, hosts: list[tuple[int, int]], number: int) -> Command:
    """Return the next order; bids stay below all asks."""
    rng = market.rng
    if number % _ASK_EVERY == 0:
        host, seller = hosts[number // _ASK_EVERY]
        price = BASE_MICROS + rng.randrange(2_000) * TICK_MICROS
        return PlaceAsk(command_id=market.next_id(), party_id=seller, offers=(HostOffer(host, 8),), price_micros=price)
    party_id, currency = market.buyers[rng.randrange(BUYERS)]
    return PlaceBid(
        command_id=market.next_id(),
        party_id=party_id,
        instrument=INSTRUMENT,
        gpus=rng.choice((1, 2, 4, 8)),
        hours=rng.randint(1, 24),
        limit_micros=BASE_MICROS - rng.randint(1, 1_000) * TICK_MICROS,
        currency=currency,
        filters=_FILTERS[rng.randrange(len(_FILTERS))],
    )
