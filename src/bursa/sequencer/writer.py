"""The writer: one thread with one session, which carries each batch to disk in one transaction.

The session holds the leader's lock, so that nobody else leads while it lives; each transaction reads the epoch FOR
SHARE, so that a leader that was replaced writes nothing. Anything but a plain COMMIT (an error, a notice, a lost
connection) means that the outcome is unknown: the writer fails for good, and whoever restarts learns the truth from
the log.

libpq is used directly: a batch is one query with a COPY a table, one pipeline of changes, one COMMIT.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, NamedTuple

import psycopg
from psycopg import pq

from bursa.errors import DatabaseUnavailableError, NotLeaderError, StoreError
from bursa.sequencer.copying import INT8_OID, array, int8, stream
from bursa.sequencer.rows import Rows
from bursa.sequencer.tables import CHANGES, COPIED, change_sql, copy_sql

#: Channel on which the newest committed seq is announced.
LOG_CHANNEL: Final = "bursa_log"
#: Channel on which answers to the inbox are announced.
ANSWER_CHANNEL: Final = "bursa_answers"

#: Followers are called at most this often, in seconds; they look by themselves too, and a call costs at every commit.
NOTIFY_EVERY_S: Final = 0.01
#: The leader's row says at least this often that it lives, in seconds, with whatever is written.
RENEW_EVERY_S: Final = 0.9
_CHANGES: Final = {change.name: change for change in CHANGES}
_BINARY: Final = 1


class InboxAnswers(NamedTuple):
    """What the inbox gets back within the batch: requests to delete, and (request, client, answer) to write."""

    done: tuple[int, ...] = ()
    answers: tuple[tuple[int, str, bytes], ...] = ()


class Work(NamedTuple):
    """One transaction, and whom to tell when it is durable (in the writer's thread)."""

    rows: Rows
    last_seq: int
    inbox: InboxAnswers
    on_done: Callable[[Exception | None, float], None]


class Writer:
    """Write batches, one after the other, in a thread of its own. ``epoch`` is the leader's whose session this is."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]], epoch: int) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._epoch = epoch
        self._notices: list[str] = []
        self._renew_at = 0.0
        self._notify_at = 0.0
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._copy = [(table, copy_sql(table, "bursa").encode()) for table in COPIED]
        self._pg.notice_handler = self._on_notice
        self._poll = select.poll()
        self._poll.register(self._pg.socket)
        self._prepare()
        self._thread = threading.Thread(target=self._run, name="bursa-writer", daemon=True)
        self._thread.start()

    def write(self, work: Work) -> None:
        """Take a batch; at most one is waiting at any time, by the sequencer's own rule."""
        self._queue.put(work)

    def close(self) -> None:
        """Finish what was taken, then end the thread and the session."""
        self._queue.put(None)
        self._thread.join()
        self._connection.close()

    # ---- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            started = time.perf_counter()
            fault: Exception | None = None
            try:
                self._write(work)
            except Exception as error:  # noqa: BLE001 - a bug is a fault too: whoever waits must be told
                fault = error
            work.on_done(fault, time.perf_counter() - started)
            if fault is not None:
                self._connection.close()  # frees the lock, so that another may lead
                return

    def _write(self, work: Work) -> None:
        self._notices.clear()
        tables = [(sql, rows) for (_, sql), rows in zip(self._copy, work.rows.copied, strict=False) if rows]
        query = b";".join([b"BEGIN", _EPOCH_SQL, *(sql for sql, _ in tables)])
        self._pg.send_query(query)
        copies = iter(tables)
        while (result := self._result()) is not None:
            status = result.status
            if status == pq.ExecStatus.COPY_IN:
                _, rows = next(copies)
                self._pg.put_copy_data(stream(rows))
                self._pg.put_copy_end()
            elif status == pq.ExecStatus.TUPLES_OK:
                self._check_epoch(result)
            elif status != pq.ExecStatus.COMMAND_OK:
                raise self._fault(result)
        if work.rows.changed or work.inbox.done or work.inbox.answers:
            self._change(work)
        self._commit(work)

    def _change(self, work: Work) -> None:
        """Send all changes in one pipeline, then read what became of them."""
        pg = self._pg
        pg.enter_pipeline_mode()
        sent = 0
        for name, rows in work.rows.changed.items():
            arrays = _CHANGES[name].arrays(rows)
            pg.send_query_prepared(name.encode(), arrays, [_BINARY] * len(arrays), _BINARY)
            sent += 1
        if work.inbox.done:
            requests = array(INT8_OID, [int8(number) for number in work.inbox.done])
            pg.send_query_prepared(b"inbox_done", [requests], [_BINARY], _BINARY)
            sent += 1
        for request_id, client_id, answer in work.inbox.answers:
            parameters = [str(request_id).encode(), client_id.encode(), answer]
            pg.send_query_prepared(b"inbox_answer", parameters, [0, 0, _BINARY], _BINARY)
            sent += 1
        pg.pipeline_sync()
        for _ in range(sent):
            while (result := self._result()) is not None:
                if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
                    raise self._fault(result)
        result = self._result()
        if result is None or result.status != pq.ExecStatus.PIPELINE_SYNC:
            raise self._fault(result)
        pg.exit_pipeline_mode()

    def _result(self) -> pq.abc.PGresult | None:
        """Return the next result. Waits on the socket: get_result() alone would stop every other thread meanwhile."""
        pg = self._pg
        try:
            while (is_sending := bool(pg.flush())) or pg.is_busy():
                self._poll.modify(pg.socket, select.POLLIN | select.POLLOUT if is_sending else select.POLLIN)
                [(_, happened)] = self._poll.poll()
                if happened & ~select.POLLOUT:
                    pg.consume_input()
        except psycopg.OperationalError:
            if pg.status != pq.ConnStatus.BAD:
                raise
            # The session has ended; what the server said last is the result.
        return pg.get_result()

    def _commit(self, work: Work) -> None:
        now = time.monotonic()
        notify = ""
        if work.last_seq and now >= self._notify_at:
            self._notify_at = now + NOTIFY_EVERY_S
            notify = f"NOTIFY {LOG_CHANNEL}, '{work.last_seq}';"
        if now >= self._renew_at:
            self._renew_at = now + RENEW_EVERY_S
            notify += _RENEW_SQL
        if work.inbox.answers:
            notify += f"NOTIFY {ANSWER_CHANNEL};"
        # The tag of a COMMIT that the server turned into a rollback is ROLLBACK, with status OK.
        result = self._pg.exec_(f"{notify}COMMIT".encode())
        if result.status != pq.ExecStatus.COMMAND_OK or result.command_status != b"COMMIT":
            raise self._fault(result)
        if self._notices:
            raise StoreError("commit", self._notices[0], "a COMMIT without a notice; its outcome is unknown")

    def _check_epoch(self, result: pq.abc.PGresult) -> None:
        value = result.get_value(0, 0) if result.ntuples else None
        if value is None or int(value) != self._epoch:
            raise NotLeaderError("epoch", value, f"epoch {self._epoch}: another process leads now")

    def _prepare(self) -> None:
        result = self._pg.exec_(_PLANNER_SQL)
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise self._fault(result)
        for change in CHANGES:
            self._must_prepare(change.name, change_sql(change, "bursa"))
        self._must_prepare("inbox_done", "DELETE FROM bursa.inbox WHERE request_id = ANY($1::bigint[])")
        self._must_prepare(
            "inbox_answer",
            "INSERT INTO bursa.answers (request_id, client_id, answer) VALUES ($1::bigint, $2::uuid, $3::bytea)"
            " ON CONFLICT (request_id) DO NOTHING",
        )

    def _must_prepare(self, name: str, sql: str) -> None:
        result = self._pg.prepare(name.encode(), sql.encode())
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise self._fault(result)

    def _fault(self, result: pq.abc.PGresult | None) -> StoreError:
        message = self._pg.get_error_message() if result is None else result.get_error_message()
        if self._pg.status == pq.ConnStatus.BAD:
            return DatabaseUnavailableError("commit", message.strip(), "a connection that stays until the COMMIT")
        return StoreError("commit", message.strip(), "a batch that PostgreSQL takes")

    def _on_notice(self, result: pq.abc.PGresult) -> None:
        self._notices.append(result.get_error_message())


# A batch changes few rows by their keys: never a scan of a table that grows, whatever its statistics say just now.
_PLANNER_SQL: Final = (
    b"SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
    b" SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off"
)
_EPOCH_SQL: Final = b"SELECT epoch FROM bursa.leader FOR SHARE"
_RENEW_SQL: Final = "UPDATE bursa.leader SET renewed_at = now();"
