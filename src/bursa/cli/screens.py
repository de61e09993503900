"""What people see of each shape: which columns, in which order, with which words. Pure: shapes in, grids out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bursa.cli.render import Grid, demo, show_value
from bursa.market import EndReason, RentalState, Side
from bursa.wire import (
    BookView,
    Gpu,
    HostView,
    Identity,
    Key,
    Level,
    Order,
    OwnEvent,
    PartyView,
    PublicTrade,
    Quote,
    RentalView,
    StatementLine,
    Status,
    StreamDelta,
    StreamMessage,
    StreamSnapshot,
    StreamTrade,
    Ticker,
    Wallet,
)

#: Why a rental ended, short enough for a list.
_REASONS: Final = {
    EndReason.STOPPED_BY_RENTER: "stopped",
    EndReason.FUNDS: "no funds",
    EndReason.HOST_RECLAIMED: "reclaimed",
    EndReason.START_FAILED: "no start",
}


def gpus(items: Iterable[Gpu]) -> Grid:
    """Show the catalog: the best offer in US$ per GPU-hour excluding tax, and how many GPUs are on sale."""
    rows = [
        (gpu.slug, gpu.architecture, f"{gpu.memory_gb:g}", f"{gpu.bandwidth_gbs:,.0f}", *_best(gpu.ticker))
        for gpu in items
    ]
    return Grid(("!GPU", "Architecture", ">GB", ">GB/s", ">US$/h", ">GPUs", ""), rows)


def _best(ticker: Ticker | None) -> tuple[object, object, str]:
    if ticker is None or ticker.best_ask is None:
        return None, 0, "" if ticker is not None else "no book"
    return ticker.best_ask, ticker.gpus_on_sale, demo(ticker.is_demo)


def gpu(item: Gpu) -> Grid:
    """Show one GPU, a fact a line."""
    facts: list[tuple[str, object]] = [
        ("Name", item.name),
        ("Vendor", item.vendor),
        ("Architecture", item.architecture),
        ("Memory", f"{item.memory_gb:g} GB {item.memory_type}"),
        ("Bandwidth", f"{item.bandwidth_gbs:,.0f} GB/s"),
        ("Source", item.source),
    ]
    if item.ticker is not None:
        facts += ticker_facts(item.ticker)
    return Grid(("!" + item.slug, ""), facts)


def ticker_facts(ticker: Ticker) -> list[tuple[str, object]]:
    """Return what a ticker says, a fact a line."""
    state = ticker.state if ticker.until is None else f"{ticker.state} until {show_value(ticker.until)}"
    offers = f"{ticker.best_ask} {demo(ticker.is_demo)}".strip() if ticker.best_ask else "no offers: place a bid"
    return [
        ("Book", state),
        ("Best ask", offers),
        ("Best bid", ticker.best_bid),
        ("Last price", ticker.last_price),
        ("Reference", ticker.reference_price),
        ("On sale", count(ticker.gpus_on_sale, "GPU")),
        ("Wanted", count(ticker.gpus_wanted, "GPU")),
        ("Volume 24 h", count(ticker.volume_gpu_hours, "GPU-hour")),
        ("As of", ticker.at),
    ]


def tickers(items: Iterable[Ticker]) -> Grid:
    """Show the state of every book."""
    rows = [
        (item.instrument, item.state, item.best_bid, item.best_ask, item.last_price, item.volume_gpu_hours,
         demo(item.is_demo), item.until)
        for item in items
    ]  # fmt: skip
    return Grid(("!Instrument", "!State", ">Bid", ">Ask", ">Last", ">24 h", "", "Until"), rows)


def book(view: BookView) -> Grid:
    """Show a book, bids to the left and asks to the right; prices in US$ per GPU-hour, excluding tax."""
    sides: list[Sequence[Level]] = [view.bids, view.asks]
    rows = []
    for row in range(max(len(side) for side in sides)):
        bid, ask = (side[row] if row < len(side) else None for side in sides)
        rows.append(
            (
                bid.gpus if bid else "",
                bid.price if bid else "",
                ask.price if ask else "",
                ask.gpus if ask else "",
                demo(ask.is_demo) if ask else "",
            )
        )
    title = f"{view.instrument}: {view.state}, as of seq {view.seq}"
    return Grid((">GPUs wanted", ">Bid", ">Ask", ">GPUs on sale", ""), rows, title)


def change(message: StreamMessage) -> str:
    """Return one line that tells what a message of a market's stream says."""
    match message:
        case StreamTrade(trade=trade):
            mark = f" {demo(trade.is_demo)}" if trade.is_demo else ""
            return f"{message.seq}  {trade.taker} {trade.gpus} × {trade.hours} h at {trade.price}{mark}"
        case StreamSnapshot(ticker=ticker):
            return f"{message.seq}  {ticker.state}: {_quotes(ticker)}"
        case StreamDelta(ticker=ticker):
            levels = [f"{side} {level.price}: {level.gpus}" for side, level in
                      [*(("bid", bid) for bid in message.bids), *(("ask", ask) for ask in message.asks)]]  # fmt: skip
            return f"{message.seq}  {', '.join([*levels, _quotes(ticker)])}"


