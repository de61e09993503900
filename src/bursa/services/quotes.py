"""What a bid would cost now: the engine's own arithmetic on what is public, nothing reserved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from bursa.market import (
    HOUR_NS,
    NO_FILTERS,
    PRICE_MICROS_MAX,
    REGION_GROUPS,
    AskStanding,
    BookState,
    Filters,
    HostStanding,
    PlaceBid,
    Rejection,
    TaxProfile,
)
from bursa.money import Currency, customer_rate, tax_micros, to_wallet_up
from bursa.services.database import fetch_all, fetch_one
from bursa.services.exchange import Actor, Exchange, RefusedError, require
from bursa.services.orders import bid_command
from bursa.services.rates import find_mid
from bursa.wire import BidRequest, Quote, Scope, show_amount, show_micros

_PPM_PER_PERCENT: Final = 10_000
_PERCENT_PLACES: Final = 4

_BUYER: Final = """
    SELECT p.tax, p.tax_id, p.payout_account, COALESCE(b.available_micros, 0) AS available_micros
    FROM bursa.parties AS p
    LEFT JOIN bursa.balances AS b ON b.party_id = p.party_id AND b.currency = %(currency)s
    WHERE p.party_id = %(party_id)s
"""
_LINKED: Final = """
    SELECT party_id FROM bursa.parties
    WHERE party_id = ANY(%(party_ids)s)
      AND ((tax_id <> '' AND tax_id = %(tax_id)s) OR (payout_account <> '' AND payout_account = %(payout_account)s))
"""
_RELIABILITY: Final = """
    SELECT host_id FROM bursa.hosts WHERE host_id = ANY(%(host_ids)s) AND reliability >= %(reliability_min)s
"""
_decode_tax = msgspec.msgpack.Decoder(TaxProfile | None).decode


class Price(NamedTuple):
    """One GPU-hour in the wallet's currency, in micro-units: net and tax, each rounded as the engine rounds."""

    net_micros: int
    tax_micros: int


def price_of(usd_micros: int, rate_micros: int, vat_ppm: int) -> Price:
    """Return what one GPU-hour at a price in micro-US$ costs; ``rate_micros`` is 0 for a US$ wallet."""
    net = to_wallet_up(usd_micros, rate_micros) if rate_micros else usd_micros
    return Price(net, tax_micros(net, vat_ppm))


async def quote_bid(exchange: Exchange, actor: Actor, request: BidRequest) -> Quote:
    """Return what a bid would hold, and how much of it today's offers could fill; nothing is reserved."""
    require(actor, Scope.READ)
    bid = bid_command("quote", actor.party_id, request)
    view = exchange.view
    if view.ticker(bid.instrument) is None:
        expected = "the slug of a listed GPU model"
        raise RefusedError(Rejection.UNKNOWN_INSTRUMENT.value, "instrument", bid.instrument, expected)
    _check_lots(exchange, bid, request.limit_price)
    buyer = await fetch_one(exchange.reader, _BUYER, {"party_id": actor.party_id, "currency": bid.currency.value})
    tax = _decode_tax(bytes(buyer.tax)) if buyer is not None and buyer.tax else None
    if buyer is None or tax is None:
        expected = "a party whose tax profile is set"
        raise RefusedError(Rejection.NO_TAX_PROFILE.value, "party", actor.party_id, expected)
    mid = await find_mid(exchange, bid.currency, exchange.clock())
    rate = customer_rate(mid, exchange.rules.fx_margin_bps) if mid else 0
    price = price_of(bid.limit_micros, rate, tax.vat_ppm)
    gpu_hours = bid.gpus * bid.hours * bid.lots
    hold = (price.net_micros + price.tax_micros) * gpu_hours
    prices = await _plan(exchange, bid, buyer.tax_id, buyer.payout_account)
    expected_micros = sum(sum(price_of(usd, rate, tax.vat_ppm)) * bid.gpus * bid.hours for usd in prices)
    currency = bid.currency
    return Quote(
        hold=show_amount(hold, currency),
        net=show_amount(price.net_micros * gpu_hours, currency),
        tax=show_amount(price.tax_micros * gpu_hours, currency),
        tax_percent=show_percent(tax.vat_ppm),
        fillable_lots=len(prices),
        best_price=show_micros(prices[0]) if prices else None,
        expected=show_amount(expected_micros, currency),
        available=show_amount(buyer.available_micros, currency),
        shortfall=show_amount(max(0, hold - buyer.available_micros), currency),
        rate=show_micros(rate) if currency is not Currency.USD else None,
    )


def show_percent(vat_ppm: int) -> str:
    """Return parts per million as percent: 190000 is "19", 55000 is "5.5"."""
    whole, rest = divmod(vat_ppm, _PPM_PER_PERCENT)
    places = f"{rest:0{_PERCENT_PLACES}d}".rstrip("0")
    return f"{whole}.{places}" if places else str(whole)


