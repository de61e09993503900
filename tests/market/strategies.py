"""Worlds and command streams for the proofs of the market.

- `World` drives one Engine by its contract: Tick while work is due, then the command; it keeps the log for a replay.
- `MAKERS` has one function per command type: a valid-looking command for a world, its choices made by a `Pick`.

A `Pick` chooses a number below n. It is either Hypothesis (`picked`) or a seeded `random.Random` (`seeded`), so one
generator serves shrinking examples and long streams, and one seed repeats either.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from bursa.market import Book, Engine, Host, MarketRules, Outcome, Rejected, RentalState, TaxProfile, TimeInForce
from bursa.market import commands as c
from bursa.market import events as e
from bursa.market.types import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NO_FILTERS,
    SECOND_NS,
    EndReason,
    Filters,
    HostOffer,
    HostSpec,
    HostState,
    Posting,
    VatScheme,
)
from bursa.money import Currency
from tests.market.mirror import Mirror, Order, Rental

T0: Final = 1_767_225_600 * SECOND_NS  # 2026-01-01; a multiple of 1,000 ns, as every time that a World advances to
CENT: Final = 10_000  # micro-units
H100: Final = "h100-sxm"
A100: Final = "a100-pcie"
ADA: Final = "rtx-4090"
#: Makes bands and halts so wide that no price meets them.
WIDE: Final = MarketRules(bid_band_percent=100_000, ask_band_percent=0, halt_move_percent=100_000)
GERMAN: Final = TaxProfile("DE", VatScheme.OSS, 190_000)
ITALIAN: Final = TaxProfile("IT", VatScheme.OSS, 220_000)
FRENCH_BUSINESS: Final = TaxProfile("FR", VatScheme.REVERSE_CHARGE, 0)
COMMANDS: Final[tuple[type, ...]] = get_args(c.Command)

Pick = Callable[[int], int]
T = TypeVar("T")


def proof(examples: int, steps: int = 50) -> settings:
    """Return the settings of a proof; in CI Hypothesis itself loads its profile that repeats (derandomize)."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks)


def picked(data: st.DataObject) -> Pick:
    """Return a Pick whose every choice Hypothesis can shrink: towards 0, the plainest choice of each maker."""
    return lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0


def seeded(seed: int) -> Pick:
    """Return a Pick that one seed repeats."""
    return random.Random(seed).randrange


def one_of(pick: Pick, choices: Sequence[T]) -> T:
    return choices[pick(len(choices))]


