"""The parameters of the market, in one frozen struct that the log records with each change.

Defaults are the ones of the rule book (docs/explain/book.md and rental.md). A change of rules acts on what
happens later: prices, fees and minimum hours of rentals that exist keep the values they were traded with.
"""

from __future__ import annotations

from typing import Final

import msgspec


class MarketRules(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Every number that the operator may set; units stand at the end of each name."""

    tick_micros: int = 1_000
    gpus_max: int = 16
    hours_max: int = 720
    lots_max: int = 64
    open_orders_max: int = 1_000
    hosts_per_ask_max: int = 64
    bid_days_max: int = 30
    ask_days_max: int = 365
    #: The seller pays it, out of the net price.
    fee_bps: int = 1_000
    #: Taken off the ECB mid when a wallet in EUR or GBP pays a price in US$.
    fx_margin_bps: int = 100
    fx_age_hours_max: int = 96
    #: A bid above, or an ask below, these percentages of the reference price is refused.
    bid_band_percent: int = 200
    ask_band_percent: int = 50
    #: Trades of this many owners that move the price this far within the window halt the instrument.
    halt_move_percent: int = 30
    halt_owners_min: int = 3
    halt_window_minutes: int = 10
    halt_minutes: int = 5
    no_cancel_minutes: int = 10
    start_minutes_max: int = 10
    in_doubt_seconds: int = 120
    lost_seconds: int = 300
    penalty_failed_bps: int = 1_000
    penalty_reclaimed_bps: int = 2_000
    reliability_hours: int = 500
    reliability_start: int = 900
    top_up_cents_min: int = 500
    payout_cents_min: int = 2_000
    #: How long a seller's earnings stay pending before they can be paid out.
    dispute_hours: int = 72


#: Inclusive limits of each rule. A value outside them is refused with INVALID_FIELD naming the rule.
RULE_LIMITS: Final[dict[str, tuple[int, int]]] = {
    "tick_micros": (1, 1_000_000),
    "gpus_max": (1, 16),
    "hours_max": (1, 8_760),
    "lots_max": (1, 1_000),
    "open_orders_max": (1, 10_000_000),
    "hosts_per_ask_max": (1, 1_000),
    "bid_days_max": (1, 366),
    "ask_days_max": (1, 3_660),
    "fee_bps": (0, 5_000),
    "fx_margin_bps": (0, 1_000),
    "fx_age_hours_max": (1, 720),
    "bid_band_percent": (101, 100_000),
    "ask_band_percent": (0, 99),
    "halt_move_percent": (1, 100_000),
    "halt_owners_min": (2, 8),
    "halt_window_minutes": (1, 60),
    "halt_minutes": (1, 1_440),
    "no_cancel_minutes": (0, 1_440),
    "start_minutes_max": (1, 1_440),
    "in_doubt_seconds": (1, 86_400),
    "lost_seconds": (2, 86_400),
    "penalty_failed_bps": (0, 10_000),
    "penalty_reclaimed_bps": (0, 10_000),
    "reliability_hours": (1, 100_000),
    "reliability_start": (0, 1_000),
    "top_up_cents_min": (1, 1_000_000),
    "payout_cents_min": (1, 1_000_000),
    "dispute_hours": (0, 8_760),
}


def broken_rule(rules: MarketRules) -> str:
    """Return the name of the first rule outside its limits, or "" when all are within."""
    for name, (low, high) in RULE_LIMITS.items():
        if not low <= getattr(rules, name) <= high:
            return name
    return "lost_seconds" if rules.lost_seconds <= rules.in_doubt_seconds else ""
