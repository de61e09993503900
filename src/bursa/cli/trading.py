"""`bursa buy`, `bid` and `ask`: from flags to an order, with a look at what it would cost before anything is held."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once
# ruff: noqa: PLR0913 - a parameter is a flag

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bursa.cli.exits import Exit, Finished
from bursa.cli.options import (
    CONSENT,
    FILTERS,
    REACH,
    REPEAT,
    VIEW,
    Consent,
    Filters,
    MaybeWhole,
    Reach,
    Repeat,
    View,
    Whole,
)
from bursa.errors import InputError

if TYPE_CHECKING:
    from bursa.cli.session import Session
    from bursa.wire import BidRequest, Order

#: Levels of a book that are read to bound the limit of a purchase by cost.
BOOK_LEVELS: Final = 200
#: The market refuses bids above this part of the reference price; its operator may have set another.
BAND_PERCENT: Final = 200
#: Rounds of quotes until a limit keeps to the cost: rounding can miss it by a tick.
QUOTES_MAX: Final = 3
#: Most rentals that a purchase shows one by one.
RENTALS_SHOWN_MAX: Final = 8


def buy(
    gpu: str,
    /,
    *,
    hours: Whole,
    gpus: Whole = 1,
    lots: Whole = 1,
    max_price: str | None = None,
    max_cost: str | None = None,
    currency: str = "USD",
    dry_run: bool = False,
    filters: Filters = FILTERS,
    consent: Consent = CONSENT,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> int:
    """Rent GPUs at the best offers now, or not at all: nothing waits in the book. Exit code 1 when not all was filled.

    Parameters
    ----------
    gpu
        Name of the GPU, like h100-sxm.
    hours
        How many hours.
    gpus
        How many GPUs, all on one host.
    lots
        How many times that, each on a host of its own.
    max_price
        Most to pay, in US$ per GPU-hour excluding tax.
    max_cost
        Most to pay in all, tax included, in the currency of the wallet.
    currency
        Currency of the wallet that pays: USD, EUR or GBP.
    dry_run
        Only tell what it would cost.
    """
    import msgspec

    from bursa.cli.session import Session
    from bursa.cli.terms import build_filters, read_currency, read_price
    from bursa.market import TimeInForce
    from bursa.wire import BidRequest

    if max_price is None and max_cost is None:
        raise InputError("--max-price", "nothing", "a limit: --max-price, --max-cost, or both")
    request = BidRequest(
        instrument=gpu,
        gpus=gpus,
        hours=hours,
        lots=lots,
        limit_price="LIMIT" if max_price is None else read_price(max_price, "--max-price"),
        currency=read_currency(currency),
        time_in_force=TimeInForce.IOC,
        filters=build_filters(filters),
    )
    session = Session(reach)
    if session.is_explaining:
        return _explain(session, request, repeat, is_limit_sought=max_cost is not None)
    if max_cost is not None:
        limit_price = _seek_limit(session, request, read_price(max_cost, "--max-cost"), max_price)
        request = msgspec.structs.replace(request, limit_price=limit_price)
    return _place(session, request, (consent, repeat), view, is_dry=dry_run)


def bid(
    gpu: str,
    /,
    *,
    hours: Whole,
    price: str,
    gpus: Whole = 1,
    lots: Whole = 1,
    until: str | None = None,
    currency: str = "USD",
    dry_run: bool = False,
    filters: Filters = FILTERS,
    consent: Consent = CONSENT,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> int:
    """Bid a price. What today's offers fill is rented at once; the rest waits in the book, and its cost is held.

    Parameters
    ----------
    gpu
        Name of the GPU, like h100-sxm.
    hours
        How many hours.
    price
        Most to pay, in US$ per GPU-hour excluding tax.
    gpus
        How many GPUs, all on one host.
    lots
        How many times that, each on a host of its own.
    until
        How long it waits: a time like 2026-12-01T12:00Z or a span like 6h or 2d; else 30 days.
    currency
        Currency of the wallet that pays: USD, EUR or GBP.
    dry_run
        Only tell what it would hold and cost.
    """
    from bursa.cli.session import Session
    from bursa.cli.terms import build_filters, read_currency, read_price, read_time
    from bursa.market import TimeInForce
    from bursa.wire import BidRequest

    request = BidRequest(
        instrument=gpu,
        gpus=gpus,
        hours=hours,
        lots=lots,
        limit_price=read_price(price, "--price"),
        currency=read_currency(currency),
        time_in_force=TimeInForce.GTC if until is None else TimeInForce.GTD,
        expires_at=None if until is None else read_time(until, "--until"),
        filters=build_filters(filters),
    )
    session = Session(reach)
    if session.is_explaining:
        return _explain(session, request, repeat, is_limit_sought=False)
    return _place(session, request, (consent, repeat), view, is_dry=dry_run)


def ask(
    host: str,
    /,
    *,
    price: str,
    gpus: MaybeWhole = None,
    min_gpus: Whole = 1,
    min_hours: Whole = 1,
    max_hours: Whole = 720,
    price_lock_hours: Whole = 24,
    until: str | None = None,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Offer a host's GPUs at a price; bids that meet it are filled at once.

    Parameters
    ----------
    host
        Id of the host, like hst_17.
    price
        Least to get, in US$ per GPU-hour excluding tax and before the fee.
    gpus
        How many of its GPUs at most; else all.
    min_gpus
        Fewest GPUs of one rental.
    min_hours
        Fewest hours of one rental.
    max_hours
        Most hours of one rental.
    price_lock_hours
        For how many hours a rental keeps its price when it is extended.
    until
        How long it stands: a time like 2026-12-01T12:00Z or a span like 6h or 2d.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.cli.terms import read_price, read_time
    from bursa.sdk import orders, parties
    from bursa.wire import AskRequest, Offer

    session = Session(reach)
    if gpus is None:
        if session.is_explaining:
            raise InputError("--gpus", "nothing", "a number of GPUs, where the call is only explained")
        gpus = session.ask(parties.show_host(host)).spec.gpus
    request = AskRequest(
        offers=[Offer(host=host, gpus=gpus)],
        price=read_price(price, "--price"),
        min_gpus=min_gpus,
        min_hours=min_hours,
        max_hours=max_hours,
        price_lock_hours=price_lock_hours,
        until=None if until is None else read_time(until, "--until"),
    )
    order = session.ask(orders.place_ask(request, idempotency_key=repeat.idempotency_key))
    render.show(order, view, [screens.order_facts(order)])


def _explain(session: Session, request: BidRequest, repeat: Repeat, *, is_limit_sought: bool) -> int:
    """Print the calls of a purchase; with a cost the limit depends on the answer to a quote."""
    import msgspec

    from bursa.sdk import orders

    remark = ""
    if is_limit_sought:
        asked = msgspec.structs.replace(request, limit_price="1.00")
        session.explain(orders.quote_bid(asked), "what is held at a limit of 1.00; LIMIT is cost / hold, on a tick")
        request = msgspec.structs.replace(request, limit_price="LIMIT")
        remark = "at that limit"
    session.explain(orders.place_bid(request, idempotency_key=repeat.idempotency_key), remark)
    return Exit.OK


def _seek_limit(session: Session, request: BidRequest, max_cost: str, max_price: str | None) -> str:
    """Return the highest useful limit at which the bid holds at most ``max_cost``, tax included.

    More than the dearest offer in sight, or than the market takes, is of no use to a bid that does not wait.
    """
    import msgspec

    from bursa.cli.session import say
    from bursa.cli.terms import TICK_MICROS, limit_within
    from bursa.sdk import market, orders
    from bursa.wire import parse_micros, show_micros

    offers = session.ask(market.show_book(request.instrument, levels=BOOK_LEVELS)).asks
    reference = session.ask(market.show_ticker(request.instrument)).reference_price
    if not offers:
        shape = f"--hours {request.hours} --gpus {request.gpus} --lots {request.lots}"
        price = max_price or (reference if reference and parse_micros(reference, "reference") else None)
        step = f"wait for one: bursa bid {request.instrument} {shape} --price {price}" if price else ""
        say(f"Not filled: no offers of {request.instrument}.", f"next: {step or 'bursa gpus list --on-sale'}")
        raise Finished(Exit.NEGATIVE)
    bounds = [parse_micros(offers[-1].price, "ask")]
    if max_price is not None:
        bounds.append(parse_micros(max_price, "--max-price"))
    if reference is not None and parse_micros(reference, "reference"):
        bounds.append(parse_micros(reference, "reference") * BAND_PERCENT // 100)
    cost_micros = parse_micros(max_cost, "--max-cost")
    best_micros = limit_micros = parse_micros(offers[0].price, "ask")
    is_fitted = False
    for _ in range(QUOTES_MAX):
        asked = msgspec.structs.replace(request, limit_price=show_micros(limit_micros))
        hold = session.ask(orders.quote_bid(asked)).hold
        if is_fitted and parse_micros(hold.amount, "hold") <= cost_micros:
            return asked.limit_price
        fitting = limit_within(cost_micros, hold, limit_micros, *bounds)
        limit_micros = min(fitting, limit_micros - TICK_MICROS) if is_fitted else fitting
        if limit_micros < best_micros:
            break
        is_fitted = True
    cheapest = f"the best offer is {offers[0].price} US$ per GPU-hour, excluding tax"
    say(f"Not filled: {max_cost} {request.currency} is not enough for any price; {cheapest}.")
    raise Finished(Exit.NEGATIVE)


def _place(session: Session, request: BidRequest, care: tuple[Consent, Repeat], view: View, *, is_dry: bool) -> int:
    """Quote, ask, place, show. The quote is left out where nobody would see it."""
    from bursa.cli import render, screens
    from bursa.cli.session import confirm, is_asked, say
    from bursa.sdk import orders

    consent, repeat = care
    quote = session.ask(orders.quote_bid(request)) if is_dry or is_asked(consent) else None
    if is_dry and quote is not None:
        render.show(quote, view, [screens.quote(quote, request.lots)])
        is_waiting = request.time_in_force != "IOC"
        return Exit.OK if is_waiting or quote.fillable_lots >= request.lots else Exit.NEGATIVE
    if quote is not None:
        shape = f"{request.lots} × ({request.gpus} × {request.instrument} for {request.hours} h)"
        held = f"{render.show_value(quote.hold)} held at most, tax included"
        confirm(f"{shape} at up to {request.limit_price} US$ per GPU-hour; {held}. Go on?", consent)
    try:
        order = session.ask(orders.place_bid(request, idempotency_key=repeat.idempotency_key))
    except KeyboardInterrupt:
        say("Interrupted. Whether the order was placed is not known: bursa orders list")
        return Exit.INTERRUPTED
    return _report(session, order, view)


def _report(session: Session, order: Order, view: View) -> int:
    """Show what became of a bid; the code says whether a bid that does not wait was filled."""
    from bursa.cli import render, screens
    from bursa.sdk import rentals

    is_waiting = order.leaves > 0
    code = Exit.OK if is_waiting or order.filled >= order.quantity else Exit.NEGATIVE
    if view.json:
        render.write_json(order)
        return code
    lots = "lot" if order.quantity == 1 else "lots"
    state = f"{order.leaves} wait at {order.price}" if is_waiting else str(order.state)
    render.write_text(f"{order.id}: {order.filled} of {order.quantity} {lots} filled, {state}.")
    opened = [fill.rental for fill in order.fills]
    if opened:
        items = [session.ask(rentals.show_rental(rental)) for rental in opened[:RENTALS_SHOWN_MAX]]
        render.print_grid(screens.rentals(items))
        if len(opened) > len(items):
            render.write_text(f"and {len(opened) - len(items)} more: bursa rentals list")
        render.write_text(f"Follow it: bursa rentals watch {opened[0]}")
    elif is_waiting:
        render.write_text(f"Cancel it: bursa orders cancel {order.id}")
    else:
        render.write_text(f"Nothing was held. See the offers: bursa market show {order.instrument}")
    return code