# ── a world ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class World:
    """One engine, driven by its contract. Times that it advances to are multiples of 1,000 ns."""

    engine: Engine = field(default_factory=Engine)
    now_ns: int = T0
    serial: int = 0
    log: list[tuple[c.Command, int, Outcome]] = field(default_factory=list)
    mirror: Mirror = field(default_factory=Mirror)
    transfers: list[int] = field(default_factory=list)
    watch: Callable[[c.Command, int, Outcome], None] | None = None
    engine_rules: MarketRules | None = None  # what a replay of the log starts from

    def new_id(self) -> str:
        self.serial += 1
        return f"c{self.serial}"

    def send(self, command: c.Command) -> Outcome:
        """Apply a command now, after what is due."""
        self.settle()
        return self.apply(command)

    def do(self, kind: Callable[..., c.Command], **fields: object) -> Outcome:
        """Send a command that must be accepted."""
        outcome = self.send(kind(command_id=self.new_id(), **fields))
        assert not isinstance(outcome.result, Rejected), (self.log[-1][0], outcome.result)
        return outcome

    def make(self, kind: Callable[..., c.Command], **fields: object) -> int:
        """Send a command that must be accepted; return the id of what it made."""
        result = self.do(kind, **fields).result
        return result.order_id if isinstance(result, e.Placed) else getattr(result, "id", 0)

    def apply(self, command: c.Command) -> Outcome:
        outcome = self.engine.apply(command, self.now_ns)
        self.log.append((command, self.now_ns, outcome))
        self.mirror.fold(outcome.events)
        if isinstance(command, c.RequestRefund | c.RequestPayout) and isinstance(outcome.result, e.Done):
            self.transfers.append(outcome.result.id)
        if self.watch:
            self.watch(command, self.now_ns, outcome)
        return outcome

    def settle(self) -> list[Outcome]:
        outcomes = []
        while self.engine.next_due_ns <= self.now_ns:
            outcomes.append(self.apply(c.Tick(command_id=self.new_id())))
        return outcomes

    def wait(self, ns: int) -> None:
        """Let time pass, stopping at every due time, as a sequencer that ticks often enough would."""
        until = self.now_ns + ns
        while self.engine.next_due_ns <= until:
            self.now_ns = max(self.now_ns, self.engine.next_due_ns)
            self.settle()
        self.now_ns = until

    def jump(self, ns: int) -> None:
        """Let time pass without a stop, as a sequencer that was away would; work due is done late."""
        self.now_ns += ns
        self.settle()

    # Short ways to what tests build most.

    def party(self, *, tax_id: str = "", payout_account: str = "", tax: TaxProfile = GERMAN, usd: int = 100_000) -> int:
        party_id = self.make(c.RegisterParty, tax_id=tax_id, payout_account=payout_account)
        self.do(c.SetTaxProfile, party_id=party_id, profile=tax)
        if usd:
            self.top_up(party_id, usd)
        return party_id

    def top_up(self, party_id: int, units: int, currency: Currency = Currency.USD) -> None:
        self.do(c.CreditTopUp, party_id=party_id, currency=currency, micros=units * 1_000_000, provider="stripe")

    def host(self, party_id: int, gpus: int, instrument: str = H100, *, is_verified: bool = True) -> int:
        spec = HostSpec(gpus, "DE", "EU", vcpus=16 * gpus, ram_gib=128 * gpus, disk_gib=500 * gpus)
        host_id = self.make(c.ListHost, party_id=party_id, instrument=instrument, spec=spec)
        self.do(c.CheckHost, host_id=host_id, is_verified=is_verified)
        return host_id

    def ask(self, party_id: int, price_micros: int, offers: Sequence[tuple[int, int]], **fields: object) -> int:
        hosts = tuple(HostOffer(host_id, gpus) for host_id, gpus in offers)
        return self.make(c.PlaceAsk, party_id=party_id, offers=hosts, price_micros=price_micros, **fields)

    def bid(self, party_id: int, limit_micros: int, gpus: int = 1, hours: int = 1, **fields: object) -> Outcome:
        fields = {"instrument": H100} | fields
        return self.do(c.PlaceBid, party_id=party_id, limit_micros=limit_micros, gpus=gpus, hours=hours, **fields)

    def book(self, instrument: str = H100) -> Book:
        book = self.engine.book(instrument)
        assert book
        return book

    def open(self, *instruments: str) -> None:
        for instrument in instruments or (H100,):
            self.do(c.ListInstrument, instrument=instrument)
            self.do(c.OpenBook, instrument=instrument)


def new_world(rules: MarketRules | None = None) -> World:
    return World(Engine(rules or WIDE), engine_rules=rules or WIDE)


def open_world(rules: MarketRules | None = None, *, instruments: Sequence[str] = (H100,)) -> World:
    """Return a world whose books are open and empty."""
    world = new_world(rules)
    world.open(*instruments)
    return world


def crowded_world(rules: MarketRules | None = None, *, sellers: int = 4, hosts_each: int = 4) -> World:
    """Return a world where anything may happen: linked owners, hosts of many sizes, three wallets, a closed book."""
    return crowd(new_world(rules), sellers=sellers, hosts_each=hosts_each)


