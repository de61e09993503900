"""Shapes of the wallet: balances, statement, top-ups, refunds, payouts."""

from __future__ import annotations

from datetime import datetime

import msgspec

from bursa.market import EntryKind
from bursa.money import Currency
from bursa.wire.values import Amount, Decimal6, Price


class Balance(msgspec.Struct, frozen=True):
    """One currency of a wallet. ``pending`` and ``payable`` are a seller's earnings; ``debt`` is owed by the party."""

    currency: Currency
    available: Decimal6
    held: Decimal6
    pending: Decimal6
    payable: Decimal6
    debt: Decimal6


class Wallet(msgspec.Struct, frozen=True):
    """All balances of a party, and the hours that today's burn leaves (None when nothing runs)."""

    party: str
    balances: list[Balance]
    burn_per_hour: list[Amount]
    hours_left: int | None
    is_sandbox: bool
    seq: int


class StatementLine(msgspec.Struct, frozen=True):
    """One posting on a party's ledger accounts. ``change`` is what it did to the balance named by ``account``."""

    entry: str
    at: datetime
    kind: EntryKind
    account: str
    change: Decimal6
    currency: Currency
    balance: Decimal6
    order: str | None
    rental: str | None
    memo: str
    seq: int


class StatementPage(msgspec.Struct, frozen=True):
    """A page of a statement, newest first."""

    items: list[StatementLine]
    next: str | None


class TopUpRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Add funds, whole cents."""

    amount: Price
    currency: Currency


class TransferRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Take funds out: a refund of unused balance or a payout of earnings, whole cents."""

    amount: Price
    currency: Currency


class Transfer(msgspec.Struct, frozen=True):
    """Funds that came in or go out. ``kind`` is TOP_UP, REFUND or PAYOUT; ``state`` SENT, SETTLED or RETURNED."""

    id: str
    kind: str
    state: str
    amount: Amount
    at: datetime
    seq: int


class TransferPage(msgspec.Struct, frozen=True):
    """A page of refunds and payouts, newest first."""

    items: list[Transfer]
    next: str | None
