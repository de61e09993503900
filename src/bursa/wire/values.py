"""Values that cross the border of the process: decimal strings for money, UTC datetimes for time.

A price is US$ per GPU-hour excluding tax; an amount names its currency. Neither is ever a float.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from bursa.errors import InputError
from bursa.money import MICROS_PER_UNIT, Currency

#: A non-negative decimal with at most six places, as text.
DECIMAL_PATTERN: Final = r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?$"
#: The same with a sign.
SIGNED_PATTERN: Final = r"^-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,6})?$"
#: Latest time that a command may name, in nanoseconds since the epoch: in the year 2116.
TIME_NS_MAX: Final = 2**62
_PLACES: Final = 6
_DECIMAL: Final = re.compile(SIGNED_PATTERN)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS: Final = 10**9
_NS_PER_MICROSECOND: Final = 1_000

Price = Annotated[
    str,
    Meta(
        pattern=DECIMAL_PATTERN, description="US$ per GPU-hour, excluding tax, as a decimal string", examples=["2.88"]
    ),
]
Decimal6 = Annotated[
    str,
    Meta(pattern=SIGNED_PATTERN, description="A decimal string with at most six places", examples=["14.28"]),
]


class Amount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An amount of one currency."""

    amount: Decimal6
    currency: Currency


def show_micros(micros: int) -> str:
    """Return micro-units as the shortest decimal string with at least two places: 14280000 is "14.28"."""
    sign = "-" if micros < 0 else ""
    units, rest = divmod(abs(micros), MICROS_PER_UNIT)
    places = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}{units}.{places}"


def parse_micros(text: str, field: str) -> int:
    """Return the micro-units of a decimal string; InputError naming the field when it is not one."""
    if not _DECIMAL.fullmatch(text):
        raise InputError(field, text, 'a decimal string with at most six places, like "2.88"')
    units, _, places = text.removeprefix("-").partition(".")
    micros = int(units) * MICROS_PER_UNIT + int(places.ljust(_PLACES, "0") if places else 0)
    return -micros if text[:1] == "-" else micros


def show_amount(micros: int, currency: Currency) -> Amount:
    """Return micro-units as an amount."""
    return Amount(show_micros(micros), currency)


def show_time(at_ns: int) -> datetime | None:
    """Return a time in nanoseconds since the epoch as a UTC datetime, to the microsecond; None for 0 (never)."""
    if not at_ns:
        return None
    return _EPOCH + timedelta(microseconds=at_ns // _NS_PER_MICROSECOND)


def parse_time(at: datetime, field: str) -> int:
    """Return a datetime as nanoseconds since the epoch; InputError without a zone, or not from 1970 to 2116."""
    if at.tzinfo is None:
        raise InputError(field, at.isoformat(), "an RFC 3339 time with its offset, like 2026-12-01T12:00:00Z")
    delta = at - _EPOCH
    at_ns = (delta.days * 86_400 + delta.seconds) * _NS + delta.microseconds * _NS_PER_MICROSECOND
    if not 0 <= at_ns <= TIME_NS_MAX:
        raise InputError(field, at.isoformat(), "a time from 1970 to 2116")
    return at_ns
