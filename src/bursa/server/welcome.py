"""What `bursa up` prints when it is ready: where it is, who one can be, what to try. Pure text."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

import bursa
from bursa.config import Settings
from bursa.market import MarketView
from bursa.server.bootstrap import RENTER_FUNDS, Credentials, FirstStart
from bursa.wire import show_micros

#: Instruments to suggest, the best known first; whatever is on sale otherwise.
_SUGGESTED: Final = ("h100-sxm", "h100-pcie", "a100-80gb", "rtx-4090")
#: What the suggested limit lies above the best price, in percent: the price may move before it is tried.
_ABOVE_PERCENT: Final = 10
_MICROS_PER_CENT: Final = 10_000


def write_welcome(settings: Settings, url: str, first: FirstStart, view: MarketView) -> str:
    """Return the text; the keys are in it only where they were made just now."""
    bursa_command = find_command()
    parties = [party for party in (first.operator, first.renter) if party is not None]
    renewed = [party.path.name for party in parties if party.is_renewed]
    lines = [
        f"bursa {bursa.__version__} runs on {url}  (Ctrl-C stops it)",
        f"  data       {'PostgreSQL of BURSA_DATABASE_URL' if settings.database_url else settings.data_dir}",
        f"  market     {url}/v1/market",
        f"  API        {url}/v1/openapi.json",
        f"  health     {url}/v1/ready",
        "",
        *_show_party("operator", first.operator, ""),
    ]
    if first.renter is not None:
        lines += _show_party(
            "renter",
            first.renter,
            f", US${RENTER_FUNDS} of play money" if first.renter.secret and not first.renter.is_renewed else "",
        )
    if renewed:
        missing = "key files" if len(renewed) == len(parties) else renewed[0]
        lines += [f"  The folder had no {missing}: new keys were made; those made before still work."]
    if any(party.secret for party in parties):
        lines += ["  The keys are shown this once, and stored in these files, which only you can read."]
    else:
        place = "" if settings.database_url else f" --data {shlex.quote(str(settings.data_dir))}"
        make = f"{bursa_command} admin key create{place}"
        lines += [f"  Keys were printed at the first start; make another with: {make}"]
    actor = first.renter or first.operator
    lines += ["", "Try in a second shell:", "", f"  export BURSA_CONFIG={shlex.quote(str(actor.path))}"]
    lines += [f"  {bursa_command} {words}" for words in suggest(view)]
    return "\n".join([*lines, ""])


def suggest(view: MarketView) -> list[str]:
    """Return three commands that work as they stand: buy or bid, then rentals or orders, then the wallet."""
    tickers = {name: view.ticker(name) for name in view.instruments()}
    on_sale = {name: ticker.best_ask_micros for name, ticker in tickers.items() if ticker and ticker.best_ask_micros}
    for name in (*_SUGGESTED, *sorted(on_sale)):
        if price := on_sale.get(name):
            limit = -(-price * (100 + _ABOVE_PERCENT) // (100 * _MICROS_PER_CENT)) * _MICROS_PER_CENT
            return [f"buy {name} --gpus 1 --hours 1 --max-price {show_micros(limit)}", "rentals list", "wallet show"]
    for name in (*_SUGGESTED, *sorted(tickers)):
        if (ticker := tickers.get(name)) and ticker.reference_micros:
            shown = show_micros(ticker.reference_micros)
            return [f"bid {name} --gpus 1 --hours 1 --price {shown}", "orders list", "wallet show"]
    return ["market status", "orders list", "wallet show"]


def find_command() -> str:
    """Return how to call `bursa` from this folder: by its name if that is found, else by the shortest path."""
    script = Path(sys.executable).parent / "bursa"
    for folder in os.get_exec_path():
        candidate = Path(folder) / "bursa"
        if candidate.is_file():
            if not script.is_file() or candidate.samefile(script):
                return "bursa"
            break
    if not script.is_file():
        return "bursa"
    return shlex.quote(str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script))


def _show_party(what: str, party: Credentials, more: str) -> list[str]:
    key = f"  {party.secret}" if party.secret else ""
    return [f"  {what:9}  {party.party}{more}  {party.path}", *([f"  {'key':9}{key}"] if key else [])]