def _quotes(ticker: Ticker) -> str:
    return f"best bid {show_value(ticker.best_bid)}, best ask {show_value(ticker.best_ask)}"


def event(happened: OwnEvent) -> str:
    """Return one line that tells what happened to a rental."""
    words = [happened.kind.replace("_", " ").lower()]
    words += [f"{happened.hours} h"] if happened.hours else []
    words += [f"({happened.reason})"] if happened.reason else []
    words += [f"{change.change} {change.currency} on {change.account}" for change in happened.funds]
    return " ".join(words)


def trades(items: Iterable[PublicTrade]) -> Grid:
    """Show trades."""
    rows = [
        (trade.id, trade.at, trade.price, trade.gpus, trade.hours, trade.taker, demo(trade.is_demo)) for trade in items
    ]
    return Grid(("!Trade", "!Time", ">US$/GPU-h", ">GPUs", ">Hours", "Taker", ""), rows)


def orders(items: Iterable[Order]) -> Grid:
    """Show orders: quantities count lots of a bid, GPUs of an ask."""
    rows = [
        (
            order.id,
            order.side,
            f"{order.gpus} × {order.instrument}, {order.hours} h"
            if order.side is Side.BUY
            else f"{order.instrument}, {order.min_hours}–{order.max_hours} h",
            order.price,
            f"{order.filled}/{order.quantity}",
            order.state,
            order.held,
        )
        for order in items
    ]
    return Grid(("!Order", "!Side", "Each", ">US$/h", ">Filled", "!State", ">Held"), rows)


def order_facts(order: Order) -> Grid:
    """Show one order, a fact a line."""
    unit = "lot" if order.side is Side.BUY else "GPU"
    facts: list[tuple[str, object]] = [
        ("Side", order.side),
        ("Instrument", order.instrument),
        ("State", order.state),
        ("Price", f"{order.price} US$ per GPU-hour, excluding tax"),
        ("Filled", f"{order.filled} of {count(order.quantity, unit)}"),
        ("Open", count(order.leaves, unit)),
        ("Canceled", count(order.canceled, unit)),
    ]
    if order.side is Side.BUY:
        facts += [
            ("Each lot", f"{count(order.gpus, 'GPU')} on one host for {order.hours} h"),
            ("In force", order.time_in_force),
            ("Held", order.held),
        ]
    else:
        facts += [("Hours", f"{order.min_hours} to {order.max_hours}"), ("Price lock", f"{order.price_lock_hours} h")]
    facts.append(("Placed", order.placed_at))
    # A closed order waits for nothing; that it expired is its end.
    facts.append(("Closed", order.closed_at) if order.closed_at is not None else ("Expires", order.expires_at))
    return Grid(("!" + order.id, ""), facts)


def fills(order: Order) -> Grid:
    """Show the fills of an order."""
    rows = [(fill.trade, fill.rental, fill.price, fill.gpus, fill.hours) for fill in order.fills]
    return Grid(("!Trade", "!Rental", ">US$/GPU-h", ">GPUs", ">Hours"), rows)


def quote(item: Quote, lots: int) -> Grid:
    """Show what a bid would cost."""
    best = f"{item.best_price} US$ per GPU-hour, excluding tax" if item.best_price else "no offer fits"
    return Grid(
        ("!Quote", ""),
        [
            ("Fills now", f"{item.fillable_lots} of {count(lots, 'lot')}"),
            ("Best price", best),
            ("Cost expected", f"{show_value(item.expected)}, tax included"),
            ("Held at most", f"{show_value(item.hold)}, of it {item.tax_percent} % tax: {show_value(item.tax)}"),
            ("Available", item.available),
            ("Lacking", item.shortfall),
        ],
    )


def rentals(items: Iterable[RentalView]) -> Grid:
    """Show rentals."""
    rows = [
        (
            rental.id,
            rental.role,
            f"{rental.gpus} × {rental.instrument}",
            f"{rental.charged_hours}/{rental.hours}",
            rental.cost,
            _state_short(rental),
            _end_short(rental),
            demo(rental.is_demo),
        )
        for rental in items
    ]
    return Grid(("!Rental", "!Role", "GPUs", ">Hours", ">Cost", "!State", "!Ends", ""), rows)


