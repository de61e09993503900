"""What the terminal takes literally, and how it says what went wrong and what to do next."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from bursa.cli import faults, screens
from bursa.cli.options import read_whole
from bursa.cli.program import as_called
from bursa.cli.terms import read_past
from bursa.errors import ApiError, InputError
from bursa.market import EndReason, OrderState, RentalState
from tests.api.stand import INSTRUMENT, Party
from tests.cli import test_screens, tree
from tests.cli.conftest import Run
from tests.sdk.served import Served

# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["1.5", "1.0", "0x10", "1e3", "-1", "+1", "1_0", "٢", "", "1234567890"])
@pytest.mark.parametrize("flag", ["--hours", "--gpus", "--lots", "--ram-gib"])
def test_a_whole_number_is_digits_and_never_rounded(run: Run, flag: str, text: str) -> None:
    flags = {"--hours": "1", "--max-price": "1", flag: text}
    said = run("buy", "x", *(f"{name}={value}" for name, value in flags.items()), "--explain")
    assert (said.code, said.out) == (2, "")
    assert said.err == f"error: {flag}: got {text!r}, expected a whole number like 2, of at most 9 digits\n"


def test_every_whole_number_of_every_command_is_read_so() -> None:
    found = 0
    for path, app in tree.walk():
        for argument in app.assemble_argument_collection(parse_docstring=True):
            if argument.parse and int in (argument.hint, *get_args(argument.hint)):
                assert argument.parameter.converter is read_whole, (path, argument.name)
                found += 1
    assert found > 20


def test_a_reference_price_is_not_erased_by_leaving_it_out(run: Run) -> None:
    said = run("admin", "instrument", INSTRUMENT, "--explain")
    assert (said.code, said.err.splitlines()[0]) == (2, "error: --reference-price is required")
    said = run("admin", "instrument", INSTRUMENT, "--reference-price", "0", "--explain")
    assert said.code == 0
    assert '"reference_price":"0' in said.out


def test_a_span_of_a_statement_looks_back() -> None:
    now = datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert read_past("2h", "--since", now) == now - timedelta(hours=2)
    assert read_past("2026-11-30", "--since", now) == datetime(2026, 11, 30, tzinfo=UTC)
    with pytest.raises(InputError, match="a span back from now"):
        read_past("yesterday", "--since", now)


@pytest.mark.parametrize("percent", ["120", "-1", "19 %", "1.23456"])
def test_a_vat_rate_is_a_percentage(run: Run, percent: str) -> None:
    said = run("admin", "party", "register", "Anna", "--country=DE", f"--vat={percent}", "--explain")
    assert said.code == 2
    assert said.err == f"error: --vat: got {percent!r}, expected a percentage from 0 to 99.9999\n"


# ── Command lines ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["buy", "x", "h100-sxm", "--hours", "1"], "nothing more is expected here: h100-sxm"),
        (["buy", "x", "--max-price", "1"], "--hours is required"),
        (["buy", "x", "--hours"], "--hours needs a value"),
        (["buy", "--hours", "1"], "GPU is required"),
    ],
)
def test_a_faulty_command_line_is_told_plainly(run: Run, line: list[str], told: str) -> None:
    said = run(*line)
    assert said.code == 2
    assert said.err == f"error: {told}\nnext: bursa buy --help\n"


@pytest.mark.parametrize("line", [["gpus", "list"], ["config", "show"], ["wallet", "show"]])
def test_a_configuration_that_is_not_there_is_named(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    monkeypatch.setenv("BURSA_CONFIG", str(home / "renter.toml"))
    said = run(*line)
    assert (said.code, said.out) == (2, "")
    assert f"BURSA_CONFIG={home}/renter.toml: got 'no file', expected a file that exists" in said.err


def test_a_login_writes_the_configuration_that_is_not_there(
    run: Run, served: Served, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = served.renter("0")
    monkeypatch.setenv("BURSA_CONFIG", str(home / "new" / "config.toml"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{party.key}\n"))
    assert run("login", "--url", served.url).code == 0
    assert party.id in run("whoami").out


def test_commands_are_named_by_the_program_that_was_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bursa"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert as_called("next: bursa up; a bursa of bursa") == f"next: {program} up; a bursa of bursa"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert as_called("next: bursa up") == "next: bursa up"


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("renter")
def test_a_refusal_says_each_thing_once_and_names_the_nearest_gpu(run: Run) -> None:
    said = run("bid", INSTRUMENT[:-1], "--hours", "1", "--price", "1.00").err.splitlines()[0]
    assert said.endswith(f"; did you mean {INSTRUMENT}? [UNKNOWN_INSTRUMENT]")
    assert said.startswith("error: No such instrument: instrument: got ")
    assert said.count("expected") == said.count(f"{INSTRUMENT[:-1]},") == 1


def test_a_gpu_that_is_not_in_the_catalog_is_nobodys(run: Run, served: Served) -> None:
    for line in (["gpus", "show", "rtx-9999"], ["market", "show", "rtx-9999"]):
        said = run(*line, "--url", served.url)
        assert said.code == 4
        assert "GPU: got rtx-9999, expected the name of a GPU in the catalog" in said.err


@pytest.mark.parametrize(
    ("lacking", "needed", "top_up"), [("2450.881", "2450.89", "2450.89"), ("0.001", "0.01", "5.00")]
)
def test_the_top_up_that_is_suggested_is_enough_and_is_taken(lacking: str, needed: str, top_up: str) -> None:
    shortfall = {"amount": lacking, "currency": "USD"}
    fault = ApiError("f", "v", "w", status=402, problem_code="INSUFFICIENT_FUNDS", title="T", shortfall=shortfall)
    assert faults.judge(fault)[1] == [
        f"error: T: {needed} USD more are needed [INSUFFICIENT_FUNDS]",
        f"next: add funds: bursa wallet top-up {top_up} --currency USD",
    ]


@pytest.mark.usefixtures("renter")
def test_the_commands_after_an_unfilled_purchase_can_be_pasted(run: Run) -> None:
    said = run("buy", INSTRUMENT, "--hours", "1", "--max-price", "1.01")
    step = said.err.splitlines()[1].removeprefix("next: see the offers: ")
    show, bid = step.split("; or wait for one: ")
    assert show == f"bursa market show {INSTRUMENT}"
    assert run(*show.split()[1:]).code == 0
    assert run(*bid.split()[1:]).code == 0


def test_a_wrong_key_is_not_sent_back_to_login(run: Run, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("bursa_1_wrong\n"))
    said = run("login", "--url", served.url)
    assert said.code == 3
    assert "bursa login" not in said.err


# ── Lists and facts ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("renter")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["orders", "list", "--side", "sell"], "No orders match. All: bursa orders list"),
        (["rentals", "list", "--role", "seller"], "No rentals match. All: bursa rentals list"),
        (["wallet", "statement", "--until", "2020-01-01"], "No lines match. All: bursa wallet statement"),
    ],
)
def test_a_filter_that_matches_nothing_sells_nothing(run: Run, line: list[str], told: str) -> None:
    assert run(*line).out == f"{told}\n"


def test_gpus_on_sale_are_those_with_an_offer(run: Run, served: Served) -> None:
    every = run("gpus", "list", "--url", served.url, "--csv").out.splitlines()
    on_sale = run("gpus", "list", "--on-sale", "--url", served.url, "--csv").out.splitlines()
    assert 1 < len(on_sale) < len(every)
    assert any(row.startswith(f"{INSTRUMENT},") for row in on_sale)


def test_an_ended_rental_is_told_once_with_its_end(run: Run, log_in: Callable[[Party], None], served: Served) -> None:
    log_in(served.renter("50"))
    rental = run("buy", INSTRUMENT, "--hours", "1", "--max-price", "2.00").out.split()[-1]
    assert run("rentals", "stop", rental).code == 0
    assert run("rentals", "watch", rental).out.count("Cost so far") == 1
    assert "stopped" in run("rentals", "list").out


def test_a_wiped_rental_ended_for_a_reason() -> None:
    ended = msgspec.structs.replace(
        test_screens.RENTAL,
        state=RentalState.WIPED,
        reason=EndReason.STOPPED_BY_RENTER,
        ends_at=None,
        ended_at=datetime(2026, 12, 2, 9, 30, tzinfo=UTC),
    )
    assert screens.rental_state(ended) == "ENDED (stopped by renter, the workspace is gone)"
    assert list(screens.rentals([ended]).rows[0])[5:7] == ["stopped", "12-02 09:30Z"]


def test_a_closed_order_does_not_expire() -> None:
    closed = msgspec.structs.replace(test_screens.BID, state=OrderState.FILLED, closed_at=test_screens.AT)
    names = [name for name, *_ in screens.order_facts(closed).rows]
    assert "Closed" in names
    assert "Expires" not in names


def test_one_of_a_thing_has_no_plural() -> None:
    assert [screens.count(number, "GPU") for number in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
