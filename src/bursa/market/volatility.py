"""Reference price and volatility: what recent trades say, in a bounded number of buckets.

The reference is the volume-weighted price of 24 hours, kept per minute; else the last auction's; else the
operator's. The halt looks at the last ten minutes in buckets of ten seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from bursa.market.fitting import is_linked
from bursa.market.state import Book, Party
from bursa.market.types import MINUTE_NS, SECOND_NS
from bursa.money import round_half_even

_MINUTES_MAX: Final = 24 * 60
_BUCKET_NS: Final = 10 * SECOND_NS
#: Parties remembered per bucket, many more than any rule needs; where they start in it.
_OWNERS_MAX: Final = 64
_OWNERS_AT: Final = 3
#: Buckets remembered: the longest window that the rules allow, one hour.
_BUCKETS_MAX: Final = 6 * 60


def record_trade(
    book: Book, owners: tuple[Party, Party], gpu_hours: int, price_micros: int, at_ns: int, move_percent: int
) -> bool:
    """Count one trade into the 24-hour price and the halt's window; return whether the halt must be looked at."""
    minute = at_ns // MINUTE_NS
    if not book.minutes or book.minutes[-1][0] != minute:
        book.minutes.append([minute, 0, 0])
        drop_old_minutes(book, at_ns)
    _add_volume(book, book.minutes[-1], price_micros * gpu_hours, gpu_hours)
    book.last_micros = price_micros
    _record_window(book, at_ns // _BUCKET_NS, price_micros, owners)
    return _is_far(price_micros, book.window_low, book.window_high, move_percent)


def _add_volume(book: Book, bucket: list[int], value: int, gpu_hours: int) -> None:
    bucket[1] += value
    bucket[2] += gpu_hours
    book.minutes_value += value
    book.minutes_gpu_hours += gpu_hours
    assert bucket[1] >= 0, bucket
    assert bucket[2] >= 0, bucket


def forget_trade(book: Book, gpu_hours: int, price_micros: int, traded_at_ns: int) -> None:
    """Take a trade whose rental never started out of the 24-hour price: it cost nobody anything."""
    minute = traded_at_ns // MINUTE_NS
    at = bisect_left(book.minutes, minute, key=lambda bucket: bucket[0])
    if at < len(book.minutes) and book.minutes[at][0] == minute:
        _add_volume(book, book.minutes[at], -price_micros * gpu_hours, -gpu_hours)


def _record_window(book: Book, bucket: int, price_micros: int, owners: tuple[Party, Party]) -> None:
    window = book.window
    if not window:
        book.window_low = book.window_high = price_micros
    elif price_micros < book.window_low:
        book.window_low = price_micros
    elif price_micros > book.window_high:
        book.window_high = price_micros
    if not window or window[-1][0] != bucket:
        window.append([bucket, price_micros, price_micros])
        if len(window) > _BUCKETS_MAX:
            del window[0]
    last = window[-1]
    last[1] = min(last[1], price_micros)
    last[2] = max(last[2], price_micros)
    for owner in owners:
        if len(last) < _OWNERS_AT + _OWNERS_MAX and owner.party_id not in last[_OWNERS_AT:]:
            last.append(owner.party_id)


def _is_far(price_micros: int, low: int, high: int, move_percent: int) -> bool:
    """Return whether a price lies more than ``move_percent`` above the lowest or below the highest."""
    return price_micros * 100 > low * (100 + move_percent) or price_micros * 100 < high * (100 - move_percent)


def drop_old_minutes(book: Book, at_ns: int) -> None:
    """Forget trades older than 24 hours."""
    oldest = at_ns // MINUTE_NS - _MINUTES_MAX
    old = 0
    for at, value, volume in book.minutes:
        if at > oldest:
            break
        book.minutes_value -= value
        book.minutes_gpu_hours -= volume
        old += 1
    del book.minutes[:old]


def reference_micros(book: Book, at_ns: int) -> int:
    """Return the reference price for bands and auctions; 0 when there is none."""
    oldest = at_ns // MINUTE_NS - _MINUTES_MAX
    value, volume = book.minutes_value, book.minutes_gpu_hours
    for at, old_value, old_volume in book.minutes:
        if at > oldest:
            break
        value -= old_value
        volume -= old_volume
    if volume:
        return round_half_even(value, volume)
    return book.auction_micros or book.reference_micros


def moves_too_far(
    book: Book,
    at_ns: int,
    parties: dict[int, Party],
    *,
    window_minutes: int,
    move_percent: int,
    owners_min: int,
) -> bool:
    """Return whether the last price lies further from the window's lowest or highest than the rules allow.

    Only where the window's trades are those of enough owners, buyers and sellers counted.
    """
    # The bounds kept with the book may be older than the window; only now is it worth to look what is within.
    oldest = (at_ns - window_minutes * MINUTE_NS) // _BUCKET_NS
    window = book.window
    old = 0
    while old < len(window) and window[old][0] <= oldest:
        old += 1
    del window[:old]
    if not window:
        return False
    book.window_low = min(bucket[1] for bucket in window)
    book.window_high = max(bucket[2] for bucket in window)
    if not _is_far(book.last_micros, book.window_low, book.window_high, move_percent):
        return False
    owners: list[Party] = []
    for party in (parties[number] for bucket in window for number in bucket[_OWNERS_AT:]):
        if not any(is_linked(party, owner) for owner in owners):
            owners.append(party)
    return len(owners) >= owners_min
