"""Snapshots of the engine, taken without stopping it: a forked child encodes the state as it was, byte for byte.

The child sees the memory of the moment of the fork (copy on write), writes the snapshot into a pipe and ends; it closes
every other descriptor first, so that it keeps no session of a leader alive that was killed. The snapshot is kept only
once the log holds the record that it stands at.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Final

from bursa.errors import StoreError
from bursa.sequencer.log import Position

#: A snapshot is taken after so many commands …
SNAPSHOT_COMMANDS: Final = 100_000
#: … or after so long, in seconds, if there were commands at all.
SNAPSHOT_EVERY_S: Final = 600.0
#: Bytes that are read from the child at a time.
_READ_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 8


class Schedule:
    """When the next snapshot is due."""

    def __init__(self, seq: int, *, commands: int = SNAPSHOT_COMMANDS, every_s: float = SNAPSHOT_EVERY_S) -> None:
        self._commands = commands
        self._every_s = every_s
        self.taken(seq)

    def taken(self, seq: int) -> None:
        """Note that there is a snapshot at a seq."""
        self._seq = seq
        self._at = time.monotonic()

    def is_due(self, seq: int) -> bool:
        """Return whether the log went on far or long enough."""
        return seq - self._seq >= self._commands or (seq > self._seq and time.monotonic() - self._at >= self._every_s)


def fork_snapshot(position: Position) -> Callable[[], bytes]:
    """Begin a snapshot of a position; the function returned waits for its bytes (StoreError when the child failed)."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # The child uses nothing that another thread may hold a lock of: it encodes, writes and exits.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _write_and_exit(position, writer)
    os.close(writer)

    def wait() -> bytes:
        parts: list[bytes] = []
        try:
            while part := os.read(reader, _READ_BYTES):
                parts.append(part)
        finally:
            os.close(reader)
            os.waitpid(child, 0)
        data = b"".join(parts)
        if len(data) < _LENGTH_BYTES or int.from_bytes(data[:_LENGTH_BYTES], "big") != len(data) - _LENGTH_BYTES:
            raise StoreError("snapshot", f"{len(data)} bytes", "a child that writes the whole snapshot")
        return data[_LENGTH_BYTES:]

    return wait


def _write_and_exit(position: Position, writer: int) -> None:
    """Be the child: write length and bytes, then vanish without running anything of the parent's."""
    status = 1
    try:
        os.dup2(writer, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        data = position.engine.snapshot()
        view = memoryview(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
        while view:
            view = view[os.write(3, view) :]
        status = 0
    finally:
        os._exit(status)
