"""What a command line does not import, so that it starts fast; benchmarks/service measures how fast."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bursa.cli.commands import COMMANDS, root_help
from tests.cli.conftest import Run

HEAVY = {"httpx", "msgspec", "psycopg", "starlette", "uvicorn", "prometheus_client", "asyncio", "bursa.wire"}


@pytest.mark.parametrize("line", [["--help"], ["--version"], ["buy", "--help"], ["admin", "party", "--help"], ["nope"]])
def test_help_and_usage_import_nothing_heavy(line: list[str]) -> None:
    code = f"import sys; from bursa.cli import main; main({line}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = set(done.stdout.splitlines()[-1].split())
    assert not imported & HEAVY
    if line[0].startswith("--"):
        assert not imported & {"cyclopts", "rich"}


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (r"--version >&-", 0, ""),
        (r"nope 2>&-", 2, ""),
        (r"--version > /dev/full", 5, "No space left on device"),
        (r"buy $'h\xff' --hours 1", 2, "expected text in UTF-8"),
    ],
)
def test_odd_surroundings_end_in_a_code_and_not_in_a_traceback(command: str, code: int, told: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m bursa.cli {command}"], check=False, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


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
