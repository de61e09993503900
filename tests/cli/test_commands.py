"""The commands against a running exchange: what they do there, and that they say what the API says."""

from __future__ import annotations

import csv
import io
import json
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bursa.sdk import Client
from bursa.wire import AskRequest, Offer, OwnEventKind, StreamSnapshot
from tests.api.stand import INSTRUMENT, Party, make_host
from tests.cli import tree
from tests.cli.conftest import Run
from tests.sdk.served import Served

ROOT = Path(__file__).parent.parent.parent
READING = [
    ["gpus", "list"],
    ["gpus", "show", INSTRUMENT],
    ["market", "show", INSTRUMENT],
    ["market", "trades", INSTRUMENT],
    ["market", "status"],
    ["orders", "list"],
    ["rentals", "list"],
    ["wallet", "show"],
    ["wallet", "statement"],
    ["host", "list"],
    ["key", "list"],
    ["whoami"],
    ["config", "show"],
]
TABLES = [line for line in READING if line != ["whoami"] and line[1:] != ["show", INSTRUMENT]]


@pytest.mark.usefixtures("renter")
@pytest.mark.parametrize("line", READING)
def test_every_reading_verb_speaks_json(run: Run, line: list[str]) -> None:
    said = run(*line, "--json")
    assert said.code == 0
    assert json.loads(said.out)


