"""Ids outside: a prefix that says what the number counts (`ord_17`); integers inside."""

from __future__ import annotations

from typing import Final

from bursa.errors import InputError

#: Prefix of each kind of id.
PREFIXES: Final = {
    "order": "ord",
    "rental": "rnt",
    "trade": "trd",
    "host": "hst",
    "party": "pty",
    "key": "key",
    "transfer": "tfr",
    "entry": "ent",
}
#: Longest number in an id, in digits: a PostgreSQL bigint.
DIGITS_MAX: Final = 18


def show_id(kind: str, number: int) -> str:
    """Return the outside form of an id: order 17 is "ord_17"."""
    return f"{PREFIXES[kind]}_{number}"


def parse_id(kind: str, text: str, field: str = "id") -> int:
    """Return the number of an id of this kind; InputError when the text is not one."""
    prefix = PREFIXES[kind]
    head, _, digits = text.partition("_")
    # isascii: other digits than 0-9 are decimal too, and int() would take them.
    if head != prefix or not digits.isascii() or not digits.isdecimal() or len(digits) > DIGITS_MAX or digits[0] == "0":
        raise InputError(field, text, f"an id like {prefix}_17")
    return int(digits)
