"""Rounding, tax, fee, FX and splits on plain integers.

Role: the arithmetic of the ledger. The engine calls these for every command, so they take and return ints (micro-units
= 10**-6 of a currency, unless a name says otherwise) and build no objects.
Invariants: no float; denominators are positive; each result is exact or rounded the way the function's name says.
A float, bool, Decimal or str here is a bug in the caller, so it fails an assertion (assertions stay on).
Source of every rule: money rules §1 (docs/explain/ledger.md), unless a docstring names another.
"""

from collections.abc import Sequence
from typing import Final

from bursa.errors import AmountRangeError

__all__ = [
    "BPS_PER_ONE",
    "MICROS_MAX",
    "MICROS_PER_CENT",
    "MICROS_PER_UNIT",
    "MICRO_DIGITS",
    "PARTS_MAX",
    "PPM_PER_ONE",
    "allocate_micros",
    "check_micros",
    "convert_half_even",
    "customer_rate",
    "fee_micros",
    "round_down",
    "round_half_even",
    "round_half_up",
    "round_up",
    "split_micros",
    "tax_micros",
    "to_wallet_up",
]

#: Decimals of an amount inside: 10**-6 of a currency is the smallest sum there is.
MICRO_DIGITS: Final = 6
#: Micro-units in one euro, dollar or pound.
MICROS_PER_UNIT: Final = 1_000_000
#: Micro-units in one cent or penny, the smallest sum on a legal document.
MICROS_PER_CENT: Final = 10_000
#: Largest magnitude of an amount in micro-units (about 9.2e12 units): what a PostgreSQL bigint holds with either sign.
MICROS_MAX: Final = 2**63 - 1
#: Tax rates are integers in parts per million of the net: 19 % = 190_000, 5.5 % = 55_000.
PPM_PER_ONE: Final = 1_000_000
#: Fees and margins are integers in basis points: 10 % = 1_000.
BPS_PER_ONE: Final = 10_000
#: Most parts that one amount may be split into; more is a bug (the largest use is one part per GPU or invoice line).
PARTS_MAX: Final = 100_000


def round_half_even(numerator: int, denominator: int) -> int:
    """Divide and round to the nearest integer, a tie to the even one; THE rounding of the ledger.

    Units: any; the result has the unit of the quotient. Any sign of numerator, denominator > 0 (asserted).
    Source: money rules §1, "round_half_even to the micro inside".
    """
    assert type(numerator) is int, numerator
    assert type(denominator) is int, denominator
    assert denominator > 0, denominator
    # divmod floors, so remainder is in [0, denominator) for either sign and one comparison serves both.
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient % 2 == 1):
        return quotient + 1
    return quotient


def round_down(numerator: int, denominator: int) -> int:
    """Divide and round toward minus infinity (floor): platform fees, customer rates, payouts, displayed balances.

    Any sign of numerator, denominator > 0 (asserted). Source: money rules §1; market rules §3 (fee, rate).
    """
    assert type(numerator) is int, numerator
    assert type(denominator) is int, denominator
    assert denominator > 0, denominator
    return numerator // denominator