@pytest.mark.usefixtures("renter")
@pytest.mark.parametrize("line", TABLES)
def test_every_table_speaks_csv(run: Run, line: list[str]) -> None:
    said = run(*line, "--csv")
    assert said.code == 0
    rows = list(csv.reader(io.StringIO(said.out)))
    assert rows
    assert {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.usefixtures("renter")
@pytest.mark.parametrize("line", READING)
def test_every_reading_verb_fits_80_columns(run: Run, line: list[str]) -> None:
    said = run(*line)
    assert said.code == 0
    assert max(len(text) for text in said.out.splitlines()) <= 80
    assert "\x1b" not in said.out


def test_json_is_what_the_api_answers(run: Run, served: Served, renter: Party) -> None:
    run("bid", INSTRUMENT, "--hours", "1", "--price", "1.00")
    answer = served.stand.call("GET", "/v1/orders?limit=50", party=renter).json()
    assert json.loads(run("orders", "list", "--json").out) == answer


@pytest.mark.usefixtures("renter")
@pytest.mark.parametrize(
    ("line", "step"),
    [
        (["orders", "list"], "bursa buy"),
        (["rentals", "list"], "bursa buy"),
        (["host", "list"], "list_host"),
    ],
)
def test_an_empty_list_says_the_next_step(run: Run, line: list[str], step: str) -> None:
    assert step in run(*line).out


def test_an_empty_wallet_says_the_next_step(run: Run, served: Served, log_in: Callable[[Party], None]) -> None:
    log_in(served.renter("0"))
    assert "bursa wallet top-up" in run("wallet", "show").out


# ── Trading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("renter")
def test_a_purchase_by_cost_holds_no_more_than_that(run: Run) -> None:
    said = run("buy", INSTRUMENT, "--hours", "2", "--max-cost", "5.00", "--json")
    assert said.code == 0, said.err
    order = json.loads(said.out)
    # 2 h at the limit, with 19 % tax, is at most 5.00; the offers stand at 2.00, which is also the most that is useful.
    assert (order["price"], order["filled"], order["fills"][0]["price"]) == ("2.00", 1, "2.00")
    assert run("buy", INSTRUMENT, "--hours", "2", "--max-cost", "4.76").code == 0, "exactly 2 × 2.00 × 1.19"
    said = run("buy", INSTRUMENT, "--hours", "2", "--max-cost", "4.75")
    assert said.code == 1
    assert "4.75 USD is not enough" in said.err
    assert len(json.loads(run("rentals", "list", "--json").out)["items"]) == 2


@pytest.mark.usefixtures("renter")
def test_a_dry_run_changes_nothing(run: Run) -> None:
    said = run("buy", INSTRUMENT, "--hours", "1", "--max-price", "2.50", "--dry-run", "--json")
    assert said.code == 0
    assert json.loads(said.out)["hold"] == {"amount": "2.975", "currency": "USD"}
    assert run("buy", INSTRUMENT, "--hours", "1", "--max-price", "1.00", "--dry-run").code == 1
    assert run("bid", INSTRUMENT, "--hours", "1", "--price", "1.00", "--dry-run").code == 0
    assert json.loads(run("orders", "list", "--json").out)["items"] == []


@pytest.mark.usefixtures("renter")
def test_a_rental_from_purchase_to_end(run: Run) -> None:
    said = run("buy", INSTRUMENT, "--hours", "2", "--max-price", "2.00")
    match = re.search(r"bursa rentals watch (rnt_\d+)", said.out)
    assert match is not None
    rental = match[1]
    assert rental in run("rentals", "list", "--state", "live").out
    shown = json.loads(run("rentals", "extend", rental, "--hours", "1", "--max-price", "2.00", "--json").out)
    assert shown["hours"] == 3
    assert run("rentals", "auto-extend", rental, "--hours", "0").code == 0
    stopped = json.loads(run("rentals", "stop", rental, "--json").out)
    assert stopped["reason"] == "stopped_by_renter"
    assert run("rentals", "watch", rental).code == 0
    assert run("rentals", "stop", rental).code == 5


@pytest.mark.usefixtures("renter")
def test_a_bid_waits_with_its_terms_and_can_be_canceled(run: Run) -> None:
    line = ["bid", INSTRUMENT, "--hours", "3", "--gpus", "2", "--price", "1.00", "--until", "6h", "--region", "de"]
    said = run(*line, "--region", "EU", "--verified", "--ram-gib", "64", "--json")
    assert said.code == 0, said.err
    order = json.loads(said.out)
    assert order["time_in_force"] == "GTD"
    assert order["filters"] == {"regions": ["DE", "EU"], "verified_only": True, "ram_gib_min": 64}
    canceled = json.loads(run("orders", "cancel", order["id"], "--json").out)
    assert canceled["state"] == "CANCELED"
    assert "CANCELED" in run("orders", "show", order["id"]).out


@pytest.mark.usefixtures("renter")
def test_a_request_with_a_name_is_carried_out_once(run: Run) -> None:
    line = ["bid", INSTRUMENT, "--hours", "1", "--price", "1.00", "--idempotency-key", "monday", "--json"]
    assert run(*line).out == run(*line).out
    line[5] = "1.01"
    assert run(*line).code == 5


def test_a_seller_offers_a_host(run: Run, served: Served, log_in: Callable[[Party], None]) -> None:
    party = served.stand.register()
    host = make_host(served.stand, party)
    log_in(party)
    order = json.loads(run("ask", host, "--price", "9.50", "--max-hours", "48", "--json").out)
    assert (order["side"], order["quantity"], order["max_hours"]) == ("SELL", 16, 48)
    assert order["id"] in run("host", "list").out
    assert run("orders", "cancel", order["id"]).code == 0


@pytest.mark.usefixtures("renter")
def test_funds_and_where_they_went(run: Run) -> None:
    assert json.loads(run("wallet", "top-up", "12.50", "--json").out)["amount"] == {
        "amount": "12.50",
        "currency": "USD",
    }
    for _ in range(3):
        run("bid", INSTRUMENT, "--hours", "1", "--price", "1.00")
    wallet = json.loads(run("wallet", "show", "--json").out)["balances"][0]
    assert (wallet["available"], wallet["held"]) == ("108.93", "3.57")
    lines = [
        json.loads(line) for line in run("wallet", "statement", "--every", "--json", "--limit", "2").out.splitlines()
    ]
    assert len(lines) > 2
    rows = list(csv.DictReader(io.StringIO(run("wallet", "statement", "--every", "--csv", "--limit", "2").out)))
    assert [row["entry"] for row in rows] == [line["entry"] for line in lines]
    page = run("wallet", "statement", "--limit", "2")
    match = re.search(r"--cursor (\S+)", page.err)
    assert match is not None
    second = json.loads(run("wallet", "statement", "--limit", "2", "--cursor", match[1], "--json").out)
    assert second["items"] == lines[2:4]


# ── --explain ────────────────────────────────────────────────────────────────────────────────────────────────────────

CHANGING = [
    ["buy", INSTRUMENT, "--hours", "1", "--max-price", "2.00"],
    ["buy", INSTRUMENT, "--hours", "1", "--max-cost", "2.00"],
    ["bid", INSTRUMENT, "--hours", "1", "--price", "1.00"],
    ["ask", "hst_1", "--price", "1.00", "--gpus", "1"],
    ["orders", "cancel", "ord_1"],
    ["rentals", "stop", "rnt_1"],
    ["rentals", "extend", "rnt_1", "--hours", "1", "--max-price", "2"],
    ["wallet", "top-up", "10"],
    ["key", "create", "--name", "it's", "--scope", "read"],
    ["key", "revoke", "key_1"],
    ["admin", "open", INSTRUMENT],
    ["admin", "party", "register", "Anna", "--country", "DE", "--vat", "19"],
]


@pytest.mark.parametrize("line", [*READING[:-1], *CHANGING])
def test_an_explained_call_is_shown_and_not_sent(run: Run, served: Served, renter: Party, line: list[str]) -> None:
    before = served.stand.exchange.node.seq
    said = run(*line, "--explain")
    assert said.code == 0, said.err
    assert said.out.startswith(("curl ", "# "))
    assert renter.key not in said.out
    assert "bursa_…" in said.out
    assert served.stand.exchange.node.seq == before


@pytest.mark.slow
def test_an_explained_call_works_when_the_key_is_put_in(run: Run, renter: Party) -> None:
    text = run("wallet", "top-up", "10", "--explain").out.replace("bursa_…", renter.key)
    done = subprocess.run(["bash", "-c", text.replace("curl ", "curl -sS ", 1)], capture_output=True, check=True)
    assert json.loads(done.stdout)["amount"]["amount"] == "10.00"


# ── Who one is ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_login_remembers_and_logout_forgets(
    run: Run, served: Served, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = served.renter("0")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{party.key}\n"))
    said = run("login", "--url", served.url)
    assert said.code == 0, said.err
    file = home / "config.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert party.key not in said.out + said.err
    assert json.loads(run("whoami", "--json").out)["party"] == party.id
    assert party.key not in run("config", "show").out
    assert str(file) in run("config", "show", "--csv").out
    assert run("logout").code == 0
    assert party.key not in file.read_text()
    assert run("whoami").code == 3


def test_a_wrong_key_is_not_remembered(run: Run, served: Served, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("bursa_1_wrong\n"))
    assert run("login", "--url", served.url).code == 3
    assert (home / "config.toml").read_text() == ""


def test_flags_win_over_environment_over_project_over_user(
    run: Run, served: Served, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (served.renter("0") for _ in range(3))
    (home / "config.toml").write_text(f'url = "http://user.test"\nkey = "{first.key}"\n')
    (home / "bursa.toml").write_text(f'url = "{served.url}"\n')
    assert json.loads(run("whoami", "--json").out)["party"] == first.id
    monkeypatch.setenv("BURSA_KEY", second.key)
    assert json.loads(run("whoami", "--json").out)["party"] == second.id
    assert json.loads(run("whoami", "--json", "--key", third.key).out)["party"] == third.id


def test_another_exchange_does_not_get_the_key_of_this_one(run: Run, home: Path) -> None:
    (home / "config.toml").write_text('url = "http://a.test"\nkey = "bursa_1_secret"\n')
    said = run("config", "set", "url", "http://b.test")
    assert said.code == 0
    assert "bursa login" in said.err
    assert "secret" not in (home / "config.toml").read_text()


def test_a_new_key_is_shown_once(run: Run, served: Served, renter: Party) -> None:
    made = run("key", "create", "--name", "script", "--scope", "read", "--daily-cap", "10", "--until", "30d")
    assert made.code == 0
    with Client(served.url, made.out.strip()) as client:
        identity = client.whoami()
    assert (identity.party, identity.key.daily_cap) == (renter.id, "10.00")
    assert made.out.strip() not in run("key", "list").out
    assert run("key", "revoke", identity.key.id).code == 0
    assert run("whoami", "--key", made.out.strip()).code == 3


# ── The operator ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_operator_runs_a_book(run: Run, served: Served, log_in: Callable[[Party], None]) -> None:
    log_in(served.stand.operator)
    lines = [
        ["instrument", "cli-gpu", "--reference-price", "1.00"],
        ["preopen", "cli-gpu"],
        ["open", "cli-gpu"],
        ["halt", "cli-gpu"],
        ["resume", "cli-gpu"],
    ]
    for line in lines:
        said = run("admin", *line)
        assert (said.code, said.err) == (0, ""), line
        assert "seq" in said.out
    assert "cli-gpu" in run("market", "status").out
    assert json.loads(run("admin", "status", "--json").out)["is_leader"] is True


def test_the_operator_registers_a_party(run: Run, served: Served, log_in: Callable[[Party], None]) -> None:
    log_in(served.stand.operator)
    party = json.loads(run("admin", "party", "register", "Anna", "--json").out)["id"]
    assert run("admin", "party", "register", "Anna", "--vat", "19").code == 2
    assert run("admin", "party", "tax", party, "--country", "de", "--vat", "19").code == 0
    assert json.loads(run("admin", "party", "suspend", party, "--json").out)["is_suspended"] is True
    assert json.loads(run("admin", "party", "reinstate", party, "--json").out)["is_suspended"] is False
    key = run("admin", "party", "key", party, "--name", "first", "--scope", "read").out.strip()
    assert json.loads(run("whoami", "--key", key, "--json").out)["party"] == party
    assert run("admin", "party", "list").code == 0


def test_rates_are_imported_once(run: Run, served: Served, home: Path, log_in: Callable[[Party], None]) -> None:
    log_in(served.stand.operator)
    file = home / "eurofxref.csv"
    file.write_text("Date, USD, JPY, GBP, \n27 November 2026, 1.0850, 160.1, 0.8400, \n")
    first = run("admin", "import-rates", str(file), "--json")
    assert first.code == 0, first.err
    assert run("admin", "import-rates", str(file), "--json").out == first.out
    assert run("admin", "import-rates", str(home / "none.csv")).code == 2


# ── Streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_watched_market_is_json_lines(served: Served, home: Path) -> None:
    line = [sys.executable, "-m", "bursa.cli", "market", "show", INSTRUMENT, "--watch", "--json", "--url", served.url]
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, env={"BURSA_CONFIG": str(home / "config.toml"), "PATH": "/bin"}
    )
    assert process.stdout is not None
    first = msgspec.json.decode(process.stdout.readline(), type=StreamSnapshot)
    process.send_signal(2)
    process.communicate(timeout=20)
    assert first.book.instrument == INSTRUMENT
    assert process.returncode == 130


def test_a_watched_rental_tells_its_end(run: Run, served: Served, renter: Party) -> None:
    """The rental ends between the look and the stream; its end is told all the same."""
    from bursa.cli import rentals  # noqa: PLC0415 - white box

    order = json.loads(run("buy", INSTRUMENT, "--hours", "1", "--max-price", "2.00", "--json").out)
    rental = order["fills"][0]["rental"]
    follow = rentals._follow

    def late(*arguments: object) -> None:
        with served.client(renter) as client:
            client.stop_rental(rental)
        follow(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rentals, "_follow", late)
        said = run("rentals", "watch", rental, "--json")
    assert said.code == 0
    kinds = [json.loads(line).get("kind") for line in said.out.splitlines()]
    assert OwnEventKind.RENTAL_ENDED in kinds


# ── Docs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_reference_tells_every_command_and_flag() -> None:
    assert tree.describe() == (ROOT / "docs" / "reference" / "cli.md").read_text(), "run: python -m tests.cli.tree"


def test_every_verb_of_the_surface_is_there() -> None:
    paths = {path for path, _ in tree.walk()}
    law = """up|serve|login|logout|whoami|config show|config set|gpus list|gpus show
    |market show|market trades|market status|buy|bid|ask|orders list|orders show|orders cancel
    |rentals list|rentals show|rentals watch|rentals extend|rentals stop
    |wallet show|wallet top-up|wallet statement|host list|key list|key create|key revoke|admin preopen|admin open
    |admin halt|admin resume|admin status|admin verify|admin export|admin backup|admin restore|admin import-rates
    |admin party register|admin party tax|admin party suspend|admin party reinstate"""
    assert {word.strip() for word in law.split("|")} <= paths


def test_a_command_that_asks_the_exchange_can_explain_itself() -> None:
    for path, app in tree.walk():
        names = {name for argument in app.assemble_argument_collection() for name in argument.names}
        assert "--url" not in names or "--explain" in names, path


def test_an_ask_for_a_host_not_yet_known_is_built_from_flags() -> None:
    assert AskRequest(offers=[Offer(host="hst_1", gpus=1)], price="1.00").min_gpus == 1
