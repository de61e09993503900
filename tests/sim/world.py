"""What the generators share: the seeded chance, the simulated clock, who is who, and what a GPU-hour is worth today."""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Final, TypeVar

from bursa.market import HOUR_NS, MINUTE_NS, SECOND_NS, MarketRules, TaxProfile, VatScheme
from bursa.money import Currency
from tests.sim.mirror import Mirror

T = TypeVar("T")

#: 2026-01-05 08:00 UTC, a Monday.
START_NS: Final = 1_767_600_000 * SECOND_NS
TICK_MICROS: Final = 1_000
CENT_MICROS: Final = 10_000
#: The clock jumps ahead at this step for sure, and at random ones: no long run shall miss it.
FIRST_JUMP_AT: Final = 15_000

#: Instrument → price per GPU-hour at the start (micro-US$), and how often it is traded.
INSTRUMENTS: Final = {
    "rtx-4090": (400_000, 10),
    "h100-sxm": (2_900_000, 5),
    "a100-80g": (1_800_000, 3),
    "l40s": (900_000, 2),
}
#: Limits smaller than the defaults, so that a run of 100,000 commands meets them.
RULES: Final = MarketRules(open_orders_max=24, hosts_per_ask_max=4, dispute_hours=6, bid_days_max=3, hours_max=240)

PROFILES: Final = (
    TaxProfile("DE", VatScheme.DOMESTIC, 190_000, "address", "2026-01"),
    TaxProfile("FR", VatScheme.OSS, 200_000, "address+ip", "2026-01"),
    TaxProfile("IT", VatScheme.OSS, 220_000, "address+card", "2026-01"),
    TaxProfile("FI", VatScheme.OSS, 255_000, "address+card", "2026-01"),
    TaxProfile("FR", VatScheme.REVERSE_CHARGE, 0, "vies", "2026-01"),
    TaxProfile("GB", VatScheme.UK, 200_000, "address+ip", "2026-01"),
    TaxProfile("US", VatScheme.OUTSIDE, 0, "address+ip", "2026-01"),
    TaxProfile("ID", VatScheme.OUTSIDE, 0, "address+ip", "2026-01"),
)
COUNTRIES: Final = (("DE", "EU"), ("FR", "EU"), ("FI", "EU"), ("US", "NA"), ("CA", "NA"), ("SG", "APAC"), ("GB", ""))
MIDS: Final = {Currency.EUR: 1_087_000, Currency.GBP: 1_271_500}


@dataclass(slots=True)
class Plan:
    """What a party is like. ``wealth_cents`` is a usual top-up."""

    party_id: int
    is_seller: bool
    is_buyer: bool
    currencies: tuple[Currency, ...]
    wealth_cents: int
    host_count: int


class Wheel:
    """Choices with integer weights; `spin` takes one."""

    def __init__(self, choices: Sequence[tuple[int, str]]) -> None:
        self.names = [name for _, name in choices]
        self.sums = list(accumulate(weight for weight, _ in choices))

    def spin(self, rng: Random) -> str:
        return self.names[bisect(self.sums, int(rng.random() * self.sums[-1]))]


@dataclass
class Clock:
    """The wall clock as the sequencer sees it: small steps, rush hours, jumps ahead, sometimes steps back."""

    now_ns: int = START_NS
    steps: int = 0
    rush_left: int = 0
    jumps: int = 0
    steps_back: int = 0
    step_mean_ns: int = 3 * SECOND_NS

    def advance(self, rng: Random, *, is_busy: bool) -> None:
        """Move on; ``is_busy``: others are waiting to send, so this one follows at once."""
        dice = rng.random()
        self.steps += 1
        if self.steps == FIRST_JUMP_AT:
            dice = 0.0
        elif is_busy:
            self.now_ns += int(dice * 1_000_000)
            return
        elif self.rush_left:
            self.rush_left -= 1
            self.now_ns += int(dice * 100_000_000)
            return
        if dice < 0.000_02:
            self.jumps += 1
            self.now_ns += rng.randrange(HOUR_NS, 30 * HOUR_NS)
        elif dice < 0.001:
            self.steps_back += 1
            self.now_ns -= rng.randrange(20 * SECOND_NS)
        elif dice < 0.002:
            self.rush_left = rng.randrange(50, 400)
        elif dice < 0.01:
            self.now_ns += rng.randrange(3 * MINUTE_NS)
        else:
            self.now_ns += int(rng.random() * 2 * self.step_mean_ns)


@dataclass
class World:
    """Shared by all generators; the chance here makes the market, checks draw from another one."""

    rng: Random
    mirror: Mirror
    now_ns: int = START_NS
    last_id: int = 0
    plans: list[Plan] = field(default_factory=list)
    buyers: list[Plan] = field(default_factory=list)
    sellers: list[Plan] = field(default_factory=list)
    fair: dict[str, int] = field(default_factory=lambda: {name: price for name, (price, _) in INSTRUMENTS.items()})
    #: Refunds and payouts on their way.
    refunds: list[int] = field(default_factory=list)
    payouts: list[int] = field(default_factory=list)
    instruments: Wheel = field(
        default_factory=lambda: Wheel([(often, name) for name, (_, often) in INSTRUMENTS.items()])
    )

    def next_id(self) -> str:
        self.last_id += 1
        return f"c{self.last_id}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.rng.random() * len(items))]

    def between(self, low: int, high: int) -> int:
        """Return an integer with low ≤ it < high."""
        return low + int(self.rng.random() * (high - low))

    def party_id(self) -> int:
        return self.between(1, len(self.mirror.parties) + 1)

    def move_prices(self) -> None:
        """Let what a GPU-hour is worth wander, sometimes jump, and drift back to where it started."""
        name = self.instruments.spin(self.rng)
        start, _ = INSTRUMENTS[name]
        price = self.fair[name]
        price += price * self.between(-16, 17) // 1_000 + (start - price) // 100
        if self.chance(0.000_8):
            price = price * self.between(60, 165) // 100
        self.fair[name] = max(start // 3, min(3 * start, price))

    def price_near(self, instrument: str, low_percent: int, high_percent: int) -> int:
        """Return a price on tick between two percentages of what it is worth."""
        micros = self.fair[instrument] * self.between(10 * low_percent, 10 * high_percent) // 1_000
        return max(TICK_MICROS, micros // TICK_MICROS * TICK_MICROS)
