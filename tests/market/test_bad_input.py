"""Every field of every command, replaced by everything that it must not be, in a world where the rest is right.

The cases are made by introspection of the structs, so a new command or field is covered by itself; a new command
without a valid instance, or an id field without ids to misuse, fails. What each case is answered stands in
tests/golden/bad_input.json: read the diff after `python -m tests.market.test_bad_input`. A refusal changes nothing.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec import inspect

from bursa.errors import ClockError, TickDueError
from bursa.market import Engine, MarketRules, Outcome, Rejected, Rejection, RentalState, TimeInForce
from bursa.market import commands as c
from bursa.market.types import DAY_NS, HOUR_NS, NO_FILTERS, EndReason, Filters, HostOffer, HostSpec, Posting, TaxProfile
from bursa.money import Currency
from tests.market.strategies import A100, ADA, CENT, COMMANDS, GERMAN, H100, T0, World, new_world

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "bad_input.json"
PRICE: Final = 2_000_000
LOW: Final = PRICE // 2
L40: Final = "l40s"

#: Cases that are accepted because the value is right after all, and why. Every line must be used.
LEGITIMATE: Final[dict[str, str]] = {
    "*.command_id.non_ascii": "an id is any printable text",
    "Tick.command_id.*": "a Tick is not remembered: any well-formed id will do",
    "*.as_dict": "how a struct comes over the wire",
    "*.as_list": "how a tuple comes over the wire",
    "*.plain_text": "how an enumeration comes over the wire",
    # parties and texts
    "*.tax_id.*": "a party may have none, in any alphabet",
    "*.payout_account.*": "a party may have none, in any alphabet",
    "SetTaxProfile.profile.evidence.*": "free text, may be empty",
    "SetTaxProfile.profile.rule_version.*": "free text, may be empty",
    "PostEntry.*.non_ascii": "free text",
    "PostInvoice.invoice.*": "free text, may be empty",
    "CreditTopUp.party_id.*": "any party may be credited, its debt first",
    "PostChargeback.party_id.*": "the bank takes from any party",
    "WinChargeback.party_id.*": "the bank gives to any party",
    "PostInvoice.party_id.*": "any party may be invoiced",
    "SetTaxProfile.party_id.*": "any party may be taxed",
    "SuspendParty.party_id.*": "any party may be suspended",
    "UpdateParty.party_id.in_debt": "a party without open orders",
    "RequestRefund.party_id.*": "its own money is a party's to take",
    "ListHost.party_id.*": "any party may sell, in debt or not",
    "PlaceBid.party_id.*": "any party with funds may buy, sellers too",
    # money
    "CreditTopUp.currency.not_funded": "a first top-up funds a currency",
    "SetRate.currency.not_funded": "a rate is for all parties",
    "SetRate.mid_micros.*": "a rate is a positive number",
    "PostEntry.postings.twice": "two lines more that balance too",
    "SetAutoExtend.cap_micros.*": "a cap is any sum",
    # books and rules
    "ListInstrument.instrument.*": "a slug, known (sets its reference) or new",
    "ListInstrument.reference_micros.zero": "no reference",
    "*Book.instrument.empty": "all books",
    "OpenBook.instrument.closed": "a closed book may open without a pre-opening",
    "HaltBook.instrument.halted": "a halt that would end by itself is prolonged",
    "PreopenBook.instrument.preopen": "moves the time of the opening",
    "PreopenBook.opens_at_ns.zero": "a time not yet known",
    "ChangeRules.rules.dict": "all defaults",
    "ChangeRules.rules.*.zero": "within the rule's limits",
    "ChangeRules.rules.*.unknown": "within the rule's limits",
    "ChangeRules.rules.tick_micros.off_tick": "within the rule's limits",
    # hosts
    "CheckHost.host_id.*": "the operator checks any host of that size",
    "SuspendHost.host_id.*": "the operator suspends any host",
    "ReportSilence.host_id.*": "any host may fall silent",
    "ReportSilence.last_heartbeat_ns.unknown": "any time up to now",
    "RetireHost.host_id.silent": "a silent host that nobody rents may leave",
    "CheckHost.spec.none": "the probe found what was known",
    "*.spec.*.unknown": "large, but a host may have as much",
    "*.spec.*_m*.zero": "not known",
    "*.spec.region.empty": "a country without a group",
    "*.spec.interconnect.*": "free text, may be empty",
    "ListHost.instrument.*": "a host may be listed before its book opens",
    # orders
    "PlaceAsk.price_lock_hours.zero": "no lock",
    "PlaceAsk.until_ns.zero": "as long as allowed",
    "PlaceBid.instrument.preopen": "rests until the opening",
    "PlaceBid.filters.dict": "no filters",
    "PlaceBid.filters.*.list": "asks nothing",
    "PlaceBid.filters.*.no_item": "asks nothing",
    "PlaceBid.filters.*.twice": "says the same twice",
    "PlaceBid.filters.avoid_hosts.0.int_max": "a host that is not there is easily avoided",
    "PlaceBid.filters.avoid_hosts.0.unknown": "a host that is not there is easily avoided",
    "PlaceBid.filters.*_min.zero": "asks nothing",
    "PlaceBid.filters.*_min.unknown": "asks much",
    # rentals
    "*.rental_id.opened": "not yet started, but live",
    "EndRental.rental_id.of_another": "the operator ends any rental",
    "FailRental.rental_id.of_another": "the fleet reports any rental",
    "ReclaimRental.rental_id.of_another": "a rental of another renter on the seller's host",
    "EndRental.reason.operator": "the operator's other reason",
}


@dataclass
class Rich:
    """A world with something in every state, and the ids of what is in it."""

    world: World
    seller: int
    buyer: int
    other: int
    suspended: int
    debtor: int
    idle_host: int
    asked_host: int
    busy_host: int
    other_host: int
    silent_host: int
    retired_host: int
    ask: int
    bid: int
    closed_order: int
    other_order: int
    opened: int
    started: int
    ended: int
    wiped: int
    other_rental: int
    refund: int
    settled_refund: int
    payout: int
    settled_payout: int

    @property
    def last_id(self) -> str:
        """The id of the newest command that the engine remembers."""
        accepted = [command for command, _, outcome in self.world.log if not isinstance(outcome.result, Rejected)]
        return [command for command in accepted if not isinstance(command, c.Tick)][-1].command_id

    @property
    def engine(self) -> Engine:
        return self.world.engine


def rent(world: World, seller: int, buyer: int, *, start: bool) -> tuple[int, int]:
    """Sell all of a new host; return host and rental."""
    host = world.host(seller, 2)
    world.ask(seller, PRICE, [(host, 2)])
    world.bid(buyer, PRICE, 2, 300)
    rental = world.mirror.trades[-1].rental_id
    if start:
        world.do(c.StartRental, rental_id=rental)
    return host, rental


def paid_out(world: World, seller: int, buyer: int) -> dict[str, int]:
    """Transfers of both kinds, on their way and arrived."""
    _, rental = rent(world, seller, buyer, start=True)
    world.wait(100 * HOUR_NS)
    world.do(c.StopRental, party_id=buyer, rental_id=rental)
    world.do(c.ReportWiped, rental_id=rental)
    fields = {"currency": Currency.USD, "micros": 2_000 * CENT}
    ids = {name: world.make(c.RequestPayout, party_id=seller, **fields) for name in ("payout", "settled_payout")}
    ids |= {name: world.make(c.RequestRefund, party_id=buyer, **fields) for name in ("refund", "settled_refund")}
    world.do(c.SettlePayout, payout_id=ids["settled_payout"])
    world.do(c.SettleRefund, refund_id=ids["settled_refund"], provider="stripe")
    return ids | {"wiped": rental}


def rich_world() -> Rich:
    world = new_world(MarketRules())
    world.open(H100, ADA)
    world.do(c.ListInstrument, instrument=A100)
    world.do(c.ListInstrument, instrument=L40)
    world.do(c.PreopenBook, instrument=L40)
    seller, buyer, other = (world.party(tax_id=f"DE{n}", payout_account=f"IBAN{n}") for n in range(3))
    ids = paid_out(world, seller, buyer)
    world.do(c.HaltBook, instrument=ADA)
    for currency in (Currency.EUR, Currency.GBP):
        world.do(c.SetRate, currency=currency, mid_micros=1_100_000, as_of_ns=world.now_ns)
    world.top_up(buyer, 1_000, Currency.EUR)
    _, ended = rent(world, seller, buyer, start=True)
    world.do(c.StopRental, party_id=buyer, rental_id=ended)
    _, other_rental = rent(world, other, other_buyer(world), start=True)
    busy_host, opened = rent(world, seller, buyer, start=False)
    _, started = rent(world, seller, buyer, start=True)
    retired, silent, asked = (world.host(seller, 8) for _ in range(3))
    world.do(c.RetireHost, party_id=seller, host_id=retired)
    world.do(c.ReportSilence, host_id=silent, last_heartbeat_ns=world.now_ns)
    gone = world.make(c.PlaceBid, party_id=buyer, instrument=H100, gpus=1, hours=1, limit_micros=LOW)
    world.do(c.CancelOrder, party_id=buyer, order_id=gone)
    suspended, debtor = world.party(tax_id="FR7"), world.party(tax_id="FR8", usd=10)
    world.do(c.SuspendParty, party_id=suspended)
    world.do(c.PostChargeback, party_id=debtor, currency=Currency.USD, micros=2_000 * CENT, provider="stripe")
    return Rich(
        world=world,
        seller=seller,
        buyer=buyer,
        other=other,
        suspended=suspended,
        debtor=debtor,
        idle_host=world.host(seller, 8),
        asked_host=asked,
        busy_host=busy_host,
        other_host=world.host(other, 8),
        silent_host=silent,
        retired_host=retired,
        ask=world.ask(seller, 2 * PRICE, [(asked, 8)]),
        bid=world.make(c.PlaceBid, party_id=buyer, instrument=H100, gpus=1, hours=1, limit_micros=LOW, lots=2),
        closed_order=gone,
        other_order=world.make(c.PlaceBid, party_id=other, instrument=H100, gpus=1, hours=1, limit_micros=LOW),
        opened=opened,
        started=started,
        ended=ended,
        other_rental=other_rental,
        **ids,
    )


def other_buyer(world: World) -> int:
    return world.party(tax_id="FR9", payout_account="IBAN9")


@cache
def rich() -> tuple[Rich, bytes]:
    """Return the rich world and its snapshot; whoever changes the engine restores it."""
    world = rich_world()
    world.world.settle()
    return world, world.engine.snapshot()


def valid_commands(r: Rich) -> list[c.Command]:
    """One command of each type that the rich world accepts."""
    usd: dict[str, Any] = {"command_id": "v", "party_id": r.buyer, "currency": Currency.USD, "micros": 1_000 * CENT}
    lines = (Posting("USD", "bank", CENT, 0), Posting("USD", "psp_clearing:stripe", 0, CENT))
    accrued = r.engine.balance("vat_accrued:DE", Currency.USD)
    tax: Any = {"command_id": "v", "party_id": r.buyer, "currency": Currency.USD, "country": "DE", "scheme": "OSS"}
    started: dict[str, Any] = {"command_id": "v", "party_id": r.buyer, "rental_id": r.started}
    v: Any = {"command_id": "v"}
    fewer = (HostOffer(r.asked_host, 7),)
    return [
        c.RegisterParty(**v, tax_id="NL1", payout_account="IBAN7"),
        c.UpdateParty(**v, party_id=other_party(r), tax_id="NL1", payout_account="IBAN7"),
        c.SetTaxProfile(**v, party_id=r.buyer, profile=GERMAN),
        c.SuspendParty(**v, party_id=r.buyer),
        c.ReinstateParty(**v, party_id=r.suspended),
        *(c.CreditTopUp(**usd, provider="stripe"), c.RequestRefund(**usd)),
        *(c.PostChargeback(**usd, provider="stripe"), c.WinChargeback(**usd, provider="stripe")),
        c.SettleRefund(**v, refund_id=r.refund, provider="stripe"),
        c.FailRefund(**v, refund_id=r.refund),
        c.WriteOffDebt(**v, party_id=r.debtor, currency=Currency.USD),
        c.SetRate(**v, currency=Currency.EUR, mid_micros=1_200_000, as_of_ns=r.world.now_ns),
        c.PostInvoice(**tax, accrued_micros=accrued, invoiced_micros=accrued // CENT * CENT, invoice="INV-1"),
        c.RequestPayout(**v, party_id=r.seller, currency=Currency.USD, micros=2_000 * CENT),
        *(c.SettlePayout(**v, payout_id=r.payout), c.ReturnPayout(**v, payout_id=r.payout)),
        c.PostEntry(**v, made_by="ada", approved_by="bo", memo="settlement", postings=lines),
        c.ListInstrument(**v, instrument="new", reference_micros=PRICE),
        c.PreopenBook(**v, instrument=A100, opens_at_ns=r.world.now_ns + HOUR_NS),
        *(c.OpenBook(**v, instrument=L40), c.HaltBook(**v, instrument=H100), c.ResumeBook(**v, instrument=ADA)),
        c.ChangeRules(**v, rules=MarketRules(fee_bps=900)),
        c.ListHost(**v, party_id=r.seller, instrument=H100, spec=HostSpec(8, "DE", "EU", interconnect="nvlink")),
        c.CheckHost(**v, host_id=r.idle_host, is_verified=True, spec=HostSpec(8, "DE", "EU")),
        *(c.SuspendHost(**v, host_id=r.idle_host), c.RetireHost(**v, party_id=r.seller, host_id=r.idle_host)),
        c.ReportSilence(**v, host_id=r.idle_host, last_heartbeat_ns=r.world.now_ns),
        c.ReportHeartbeat(**v, host_id=r.silent_host),
        c.PlaceAsk(
            **v, party_id=r.seller, offers=(HostOffer(r.idle_host, 8),), price_micros=2 * PRICE, until_ns=in_days(r, 9),
        ),
        c.PlaceBid(
            **v, party_id=r.buyer, instrument=H100, gpus=1, hours=2, limit_micros=PRICE, time_in_force=TimeInForce.GTD,
            expires_at_ns=in_days(r, 2), filters=Filters(("DE",), True, 800, 1, 1, 1, (r.busy_host,)),
        ),
        c.AmendAsk(**v, party_id=r.seller, order_id=r.ask, price_micros=3 * PRICE, offers=fewer),
        c.AmendBid(**v, party_id=r.buyer, order_id=r.bid, limit_micros=LOW, lots=3),
        c.CancelOrder(**v, party_id=r.buyer, order_id=r.bid),
        c.StartRental(**v, rental_id=r.opened),
        *(c.StopRental(**started), c.ExtendRental(**started, hours=1, limit_micros=PRICE)),
        c.SetAutoExtend(**started, hours=1, limit_micros=PRICE, cap_micros=10 * PRICE),
        c.FailRental(**v, rental_id=r.started, reason=EndReason.HOST_LOST),
        c.ReclaimRental(**v, party_id=r.seller, rental_id=r.started),
        c.EndRental(**v, rental_id=r.started, reason=EndReason.POLICY),
        *(c.ReportWiped(**v, rental_id=r.ended), c.Tick(**v)),
    ]  # fmt: skip


def in_days(r: Rich, days: int) -> int:
    return r.world.now_ns + days * DAY_NS


def other_party(r: Rich) -> int:
    """Return a party without open orders."""
    return r.suspended


# ── what a field must not be ─────────────────────────────────────────────────────────────────────────────────────────

Table = dict[str, object]
NEVER: Final[Table] = {"none": None, "bytes": b"1", "list": [], "dict": {}, "object": object()}
INTS: Final[Table] = NEVER | {
    "zero": 0,
    "minus_one": -1,
    "minus_huge": -(10**30),
    "int_max": 2**63 - 1,
    "two_63": 2**63,
    "two_64": 2**64,
    "ten_30": 10**30,
    "half": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "true": True,
    "text": "1",
}
STRINGS: Final[Table] = NEVER | {
    "empty": "",
    "long": "x" * 100_000,
    "non_ascii": "ä漢",
    "lone_surrogate": "\ud800",
    "control": "a\x00b",
    "space": " ",
    "int": 1,
    "true": True,
}
BOOLS: Final[Table] = NEVER | {"one": 1, "zero": 0, "float": 1.0, "text": "true"}
ENUMS: Final[Table] = NEVER | {"wrong_text": "NOPE", "empty": "", "lower": "gtc", "lone_surrogate": "\ud800", "int": 1}
CONTAINERS: Final[Table] = NEVER | {"text": "ab", "int": 1, "true": True, "posting": Posting("USD", "bank", 1, 0)}
PLAIN: Final = {inspect.IntType: INTS, inspect.StrType: STRINGS, inspect.BoolType: BOOLS, inspect.EnumType: ENUMS}


def ids(r: Rich) -> dict[str, dict[str, object]]:
    """Ids that exist, but not for this; by the name of the field. A new kind of id needs a line here."""
    rentals: Table = {
        "of_another": r.other_rental,
        "ended": r.ended,
        "wiped": r.wiped,
        "opened": r.opened,
        "started": r.started,
    }
    hosts: Table = {"of_another": r.other_host, "retired": r.retired_host, "silent": r.silent_host, "busy": r.busy_host}
    return {
        "party_id": {"of_another": r.other, "seller": r.seller, "suspended": r.suspended, "in_debt": r.debtor},
        "order_id": {
            "of_another": r.other_order,
            "closed": r.closed_order,
            "other_side_bid": r.bid,
            "other_side_ask": r.ask,
        },
        "rental_id": rentals,
        "host_id": hosts | {"asked": r.asked_host},
        "refund_id": {"settled": r.settled_refund, "of_the_other_kind": r.payout},
        "payout_id": {"settled": r.settled_payout, "of_the_other_kind": r.refund},
        "instrument": {"unknown": "nope", "closed": A100, "preopen": L40, "halted": ADA, "open": H100},
        "currency": {"not_funded": Currency.GBP},
        "command_id": {"of_another_command": r.last_id},
        "reason": {reason.name.lower(): reason for reason in EndReason},
    }


Cases = Iterator[tuple[str, object]]


def cases_of(kind: inspect.Type, name: str, value: Any, r: Rich) -> Cases:  # noqa: ANN401 - of any field
    """Yield (name of the case, replacement) for one field, nested ones by their path."""
    if isinstance(kind, inspect.UnionType):
        kind = next(member for member in kind.types if not isinstance(member, inspect.NoneType))
    for case, known in ids(r).get(name, {}).items():
        if known != value:
            yield f".{case}", known
    if isinstance(kind, inspect.VarTupleType):
        yield from cases_of_tuple(kind, name, value, r)
    elif isinstance(kind, inspect.StructType):
        yield from cases_of_struct(kind, value, r)
    else:
        yield from dotted(PLAIN[type(kind)])  # a KeyError here: a kind of field without cases
    if isinstance(kind, inspect.IntType):
        assert not name.endswith("_id") or name in ids(r), f"no ids to misuse for {name}"
        yield from ((".float", float(value)), (".unknown", 987_654))
        if name.endswith("micros"):
            yield ".off_tick", value + 1
    if isinstance(kind, inspect.EnumType):
        yield ".plain_text", str(value.value)


def cases_of_tuple(kind: inspect.VarTupleType, name: str, value: tuple[Any, ...], r: Rich) -> Cases:
    yield from dotted(CONTAINERS)
    yield from ((".as_list", list(value)), (".no_item", ()), (".twice", value * 2), (".oversize", value * 5_000))
    for case, broken in cases_of(kind.item_type, name.removeprefix("avoid_").removesuffix("s"), value[0], r):
        yield f".0{case}", (broken, *value[1:])


def cases_of_struct(kind: inspect.StructType, value: Any, r: Rich) -> Cases:  # noqa: ANN401 - any struct
    yield from dotted(CONTAINERS)
    yield ".as_dict", msgspec.structs.asdict(value)
    yield ".unknown_field", msgspec.structs.asdict(value) | {"lotz": 2}
    yield ".other_struct", HostOffer(1, 1) if isinstance(value, TaxProfile) else GERMAN
    for field in kind.fields:
        for case, broken in cases_of(field.type, field.name, getattr(value, field.name), r):
            yield f".{field.name}{case}", msgspec.structs.replace(value, **{field.name: broken})


def dotted(table: dict[str, object]) -> Iterator[tuple[str, object]]:
    for case, value in table.items():
        yield f".{case}", value


def broken_commands(command: c.Command, r: Rich) -> Iterator[tuple[str, Any]]:
    """Yield (Command.field.case, the command with that one thing wrong)."""
    info = inspect.type_info(type(command))
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        for case, broken in cases_of(field.type, field.name, getattr(command, field.name), r):
            changed = msgspec.structs.replace(command, **{field.name: broken})
            if repr(changed) != repr(command):  # 0 where 0 is right already is no case
                yield f"{info.cls.__name__}.{field.name}{case}", changed


# ── the answers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def judge(r: Rich, engine: Engine, command: Any) -> str:  # noqa: ANN401 - it may be anything
    """Apply a command; return its code, "" when accepted. A refusal must leave no trace."""
    before = engine.digest(), engine.snapshot(), engine.now_ns, engine.next_due_ns
    outcome = engine.apply(command, r.world.now_ns)
    assert type(outcome) is Outcome
    if not isinstance(outcome.result, Rejected):
        return ""
    assert outcome.events == ()
    assert (engine.digest(), engine.snapshot(), engine.now_ns, engine.next_due_ns) == before
    assert type(outcome.result.code) is Rejection
    assert len(outcome.result.field) < 100
    assert len(outcome.result.expected) < 300
    msgspec.json.encode(outcome)  # it can be sent, whatever text came in
    return outcome.result.code.value


def answers(command: c.Command) -> dict[str, str]:
    r, snapshot = rich()
    found: dict[str, str] = {}
    engine = Engine.restore(snapshot)
    for case, broken in broken_commands(command, r):
        assert case not in found, case
        found[case] = judge(r, engine, broken)
        if found[case] == "":
            engine = Engine.restore(snapshot)
    return found


def golden() -> dict[str, str]:
    table: dict[str, str] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return table


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_every_wrong_field_has_its_code(kind: type) -> None:
    (command,) = [command for command in valid_commands(rich()[0]) if type(command) is kind]
    expected = {case: code for case, code in golden().items() if case.split(".")[0] == kind.__name__}
    assert answers(command) == expected


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_the_command_is_valid_before_it_is_broken(kind: type) -> None:
    r, snapshot = rich()
    (command,) = [command for command in valid_commands(r) if type(command) is kind]
    result = Engine.restore(snapshot).apply(command, r.world.now_ns).result
    assert not isinstance(result, Rejected), result


def test_only_legitimate_values_are_accepted() -> None:
    accepted = {case for case, code in golden().items() if code == ""}
    unused = [pattern for pattern in LEGITIMATE if not any(fnmatchcase(case, pattern) for case in accepted)]
    excused = {case for case in accepted if any(fnmatchcase(case, pattern) for pattern in LEGITIMATE)}
    assert (sorted(accepted - excused), unused) == ([], [])


#: A list is how a tuple comes over the wire, {} how a struct of defaults does, and a spec may be left out.
EMPTY: Final = {
    *("AmendAsk.offers.list", "PlaceAsk.offers.list", "PostEntry.postings.list", "CheckHost.spec.none"),
    *(
        "PlaceBid.filters.dict",
        "PlaceBid.filters.regions.list",
        "PlaceBid.filters.avoid_hosts.list",
        "ChangeRules.rules.dict",
    ),
}


def test_wrong_types_are_invalid_fields() -> None:
    """Whatever the field: a value of no right type is INVALID_FIELD, not a guess and not another code."""
    wrong = {*NEVER, "nan", "inf", "half", "float", "wrong_text", "two_64", "ten_30", "minus_huge", "other_struct"}
    codes = {case: code for case, code in golden().items() if case.split(".")[-1] in wrong and case not in EMPTY}
    assert len(codes) > 1_000
    assert {case: code for case, code in codes.items() if code != "INVALID_FIELD"} == {}


NON_COMMANDS: Final[list[object]] = [
    *(None, 1, 1.5, "Tick", b"Tick", [], {}, {"type": "Tick"}, object(), NO_FILTERS, GERMAN, MarketRules()),
    *(c.Tick, c.PlaceBid, Outcome, Rejection.NOT_YOURS, lambda: None),
]


@pytest.mark.parametrize("thing", NON_COMMANDS, ids=range(len(NON_COMMANDS)))
def test_what_is_no_command_is_refused(thing: object) -> None:
    r, snapshot = rich()
    assert judge(r, Engine.restore(snapshot), thing) == "INVALID_FIELD"


def test_a_fields_own_subclass_of_int_or_str_is_no_way_in() -> None:
    class Odd(int):
        pass

    r, snapshot = rich()
    engine = Engine.restore(snapshot)
    assert judge(r, engine, c.SuspendParty(command_id="v", party_id=Odd(1))) in {"INVALID_FIELD", ""}


@pytest.mark.parametrize("at_ns", [1.5, float("nan"), True, None, "1", b"1", -1, 2**63, 10**30, 0], ids=repr)
def test_a_wrong_time_raises_and_changes_nothing(at_ns: Any) -> None:  # noqa: ANN401 - of any type
    r, snapshot = rich()
    engine = Engine.restore(snapshot)
    calls: list[Callable[[], object]] = [
        lambda: engine.apply(c.Tick(command_id="t"), at_ns),
        lambda: engine.apply(c.RegisterParty(command_id="t"), at_ns),
        lambda: engine.apply(None, at_ns),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises((ClockError, TickDueError)):
            call()
    assert engine.snapshot() == snapshot
    assert r.world.now_ns > T0


def test_time_may_not_pass_what_is_due() -> None:
    r, snapshot = rich()
    engine = Engine.restore(snapshot)
    due = engine.next_due_ns
    with pytest.raises(TickDueError):
        engine.apply(c.RegisterParty(command_id="t"), due)
    assert engine.snapshot() == snapshot
    assert not isinstance(engine.apply(c.RegisterParty(command_id="t"), due - 1).result, Rejected)
    assert r.world.mirror.rentals[r.opened].state is RentalState.OPENED


def write_golden() -> None:
    r, _ = rich()
    table: dict[str, str] = {}
    for command in valid_commands(r):
        table |= answers(command)
    GOLDEN.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden()
