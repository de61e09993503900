"""Exit codes of the terminal, stable from the first release, and what leads to each."""

from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """What the code of a finished command says to a script."""

    OK = 0
    NEGATIVE = 1
    USAGE = 2
    FORBIDDEN = 3
    NOT_FOUND = 4
    CONFLICT = 5
    AWAY = 6
    FAILED = 7
    INTERRUPTED = 130


MEANINGS: Final = {
    Exit.OK: "done",
    Exit.NEGATIVE: "a negative verdict: not filled, not verified, declined",
    Exit.USAGE: "wrong usage or bad input",
    Exit.FORBIDDEN: "not logged in, or not allowed",
    Exit.NOT_FOUND: "not found",
    Exit.CONFLICT: "a conflict with the state of things, or not enough funds",
    Exit.AWAY: "no answer: network, server away, timeout, too many requests",
    Exit.FAILED: "a rental or run failed",
    Exit.INTERRUPTED: "interrupted; a running rental goes on",
}


class Finished(Exception):  # noqa: N818 - not a fault: a command that has nothing left to do
    """Ends the command at once with an exit code, after what there was to say has been said."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code)
        self.code = code