def crowd(world: World, *, sellers: int = 4, hosts_each: int = 4, usd: int = 90_000) -> World:
    """Fill a new world with parties, hosts and books."""
    world.open(H100, A100)
    world.do(c.ListInstrument, instrument=ADA, reference_micros=1_000_000)
    for currency, mid in ((Currency.EUR, 1_117_200), (Currency.GBP, 1_310_000)):
        world.do(c.SetRate, currency=currency, mid_micros=mid, as_of_ns=world.now_ns)
    for number in range(sellers + 4):
        # The first two share a tax id, the last two a payout account: linked owners.
        tax_id = "DE100" if number < 2 else f"IT{number}"
        account = "IBAN9" if number >= sellers + 2 else f"IBAN-{number}"
        profile = (GERMAN, ITALIAN, FRENCH_BUSINESS)[number % 3]
        party_id = world.party(tax_id=tax_id, payout_account=account, tax=profile, usd=usd)
        world.top_up(party_id, usd, Currency.EUR)
        if number == 0:
            world.top_up(party_id, usd, Currency.GBP)
        for index in range(hosts_each if number < sellers else 0):
            instrument = (H100, H100, A100, ADA)[index % 4]
            world.host(party_id, (4, 8, 2, 3, 1)[(number + index) % 5], instrument, is_verified=index % 2 == 0)
    return world


# ── one maker per command ────────────────────────────────────────────────────────────────────────────────────────────


def some_price(pick: Pick) -> int:
    """Return one of few prices, so that time decides often."""
    return (100 + 4 * pick(12)) * CENT


def some_party(world: World, pick: Pick) -> int:
    """Return a party that trades, at times one that came later and may lack a tax profile or funds."""
    return one_of(pick, world.mirror.parties[:8] if pick(10) else world.mirror.parties)


def some_host(world: World, pick: Pick) -> tuple[int, int]:
    """Return a host and its seller; a host that never was, once all have retired."""
    return one_of(pick, list(world.mirror.hosts.items()) or [(999, 1)])


def known_hosts(world: World) -> list[Host]:
    return [host for host in map(world.engine.host, world.mirror.hosts) if host]


def some_currency(pick: Pick) -> Currency:
    return one_of(pick, (Currency.USD, Currency.USD, Currency.EUR, Currency.GBP))


def some_instrument(world: World, pick: Pick) -> str:
    return one_of(pick, world.mirror.instruments[:3])


def some_rental(world: World, pick: Pick, *states: RentalState) -> Rental:
    """Return a rental in one of these states if there is one, else any, else one that never was."""
    fitting = world.mirror.rentals_in(*states) or list(world.mirror.rentals.values())
    return one_of(pick, fitting) if fitting else Rental(999, 1, 1, 1, 1, 1, 1)


def some_order(world: World, pick: Pick, open_orders: Sequence[Order]) -> Order:
    """Return an open order, at times one that closed (where there is one), else one that never was."""
    pool = open_orders if open_orders and pick(20) else list(world.mirror.orders.values())[-50:]
    return one_of(pick, pool) if pool else Order(999, 1, H100, 1_000_000)


def some_filters(pick: Pick) -> Filters:
    choices = (
        *(NO_FILTERS,) * 8,
        *(Filters(regions=("DE",)), Filters(regions=("FR", "EU")), Filters(is_verified_only=True)),
        *(Filters(reliability_min=900), Filters(reliability_min=890), Filters(ram_gib_min=128), Filters(vcpus_min=8)),
        *(Filters(disk_gib_min=501), Filters(avoid_hosts=(1, 5)), Filters(avoid_hosts=(2,), is_verified_only=True)),
    )
    return one_of(pick, choices)


def some_offers(world: World, pick: Pick, party_id: int, instrument: str = "") -> tuple[HostOffer, ...]:
    """1 to 5 hosts of one party and one model, free of an ask; at times one that is not."""
    own = [host for host in known_hosts(world) if host.party_id == party_id]
    known = [host for host in own if instrument in {"", host.instrument}]
    idle = [host for host in known if host.ask_id == 0 and host.can_sell] or known
    if not idle:
        return (HostOffer(1, 1),)
    first = one_of(pick, idle)
    more = [host for host in idle if host.instrument == first.instrument and host is not first][: pick(5)]
    return tuple(HostOffer(h.host_id, h.spec.gpus - (pick(h.spec.gpus) if pick(3) == 2 else 0)) for h in [first, *more])


