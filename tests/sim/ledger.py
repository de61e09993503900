"""The simulator's own ledger: balances folded from JournalEntry events and nothing else.

It proves what the engine says about money without looking at how the engine computes it: every entry balances per
currency, no owed balance falls below zero, each charge splits what the renter paid into seller, fee and VAT.
"""

from collections.abc import Callable
from typing import Final

from bursa.market import EntryKind, JournalEntry

OWED: Final = (
    "wallet:",
    "hold:",
    "held:",
    "seller_pending:",
    "seller_available:",
    "payout_in_transit:",
    "refund_in_transit:",
)


class LedgerMirror:
    """Balances by currency and account (credit minus debit), VAT not yet invoiced by party, and faults found."""

    def __init__(self, fault: Callable[[str], None]) -> None:
        self.fault = fault
        self.balances: dict[str, dict[str, int]] = {"EUR": {}, "USD": {}, "GBP": {}}
        self.last_entry = 0
        self.last_at_ns = 0
        self.entries = 0
        #: (party, currency, country) → VAT accrued since the last invoice.
        self.accrued: dict[tuple[int, str, str], int] = {}

    def balance(self, account: str, currency: str) -> int:
        return self.balances[currency].get(account, 0)

    def fold(self, entry: JournalEntry) -> None:
        """Apply one entry and check it."""
        self.entries += 1
        if entry.entry_id != self.last_entry + 1:
            self.fault(f"entry {entry.entry_id} follows {self.last_entry}")
        if entry.at_ns < self.last_at_ns:
            self.fault(f"entry {entry.entry_id}: time fell")
        self.last_entry = entry.entry_id
        self.last_at_ns = entry.at_ns
        sums: dict[str, int] = {}
        below: list[tuple[str, str]] = []
        for posting in entry.postings:
            currency, account, amount = posting.currency, posting.account, posting.credit_micros - posting.debit_micros
            if (
                posting.credit_micros < 0
                or posting.debit_micros < 0
                or (amount != posting.credit_micros) != (amount < 0)
            ):
                self.fault(f"entry {entry.entry_id}: not one positive side in {posting}")
            sums[currency] = sums.get(currency, 0) + amount
            accounts = self.balances[currency]
            balance = accounts.get(account, 0) + amount
            if balance:
                accounts[account] = balance
                if balance < 0 and account.startswith(OWED):
                    below.append((currency, account))
            else:
                accounts.pop(account, None)
        for currency, account in below:
            if self.balance(account, currency) < 0:
                self.fault(f"entry {entry.entry_id} {entry.kind}: {account} fell below zero")
        if any(sums.values()):
            self.fault(f"entry {entry.entry_id} {entry.kind}: unbalanced {sums}")
        self._follow(entry)

    def _follow(self, entry: JournalEntry) -> None:
        kind = entry.kind
        if kind is EntryKind.HOURS_CHARGED or kind is EntryKind.HOURS_REVERSED:
            self._check_split(entry)
            self._accrue(entry)
        elif kind is EntryKind.INVOICE:
            self._accrue(entry)

    def _check_split(self, entry: JournalEntry) -> None:
        """In US$ the net price is seller's share plus fee; in the wallet's currency, held pays net, margin and VAT."""
        totals: dict[str, int] = {}
        for posting in entry.postings:
            name = posting.account.partition(":")[0]
            totals[name] = totals.get(name, 0) + posting.credit_micros - posting.debit_micros
        passthrough = totals.get("revenue.passthrough", 0)
        if passthrough + totals.get("cost.gpu_hours", 0) or passthrough != totals.get("seller_pending", 0) + totals.get(
            "seller_available", 0
        ):
            self.fault(f"entry {entry.entry_id}: seller's share is not passed through: {totals}")
        paid = -totals.get("held", 0) - totals.get("wallet", 0)
        is_usd = all(posting.currency == "USD" for posting in entry.postings)
        parts = passthrough + totals.get("revenue.platform_fee", 0) + totals.get("vat_accrued", 0)
        if is_usd and paid != parts:
            self.fault(f"entry {entry.entry_id}: paid {paid}, but seller, fee and VAT make {parts}")

    def _accrue(self, entry: JournalEntry) -> None:
        for posting in entry.postings:
            if posting.account.startswith("vat_accrued:"):
                key = (entry.party_id, posting.currency, posting.account.partition(":")[2])
                micros = self.accrued.pop(key, 0) + posting.credit_micros - posting.debit_micros
                if micros:
                    self.accrued[key] = micros

    def compare(self, balances: dict[str, dict[str, int]]) -> None:
        """Compare with the engine's balances, account by account."""
        for currency, mine in self.balances.items():
            theirs = balances.get(currency, {})
            if mine == theirs:
                continue
            differing = [name for name in sorted({*mine, *theirs}) if mine.get(name, 0) != theirs.get(name, 0)]
            for name in differing[:5]:
                self.fault(f"{currency} {name}: engine has {theirs.get(name, 0)}, its entries make {mine.get(name, 0)}")
        for currency, mine in self.balances.items():
            if sum(mine.values()):
                self.fault(f"{currency}: accounts sum to {sum(mine.values())}")
