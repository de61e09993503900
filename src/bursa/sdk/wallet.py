"""Calls about funds: balances, statement, top-ups, refunds, payouts.

In the examples, ``client`` is a `Client` of a renter.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from bursa.money import Currency
from bursa.sdk.call import Call, change, read
from bursa.wire import StatementPage, TopUpRequest, Transfer, TransferPage, TransferRequest, Wallet

_STATEMENT = "/v1/wallet/statement"


def show_wallet() -> Call[Wallet]:
    """Return all balances, what runs per hour, and how many hours that leaves.

    >>> [balance.currency.value for balance in client.show_wallet().balances]
    ['USD']
    """
    return read("/v1/wallet", Wallet)


def list_statement(
    *,
    currency: Currency | None = None,
    account: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[StatementPage]:
    """Return a page of the statement, newest first; `iterate_statement` gives all its lines.

    >>> newest = client.list_statement(currency=Currency.USD, account="wallet", limit=1).items[0]
    >>> newest.currency.value
    'USD'
    """
    return read(
        _STATEMENT,
        StatementPage,
        currency=currency,
        account=account,
        from_=start,
        to=end,
        limit=limit,
        cursor=cursor,
    )


def statement_csv(
    *,
    currency: Currency | None = None,
    account: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[str]:
    """Return a page of the statement as CSV text, its first line the names of the columns.

    >>> client.statement_csv().partition(",")[0]
    'entry'
    """
    call = read(_STATEMENT, str, currency=currency, account=account, from_=start, to=end, limit=limit, cursor=cursor)
    return replace(call, accept="text/csv")


def top_up(request: TopUpRequest, *, idempotency_key: str | None = None) -> Call[Transfer]:
    """Add funds: on a sandbox at once and for nothing, else ApiError TOP_UPS_UNAVAILABLE says what to do.

    >>> client.top_up(TopUpRequest(amount="25.00", currency=Currency.USD)).amount.amount
    '25.00'
    """
    return change("POST", "/v1/wallet/top-ups", Transfer, request, idempotency_key)


def request_refund(request: TransferRequest, *, idempotency_key: str | None = None) -> Call[Transfer]:
    """Ask for unused balance back.

    >>> client.request_refund(TransferRequest(amount="5.00", currency=Currency.USD)).kind
    'REFUND'
    """
    return change("POST", "/v1/wallet/refunds", Transfer, request, idempotency_key)


def request_payout(request: TransferRequest, *, idempotency_key: str | None = None) -> Call[Transfer]:
    """Ask for earnings to be paid out, as a seller; they can be once they are payable.

    >>> client.request_payout(TransferRequest(amount="20.00", currency=Currency.USD))
    Traceback (most recent call last):
    bursa.errors.ApiError: ...
    """
    return change("POST", "/v1/wallet/payouts", Transfer, request, idempotency_key)


def list_transfers(*, limit: int | None = None, cursor: str | None = None) -> Call[TransferPage]:
    """Return a page of refunds and payouts, newest first; `iterate_transfers` gives them all.

    >>> {transfer.kind for transfer in client.list_transfers().items} <= {"TOP_UP", "REFUND", "PAYOUT"}
    True
    """
    return read("/v1/wallet/transfers", TransferPage, limit=limit, cursor=cursor)