def place_bid(world: World, pick: Pick, **fields: object) -> c.Command:
    gtc, gtd, ioc, fok = TimeInForce
    force = one_of(pick, (gtc, gtc, gtc, gtc, gtd, ioc, fok))
    expires = world.now_ns + (1 + pick(200)) * MINUTE_NS + 1 if force is gtd else 0
    values: dict[str, object] = {
        "party_id": some_party(world, pick),
        "instrument": some_instrument(world, pick),
        "gpus": one_of(pick, (1, 1, 2, 2, 3, 4, 8)),
        "hours": 1 + pick(6),
        "lots": one_of(pick, (1, 1, 2, 3, 5)),
        "limit_micros": some_price(pick),
        "currency": some_currency(pick),
        "time_in_force": force,
        "expires_at_ns": expires,
        "filters": some_filters(pick),
    }
    return build(c.PlaceBid, world, **values | fields)


def place_ask(world: World, pick: Pick) -> c.Command:
    _, party_id = some_host(world, pick)
    until = world.now_ns + (5 + pick(60)) * HOUR_NS + 2 if pick(3) == 2 else 0
    return c.PlaceAsk(
        command_id=world.new_id(),
        party_id=party_id,
        offers=some_offers(world, pick, party_id),
        price_micros=some_price(pick),
        min_gpus=one_of(pick, (1, 1, 1, 2)),
        min_hours=one_of(pick, (1, 1, 1, 3)),
        max_hours=one_of(pick, (720, 720, 5)),
        price_lock_hours=one_of(pick, (24, 2)),
        until_ns=until,
    )


def amend_ask(world: World, pick: Pick) -> c.Command:
    order = some_order(world, pick, world.mirror.open_asks())
    ask = world.engine.order(order.order_id)
    price = some_price(pick) if ask is None or pick(2) else order.price_micros
    offers = tuple(HostOffer(host_id, 1 + pick(8)) for host_id in order.hosts) or (HostOffer(1, 1),)
    if pick(3) == 2:
        offers = some_offers(world, pick, order.party_id, order.instrument)
    return build(c.AmendAsk, world, party_id=order.party_id, order_id=order.order_id, price_micros=price, offers=offers)


def amend_bid(world: World, pick: Pick) -> c.Command:
    order = some_order(world, pick, world.mirror.open_bids())
    limit = some_price(pick) if pick(2) else order.price_micros
    lots = max(1, order.lots - 1 + pick(3))
    return build(c.AmendBid, world, party_id=order.party_id, order_id=order.order_id, limit_micros=limit, lots=lots)


def cancel_order(world: World, pick: Pick) -> c.Command:
    order = some_order(world, pick, [*world.mirror.open_bids(), *world.mirror.open_asks()])
    party_id = order.party_id if pick(20) else some_party(world, pick)
    return build(c.CancelOrder, world, party_id=party_id, order_id=order.order_id)


def report_silence(world: World, pick: Pick) -> c.Command:
    heard = world.now_ns - pick(200) * SECOND_NS + 3
    return build(c.ReportSilence, world, host_id=some_host(world, pick)[0], last_heartbeat_ns=min(heard, world.now_ns))


def post_invoice(world: World, pick: Pick) -> c.Command:
    accrued = max(0, world.engine.balance("vat_accrued:DE", Currency.USD))
    invoiced = accrued // CENT * CENT
    ids = {"party_id": some_party(world, pick), "currency": Currency.USD, "country": "DE", "scheme": "OSS"}
    return build(c.PostInvoice, world, **ids, accrued_micros=accrued, invoiced_micros=invoiced + pick(2) * CENT)


def payment(kind: Callable[..., c.Command], world: World, pick: Pick) -> c.Command:
    micros = one_of(pick, (500, 2_000, 12_345, 1, 5_000_000)) * CENT
    fields = {"party_id": some_party(world, pick), "currency": some_currency(pick), "micros": micros}
    has_provider = kind is not c.RequestRefund
    return build(kind, world, **fields, **({"provider": "stripe"} if has_provider else {}))


