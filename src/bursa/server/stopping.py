"""Ctrl-C and SIGTERM: the first asks for a clean stop, the second ends the process at once.

The second one may: PostgreSQL notices that we are gone and shuts down by itself, and what was answered is on disk.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: Exit codes: stopped as asked while serving; interrupted before, or at once.
EXIT_CLEAN: Final = 0
EXIT_INTERRUPTED: Final = 130
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Counts the requests to stop. `on_first` is called in the main thread at the first; None raises Interrupted."""

    def __init__(self) -> None:
        self.on_first: Callable[[], object] | None = None
        self.count = 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.count += 1
        if self.count > 1:
            sys.stdout.flush()
            os._exit(EXIT_INTERRUPTED)
        if self.on_first is None:
            raise Interrupted
        self.on_first()


class Interrupted(BaseException):
    """Somebody asked us to stop while we were starting. Not an Exception, so that only the one place catches it."""


@contextmanager
def catch_signals() -> Iterator[Stopping]:
    """Handle SIGINT, SIGTERM and SIGHUP within the block (main thread only)."""
    stopping = Stopping()
    before = {number: signal.signal(number, stopping._handle) for number in _SIGNALS}  # noqa: SLF001 - one module's two halves
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
