"""The leader: gives commands one order, applies them in memory, makes them durable in batches, and only then answers.

Commands are applied as they come, a few at a time, while the batch before them is on its way to disk; when the writer
is free, all that was applied meanwhile is the next batch. So batches grow with the load by themselves, without a timer.

Invariants:
* The engine may be ahead of the log by the open batch and the one in the writer, never by more; nobody outside sees it.
* An answer leaves only when all that was applied before it is durable, refusals too: they may depend on it.
* After any fault of a batch nothing more is applied. Every caller who waits is told that the outcome is unknown, and
  whoever sends the same command again gets the answer from the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from bursa.errors import DatabaseUnavailableError, NotLeaderError, QueueFullError, UnavailableError
from bursa.market import IDEMPOTENCY_COMMANDS_MAX, Command, Rejected, Rejection, Tick
from bursa.market.refusals import TEXT_MAX
from bursa.ops import metrics
from bursa.sequencer.batch import Batch, Ledgers
from bursa.sequencer.clock import Clock
from bursa.sequencer.feed import Feed
from bursa.sequencer.log import Position, decode_outcome
from bursa.sequencer.lookup import Found, Known, Lookup
from bursa.sequencer.records import Answer, Record
from bursa.sequencer.rows import NO_ROWS
from bursa.sequencer.writer import InboxAnswers, Work, Writer

#: Commands of one transaction.
BATCH_COMMANDS_MAX: Final = 2_000
#: Commands that may wait or be on their way to disk; more are refused, to be sent again later.
QUEUE_COMMANDS_MAX: Final = 10_000
#: Commands that are applied before the event loop and the writer get their turn.
CHUNK_COMMANDS_MAX: Final = 16
#: Longest time between two looks for due work, in seconds.
TICK_EVERY_S: Final = 0.25
#: An idle leader gives a sign of life this often, in seconds.
RENEW_EVERY_S: Final = 1.0
#: What a refused caller is told to wait, in seconds.
RETRY_AFTER_S: Final = 1.0

_log = logging.getLogger("bursa.sequencer")
_pack = msgspec.msgpack.Encoder().encode
#: How the ids of the sequencer's own Ticks begin; nobody else's may.
TICK_PREFIX: Final = "tick-"
_OURS: Final = Answer(
    Rejected(
        Rejection.INVALID_FIELD, "command_id", f"a command other than Tick, whose id does not begin with {TICK_PREFIX}"
    )
)
_ORDER_KINDS: Final = frozenset({"PlaceBid", "PlaceAsk"})
_DIFFERENT: Final = Answer(
    Rejected(Rejection.EXISTS_WITH_DIFFERENT_FIELDS, "command_id", "an id never used for another command")
)


class Unit:
    """Commands that one caller submitted together, and how far they have come."""

    __slots__ = ("answers", "commands", "found", "inbox", "is_fresh", "left", "next", "on_done")

    def __init__(
        self,
        commands: Sequence[Command],
        on_done: Callable[[list[Answer] | None, Exception | None], None],
        *,
        is_fresh: bool,
        inbox: tuple[int, str] | None = None,
    ) -> None:
        self.commands = commands
        self.answers: list[Answer] = []
        self.next = 0
        self.left = len(commands)
        self.is_fresh = is_fresh
        self.found: Found = {}
        #: (request, client) when the unit came through the inbox.
        self.inbox = inbox
        self.on_done = on_done


class _Open(NamedTuple):
    """A batch that still takes commands, with the records it will publish and the answers that wait for it."""

    batch: Batch
    records: list[Record]
    waiting: list[tuple[Unit, Answer]]


class Sequencer:
    """One term of leadership: from the moment the lock is ours to the first fault, or to `close`."""

    def __init__(
        self,
        position: Position,
        *,
        epoch: int,
        writer: Writer,
        lookup: Lookup,
        feed: Feed,
        clock: Clock,
        recent: Sequence[tuple[str, int, int]] = (),
        on_fault: Callable[[Exception], None],
    ) -> None:
        self._engine = position.engine
        self.seq = position.seq
        self.digest = position.digest
        self.committed_digest = position.digest
        self.epoch = epoch
        self._writer = writer
        self._lookup = lookup
        self._feed = feed
        self._clock = clock
        self._on_fault = on_fault
        self._ledgers = Ledgers(position.engine)
        #: Places of the newest commands, so that a repeat is answered with the place of the first.
        self._recent: OrderedDict[str, tuple[int, int]] = OrderedDict((name, (seq, at)) for name, seq, at in recent)
        self._ready: deque[Unit] = deque()
        self._waiting_commands = 0
        self._open = self._new_open()
        self._in_writer: _Open | None = None
        self._fault: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        #: Units that wait for the log to say which of these ids it knows.
        self._asked_units: list[Unit] = []
        self._asked_ids: list[str] = []
        self._is_asking = False
        self._is_closing = False
        self._is_renewing = False
        self._wrote_at = 0.0
        self._counts: dict[tuple[str, str], int] = {}
        self._task = self._loop.create_task(self._run(), name="bursa-sequencer")

    # ---- for callers -----------------------------------------------------------------------------------

    async def submit(self, command: Command, *, is_fresh: bool = False) -> Answer:
        """Return the answer to one command once it is durable; see Submitter."""
        return (await self.submit_many([command], is_fresh=is_fresh))[0]

    async def submit_many(self, commands: Sequence[Command], *, is_fresh: bool = False) -> list[Answer]:
        """Return the answers to commands that are applied in this order; see Submitter."""
        future: asyncio.Future[list[Answer]] = self._loop.create_future()

        def on_done(answers: list[Answer] | None, fault: Exception | None) -> None:
            if future.done():
                return  # the caller has gone; what was decided stands
            if fault is not None:
                future.set_exception(fault)
            else:
                future.set_result(answers or [])

        self.take(Unit(commands, on_done, is_fresh=is_fresh))
        return await future

    def take(self, unit: Unit) -> None:
        """Queue a unit; QueueFullError or UnavailableError when it cannot be taken."""
        if self._fault is not None or self._is_closing:
            raise NotLeaderError("sequencer", "stopped", "a leader; send the same command again")
        if not unit.commands:
            unit.on_done([], None)
            return
        if self._waiting_commands + len(unit.commands) > QUEUE_COMMANDS_MAX:
            raise QueueFullError("queue", self._waiting_commands, "a shorter queue; send the same command again later")
        self._waiting_commands += len(unit.commands)
        if unit.is_fresh:
            self._put(unit)
        else:
            self._look_up(unit)

    @property
    def queue_depth(self) -> int:
        """Commands that wait or are on their way to disk."""
        return self._waiting_commands

    @property
    def position(self) -> Position:
        """The engine and where it stands: perhaps ahead of the log. For snapshots, which wait for the commit."""
        return Position(self._engine, self.seq, self._engine.now_ns, self.digest)

    async def close(self) -> None:
        """Finish what was taken, then stop; later commands are refused."""
        self._is_closing = True
        self._wakeup.set()
        await self._task
        await asyncio.to_thread(self._writer.close)
        await asyncio.to_thread(self._lookup.close)

    # ---- before the engine -----------------------------------------------------------------------------

    def _put(self, unit: Unit) -> None:
        self._ready.append(unit)
        self._wakeup.set()

    def _look_up(self, unit: Unit) -> None:
        """Ask the log about ids that the engine does not remember; with none of them the unit is ready."""
        now_ns = max(self._clock.now_ns(), self._engine.now_ns)
        remembers = self._engine.remembers
        unknown = [
            command.command_id
            for command in unit.commands[unit.next :]
            if _is_possible_id(command.command_id) and not remembers(command.command_id, now_ns)
        ]
        if not unknown:
            self._put(unit)
            return
        self._asked_units.append(unit)
        self._asked_ids += unknown
        if not self._is_asking:  # what comes while the log is being asked is asked together next
            self._is_asking = True
            self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        units, ids = self._asked_units, self._asked_ids
        self._asked_units, self._asked_ids = [], []

        def on_found(found: Found | None) -> None:
            self._loop.call_soon_threadsafe(self._take_found, units, found)

        self._lookup.ask(ids, on_found)

    def _take_found(self, units: list[Unit], found: Found | None) -> None:
        if found is None:
            self._fail(DatabaseUnavailableError("lookup", "no answer", "a database that answers"))
        if self._fault is not None:
            for unit in (*units, *self._asked_units):
                self._give_up(unit)
            self._asked_units = []
            return
        for unit in units:
            unit.found = found or {}
            unit.is_fresh = True  # what the log does not know by now is new, or the engine remembers it
            self._put(unit)
        if self._asked_units:
            self._ask()
        else:
            self._is_asking = False

    # ---- the loop --------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self._fault is None and not self._is_finished():
                if not self._work():
                    self._wakeup.clear()
                    alarm = self._loop.call_later(TICK_EVERY_S, self._wakeup.set)  # cheaper than wait_for
                    await self._wakeup.wait()
                    alarm.cancel()
                    self._renew()
                else:
                    await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 - a bug, whatever it was: the state is not to be trusted
            _log.exception("the engine failed; the exchange restarts from its log")
            self._fail(UnavailableError("engine", type(error).__name__, "an engine without a fault"))

    def _is_finished(self) -> bool:
        return self._is_closing and self._waiting_commands == 0 and self._in_writer is None

    def _work(self) -> bool:
        """Apply a few commands and hand over what the writer can take; return whether there is more to do at once."""
        batch = self._open.batch
        applied = 0
        now_ns = max(self._clock.now_ns(), self._engine.now_ns)
        while applied < CHUNK_COMMANDS_MAX and batch.count < BATCH_COMMANDS_MAX:
            if self._engine.is_due(now_ns):
                self._apply(Tick(command_id=f"{TICK_PREFIX}{self.seq + 1}"), now_ns)
            elif self._ready:
                self._apply_next(now_ns)
            else:
                break
            applied += 1
        self._hand_over()
        return applied > 0 and (bool(self._ready) and self._open.batch.count < BATCH_COMMANDS_MAX)

    def _apply_next(self, now_ns: int) -> None:
        """Apply the next command of the first unit."""
        unit = self._ready[0]
        command = unit.commands[unit.next]
        command_id = command.command_id
        if not unit.is_fresh and _is_possible_id(command_id) and not self._engine.remembers(command_id, now_ns):
            self._ready.popleft()  # the engine remembered it when the unit came, and has forgotten it since
            self._look_up(unit)
            return
        known = unit.found.get(command_id) if unit.found else None
        if type(command) is Tick or (type(command_id) is str and command_id.startswith(TICK_PREFIX)):
            answer = _OURS
        elif known is not None and not self._engine.remembers(command_id, now_ns):
            answer = _answer_of(known, command)
        else:
            answer = self._apply(command, now_ns)
        unit.next += 1
        if unit.next == len(unit.commands):
            self._ready.popleft()
        self._open.waiting.append((unit, answer))

    def _apply(self, command: Command, now_ns: int) -> Answer:
        engine = self._engine
        command_id = command.command_id
        is_repeat = engine.remembers(command_id, now_ns) if type(command_id) is str else False
        outcome = engine.apply(command, now_ns)
        result = outcome.result
        kind = type(command).__name__
        if type(result) is Rejected:
            self._count(kind, result.code)
            return Answer(result)
        if is_repeat:
            self._count(kind, "REPEATED")
            seq, at_ns = self._recent.get(command_id, (0, 0))
            return Answer(result, outcome.events, seq, at_ns, is_repeat=True)
        seq = self.seq + 1
        self.digest = self._open.batch.add(seq, now_ns, command, outcome, self.digest)
        self.seq = seq
        recent = self._recent
        recent[command_id] = (seq, now_ns)
        if len(recent) > IDEMPOTENCY_COMMANDS_MAX:
            recent.popitem(last=False)
        self._count(kind, "DONE")
        self._open.records.append(Record(seq, now_ns, kind, outcome.events))
        return Answer(result, outcome.events, seq, now_ns)

    def _count(self, kind: str, result: str) -> None:
        """Count for the metrics, which take the sums once a batch: a labeled counter is slow."""
        key = (kind, result)
        self._counts[key] = self._counts.get(key, 0) + 1

    # ---- the writer ------------------------------------------------------------------------------------

    def _new_open(self) -> _Open:
        return _Open(Batch(self._engine, self.epoch, self._ledgers), [], [])

    def _hand_over(self) -> None:
        """Give the open batch to the writer if that is free, or answer at once what needs no transaction."""
        current = self._open
        if self._in_writer is not None or not (current.batch.count or current.waiting):
            return
        self._open = self._new_open()
        inbox = _inbox_answers(current.waiting)
        if not current.batch.count and not inbox.done:
            self._answer(current)
            return
        self._in_writer = current
        self._wrote_at = time.monotonic()
        rows = current.batch.seal()
        loop = self._loop

        def on_done(fault: Exception | None, seconds: float) -> None:
            loop.call_soon_threadsafe(self._take_done, fault, seconds)

        self._writer.write(Work(rows, current.batch.last_seq, inbox, on_done))

    def _take_done(self, fault: Exception | None, seconds: float) -> None:
        current = self._in_writer
        assert current is not None, "the writer finished what it was not given"
        if fault is not None:
            self._fail(fault)
            return
        self._in_writer = None
        if current.batch.count:
            self.committed_digest = current.batch.digest
            metrics.BATCH_COMMANDS.observe(current.batch.count)
            metrics.COMMIT_SECONDS.observe(seconds)
            self._feed.publish(current.records)
        self._answer(current)
        if self._fault is None:  # else the engine may stand in the middle of a command
            self._hand_over()
        self._wakeup.set()

    def _answer(self, current: _Open) -> None:
        for (kind, result), count in self._counts.items():
            metrics.COMMANDS.labels(kind, result).inc(count)
            if kind in _ORDER_KINDS:
                metrics.ORDERS.labels(result).inc(count)
        self._counts.clear()
        metrics.QUEUE_DEPTH.set(self._waiting_commands)
        for unit, answer in current.waiting:
            unit.answers.append(answer)
            unit.left -= 1
            self._waiting_commands -= 1
            if unit.left == 0:
                unit.on_done(unit.answers, None)

    def _renew(self) -> None:
        """Give a sign of life when nothing else was written for a while."""
        now = time.monotonic()
        if self._in_writer is not None or self._is_renewing or now - self._wrote_at < RENEW_EVERY_S:
            return
        self._wrote_at = now
        self._is_renewing = True

        def on_done(fault: Exception | None, _seconds: float) -> None:
            self._loop.call_soon_threadsafe(self._take_renewed, fault)

        self._writer.write(Work(NO_ROWS, 0, InboxAnswers(), on_done))

    def _take_renewed(self, fault: Exception | None) -> None:
        self._is_renewing = False
        if fault is not None:
            self._fail(fault)

    # ---- faults ----------------------------------------------------------------------------------------

    def _fail(self, fault: Exception) -> None:
        """End the term: tell everybody who waits that the outcome is unknown."""
        if self._fault is not None:
            return
        self._fault = fault
        _log.error("leadership of epoch %d ends: %s", self.epoch, fault)
        units = {id(unit): unit for unit in self._ready}
        for current in (self._in_writer, self._open):
            if current is not None:
                units |= {id(unit): unit for unit, _ in current.waiting}
        self._ready.clear()
        for unit in units.values():
            self._give_up(unit)
        self._wakeup.set()
        self._on_fault(fault)

    def _give_up(self, unit: Unit) -> None:
        unit.on_done(
            None,
            UnavailableError(
                "commit",
                "unknown",
                "the same command again (same id): its outcome is in the log",
                retry_after_s=RETRY_AFTER_S,
            ),
        )


def _is_possible_id(command_id: object) -> bool:
    """Return whether the log could hold this id; the engine refuses all others, so nobody needs to look."""
    return type(command_id) is str and 0 < len(command_id) <= TEXT_MAX and command_id.isprintable()


def _answer_of(known: Known, command: Command) -> Answer:
    """Return the answer that the log holds to a command sent again; with other content it is refused."""
    if known.command != _pack(command):
        return _DIFFERENT
    outcome = decode_outcome(known.outcome)
    return Answer(outcome.result, outcome.events, known.seq, known.at_ns, is_repeat=True)


def _inbox_answers(waiting: Sequence[tuple[Unit, Answer]]) -> InboxAnswers:
    """Return what becomes of the requests whose last answer is among these."""
    done: list[int] = []
    answers: list[tuple[int, str, bytes]] = []
    for unit, answer in waiting:
        if unit.inbox is not None:
            request_id, client_id = unit.inbox
            done.append(request_id)
            answers.append((request_id, client_id, _pack(answer)))
    return InboxAnswers(tuple(done), tuple(answers))