def round_up(numerator: int, denominator: int) -> int:
    """Divide and round toward plus infinity (ceiling): what a customer pays in another currency.

    Any sign of numerator, denominator > 0 (asserted). Source: money rules §1, "customer FX amounts up".
    """
    assert type(numerator) is int, numerator
    assert type(denominator) is int, denominator
    assert denominator > 0, denominator
    return -(-numerator // denominator)


def round_half_up(numerator: int, denominator: int) -> int:
    """Divide and round to the nearest integer, a tie away from zero: VAT on the total of a legal document.

    Any sign of numerator, denominator > 0 (asserted). Away from zero, not upward, so that a credit note mirrors its
    invoice to the cent. Source: money rules §5, "VAT on the document total, half up" (EN 16931 totals).
    """
    assert type(numerator) is int, numerator
    assert type(denominator) is int, denominator
    assert denominator > 0, denominator
    magnitude = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -magnitude if numerator < 0 else magnitude


def check_micros(micros: int, field: str = "amount") -> int:
    """Return micros (micro-units) as they are, or raise AmountRangeError if a bigint column could not hold them."""
    assert type(micros) is int, micros
    if not -MICROS_MAX <= micros <= MICROS_MAX:
        raise AmountRangeError(field, micros, f"at most {MICROS_MAX} micro-units in magnitude")
    return micros


def tax_micros(net_micros: int, rate_ppm: int) -> int:
    """Return the tax on a net amount: net times rate, half-even to the micro.

    Units: micro-units of the net's currency; rate in parts per million, 0 to 1_000_000 (asserted). A credit's negative
    net gives the negative of the charge's tax. Source: market rules §3; money rules §1.
    """
    assert type(net_micros) is int, net_micros
    assert type(rate_ppm) is int, rate_ppm
    assert 0 <= rate_ppm <= PPM_PER_ONE, rate_ppm
    return round_half_even(net_micros * rate_ppm, PPM_PER_ONE)


def fee_micros(net_micros: int, fee_bps: int) -> int:
    """Return the platform's fee on a net charge: net times fee, rounded down; the seller gets all the rest.

    Units: micro-units; fee in basis points, 0 to 10_000; net not negative (both asserted). Source: market rules §3.
    """
    assert type(net_micros) is int, net_micros
    assert type(fee_bps) is int, fee_bps
    assert 0 <= fee_bps <= BPS_PER_ONE, fee_bps
    assert net_micros >= 0, net_micros
    return round_down(net_micros * fee_bps, BPS_PER_ONE)


def customer_rate(mid_micros: int, margin_bps: int) -> int:
    """Return the rate a customer gets: mid less the operator's margin, rounded down to the micro.

    Units: micro-units of the quoted currency per 1 unit of the wallet's (1 EUR = 1.0870 USD is 1_087_000, and with
    100 bps 1_076_130). mid > 0, margin 0 to 9_999 bps, result > 0 (asserted). Source: market rules §3, worked case G.
    """
    assert type(mid_micros) is int, mid_micros
    assert type(margin_bps) is int, margin_bps
    assert 0 <= margin_bps < BPS_PER_ONE, margin_bps
    rate_micros = round_down(mid_micros * (BPS_PER_ONE - margin_bps), BPS_PER_ONE)
    assert rate_micros > 0, (mid_micros, margin_bps)
    return rate_micros


def to_wallet_up(usd_micros: int, rate_micros: int) -> int:
    """Return what a price in the book's currency costs in the wallet's: price divided by rate, rounded up to the micro.

    Units: micro-units in and out; rate as customer_rate returns it, > 0 (asserted). Raises AmountRangeError.
    Source: market rules §3 ("limit / customer rate rounded up"), worked case G: 4.19 / 1.07613 is 3.893582.
    """
    assert type(usd_micros) is int, usd_micros
    return check_micros(round_up(usd_micros * MICROS_PER_UNIT, rate_micros))


def convert_half_even(amount_micros: int, rate_micros: int) -> int:
    """Return an amount divided by a rate, half-even to the micro: the mid side of a conversion.

    Units: micro-units in and out; rate in micro-units of the amount's currency per 1 unit of the result's, > 0
    (asserted). Raises AmountRangeError. What the customer pays (to_wallet_up at customer_rate) less this is the FX
    margin: 2.603913 - 2.577873 = 0.026040. Two rates against EUR give the cross rate by the same division.
    Source: money rules §3 (Bruno's hour) and §4 (mid and margin are stored apart).
    """
    assert type(amount_micros) is int, amount_micros
    return check_micros(round_half_even(amount_micros * MICROS_PER_UNIT, rate_micros))


def split_micros(total_micros: int, parts: int) -> tuple[int, ...]:
    """Split an amount into equal parts that differ by at most one micro and sum to it exactly; larger parts first.

    Units: micro-units, any sign; 1 <= parts <= PARTS_MAX (asserted). A negative amount splits as its mirror image.
    Source: money rules §1, splits.
    """
    assert type(total_micros) is int, total_micros
    assert type(parts) is int, parts
    assert 1 <= parts <= PARTS_MAX, parts
    share, extra = divmod(abs(total_micros), parts)
    sign = -1 if total_micros < 0 else 1
    return (sign * (share + 1),) * extra + (sign * share,) * (parts - extra)


def allocate_micros(total_micros: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Divide an amount in proportion to weights by largest remainder (Hamilton); the parts sum to it exactly.

    Units: micro-units, any sign; weights are ints >= 0 of any one unit with a sum > 0, 1 to PARTS_MAX of them
    (asserted). Each part is within one micro of its exact share; a tie of remainders goes to the earlier weight; a
    zero weight gets zero; a negative amount divides as its mirror image. Source: money rules §1, splits.
    """
    assert type(total_micros) is int, total_micros
    assert 1 <= len(weights) <= PARTS_MAX, len(weights)
    assert all(type(weight) is int and weight >= 0 for weight in weights), weights
    weight_sum = sum(weights)
    assert weight_sum > 0, weights
    magnitude = abs(total_micros)
    sign = -1 if total_micros < 0 else 1
    shares = [magnitude * weight // weight_sum for weight in weights]
    missing = magnitude - sum(shares)
    # sorted() is stable, so equal remainders keep the order of the weights: the result depends on nothing else.
    by_remainder = sorted(range(len(weights)), key=lambda index: -(magnitude * weights[index] % weight_sum))
    for index in by_remainder[:missing]:
        shares[index] += 1
    assert sum(shares) == magnitude, (total_micros, weights)
    return tuple(sign * share for share in shares)
