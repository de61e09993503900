"""How help is laid out: names to the left, what they mean to the right, plain text within the terminal's width."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

#: Widest column of names, in characters; a longer name has its line to itself.
NAMES_WIDTH_MAX: Final = 26
#: Widest line of help, in characters, however wide the terminal is.
WIDTH_MAX: Final = 100
#: Defaults that say nothing.
_SILENT: Final = frozenset({"", "False", "()", "None"})


class HelpText:
    """Formats the help of a command."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group of parameters or commands."""
        rows = [(_names(entry, panel.format), _meaning(entry)) for entry in panel.entries]
        if not rows:
            return
        width = min(options.max_width, WIDTH_MAX)
        left = min(max(len(names) for names, _ in rows), NAMES_WIDTH_MAX) + 4
        lines = [f"{_plain(panel.title)}:"]
        for names, meaning in rows:
            told = textwrap.wrap(meaning, max(width - left, 20)) or [""]
            is_long = len(names) > left - 4
            first = [f"  {names}"] if is_long else [f"  {names}".ljust(left) + told.pop(0)]
            lines += [line.rstrip() for line in [*first, *(" " * left + line for line in told)]]
        _print(console, "\n".join([*lines, ""]))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        """Print the usage line."""
        del options
        text = _plain(usage)
        _print(console, f"{text if text.startswith('Usage:') else f'Usage: {text}'}\n")

    def render_description(self, console: Console, options: ConsoleOptions, description: object) -> None:
        """Print what the command does."""
        width = min(options.max_width, WIDTH_MAX)
        parts = [textwrap.fill(" ".join(part.split()), width) for part in _plain(description).split("\n\n")]
        if any(parts):
            _print(console, "\n\n".join(part for part in parts if part) + "\n")


def _names(entry: HelpEntry, form: str) -> str:
    if form == "command":
        return ", ".join([*entry.positive_names, *entry.positive_shorts])
    return ", ".join(str(label) for label in entry.display_labels_with_metavar)


def _meaning(entry: HelpEntry) -> str:
    parts = [_plain(entry.description)]
    if entry.choices:
        parts.append(f"One of {', '.join(entry.choices)}.")
    if entry.required:
        parts.append("Required.")
    elif entry.default is not None and (default := _plain(entry.default)) not in _SILENT:
        parts.append(f"Default: {default}.")
    return " ".join(part for part in parts if part)


def _plain(value: object) -> str:
    """Return the text of what Cyclopts hands over: text, Rich text, or its own wrapper around one of them."""
    if value is None:
        return ""
    inner = getattr(value, "primary_renderable", value)
    return str(getattr(inner, "plain", inner)).strip()


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
