"""Every benchmark of the service runs, tiny, without a fault. Times are never asserted: a test machine is noisy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.market.measure import ROOT
from benchmarks.service.__main__ import BENCHES
from benchmarks.service.measure import RESULTS, latencies, run_worker
from benchmarks.service.report import ratios

GOALS = {name for name in BENCHES if name != "peers"}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_the_command_line_runs_each_benchmark(name: str, tmp_path: Path) -> None:
    """In a process of its own: it opens ports on loopback, which tests may not."""
    out = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.service", name, "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))[name]
    assert result["environment"]["python"]
    assert result["environment"]["disk"]["file_system"]
    assert ("goal" in done.stdout) == (name in GOALS)
    check = CHECKS.get(name)
    if check is not None:
        check(result)


def check_inprocess(result: dict[str, object]) -> None:
    cases = result["cases"]
    assert isinstance(cases, list)
    assert {case["stream"] for case in cases} == {"steady mix", "order flow"}
    for case in cases:
        [run] = case["runs"]
        assert run["commands"] >= run["in_flight"]
        assert run["trades"] > 0
        assert run["cpu_us"]["postgres"] > 0


def check_http(result: dict[str, object]) -> None:
    ways = result["ways"]
    assert isinstance(ways, dict)
    for [run] in ways.values():
        assert run["errors"] == {}
        assert run["orders"] > 0


def check_peers(result: dict[str, object]) -> None:
    contenders = result["contenders"]
    assert isinstance(contenders, dict)
    for name, [run] in contenders.items():
        if name.startswith("django-hordak") and "failed" in run:
            assert "No module named" in run["failed"], run  # not installed: `make .venv/.bench` does that
        else:
            assert run["per_second"] > 0, name


def check_takeover(result: dict[str, object]) -> None:
    assert result["lost"] == 0
    assert isinstance(result["acknowledged"], int)
    assert result["acknowledged"] > 0


CHECKS = {"inprocess": check_inprocess, "http": check_http, "peers": check_peers, "takeover": check_takeover}


def test_a_failed_worker_is_a_result_not_a_crash() -> None:
    failed = run_worker({"kind": "classic", "way": "nobody's", "seconds": 0, "seed": 1}, "")
    assert "nobody" in failed["failed"]


def test_latencies_are_in_milliseconds() -> None:
    assert latencies([n / 1_000 for n in range(1, 101)]) == {"p50_ms": 51.0, "p99_ms": 100.0, "max_ms": 100.0}
    assert latencies([])["p99_ms"] is None


def test_ratios_compare_like_with_like() -> None:
    rates = {"bursa, 1 in flight": 10.0, "bursa, 64 in flight": 100.0, "x, 1 connection": 5.0, "x, 8 connections": 4.0}
    assert ratios(rates) == {
        "bursa, 1 in flight / x, 1 connection": 2.0,
        "bursa, 64 in flight / x, 8 connections": 25.0,
    }


@pytest.mark.parametrize("name", BENCHES)
def test_results_of_a_full_run_are_committed(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert result["bench"] == name
    assert not result["is_quick"]
    assert set(result["environment"]) >= {"date", "cpu", "cpus", "load_average", "packages", "disk"}
