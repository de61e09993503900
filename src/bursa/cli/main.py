"""Where a command line starts and ends: arguments in, exit code out; every fault becomes one or two lines on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from bursa.cli.commands import build_app, root_help
from bursa.cli.exits import Exit, Finished
from bursa.cli.program import as_called

_HELP: Final = ((), ("--help",), ("-h",), ("help",))
_VERSION: Final = (("--version",),)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (absent: that of the process) and return its exit code."""
    line = tuple(sys.argv[1:] if arguments is None else arguments)
    _open_closed()
    try:
        code = _run(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. What is left must not be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except OSError as fault:
        # Where the output goes there is no room (`> /dev/full`); the rest of it is not tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _say(f"error: {fault.strerror or fault}")
        return Exit.CONFLICT
    except KeyboardInterrupt:
        _say("Interrupted. Rentals that run go on: bursa rentals list")
        return Exit.INTERRUPTED
    return code


def _open_closed() -> None:
    """Give what was started without stdout or stderr (`>&-`) a place to write to: Python leaves None there."""
    # They live as long as the process, as the ones in their place would.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - see above
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - see above


def _run(line: tuple[str, ...]) -> int:
    # What is no UTF-8 on the command line stands in it as lone surrogates, which nothing after here can write.
    if bad := next((word for word in line if not word.isascii() and word != word.encode(errors="ignore").decode()), ""):
        _say(f"error: an argument: got {bad!a}, expected text in UTF-8")
        return Exit.USAGE
    if line in _HELP:
        sys.stdout.write(f"{as_called(root_help())}\n")
        return Exit.OK
    if line in _VERSION:
        from bursa import __version__  # noqa: PLC0415 - only here

        sys.stdout.write(f"{__version__}\n")
        return Exit.OK
    from cyclopts import CycloptsError  # noqa: PLC0415 - not needed for the root's help

    from bursa.cli.faults import judge, usage_lines  # noqa: PLC0415 - as above
    from bursa.errors import BursaError  # noqa: PLC0415 - as above

    app = build_app()
    try:
        result = app(line, exit_on_error=False, print_error=False, result_action="return_value")
    except Finished as done:
        return done.code
    except CycloptsError as fault:
        _say(*usage_lines(fault))
        return Exit.USAGE
    except BursaError as fault:
        code, lines = judge(fault, line)
        _say(*lines)
        return code
    return result if isinstance(result, int) else Exit.OK


def _say(*lines: str) -> None:
    sys.stdout.flush()
    for line in lines:
        sys.stderr.write(f"{as_called(line)}\n")
    sys.stderr.flush()
