"""`bursa rentals`: what runs, and what ran."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from bursa.cli.commands import new_app
from bursa.cli.exits import Exit
from bursa.cli.options import CONSENT, PAGE_VIEW, REACH, REPEAT, VIEW, Consent, PageView, Reach, Repeat, View, Whole

if TYPE_CHECKING:
    from bursa.cli.session import Session
    from bursa.wire import RentalView

RENTALS_MAX: Final = 200
_OVER: Final = frozenset({"ENDED", "FAILED", "WIPED"})

app = new_app("rentals", "Your rentals: watch, extend, stop.")


@app.command(name="list")
def list_(
    *,
    role: Literal["buyer", "seller"] | None = None,
    state: str | None = None,
    view: PageView = PAGE_VIEW,
    reach: Reach = REACH,
) -> None:
    """List your rentals, newest first.

    Parameters
    ----------
    role
        Only those that you rent (buyer) or let (seller).
    state
        Only these: live, over, or a state such as OPENED, STARTED, ENDED, FAILED.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.sdk import rentals

    roles: dict[str | None, Literal["BUYER", "SELLER"]] = {"buyer": "BUYER", "seller": "SELLER"}
    limit = require_limit(view.limit, RENTALS_MAX)
    call = rentals.list_rentals(role=roles.get(role), state=state, limit=limit, cursor=view.cursor)
    page = Session(reach).ask(call)
    empty = "No rentals. Rent: bursa buy h100-sxm --hours 1 --max-price 3.50"
    if any((role, state, view.cursor)):
        empty = "No rentals match. All: bursa rentals list"
    render.show_list(page, view, screens.rentals(page.items), empty)


@app.command
def show(rental: str, /, *, view: View = VIEW, reach: Reach = REACH) -> int:
    """Show one rental: state, cost so far, when it ends. Exit code 7 where it failed.

    Parameters
    ----------
    rental
        Id of the rental, like rnt_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import rentals

    item = Session(reach).ask(rentals.show_rental(rental))
    render.show(item, view, [screens.rental_facts(item)])
    return Exit.FAILED if item.state == "FAILED" else Exit.OK


@app.command
def watch(rental: str, /, *, view: View = VIEW, reach: Reach = REACH) -> int:
    """Follow a rental to its end: a line for each thing that happens. Ctrl-C stops watching, not the rental.

    Parameters
    ----------
    rental
        Id of the rental, like rnt_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, say
    from bursa.sdk import rentals

    session = Session(reach)
    item = session.ask(rentals.show_rental(rental))
    try:
        if item.state not in _OVER:
            if not view.json:
                render.print_grid(screens.rental_facts(item))
            _follow(session, item, view)
    except KeyboardInterrupt:
        say(f"Interrupted. {rental} goes on; to end it: bursa rentals stop {rental}")
        return Exit.INTERRUPTED
    item = session.ask(rentals.show_rental(rental))
    if view.json:
        render.write_line(item)
    else:
        render.print_grid(screens.rental_facts(item))
    return Exit.FAILED if item.state == "FAILED" or item.reason in {"host_lost", "start_failed"} else Exit.OK


def _follow(session: Session, rental: RentalView, view: View) -> None:
    """Show what happens to a rental from the seq on at which it was read, so that nothing in between is missed."""
    from bursa.cli import render, screens
    from bursa.sdk import parties

    with session.connect() as client:
        for happened in client.stream(parties.stream_events(after_seq=rental.seq)):
            mine = [event for event in happened.events if event.rental == rental.id]
            for event in mine:
                if view.json:
                    render.write_line(event)
                else:
                    render.write_text(f"{happened.at:%H:%M:%S}  {screens.event(event)}")
            if any(event.state in _OVER for event in mine):
                return


@app.command
def extend(
    rental: str,
    /,
    *,
    hours: Whole,
    max_price: str,
    consent: Consent = CONSENT,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Buy more hours on the same GPUs.

    Parameters
    ----------
    rental
        Id of the rental, like rnt_17.
    hours
        How many more hours.
    max_price
        Most to pay, in US$ per GPU-hour excluding tax.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, confirm
    from bursa.cli.terms import read_price
    from bursa.sdk import rentals
    from bursa.wire import ExtendRequest

    request = ExtendRequest(hours=hours, limit_price=read_price(max_price, "--max-price"))
    session = Session(reach)
    if not session.is_explaining:
        confirm(f"Extend {rental} by {hours} h at up to {request.limit_price} US$ per GPU-hour?", consent)
    item = session.ask(rentals.extend_rental(rental, request, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.rental_facts(item)])


@app.command(name="auto-extend")
def auto_extend(
    rental: str,
    /,
    *,
    hours: Whole,
    max_price: str = "0",
    cap: str = "0",
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """Extend a rental by itself at each end, up to a price and a cap.

    Parameters
    ----------
    rental
        Id of the rental, like rnt_17.
    hours
        How many hours at each end; 0 turns it off.
    max_price
        Most to pay, in US$ per GPU-hour excluding tax.
    cap
        Most to spend in all, tax included.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.cli.terms import read_price
    from bursa.sdk import rentals
    from bursa.wire import AutoExtendRequest

    is_off = hours == 0
    request = AutoExtendRequest(
        hours=hours,
        limit_price=read_price(max_price, "--max-price", is_zero_allowed=is_off),
        cap=read_price(cap, "--cap", is_zero_allowed=is_off),
    )
    item = Session(reach).ask(rentals.set_auto_extend(rental, request, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.rental_facts(item)])


@app.command
def stop(
    rental: str, /, *, consent: Consent = CONSENT, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH
) -> None:
    """End a rental now. Hours begun are charged, the rest of the hold is released.

    Parameters
    ----------
    rental
        Id of the rental, like rnt_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, confirm
    from bursa.sdk import rentals

    session = Session(reach)
    if not session.is_explaining:
        confirm(f"Stop {rental}? Hours begun are charged.", consent)
    item = session.ask(rentals.stop_rental(rental, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.rental_facts(item)])
