"""Keys in memory, forgotten the moment that they change.

Each process listens for notices on one connection of its own; a notice names the key that changed. While nobody
listens, nothing is taken from memory, so that a revoked key never works because a notice was missed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

import psycopg

from bursa.services.exchange import Actor

#: Channel on which a process tells the others that a key changed; the payload is the key's number.
CHANNEL: Final = "bursa_keys"
#: Keys kept in memory; the oldest goes first.
KEYS_MAX: Final = 10_000
#: How often the connection is tried while no notice comes, in seconds.
HEARTBEAT_S: Final = 5.0
#: How long to wait before listening again after the connection broke, in seconds.
RETRY_S: Final = 0.5
_CONNECT_LIMIT_S: Final = 5
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class KnownKey:
    """A key that was valid when it was read. Times are nanoseconds since the epoch; 0 = never."""

    actor: Actor
    secret_sha256: bytes
    expires_at_ns: int
    used_at_ns: int = 0


class KeyCache:
    """Known keys of one process; ``is_live`` while it hears of changes."""

    def __init__(self, dsn: str) -> None:
        """Prepare to listen at a database (any role will do); ``start`` begins."""
        self._dsn = dsn
        self._known: dict[int, KnownKey] = {}
        self._task: asyncio.Task[None] | None = None
        self._generation = 0
        self._is_live = asyncio.Event()

    @property
    def is_live(self) -> bool:
        """Whether changes are heard, so that what is in memory is true."""
        return self._is_live.is_set()

    @property
    def generation(self) -> int:
        """Counts changes heard: what was read before one of them may not be remembered after it."""
        return self._generation

    async def start(self) -> None:
        """Begin to listen; returns at once, ``is_live`` follows."""
        assert self._task is None, "started twice"
        self._task = asyncio.create_task(self._listen(), name="keys listener")

    async def stop(self) -> None:
        """Stop listening and forget everything."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self.forget()

    async def wait_live(self) -> None:
        """Wait until changes are heard."""
        await self._is_live.wait()

    def get(self, key_id: int) -> KnownKey | None:
        """Return a key that is known and still true; None when it must be read."""
        return self._known.get(key_id) if self._is_live.is_set() else None

    def put(self, key_id: int, known: KnownKey, generation: int) -> None:
        """Remember a key read while ``generation`` stood; does nothing when something changed since."""
        if not self._is_live.is_set() or generation != self._generation:
            return
        if len(self._known) >= KEYS_MAX:
            del self._known[next(iter(self._known))]
        self._known[key_id] = known

    def forget(self, key_id: int | None = None) -> None:
        """Forget a key, or all of them."""
        self._generation += 1
        if key_id is None:
            self._known.clear()
        else:
            self._known.pop(key_id, None)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (psycopg.Error, OSError) as error:
                _LOG.warning("keys: no notices, every request reads its key (%s)", type(error).__name__)
            finally:
                self._is_live.clear()
                self.forget()
            await asyncio.sleep(RETRY_S)

    async def _listen_once(self) -> None:
        """Listen until the connection breaks."""
        connection = await psycopg.AsyncConnection.connect(
            self._dsn, autocommit=True, connect_timeout=_CONNECT_LIMIT_S, application_name="bursa keys"
        )
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self.forget()
            self._is_live.set()
            while True:
                async for notice in connection.notifies(timeout=HEARTBEAT_S):
                    self.forget(int(notice.payload) if notice.payload.isdecimal() else None)
                async with asyncio.timeout(HEARTBEAT_S):
                    await connection.execute("SELECT 1")
