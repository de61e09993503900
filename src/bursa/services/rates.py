"""ECB reference rates: import them, and turn them into the mids by which the market converts.

The ECB tells units of a currency for one EUR. The market wants micro-US$ for one unit of a wallet's currency:
EUR: the US$ rate as it is; GBP: US$ rate divided by GBP rate, half-even to the micro (money rules §4).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final

from bursa.market import HOUR_NS, Rejected, Rejection, SetRate
from bursa.money import Currency, convert_half_even
from bursa.services.database import cursor as lend
from bursa.services.database import fetch_all
from bursa.services.exchange import Actor, Exchange, RefusedError, Reply, check_text, command_ids, require_operator
from bursa.services.submitting import refusal_of
from bursa.wire import Done, RatesRequest, parse_micros, parse_time, show_micros

#: Hour of the day (UTC) as of which a day's rate holds: published at 16:00 in Frankfurt, never before 14:00 UTC.
PUBLISHED_HOUR: Final = 14

#: A rate of US$ or GBP lies well within these, in micro-units for one EUR.
RATE_MICROS_MIN: Final = 10_000
RATE_MICROS_MAX: Final = 100_000_000

_STORE_RATES: Final = """
    INSERT INTO bursa.fx_rates (currency, as_of, rate_micros, source)
    SELECT currency, as_of, rate_micros, %(source)s
    FROM unnest(%(currencies)s::text[], %(days)s::date[], %(rates)s::bigint[]) AS n(currency, as_of, rate_micros)
    ON CONFLICT (currency, as_of) DO UPDATE SET rate_micros = EXCLUDED.rate_micros, source = EXCLUDED.source
"""
_NEWEST_PAIR: Final = """
    SELECT usd.as_of, usd.rate_micros AS usd_micros, COALESCE(gbp.rate_micros, 0) AS gbp_micros
    FROM bursa.fx_rates AS usd
    LEFT JOIN bursa.fx_rates AS gbp ON gbp.currency = 'GBP' AND gbp.as_of = usd.as_of
    WHERE usd.currency = 'USD' AND (%(currency)s = 'EUR' OR gbp.rate_micros IS NOT NULL)
    ORDER BY usd.as_of DESC LIMIT 1
"""


def mid_of(currency: Currency, usd_micros: int, gbp_micros: int) -> int:
    """Return the mid of EUR or GBP in micro-US$ a unit, from micro-US$ and micro-GBP for one EUR; 0 = none."""
    if currency is Currency.EUR:
        return usd_micros
    return convert_half_even(usd_micros, gbp_micros) if gbp_micros else 0


def as_of_ns(day: date) -> int:
    """Return the time as of which a day's rate holds, in nanoseconds since the epoch."""
    return parse_time(datetime(day.year, day.month, day.day, PUBLISHED_HOUR, tzinfo=UTC), "as_of")


async def find_mid(exchange: Exchange, currency: Currency, at_ns: int) -> int:
    """Return the mid for a wallet now, in micro-US$ a unit; 0 for US$. RefusedError (NO_RATE) without one."""
    if currency is Currency.USD:
        return 0
    rows = await fetch_all(exchange.reader, _NEWEST_PAIR, {"currency": currency.value})
    hours = exchange.rules.fx_age_hours_max
    if rows and at_ns - as_of_ns(rows[0].as_of) <= hours * HOUR_NS:
        return mid_of(currency, rows[0].usd_micros, rows[0].gbp_micros)
    expected = f"USD, or a rate for {currency} not older than {hours} h"
    raise RefusedError(Rejection.NO_RATE.value, "currency", currency.value, expected)


async def import_rates(
    exchange: Exchange, actor: Actor, request: RatesRequest, *, idempotency_key: str | None = None
) -> Reply[Done]:
    """Store rates of many days, and let the market convert by the newest day of each currency.

    A GBP rate comes with the US$ rate of its day. Rates older than the one in force are stored and change nothing else.
    """
    require_operator(actor)
    ids = command_ids(actor, idempotency_key)
    source = check_text("source", request.source)
    rates = _read_rates(request)
    seq, is_repeat = 0, True
    for currency in (Currency.EUR, Currency.GBP):
        newest = _newest(currency, rates)
        if newest is None:
            continue
        mid, day = newest
        command = SetRate(command_id=ids.of(currency.value), currency=currency, mid_micros=mid, as_of_ns=as_of_ns(day))
        answer = await exchange.node.submit(command, is_fresh=ids.is_fresh)
        if isinstance(answer.result, Rejected):
            if answer.result.field == "as_of_ns" and answer.result.expected.startswith("at least"):
                continue  # a newer rate is in force
            raise refusal_of(answer.result, command)
        seq, is_repeat = max(seq, answer.seq), is_repeat and answer.is_repeat
    await _store(exchange, source, rates)
    return Reply(Done(seq), is_repeat and seq > 0)


def _read_rates(request: RatesRequest) -> dict[tuple[Currency, date], int]:
    rates: dict[tuple[Currency, date], int] = {}
    for place, rate in enumerate(request.rates):
        if rate.currency is Currency.EUR:
            raise RefusedError(
                "INVALID_FIELD", f"rates[{place}].currency", "EUR", "USD or GBP: rates are units for one EUR"
            )
        micros = parse_micros(rate.rate, f"rates[{place}].rate")
        if not RATE_MICROS_MIN <= micros <= RATE_MICROS_MAX:
            expected = f"{show_micros(RATE_MICROS_MIN)} to {show_micros(RATE_MICROS_MAX)}"
            raise RefusedError("INVALID_FIELD", f"rates[{place}].rate", rate.rate, expected)
        rates[rate.currency, rate.as_of] = micros
    for currency, day in rates:
        if (Currency.USD, day) not in rates:
            expected = "a rate of USD for the same day too: the market converts by the cross rate"
            raise RefusedError("INVALID_FIELD", "rates", f"{currency} of {day}", expected)
    return rates


def _newest(currency: Currency, rates: Mapping[tuple[Currency, date], int]) -> tuple[int, date] | None:
    """Return the mid of the newest day that tells one, and the day."""
    for day in sorted({day for _, day in rates}, reverse=True):
        usd = rates[Currency.USD, day]
        gbp = rates.get((Currency.GBP, day), 0)
        if currency is Currency.EUR or gbp:
            return mid_of(currency, usd, gbp), day
    return None


async def _store(exchange: Exchange, source: str, rates: Mapping[tuple[Currency, date], int]) -> None:
    keys = sorted(rates)
    async with lend(exchange.writer) as rows:
        parameters = {
            "source": source,
            "currencies": [currency.value for currency, _ in keys],
            "days": [day for _, day in keys],
            "rates": [rates[key] for key in keys],
        }
        await rows.execute(_STORE_RATES, parameters)
