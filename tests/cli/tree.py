"""The tree of commands as docs and tests see it: each command with its path, help and parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bursa.cli.commands import COMMANDS, build_app

if TYPE_CHECKING:
    from cyclopts import App


def walk() -> Iterator[tuple[str, App]]:
    """Yield every command that does something, in the order of the root's help."""
    app = build_app()
    for command in COMMANDS:
        yield from _walk(command.name, app[command.name])


def _walk(path: str, app: App) -> Iterator[tuple[str, App]]:
    if app.default_command is not None:
        yield path, app
        return
    for name in app:
        if not name.startswith("-"):
            yield from _walk(f"{path} {name}", app[name])


def describe() -> str:
    """Return docs/reference/cli.md: each command with its flags, and the exit codes."""
    from bursa.cli.exits import MEANINGS  # noqa: PLC0415 - beside what it is for

    lines = [
        "# The terminal",
        "",
        "`bursa` has a verb for what the HTTP API can do, but for listing a host, with the same numbers. This page is",
        "written from the commands themselves by `python -m tests.cli.tree`; `bursa COMMAND --help` says the same.",
        "",
        "- `--json` prints what the API answers; streams come as JSON Lines. `--csv` prints tables as CSV.",
        "- What is said to people beside it goes to stderr.",
        "- `--explain` prints the HTTP call as a curl line, with the key masked, and does not send it.",
        "- Settings come from flags, then `BURSA_URL` and `BURSA_KEY`, then `bursa.toml`, then what `bursa login`",
        "  remembers.",
        "- Funds are held only after a question where a person sits at a terminal; `--yes` leaves it out.",
        "- `NO_COLOR` and `TERM=dumb` are kept to. `bursa completion bash` (or zsh, fish) prints a completion script.",
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---:|---|",
        *(f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()),
        "",
        "## Commands",
    ]
    for path, app in walk():
        lines += ["", f"### bursa {path}", "", *_summary(app), "", "| argument or flag | meaning |", "|---|---|"]
        lines += [f"| {names} | {meaning} |" for names, meaning in _parameters(app)]
    text = "\n".join(lines).replace("\n| argument or flag | meaning |\n|---|---|\n\n", "\n")
    return text.removesuffix("\n| argument or flag | meaning |\n|---|---|").rstrip() + "\n"


def _summary(app: App) -> list[str]:
    paragraphs = (app.help or "").split("Parameters\n")[0].strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).splitlines()


def _parameters(app: App) -> Iterator[tuple[str, str]]:
    for argument in app.assemble_argument_collection(parse_docstring=True):
        if not argument.show or not argument.parse:
            continue
        parameter = argument.parameter
        is_positional = argument.field_info.kind is argument.field_info.POSITIONAL_ONLY
        name = argument.field_info.name.upper() if is_positional else f"`{argument.name}`"
        meaning = str(parameter.help or "").replace("|", "\\|").replace("\n", " ")
        default = argument.field_info.default
        if argument.required:
            meaning += " Required."
        elif default not in {None, False, "", ()} and default is not argument.field_info.empty:
            meaning += f" Default: `{default}`."
        yield name, " ".join(meaning.split())


if __name__ == "__main__":
    from pathlib import Path

    Path("docs/reference/cli.md").write_text(describe())
