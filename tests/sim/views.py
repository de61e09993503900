"""What the mirror knows of each thing in the market: plain records, changed only by folding events."""

from dataclasses import dataclass, field

from bursa.market import AskAccepted, BidAccepted, Filters, HostSpec, HostState, TaxProfile, Trade


@dataclass(slots=True)
class PartyView:
    party_id: int
    tax_id: str
    payout_account: str
    profile: TaxProfile | None = None
    is_suspended: bool = False
    hosts: list[int] = field(default_factory=list)

    def is_linked_to(self, other: "PartyView") -> bool:
        """Tell whether the two may never trade with each other."""
        return (
            self.party_id == other.party_id
            or (self.tax_id != "" and self.tax_id == other.tax_id)
            or (self.payout_account != "" and self.payout_account == other.payout_account)
        )


@dataclass(slots=True)
class HostView:
    host_id: int
    party_id: int
    instrument: str
    spec: HostSpec
    state: HostState = HostState.UNCHECKED
    is_verified: bool = False
    is_silent: bool = False
    busy_mask: int = 0
    ask_id: int = 0
    rentals: list[int] = field(default_factory=list)

    def free_gpus(self, offered: int) -> int:
        """Return how many GPUs are on sale now under an offer of that many."""
        if self.state is not HostState.HEALTHY or self.is_silent:
            return 0
        return max(0, offered - self.busy_mask.bit_count())

    def passes(self, filters: Filters) -> bool:
        """Tell whether the host is what a bid asks for; reliability is not in the events, so it is not judged."""
        spec = self.spec
        if filters.regions and not (spec.country in filters.regions or spec.region in filters.regions):
            return False
        if filters.is_verified_only and not self.is_verified:
            return False
        if self.host_id in filters.avoid_hosts:
            return False
        return (
            spec.ram_gib >= filters.ram_gib_min * spec.gpus
            and spec.disk_gib >= filters.disk_gib_min * spec.gpus
            and spec.vcpus >= filters.vcpus_min * spec.gpus
        )


@dataclass(slots=True)
class AskView:
    terms: AskAccepted
    price_micros: int
    offers: dict[int, int]


@dataclass(slots=True)
class BidView:
    terms: BidAccepted
    limit_micros: int
    lots: int
    #: Frozen at acceptance and when the bid grows: VAT in parts per million, customer rate (0 = a wallet in US$).
    vat_ppm: int
    rate_micros: int
    filled: int = 0


@dataclass(slots=True)
class RentalView:
    """``hour_micros``, ``fee_micros`` and ``vat_micros`` are what one hour of all its GPUs must cost, by the rules."""

    trade: Trade
    currency: str
    hour_micros: int
    fee_micros: int
    vat_micros: int
    mask: int = 0
    held_out_micros: int = 0
    charged_hours: int = 0
    is_extended: bool = False
    is_started: bool = False
    is_over: bool = False
