"""The call auction: one price that maximizes traded GPU-hours, found without trying every price in full.

For a price p the rule is: bids ≥ p in price-time order each take the tightest-fitting eligible host with
ask ≤ p (among equally tight ones the cheapest ask, then the oldest, then the lowest host id), all at p. Lots
are indivisible and hosts differ, so volume is not the minimum of two curves and must be simulated. Two facts
keep that cheap and exact:

* Between two neighboring ask prices the set of asks is the same, and a lower p only adds bids behind the
  others. One pass over the bids gives the volume at every candidate price of such a level.
* A level whose bound (all demand at its price, or its GPUs filled with the longest bids) is below the best
  volume found cannot win, so levels are tried from the highest bound down.

Hosts are bits of an integer in the order of price, time and id; a set of hosts with f GPUs left is one
integer, and "the first eligible host" is its lowest bit. Source: market rules §2 (docs/explain/book.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from bursa.market.fitting import host_passes
from bursa.market.state import Ask, Bid, Book, Host, State
from bursa.market.types import GPUS_PER_HOST_MAX, HOUR_NS, Filters
from bursa.market.volatility import reference_micros


class AuctionResult(NamedTuple):
    """What an auction would do now: price (0 = nothing trades), volume, imbalance, fills and who stays behind."""

    price_micros: int
    gpu_hours: int
    imbalance_gpus: int
    fills: tuple[tuple[Bid, Ask, Host], ...]
    unfilled: tuple[Bid, ...]


class _Candidate(NamedTuple):
    """A price and what trades at it, in the order of preference when negated as in ``rank``."""

    price_micros: int
    gpu_hours: int
    imbalance_gpus: int

    def rank(self, reference: int) -> tuple[int, int, int, int]:
        """Most volume, then least imbalance, then nearest the reference, then the lower price."""
        distance = abs(self.price_micros - reference) if reference else 0
        return (-self.gpu_hours, self.imbalance_gpus, distance, self.price_micros)


#: What a pass needs of a bid: limit, GPUs, lots, hours, bits of the eligible hosts.
_Wanted = tuple[int, int, int, int, int]


class _Supply:
    """The hosts on sale, ranked, and which of them each bid may take."""

    def __init__(self, state: State, asks: Iterable[Ask], at_ns: int) -> None:
        ranked = [
            (ask.price_micros, ask.priority, host.host_id, ask, host, leaves)
            for ask in asks
            for offer in ask.offers
            if (leaves := (host := state.hosts[offer.host_id]).leaves(offer.gpus)) >= ask.min_gpus
        ]
        ranked.sort(key=lambda row: row[:3])
        self.state = state
        self.at_ns = at_ns
        self.prices = [row[0] for row in ranked]
        self.asks = [row[3] for row in ranked]
        self.hosts = [row[4] for row in ranked]
        self.leaves = [row[5] for row in ranked]
        self._hours: dict[int, int] = {}
        self._gpus: dict[int, int] = {}
        self._filters: dict[Filters, int] = {}
        self._owners: dict[tuple[str, str], int] = {}
        for rank, ask in enumerate(self.asks):
            party = state.parties[ask.party_id]
            names = (("id", str(party.party_id)), ("tax", party.tax_id), ("payout", party.payout_account))
            for name in names:
                if name[1]:
                    self._owners[name] = self._owners.get(name, 0) | 1 << rank

    def eligible(self, bid: Bid) -> int:
        """Return the bits of the hosts that may serve a bid, whatever prices and free GPUs are."""
        if bid.hours not in self._hours:
            ends_at_ns = self.at_ns + bid.hours * HOUR_NS
            self._hours[bid.hours] = self._bits(
                ask.min_hours <= bid.hours <= ask.max_hours and ends_at_ns <= ask.until_ns for ask in self.asks
            )
        if bid.gpus not in self._gpus:
            self._gpus[bid.gpus] = self._bits(ask.min_gpus <= bid.gpus for ask in self.asks)
        if bid.filters not in self._filters:
            self._filters[bid.filters] = self._bits(host_passes(host, bid.filters) for host in self.hosts)
        party = self.state.parties[bid.party_id]
        own = self._owners.get(("id", str(party.party_id)), 0)
        own |= self._owners.get(("tax", party.tax_id), 0) | self._owners.get(("payout", party.payout_account), 0)
        return self._hours[bid.hours] & self._gpus[bid.gpus] & self._filters[bid.filters] & ~own

    @staticmethod
    def _bits(flags: Iterable[bool]) -> int:
        return int("".join("1" if flag else "0" for flag in flags)[::-1] or "0", 2)


class _Pass:
    """One simulation: bids from the highest take hosts of the first ``count`` ranks."""

    def __init__(self, supply: _Supply, count: int) -> None:
        self.by_leaves = [0] * (GPUS_PER_HOST_MAX + 1)
        for rank in range(count):
            self.by_leaves[supply.leaves[rank]] |= 1 << rank
        self.leaves_end = max(supply.leaves[:count], default=0) + 1
        self.gpus_left = sum(supply.leaves[:count])
        self.gpu_hours = 0
        self.gpus_wanted = 0

    def take(self, gpus: int, eligible: int) -> int:
        """Take GPUs of the tightest-fitting eligible host; return its bit, 0 when none fits."""
        by_leaves = self.by_leaves
        for leaves in range(gpus, self.leaves_end):
            fitting = by_leaves[leaves] & eligible
            if fitting:
                bit = fitting & -fitting
                by_leaves[leaves] ^= bit
                by_leaves[leaves - gpus] |= bit
                return bit
        return 0

    def fill(self, gpus: int, lots: int, hours: int, eligible: int) -> None:
        """Fill as many lots of a bid as fit; ``take`` in line, since this is where an auction spends its time."""
        by_leaves, end, left = self.by_leaves, self.leaves_end, lots
        while left and self.gpus_left >= gpus:
            for leaves in range(gpus, end):
                fitting = by_leaves[leaves] & eligible
                if fitting:
                    bit = fitting & -fitting
                    by_leaves[leaves] ^= bit
                    by_leaves[leaves - gpus] |= bit
                    break
            else:
                break
            self.gpus_left -= gpus
            self.gpu_hours += gpus * hours
            left -= 1
        self.gpus_wanted += left * gpus

    def candidate(self, price_micros: int) -> _Candidate:
        """Return what trades at a price, once all bids at or above it are filled."""
        return _Candidate(price_micros, self.gpu_hours, abs(self.gpus_wanted - self.gpus_left))


def find_auction(state: State, book: Book, at_ns: int) -> AuctionResult:
    """Return the auction that would be held now, changing nothing."""
    sides = state.sides[book.instrument]
    bids = list(sides.bids)
    supply = _Supply(state, sides.asks, at_ns)
    if not bids or not supply.prices:
        return AuctionResult(0, 0, 0, (), ())
    eligible = [supply.eligible(bid) for bid in bids]
    wanted = [
        (bid.limit_micros, bid.gpus, bid.leaves, bid.hours, hosts) for bid, hosts in zip(bids, eligible, strict=True)
    ]
    reference = reference_micros(book, at_ns)
    best: _Candidate | None = None
    for bound, low, high in _levels(bids, supply):
        if best is not None and bound < best.gpu_hours:
            break
        for candidate in _try_level(wanted, supply, low, high, best.gpu_hours if best else 0):
            if candidate.gpu_hours and (best is None or candidate.rank(reference) < best.rank(reference)):
                best = candidate
    if best is None:
        return AuctionResult(0, 0, 0, (), ())
    return _fills(bids, eligible, supply, best)


def _levels(bids: list[Bid], supply: _Supply) -> list[tuple[int, int, int]]:
    """Return (bound on volume, ask price, next ask price or 0) for each level of asks, highest bound first."""
    prices = sorted(set(supply.prices))
    gpus = 0
    gpus_at: dict[int, int] = {}
    for price, leaves in zip(supply.prices, supply.leaves, strict=True):
        gpus += leaves
        gpus_at[price] = gpus
    levels: list[tuple[int, int, int]] = []
    by_hours: dict[int, int] = {}
    number = 0
    for position in range(len(prices) - 1, -1, -1):
        price = prices[position]
        while number < len(bids) and bids[number].limit_micros >= price:
            bid = bids[number]
            by_hours[bid.hours] = by_hours.get(bid.hours, 0) + bid.gpus * bid.leaves
            number += 1
        following = prices[position + 1] if position + 1 < len(prices) else 0
        levels.append((_bound(by_hours, gpus_at[price]), price, following))
    levels.sort(reverse=True)
    return levels


def _bound(by_hours: dict[int, int], gpus: int) -> int:
    """Return the GPU-hours of ``gpus`` GPUs given to the longest bids, as if lots could be cut."""
    total = 0
    for hours in sorted(by_hours, reverse=True):
        taken = min(gpus, by_hours[hours])
        total += taken * hours
        gpus -= taken
        if gpus == 0:
            break
    return total


def _try_level(wanted: list[_Wanted], supply: _Supply, low: int, high: int, to_beat: int) -> list[_Candidate]:
    """Return what trades at each candidate price in [low, high): its asks are those up to ``low``.

    Gives up once even the longest bids in all GPUs that are left could not make the volume ``to_beat``.
    """
    count = bisect_right(supply.prices, low)
    allowed = (1 << count) - 1
    run = _Pass(supply, count)
    candidates: list[_Candidate] = []
    price = 0
    longest = max(hours for _, _, _, hours, _ in wanted)
    for limit, gpus, lots, hours, hosts in wanted:
        if limit < low:
            break
        if limit != price:
            if price and (not high or price < high):
                candidates.append(run.candidate(price))
            price = limit
        run.fill(gpus, lots, hours, hosts & allowed)
        if run.gpu_hours + run.gpus_left * longest < to_beat:
            return candidates
    if price and price != low and (not high or price < high):
        candidates.append(run.candidate(price))
    candidates.append(run.candidate(low))
    return candidates


def _fills(bids: list[Bid], eligible: list[int], supply: _Supply, best: _Candidate) -> AuctionResult:
    """Run the pass at the price that won and say who takes what."""
    count = bisect_right(supply.prices, best.price_micros)
    allowed = (1 << count) - 1
    run = _Pass(supply, count)
    fills: list[tuple[Bid, Ask, Host]] = []
    unfilled: list[Bid] = []
    for bid, hosts in zip(bids, eligible, strict=True):
        if bid.limit_micros < best.price_micros:
            break
        filled = 0
        while filled < bid.leaves and (bit := run.take(bid.gpus, hosts & allowed)):
            rank = bit.bit_length() - 1
            fills.append((bid, supply.asks[rank], supply.hosts[rank]))
            filled += 1
        if filled < bid.leaves:
            unfilled.append(bid)
    assert sum(bid.gpus * bid.hours for bid, _, _ in fills) == best.gpu_hours, best
    return AuctionResult(best.price_micros, best.gpu_hours, best.imbalance_gpus, tuple(fills), tuple(unfilled))
