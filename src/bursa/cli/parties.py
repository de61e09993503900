"""`bursa host` and `bursa key`: what a party owns beside orders and rentals."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from typing import Final, Literal

from bursa.cli.commands import new_app
from bursa.cli.options import CONSENT, PAGE_VIEW, REACH, VIEW, Consent, PageView, Reach, View

ROWS_MAX: Final = 200
ScopeName = Literal["read", "trade", "fund", "sell", "admin"]

host_app = new_app("host", "Your hosts, as a seller.")
key_app = new_app("key", "Your API keys.")


@host_app.command(name="list")
def list_hosts(*, view: PageView = PAGE_VIEW, reach: Reach = REACH) -> None:
    """List your hosts."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.sdk import parties

    page = Session(reach).ask(parties.list_hosts(limit=require_limit(view.limit, ROWS_MAX), cursor=view.cursor))
    empty = "No hosts. List one with the API (POST /v1/hosts) or the SDK (list_host)."
    render.show_list(page, view, screens.hosts(page.items), empty)


@key_app.command(name="list")
def list_keys(*, view: PageView = PAGE_VIEW, reach: Reach = REACH) -> None:
    """List your keys, without their secrets."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.sdk import parties

    page = Session(reach).ask(parties.list_keys(limit=require_limit(view.limit, ROWS_MAX), cursor=view.cursor))
    empty = "No keys. Make one: bursa key create --name laptop --scope read"
    render.show_list(page, view, screens.keys(page.items), empty)


@key_app.command
def create(
    *,
    name: str,
    scope: tuple[ScopeName, ...],
    daily_cap: str | None = None,
    until: str | None = None,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Make a key. Its secret is printed this once.

    Parameters
    ----------
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
    from bursa.sdk import parties

    request = read_key_request(name, scope, daily_cap, until)
    made = Session(reach).ask(parties.create_key(request))
    render.show_secret(made, view)


@key_app.command
def revoke(key: str, /, *, consent: Consent = CONSENT, view: View = VIEW, reach: Reach = REACH) -> None:
    """Revoke a key; it is refused at once.

    Parameters
    ----------
    key
        Id of the key, like key_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, confirm
    from bursa.sdk import parties

    session = Session(reach)
    if not session.is_explaining:
        confirm(f"Revoke {key}? What uses it stops working at once.", consent)
    item = session.ask(parties.revoke_key(key))
    render.show(item, view, [screens.keys([item])])
