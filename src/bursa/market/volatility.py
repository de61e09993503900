"""Reference price and volatility: what recent trades say, in a bounded number of buckets.

The reference is the volume-weighted price of 24 hours, kept per minute; else the last auction's; else the
operator's. The halt looks at the last ten minutes in buckets of ten seconds.
"""

from __future__ import annotations

from typing import Final

from bursa.market.fitting import is_linked
from bursa.market.state import Ask, Bid, Book, Party
from bursa.market.types import MINUTE_NS, SECOND_NS
from bursa.money import round_half_even

_MINUTES_MAX: Final = 24 * 60
_BUCKET_NS: Final = 10 * SECOND_NS
_OWNERS_MAX: Final = 8
#: Buckets remembered: the longest window that the rules allow, one hour.
_BUCKETS_MAX: Final = 6 * 60


def record_trade(book: Book, bid: Bid, ask: Ask, price_micros: int, at_ns: int) -> None:
    """Count one trade into the 24-hour price and the halt's window."""
    gpu_hours = bid.gpus * bid.hours
    minute = at_ns // MINUTE_NS
    minutes = book.minutes
    if minutes and minutes[-1][0] == minute:
        _, value, volume = minutes[-1]
        minutes[-1] = (minute, value + price_micros * gpu_hours, volume + gpu_hours)
    else:
        minutes.append((minute, price_micros * gpu_hours, gpu_hours))
        drop_old_minutes(book, at_ns)
    book.minutes_value += price_micros * gpu_hours
    book.minutes_gpu_hours += gpu_hours
    book.last_micros = price_micros
    bucket = at_ns // _BUCKET_NS
    window = book.window
    if not window or window[-1][0] != bucket:
        window.append((bucket, price_micros, price_micros, []))
        del window[: max(0, len(window) - _BUCKETS_MAX)]
        book.window_low = min(low for _, low, _, _ in window)
        book.window_high = max(high for _, _, high, _ in window)
    book.window_low = min(book.window_low, price_micros)
    book.window_high = max(book.window_high, price_micros)
    _, low, high, owners = window[-1]
    for owner in (bid.party_id, ask.party_id):
        if owner not in owners and len(owners) < _OWNERS_MAX:
            owners.append(owner)
    window[-1] = (bucket, min(low, price_micros), max(high, price_micros), owners)


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
    last = book.last_micros

    def is_far(low: int, high: int) -> bool:
        return last * 100 > low * (100 + move_percent) or last * 100 < high * (100 - move_percent)

    if not is_far(book.window_low, book.window_high):
        return False  # not even from all that is still remembered
    oldest = (at_ns - window_minutes * MINUTE_NS) // _BUCKET_NS
    recent = [bucket for bucket in book.window if bucket[0] > oldest]
    if not recent:
        return False
    owners: list[Party] = []
    for party in (parties[number] for bucket in recent for number in bucket[3]):
        if not any(is_linked(party, owner) for owner in owners):
            owners.append(party)
    low, high = min(bucket[1] for bucket in recent), max(bucket[2] for bucket in recent)
    return len(owners) >= owners_min and is_far(low, high)
