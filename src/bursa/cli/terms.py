"""Terms of an order from the text of flags: prices, times, filters. What is not exactly right is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from bursa.cli.options import Filters
from bursa.errors import InputError
from bursa.money import Currency
from bursa.wire import Amount, FilterSet, KeyRequest, Scope, parse_micros, show_micros

#: Smallest step of a price, in micro-US$ (the market's own tick, unless its operator set another).
TICK_MICROS: Final = 1_000
_SPAN: Final = re.compile(r"\+?([1-9][0-9]{0,4})(m|h|d)")
_PERCENT: Final = re.compile(r"[0-9]{1,2}(\.[0-9]{1,4})?")
_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def read_price(text: str, flag: str, *, is_zero_allowed: bool = False) -> str:
    """Return a price or amount in the API's form; InputError naming the flag when it is none."""
    micros = parse_micros(text, flag)
    if micros < 0 or (micros == 0 and not is_zero_allowed):
        raise InputError(flag, text, 'more than 0, like "2.88"')
    return show_micros(micros)


def read_time(text: str, flag: str, now: datetime | None = None) -> datetime:
    """Return a time from RFC 3339 text or a span from now such as 90m, 6h or 2d; InputError naming the flag."""
    if match := _SPAN.fullmatch(text):
        return ((now or datetime.now(UTC)) + int(match[1]) * _UNITS[match[2]]).replace(microsecond=0)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InputError(
            flag, text, "a time with its offset like 2026-12-01T12:00Z, or a span from now like 90m, 6h, 2d"
        )
    return at.astimezone(UTC)


def read_past(text: str | None, flag: str, now: datetime | None = None) -> datetime | None:
    """Return the start of a UTC day from YYYY-MM-DD, a time from RFC 3339 text, or that of a span ago; None for None.

    InputError naming the flag when it is none of them.
    """
    if text is None:
        return None
    if match := _SPAN.fullmatch(text):
        return ((now or datetime.now(UTC)) - int(match[1]) * _UNITS[match[2]]).replace(microsecond=0)
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return read_time(text, flag)
    except InputError:
        expected = "a UTC day like 2026-12-01, a time like 2026-12-01T12:00Z, or a span back from now like 90m, 6h, 2d"
        raise InputError(flag, text, expected) from None


def read_percent(text: str, flag: str) -> str:
    """Return a VAT rate in the API's form; InputError naming the flag when it is none."""
    if not _PERCENT.fullmatch(text):
        raise InputError(flag, text, "a percentage from 0 to 99.9999")
    return text


def build_filters(filters: Filters) -> FilterSet:
    """Return what a bid asks of hosts, from its flags."""
    return FilterSet(
        regions=[region.upper() for region in filters.region],
        verified_only=filters.verified,
        reliability_min=filters.reliability_min,
        ram_gib_min=filters.ram_gib,
        disk_gib_min=filters.disk_gib,
        vcpus_min=filters.vcpus,
        avoid_hosts=list(filters.avoid_host),
    )


def limit_within(cost_micros: int, hold: Amount, probe_micros: int, *prices_max: int) -> int:
    """Return the highest price on a tick at which a bid holds at most ``cost_micros``; 0 where there is none.

    ``hold`` is what the quote says would be held at a limit of ``probe_micros``, tax and currency included; a hold
    grows in proportion to the limit. ``prices_max`` are further bounds. All are micro-units.
    """
    held_micros = parse_micros(hold.amount, "hold")
    assert held_micros > 0, "a bid above zero holds something"
    limit_micros = min(cost_micros * probe_micros // held_micros, *prices_max)
    return limit_micros - limit_micros % TICK_MICROS


def read_currency(text: str) -> Currency:
    """Return a currency from its ISO 4217 code in any case."""
    try:
        return Currency(text.upper())
    except ValueError:
        raise InputError("--currency", text, f"one of {', '.join(currency.value for currency in Currency)}") from None


def read_key_request(name: str, scopes: Iterable[str], daily_cap: str | None, until: str | None) -> KeyRequest:
    """Return the request for a key from its flags."""
    return KeyRequest(
        name=name,
        scopes=[Scope(scope) for scope in dict.fromkeys(scopes)],
        daily_cap=None if daily_cap is None else read_price(daily_cap, "--daily-cap"),
        expires_at=None if until is None else read_time(until, "--until"),
    )
