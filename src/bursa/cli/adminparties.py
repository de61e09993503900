"""`bursa admin party`, `host`, `transfer`, `end-rental`: the operator's actions on single parties and rentals."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once
# ruff: noqa: PLR0913 - a parameter is a flag

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from bursa.cli.commands import new_app
from bursa.cli.exits import Exit, Finished
from bursa.cli.options import (
    CONSENT,
    PAGE_VIEW,
    PLACE,
    REACH,
    REPEAT,
    VIEW,
    Consent,
    PageView,
    Place,
    Reach,
    Repeat,
    View,
)
from bursa.cli.parties import ScopeName

if TYPE_CHECKING:
    from bursa.wire import TaxRequest

ROWS_MAX: Final = 200
SchemeName = Literal["DOM", "OSS", "OSS-NU", "UK", "AE", "OUT"]

party_app = new_app("party", "Parties: register, tax, suspend, keys.")
key_app = new_app("key", "Keys, made on the exchange's own machine.")
host_app = new_app("host", "Hosts: check, suspend.")
transfer_app = new_app("transfer", "Refunds and payouts: settle, return.")


@party_app.command(name="list")
def list_parties(*, view: PageView = PAGE_VIEW, reach: Reach = REACH) -> None:
    """List all parties."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.sdk import admin

    page = Session(reach).ask(admin.list_parties(limit=require_limit(view.limit, ROWS_MAX), cursor=view.cursor))
    empty = "No parties. Register one: bursa admin party register NAME"
    render.show_list(page, view, screens.parties(page.items), empty)


