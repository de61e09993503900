"""The simulator in the suite: short runs, remembered seeds, planted bugs that must be found, the visible market."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bursa.market import Command, Engine, HostState, Outcome, Posting, Rejected
from bursa.market.events import Result
from bursa.market.ledger import Ledger
from bursa.market.state import Host
from tests.sim.__main__ import main
from tests.sim.report import fault_lines, never_happened
from tests.sim.simulation import Options, Simulation

ROOT = Path(__file__).parents[2]
SEEDS = [line.partition("#")[0].split() for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines()]


def simulate(
    seed: int, commands: int, *, parties: int = 300, audit_every: int = 2_000, is_followed: bool = False
) -> Simulation:
    run = Simulation(Options(seed, commands, parties, audit_every, is_followed=is_followed))
    run.run()
    return run


def run_cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.sim", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_short_run_is_sound_and_its_replay_in_another_process_agrees() -> None:
    run = simulate(11, 2_500, parties=60, is_followed=True)
    assert not fault_lines(run)
    assert run.done["frames replayed"] > 2_000
    assert run.done["restores"] > 0
    assert run.mirror.counts["trades"] > 20


def test_the_same_seed_gives_the_same_digest_however_often_one_audits() -> None:
    one, other = simulate(3, 2_000, parties=60), simulate(3, 2_000, parties=60, audit_every=500)
    assert one.digest == other.digest != ""
    assert one.results == other.results
    assert simulate(4, 2_000, parties=60).digest != one.digest


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "commands"), [(int(words[0]), int(words[1])) for words in SEEDS if words])
def test_remembered_seeds_are_sound(seed: int, commands: int) -> None:
    assert fault_lines(simulate(seed, commands, is_followed=True)) == []


@pytest.mark.slow
def test_a_run_of_100_000_commands_meets_everything() -> None:
    run = simulate(1, 100_000, audit_every=20_000, is_followed=True)
    assert fault_lines(run) == []
    assert never_happened(run) == []


@pytest.mark.slow
def test_a_million_commands_without_a_violation() -> None:
    done = run_cli("--seed", "1", "--commands", "1000000", "--audit-every", "50000")
    assert "\n0 violations" in done.stdout, done.stdout + done.stderr
    assert "\ndigest " in done.stdout
    assert done.returncode == 0, done.stdout


# ---- planted bugs ----------------------------------------------------------------------------------------------------


def _double_rent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe that GPUs are free as soon as they are rented: they are let twice."""

    def leaves(host: Host, offered: int) -> int:
        return offered if host.state is HostState.HEALTHY and not host.silent_since_ns else 0

    monkeypatch.setattr(Host, "leaves", leaves)


def _skip_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose every release to the wallet: held funds stay held."""
    post = Ledger.post

    def skipping(ledger: Ledger, postings: tuple[Posting, ...]) -> None:
        if not (postings[0].account.startswith("hold:") and postings[0].debit_micros and len(postings) == 2):
            post(ledger, postings)

    monkeypatch.setattr(Ledger, "post", skipping)


def _forget_idempotency(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember no command: a duplicate is carried out twice."""
    finish = Engine._finish

    def forgetful(engine: Engine, command: Command, raw: bytes, at_ns: int, result: Result) -> Outcome:
        outcome = finish(engine, command, raw, at_ns, result)
        engine._state.remembered.clear()
        return outcome

    monkeypatch.setattr(Engine, "_finish", forgetful)


def _leave_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count an order even when it is refused."""
    finish = Engine._finish

    def leaking(engine: Engine, command: Command, raw: bytes, at_ns: int, result: Result) -> Outcome:
        if isinstance(result, Rejected):
            engine._state.counters.order += 1
        return finish(engine, command, raw, at_ns, result)

    monkeypatch.setattr(Engine, "_finish", leaking)


@pytest.mark.parametrize("plant", [_double_rent, _skip_a_release, _forget_idempotency, _leave_traces])
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    run = simulate(2, 8_000, parties=60, audit_every=500)
    assert run.faults
    assert run.sent < 8_000, "found only at the end"


def test_a_violation_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _double_rent(monkeypatch)
    assert main(["--seed", "2", "--commands", "5000", "--parties", "100", "--no-replay"]) == 1
    out = capsys.readouterr().out
    assert "VIOLATION with seed 2, command " in out
    assert "again: python -m tests.sim --seed 2 --commands 5000 --parties 100" in out
    assert not out.rstrip().endswith("\n0 violations")


# ---- the command line ------------------------------------------------------------------------------------------------


def test_json_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--commands", "1200", "--parties", "40", "--json", "--no-replay"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["violations"] == []
    assert report["commands"] == 1200
    assert len(report["digest"]) == 64


def test_show_draws_a_few_plain_pictures_when_nobody_watches() -> None:
    done = run_cli("--show", "--frames", "2", "--parties", "40", TERM="dumb", NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert done.stdout.count("bursa, simulated") == 2
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "sum of all accounts 0" in done.stdout
    assert done.stdout.rstrip().endswith("0 violations")
