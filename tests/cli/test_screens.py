"""What people see of fixed answers, 80 columns wide and without color: tests/cli/screens.txt.

python -m tests.cli.test_screens      writes the file anew; its diff is reviewed
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from bursa.cli import render, screens
from bursa.cli.options import TableView, View
from bursa.market import (
    BookState,
    EndReason,
    EntryKind,
    HostState,
    OrderState,
    RentalState,
    Side,
    TimeInForce,
)
from bursa.money import Currency
from bursa.wire import (
    Amount,
    Balance,
    BookView,
    Fill,
    FilterSet,
    Gpu,
    GpuPage,
    HostFacts,
    HostPage,
    HostView,
    Identity,
    Key,
    KeyPage,
    Level,
    Order,
    OrderPage,
    PartyPage,
    PartyView,
    PublicTrade,
    Quote,
    RentalPage,
    RentalView,
    Scope,
    StatementLine,
    StatementPage,
    Status,
    Ticker,
    TickerPage,
    TradePage,
    TrialBalance,
    Wallet,
)

GOLDEN = Path(__file__).parent / "screens.txt"
AT = datetime(2026, 12, 1, 12, 0, 5, tzinfo=UTC)
USD = Currency.USD


def usd(amount: str) -> Amount:
    return Amount(amount, USD)


TICKER = Ticker(
    instrument="h100-sxm",
    state=BookState.OPEN,
    best_ask="2.88",
    best_bid="2.50",
    last_price="2.80",
    reference_price="2.85",
    gpus_on_sale=64,
    gpus_wanted=8,
    volume_gpu_hours=12_345,
    until=None,
    is_demo=True,
    seq=17,
    at=AT,
)
HALTED = msgspec.structs.replace(
    TICKER, instrument="rtx-pro-6000-blackwell", state=BookState.HALTED, best_ask=None, is_demo=False, until=AT
)
GPU = Gpu("h100-sxm", "NVIDIA H100 SXM", "NVIDIA", "Hopper", 80.0, "HBM3", 3350.0, "https://nvidia.com/h100", TICKER)
GPUS = [
    GPU,
    msgspec.structs.replace(
        GPU, slug="rtx-pro-6000-blackwell", architecture="Blackwell", memory_gb=96.0, ticker=HALTED
    ),
    msgspec.structs.replace(GPU, slug="mi300x", architecture="CDNA 3", memory_gb=192.0, ticker=None),
]
BOOK = BookView(
    "h100-sxm",
    BookState.OPEN,
    [Level("2.50", 8), Level("2.40", 1)],
    [Level("2.88", 64, is_demo=True), Level("3.00", 8), Level("10.125", 1)],
    17,
    AT,
)
TRADE = PublicTrade("trd_3", "h100-sxm", "2.80", 8, 24, "BUY", AT, 16, is_demo=True)
BID = Order(
    id="ord_17",
    side=Side.BUY,
    instrument="rtx-pro-6000-blackwell",
    state=OrderState.PARTIALLY_FILLED,
    price="2.88",
    gpus=8,
    hours=720,
    quantity=64,
    filled=1,
    leaves=63,
    canceled=0,
    currency=USD,
    time_in_force=TimeInForce.GTC,
    expires_at=AT,
    placed_at=AT,
    closed_at=None,
    held=usd("1243054.08"),
    filters=FilterSet(),
    offers=[],
    min_gpus=0,
    min_hours=0,
    max_hours=0,
    price_lock_hours=0,
    fills=[Fill("trd_3", "rnt_4", "2.80", 8, 720)],
    seq=17,
)
ASK = msgspec.structs.replace(
    BID, id="ord_18", side=Side.SELL, quantity=8, held=None, min_hours=1, max_hours=720, leaves=7, fills=[]
)
RENTAL = RentalView(
    id="rnt_4",
    role="BUYER",
    order="ord_17",
    host="hst_2",
    instrument="h100-sxm",
    gpus=8,
    hours=24,
    price="2.80",
    currency=USD,
    state=RentalState.STARTED,
    is_in_doubt=False,
    is_demo=True,
    reason=None,
    charged_hours=3,
    cost=usd("79.97"),
    held=usd("559.78"),
    opened_at=AT,
    start_by=AT,
    started_at=AT,
    ends_at=AT,
    ended_at=None,
    seq=18,
)
LOST = msgspec.structs.replace(
    RENTAL, id="rnt_5", state=RentalState.FAILED, reason=EndReason.HOST_LOST, is_demo=False, ended_at=AT, cost=None
)
WALLET = Wallet("pty_2", [Balance(USD, "419.25", "559.78", "0.00", "0.00", "0.00")], [usd("26.66")], 15, True, 18)
LINE = StatementLine(
    "ent_9", AT, EntryKind.HOURS_CHARGED, "wallet", "-26.656", USD, "419.25", "ord_17", "rnt_4", "", 18
)
HOST = HostView(
    "hst_2",
    "h100-sxm",
    HostState.HEALTHY,
    True,
    False,
    False,
    True,
    987,
    3,
    "ord_18",
    HostFacts(gpus=8, country="DE"),
    9,
)
KEY = Key("key_3", "laptop", "bursa_3_ab", list(Scope), "100.00", AT, None, None, None)
QUOTE = Quote(usd("6.86"), usd("5.76"), usd("1.10"), "19", 1, "2.80", usd("6.67"), usd("5.00"), usd("1.86"), None)
STATUS = Status(
    "0.1.0",
    3,
    1234,
    "ab" * 32,
    True,
    0,
    5,
    2,
    [TrialBalance(USD, "0.00", "1.00", "2.00", "3.00", "-6.00")],
    [usd("9.00")],
)
PARTY = PartyView("pty_2", "Anna", "DE123", False, True, False, 5)
IDENTITY = Identity("pty_2", "Anna", KEY, False, False, True)

SCREENS: dict[str, tuple[msgspec.Struct, list[render.Grid]]] = {
    "gpus list": (GpuPage(GPUS, None), [screens.gpus(GPUS)]),
    "gpus show": (GPU, [screens.gpu(GPU)]),
    "market show": (BOOK, [screens.book(BOOK)]),
    "market trades": (TradePage([TRADE], None), [screens.trades([TRADE])]),
    "market status": (TickerPage([TICKER, HALTED], None), [screens.tickers([TICKER, HALTED])]),
    "orders list": (OrderPage([BID, ASK], None), [screens.orders([BID, ASK])]),
    "orders show": (BID, [screens.order_facts(BID), screens.fills(BID)]),
    "orders show, an ask": (ASK, [screens.order_facts(ASK)]),
    "buy --dry-run": (QUOTE, [screens.quote(QUOTE, 1)]),
    "rentals list": (RentalPage([RENTAL, LOST], None), [screens.rentals([RENTAL, LOST])]),
    "rentals show": (RENTAL, [screens.rental_facts(RENTAL)]),
    "wallet show": (WALLET, screens.wallet(WALLET)),
    "wallet statement": (StatementPage([LINE], None), [screens.statement([LINE])]),
    "host list": (HostPage([HOST], None), [screens.hosts([HOST])]),
    "key list": (KeyPage([KEY], None), [screens.keys([KEY])]),
    "whoami": (IDENTITY, [screens.identity(IDENTITY)]),
    "admin party list": (PartyPage([PARTY], None), [screens.parties([PARTY])]),
    "admin status": (STATUS, screens.status(STATUS)),
}
LISTS = [name for name, (answer, _) in SCREENS.items() if type(answer).__name__.endswith("Page")]


def draw(name: str) -> str:
    return said(lambda: render.show(SCREENS[name][0], View(), SCREENS[name][1]))


def said(work: Callable[[], None]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": "80"}):
        work()
    return out.getvalue()


def write_all() -> str:
    return "\n".join(f"$ bursa {name}\n{_trimmed(draw(name))}" for name in SCREENS)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def test_the_screens_are_the_golden_ones() -> None:
    assert write_all() == GOLDEN.read_text(), "what people see changed: run this module and have the diff reviewed"


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_80_columns_and_has_no_colors(name: str) -> None:
    text = draw(name)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "name", ["gpus list", "market show", "market trades", "market status", "rentals list", "host list"]
)
def test_what_is_simulated_says_so(name: str) -> None:
    assert "demo" in draw(name)


@pytest.mark.parametrize("name", SCREENS)
def test_json_is_the_answer_of_the_api(name: str) -> None:
    answer = SCREENS[name][0]
    told = json.loads(said(lambda: render.show(answer, View(json=True), [])))
    assert told == json.loads(msgspec.json.encode(answer))


@pytest.mark.parametrize("name", LISTS)
def test_csv_has_a_column_a_field_and_a_line_an_item(name: str) -> None:
    answer, grids = SCREENS[name]
    lines = said(lambda: render.show_list(answer, TableView(csv=True), grids[0], "")).splitlines()
    widths = {len(line.split(",")) for line in lines if '"' not in line}
    assert len(widths) == 1
    assert len(lines) == 1 + len(answer.items)  # type: ignore[attr-defined]


def test_a_cell_that_a_spreadsheet_would_run_is_quoted() -> None:
    evil = msgspec.structs.replace(PARTY, name='=HYPERLINK("x")', tax_id="@SUM(1)")
    text = said(lambda: render.write_csv(PartyView, [evil]))
    assert "\"'=HYPERLINK(" in text
    assert "'@SUM(1)" in text
    # A negative number stays one.
    assert ",-26.656," in said(lambda: render.write_csv(StatementLine, [LINE]))


def test_a_name_cannot_steer_a_terminal() -> None:
    evil = msgspec.structs.replace(PARTY, name="\x1b[2J[red]\r\nAnna")
    text = said(lambda: render.print_grid(screens.parties([evil])))
    assert "\x1b" not in text
    assert "[red]" in text
    assert "\r" not in text


def test_a_number_is_never_cut_short() -> None:
    """Half a price is another price: a table that cannot fit is wider than the terminal instead."""
    row = ("an-instrument-with-a-long-name", "1234567890.123456", "words that may be folded", "9876543210.654321")
    text = said(lambda: render.print_grid(render.Grid(("!Id", ">Price", "Text", ">Sum"), [row, row])))
    assert all(text.count(cell) == 2 for cell in (row[0], row[1], row[3]))
    wide = render.Grid(("!Id", ">Price", "Text", ">Sum"), [("x" * 40, "1" * 30, "text", "2" * 30)])
    assert "2" * 30 in said(lambda: render.print_grid(wide))


if __name__ == "__main__":
    GOLDEN.write_text(write_all())
