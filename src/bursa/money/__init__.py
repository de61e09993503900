"""Money: what an amount is, how it is rounded, how it is written and read.

Role: the lowest room. Pure functions and values: no I/O, no clock, no float, no logging.
- `rounding`: the one rounding function and the named directed ones, tax, fee, FX, splits; plain integers.
- `amount`: Currency and Money, for everything off the hot path.
- `edge`: formatting and strict parsing by the number rules of nine languages.

Invariants: inside, an amount is an int of micro-units (10**-6 of its currency) that fits a PostgreSQL bigint; every
function that rounds says which way in its name; whatever rounding cuts off is handed back, never dropped.
Source of every rule: docs/explain/ledger.md ("money rules").
"""

from bursa.money.amount import Currency, Money, parse_currency
from bursa.money.edge import (
    AMOUNT_CHARS_MAX,
    LOCALES,
    NUMBER_DIGITS_MAX,
    Places,
    format_balance,
    format_money,
    format_number,
    parse_amount,
)
from bursa.money.rounding import (
    BPS_PER_ONE,
    MICRO_DIGITS,
    MICROS_MAX,
    MICROS_PER_CENT,
    MICROS_PER_UNIT,
    PARTS_MAX,
    PPM_PER_ONE,
    allocate_micros,
    check_micros,
    convert_half_even,
    customer_rate,
    fee_micros,
    round_down,
    round_half_even,
    round_half_up,
    round_up,
    split_micros,
    tax_micros,
    to_wallet_up,
)

__all__ = [
    "AMOUNT_CHARS_MAX",
    "BPS_PER_ONE",
    "LOCALES",
    "MICROS_MAX",
    "MICROS_PER_CENT",
    "MICROS_PER_UNIT",
    "MICRO_DIGITS",
    "NUMBER_DIGITS_MAX",
    "PARTS_MAX",
    "PPM_PER_ONE",
    "Currency",
    "Money",
    "Places",
    "allocate_micros",
    "check_micros",
    "convert_half_even",
    "customer_rate",
    "fee_micros",
    "format_balance",
    "format_money",
    "format_number",
    "parse_amount",
    "parse_currency",
    "round_down",
    "round_half_even",
    "round_half_up",
    "round_up",
    "split_micros",
    "tax_micros",
    "to_wallet_up",
]
