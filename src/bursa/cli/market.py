"""`bursa market`: books, trades, state."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bursa.cli.commands import new_app
from bursa.cli.options import PAGE_VIEW, REACH, TABLE_VIEW, VIEW, PageView, Reach, TableView, View, Whole

if TYPE_CHECKING:
    from bursa.cli.session import Session

LEVELS_MAX: Final = 200
TRADES_MAX: Final = 200
#: Pictures of a watched book in a second.
FRAMES_PER_S: Final = 8

app = new_app("market", "Books, trades, state of the market.")


@app.command
def show(gpu: str, /, *, levels: Whole = 10, watch: bool = False, view: View = VIEW, reach: Reach = REACH) -> None:
    """Show the book of a GPU: bids and asks by price, in US$ per GPU-hour excluding tax.

    Parameters
    ----------
    gpu
        Name of the GPU, like h100-sxm.
    levels
        Most prices to show on each side.
    watch
        Stay, and show every change; with --json one message a line. Ctrl-C ends it.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.sdk import market

    require_limit(levels, LEVELS_MAX)
    session = Session(reach, is_public=True)
    if watch:
        _watch(session, gpu, levels, view)
        return
    book = session.ask(market.show_book(gpu, levels=levels))
    empty = f"{book.instrument}: {book.state}, no orders.\nBe the first: bursa bid {gpu} --hours 1 --price 1.00"
    render.show(book, view, [screens.book(book)], empty)


def _watch(session: Session, gpu: str, levels: Whole, view: View) -> None:
    """Follow a book: JSON Lines, a picture that changes in place, or a line a change where there is no terminal."""
    import msgspec
    from rich.live import Live

    from bursa.cli import render, screens
    from bursa.sdk import LiveBook, market

    call = market.stream_market(gpu)
    if session.is_explaining:
        session.ask(call)
    console = render.make_console()
    if view.json or not console.is_terminal or console.is_dumb_terminal:
        with session.connect() as client:
            for message in client.stream(call):
                if view.json:
                    render.write_line(message)
                else:
                    render.write_text(screens.change(message))
        return
    live_book = LiveBook()
    with session.connect() as client, Live(console=console, refresh_per_second=FRAMES_PER_S, screen=False) as live:
        for message in client.stream(call):
            if live_book.apply(message) and live_book.book is not None:
                book = live_book.book
                shown = msgspec.structs.replace(book, bids=book.bids[:levels], asks=book.asks[:levels])
                live.update(render.make_table(screens.book(shown)))


@app.command
def trades(gpu: str, /, *, view: PageView = PAGE_VIEW, reach: Reach = REACH) -> None:
    """List trades of a GPU, newest first.

    Parameters
    ----------
    gpu
        Name of the GPU, like h100-sxm.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.sdk import market

    limit = require_limit(view.limit, TRADES_MAX)
    page = Session(reach, is_public=True).ask(market.list_trades(gpu, limit=limit, cursor=view.cursor))
    empty = f"No trade of {gpu} yet. See the offers: bursa market show {gpu}"
    render.show_list(page, view, screens.trades(page.items), empty)


@app.command
def status(*, view: TableView = TABLE_VIEW, reach: Reach = REACH) -> None:
    """Show the state of every book: open or not, best prices, last price, volume of 24 h in GPU-hours."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import market

    page = Session(reach, is_public=True).ask(market.list_tickers())
    empty = "No book yet. The operator lists one: bursa admin instrument h100-sxm"
    render.show_list(page, view, screens.tickers(page.items), empty)
