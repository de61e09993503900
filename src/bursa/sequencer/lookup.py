"""Which of these command ids does the log know? Asked before commands are applied, since the engine forgets old ids.

One thread with one session. Whoever asks puts together what may be asked together: a question costs a round trip.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import psycopg

_log = logging.getLogger("bursa.sequencer.lookup")


class Known(NamedTuple):
    """A command of the log."""

    seq: int
    at_ns: int
    command: bytes
    outcome: bytes


Found = dict[str, Known]
_Request = tuple[list[str], Callable[[Found | None], None]]


class Lookup:
    """The thread. Answers come in the order of the questions, in that thread; None when the session broke."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bursa-lookup", daemon=True)
        self._thread.start()

    def ask(self, ids: list[str], on_found: Callable[[Found | None], None]) -> None:
        """Find out which of the ids the log knows."""
        self._queue.put((ids, on_found))

    def close(self) -> None:
        """End the thread and the session."""
        self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (request := self._queue.get()) is not None:
            ids, on_found = request
            on_found(self._find(ids))

    def _find(self, ids: list[str]) -> Found | None:
        try:
            rows = self._connection.execute(_FIND_SQL, (ids,), prepare=True, binary=True).fetchall()
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may wait for an answer that never comes
            _log.warning("ids cannot be looked up: %s", error)
            return None  # for good: a session does not come back, and every later question is answered so too
        return {command_id: Known(*fields) for command_id, *fields in rows}


_FIND_SQL: Final = (
    "SELECT command_id, seq, at_ns, command, outcome FROM bursa.command_log WHERE command_id = ANY(%s::text[])"
)
