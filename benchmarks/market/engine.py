"""The whole engine under a steady mix, by the number of resting asks.

Ledger, holds, rentals, filters, VAT, EUR and GBP wallets and Ticks take part. The mix is made from outcomes (which
rental, which order), so commands cannot be made ahead; only `apply` is measured, one command at a time, Ticks included
in the time but not in the count.
"""

import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from benchmarks.market.measure import quiet_gc
from bursa.market import (
    NO_FILTERS,
    SECOND_NS,
    AmendAsk,
    CancelOrder,
    CheckHost,
    Command,
    CreditTopUp,
    Done,
    Engine,
    Filters,
    HostOffer,
    HostSpec,
    ListHost,
    ListInstrument,
    MarketRules,
    OpenBook,
    Outcome,
    PlaceAsk,
    PlaceBid,
    Placed,
    RegisterParty,
    Rejected,
    ReportWiped,
    SetRate,
    SetTaxProfile,
    StartRental,
    StopRental,
    TaxProfile,
    Tick,
    TimeInForce,
    Trade,
    VatScheme,
    audit,
)
from bursa.money import Currency

START_NS: Final = 1_767_600_000 * SECOND_NS
INSTRUMENT: Final = "h100-sxm"
BUYERS: Final = 200
GPUS_PER_HOST: Final = 8
BASE_MICROS: Final = 2_000_000
TICK_MICROS: Final = 1_000
#: Asks stand on this many different prices, $2.000 to $3.999.
PRICES: Final = 2_000
STEP_NS: Final = 10 * SECOND_NS
#: Commands between a trade and its start, its stop and its wipe.
FOLLOW: Final = {"start": 3, "stop": 300, "wipe": 20}
#: The same where few GPUs serve all: they have to come back soon.
FOLLOW_SOON: Final = {"start": 3, "stop": 5, "wipe": 2}
RESTING_BIDS_MAX: Final = 1_000
RATES_EVERY: Final = 5_000
RULES: Final = MarketRules(open_orders_max=1_000_000, halt_move_percent=100_000)

_TAXES: Final = (
    (Currency.USD, TaxProfile("US", VatScheme.OUTSIDE, 0)),
    (Currency.USD, TaxProfile("DE", VatScheme.DOMESTIC, 190_000)),
    (Currency.EUR, TaxProfile("FR", VatScheme.OSS, 200_000)),
    (Currency.EUR, TaxProfile("IT", VatScheme.REVERSE_CHARGE, 0)),
    (Currency.GBP, TaxProfile("GB", VatScheme.UK, 200_000)),
    (Currency.USD, TaxProfile("FR", VatScheme.OSS, 200_000)),
)
_REGIONS: Final = (("DE", "EU"), ("FR", "EU"), ("US", "NA"), ("SG", "APAC"))
_FILTERS: Final = (
    NO_FILTERS,
    NO_FILTERS,
    NO_FILTERS,
    Filters(regions=("EU",)),
    Filters(regions=("US", "DE"), is_verified_only=True),
    Filters(ram_gib_min=64),
    Filters(vcpus_min=8, disk_gib_min=50, reliability_min=850),
)
#: What only one ask in a thousand has: NEEDLE by a region of its own, PAIR by two things that many others have one of.
NEEDLE: Final = Filters(regions=("IS",))
PAIR: Final = Filters(regions=("JP",), ram_gib_min=512)


class Market:
    """An engine and the numbers needed to drive it. ``apply`` ticks first, as a sequencer does."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.engine = Engine(RULES)
        self.now_ns = START_NS
        self.number = 0
        self.buyers: list[tuple[int, Currency]] = []
        self.sellers: list[int] = []

    def next_id(self) -> str:
        self.number += 1
        return f"b{self.number}"

    def apply(self, command: Command) -> Outcome:
        engine = self.engine
        while engine.is_due(self.now_ns):
            engine.apply(Tick(command_id="t"), self.now_ns)
        return engine.apply(command, self.now_ns)

    def must(self, command: Command) -> Outcome:
        """Apply what may not be refused: a benchmark of refusals would be a fast one."""
        outcome = self.apply(command)
        assert not isinstance(outcome.result, Rejected), (command, outcome)
        return outcome

    def set_rates(self) -> None:
        """Publish today's rates; older than 96 hours, they would turn every order in EUR and GBP into a refusal."""
        for currency, mid in ((Currency.EUR, 1_087_000), (Currency.GBP, 1_271_500)):
            self.must(SetRate(command_id=self.next_id(), currency=currency, mid_micros=mid, as_of_ns=self.now_ns))

    def made(self, command: Command) -> int:
        result = self.must(command).result
        assert isinstance(result, Done), result
        return result.id


