"""The inbox: how processes that do not lead hand commands over, and get their answers.

A client inserts commands in batches and waits for rows in `answers`. The leader reads whatever is there, decides, and
in the batch's own transaction deletes the requests and writes the answers. Requests are read without a cursor (all rows
that are not in hand already), so one that becomes visible late is never passed over; they get their place in the log
from the leader alone. A leader that dies leaves what it had not committed in the inbox, for the next one.

A client that comes back after a fault sends the same command again, while its first copy may still be in the inbox. If
that copy were read after the second one was refused, it might be carried out though the client knows that it was not.
So a new leader reads the inbox before it takes commands from its own process, and nobody reads a request for which its
client has stopped waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec
import psycopg

from bursa.errors import QueueFullError, UnavailableError
from bursa.market import Command
from bursa.sequencer.records import Answer
from bursa.sequencer.sequencer import Sequencer, Unit
from bursa.sequencer.writer import ANSWER_CHANNEL

#: Channel on which new requests are announced.
INBOX_CHANNEL: Final = "bursa_inbox"
#: Requests that the leader has in hand at most, and that a client may wait for.
INBOX_REQUESTS_MAX: Final = 2_000
#: How often both sides look without being called, in seconds.
POLL_S: Final = 0.2
#: How long a client waits for an answer, in seconds; then the outcome is unknown to it.
ANSWER_LIMIT_S: Final = 10.0
#: Answers that nobody fetched are deleted after so long, in seconds.
STALE_ANSWERS_S: Final = 600

_log = logging.getLogger("bursa.sequencer.inbox")
_pack = msgspec.msgpack.Encoder().encode
_decode_command = msgspec.msgpack.Decoder(Command).decode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode


class InboxReader:
    """The leader's side: one task that carries requests to the sequencer."""

    def __init__(self, dsn: str, sequencer: Sequencer) -> None:
        self._dsn = dsn
        self._sequencer = sequencer
        self._in_hand: set[int] = set()
        #: Done when what was in the inbox at the start is in hand.
        self.caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="bursa-inbox")

    async def close(self) -> None:
        """Stop reading; what is in hand is the sequencer's to finish."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
                    await connection.execute(f"LISTEN {INBOX_CHANNEL}")
                    cleaned = -math.inf
                    while True:
                        if time.monotonic() - cleaned > STALE_ANSWERS_S:
                            cleaned = time.monotonic()
                            await connection.execute(_CLEAN_SQL, (STALE_ANSWERS_S,))
                            await connection.execute(_EXPIRE_SQL, (ANSWER_LIMIT_S,))
                        taken = await self._read(connection)
                        if not self.caught_up.done():
                            self.caught_up.set_result(None)
                        if not taken:
                            async for _ in connection.notifies(timeout=POLL_S, stop_after=1):
                                pass
            except psycopg.Error as error:
                _log.warning("the inbox cannot be read: %s", error)
                await asyncio.sleep(POLL_S)

    async def _read(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> int:
        room = INBOX_REQUESTS_MAX - len(self._in_hand)
        if room <= 0:
            await asyncio.sleep(POLL_S / 10)
            return 0
        cursor = await connection.execute(_READ_SQL, (list(self._in_hand), ANSWER_LIMIT_S, room), binary=True)
        rows = await cursor.fetchall()
        taken = 0
        for request_id, client_id, command, is_fresh in rows:
            taken += self._hand_over(request_id, str(client_id), command, is_fresh=is_fresh)
        if taken < len(rows):
            await asyncio.sleep(POLL_S / 10)  # the queue is full: what it did not take is read again
        return taken

    def _hand_over(self, request_id: int, client_id: str, data: bytes, *, is_fresh: bool) -> bool:
        """Give one request to the sequencer; return whether it is in hand now."""

        def on_done(_answers: list[Answer] | None, _fault: Exception | None) -> None:
            self._in_hand.discard(request_id)

        self._in_hand.add(request_id)
        try:
            command = _decode_command(data)
        except msgspec.MsgspecError as error:
            # It stays in hand, so that it is not read again, and in the inbox, where a newer version may find it.
            _log.error("request %d of the inbox is not a command of this version: %s", request_id, error)
            return True
        try:
            self._sequencer.take(Unit([command], on_done, is_fresh=is_fresh, inbox=(request_id, client_id)))
        except UnavailableError:
            self._in_hand.discard(request_id)  # it stays in the inbox, for the next round or the next leader
            return False
        return True


class InboxClient:
    """The other side: a Submitter for a process that does not lead."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._client_id = uuid4()
        self._new: list[_Handover] = []
        self._has_new = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(self._send)), loop.create_task(self._keep(self._receive))]

    async def close(self) -> None:
        """Stop; whoever waits gets no answer."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def submit(self, command: Command, *, is_fresh: bool = False) -> Answer:
        """Return the answer to one command once it is durable; see Submitter."""
        return (await self.submit_many([command], is_fresh=is_fresh))[0]

    async def submit_many(self, commands: Sequence[Command], *, is_fresh: bool = False) -> list[Answer]:
        """Return the answers to commands handed over in this order; see Submitter."""
        waiting = len(self._waiting) + sum(len(handover.commands) for handover in self._new)
        if waiting + len(commands) > INBOX_REQUESTS_MAX:
            raise QueueFullError("inbox", waiting, "fewer commands that wait; send the same again later")
        loop = asyncio.get_running_loop()
        handover = _Handover(commands, [loop.create_future() for _ in commands], is_fresh=is_fresh)
        self._new.append(handover)
        self._has_new.set()
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                return list(await asyncio.gather(*handover.futures))
        except TimeoutError as error:
            raise UnavailableError("answer", "none in time", _SAME_AGAIN) from error
        finally:
            for number in handover.requests:
                self._waiting.pop(number, None)

    async def _keep(self, work: Callable[[psycopg.AsyncConnection[tuple[Any, ...]]], Awaitable[None]]) -> None:
        """Do one side's work over one session after the other, for as long as the client lives."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
                    await work(connection)
            except psycopg.Error as error:
                _log.warning("the inbox cannot be reached: %s", error)
                await asyncio.sleep(POLL_S)

    async def _send(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        """Insert what is new, all of it in one statement; one that fails may be there or not, so it is not repeated."""
        while True:
            await self._has_new.wait()
            self._has_new.clear()
            new, self._new = self._new, []
            pairs = [(command, h.is_fresh, f) for h in new for command, f in zip(h.commands, h.futures, strict=True)]
            if not pairs:
                continue
            parameters = (
                self._client_id,
                [_pack(command) for command, _, _ in pairs],
                [is_fresh for _, is_fresh, _ in pairs],
            )
            try:
                cursor = await connection.execute(_INSERT_SQL, parameters, prepare=True)
            except psycopg.Error:
                for _, _, future in pairs:
                    if not future.done():
                        future.set_exception(UnavailableError("inbox", "cut off", _SAME_AGAIN))
                raise
            numbers = sorted(number for (number,) in await cursor.fetchall())
            for number, (_, _, future) in zip(numbers, pairs, strict=True):
                self._waiting[number] = future
            position = 0
            for handover in new:
                handover.requests = numbers[position : position + len(handover.commands)]
                position += len(handover.commands)
            await connection.execute(f"NOTIFY {INBOX_CHANNEL}")

    async def _receive(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        """Fetch answers to what waits; an answer that is there before its request is known stays until then."""
        await connection.execute(f"LISTEN {ANSWER_CHANNEL}")
        while True:
            if self._waiting:
                cursor = await connection.execute(_FETCH_SQL, (list(self._waiting),), prepare=True, binary=True)
                for number, data in await cursor.fetchall():
                    future = self._waiting.pop(number, None)
                    if future is not None and not future.done():
                        future.set_result(_decode_answer(data))
            async for _ in connection.notifies(timeout=POLL_S, stop_after=1):
                pass


class _Handover:
    """Commands of one caller on their way into the inbox, and the numbers that they got there."""

    __slots__ = ("commands", "futures", "is_fresh", "requests")

    def __init__(self, commands: Sequence[Command], futures: list[asyncio.Future[Answer]], *, is_fresh: bool) -> None:
        self.commands = commands
        self.futures = futures
        self.is_fresh = is_fresh
        self.requests: list[int] = []


_READ_SQL: Final = (
    "SELECT request_id, client_id, command, is_fresh FROM bursa.inbox WHERE request_id <> ALL(%s::bigint[])"
    " AND created_at > now() - make_interval(secs => %s) ORDER BY request_id LIMIT %s"
)
_EXPIRE_SQL: Final = "DELETE FROM bursa.inbox WHERE created_at < now() - make_interval(secs => %s)"
_CLEAN_SQL: Final = "DELETE FROM bursa.answers WHERE created_at < now() - make_interval(secs => %s)"
_SAME_AGAIN: Final = "the same command again (same id): its outcome is in the log"
# ORDER BY gives the numbers of the identity column in the order of the commands.
_INSERT_SQL: Final = (
    "INSERT INTO bursa.inbox (client_id, command, is_fresh)"
    " SELECT %s, n.command, n.is_fresh FROM unnest(%s::bytea[], %s::boolean[]) WITH ORDINALITY"
    " AS n(command, is_fresh, place) ORDER BY n.place RETURNING request_id"
)
_FETCH_SQL: Final = "DELETE FROM bursa.answers WHERE request_id = ANY(%s::bigint[]) RETURNING request_id, answer"
