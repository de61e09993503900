"""Forms of scenario lines that are commands: each reads its places into one command of the engine.

Role: the vocabulary of the format, a table of templates. `{new:name}` is what the command makes and so names.
Docs: docs/reference/scenario-format.md, which a test holds to this table.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from bursa.market import commands as c
from bursa.market.types import EndReason, Filters, HostOffer, HostSpec, Posting, TaxProfile, TimeInForce, VatScheme
from bursa.money import MICROS_PER_UNIT, PPM_PER_ONE, Currency
from tests.market.scenario_grammar import Fields, Form, Place, Statement, read_clock_ns, read_micros
from tests.market.scenario_names import START_NS, Names


@dataclass(frozen=True)
class Context:
    """What a line is read against: the places it filled, the names so far, its id and its time."""

    fields: Fields
    names: Names
    command_id: str
    now_ns: int
    statement: Statement

    def id(self, kind: str, key: str = "") -> int:
        """Return the id behind the name in the place `key` (the kind itself, if not given)."""
        return self.names.id_of(self.fields.place, kind, self.fields.text(key or kind))

    def clock(self, key: str, default: int = 0) -> int:
        """Return a time as nanoseconds since the epoch."""
        return START_NS + read_clock_ns(self.fields.text(key)) if self.fields.has(key) else default

    def book(self) -> str:
        """Return the instrument of a line about books: `all` is the empty text."""
        book = self.fields.text("book")
        return "" if book == "all" else book


_Build: TypeAlias = Callable[[Context], c.Command]
FORMS: Final[list[Form[c.Command]]] = []


def _form(template: str, names: str = "") -> Callable[[_Build], _Build]:
    def add(build: _Build) -> _Build:
        FORMS.append(Form(template, build, names))
        return build

    return add


# ---- parties ---------------------------------------------------------------------------------------------------------


@_form("party {new:name}[ with tax id {tax_id:word}][ paid out to {account:word}]", names="party")
def _register(x: Context) -> c.Command:
    f = x.fields
    return c.RegisterParty(command_id=x.command_id, tax_id=f.text("tax_id"), payout_account=f.text("account"))


@_form("{party:name} changes to tax id {tax_id:word}[ paid out to {account:word}]")
def _update(x: Context) -> c.Command:
    f = x.fields
    return c.UpdateParty(
        command_id=x.command_id, party_id=x.id("party"), tax_id=f.text("tax_id"), payout_account=f.text("account")
    )


@_form("{party:name} is taxed in {country:word} under {scheme:word} at {percent:money} %")
def _tax(x: Context) -> c.Command:
    f = x.fields
    if f.text("scheme") not in tuple(VatScheme):
        raise f.place.error("scheme", f.text("scheme"), f"one of {', '.join(VatScheme)}")
    vat_ppm, rest = divmod(f.micros("percent"), MICROS_PER_UNIT * 100 // PPM_PER_ONE)
    if rest:
        raise f.place.error("percent", f.text("percent"), "at most four decimals")
    profile = TaxProfile(f.text("country"), VatScheme(f.text("scheme")), vat_ppm)
    return c.SetTaxProfile(command_id=x.command_id, party_id=x.id("party"), profile=profile)


@_form("operator suspends {party:name}")
def _suspend(x: Context) -> c.Command:
    return c.SuspendParty(command_id=x.command_id, party_id=x.id("party"))


@_form("operator reinstates {party:name}")
def _reinstate(x: Context) -> c.Command:
    return c.ReinstateParty(command_id=x.command_id, party_id=x.id("party"))


# ---- funds -----------------------------------------------------------------------------------------------------------


def _sum(x: Context) -> dict[str, Any]:
    return {"party_id": x.id("party"), "currency": x.fields.currency(), "micros": x.fields.micros("amount")}


@_form("{party:name} tops up {amount:money} {currency:word}[ via {provider:word}]")
def _top_up(x: Context) -> c.Command:
    return c.CreditTopUp(command_id=x.command_id, **_sum(x), provider=x.fields.text("provider", "stripe"))


@_form("{party:name} requests refund {new:name} of {amount:money} {currency:word}", names="refund")
def _refund(x: Context) -> c.Command:
    return c.RequestRefund(command_id=x.command_id, **_sum(x))


@_form("refund {refund:name} is paid[ by {provider:word}]")
def _settle_refund(x: Context) -> c.Command:
    return c.SettleRefund(
        command_id=x.command_id, refund_id=x.id("refund"), provider=x.fields.text("provider", "stripe")
    )


@_form("refund {refund:name} fails")
def _fail_refund(x: Context) -> c.Command:
    return c.FailRefund(command_id=x.command_id, refund_id=x.id("refund"))


@_form("chargeback of {amount:money} {currency:word} from {party:name}[ via {provider:word}]")
def _chargeback(x: Context) -> c.Command:
    return c.PostChargeback(command_id=x.command_id, **_sum(x), provider=x.fields.text("provider", "stripe"))


@_form("chargeback of {amount:money} {currency:word} won for {party:name}[ via {provider:word}]")
def _win_chargeback(x: Context) -> c.Command:
    return c.WinChargeback(command_id=x.command_id, **_sum(x), provider=x.fields.text("provider", "stripe"))


@_form("operator writes off the {currency:word} debt of {party:name}")
def _write_off(x: Context) -> c.Command:
    return c.WriteOffDebt(command_id=x.command_id, party_id=x.id("party"), currency=x.fields.currency())


@_form("rate 1 {currency:word} = {mid:money} USD[ of {clock:clock}]")
def _rate(x: Context) -> c.Command:
    f = x.fields
    return c.SetRate(
        command_id=x.command_id, currency=f.currency(), mid_micros=f.micros("mid"), as_of_ns=x.clock("clock", x.now_ns)
    )


@_form(
    "invoice {invoice:word} for {party:name}: VAT {amount:money} {currency:word} of {accrued:money} accrued,"
    " {country:word} {scheme:word}"
)
def _invoice(x: Context) -> c.Command:
    f = x.fields
    return c.PostInvoice(
        command_id=x.command_id,
        party_id=x.id("party"),
        currency=f.currency(),
        country=f.text("country"),
        scheme=f.text("scheme"),
        accrued_micros=f.micros("accrued"),
        invoiced_micros=f.micros("amount"),
        invoice=f.text("invoice"),
    )


@_form("{party:name} requests payout {new:name} of {amount:money} {currency:word}", names="payout")
def _payout(x: Context) -> c.Command:
    return c.RequestPayout(command_id=x.command_id, **_sum(x))


@_form("payout {payout:name} arrives")
def _settle_payout(x: Context) -> c.Command:
    return c.SettlePayout(command_id=x.command_id, payout_id=x.id("payout"))


@_form("payout {payout:name} comes back")
def _return_payout(x: Context) -> c.Command:
    return c.ReturnPayout(command_id=x.command_id, payout_id=x.id("payout"))


@_form("operator posts {memo:text}, made by {maker:word}, approved by {checker:word}")
def _post_entry(x: Context) -> c.Command:
    f = x.fields
    postings: list[Posting] = []
    for place, text in x.statement.effects:
        match = _INPUT_POSTING.fullmatch(text)
        if match is not None:
            postings += [read_posting(place, match["posting"], x.names)] * int(match["times"] or 1)
    return c.PostEntry(
        command_id=x.command_id,
        made_by=f.text("maker"),
        approved_by=f.text("checker"),
        memo=f.text("memo"),
        postings=tuple(postings),
    )


_INPUT_POSTING: Final = re.compile(r"with\s+(?:(?P<times>\d+) x\s+)?(?P<posting>.*)")
_POSTING: Final = re.compile(r"([A-Z]{3})\s+(\S+)\s+(debit|credit)\s+(-?\d+(?:\.\d+)?)")


def read_posting(place: Place, text: str, names: Names) -> Posting:
    """Read `USD wallet:anna debit 14.28`."""
    match = _POSTING.fullmatch(text)
    if match is None:
        raise place.error("posting", text, "CURRENCY ACCOUNT debit|credit AMOUNT, such as USD wallet:anna debit 14.28")
    micros = read_micros(place, match[4])
    debit, credit = (micros, 0) if match[3] == "debit" else (0, micros)
    return Posting(match[1], names.account_id(place, match[2]), debit, credit)


# ---- instruments and books -------------------------------------------------------------------------------------------


@_form("instrument {instrument:word}[, reference {reference:money}]")
def _instrument(x: Context) -> c.Command:
    f = x.fields
    return c.ListInstrument(
        command_id=x.command_id, instrument=f.text("instrument"), reference_micros=f.micros("reference")
    )


@_form("preopen {book:word}[ until {clock:clock}]")
def _preopen(x: Context) -> c.Command:
    return c.PreopenBook(command_id=x.command_id, instrument=x.book(), opens_at_ns=x.clock("clock"))


@_form("open {book:word}")
def _open(x: Context) -> c.Command:
    return c.OpenBook(command_id=x.command_id, instrument=x.book())


@_form("halt {book:word}")
def _halt(x: Context) -> c.Command:
    return c.HaltBook(command_id=x.command_id, instrument=x.book())


@_form("resume {book:word}")
def _resume(x: Context) -> c.Command:
    return c.ResumeBook(command_id=x.command_id, instrument=x.book())


@_form("rules {changes:text}")
def _rules(x: Context) -> c.Command:
    place = x.fields.place
    changes: dict[str, int] = {}
    for part in x.fields.text("changes").split(","):
        match = re.fullmatch(r"\s*([a-z_]+) (-?\d+)\s*", part)
        if match is None or match[1] not in x.names.rules.__struct_fields__:
            raise place.error(
                "rule", part.strip(), f"RULE NUMBER, with one of {', '.join(x.names.rules.__struct_fields__)}"
            )
        changes[match[1]] = int(match[2])
    return c.ChangeRules(command_id=x.command_id, rules=msgspec.structs.replace(x.names.rules, **changes))


# ---- hosts -----------------------------------------------------------------------------------------------------------

_SPEC_OPTIONS: Final = {
    r"(\d+) vcpus": "vcpus",
    r"ram (\d+) GiB": "ram_gib",
    r"disk (\d+) GiB": "disk_gib",
    r"network (\d+) Mbps": "network_mbps",
}


@_form(
    "{party:name} lists host {new:name}: {gpus:int} x {instrument:word} in {country:name}[/{region:name}]"
    "[, {options:text}]",
    names="host",
)
def _list_host(x: Context) -> c.Command:
    f = x.fields
    spec = HostSpec(gpus=f.number("gpus"), country=f.text("country"), region=f.text("region"))
    changes = {}
    for option in _options_of(f):
        for pattern, name in _SPEC_OPTIONS.items():
            if (match := re.fullmatch(pattern, option)) is not None:
                changes[name] = int(match[1])
                break
        else:
            raise f.place.error("option", option, f"one of {', '.join(_SPEC_OPTIONS)}")
    x.names.host_gpus[f.text("new")] = f.number("gpus")
    return c.ListHost(
        command_id=x.command_id,
        party_id=x.id("party"),
        instrument=f.text("instrument"),
        spec=msgspec.structs.replace(spec, **changes),
    )


@_form("host {host:name} passes its check")
def _check_host(x: Context) -> c.Command:
    return c.CheckHost(command_id=x.command_id, host_id=x.id("host"))


@_form("host {host:name} passes its check, verified")
def _verify_host(x: Context) -> c.Command:
    return c.CheckHost(command_id=x.command_id, host_id=x.id("host"), is_verified=True)


@_form("operator suspends host {host:name}")
def _suspend_host(x: Context) -> c.Command:
    return c.SuspendHost(command_id=x.command_id, host_id=x.id("host"))


@_form("{party:name} retires host {host:name}")
def _retire_host(x: Context) -> c.Command:
    return c.RetireHost(command_id=x.command_id, party_id=x.id("party"), host_id=x.id("host"))


@_form("host {host:name} is silent since {clock:clock}")
def _silence(x: Context) -> c.Command:
    return c.ReportSilence(command_id=x.command_id, host_id=x.id("host"), last_heartbeat_ns=x.clock("clock"))


@_form("host {host:name} is heard again")
def _heartbeat(x: Context) -> c.Command:
    return c.ReportHeartbeat(command_id=x.command_id, host_id=x.id("host"))


# ---- orders ----------------------------------------------------------------------------------------------------------


@_form("{party:name} asks {new:name}: {price:money} on {hosts:text}", names="order")
def _ask(x: Context) -> c.Command:
    f = x.fields
    offers, *options = _split_commas(f.text("hosts"))
    patterns = {
        r"min (-?\d+) GPUs?": "min_gpus",
        r"min (-?\d+) h": "min_hours",
        r"max (-?\d+) h": "max_hours",
        r"lock (-?\d+) h": "price_lock_hours",
    }
    changes: dict[str, Any] = {}
    for option in options:
        until = re.fullmatch(r"until (\d+:[\d:.]+)", option)
        found = [(name, m) for p, name in patterns.items() if (m := re.fullmatch(p, option)) is not None]
        if until is not None:
            changes["until_ns"] = START_NS + read_clock_ns(until[1])
        elif found:
            changes[found[0][0]] = int(found[0][1][1])
        else:
            raise f.place.error("option", option, "min 2 GPUs, min 4 h, max 48 h, lock 24 h or until 9:00")
    return c.PlaceAsk(
        command_id=x.command_id,
        party_id=x.id("party"),
        offers=_offers(x, offers),
        price_micros=f.micros("price"),
        **changes,
    )


@_form(
    "{party:name} bids {new:name}: {lots:int} lot(s) x {gpus:int} GPU(s) x {hours:int} h[ of {instrument:word}]"
    " at {limit:money}[, {options:text}]",
    names="order",
)
def _bid(x: Context) -> c.Command:
    f = x.fields
    changes: dict[str, Any] = {}
    filters = []
    for option in _options_of(f):
        if option in (TimeInForce.GTC, TimeInForce.IOC, TimeInForce.FOK):
            changes["time_in_force"] = TimeInForce(option)
        elif (match := re.fullmatch(r"(GTD|GTC|IOC|FOK) until (\d+:[\d:.]+)", option)) is not None:
            changes |= {"time_in_force": TimeInForce(match[1]), "expires_at_ns": START_NS + read_clock_ns(match[2])}
        elif (match := re.fullmatch(r"paid in ([A-Z]{3})", option)) is not None:
            changes["currency"] = _currency(f.place, match[1])
        else:
            filters.append(option)
    return c.PlaceBid(
        command_id=x.command_id,
        party_id=x.id("party"),
        instrument=x.names.instrument(f.place, f.text("instrument")),
        gpus=f.number("gpus"),
        hours=f.number("hours"),
        limit_micros=f.micros("limit"),
        lots=f.number("lots"),
        filters=read_filters(f.place, filters, x.names),
        **changes,
    )


@_form("{party:name} amends ask {order:name}: {price:money} on {hosts:text}")
def _amend_ask(x: Context) -> c.Command:
    f = x.fields
    return c.AmendAsk(
        command_id=x.command_id,
        party_id=x.id("party"),
        order_id=x.id("order"),
        price_micros=f.micros("price"),
        offers=_offers(x, f.text("hosts")),
    )


@_form("{party:name} amends bid {order:name}: {lots:int} lot(s) at {limit:money}")
def _amend_bid(x: Context) -> c.Command:
    f = x.fields
    return c.AmendBid(
        command_id=x.command_id,
        party_id=x.id("party"),
        order_id=x.id("order"),
        limit_micros=f.micros("limit"),
        lots=f.number("lots"),
    )


@_form("{party:name} cancels {order:name}")
def _cancel(x: Context) -> c.Command:
    return c.CancelOrder(command_id=x.command_id, party_id=x.id("party"), order_id=x.id("order"))


# ---- rentals ---------------------------------------------------------------------------------------------------------


@_form("rental {rental:name} starts")
def _start(x: Context) -> c.Command:
    return c.StartRental(command_id=x.command_id, rental_id=x.id("rental"))


@_form("{party:name} stops {rental:name}")
def _stop(x: Context) -> c.Command:
    return c.StopRental(command_id=x.command_id, party_id=x.id("party"), rental_id=x.id("rental"))


@_form("{party:name} extends {rental:name} by {hours:int} h at {limit:money}")
def _extend(x: Context) -> c.Command:
    f = x.fields
    return c.ExtendRental(
        command_id=x.command_id,
        party_id=x.id("party"),
        rental_id=x.id("rental"),
        hours=f.number("hours"),
        limit_micros=f.micros("limit"),
    )


@_form("{party:name} auto-extends {rental:name} by {hours:int} h at {limit:money} up to {cap:money}")
def _auto_extend(x: Context) -> c.Command:
    f = x.fields
    return c.SetAutoExtend(
        command_id=x.command_id,
        party_id=x.id("party"),
        rental_id=x.id("rental"),
        hours=f.number("hours"),
        limit_micros=f.micros("limit"),
        cap_micros=f.micros("cap"),
    )


@_form("{party:name} no longer auto-extends {rental:name}")
def _auto_extend_off(x: Context) -> c.Command:
    return c.SetAutoExtend(command_id=x.command_id, party_id=x.id("party"), rental_id=x.id("rental"), hours=0)


def _reason(x: Context) -> EndReason:
    text = x.fields.text("reason")
    if text not in tuple(EndReason):
        raise x.fields.place.error("reason", text, f"one of {', '.join(EndReason)}")
    return EndReason(text)


@_form("rental {rental:name} fails: {reason:word}")
def _fail(x: Context) -> c.Command:
    return c.FailRental(command_id=x.command_id, rental_id=x.id("rental"), reason=_reason(x))


@_form("{party:name} reclaims {rental:name}")
def _reclaim(x: Context) -> c.Command:
    return c.ReclaimRental(command_id=x.command_id, party_id=x.id("party"), rental_id=x.id("rental"))


@_form("operator ends {rental:name}: {reason:word}")
def _end(x: Context) -> c.Command:
    return c.EndRental(command_id=x.command_id, rental_id=x.id("rental"), reason=_reason(x))


@_form("rental {rental:name} is wiped")
def _wiped(x: Context) -> c.Command:
    return c.ReportWiped(command_id=x.command_id, rental_id=x.id("rental"))


# ---- parts of lines --------------------------------------------------------------------------------------------------

_NUMBER_FILTERS: Final = {
    r"reliability (\d+)": "reliability_min",
    r"ram (\d+) GiB": "ram_gib_min",
    r"disk (\d+) GiB": "disk_gib_min",
    r"(\d+) vcpus": "vcpus_min",
}


def read_filters(place: Place, options: list[str], names: Names) -> Filters:
    """Read what a bid asks of a host: `in DE or EU`, `verified`, `reliability 950`, `ram 64 GiB`, `avoiding h1`."""
    changes: dict[str, Any] = {}
    for option in options:
        found = [(name, m) for p, name in _NUMBER_FILTERS.items() if (m := re.fullmatch(p, option)) is not None]
        if found:
            changes[found[0][0]] = int(found[0][1][1])
        elif option == "verified":
            changes["is_verified_only"] = True
        elif option.startswith("in "):
            changes["regions"] = tuple(option.removeprefix("in ").split(" or "))
        elif option.startswith("avoiding "):
            hosts = option.removeprefix("avoiding ").split(" and ")
            changes["avoid_hosts"] = tuple(names.id_of(place, "host", host) for host in hosts)
        else:
            raise place.error(
                "option",
                option,
                "IOC, FOK, GTC, GTD until 9:00, paid in EUR, in DE or EU, verified, reliability 950, ram 64 GiB,"
                " disk 100 GiB, 8 vcpus or avoiding h1 and h2",
            )
    return Filters(**changes)


def _currency(place: Place, text: str) -> Currency:
    if text not in tuple(Currency):
        raise place.error("currency", text, f"one of {', '.join(Currency)}")
    return Currency(text)


def _options_of(fields: Fields) -> list[str]:
    return _split_commas(fields.text("options")) if fields.has("options") else []


def _split_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _offers(x: Context, text: str) -> tuple[HostOffer, ...]:
    """Read `h1`, `4 of h1` or `4 of h1 + h2`; a bare host is all of its GPUs."""
    offers = []
    for part in text.split("+"):
        match = re.fullmatch(r"\s*(?:(-?\d+) of )?(\S+)\s*", part)
        if match is None:
            raise x.fields.place.error("hosts", part.strip(), "HOST or NUMBER of HOST, joined by +")
        host_id = x.names.id_of(x.fields.place, "host", match[2])
        gpus = int(match[1]) if match[1] else x.names.host_gpus.get(match[2], 1)
        offers.append(HostOffer(host_id, gpus))
    return tuple(offers)