def post_entry(world: World, pick: Pick) -> c.Command:
    micros = 1 + pick(1_000)
    lines = (Posting("USD", "bank", micros, 0), Posting("USD", "psp_clearing:stripe", 0, micros))
    return build(c.PostEntry, world, made_by="ada", approved_by="bo", memo="settlement", postings=lines)


def extend(kind: Callable[..., c.Command], world: World, pick: Pick) -> c.Command:
    rental = some_rental(world, pick, RentalState.STARTED, RentalState.OPENED)
    fields = {"party_id": rental.buyer_id, "rental_id": rental.rental_id, "limit_micros": some_price(pick)}
    if kind is c.SetAutoExtend:
        fields |= {"cap_micros": one_of(pick, (0, 5_000_000, 50_000_000))}
    return build(kind, world, **fields, hours=1 + pick(4))


def of_rental(kind: Callable[..., c.Command], actor: str, world: World, pick: Pick) -> c.Command:
    done = (RentalState.ENDED, RentalState.FAILED)
    live = (RentalState.OPENED, RentalState.STARTED)
    wanted = done if kind is c.ReportWiped else live[:1] if kind is c.StartRental else live
    rental = some_rental(world, pick, *wanted)
    fields: dict[str, object] = {"rental_id": rental.rental_id}
    if actor:
        fields["party_id"] = getattr(rental, actor) if pick(20) else some_party(world, pick)
    if kind is c.EndRental:
        fields["reason"] = one_of(pick, (EndReason.OPERATOR, EndReason.POLICY))
    if kind is c.FailRental:
        fields["reason"] = one_of(pick, (EndReason.HOST_LOST, EndReason.START_FAILED))
    return build(kind, world, **fields)


def of_party(kind: Callable[..., c.Command], world: World, pick: Pick, **fields: object) -> c.Command:
    return build(kind, world, party_id=some_party(world, pick), **fields)


def of_book(kind: Callable[..., c.Command], world: World, pick: Pick) -> c.Command:
    return build(kind, world, instrument=some_instrument(world, pick))


def of_transfer(kind: Callable[..., c.Command], name: str, world: World, pick: Pick) -> c.Command:
    fields = {name: one_of(pick, world.transfers[-4:] or [1])}
    return build(kind, world, **fields, **({"provider": "stripe"} if kind is c.SettleRefund else {}))


def of_host(kind: Callable[..., c.Command], world: World, pick: Pick) -> c.Command:
    host_id, party_id = some_host(world, pick)
    fields = {"party_id": party_id} if kind is c.RetireHost else {}
    return build(kind, world, host_id=host_id, **fields)


def check_host(world: World, pick: Pick) -> c.Command:
    """Check a host that is not healthy, if there is one."""
    ill = [host.host_id for host in known_hosts(world) if host.state is not HostState.HEALTHY]
    host_id = one_of(pick, ill) if ill else some_host(world, pick)[0]
    return build(c.CheckHost, world, host_id=host_id, is_verified=pick(2) == 0)


def heartbeat(world: World, pick: Pick) -> c.Command:
    """Hear a host that is silent, if there is one."""
    silent = [host.host_id for host in known_hosts(world) if host.silent_since_ns]
    host_id = one_of(pick, silent) if silent else some_host(world, pick)[0]
    return build(c.ReportHeartbeat, world, host_id=host_id)


def reinstate(world: World, pick: Pick) -> c.Command:
    """Reinstate a party that is suspended, if there is one."""
    known = [party for party in map(world.engine.party, world.mirror.parties) if party]
    party = one_of(pick, [party for party in known if party.is_suspended] or known)
    return build(c.ReinstateParty, world, party_id=party.party_id)


def write_off(world: World, pick: Pick) -> c.Command:
    """Write off a debt, if there is one."""
    debts = [
        (currency, int(account.split(":")[1]))
        for currency, accounts in sorted(world.engine.balances().items())
        for account in sorted(accounts)
        if account.startswith("customer_receivable:")
    ]
    currency, party_id = one_of(pick, debts or [("USD", 1)])
    return build(c.WriteOffDebt, world, party_id=party_id, currency=Currency(currency))


