"""The ledger for other programs: beancount, JSON Lines or CSV, read from the entries and postings of the database.

Amounts are decimals with six places, debits positive. The beancount file opens every account, holds every entry with
its postings, and asserts every balance at its end, so `bean-check` recomputes the ledger by itself.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import psycopg

from bursa.errors import InputError
from bursa.money import MICROS_PER_UNIT

Form = Literal["beancount", "jsonl", "csv"]
FORMS: Final = ("beancount", "jsonl", "csv")
#: Rows that are fetched at a time.
FETCH_ROWS: Final = 5_000

#: What kind of account beancount takes each of ours for, by the part before the colon or dot.
_ROOTS: Final = {
    "psp_clearing": "Assets", "bank": "Assets", "customer_receivable": "Assets", "seller_receivable": "Assets",
    "input_vat": "Assets", "fx_position": "Equity", "suspense": "Liabilities", "revenue": "Income",
    "rounding": "Income",
    "cost": "Expenses", "fx_gain_loss": "Income",
}  # fmt: skip
Connection = psycopg.Connection[tuple[Any, ...]]


class _Line(NamedTuple):
    """One posting with its entry."""

    entry_id: int
    seq: int
    kind: str
    at_ns: int
    party_id: int
    order_id: int
    rental_id: int
    memo: str
    line: int
    currency: str
    account: str
    debit_micros: int
    credit_micros: int


def export(dsn: str, form: str, out: BinaryIO) -> int:
    """Write all entries in one of FORMS; return how many there were. InputError for another form."""
    if form not in FORMS:
        raise InputError("format", form, f"one of {', '.join(FORMS)}")
    write = {"beancount": _write_beancount, "jsonl": _write_jsonl, "csv": _write_csv}[form]
    with psycopg.connect(dsn, application_name="bursa-export") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        count = write(connection, out)
        connection.rollback()
    return count


def beancount_account(account: str) -> str:
    """Return the name of a ledger account in beancount: wallet:3 is Liabilities:Wallet:N3."""
    parts = account.replace(":", ".").split(".")
    root = _ROOTS.get(parts[0], "Liabilities")
    return ":".join([root, *(_component(part) for part in parts)])


def _component(part: str) -> str:
    """Return a component: letters, digits and dashes, beginning with a capital; N before a number."""
    text = "-".join(word.capitalize() for word in "".join(c if c.isalnum() else " " for c in part).split()) or "None"
    return text if text[0].isalpha() and text[0].isascii() else f"N{text}"


def _entries(connection: Connection) -> Iterator[list[_Line]]:
    """Yield the lines of each entry, in the order of entries."""
    with connection.cursor(name="bursa_export") as cursor:
        cursor.itersize = FETCH_ROWS
        cursor.execute(_LINES_SQL)
        lines = (_Line(*row) for row in cursor)
        for _, group in groupby(lines, key=itemgetter(0)):
            yield list(group)


def _write_beancount(connection: Connection, out: BinaryIO) -> int:
    accounts = connection.execute(_ACCOUNTS_SQL).fetchall()
    out.write(b'option "title" "bursa"\n')
    for account, first_ns, currencies, _ in _grouped(accounts):
        line = f"{_day(first_ns)} open {beancount_account(account)} {','.join(currencies)}\n"
        out.write(line.encode())
    count = 0
    last_ns = 0
    for lines in _entries(connection):
        head = lines[0]
        last_ns = max(last_ns, head.at_ns)
        narration = f"{head.kind} {head.memo}".strip().replace("\\", "/").replace('"', "'")
        text = [f'{_day(head.at_ns)} * "{narration}"', f"  entry: {head.entry_id}", f"  seq: {head.seq}"]
        text += [
            f"  {name}: {value}"
            for name, value in (("party", head.party_id), ("order", head.order_id), ("rental", head.rental_id))
            if value
        ]
        text += [
            f"  {beancount_account(line.account)}  {_decimal(line.debit_micros - line.credit_micros)} {line.currency}"
            for line in lines
        ]
        out.write(("\n" + "\n".join(text) + "\n").encode())
        count += 1
    day = (datetime.fromtimestamp(last_ns // 10**9, UTC) + timedelta(days=1)).date()
    for account, _, _, balances in _grouped(accounts):
        for currency, micros in balances:
            line = f"{day} balance {beancount_account(account)}  {_decimal(micros)} {currency}\n"
            out.write(line.encode())
    return count


def _grouped(rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, int, list[str], list[tuple[str, int]]]]:
    """Yield (account, time of its first posting, currencies, balances) from rows that are sorted by account."""
    for account, group in groupby(rows, key=itemgetter(0)):
        lines = list(group)
        currencies = [currency for _, currency, _, _ in lines]
        balances = [(currency, int(micros)) for _, currency, _, micros in lines]
        yield account, min(first_ns for _, _, first_ns, _ in lines), currencies, balances


def _write_jsonl(connection: Connection, out: BinaryIO) -> int:
    count = 0
    for lines in _entries(connection):
        head = lines[0]
        entry = {
            "entry": head.entry_id,
            "seq": head.seq,
            "kind": head.kind,
            "at": _time(head.at_ns),
            "party": head.party_id,
            "order": head.order_id,
            "rental": head.rental_id,
            "memo": head.memo,
            "postings": [
                {
                    "account": line.account,
                    "currency": line.currency,
                    "debit": _decimal(line.debit_micros),
                    "credit": _decimal(line.credit_micros),
                }
                for line in lines
            ],
        }
        out.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        count += 1
    return count


def _write_csv(connection: Connection, out: BinaryIO) -> int:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(
        [
            "entry",
            "seq",
            "kind",
            "at",
            "party",
            "order",
            "rental",
            "memo",
            "line",
            "account",
            "currency",
            "debit",
            "credit",
        ]
    )
    count = 0
    for lines in _entries(connection):
        for line in lines:
            writer.writerow([
                line.entry_id, line.seq, line.kind, _time(line.at_ns), line.party_id, line.order_id, line.rental_id,
                line.memo, line.line, line.account, line.currency, _decimal(line.debit_micros),
                _decimal(line.credit_micros),
            ])  # fmt: skip
        count += 1
    text.detach()
    return count


def _decimal(micros: int) -> str:
    sign = "-" if micros < 0 else ""
    units, rest = divmod(abs(micros), MICROS_PER_UNIT)
    return f"{sign}{units}.{rest:06d}"


def _day(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).date().isoformat()


def _time(at_ns: int) -> str:
    seconds, rest = divmod(at_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


_LINES_SQL: Final = (
    "SELECT e.entry_id, e.seq, e.kind, e.at_ns, e.party_id, e.order_id, e.rental_id, e.memo,"
    " p.line, p.currency, p.account, p.debit_micros, p.credit_micros"
    " FROM bursa.entries AS e JOIN bursa.postings AS p USING (entry_id) ORDER BY e.entry_id, p.line"
)
_ACCOUNTS_SQL: Final = (
    "SELECT p.account, p.currency, min(e.at_ns), sum(p.debit_micros - p.credit_micros)"
    " FROM bursa.entries AS e JOIN bursa.postings AS p USING (entry_id)"
    " GROUP BY p.account, p.currency ORDER BY p.account, p.currency"
)
