"""How fast a command line starts, and what it does not import for that."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from bursa.cli.commands import COMMANDS, root_help
from tests.cli.conftest import Run

#: The fastest of some runs: the machine of a test is shared, the limit is for a free one.
RUNS = 5
HELP_S = 0.3
HEAVY = {"httpx", "msgspec", "psycopg", "starlette", "uvicorn", "prometheus_client", "asyncio", "bursa.wire"}


@pytest.mark.slow
def test_help_comes_within_three_tenths_of_a_second() -> None:
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "bursa.cli", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    assert min(times) < HELP_S, times


@pytest.mark.parametrize("line", [["--help"], ["--version"], ["buy", "--help"], ["admin", "party", "--help"], ["nope"]])
def test_help_and_usage_import_nothing_heavy(line: list[str]) -> None:
    code = f"import sys; from bursa.cli import main; main({line}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = set(done.stdout.splitlines()[-1].split())
    assert not imported & HEAVY
    if line[0].startswith("--"):
        assert not imported & {"cyclopts", "rich"}


def test_the_help_of_the_root_names_every_command(run: Run) -> None:
    for line in ((), ("--help",), ("-h",)):
        said = run(*line)
        assert (said.code, said.out) == (0, root_help() + "\n")
    assert all(f"  {command.name} " in root_help() for command in COMMANDS)
    assert all(len(line) <= 80 for line in root_help().splitlines())


def test_the_version_is_that_of_the_package(run: Run) -> None:
    import bursa  # noqa: PLC0415 - the package's root, not the terminal's

    assert run("--version").out == f"{bursa.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_the_commands(run: Run, shell: str) -> None:
    said = run("completion", shell)
    assert said.code == 0
    assert all(word in said.out for word in ("bursa", "wallet", "top-up", "max-price"))


def test_a_completion_script_is_a_script(run: Run) -> None:
    script = run("completion", "bash").out
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
