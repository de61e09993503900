"""`bursa orders`: your bids and asks."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from typing import Final, Literal

from bursa.cli.commands import new_app
from bursa.cli.options import PAGE_VIEW, REACH, REPEAT, VIEW, PageView, Reach, Repeat, View

ORDERS_MAX: Final = 200

app = new_app("orders", "Your bids and asks.")


@app.command(name="list")
def list_(
    *,
    side: Literal["buy", "sell"] | None = None,
    state: str | None = None,
    gpu: str | None = None,
    view: PageView = PAGE_VIEW,
    reach: Reach = REACH,
) -> None:
    """List your orders, newest first.

    Parameters
    ----------
    side
        Only bids (buy) or asks (sell).
    state
        Only these: open, closed, or a state such as NEW, PARTIALLY_FILLED, FILLED, CANCELED, EXPIRED.
    gpu
        Only those for this GPU.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, require_limit
    from bursa.market import Side
    from bursa.sdk import orders

    call = orders.list_orders(
        side=Side(side.upper()) if side else None,
        state=state,
        instrument=gpu,
        limit=require_limit(view.limit, ORDERS_MAX),
        cursor=view.cursor,
    )
    page = Session(reach).ask(call)
    empty = "No orders. Rent: bursa buy h100-sxm --hours 1 --max-price 3.50"
    if any((side, state, gpu, view.cursor)):
        empty = "No orders match. All: bursa orders list"
    render.show_list(page, view, screens.orders(page.items), empty)


@app.command
def show(order: str, /, *, view: View = VIEW, reach: Reach = REACH) -> None:
    """Show one order with its fills.

    Parameters
    ----------
    order
        Id of the order, like ord_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import orders

    item = Session(reach).ask(orders.show_order(order))
    render.show(item, view, [screens.order_facts(item), screens.fills(item)])


@app.command
def cancel(order: str, /, *, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH) -> None:
    """Cancel what is left of an order and release what it holds. Rentals that it opened go on.

    Parameters
    ----------
    order
        Id of the order, like ord_17.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import orders

    item = Session(reach).ask(orders.cancel_order(order, idempotency_key=repeat.idempotency_key))
    render.show(item, view, [screens.order_facts(item)])
