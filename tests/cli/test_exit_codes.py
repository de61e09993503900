"""Each exit code of surface.md, by a command line that leads to it, and what is said about it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from psycopg.conninfo import conninfo_to_dict

from bursa.cli import exits, main
from bursa.cli.exits import Exit
from bursa.cli.faults import judge
from bursa.cli.session import Session
from bursa.errors import (
    ApiError,
    BursaError,
    ConfigError,
    DatabaseUnavailableError,
    DataDirectoryError,
    InputError,
    LogError,
    NetworkError,
    QueueFullError,
)
from bursa.market import RentalState, TimeInForce
from bursa.wire import BidRequest
from tests.api.stand import INSTRUMENT
from tests.cli.conftest import Run
from tests.postgres import Database
from tests.sdk.served import Served

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "problems.json").read_text())
BURSA = [sys.executable, "-m", "bursa.cli"]


def test_codes_are_those_of_the_surface() -> None:
    assert {code.value for code in Exit} == {0, 1, 2, 3, 4, 5, 6, 7, 130}
    assert set(exits.MEANINGS) == set(Exit)


@pytest.mark.usefixtures("renter")
def test_0_done(run: Run) -> None:
    said = run("buy", INSTRUMENT, "--hours", "1", "--max-price", "2.00")
    assert (said.code, said.err) == (0, "")
    assert "1 of 1 lot filled" in said.out


@pytest.mark.usefixtures("renter")
def test_1_not_filled(run: Run) -> None:
    said = run("buy", INSTRUMENT, "--hours", "1", "--max-price", "1.01")
    assert said.code == 1
    assert "NOTHING_TO_FILL" in said.err
    assert "bursa market show" in said.err


@pytest.mark.usefixtures("renter")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["frobnicate"], "Unknown command"),
        (["buy", "x"], "--hours"),
        (["buy", "x", "--hours", "many", "--max-price", "1"], "--hours"),
        (["buy", "x", "--hours", "1"], "--max-price, --max-cost"),
        (["buy", "x", "--hours", "1", "--max-price", "1,50"], "--max-price"),
        (["buy", "x", "--hours", "1", "--max-price", "0"], "--max-price"),
        (["buy", "x", "--hours", "1", "--max-price", "1", "--currency", "DOGE"], "--currency"),
        (["bid", "x", "--hours", "1", "--price", "1", "--until", "tomorrow"], "--until"),
        (["bid", "x", "--hours", "1", "--price", "1", "--nope"], "--nope"),
        (["orders", "list", "--limit", "0"], "--limit"),
        (["orders", "list", "--limit", "201"], "--limit"),
        (["gpus", "list", "--url", "ftp://x"], "url"),
        (["config", "set", "key", "x"], "url"),
    ],
)
def test_2_usage(run: Run, line: list[str], told: str) -> None:
    said = run(*line)
    assert said.code == 2
    assert said.out == ""
    assert told in said.err
    assert len(said.err.splitlines()) <= 2
    assert "Traceback" not in said.err


@pytest.mark.usefixtures("renter")
def test_2_what_the_server_finds_wrong_is_named(run: Run) -> None:
    said = run("bid", INSTRUMENT, "--hours", "1", "--price", "1.00005", "--yes")
    assert said.code == 2
    assert "limit_price" in said.err
    assert "PRICE_NOT_ON_TICK" in said.err


def test_3_not_logged_in(run: Run, served: Served) -> None:
    said = run("wallet", "show", "--url", served.url)
    assert said.code == 3
    assert "bursa login" in said.err


def test_3_wrong_key(run: Run, served: Served) -> None:
    said = run("wallet", "show", "--url", served.url, "--key", "bursa_1_" + "x" * 43)
    assert said.code == 3
    assert "x" * 43 not in said.out + said.err


@pytest.mark.usefixtures("renter")
def test_3_not_allowed(run: Run) -> None:
    said = run("admin", "halt", INSTRUMENT)
    assert said.code == 3
    assert "bursa whoami" in said.err


@pytest.mark.usefixtures("renter")
@pytest.mark.parametrize(
    "line",
    [
        ["orders", "show", "ord_999999"],
        ["rentals", "show", "rnt_999999"],
        ["gpus", "show", "no-such-gpu"],
        ["market", "show", "no-such-gpu"],
        ["bid", "no-such-gpu", "--hours", "1", "--price", "1.00"],
    ],
)
def test_4_not_found(run: Run, line: list[str]) -> None:
    assert run(*line).code == 4


def test_4_a_key_for_a_party_that_is_not_there(run: Run, database: Database) -> None:
    """Made on the database itself, where no API answers."""
    parts = conninfo_to_dict(database.dsn("superuser"))
    host = quote(str(parts["host"]), safe="")
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={host}&port={parts['port']}"
    said = run("admin", "key", "create", "--party", "pty_999", "--database-url", url)
    assert (said.code, said.out) == (4, "")
    assert said.err.startswith("error: No such party: pty_999\n")
    assert run("admin", "key", "create", "--database-url", url).code == 2, "no exchange was ever started there"


@pytest.mark.usefixtures("renter")
def test_5_not_enough_funds(run: Run) -> None:
    said = run("bid", INSTRUMENT, "--hours", "700", "--price", "1.00")
    assert said.code == 5
    assert "bursa wallet top-up 733" in said.err, "100 are there, 833 with 19 % tax are needed"


@pytest.mark.usefixtures("renter")
def test_5_conflict(run: Run) -> None:
    order = json.loads(run("bid", INSTRUMENT, "--hours", "1", "--price", "1.00", "--json").out)["id"]
    assert run("orders", "cancel", order).code == 0
    assert run("orders", "cancel", order).code == 5


@pytest.mark.slow
def test_6_nobody_there(tmp_path: Path) -> None:
    line = [*BURSA, "gpus", "list", "--url", f"http+unix://{tmp_path}/nobody.sock"]
    said = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert (said.returncode, said.stdout) == (6, "")
    assert "bursa up" in said.stderr


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (InputError("f", "v", "w"), 2),
        (ConfigError("f", "v", "w"), 2),
        (DataDirectoryError("f", "v", "w"), 5),
        (LogError("f", "v", "w"), 1),
        (DatabaseUnavailableError("f", "v", "w"), 6),
        (QueueFullError("f", "v", "w"), 6),
        (NetworkError("f", "v", "w"), 6),
        (ApiError("f", "v", "w", status=429, problem_code="RATE_LIMITED", retry_after_s=9), 6),
        (ApiError("f", "v", "w", status=500, problem_code="INTERNAL", trace_id="t" * 32), 6),
        (ApiError("f", "v", "w", status=418, problem_code="TEAPOT"), 2),
    ],
)
def test_a_fault_has_its_code(fault: BursaError, code: int) -> None:
    found, lines = judge(fault)
    assert found == code
    assert 1 <= len(lines) <= 2


EXPECTED = {401: 3, 402: 5, 403: 3, 404: 4, 408: 6, 409: 5, 429: 6, 500: 6, 503: 6}
EXCEPTIONS = {"NOTHING_TO_FILL": 1, "UNKNOWN_INSTRUMENT": 4, "UNKNOWN_HOST": 4, "UNKNOWN_ORDER": 4, "UNKNOWN_RENTAL": 4}


def statuses() -> list[tuple[str, int]]:
    """Read code and status of each problem in the golden list."""
    found = []
    for code, problem in GOLDEN.items():
        found.append((code, problem["status"] if isinstance(problem, dict) else problem[0]))
    return found


@pytest.mark.parametrize(("problem_code", "status"), statuses())
def test_each_problem_of_the_api_has_its_exit_code(problem_code: str, status: int) -> None:
    code, _ = judge(ApiError("f", "v", "w", status=status, problem_code=problem_code))
    assert code == EXCEPTIONS.get(problem_code, EXPECTED.get(status, 2))


@pytest.mark.usefixtures("renter")
def test_7_a_failed_rental(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rental that fails by itself needs ten minutes; what the server would say then is put in its place."""
    run("buy", INSTRUMENT, "--hours", "1", "--max-price", "2.00")
    rental = json.loads(run("rentals", "list", "--json").out)["items"][0]["id"]
    ask = Session.ask
    monkeypatch.setattr(
        Session, "ask", lambda self, call: msgspec.structs.replace(ask(self, call), state=RentalState.FAILED)
    )
    assert run("rentals", "show", rental).code == 7
    assert run("rentals", "watch", rental).code == 7


