"""`bursa gpus`: the catalog with live prices."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from bursa.cli.commands import new_app
from bursa.cli.options import REACH, TABLE_VIEW, VIEW, Reach, TableView, View

app = new_app("gpus", "GPUs of the catalog with their best live price.")


@app.command(name="list")
def list_(*, on_sale: bool = False, view: TableView = TABLE_VIEW, reach: Reach = REACH) -> None:
    """List GPUs, each with the best live offer for one GPU and one hour.

    Parameters
    ----------
    on_sale
        Only those that somebody offers now.
    """
    import msgspec

    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import market

    page = Session(reach, is_public=True).ask(market.list_gpus())
    empty = "The catalog is empty."
    if on_sale:
        offered = [gpu for gpu in page.items if gpu.ticker is not None and gpu.ticker.best_ask is not None]
        page = msgspec.structs.replace(page, items=offered)
        empty = "Nothing is on sale now. All: bursa gpus list"
    render.show_list(page, view, screens.gpus(page.items), empty)


@app.command
def show(gpu: str, /, *, view: View = VIEW, reach: Reach = REACH) -> None:
    """Show one GPU: what it is, where that is known from, and its market.

    Parameters
    ----------
    gpu
        Name of the GPU, like h100-sxm.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import market

    item = Session(reach, is_public=True).ask(market.show_gpu(gpu))
    render.show(item, view, [screens.gpu(item)])
