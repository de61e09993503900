"""Whether an ask can serve a bid, exactly; and the bit masks by which the index skips what cannot.

``fit`` bits: one for each (region slot, verified?, GPUs), so "4 GPUs, verified, in DE or EU" is a handful of
bits and an ask sets those that it can serve now. ``caps`` bits are thermometers: "min_hours ≤ 24" or
"RAM per GPU ≥ 64 GiB" at fixed thresholds; a bid needs the bits at the thresholds nearest to what it asks,
on the lenient side, so that no fitting ask is ever skipped. The exact test follows for what passes.

For the other direction (an ask walks the resting bids) the same bits serve: a bid rests with its wanted fit
bits, and with the complement of its needs; N ⊆ C is the same as ~C ⊆ ~N.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import Final, NamedTuple

from bursa.market.state import Ask, Bid, Host, Party, Sides, State
from bursa.market.types import GPUS_PER_HOST_MAX, HOUR_NS, NO_FILTERS, REGION_GROUPS, Filters, HostSpec

_HOURS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48, 72, 96, 120, 168, 240, 336, 504, 720, 1440, 4380, 8760)
#: Coarse where few hosts are, fine from 800 per mille up, where hosts start and filters ask.
_RELIABILITY: Final = (*range(0, 800, 50), *range(800, 1_001, 5))
_POWERS: Final = tuple(2**i for i in range(21))

_MIN_HOURS_AT: Final = 0
_MAX_HOURS_AT: Final = _MIN_HOURS_AT + len(_HOURS)
_RELIABILITY_AT: Final = _MAX_HOURS_AT + len(_HOURS)
_RAM_AT: Final = _RELIABILITY_AT + len(_RELIABILITY)
_DISK_AT: Final = _RAM_AT + len(_POWERS)
_VCPUS_AT: Final = _DISK_AT + len(_POWERS)
CAPS_ALL: Final = (1 << (_VCPUS_AT + len(_POWERS))) - 1

#: Bits of a fit mask for one region slot: 16 numbers of GPUs, twice (any host; verified hosts).
_SLOT_BITS: Final = 2 * GPUS_PER_HOST_MAX
#: The slot that every host and every bid without a region has.
_ANYWHERE: Final = 0


def region_slot(sides: Sides, code: str) -> int:
    """Return the number of a region code in this book's masks, giving it one when it is new."""
    slots = sides.region_slots
    slot = slots.get(code)
    if slot is None:
        slot = slots[code] = len(slots) + 1
    return slot


def region_codes(spec: HostSpec) -> tuple[str, ...]:
    """Return the codes by which a filter finds a host: its country, its group."""
    codes = (spec.country,) if spec.country not in REGION_GROUPS else ()
    return (*codes, spec.region) if spec.region else codes


def _up_to(count: int) -> int:
    """Return ``count`` low bits."""
    return (1 << count) - 1


