"""The wallet: balances, the statement with its running balance, top-ups, refunds, payouts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta

from bursa.market import (
    CreditTopUp,
    Done,
    EntryKind,
    JournalEntry,
    RequestPayout,
    RequestRefund,
)
from bursa.money import Currency
from bursa.sequencer import Answer
from bursa.services.cursors import before, check_limit, read_cursor, write_cursor
from bursa.services.database import cursor as lend
from bursa.services.database import fetch_all
from bursa.services.exchange import Actor, Exchange, RefusedError, Reply, command_ids, require
from bursa.services.submitting import submit
from bursa.wire import (
    Amount,
    Balance,
    Scope,
    StatementLine,
    StatementPage,
    TopUpRequest,
    Transfer,
    TransferPage,
    TransferRequest,
    Wallet,
    parse_micros,
    parse_time,
    show_amount,
    show_id,
    show_micros,
    show_time,
)

#: The provider whose payments cost nothing and are worth nothing.
SANDBOX_PROVIDER: Final = "sandbox"
#: Lines on a page of a statement.
LINES_MAX: Final = 1_000
#: Ledger accounts that a statement shows, and the column of ``balances`` that holds each one's balance.
STATEMENT_ACCOUNTS: Final = {
    "wallet": "available_micros",
    "seller_pending": "pending_micros",
    "seller_available": "payable_micros",
}

_BALANCES: Final = "SELECT * FROM bursa.balances WHERE party_id = %(party_id)s ORDER BY currency"
_BURN: Final = """
    SELECT currency, sum(hour_micros)::bigint AS micros FROM bursa.rentals
    WHERE buyer_id = %(party_id)s AND state IN ('OPENED', 'STARTED') AND hour_micros > 0
    GROUP BY currency ORDER BY currency
"""
# Balances are as of now, so what came after the end of the asked time is taken off again.
_LATER: Final = """
    SELECT split_part(p.account, ':', 1) AS account, p.currency,
           sum(p.credit_micros - p.debit_micros)::bigint AS micros
    FROM bursa.postings AS p JOIN bursa.entries AS e USING (entry_id)
    WHERE p.owner_id = %(party_id)s AND e.at_ns >= %(until_ns)s
    GROUP BY 1, 2
"""
_LINES: Final = """
    SELECT p.entry_id, p.line, p.currency, split_part(p.account, ':', 1) AS account,
           p.credit_micros - p.debit_micros AS micros, e.kind, e.at_ns, e.order_id, e.rental_id, e.memo, e.seq
    FROM bursa.postings AS p JOIN bursa.entries AS e USING (entry_id)
    WHERE p.owner_id = %(party_id)s
      AND (p.entry_id, p.line) < (%(entry_id)s, %(line)s)
      AND (%(currency)s::text IS NULL OR p.currency = %(currency)s)
      AND (%(account)s::text IS NULL OR p.account = %(account)s || ':' || %(party_id)s)
      AND e.at_ns >= %(from_ns)s AND e.at_ns < %(until_ns)s
    ORDER BY p.entry_id DESC, p.line DESC LIMIT %(limit)s
"""
_TRANSFERS: Final = """
    SELECT * FROM bursa.transfers WHERE party_id = %(party_id)s AND transfer_id < %(before)s
    ORDER BY transfer_id DESC LIMIT %(limit)s
