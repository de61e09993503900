"""Operations of funds, and of who one is: wallet, statement, transfers, keys."""

from __future__ import annotations

import csv
import io
from typing import Final

from bursa import services, wire
from bursa.api.operation import CSV_MEDIA, JSON_MEDIA, Call, Operation, Raw
from bursa.api.queries import PageQuery, StatementQuery
from bursa.wire import Scope

_COLUMNS: Final = wire.StatementLine.__struct_fields__
#: Signs that make a spreadsheet take a text for a formula.
_FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\t", "\r")


async def _show_statement(call: Call) -> object:
    """Return the page as asked for: JSON, or CSV with a header of column names."""
    query = call.query
    page = await services.list_statement(
        call.exchange,
        call.actor,
        currency=query.currency,
        account=query.account,
        start=query.start,
        end=query.end,
        limit=query.limit,
        cursor=query.cursor,
    )
    if (query.format or _preferred(call.header(b"accept"))) != "csv":
        return page
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for line in page.items:
        writer.writerow([_cell(name, getattr(line, name)) for name in _COLUMNS])
    headers: tuple[tuple[str, str], ...] = (
        ("content-disposition", 'attachment; filename="statement.csv"'),
        ("vary", "accept"),
    )
    if page.next is not None:
        headers = (*headers, ("link", f'</v1/wallet/statement?cursor={page.next}&format=csv>; rel="next"'))
    return Raw(text.getvalue().encode(), f"{CSV_MEDIA}; charset=utf-8", headers)


def _preferred(accept: str | None) -> str:
    """Return "csv" when an Accept header names it, and JSON not before it."""
    if accept is None or CSV_MEDIA not in accept:
        return "json"
    return "json" if JSON_MEDIA in accept.partition(CSV_MEDIA)[0] else "csv"


def _cell(name: str, value: object) -> str:
    """Return a cell; free text that a spreadsheet would run as a formula is quoted for it."""
    text = "" if value is None else str(value)
    if name == "at":
        return text.replace("+00:00", "Z").replace(" ", "T")
    return f"'{text}" if name == "memo" and text.startswith(_FORMULA_SIGNS) else text


_TRANSFER: Final = {"amount": "50.00", "currency": "USD"}
_SENDING: Final = (
    "INSUFFICIENT_FUNDS",
    "CURRENCY_NOT_FUNDED",
    "AMOUNT_OUT_OF_RANGE",
    "PARTY_SUSPENDED",
    "PARTY_IN_DEBT",
)

WALLET_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="GET",
        path="/v1/wallet",
        name="show_wallet",
        tag="wallet",
        summary="Show one's balances",
        carry=lambda c: services.show_wallet(c.exchange, c.actor),
        answer=wire.Wallet,
        scopes=(Scope.READ,),
    ),
    Operation(
        method="GET",
        path="/v1/wallet/statement",
        name="list_statement",
        tag="wallet",
        summary="List what moved one's balances, newest first",
        description=(
            "As JSON, or as CSV with `Accept: text/csv` or `format=csv`; then the header Link leads to the next page."
        ),
        carry=_show_statement,
        answer=wire.StatementPage,
        scopes=(Scope.READ,),
        query=StatementQuery,
        media=(JSON_MEDIA, CSV_MEDIA),
    ),
    Operation(
        method="GET",
        path="/v1/wallet/transfers",
        name="list_transfers",
        tag="wallet",
        summary="List refunds and payouts, newest first",
        carry=lambda c: services.list_transfers(c.exchange, c.actor, limit=c.query.limit, cursor=c.query.cursor),
        answer=wire.TransferPage,
        scopes=(Scope.READ,),
        query=PageQuery,
    ),
    Operation(
        method="POST",
        path="/v1/wallet/top-ups",
        name="top_up",
        tag="wallet",
        summary="Add funds",
        description="Where no payment provider is set up, only a sandbox takes it.",
        carry=lambda c: services.top_up(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        answer=wire.Transfer,
        status=201,
        scopes=(Scope.FUND,),
        body=wire.TopUpRequest,
        example=_TRANSFER,
        is_command=True,
        problems=("TOP_UPS_UNAVAILABLE", "AMOUNT_OUT_OF_RANGE", "LIMIT_REACHED"),
    ),
    Operation(
        method="POST",
        path="/v1/wallet/refunds",
        name="request_refund",
        tag="wallet",
        summary="Take unused balance out",
        carry=lambda c: services.request_refund(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        answer=wire.Transfer,
        status=201,
        scopes=(Scope.FUND,),
        body=wire.TransferRequest,
        example=_TRANSFER,
        is_command=True,
        problems=_SENDING,
    ),
    Operation(
        method="POST",
        path="/v1/wallet/payouts",
        name="request_payout",
        tag="wallet",
        summary="Have earnings paid out",
        carry=lambda c: services.request_payout(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        answer=wire.Transfer,
        status=201,
        scopes=(Scope.FUND,),
        body=wire.TransferRequest,
        example=_TRANSFER,
        is_command=True,
        problems=_SENDING,
    ),
    Operation(
        method="GET",
        path="/v1/whoami",
        name="whoami",
        tag="keys",
        summary="Show whom the key acts for, and what it may do",
        carry=lambda c: services.whoami(c.exchange, c.actor),
        answer=wire.Identity,
        scopes=tuple(Scope),
    ),
    Operation(
        method="GET",
        path="/v1/keys",
        name="list_keys",
        tag="keys",
        summary="List the keys of one's party",
        carry=lambda c: services.list_keys(c.exchange, c.actor, limit=c.query.limit, cursor=c.query.cursor),
        answer=wire.KeyPage,
        scopes=(Scope.ADMIN,),
        query=PageQuery,
    ),
    Operation(
        method="POST",
        path="/v1/keys",
        name="create_key",
        tag="keys",
        summary="Make a key",
        description="Its secret is in this answer and nowhere else.",
        carry=lambda c: services.create_key(c.exchange, c.actor, c.body),
        answer=wire.NewKey,
        status=201,
        scopes=(Scope.ADMIN,),
        body=wire.KeyRequest,
        example={"name": "trading bot", "scopes": ["read", "trade"], "daily_cap": "200"},
        problems=("LIMIT_REACHED",),
    ),
    Operation(
        method="DELETE",
        path="/v1/keys/{key}",
        name="revoke_key",
        tag="keys",
        summary="Revoke a key, at once and for good",
        carry=lambda c: services.revoke_key(c.exchange, c.actor, c.path["key"]),
        answer=wire.Key,
        scopes=(Scope.ADMIN,),
    ),
)
