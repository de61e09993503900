"""`bursa wallet`: balances, top-up, statement."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from typing import Final, Literal

from bursa.cli.commands import new_app
from bursa.cli.exits import Exit
from bursa.cli.options import PAGE_VIEW, REACH, REPEAT, TABLE_VIEW, VIEW, PageView, Reach, Repeat, TableView, View
from bursa.errors import InputError

LINES_MAX: Final = 1_000

app = new_app("wallet", "Balances, top-up, statement.")


@app.command
def show(*, view: TableView = TABLE_VIEW, reach: Reach = REACH) -> None:
    """Show what is available and held in each currency, and how long it lasts."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import wallet
    from bursa.wire import Balance

    item = Session(reach).ask(wallet.show_wallet())
    if view.csv:
        render.write_csv(Balance, item.balances)
        return
    empty = "The wallet is empty. Add funds: bursa wallet top-up 25 --currency USD"
    render.show(item, view, screens.wallet(item), empty)


@app.command(name="top-up")
def top_up(
    amount: str,
    /,
    *,
    currency: str = "USD",
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Add funds. On a sandbox they are there at once and cost nothing.

    Parameters
    ----------
    amount
        How much, in whole cents, like 25 or 25.50.
    currency
        USD, EUR or GBP.
    """
    from bursa.cli import render
    from bursa.cli.session import Session
    from bursa.cli.terms import read_currency, read_price
    from bursa.sdk import wallet
    from bursa.wire import TopUpRequest

    request = TopUpRequest(amount=read_price(amount, "AMOUNT"), currency=read_currency(currency))
    transfer = Session(reach).ask(wallet.top_up(request, idempotency_key=repeat.idempotency_key))
    facts = [("Amount", transfer.amount), ("State", transfer.state), ("Time", transfer.at)]
    render.show(transfer, view, [render.Grid(("!" + transfer.id, ""), facts)])


@app.command
def statement(
    *,
    currency: str | None = None,
    account: Literal["wallet", "seller_pending", "seller_available"] | None = None,
    since: str | None = None,
    until: str | None = None,
    every: bool = False,
    view: PageView = PAGE_VIEW,
    reach: Reach = REACH,
) -> int:
    """List what changed your balances, newest first.

    Parameters
    ----------
    currency
        Only this currency.
    account
        Only this ledger account.
    since
        From this time on: a UTC day like 2026-12-01, a time like 2026-12-01T12:00Z, or a span ago like 2h or 7d.
    until
        Up to this time, given as for --since.
    every
        All pages: with --csv the whole statement, with --json one line a posting.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.cli.terms import read_currency, read_past
    from bursa.sdk import wallet
    from bursa.wire import StatementLine

    chosen = None if currency is None else read_currency(currency)
    start, end = read_past(since, "--since"), read_past(until, "--until")
    session = Session(reach)
    call = wallet.list_statement(
        currency=chosen,
        account=account,
        start=start,
        end=end,
        limit=require_limit(view.limit, LINES_MAX),
        cursor=view.cursor,
    )
    is_filtered = any((currency, account, since, until, view.cursor))
    empty = "Nothing yet. Add funds: bursa wallet top-up 25 --currency USD"
    if is_filtered:
        empty = "No lines match. All: bursa wallet statement"
    if not every or session.is_explaining:
        page = session.ask(call)
        render.show_list(page, view, screens.statement(page.items), empty)
        return Exit.OK
    if view.csv == view.json:
        raise InputError("--every", "neither or both", "one of --json and --csv with it")
    with session.connect() as client:
        lines = client.pages(call)
        if view.csv:
            render.write_csv(StatementLine, lines)
        else:
            for line in lines:
                render.write_line(line)
    return Exit.OK