@party_app.command
def register(
    name: str,
    /,
    *,
    tax_id: str = "",
    payout_account: str = "",
    country: str | None = None,
    scheme: SchemeName = "DOM",
    vat: str | None = None,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Register a party. With --country and --vat it can buy at once.

    Parameters
    ----------
    name
        Its name.
    tax_id
        Its tax id.
    payout_account
        Where its earnings go.
    country
        Country of its purchases for tax, like DE.
    scheme
        Where the VAT is declared: DOM, OSS, OSS-NU, UK; AE (reverse charge) and OUT (outside) carry 0 percent.
    vat
        VAT on its purchases, in percent: 0 to 99.9999.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.errors import InputError
    from bursa.sdk import admin
    from bursa.wire import PartyRequest

    if (country is None) != (vat is None):
        raise InputError("--country, --vat", country or vat, "both, or neither")
    tax = None if country is None or vat is None else _tax(country, scheme, vat)
    request = PartyRequest(name=name, tax_id=tax_id, payout_account=payout_account, tax=tax)
    item = Session(reach).ask(admin.register_party(request, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.parties([item])])


@party_app.command
def tax(
    party: str,
    /,
    *,
    country: str,
    vat: str,
    scheme: SchemeName = "DOM",
    evidence: str = "",
    rule_version: str = "",
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Decide the tax of a party's purchases from now on.

    Parameters
    ----------
    party
        Id of the party, like pty_17.
    country
        Country of its purchases for tax, like DE.
    vat
        VAT on its purchases, in percent: 0 to 99.9999.
    scheme
        Where the VAT is declared: DOM, OSS, OSS-NU, UK; AE (reverse charge) and OUT (outside) carry 0 percent.
    evidence
        What the decision rests on.
    rule_version
        Version of the rules that made it.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import admin

    request = _tax(country, scheme, vat, evidence, rule_version)
    item = Session(reach).ask(admin.set_tax_profile(party, request, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.parties([item])])


@party_app.command
def suspend(
    party: str, /, *, consent: Consent = CONSENT, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH
) -> None:
    """Stop a party from trading; its open orders are canceled.

    Parameters
    ----------
    party
        Id of the party, like pty_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, confirm
    from bursa.sdk import admin

    session = Session(reach)
    if not session.is_explaining:
        confirm(f"Suspend {party}?", consent)
    item = session.ask(admin.suspend_party(party, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.parties([item])])


@party_app.command
def reinstate(party: str, /, *, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH) -> None:
    """Let a suspended party trade again.

    Parameters
    ----------
    party
        Id of the party, like pty_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import admin

    item = Session(reach).ask(admin.reinstate_party(party, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.parties([item])])


@party_app.command
def key(
    party: str,
    /,
    *,
    name: str,
    scope: tuple[ScopeName, ...],
    daily_cap: str | None = None,
    until: str | None = None,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Make a key for a party. Its secret is printed this once.

    Parameters
    ----------
    party
        Id of the party, like pty_17.
    name
        What it is for.
    scope
        What it may do; may be given several times.
    daily_cap
        Most that its orders may cost in a UTC day, in US$ excluding tax.
    until
        When it ends: a time like 2026-12-01T12:00Z or a span like 6h or 30d.
    """
    from bursa.cli import render
    from bursa.cli.session import Session
    from bursa.cli.terms import read_key_request
    from bursa.sdk import admin

    request = read_key_request(name, scope, daily_cap, until)
    made = Session(reach).ask(admin.create_party_key(party, request))
    render.show_secret(made, view)


@key_app.command
def create(
    *,
    party: str | None = None,
    name: str = "cli",
    scope: tuple[ScopeName, ...] = (),
    view: View = VIEW,
    place: Place = PLACE,
) -> None:
    """Make a key without having one: for the first login, or when all keys are lost. It is printed this once.

    Parameters
    ----------
    party
        Id of the party, like pty_17; else the operator.
    name
        What it is for.
    scope
        What it may do; may be given several times; else everything.
    """
    from bursa import server
    from bursa.cli import render
    from bursa.cli.session import say
    from bursa.config import load
    from bursa.errors import InputError
    from bursa.wire import Scope, parse_id

    number = None if party is None else parse_id("party", party, "--party")
    scopes = frozenset(Scope(word) for word in scope) or None
    settings = load({"data": place.data, "database_url": place.database_url})
    try:
        made = server.create_key(settings, party=number, name=name, scopes=scopes)
    except InputError as fault:
        if party is None or fault.field != "party":
            raise
        say(f"error: No such party: {party}", "next: bursa admin party list")
        raise Finished(Exit.NOT_FOUND) from None
    render.show_secret(made, view)


@host_app.command
def check(
    host: str,
    /,
    *,
    verified: bool = False,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Say that a host has passed its check and may sell.

    Parameters
    ----------
    host
        Id of the host, like hst_17.
    verified
        Its seller has been verified too.
    """
    from bursa.cli import render
    from bursa.cli.session import Session
    from bursa.sdk import admin
    from bursa.wire import CheckRequest

    call = admin.check_host(host, CheckRequest(is_verified=verified), idempotency_key=repeat.idempotency_key)
    done = Session(reach).ask(call)
    render.show_done(done, view, f"{host} may sell: seq {done.seq}.")


@host_app.command(name="suspend")
def suspend_host(
    host: str, /, *, consent: Consent = CONSENT, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH
) -> None:
    """Stop a host from selling until it has passed a check again.

    Parameters
    ----------
    host
        Id of the host, like hst_17.
    """
    from bursa.cli import render
    from bursa.cli.session import Session, confirm
    from bursa.sdk import admin

    session = Session(reach)
    if not session.is_explaining:
        confirm(f"Suspend {host}?", consent)
    done = session.ask(admin.suspend_host(host, idempotency_key=repeat.idempotency_key))
    render.show_done(done, view, f"{host} is suspended: seq {done.seq}.")


@transfer_app.command
def settle(transfer: str, /, *, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH) -> None:
    """Say that a refund or payout has arrived.

    Parameters
    ----------
    transfer
        Id of the transfer, like tfr_17.
    """
    from bursa.cli import render
    from bursa.cli.session import Session
    from bursa.sdk import admin

    done = Session(reach).ask(admin.settle_transfer(transfer, idempotency_key=repeat.idempotency_key))
    render.show_done(done, view, f"{transfer} is settled: seq {done.seq}.")


@transfer_app.command(name="return")
def return_(transfer: str, /, *, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH) -> None:
    """Say that a refund or payout came back; the funds return to the balance.

    Parameters
    ----------
    transfer
        Id of the transfer, like tfr_17.
    """
    from bursa.cli import render
    from bursa.cli.session import Session
    from bursa.sdk import admin

    done = Session(reach).ask(admin.return_transfer(transfer, idempotency_key=repeat.idempotency_key))
    render.show_done(done, view, f"{transfer} is returned: seq {done.seq}.")


def end_rental(
    rental: str,
    /,
    *,
    reason: Literal["operator", "policy"] = "operator",
    consent: Consent = CONSENT,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """End a rental as the operator.

    Parameters
    ----------
    rental
        Id of the rental, like rnt_17.
    reason
        Why: at the operator's will, or because it broke the rules.
    """
    from bursa.cli import render
    from bursa.cli.session import Session, confirm
    from bursa.market import EndReason
    from bursa.sdk import admin
    from bursa.wire import EndRentalRequest

    session = Session(reach)
    if not session.is_explaining:
        confirm(f"End {rental}?", consent)
    request = EndRentalRequest(reason=EndReason(reason))
    done = session.ask(admin.end_rental(rental, request, idempotency_key=repeat.idempotency_key))
    render.show_done(done, view, f"{rental} ends: seq {done.seq}.")


def _tax(country: str, scheme: str, vat: str, evidence: str = "", rule_version: str = "") -> TaxRequest:
    from bursa.cli.terms import read_percent
    from bursa.market import VatScheme
    from bursa.wire import TaxRequest

    return TaxRequest(
        country=country.upper(),
        scheme=VatScheme(scheme),
        vat_percent=read_percent(vat, "--vat"),
        evidence=evidence,
        rule_version=rule_version,
    )
