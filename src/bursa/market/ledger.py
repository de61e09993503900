"""The double-entry ledger: balances of ledger accounts, changed by balanced journal entries alone.

One sub-ledger per currency. A balance is credit minus debit in micro-units, so what is owed to others
(wallets, holds, sellers' earnings, VAT) is positive and what is owned (bank, receivables, costs) negative,
and each sub-ledger sums to zero. Accounts that must not go below zero are checked at each posting.

Chart of accounts (docs/explain/ledger.md): psp_clearing:{provider} 1000, bank 1010,
customer_receivable:{party} 1100, fx_position 1900, wallet:{party} 2000, hold:{order} 2010,
held:{rental} 2020, seller_pending:{party} 2200, seller_available:{party} 2210,
payout_in_transit:{party} 2220, vat_accrued:{country} 2300, vat_payable:{country}:{scheme} 2310,
refund_in_transit:{party} 2400, suspense 2900, revenue.passthrough 4000, revenue.platform_fee 4100,
revenue.fx_margin 4200, rounding 4900, cost.gpu_hours 5000, cost.* 51xx-5300, fx_gain_loss 6000.
"""

from __future__ import annotations

from typing import Final

from bursa.market.types import INT_MAX, Posting
from bursa.money import Currency

#: Kinds of account whose credit balance never goes below zero.
LIABILITIES: Final = frozenset({
    "wallet", "hold", "held", "frozen", "seller_pending", "seller_available", "payout_in_transit", "refund_in_transit",
})  # fmt: skip
#: Kinds of account whose debit balance never goes below zero: what others owe us.
RECEIVABLES: Final = frozenset({"customer_receivable", "seller_receivable"})
assert {kind[0] for kind in RECEIVABLES} == {"c", "s"}, RECEIVABLES
#: Accounts that an operator's own entry may touch.
OPERATOR_ACCOUNTS: Final = frozenset({
    "psp_clearing", "bank", "input_vat", "fx_position", "seller_available", "seller_receivable", "vat_payable",
    "suspense", "revenue.fx_margin", "rounding", "cost.psp_fees", "cost.dispute_fees", "cost.payout_fees",
    "cost.chargeback_loss", "cost.goodwill", "fx_gain_loss",
})  # fmt: skip


def kind_of(account: str) -> str:
    """Return the kind of a ledger account: what stands before the first colon."""
    return account.partition(":")[0]


class Ledger:
    """Balances per currency and account; an account with balance zero is forgotten."""

    __slots__ = ("balances",)

    def __init__(self) -> None:
        self.balances: dict[str, dict[str, int]] = {currency.value: {} for currency in Currency}

    def balance(self, currency: str, account: str) -> int:
        """Return credit minus debit in micro-units; 0 for an account never used."""
        return self.balances[currency].get(account, 0)

    def post(self, postings: tuple[Posting, ...]) -> None:
        """Apply one balanced entry. An unbalanced one, or one that overdraws, is a bug: it fails an assertion."""
        total = 0
        currency = postings[0].currency
        accounts = self.balances[currency]
        for posting in postings:
            if posting.currency != currency:
                assert total == 0, f"unbalanced in {currency}: {postings}"
                currency = posting.currency
                accounts = self.balances[currency]
            amount = posting.credit_micros - posting.debit_micros
            total += amount
            account = posting.account
            balance = accounts.get(account, 0) + amount
            if balance > 0:
                if account[0] in "cs":  # only these letters begin the kinds in RECEIVABLES; most accounts are spared
                    assert kind_of(account) not in RECEIVABLES, f"{account} owes {balance}: {postings}"
                accounts[account] = balance
            elif balance < 0:
                assert kind_of(account) not in LIABILITIES, f"{account} below zero by {balance}: {postings}"
                accounts[account] = balance
            else:
                accounts.pop(account, None)
            assert -INT_MAX <= balance <= INT_MAX, f"{account} beyond 64 bits"
        assert total == 0, f"unbalanced in {currency}: {postings}"


def debit(currency: str, account: str, micros: int) -> Posting:
    """Return a debit of a positive amount."""
    assert micros > 0, (account, micros)
    return Posting(currency, account, micros, 0)


def credit(currency: str, account: str, micros: int) -> Posting:
    """Return a credit of a positive amount."""
    assert micros > 0, (account, micros)
    return Posting(currency, account, 0, micros)
