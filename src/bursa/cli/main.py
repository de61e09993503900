"""Where a command line starts and ends: arguments in, exit code out; every fault becomes one or two lines on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from bursa.cli.commands import build_app, root_help
from bursa.cli.exits import Exit, Finished

_HELP: Final = ((), ("--help",), ("-h",), ("help",))
_VERSION: Final = (("--version",),)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (absent: that of the process) and return its exit code."""
    line = tuple(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. What is left must not be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except KeyboardInterrupt:
        _say("Interrupted. Rentals that run go on: bursa rentals list")
        return Exit.INTERRUPTED
    return code


def _run(line: tuple[str, ...]) -> int:
    if line in _HELP:
        sys.stdout.write(f"{root_help()}\n")
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
        code, lines = judge(fault)
        _say(*lines)
        return code
    return result if isinstance(result, int) else Exit.OK


def _say(*lines: str) -> None:
    sys.stdout.flush()
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