def count(number: int, noun: str) -> str:
    """Return a number of things: 1 lot, 2 lots."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rental_state(rental: RentalView) -> str:
    """Return the state of a rental in words: with its doubt, or why it ended."""
    if rental.is_in_doubt:
        return f"{rental.state} (host silent)"
    reason = rental.reason.replace("_", " ") if rental.reason else ""
    if rental.state is RentalState.WIPED:
        return f"ENDED ({', '.join(word for word in (reason, 'the workspace is gone') if word)})"
    return f"{rental.state} ({reason})" if reason else str(rental.state)


def _state_short(rental: RentalView) -> str:
    if rental.is_in_doubt:
        return "silent"
    if rental.reason:
        return _REASONS.get(rental.reason, rental.reason.replace("_", " "))
    return "ENDED" if rental.state is RentalState.WIPED else str(rental.state)


def _end_short(rental: RentalView) -> str:
    """Return when a rental ended, else when it will, without the year."""
    at = rental.ended_at or rental.ends_at
    return show_value(None) if at is None else f"{at:%m-%d %H:%M}Z"


def rental_facts(rental: RentalView) -> Grid:
    """Show one rental, a fact a line."""
    facts: list[tuple[str, object]] = [
        ("State", f"{rental_state(rental)} {demo(rental.is_demo)}".strip()),
        ("Role", rental.role),
        ("GPUs", f"{rental.gpus} × {rental.instrument} on {rental.host}"),
        ("Price", f"{rental.price} US$ per GPU-hour, excluding tax"),
        ("Hours", f"{rental.charged_hours} charged of {rental.hours}"),
        ("Cost so far", rental.cost),
        ("Held", rental.held),
        ("Opened", rental.opened_at),
        ("Starts by", rental.start_by),
        ("Started", rental.started_at),
        ("Ends", rental.ends_at) if rental.ended_at is None else ("Ended", rental.ended_at),
        ("Order", rental.order),
    ]
    return Grid(("!" + rental.id, ""), facts)


def wallet(item: Wallet) -> list[Grid]:
    """Show balances, and what runs."""
    rows = [(line.currency, line.available, line.held, line.pending, line.payable, line.debt) for line in item.balances]
    grids = [Grid(("Currency", ">Available", ">Held", ">Pending", ">Payable", ">Debt"), rows)]
    if item.burn_per_hour:
        burn = ", ".join(show_value(amount) for amount in item.burn_per_hour)
        left = "no end in sight" if item.hours_left is None else f"{item.hours_left} h at this rate"
        grids.append(Grid(("Runs per hour", "Lasts"), [(burn, left)]))
    return grids


def statement(items: Iterable[StatementLine]) -> Grid:
    """Show lines of a statement."""
    rows = [
        (line.at, line.kind, line.account, line.change, line.balance, line.currency, line.rental or line.order)
        for line in items
    ]
    return Grid(("!Time", "Kind", "Account", ">Change", ">Balance", "", "For"), rows)


def hosts(items: Iterable[HostView]) -> Grid:
    """Show hosts."""
    rows = [
        (
            host.id,
            f"{host.spec.gpus} × {host.instrument}",
            host.spec.country,
            "RETIRED" if host.is_retired else "SILENT" if host.is_silent else host.state,
            host.is_verified,
            f"{host.gpus_rented}/{host.spec.gpus}",
            f"{host.reliability / 10:.1f} %",
            host.ask,
            demo(host.is_demo),
        )
        for host in items
    ]
    return Grid(("!Host", "GPUs", "In", "State", "Verified", ">Rented", ">Reliable", "!Ask", ""), rows)


def keys(items: Iterable[Key]) -> Grid:
    """Show keys, never their secrets."""
    rows = [
        (key.id, key.name, key.prefix, " ".join(key.scopes), key.daily_cap, key.expires_at, key.revoked_at)
        for key in items
    ]
    return Grid(("!Key", "Name", "!Starts with", "Scopes", ">US$/day", "Expires", "Revoked"), rows)


def identity(item: Identity) -> Grid:
    """Show who a key acts for."""
    standing = [word for word, is_so in (("suspended", item.is_suspended), ("in debt", item.is_in_debt)) if is_so]
    return Grid(
        ("!" + item.party, ""),
        [
            ("Name", item.name),
            ("Role", "operator" if item.is_operator else "party"),
            ("Standing", ", ".join(standing) or "good"),
            ("Key", f"{item.key.id} ({item.key.name}), starts with {item.key.prefix}"),
            ("Scopes", " ".join(item.key.scopes)),
            ("Daily cap", f"{item.key.daily_cap} US$" if item.key.daily_cap else "none"),
            ("Expires", item.key.expires_at),
        ],
    )


def parties(items: Iterable[PartyView]) -> Grid:
    """Show parties."""
    rows = [(item.id, item.name, item.tax_id, item.is_suspended, item.is_in_debt, demo(item.is_demo)) for item in items]
    return Grid(("!Party", "Name", "Tax id", "Suspended", "In debt", ""), rows)


def status(item: Status) -> list[Grid]:
    """Show how the exchange stands."""
    facts: list[tuple[str, object]] = [
        ("Version", item.version),
        ("Leads", item.is_leader),
        ("Seq", f"{item.seq} in epoch {item.epoch}"),
        ("Digest", item.digest),
        ("Waiting", item.queue_depth),
        ("Open orders", item.open_orders),
        ("Live rentals", item.live_rentals),
        ("Held", ", ".join(show_value(amount) for amount in item.held)),
    ]
    lines = [
        (line.currency, line.sum, line.wallets, line.holds, line.sellers, line.revenue) for line in item.trial_balance
    ]
    return [
        Grid(("!Exchange", ""), facts),
        Grid(("Trial balance", ">Sum", ">Wallets", ">Holds", ">Sellers", ">Revenue"), lines),
    ]