def build(
    asks: int, seed: int, *, needles: str = "", is_open: bool = True
) -> tuple[Market, list[tuple[int, int, int]]]:
    """Return a market with that many asks on one host each, and (order, host, seller) of each.

    needles: "region" or "pair" gives one ask in a thousand (at least one), among the dearest tenth, what the others
    lack.
    """
    market = Market(seed)
    market.set_rates()
    for number in range(BUYERS):
        currency, profile = _TAXES[number % len(_TAXES)]
        party_id = market.made(RegisterParty(command_id=market.next_id(), tax_id=f"T{number}"))
        market.must(SetTaxProfile(command_id=market.next_id(), party_id=party_id, profile=profile))
        market.must(CreditTopUp(
            command_id=market.next_id(), party_id=party_id, currency=currency, micros=10**14, provider="stripe"
        ))  # fmt: skip
        market.buyers.append((party_id, currency))
    market.must(ListInstrument(command_id=market.next_id(), instrument=INSTRUMENT))
    if is_open:
        market.must(OpenBook(command_id=market.next_id(), instrument=INSTRUMENT))
    for number in range(max(20, asks // 50)):
        market.sellers.append(market.made(RegisterParty(command_id=market.next_id(), tax_id=f"S{number}")))
    return market, [_add_ask(market, number, asks, needles) for number in range(asks)]


def _add_ask(market: Market, number: int, asks: int, needles: str) -> tuple[int, int, int]:
    rng = market.rng
    seller = market.sellers[number % len(market.sellers)]
    country, region = _REGIONS[rng.randrange(len(_REGIONS))]
    ram_gib = GPUS_PER_HOST * rng.choice((32, 64, 128))
    is_dear = number % 10 == 9
    price = BASE_MICROS + rng.randrange(PRICES) * TICK_MICROS
    if needles:
        price = (
            BASE_MICROS
            + (rng.randrange(PRICES * 9 // 10, PRICES) if is_dear else rng.randrange(PRICES * 9 // 10)) * TICK_MICROS
        )
        is_needle = number % 1_000 == min(999, asks - 1)
        if needles == "region" and is_needle:
            country, region = "IS", ""
        if needles == "pair":
            country, region = ("JP", "APAC") if is_needle or number % 2 else (country, region)
            ram_gib = GPUS_PER_HOST * (1_024 if is_needle or not number % 2 else 64)
    spec = HostSpec(
        gpus=GPUS_PER_HOST, country=country, region=region, vcpus=GPUS_PER_HOST * 16, ram_gib=ram_gib, disk_gib=2_000
    )
    host = market.made(ListHost(command_id=market.next_id(), party_id=seller, instrument=INSTRUMENT, spec=spec))
    market.must(CheckHost(command_id=market.next_id(), host_id=host, is_verified=rng.random() < 0.6))
    ask = PlaceAsk(
        command_id=market.next_id(), party_id=seller, offers=(HostOffer(host, GPUS_PER_HOST),), price_micros=price
    )
    result = market.must(ask).result
    assert isinstance(result, Placed), result
    return result.order_id, host, seller


class Mix:
    """Makes the steady mix. What a trade opened is started, stopped and wiped soon after: capacity comes back."""

    def __init__(self, market: Market, asks: list[tuple[int, int, int]], after: dict[str, int]) -> None:
        self.market = market
        self.asks = asks
        self.after = after
        self.bids: list[tuple[int, int]] = []
        self.queues: dict[str, deque[tuple[int, int, int]]] = {name: deque() for name in ("start", "stop", "wipe")}
        self.count = 0
        self.trades = 0

    def next(self) -> Command:
        """Return the next command: what is due of rentals first, else one of the market's own."""
        market = self.market
        due = self.due()
        if due is not None:
            return due
        dice = market.rng.random()
        if dice < 0.5:
            gpus = market.rng.choice((1, 1, 1, 2, 2, 4, 8))
            return self.buy_now(gpus, _FILTERS[market.rng.randrange(len(_FILTERS))])
        if dice < 0.7 and len(self.bids) < RESTING_BIDS_MAX:
            return self._rest()
        if dice < 0.85 and self.bids:
            index = market.rng.randrange(len(self.bids))
            self.bids[index], self.bids[-1] = self.bids[-1], self.bids[index]
            order_id, party_id = self.bids.pop()
            return CancelOrder(command_id=market.next_id(), party_id=party_id, order_id=order_id)
        order_id, host_id, seller = self.asks[market.rng.randrange(len(self.asks))]
        return AmendAsk(
            command_id=market.next_id(),
            party_id=seller,
            order_id=order_id,
            price_micros=BASE_MICROS + market.rng.randrange(PRICES) * TICK_MICROS,
            offers=(HostOffer(host_id, GPUS_PER_HOST),),
        )

    def due(self) -> Command | None:
        """Return the next step of a rental whose turn it is."""
        self.count += 1
        for name, queue in self.queues.items():
            if queue and queue[0][0] <= self.count:
                _, rental_id, party_id = queue.popleft()
                return self._follow(name, rental_id, party_id)
        return None

    def buy_now(self, gpus: int, filters: Filters) -> Command:
        """Return a bid that takes the cheapest fit now or nothing."""
        rng = self.market.rng
        party_id, currency = self.market.buyers[rng.randrange(BUYERS)]
        return PlaceBid(
            command_id=self.market.next_id(),
            party_id=party_id,
            instrument=INSTRUMENT,
            gpus=gpus,
            hours=rng.randint(1, 8),
            limit_micros=BASE_MICROS + PRICES * TICK_MICROS,
            currency=currency,
            time_in_force=TimeInForce.IOC,
            filters=filters,
        )

    def _rest(self) -> Command:
        """Return a bid below all asks, which stays, with filters as often as the others."""
        rng = self.market.rng
        party_id, currency = self.market.buyers[rng.randrange(BUYERS)]
        return PlaceBid(
            command_id=self.market.next_id(),
            party_id=party_id,
            instrument=INSTRUMENT,
            gpus=rng.choice((1, 2, 4, 8)),
            hours=rng.randint(1, 24),
            limit_micros=BASE_MICROS - rng.randint(1, 500) * TICK_MICROS,
            currency=currency,
            filters=_FILTERS[rng.randrange(len(_FILTERS))],
        )

    def _follow(self, name: str, rental_id: int, party_id: int) -> Command:
        command_id = self.market.next_id()
        if name == "start":
            self.queues["stop"].append((self.count + self.after["stop"], rental_id, party_id))
            return StartRental(command_id=command_id, rental_id=rental_id)
        if name == "stop":
            self.queues["wipe"].append((self.count + self.after["wipe"], rental_id, party_id))
            return StopRental(command_id=command_id, party_id=party_id, rental_id=rental_id)
        return ReportWiped(command_id=command_id, rental_id=rental_id)

    def note(self, command: Command, outcome: Outcome) -> None:
        """Learn from an outcome, outside the measured time."""
        result = outcome.result
        if isinstance(command, PlaceBid) and isinstance(result, Placed) and result.leaves_lots:
            self.bids.append((result.order_id, command.party_id))
        for event in outcome.events:
            if isinstance(event, Trade):
                self.trades += 1
                self.queues["start"].append((self.count + self.after["start"], event.rental_id, event.buyer_id))


def measure_mix(asks: int, commands: int, seed: int) -> dict[str, Any]:
    """Measure the steady mix with that many resting asks."""
    market, standing = build(asks, seed)
    mix = Mix(market, standing, FOLLOW)
    _drive(market, mix, mix.next, min(commands // 4, 2_000))
    mix.trades = 0
    result = _drive(market, mix, mix.next, commands)
    return {**result, "asks": asks, "trades": mix.trades, "violations": len(audit(market.engine))}


def measure_needle(asks: int, commands: int, seed: int, needles: str) -> dict[str, Any]:
    """Measure buy-nows whose filter fits one ask in a thousand, none of the cheaper nine tenths."""
    market, standing = build(asks, seed, needles=needles)
    mix = Mix(market, standing, FOLLOW_SOON)
    filters = NEEDLE if needles == "region" else PAIR

    def make() -> Command:
        """Return a due step of a rental, else a buy-now for the needle."""
        return mix.due() or mix.buy_now(1, filters)

    result = _drive(market, mix, make, commands)
    return {**result, "asks": asks, "trades": mix.trades, "needles": needles}


def _drive(market: Market, mix: Mix, make: Callable[[], Command], commands: int) -> dict[str, Any]:
    """Make, apply and note commands; measure `apply` and its Ticks alone, by the wall clock and by CPU time."""
    spans: list[int] = []
    cpu_ns = 0
    kinds: dict[str, list[int]] = {}
    refused = 0
    clock, cpu_clock = time.perf_counter_ns, time.thread_time_ns
    with quiet_gc():
        for number in range(commands):
            market.now_ns += STEP_NS
            if number % RATES_EVERY == 0:
                market.set_rates()
            command = make()
            cpu_start, start = cpu_clock(), clock()
            outcome = market.apply(command)
            spent = clock() - start
            cpu_ns += cpu_clock() - cpu_start
            spans.append(spent)
            kinds.setdefault(type(command).__name__, []).append(spent)
            refused += isinstance(outcome.result, Rejected)
            mix.note(command, outcome)
    total = sum(spans)
    ordered = sorted(spans)
    return {
        "commands": commands,
        "refused": refused,
        "seconds": total / 1e9,
        "cpu_seconds": cpu_ns / 1e9,
        "commands_per_second": commands / total * 1e9,
        "commands_per_cpu_second": commands / cpu_ns * 1e9,
        "us_mean": total / commands / 1e3,
        "us_median": ordered[commands // 2] / 1e3,
        "us_p99": ordered[commands * 99 // 100] / 1e3,
        "us_by_kind": {name: sum(times) / len(times) / 1e3 for name, times in sorted(kinds.items())},
        "share_by_kind": {name: len(times) / commands for name, times in sorted(kinds.items())},
    }