"""
_FOREVER_NS: Final = 2**62
#: A balance in a cursor: a page of postings away from it the next cursor can still hold it, whoever made this one.
_Running = Annotated[int, Meta(ge=-(2**62), le=2**62)]


async def show_wallet(exchange: Exchange, actor: Actor) -> Wallet:
    """Return all balances of the actor's party, and how long they last at today's burn."""
    require(actor, Scope.READ)
    party = {"party_id": actor.party_id}
    async with lend(exchange.reader) as rows:
        await rows.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        await rows.execute(_BALANCES, party)
        balances = await rows.fetchall()
        await rows.execute(_BURN, party)
        burns = {row.currency: row.micros for row in await rows.fetchall()}
    hours_left: list[int] = []
    for row in balances:
        burn = burns.get(row.currency, 0)
        if burn:
            hours_left.append((row.available_micros + row.held_micros) // burn)
    return Wallet(
        party=show_id("party", actor.party_id),
        balances=[_show_balance(row) for row in balances],
        burn_per_hour=[show_amount(micros, Currency(currency)) for currency, micros in burns.items()],
        hours_left=min(hours_left, default=None),
        is_sandbox=exchange.is_sandbox,
        seq=max((row.seq for row in balances), default=0),
    )


def _show_balance(row: Any) -> Balance:  # noqa: ANN401 - a row
    return Balance(
        currency=Currency(row.currency),
        available=show_micros(row.available_micros),
        held=show_micros(row.held_micros),
        pending=show_micros(row.pending_micros),
        payable=show_micros(row.payable_micros),
        debt=show_micros(row.debt_micros),
    )


# ---- statement -----------------------------------------------------------------------------------------


async def list_statement(
    exchange: Exchange,
    actor: Actor,
    *,
    currency: Currency | None = None,
    account: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> StatementPage:
    """Return postings on the party's own ledger accounts, newest first, each with the balance after it.

    ``start`` is included, ``end`` is not. The balance runs over every posting of its account, shown or not: a cursor
    carries it on, so that pages fit together whatever happens between them.
    """
    require(actor, Scope.READ)
    limit = check_limit(limit, LINES_MAX)
    if account is not None and account not in STATEMENT_ACCOUNTS:
        raise RefusedError("INVALID_FIELD", "account", account, ", ".join(STATEMENT_ACCOUNTS))
    parameters: dict[str, Any] = {
        "party_id": actor.party_id,
        "currency": currency.value if currency is not None else None,
        "account": account,
        "from_ns": parse_time(start, "from") if start is not None else 0,
        "until_ns": parse_time(end, "to") if end is not None else _FOREVER_NS,
        "entry_id": _FOREVER_NS,
        "line": 0,
        "limit": limit + 1,
    }
    running: dict[str, int] | None = None
    if cursor is not None:
        parameters["entry_id"], parameters["line"], running = read_cursor(
            "statement", cursor, tuple[int, int, dict[str, _Running]]
        )
    async with lend(exchange.reader) as rows:
        await rows.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if running is None:
            running = await _closing_balances(rows, parameters)
        await rows.execute(_LINES, parameters)
        found = await rows.fetchall()
    lines = [_show_line(row, running) for row in found[:limit]]
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        following = write_cursor("statement", last.entry_id, last.line, running)
    return StatementPage(lines, following)


async def _closing_balances(rows: Any, parameters: dict[str, Any]) -> dict[str, int]:  # noqa: ANN401 - a cursor of any rows
    """Return the balance of each account at the end of the asked time, by "account currency"."""
    await rows.execute(_BALANCES, parameters)
    running = {
        f"{account} {row.currency}": getattr(row, column)
        for row in await rows.fetchall()
        for account, column in STATEMENT_ACCOUNTS.items()
    }
    if parameters["until_ns"] != _FOREVER_NS:
        await rows.execute(_LATER, parameters)
        for row in await rows.fetchall():
            key = f"{row.account} {row.currency}"
            running[key] = running.get(key, 0) - row.micros
    return running


def _show_line(row: Any, running: dict[str, int]) -> StatementLine:  # noqa: ANN401 - a row
    """Return one line, and move the running balance to before it."""
    at = show_time(row.at_ns)
    assert at is not None, row
    key = f"{row.account} {row.currency}"
    balance = running.get(key, 0)
    running[key] = balance - row.micros
    return StatementLine(
        entry=show_id("entry", row.entry_id),
        at=at,
        kind=EntryKind(row.kind),
        account=row.account,
        change=show_micros(row.micros),
        currency=Currency(row.currency),
        balance=show_micros(balance),
        order=show_id("order", row.order_id) if row.order_id else None,
        rental=show_id("rental", row.rental_id) if row.rental_id else None,
        memo=row.memo,
        seq=row.seq,
    )


# ---- in and out ----------------------------------------------------------------------------------------


async def top_up(
    exchange: Exchange, actor: Actor, request: TopUpRequest, *, idempotency_key: str | None = None
) -> Reply[Transfer]:
    """Add funds from the sandbox's provider; an exchange that is no sandbox has no provider yet."""
    require(actor, Scope.FUND)
    if not exchange.is_sandbox:
        raise RefusedError("TOP_UPS_UNAVAILABLE", "", "", "an exchange with a payment provider, or a sandbox")
    ids = command_ids(actor, idempotency_key)
    command = CreditTopUp(
        command_id=ids.of(),
        party_id=actor.party_id,
        currency=request.currency,
        micros=parse_micros(request.amount, "amount"),
        provider=SANDBOX_PROVIDER,
    )
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    entry = next(event for event in answer.events if isinstance(event, JournalEntry))
    # A top-up is settled when it is credited; the entry that credits it is what names it.
    return Reply(
        Transfer(
            id=show_id("entry", entry.entry_id),
            kind="TOP_UP",
            state="SETTLED",
            amount=Amount(show_micros(command.micros), command.currency),
            at=_at(answer),
            seq=answer.seq,
        ),
        answer.is_repeat,
    )


