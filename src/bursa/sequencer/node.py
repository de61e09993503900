"""A node: one process's part in the exchange, whatever it is at the moment.

A node that may lead follows the log with an engine of its own (hot standby) until the leader's lock is free, takes it
with a new epoch, and leads until its first fault; then it starts over from the log. A node that may not lead follows
the log for its feed alone. Either way `submit` finds the leader: in this process, or through the inbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg

from bursa.errors import BursaError, LogError, QueueFullError, UnavailableError
from bursa.market import IDEMPOTENCY_COMMANDS_MAX, Command
from bursa.ops import metrics
from bursa.sequencer.clock import Clock, GuardedClock
from bursa.sequencer.feed import Feed
from bursa.sequencer.inbox import InboxClient, InboxReader
from bursa.sequencer.log import Position, apply_row, check_row, load, read_rows, record_of, write_snapshot
from bursa.sequencer.lookup import Lookup
from bursa.sequencer.records import Answer, Record
from bursa.sequencer.sequencer import Sequencer
from bursa.sequencer.snapshots import SNAPSHOT_COMMANDS, Schedule, fork_snapshot
from bursa.sequencer.writer import LOG_CHANNEL, Writer

#: Key of the advisory lock that the leader's session holds ("bursa" in ASCII).
LEADER_LOCK: Final = 0x6275727361
#: How often a follower looks for new rows and a free lock without being called, in seconds.
FOLLOW_POLL_S: Final = 0.05
#: A leader that gave no sign of life for so long is replaced, in seconds of the database's clock.
LEADER_SILENT_S: Final = 5.0
#: How often a standby looks at the leader's signs of life, in seconds.
LOOK_AT_LEADER_S: Final = 1.0
#: How long `submit` waits for a leader after a fault before it tells its caller to come again, in seconds.
SUBMIT_PATIENCE_S: Final = 5.0
#: Pauses between attempts to start over, in seconds.
RETRY_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
#: A leader that stops leaves a snapshot when so many commands came after the last one.
FAREWELL_COMMANDS: Final = 1_000
#: What must find room on a disk that was full before somebody leads again, in bytes.
TRY_BYTES: Final = 1 << 20
#: The longest that a thread computes before another gets its turn, in seconds: the writer's must not wait long.
SWITCH_S: Final = 0.00002

_log = logging.getLogger("bursa.sequencer.node")
Connection = psycopg.Connection[tuple[Any, ...]]


class Node:
    """See the module. Start it in a running event loop; it lives there."""

    def __init__(
        self,
        dsn: str,
        *,
        may_lead: bool = True,
        make_clock: Callable[[int], Clock] = GuardedClock,
        on_load: Callable[[Position], None] | None = None,
        describe_fault: Callable[[], str] = str,
        snapshot_commands: int = SNAPSHOT_COMMANDS,
    ) -> None:
        self._dsn = dsn
        self._may_lead = may_lead
        self._make_clock = make_clock
        self._on_load = on_load
        self._describe_fault = describe_fault
        self._snapshot_commands = snapshot_commands
        self._snapshot_seq = 0
        self.feed = Feed()
        self.epoch = 0
        self.detail = "starting"
        self._clock: Clock | None = None
        self._sequencer: Sequencer | None = None
        self._inbox: InboxClient | None = None
        self._digest = b""
        self._is_stopping = False
        self._is_disk_full = False
        self._task: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="bursa-node")

    # ---- what a process asks of it ---------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this process decides now."""
        return self._sequencer is not None

    @property
    def is_ready(self) -> bool:
        """Whether commands can be submitted with hope: `detail` says why not."""
        return not self.detail

    @property
    def seq(self) -> int:
        """The newest committed seq that this process has seen."""
        return self.feed.seq

    @property
    def queue_depth(self) -> int:
        """Commands that wait in this process's sequencer."""
        return self._sequencer.queue_depth if self._sequencer is not None else 0

    @property
    def digest_hex(self) -> str:
        """The digest of the log up to the newest record seen, in hexadecimal."""
        digest = self._sequencer.committed_digest if self._sequencer is not None else self._digest
        return digest.hex()

    async def start(self) -> None:
        """Load the state, then follow or lead in the background; raises when the log cannot be read or is not sound."""
        sys.setswitchinterval(SWITCH_S)
        loop = asyncio.get_running_loop()
        position = await loop.run_in_executor(self._threads, self._load)
        self.feed.start_at(position.seq, position.at_ns)
        self._digest = position.digest
        if self._may_lead:  # one clock for the life of the process: one made later would follow a step made before
            self._clock = self._make_clock(position.at_ns)
        if self._on_load is not None:
            self._on_load(position)
        self._task = loop.create_task(self._run(position), name="bursa-node")

    async def stop(self) -> None:
        """Finish what was taken and stop."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._inbox is not None:
            await self._inbox.close()
        # Not in the event loop: a thread that ends may wait for the loop to publish its last records.
        await asyncio.to_thread(self._threads.shutdown)

    async def submit(self, command: Command, *, is_fresh: bool = False) -> Answer:
        """Return the answer to one command once it is durable; see Submitter."""
        return (await self.submit_many([command], is_fresh=is_fresh))[0]

    async def submit_many(self, commands: Sequence[Command], *, is_fresh: bool = False) -> list[Answer]:
        """Return the answers to commands that are applied in this order; see Submitter.

        When the leader fails meanwhile, the same commands are submitted again, for SUBMIT_PATIENCE_S at most.
        """
        deadline = time.monotonic() + SUBMIT_PATIENCE_S
        while True:
            sequencer = self._sequencer
            try:
                if sequencer is not None:
                    return await sequencer.submit_many(commands, is_fresh=is_fresh)
                return await self._through_inbox().submit_many(commands, is_fresh=is_fresh)
            except QueueFullError:
                raise
            except UnavailableError:
                if time.monotonic() >= deadline or self._is_stopping:
                    raise
            is_fresh = False  # it may be in the log by now
            await asyncio.sleep(FOLLOW_POLL_S)

    def _through_inbox(self) -> InboxClient:
        if not self.is_ready:
            raise UnavailableError("exchange", self.detail, "an exchange that is ready; send the same command again")
        if self._inbox is None:
            self._inbox = InboxClient(self._dsn)
        return self._inbox

    # ---- terms -----------------------------------------------------------------------------------------

    async def _run(self, first: Position) -> None:
        """Follow, lead, fail, start over."""
        position: Position | None = first
        attempt = 0
        while not self._is_stopping:
            began = time.monotonic()
            try:
                await self._term(position)
            except asyncio.CancelledError:
                raise
            except LogError:
                _log.critical("the log is not sound; this process neither leads nor follows", exc_info=True)
                self.detail = "the command log is not sound: run `bursa admin verify`"
            except (psycopg.Error, BursaError, OSError) as error:
                _log.warning("starting over from the log: %s", error)
                self.detail = self._explain(error, "the database cannot be reached")
            except Exception:  # noqa: BLE001 - a bug of whatever kind must not look like readiness
                _log.critical("a fault of the program; starting over from the log", exc_info=True)
                self.detail = "the program failed: its log says where"
            position = None
            attempt = 0 if time.monotonic() - began > RETRY_PAUSES_S[-1] else attempt + 1
            await asyncio.sleep(RETRY_PAUSES_S[min(attempt, len(RETRY_PAUSES_S) - 1)])

    def _explain(self, error: Exception, otherwise: str) -> str:
        """Return why a term ended, for people; a full disk is noted for the next term."""
        words = str(error.value if isinstance(error, BursaError) else error)
        if any(sign in words for sign in _DISK_FULL):
            self._is_disk_full = True
            return "the disk of the database is full: free some space, trading goes on by itself"
        return self._describe_fault() or otherwise

    async def _term(self, position: Position | None) -> None:
        """Load if need be, follow until the lock is ours, lead until a fault."""
        loop = asyncio.get_running_loop()
        if position is None:
            position = await loop.run_in_executor(self._threads, self._load)
            await loop.run_in_executor(self._threads, self._publish_missed, position.seq, loop)
        stop = _Stop()
        following = loop.run_in_executor(self._threads, self._follow, position, stop, loop)
        try:
            followed = await asyncio.shield(following)
        except asyncio.CancelledError:
            stop.is_set = True
            followed = await following
            if followed is not None:
                followed[0].close()
            raise
        if followed is not None:
            await self._lead(*followed)

    async def _lead(self, connection: Connection, position: Position) -> None:
        loop = asyncio.get_running_loop()
        fault: asyncio.Future[Exception] = loop.create_future()

        def on_fault(error: Exception) -> None:
            self._sequencer = None
            self.detail = self._explain(error, "the exchange restarts from its log")
            if not fault.done():
                fault.set_result(error)

        assert self._clock is not None, "start() makes the clock of a node that may lead"
        preparing = loop.run_in_executor(self._threads, self._prepare)
        try:
            recent, lookup_connection = await asyncio.shield(preparing)
            writer = Writer(connection, self.epoch)
        except BaseException:
            connection.close()
            with contextlib.suppress(Exception):  # if that was the fault, it is raised below
                (await preparing)[1].close()
            raise
        sequencer = Sequencer(
            position,
            epoch=self.epoch,
            writer=writer,
            lookup=Lookup(lookup_connection),
            feed=self.feed,
            clock=self._clock,
            recent=recent,
            on_fault=on_fault,
        )
        inbox = InboxReader(self._dsn, sequencer)
        snapshots = loop.create_task(self._take_snapshots(sequencer), name="bursa-snapshots")
        try:
            await asyncio.wait((fault, inbox.caught_up), return_when=asyncio.FIRST_COMPLETED)
            if not fault.done():
                self._sequencer = sequencer
                self.detail = ""
                metrics.EPOCH.set(self.epoch)
                metrics.IS_LEADER.set(1)
                _log.info("leading with epoch %d from seq %d", self.epoch, position.seq)
            raise await fault
        finally:
            metrics.IS_LEADER.set(0)
            self._sequencer = None
            snapshots.cancel()
            await inbox.close()
            await sequencer.close()
            is_committed = self.feed.seq == sequencer.seq
            if self._is_stopping and is_committed and sequencer.seq - self._snapshot_seq >= FAREWELL_COMMANDS:
                await self._snapshot(sequencer)  # the next start has little to replay

    # ---- in a thread: reading and following ------------------------------------------------------------

    def _connect(self) -> Connection:
        return psycopg.connect(self._dsn, autocommit=True, application_name="bursa-node")

    def _load(self) -> Position:
        with self._connect() as connection:
            self.epoch, _ = _look_at_leader(connection)
            return load(connection)

    def _publish_missed(self, until_seq: int, loop: asyncio.AbstractEventLoop) -> None:
        """Publish what the log holds beyond the feed: records whose commit succeeded though nobody was told."""
        with self._connect() as connection:
            records = [record_of(row) for row in read_rows(connection, self.feed.seq, until_seq)]
        _call(loop, self.feed.publish, records)

    def _follow(
        self, position: Position, stop: _Stop, loop: asyncio.AbstractEventLoop
    ) -> tuple[Connection, Position] | None:
        """Follow the log until the lock is ours (the session that holds it is returned) or until told to stop."""
        connection = self._connect()
        looked = -LOOK_AT_LEADER_S
        try:
            connection.execute(f"LISTEN {LOG_CHANNEL}")
            while not stop.is_set:
                position = self._advance(connection, position, loop)
                if self._may_lead and _try_lock(connection):
                    connection.execute("UNLISTEN *")
                    if self._is_disk_full:
                        _try_disk(connection)
                        self._is_disk_full = False
                    epoch = _next_epoch(connection)
                    position = self._advance(connection, position, loop)
                    self.epoch = epoch  # only now: rows of the epoch before may have come last
                    return connection, position
                if time.monotonic() - looked > LOOK_AT_LEADER_S:
                    looked = time.monotonic()
                    if self._may_lead:
                        _replace_silent_leader(connection)
                    epoch, is_led = _look_at_leader(connection)
                    self.epoch = max(self.epoch, epoch)
                    self._say_following(loop, is_led=is_led)
                for _ in connection.notifies(timeout=FOLLOW_POLL_S, stop_after=1):
                    pass
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _advance(self, connection: Connection, position: Position, loop: asyncio.AbstractEventLoop) -> Position:
        """Take over the rows that are new: into the engine of a node that may lead, and into the feed."""
        engine, seq, at_ns, digest = position
        records: list[Record] = []
        for row in read_rows(connection, seq):
            if self._may_lead:
                check_row(row, digest)
                apply_row(engine, row)
            seq, at_ns, digest = row.seq, row.at_ns, row.digest
            self.epoch = max(self.epoch, row.epoch)  # the leader's row may be ahead of the log
            records.append(record_of(row))
        self._digest = digest
        if records:
            _call(loop, self.feed.publish, records)
        return Position(engine, seq, at_ns, digest)

    def _say_following(self, loop: asyncio.AbstractEventLoop, *, is_led: bool) -> None:
        """Note whether somebody leads; this process knows all that is committed."""
        detail = "" if is_led else "no process leads: start one with the role sequencer or all"
        if self.detail != detail:
            loop.call_soon_threadsafe(setattr, self, "detail", detail)

    def _prepare(self) -> tuple[list[tuple[str, int, int]], Connection]:
        """Fetch the places of the newest commands; return them and the session for lookups."""
        connection = self._connect()
        row = connection.execute("SELECT max(seq) FROM bursa.snapshots").fetchone()
        self._snapshot_seq = row[0] or 0 if row is not None else 0
        rows = connection.execute(_RECENT_SQL, (IDEMPOTENCY_COMMANDS_MAX,)).fetchall()
        return [(command_id, seq, at_ns) for command_id, seq, at_ns in reversed(rows)], connection

    # ---- snapshots -------------------------------------------------------------------------------------

    async def _take_snapshots(self, sequencer: Sequencer) -> None:
        """Take a snapshot whenever one is due; one that fails is tried again when the next is due."""
        schedule = Schedule(self._snapshot_seq, commands=self._snapshot_commands)
        while True:
            await asyncio.sleep(LOOK_AT_LEADER_S)
            if schedule.is_due(sequencer.seq):
                schedule.taken(sequencer.seq)
                await self._snapshot(sequencer)

    async def _snapshot(self, sequencer: Sequencer) -> None:
        """Encode the state in a child, wait until the log holds its position, keep it."""
        loop = asyncio.get_running_loop()
        position = sequencer.position
        try:
            data = await loop.run_in_executor(self._threads, fork_snapshot(position))
            while self.feed.seq < position.seq:  # noqa: ASYNC110 - rare, and nobody waits for it
                await asyncio.sleep(FOLLOW_POLL_S)
            await loop.run_in_executor(self._threads, self._keep_snapshot, position, data)
        except (psycopg.Error, BursaError, OSError) as error:
            _log.warning("no snapshot at seq %d: %s", position.seq, error)
        else:
            self._snapshot_seq = position.seq
            _log.info("snapshot at seq %d, %d bytes", position.seq, len(data))

    def _keep_snapshot(self, position: Position, data: bytes) -> None:
        with self._connect() as connection:
            write_snapshot(connection, position, data)


class _Stop:
    """A flag that a thread looks at."""

    is_set = False


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[list[Record]], None], records: list[Record]) -> None:
    """Publish in the event loop, and wait for it: the next rows must not overtake these."""
    done = asyncio.run_coroutine_threadsafe(_publish(callback, records), loop)
    done.result()


async def _publish(callback: Callable[[list[Record]], None], records: list[Record]) -> None:
    callback(records)


def _try_lock(connection: Connection) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (LEADER_LOCK,)).fetchone()
    return row is not None and row[0] is True


def _try_disk(connection: Connection) -> None:
    """Make a table grow, and take it back; psycopg.Error when the disk has no room: nobody leads then."""
    with connection.transaction(force_rollback=True):
        connection.execute(_TRY_SQL, (os.urandom(TRY_BYTES),))


def _next_epoch(connection: Connection) -> int:
    """Begin an epoch; waits for a transaction of the epoch before that still holds the row."""
    holder = f"{socket.gethostname()}:{os.getpid()}"
    row = connection.execute(_EPOCH_SQL, (holder,)).fetchone()
    assert row is not None, "the leader's row is there from the first migration on"
    return int(row[0])


def _look_at_leader(connection: Connection) -> tuple[int, bool]:
    """Return the epoch, and whether its leader gave a sign of life lately."""
    row = connection.execute(_LED_SQL, (LEADER_SILENT_S,)).fetchone()
    assert row is not None, "the leader's row is there from the first migration on"
    return int(row[0]), row[1] is True


def _replace_silent_leader(connection: Connection) -> None:
    """End the session of a leader that gave no sign of life: its lock is free then, and it writes nothing more."""
    rows = connection.execute(_SILENT_SQL, (LEADER_SILENT_S, LEADER_LOCK >> 32, LEADER_LOCK & 0xFFFFFFFF)).fetchall()
    for pid, _ in rows:
        _log.error("the leader is silent; its session %d is ended", pid)


_DISK_FULL: Final = ("No space left on device", "Disk quota exceeded")
_TRY_SQL: Final = "INSERT INTO bursa.answers (request_id, client_id, answer) VALUES (0, gen_random_uuid(), %s)"
_EPOCH_SQL: Final = (
    "UPDATE bursa.leader SET epoch = epoch + 1, holder = %s, pid = pg_backend_pid(), renewed_at = now() RETURNING epoch"
)
_LED_SQL: Final = "SELECT epoch, pid <> 0 AND renewed_at >= now() - make_interval(secs => %s) FROM bursa.leader"
_SILENT_SQL: Final = (
    "SELECT l.pid, pg_terminate_backend(l.pid) FROM pg_locks AS l, bursa.leader AS o"
    " WHERE o.renewed_at < now() - make_interval(secs => %s) AND l.locktype = 'advisory' AND l.granted"
    " AND l.classid = %s AND l.objid = %s AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.pid = o.pid"
)
_RECENT_SQL: Final = "SELECT command_id, seq, at_ns FROM bursa.command_log ORDER BY seq DESC LIMIT %s"