def chargeback(world: World, pick: Pick) -> c.Command:
    """Take back a part of a wallet, or more than there is in it."""
    party_id, currency = some_party(world, pick), some_currency(pick)
    available = world.engine.available(party_id, currency)
    micros = (available // CENT // (1 + pick(4)) + pick(2) * 5_000) * CENT
    ids = {"party_id": party_id, "currency": currency, "provider": "stripe"}
    return build(c.PostChargeback, world, **ids, micros=max(CENT, micros))


def payout(world: World, pick: Pick) -> c.Command:
    """Pay out all that a seller may take, in whole cents, or one cent more."""
    sellers = sorted(set(world.mirror.hosts.values())) or [1]
    party_id = max(sellers, key=lambda seller: world.engine.balance(f"seller_available:{seller}", Currency.USD))
    available = world.engine.balance(f"seller_available:{party_id}", Currency.USD)
    micros = (available // CENT + (pick(5) == 4)) * CENT
    return build(c.RequestPayout, world, party_id=party_id, currency=Currency.USD, micros=max(CENT, micros))


def preopen(world: World, pick: Pick) -> c.Command:
    opens = one_of(pick, (0, world.now_ns + (1 + pick(40)) * MINUTE_NS + 4))
    return build(c.PreopenBook, world, instrument=some_instrument(world, pick), opens_at_ns=opens)


def list_host(world: World, pick: Pick) -> c.Command:
    gpus = one_of(pick, (8, 4, 2, 1))
    country, region = one_of(pick, (("DE", "EU"), ("FR", "EU"), ("US", "NA")))
    spec = HostSpec(gpus, country, region, vcpus=8 * gpus, ram_gib=64 * gpus, disk_gib=1_000 * gpus)
    return build(
        c.ListHost, world, party_id=some_party(world, pick), instrument=some_instrument(world, pick), spec=spec
    )


def set_rate(world: World, pick: Pick) -> c.Command:
    currency = one_of(pick, (Currency.EUR, Currency.GBP))
    as_of = world.now_ns - pick(3) * DAY_NS
    return build(c.SetRate, world, currency=currency, mid_micros=1_000_000 + pick(400_000), as_of_ns=as_of)


def change_rules(world: World, pick: Pick) -> c.Command:
    rules = MarketRules(
        fee_bps=one_of(pick, (1_000, 0, 250)),
        halt_move_percent=one_of(pick, (30, 5)),
        dispute_hours=one_of(pick, (72, 1)),
    )
    return build(c.ChangeRules, world, rules=rules)


def build(kind: Callable[..., c.Command], world: World, **fields: object) -> c.Command:
    return kind(command_id=world.new_id(), **fields)


Maker = Callable[[World, Pick], c.Command]
MAKERS: Final[dict[type, Maker]] = {
    c.RegisterParty: lambda w, pick: build(c.RegisterParty, w, tax_id=one_of(pick, ("", "DE100", "NL7"))),
    c.UpdateParty: partial(of_party, c.UpdateParty, tax_id="FR55", payout_account="IBAN5"),
    c.SetTaxProfile: lambda w, pick: of_party(c.SetTaxProfile, w, pick, profile=one_of(pick, (GERMAN, ITALIAN))),
    c.SuspendParty: partial(of_party, c.SuspendParty),
    c.ReinstateParty: reinstate,
    c.CreditTopUp: partial(payment, c.CreditTopUp),
    c.RequestRefund: partial(payment, c.RequestRefund),
    c.SettleRefund: partial(of_transfer, c.SettleRefund, "refund_id"),
    c.FailRefund: partial(of_transfer, c.FailRefund, "refund_id"),
    c.PostChargeback: chargeback,
    c.WinChargeback: partial(payment, c.WinChargeback),
    c.WriteOffDebt: write_off,
    c.SetRate: set_rate,
    c.PostInvoice: post_invoice,
    c.RequestPayout: payout,
    c.SettlePayout: partial(of_transfer, c.SettlePayout, "payout_id"),
    c.ReturnPayout: partial(of_transfer, c.ReturnPayout, "payout_id"),
    c.PostEntry: post_entry,
    c.ListInstrument: lambda w, pick: build(c.ListInstrument, w, instrument=one_of(pick, (ADA, H100, "l40s"))),
    c.PreopenBook: preopen,
    c.OpenBook: partial(of_book, c.OpenBook),
    c.HaltBook: partial(of_book, c.HaltBook),
    c.ResumeBook: partial(of_book, c.ResumeBook),
    c.ChangeRules: change_rules,
    c.ListHost: list_host,
    c.CheckHost: check_host,
    c.SuspendHost: partial(of_host, c.SuspendHost),
    c.RetireHost: partial(of_host, c.RetireHost),
    c.ReportSilence: report_silence,
    c.ReportHeartbeat: heartbeat,
    c.PlaceAsk: place_ask,
    c.PlaceBid: place_bid,
    c.AmendAsk: amend_ask,
    c.AmendBid: amend_bid,
    c.CancelOrder: cancel_order,
    c.StartRental: partial(of_rental, c.StartRental, ""),
    c.StopRental: partial(of_rental, c.StopRental, "buyer_id"),
    c.ExtendRental: partial(extend, c.ExtendRental),
    c.SetAutoExtend: partial(extend, c.SetAutoExtend),
    c.FailRental: partial(of_rental, c.FailRental, ""),
    c.ReclaimRental: partial(of_rental, c.ReclaimRental, "seller_id"),
    c.EndRental: partial(of_rental, c.EndRental, ""),
    c.ReportWiped: partial(of_rental, c.ReportWiped, ""),
    c.Tick: lambda w, _: build(c.Tick, w),
}
#: How often each command stands in a mixed stream; one that is not named here: once. What keeps a market alive is
#: frequent, what ends things (halts, suspensions, chargebacks) is rare, or nothing would be left to go wrong.
WEIGHTS: Final[dict[type, int]] = {
    c.PlaceBid: 100,
    c.PlaceAsk: 40,
    c.AmendBid: 16,
    c.AmendAsk: 12,
    c.CancelOrder: 8,
    c.StartRental: 60,
    c.StopRental: 20,
    c.ReportWiped: 60,
    c.CheckHost: 30,
    c.ListHost: 3,
    c.ReportHeartbeat: 4,
    c.ExtendRental: 10,
    c.SetAutoExtend: 6,
    c.CreditTopUp: 12,
    c.WriteOffDebt: 6,
    c.ReinstateParty: 6,
    c.SetTaxProfile: 2,
    c.SetRate: 8,
    c.RequestPayout: 3,
    c.RequestRefund: 3,
    c.OpenBook: 2,
    c.ResumeBook: 8,
}
#: Time between two commands: short, so that rentals are started in time, and at times long enough to end them.
PAUSES: Final = (*(0,) * 24, *(1_000, SECOND_NS, 20 * SECOND_NS) * 3, 3 * MINUTE_NS, 2 * HOUR_NS)


def kinds_by_weight(weights: dict[type, int]) -> list[type]:
    return [kind for kind, weight in weights.items() for _ in range(weight)]


MIXED: Final = kinds_by_weight({kind: WEIGHTS.get(kind, 1) for kind in COMMANDS})


def step(world: World, pick: Pick) -> Outcome:
    """Let some time pass, at times without a stop, and send one command of any kind."""
    pause = one_of(pick, PAUSES)
    if pick(20) == 19:
        world.jump(pause)
    else:
        world.wait(pause)
    return world.send(MAKERS[one_of(pick, MIXED)](world, pick))


def mixed_world(seed: int, commands: int) -> World:
    """Return a crowded world after a long mixed stream of every kind of command."""
    world = crowded_world()
    pick = seeded(seed)
    for _ in range(commands):
        step(world, pick)
    return world