async def request_refund(
    exchange: Exchange, actor: Actor, request: TransferRequest, *, idempotency_key: str | None = None
) -> Reply[Transfer]:
    """Send unused balance back to where it came from."""
    require(actor, Scope.FUND)
    ids = command_ids(actor, idempotency_key)
    command = RequestRefund(
        command_id=ids.of(),
        party_id=actor.party_id,
        currency=request.currency,
        micros=parse_micros(request.amount, "amount"),
    )
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(_sent(answer, command), answer.is_repeat)


async def request_payout(
    exchange: Exchange, actor: Actor, request: TransferRequest, *, idempotency_key: str | None = None
) -> Reply[Transfer]:
    """Pay a seller's cleared earnings out."""
    require(actor, Scope.FUND)
    ids = command_ids(actor, idempotency_key)
    command = RequestPayout(
        command_id=ids.of(),
        party_id=actor.party_id,
        currency=request.currency,
        micros=parse_micros(request.amount, "amount"),
    )
    answer = await submit(exchange, command, is_fresh=ids.is_fresh)
    return Reply(_sent(answer, command), answer.is_repeat)


def _sent(answer: Answer, command: RequestRefund | RequestPayout) -> Transfer:
    """Return a transfer as it stood when it was asked for."""
    assert isinstance(answer.result, Done), answer
    return Transfer(
        id=show_id("transfer", answer.result.id),
        kind="PAYOUT" if isinstance(command, RequestPayout) else "REFUND",
        state="SENT",
        amount=Amount(show_micros(command.micros), command.currency),
        at=_at(answer),
        seq=answer.seq,
    )


def _at(answer: Answer) -> datetime:
    at = show_time(answer.at_ns)
    assert at is not None, answer
    return at


async def list_transfers(
    exchange: Exchange, actor: Actor, *, limit: int = 50, cursor: str | None = None
) -> TransferPage:
    """Return refunds and payouts of the actor's party, newest first; top-ups stand in the statement."""
    require(actor, Scope.READ)
    limit = check_limit(limit)
    parameters = {"party_id": actor.party_id, "before": before("transfers", cursor), "limit": limit + 1}
    rows = await fetch_all(exchange.reader, _TRANSFERS, parameters)
    page = rows[:limit]
    following = write_cursor("transfers", page[-1].transfer_id) if len(rows) > limit else None
    return TransferPage([_show_transfer(row) for row in page], following)


def _show_transfer(row: Any) -> Transfer:  # noqa: ANN401 - a row
    at = show_time(row.at_ns)
    assert at is not None, row
    return Transfer(
        id=show_id("transfer", row.transfer_id),
        kind="PAYOUT" if row.is_payout else "REFUND",
        state=row.state,
        amount=Amount(show_micros(row.micros), Currency(row.currency)),
        at=at,
        seq=row.seq,
    )