def _spec_caps(spec: HostSpec) -> int:
    gpus = spec.gpus
    caps = _up_to(bisect_right(_POWERS, spec.ram_gib // gpus)) << _RAM_AT
    caps |= _up_to(bisect_right(_POWERS, spec.disk_gib // gpus)) << _DISK_AT
    return caps | _up_to(bisect_right(_POWERS, spec.vcpus // gpus)) << _VCPUS_AT


@lru_cache(maxsize=4_096)
def _ask_hours_caps(min_hours: int, max_hours: int) -> int:
    low = CAPS_ALL & (_up_to(len(_HOURS)) & ~_up_to(bisect_left(_HOURS, min_hours))) << _MIN_HOURS_AT
    return low | _up_to(bisect_right(_HOURS, max_hours)) << _MAX_HOURS_AT


def host_masks(sides: Sides, host: Host, ask: Ask, leaves: int) -> tuple[int, int]:
    """Return (fit, caps) of one host of an ask that has ``leaves`` GPUs on sale; (0, 0) when it serves nobody."""
    gpus = _up_to(leaves) & ~_up_to(ask.min_gpus - 1)
    if not gpus:
        return 0, 0
    known = sides.host_bits.get(host.host_id)
    if known is None or known[0] is not host.spec or known[1] != host.is_verified:
        spread = 1 << _ANYWHERE * _SLOT_BITS
        for code in region_codes(host.spec):
            spread |= 1 << region_slot(sides, code) * _SLOT_BITS
        if host.is_verified:
            spread |= spread << GPUS_PER_HOST_MAX
        known = sides.host_bits[host.host_id] = (host.spec, host.is_verified, spread, _spec_caps(host.spec))
    caps = known[3] | _ask_hours_caps(ask.min_hours, ask.max_hours)
    return gpus * known[2], caps | _up_to(bisect_right(_RELIABILITY, host.reliability_ppm // 1_000)) << _RELIABILITY_AT


def ask_masks(state: State, sides: Sides, ask: Ask) -> tuple[int, int]:
    """Return the masks of a whole ask: the OR over its hosts, (0, 0) when it has nothing on sale."""
    if len(ask.offers) == 1:
        offer = ask.offers[0]
        host = state.hosts[offer.host_id]
        return host_masks(sides, host, ask, host.leaves(offer.gpus))
    fit = caps = 0
    for offer in ask.offers:
        host = state.hosts[offer.host_id]
        host_fit, host_caps = host_masks(sides, host, ask, host.leaves(offer.gpus))
        fit |= host_fit
        caps |= host_caps
    return fit, caps


@lru_cache(maxsize=4_096)
def _bid_need(hours: int, filters: Filters) -> int:
    need = 1 << _MIN_HOURS_AT + bisect_left(_HOURS, hours)
    need |= 1 << _MAX_HOURS_AT + bisect_right(_HOURS, hours) - 1
    need |= 1 << _RELIABILITY_AT + bisect_right(_RELIABILITY, filters.reliability_min) - 1
    for at, amount in (
        (_RAM_AT, filters.ram_gib_min),
        (_DISK_AT, filters.disk_gib_min),
        (_VCPUS_AT, filters.vcpus_min),
    ):
        if amount:
            need |= 1 << at + bisect_right(_POWERS, amount) - 1
    return need


def bid_masks(sides: Sides, gpus: int, hours: int, filters: Filters) -> tuple[int, int]:
    """Return (want, need) of a bid's lots."""
    bit = 1 << gpus - 1 + (GPUS_PER_HOST_MAX if filters.is_verified_only else 0)
    if not filters.regions:
        return bit << _ANYWHERE * _SLOT_BITS, _bid_need(hours, filters)
    want = 0
    for code in filters.regions:
        want |= bit << region_slot(sides, code) * _SLOT_BITS
    return want, _bid_need(hours, filters)


def is_linked(one: Party, other: Party) -> bool:
    """Return whether two parties count as one owner: the same, or the same tax id or payout account."""
    return (
        one is other
        or (one.tax_id != "" and one.tax_id == other.tax_id)
        or (one.payout_account != "" and one.payout_account == other.payout_account)
    )


def host_passes(host: Host, filters: Filters) -> bool:
    """Return whether a host meets everything that a bid's filters ask."""
    if filters is NO_FILTERS:
        return True
    spec = host.spec
    regions = filters.regions
    return (
        (not regions or spec.region in regions or (spec.country in regions and spec.country not in REGION_GROUPS))
        and (host.is_verified or not filters.is_verified_only)
        and host.reliability_ppm >= filters.reliability_min * 1_000
        and spec.ram_gib >= filters.ram_gib_min * spec.gpus
        and spec.disk_gib >= filters.disk_gib_min * spec.gpus
        and spec.vcpus >= filters.vcpus_min * spec.gpus
        and host.host_id not in filters.avoid_hosts
    )


def pick_host(
    state: State, ask: Ask, gpus: int, hours: int, filters: Filters, at_ns: int, taken: dict[int, int] | None = None
) -> Host | None:
    """Return the tightest-fitting host of an ask for one lot (then the lowest id), None when none fits.

    ``taken`` are GPUs per host that a plan in the making has already used.
    """
    if gpus < ask.min_gpus or not ask.min_hours <= hours <= ask.max_hours or at_ns + hours * HOUR_NS > ask.until_ns:
        return None
    best: Host | None = None
    best_leaves = GPUS_PER_HOST_MAX + 1
    hosts = state.hosts
    for offer in ask.offers:
        host = hosts[offer.host_id]
        leaves = host.leaves(offer.gpus)
        if taken:
            leaves -= taken.get(host.host_id, 0)
        if leaves < gpus or leaves > best_leaves or not host_passes(host, filters):
            continue
        if best is None or leaves < best_leaves or host.host_id < best.host_id:
            best, best_leaves = host, leaves
    return best


class LotQuery(NamedTuple):
    """All that decides whether an ask serves a lot, but the ask; the token of a search among asks."""

    gpus: int
    hours: int
    filters: Filters
    party_id: int
    tax_id: str
    payout_account: str


def lot_query(gpus: int, hours: int, filters: Filters, buyer: Party | None) -> LotQuery:
    """Return the query of one lot; without a buyer nobody's asks are passed over."""
    if buyer is None:
        return LotQuery(gpus, hours, filters, 0, "", "")
    return LotQuery(gpus, hours, filters, buyer.party_id, buyer.tax_id, buyer.payout_account)


def lot_fits(state: State, ask: Ask, query: LotQuery, at_ns: int) -> bool:
    """Return whether an ask serves the lot of a query, by the exact test."""
    buyer = state.parties.get(query.party_id)
    if buyer is not None and is_linked(buyer, state.parties[ask.party_id]):
        return False
    return pick_host(state, ask, query.gpus, query.hours, query.filters, at_ns) is not None


def bid_fits(state: State, ask: Ask, bid: Bid, at_ns: int) -> Host | None:
    """Return the host on which an ask serves a lot of a bid, whatever their prices; None when it does not."""
    if is_linked(state.parties[bid.party_id], state.parties[ask.party_id]):
        return None
    return pick_host(state, ask, bid.gpus, bid.hours, bid.filters, at_ns)


def cap_hours(caps: int, hours: int) -> int:
    """Return an ask's caps with max_hours lowered to ``hours``: what is left until its end."""
    caps &= ~(_up_to(len(_HOURS)) << _MAX_HOURS_AT)
    return caps | _up_to(bisect_right(_HOURS, hours)) << _MAX_HOURS_AT