def _check_lots(exchange: Exchange, bid: PlaceBid, shown_price: str) -> None:
    """Refuse what no order may ask for, as the market would."""
    rules = exchange.rules
    for code, field, number, most in (
        (Rejection.QUANTITY_OUT_OF_RANGE, "gpus", bid.gpus, rules.gpus_max),
        (Rejection.HOURS_OUT_OF_RANGE, "hours", bid.hours, rules.hours_max),
        (Rejection.QUANTITY_OUT_OF_RANGE, "lots", bid.lots, rules.lots_max),
    ):
        if not 1 <= number <= most:
            raise RefusedError(code.value, field, number, f"1 to {most}")
    if not 0 < bid.limit_micros <= PRICE_MICROS_MAX:
        expected = f"US${show_micros(1)} to US${show_micros(PRICE_MICROS_MAX)} per GPU-hour"
        raise RefusedError(Rejection.PRICE_OUT_OF_BAND.value, "limit_price", shown_price, expected)
    if bid.limit_micros % rules.tick_micros:
        expected = f"a multiple of US${show_micros(rules.tick_micros)}"
        raise RefusedError(Rejection.PRICE_NOT_ON_TICK.value, "limit_price", shown_price, expected)


# ---- what could be filled ------------------------------------------------------------------------------


async def _plan(exchange: Exchange, bid: PlaceBid, tax_id: str, payout_account: str) -> list[int]:
    """Return the prices, in micro-US$, of the lots that today's offers would fill, in order."""
    view = exchange.view
    ticker = view.ticker(bid.instrument)
    if ticker is None or ticker.state is not BookState.OPEN:
        return []
    ends_at_ns = exchange.clock() + bid.hours * HOUR_NS
    asks = [ask for ask in view.asks(bid.instrument) if _may_serve(ask, bid, ends_at_ns)]
    hosts = {offer.host_id: host for ask in asks for offer in ask.offers if (host := view.host(offer.host_id))}
    own = await _find_linked(exchange, {ask.party_id for ask in asks}, tax_id, payout_account) | {bid.party_id}
    fitting = {host_id: host for host_id, host in hosts.items() if host_fits(host, bid.filters)}
    if bid.filters.reliability_min:
        parameters = {"host_ids": sorted(fitting), "reliability_min": bid.filters.reliability_min}
        rows = await fetch_all(exchange.reader, _RELIABILITY, parameters)
        reliable = {row.host_id for row in rows}
        fitting = {host_id: host for host_id, host in fitting.items() if host_id in reliable}
    return plan_lots([ask for ask in asks if ask.party_id not in own], fitting, bid.gpus, bid.lots)


def _may_serve(ask: AskStanding, bid: PlaceBid, ends_at_ns: int) -> bool:
    return (
        ask.price_micros <= bid.limit_micros
        and ask.on_sale >= bid.gpus >= ask.min_gpus
        and ask.min_hours <= bid.hours <= ask.max_hours
        and ends_at_ns <= ask.until_ns
    )


async def _find_linked(exchange: Exchange, party_ids: set[int], tax_id: str, payout_account: str) -> set[int]:
    """Return which of some parties are the same owner as the buyer: nobody trades with themselves."""
    if not party_ids or not (tax_id or payout_account):
        return set()
    parameters = {"party_ids": sorted(party_ids), "tax_id": tax_id, "payout_account": payout_account}
    return {row.party_id for row in await fetch_all(exchange.reader, _LINKED, parameters)}


def host_fits(host: HostStanding, filters: Filters) -> bool:
    """Return whether a host meets what filters ask, but for its reliability, which is not public market data."""
    if filters == NO_FILTERS:
        return True
    spec, regions = host.spec, filters.regions
    return (
        (not regions or spec.region in regions or (spec.country in regions and spec.country not in REGION_GROUPS))
        and (host.is_verified or not filters.is_verified_only)
        and spec.ram_gib >= filters.ram_gib_min * spec.gpus
        and spec.disk_gib >= filters.disk_gib_min * spec.gpus
        and spec.vcpus >= filters.vcpus_min * spec.gpus
        and host.host_id not in filters.avoid_hosts
    )


def plan_lots(asks: Iterable[AskStanding], hosts: Mapping[int, HostStanding], gpus: int, lots: int) -> list[int]:
    """Return the prices of the first ``lots`` lots that asks in price-time order serve on fitting hosts."""
    prices: list[int] = []
    for ask in asks:
        for offer in ask.offers:
            host = hosts.get(offer.host_id)
            fits = host.on_sale // gpus if host is not None else 0
            prices += [ask.price_micros] * min(fits, lots - len(prices))
        if len(prices) == lots:
            break
    return prices
