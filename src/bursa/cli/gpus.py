"""`bursa gpus`: the catalog with live prices."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from bursa.cli.commands import new_app
from bursa.cli.options import REACH, TABLE_VIEW, VIEW, Reach, TableView, View

app = new_app("gpus", "GPUs of the catalog with their best live price.")


@app.command(name="list")
def list_(*, view: TableView = TABLE_VIEW, reach: Reach = REACH) -> None:
    """List GPUs, each with the best live offer for one GPU and one hour."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import market

    page = Session(reach, is_public=True).ask(market.list_gpus())
    render.show_list(page, view, screens.gpus(page.items), "The catalog is empty.")


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