@pytest.mark.slow
def test_130_interrupted_says_that_the_rental_goes_on(served: Served, home: Path) -> None:
    """A real Ctrl-C, by a real terminal."""
    party = served.renter("50")
    with served.client(party) as client:
        buy = BidRequest(instrument=INSTRUMENT, gpus=1, hours=1, limit_price="2.00", time_in_force=TimeInForce.IOC)
        rental = client.place_bid(buy).fills[0].rental
        environment = {
            **os.environ,
            "BURSA_URL": served.url,
            "BURSA_KEY": party.key,
            "BURSA_CONFIG": str(home / "config.toml"),
        }
        process = subprocess.Popen(
            [*BURSA, "rentals", "watch", rental],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        while "Order" not in process.stdout.readline():  # the last line of the first picture
            assert process.poll() is None
        process.send_signal(2)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert f"{rental} goes on" in err
        assert client.show_rental(rental).ended_at is None


def test_a_reader_that_has_seen_enough_is_no_fault(served: Served, home: Path) -> None:
    environment = {**os.environ, "BURSA_URL": served.url, "BURSA_CONFIG": str(home / "config.toml")}
    line = f"{sys.executable} -m bursa.cli gpus list --json | head -c 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{", b"")


def answer_at_a_terminal(line: list[str], answer: bytes, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command line at a terminal of its own, type an answer when it asks, and return code and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*BURSA, *line], environment)  # noqa: S606 - a terminal needs a fork of its own
    said, is_answered = b"", False
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not chunk:
            break
        said += chunk
        if b"[y/N]" in said and not is_answered:
            os.write(terminal, answer)
            is_answered = True
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said.decode()


@pytest.mark.slow
def test_a_person_is_asked_before_funds_are_held(served: Served) -> None:
    party = served.renter("50")
    environment = {**os.environ, "BURSA_URL": served.url, "BURSA_KEY": party.key, "TERM": "dumb"}
    line = ["bid", INSTRUMENT, "--hours", "1", "--price", "1.00"]
    code, said = answer_at_a_terminal(line, b"n\n", environment)
    assert (code, "1.19 USD held at most" in said, "Nothing was done" in said) == (1, True, True)
    with served.client(party) as client:
        assert client.list_orders().items == []
        code, said = answer_at_a_terminal(line, b"y\n", environment)
        assert code == 0
        assert len(client.list_orders().items) == 1
        code, said = answer_at_a_terminal([*line, "--yes"], b"", environment)
        assert (code, "[y/N]" in said) == (0, False)


def test_main_returns_what_the_process_ends_with() -> None:
    assert main(["--version"]) == 0
