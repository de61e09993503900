"""The visible market for `make run`: books, last trades, rentals and balances, drawn about twice a second.

Plain text of at most 80 columns; on a terminal the picture is redrawn in place, colors only mark bids and asks and
stay off with NO_COLOR, TERM=dumb or without a terminal. The clock on the wall only paces the drawing; it decides
nothing.
"""

import os
import sys
import time
from datetime import UTC, datetime
from typing import Final

from bursa.market import SECOND_NS
from tests.sim.simulation import Simulation

FRAME_SECONDS: Final = 0.5
#: Most seconds of a frame spent simulating; the rest is left to the machine.
WORK_SECONDS: Final = 0.3
LEVELS: Final = 4
WIDTH: Final = 80
_HOME: Final = "\x1b[H"
_CLEAR: Final = "\x1b[2J\x1b[H"
_TO_END: Final = "\x1b[J"
_LINE_END: Final = "\x1b[K\n"
_GREEN: Final = "\x1b[32m"
_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"


def show(run: Simulation, frames: int) -> int:
    """Draw until the run is over, ``frames`` are drawn (0 = no limit) or Ctrl-C comes; return the number of frames."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in {"", "dumb"}
    is_colored = is_terminal and not os.environ.get("NO_COLOR")
    drawn = 0
    if is_terminal:
        sys.stdout.write(_CLEAR)
    try:
        while not run.is_over and (frames == 0 or drawn < frames):
            start = time.monotonic()
            while time.monotonic() < start + WORK_SECONDS and not run.is_over:
                run.step()
            drawn += 1
            _draw(frame_lines(run), is_terminal=is_terminal, is_colored=is_colored)
            time.sleep(max(0.0, FRAME_SECONDS - (time.monotonic() - start)) if frames == 0 else 0)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    return drawn


def frame_lines(run: Simulation) -> list[str]:
    """Return one picture of the market as lines of plain text, at most WIDTH wide."""
    mirror = run.mirror
    now = datetime.fromtimestamp(run.world.now_ns // SECOND_NS, UTC).strftime("%a %Y-%m-%d %H:%M:%S")
    lines = [f"bursa, simulated   {now} UTC   seed {run.options.seed}   {run.sent:,} commands", ""]
    for instrument, state in mirror.books.items():
        lines += _book_lines(run, instrument, state)
    lines += ["last trades"]
    for trade in list(mirror.last_trades)[-5:]:
        lines.append(
            f"  {trade.instrument:<10} {trade.gpus:>2} GPU x {trade.hours:>3} h @ {_price(trade.price_micros)}"
            f"   host {trade.host_id:<5} buyer {trade.buyer_id:<4} seller {trade.seller_id}"
        )
    gpus = sum(mirror.rentals[rental_id].trade.gpus for rental_id in mirror.live_rentals)
    counts = mirror.counts
    lines += [
        "",
        f"rentals running {len(mirror.live_rentals):,} ({gpus:,} GPUs), being wiped {len(mirror.unwiped):,}",
        f"trades {counts['trades']:,}, rentals lost with their host {counts['rentals host_lost']:,}",
        f"orders open {len(mirror.open_bids):,} bids, {len(mirror.open_asks):,} asks",
        f"auctions {counts['auctions']:,}, halts {counts['OPEN to HALTED']:,}",
    ]
    return [line[:WIDTH] for line in lines + _balance_lines(run)]


def _book_lines(run: Simulation, instrument: str, state: str) -> list[str]:
    depth = run.engine.depth(instrument)
    lines = [f"{instrument:<10} {state:<10}     bid     GPUs |     ask     GPUs"]
    if state in {"PREOPEN", "NO_CANCEL"}:
        view = run.engine.indicative(instrument)
        lines[0] += f"   indicative {_price(view.price_micros).strip()}, {view.gpu_hours:,} GPU-hours"
    for row in range(LEVELS):
        bid = f"{_price(depth.bids[row][0])} {depth.bids[row][1]:>8,}" if row < len(depth.bids) else " " * 17
        ask = f"{_price(depth.asks[row][0])} {depth.asks[row][1]:>8,}" if row < len(depth.asks) else " " * 17
        lines.append(f"{'':<22} {bid} | {ask}".rstrip())
    return [*lines, ""]


def _balance_lines(run: Simulation) -> list[str]:
    lines = []
    for currency, accounts in run.engine.balances().items():
        wallets = sum(micros for name, micros in accounts.items() if name.startswith("wallet:"))
        held = sum(micros for name, micros in accounts.items() if name.startswith(("hold:", "held:")))
        total = sum(accounts.values())
        lines.append(
            f"{currency}  in wallets {wallets / 1e6:>14,.2f}   held {held / 1e6:>12,.2f}   sum of all accounts {total}"
        )
    return lines


def _price(micros: int) -> str:
    return f"{micros // 1_000_000:>4}.{micros % 1_000_000 // 1_000:03}"


def _draw(lines: list[str], *, is_terminal: bool, is_colored: bool) -> None:
    if not is_terminal:
        sys.stdout.write("\n".join(lines) + "\n\n")
        sys.stdout.flush()
        return
    rows = os.get_terminal_size().lines - 1
    shown = [_colored(line) if is_colored else line for line in lines[:rows]]
    sys.stdout.write(_HOME + _LINE_END.join(shown) + _LINE_END + _TO_END)
    sys.stdout.flush()


def _colored(line: str) -> str:
    """Paint the two halves of a row of a book."""
    left, bar, right = line.partition(" | ")
    if not bar or not left.startswith(" "):
        return line
    return f"{_GREEN}{left}{_PLAIN}{bar}{_RED}{right}{_PLAIN}"
