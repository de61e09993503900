"""`bursa up` for real: a process on a Unix socket with its own PostgreSQL, used, killed, started again, stopped."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_socket import enable_socket

from bursa.store.launch import find_inhabitants
from tests.server.process import PATIENCE_S, Server, running, wait_until

pytestmark = pytest.mark.slow


def test_what_was_bought_is_there_after_kill_9_and_secrets_are_shown_once(reachable_path: Path) -> None:
    with running(reachable_path) as first:
        renter, operator = (first.key(who)["Authorization"].removeprefix("Bearer ") for who in ("renter", "operator"))
        assert first.printed.count(renter) == first.printed.count(operator) == 1
        for name in ("renter.toml", "operator.toml"):
            assert stat.S_IMODE((first.data / name).stat().st_mode) == 0o600
        bought = first.buy(headers=first.key(), idempotency_key="one")
        assert bought.status_code == 201, bought.text
        assert bought.json()["state"] == "FILLED"
        rental = bought.json()["fills"][0]["rental"]
        wait_until("the rental starts", lambda: first.get(f"/v1/rentals/{rental}")["state"] == "STARTED")
        before = {path: first.get(path) for path in ("/v1/wallet", "/v1/wallet/statement", f"/v1/rentals/{rental}")}
        assert before[f"/v1/rentals/{rental}"]["is_demo"]
        first.kill()
    assert renter not in first.log
    with running(reachable_path) as second:
        assert {path: second.get(path) for path in before} == before
        assert renter not in second.printed
        assert operator not in second.printed
        assert "admin key create" in second.printed
        again = second.buy(headers=second.key(), idempotency_key="one")
        assert (again.status_code, again.json()) == (201, bought.json())
        assert again.headers["Idempotent-Replayed"] == "true"
        assert second.get("/v1/wallet")["balances"] == before["/v1/wallet"]["balances"]
        assert second.stop() == 0
        assert not find_inhabitants(second.data / "postgres"), "the database stopped with its exchange"
        assert not second.socket.exists()
    for line in second.log.splitlines():
        assert json.loads(line)["level"] in {"info", "warning"}, line


def test_a_folder_without_its_key_files_gets_new_keys(reachable_path: Path) -> None:
    """As after `bursa admin restore`, which brings back the database alone."""
    with running(reachable_path) as first:
        old = {who: first.key(who) for who in ("renter", "operator")}
        assert first.stop() == 0
    for who in old:
        (first.data / f"{who}.toml").unlink()
    with running(reachable_path) as second:
        assert "had no key files: new keys were made" in second.printed
        for who, header in old.items():
            assert second.key(who) != header
            assert second.printed.count(second.key(who)["Authorization"].removeprefix("Bearer ")) == 1
            assert stat.S_IMODE((second.data / f"{who}.toml").stat().st_mode) == 0o600
            assert second.http.get("/v1/wallet", headers=header).status_code == 200, "the old key still works"
        assert [balance["available"] for balance in second.get("/v1/wallet")["balances"]] == ["200.00"]
        assert len(second.get("/v1/admin/parties", "operator")["items"]) == 5
        assert second.stop() == 0
    with running(reachable_path) as third:
        assert "new keys" not in third.printed
        assert f"admin key create --data {third.data}" in third.printed


def test_a_first_start_that_was_cut_off_is_finished_by_the_next(reachable_path: Path) -> None:
    """It is killed while it founds the market; nothing is missing afterwards, and nothing is there twice."""
    with Server(reachable_path) as cut:
        wait_until("it begins", lambda: "leading with epoch" in cut.log)
        cut.kill()
    with running(reachable_path) as server:
        assert server.key()["Authorization"].removeprefix("Bearer ") in server.printed
        assert [balance["available"] for balance in server.get("/v1/wallet")["balances"]] == ["200.00"]
        names = [party["name"] for party in server.get("/v1/admin/parties", "operator")["items"]]
        assert sorted(names) == [
            "Demo renter",
            "Demo seller polder",
            "Demo seller prairie",
            "Demo seller rhein",
            "Operator",
        ]
        asks = [ticker["best_ask"] for ticker in server.http.get("/v1/market").json()["items"]]
        assert any(asks)


def test_the_printed_commands_work_in_a_second_shell(reachable_path: Path) -> None:
    with running(reachable_path) as server:
        script = [line.strip() for line in server.printed.partition("second shell:")[2].splitlines() if line.strip()]
        assert len(script) == 4, script
        assert script[0].startswith("export BURSA_CONFIG=")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-e", "-c", "\n".join(script)],
            cwd=reachable_path,
            env={"PATH": path, "HOME": str(reachable_path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "h100-sxm" in done.stdout
        assert "196.5728" in done.stdout, "US$200 less one hour at US$2.88 plus 19 % is what the wallet shows"


def test_a_killed_postmaster_is_started_again_and_the_exchange_goes_on(reachable_path: Path) -> None:
    with running(reachable_path) as server:
        postmaster = int((server.data / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(postmaster, signal.SIGKILL)
        wait_until("the exchange notices", lambda: not server.is_ready())
        away = server.http.get("/v1/ready")
        if away.status_code != 200:
            assert away.status_code == 503
            assert int(away.headers["Retry-After"]) >= 1
            assert away.json()["detail"]  # which fault is noticed first is a matter of milliseconds
        wait_until("the exchange is back", server.is_ready)
        assert server.buy(headers=server.key(), idempotency_key="after").status_code == 201
        wait_until(
            "the restart is counted",
            lambda: "bursa_postgres_restarts_total 1.0" in server.http.get("/v1/metrics").text,
        )
        assert server.stop() == 0


def test_a_stream_is_ended_with_a_word_when_the_server_stops(reachable_path: Path) -> None:
    with running(reachable_path) as server:
        with server.http.stream("GET", "/v1/market/h100-sxm/stream") as stream:
            lines = stream.iter_lines()
            assert any(line == "event: snapshot" for line in lines)
            server.process.send_signal(signal.SIGINT)
            assert "event: ended" in list(lines)
        assert server.process.wait(PATIENCE_S) == 0


def test_the_second_signal_stops_at_once_and_loses_nothing(reachable_path: Path) -> None:
    with running(reachable_path) as server:
        bought = server.buy(headers=server.key(), idempotency_key="one").json()
        # Another one: two of the same kind may arrive as one.
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 130
    with running(reachable_path) as again:
        assert again.get(f"/v1/orders/{bought['id']}")["state"] == "FILLED"


def test_a_data_folder_in_use_is_told_with_who_uses_it(reachable_path: Path) -> None:
    with running(reachable_path) as server:
        with Server(reachable_path, name="other") as other:
            assert other.process.wait(PATIENCE_S) != 0
            assert f"process {server.process.pid}" in other.log
            assert str(server.data) in other.log
        assert server.is_ready(), "the first one is not disturbed"


def test_a_taken_port_is_told_before_anything_is_made(reachable_path: Path) -> None:
    enable_socket()  # to take a port of 127.0.0.1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "bursa.cli", "up", "--data", str(reachable_path / "data"), "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 6, done.stderr
    assert f"127.0.0.1:{port}" in done.stderr
    assert f"--port {port + 1}" in done.stderr
    assert list(reachable_path.iterdir()) == []


def test_without_demo_and_sandbox_there_are_books_and_an_operator_only(reachable_path: Path) -> None:
    with running(reachable_path, demo="no", sandbox="no") as server:
        assert not (server.data / "renter.toml").exists()
        assert "operator.toml" in server.printed.partition("second shell:")[2]
        tickers = server.http.get("/v1/market").json()["items"]
        assert {ticker["state"] for ticker in tickers} == {"OPEN"}
        assert not any(ticker["best_ask"] for ticker in tickers)
