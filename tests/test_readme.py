"""README.md does what it says: its ```console blocks are run in a copy of the repository, and their output compared.

In a block, what follows `$ ` is a command, and the lines up to the next one are its output. `...` on a line of its own
stands for any lines, within a line for any text.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_tidy import tracked_paths

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TIMEOUT_S = 300

# Commands that are shown but not run here, by their first words, each with the reason.
NOT_RUN = {
    "git clone": "needs the network",
    "cd bursa": "follows git clone",
    "make run": "runs until it is stopped; tests/sim has its own tests",
    "make test": "would start these tests inside themselves",
    "make ci": "would start these tests inside themselves",
    "make bench": "takes minutes and installs packages",
}
Step = tuple[str, list[str]]


def find_steps(text: str) -> list[Step]:
    """Read the commands of all console blocks, each with the output lines shown under it."""
    steps: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        assert block.startswith("$ "), f"a console block begins with a command:\n{block}"
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line.removeprefix("$ "), []))
            else:
                steps[-1][1].append(line)
    return steps


def reason_not_to_run(command: str) -> str | None:
    words = command.split()
    return next((why for start, why in NOT_RUN.items() if words[: len(start.split())] == start.split()), None)


def is_shown_output(shown: list[str], actual: str) -> bool:
    """Compare line by line; a command without shown output may print anything."""
    if not shown:
        return True
    pattern = ""
    for line in shown:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, actual.rstrip("\n") + "\n") is not None


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what git tracks, and borrow the environment that these tests run in."""
    if not (Path(sys.prefix) / ".dev").exists():
        pytest.skip("the README's commands need the environment that make installs")
    folder = tmp_path_factory.mktemp("readme") / "bursa"
    for path in tracked_paths():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)
        os.utime(target, (0, 0))  # older than the environment's stamp, or make would install the copy into it
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("command", "shown"), find_steps(README.read_text()))
def test_a_command_of_the_readme_does_what_it_shows(command: str, shown: list[str], checkout: Path) -> None:
    if reason := reason_not_to_run(command):
        assert not shown, f"`{command}` is not run here ({reason}), so its output cannot be checked: leave it out"
        return
    # The variables of an outer make are not the reader's; the copy's own code is what the copy runs.
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    environment |= {"PYTHONPATH": str(checkout / "src")}
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert is_shown_output(shown, run.stdout), f"`{command}` printed:\n{run.stdout}\nREADME.md shows:\n" + "\n".join(
        shown
    )


def test_the_readme_has_commands_to_run() -> None:
    assert any(reason_not_to_run(command) is None for command, _ in find_steps(README.read_text()))


def test_make_targets_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", README.read_text()))
    assert named, "the README names no make target"
    assert named <= targets, f"the README names targets that the Makefile lacks: {sorted(named - targets)}"


# ── The checks can fail ──────────────────────────────────────────────────────────────────────────────────────────────


def test_steps_are_found() -> None:
    text = "```console\n$ a b\nout\n...\n$ c\n```\n\n```sh\n$ d\n```\n"
    assert find_steps(text) == [("a b", ["out", "..."]), ("c", [])]


@pytest.mark.parametrize(
    ("shown", "actual", "same"),
    [
        ([], "anything\n", True),
        (["a"], "a\n", True),
        (["a"], "b\n", False),
        (["a"], "a\nb\n", False),
        (["a", "..."], "a\nb\nc\n", True),
        (["...", "c"], "a\nb\nc\n", True),
        (["...", "c"], "a\nb\n", False),
        (["took ... s"], "took 1.5 s\n", True),
        (["took ... s"], "took 1.5 h\n", False),
        (["a.c"], "abc\n", False),
    ],
)
def test_output_is_compared(shown: list[str], actual: str, same: bool) -> None:
    assert is_shown_output(shown, actual) is same


def test_only_listed_commands_are_left_out() -> None:
    assert reason_not_to_run("make test ARGS=-v")
    assert reason_not_to_run("make sim SEED=1") is None
    assert reason_not_to_run("make tests") is None
