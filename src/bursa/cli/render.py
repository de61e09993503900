"""Output: JSON and CSV for programs, tables for people.

What comes from a server is text of strangers: control characters are replaced before it reaches a terminal, and a CSV
cell that a spreadsheet would run as a formula is quoted.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast, get_args, get_origin

import msgspec
from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bursa.cli.options import TableView, View
from bursa.cli.program import as_called
from bursa.cli.session import say
from bursa.errors import InputError
from bursa.wire import Amount, Done, NewKey

#: Columns of the terminal where nobody says how many there are.
WIDTH: Final = 80
#: Narrowest column that text is folded into, in characters.
FOLDED_WIDTH_MIN: Final = 8
_GAP: Final = 2
_FORMULA_STARTS: Final = ("=", "+", "@", "\t", "\r")
_DEMO: Final = "demo"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. A column whose name begins with ``>`` holds numbers, with ``!`` ids: neither is cut or folded."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    title: str = ""


def show(answer: msgspec.Struct, view: View, grids: Iterable[Grid], empty: str = "") -> None:
    """Print an answer as JSON, or its tables; ``empty`` is said where no table has a row."""
    if view.json:
        write_json(answer)
        return
    grids = list(grids)
    if not any(grid.rows for grid in grids):
        sys.stdout.write(f"{as_called(empty)}\n")
        return
    for number, grid in enumerate(grid for grid in grids if grid.rows):
        if number:
            sys.stdout.write("\n")
        print_grid(grid)


def show_list(page: msgspec.Struct, view: TableView, grid: Grid, empty: str) -> None:
    """Print a page as JSON, CSV or a table; say on stderr how to see the next page."""
    if view.json and view.csv:
        raise InputError("--csv", "--json too", "one of them")
    fields = {field.name: field for field in msgspec.structs.fields(page)}
    kind = cast("type[msgspec.Struct]", get_args(fields["items"].type)[0])
    items, following = cast("tuple[list[msgspec.Struct], str | None]", msgspec.structs.astuple(page)[:2])
    if view.csv:
        write_csv(kind, items)
    else:
        show(page, view, [grid], empty)
    if following is not None:
        say(f"There is more: --cursor {following}")


def write_json(answer: object) -> None:
    """Print JSON with the keys and values of the API, indented for people."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")


def write_line(message: object) -> None:
    """Print one JSON Line, and let readers see it now."""
    sys.stdout.write(msgspec.json.encode(message).decode() + "\n")
    sys.stdout.flush()


def write_csv(kind: type[msgspec.Struct], items: Iterable[msgspec.Struct]) -> None:
    """Print items of a kind as CSV as they come, the fields of inner structs named by a path with underscores."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_names(kind, ""))
    for item in items:
        writer.writerow(_cells(kind, item))


def _names(kind: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        inner = _inner(field.type)
        yield from [prefix + field.name] if inner is None else _names(inner, f"{prefix}{field.name}_")


def _cells(kind: type[msgspec.Struct], item: msgspec.Struct | None) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        inner = _inner(field.type)
        value = None if item is None else getattr(item, field.name)
        yield from [_csv_text(value)] if inner is None else _cells(inner, value)


def _inner(hint: object) -> type[msgspec.Struct] | None:
    """Return the struct that a field holds, None where it holds no struct or many."""
    for part in (hint, *get_args(hint)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and get_origin(hint) is not list:
            return part
    return None


def _csv_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list() | tuple():
            return msgspec.json.encode(value).decode()
        case _:
            text = str(msgspec.to_builtins(value))
            return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def print_grid(grid: Grid) -> None:
    """Print a table that fits the terminal, or is wider where it cannot: a number cut short is another number."""
    console = make_console()
    console.width = max(console.width, _width_min(grid))
    console.print(make_table(grid))


def _width_min(grid: Grid) -> int:
    """Return the columns of text that a table needs for its ids and numbers to stay whole."""
    cells = [[name.lstrip(">!") for name in grid.columns], *([show_value(cell) for cell in row] for row in grid.rows)]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(len(grid.columns))]
    wanted = [
        width if name.startswith((">", "!")) or not name else min(width, FOLDED_WIDTH_MIN)
        for name, width in zip(grid.columns, widths, strict=True)
    ]
    return sum(wanted) + _GAP * (len(wanted) - 1)


def make_table(grid: Grid) -> Table:
    """Return a grid as Rich draws it: ids and numbers stay whole, text is folded."""
    table = Table(
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        title=grid.title or None,
        title_justify="left",
    )
    for name in grid.columns:
        is_number = name.startswith(">")
        is_whole = is_number or name.startswith("!")
        table.add_column(name.lstrip(">!"), justify="right" if is_number else "left", no_wrap=is_whole, overflow="fold")
    for row in grid.rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def show_secret(made: NewKey, view: View) -> None:
    """Print a key just made; the only place where a secret is shown."""
    if view.json:
        write_json(made)
        return
    sys.stdout.write(f"{made.secret}\n")
    say(f"{made.key.id} ({clean(made.key.name)}) may: {' '.join(made.key.scopes)}. The key is shown this once.")


def show_done(done: Done, view: View, text: str) -> None:
    """Print where a command of the operator stands in the log."""
    if view.json:
        write_json(done)
    else:
        write_text(text)


def write_text(line: str) -> None:
    """Print a line of a stream, and let readers see it now."""
    sys.stdout.write(f"{as_called(clean(line))}\n")
    sys.stdout.flush()


def make_console(*, is_error: bool = False) -> Console:
    """Return a console of stdout or stderr; colors only where the terminal and NO_COLOR allow them."""
    console = Console(stderr=is_error, highlight=False)
    if not console.is_terminal and "COLUMNS" not in console._environ:  # noqa: SLF001 - a pipe has no width to ask for
        console.width = WIDTH
    return console


def _cell(value: object) -> Text:
    text = show_value(value)
    return Text(text, style="yellow" if text == _DEMO else "")


def show_value(value: object) -> str:
    """Return a value as a cell shows it: times in UTC to the minute, amounts with their currency, None as a dash."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}Z"
        case Amount(amount=amount, currency=currency):
            return f"{amount} {currency}"
        case _:
            return clean(str(value))


def clean(text: str) -> str:
    """Return text of strangers without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def demo(is_demo: bool) -> str:  # noqa: FBT001 - the one thing it is about
    """Return the word that marks what is simulated."""
    return _DEMO if is_demo else ""


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show on a terminal's stderr that something takes its time; say nothing elsewhere."""
    console = make_console(is_error=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    with console.status(doing):
        yield
