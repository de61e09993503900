"""The supervisor of the embedded PostgreSQL: it starts the server, waits on it, starts it again, and stops it.

The server is a direct child. It gets SIGINT (fast shutdown) when the supervising thread ends, so that kill -9 of our
process leaves no server behind; a server that is still shutting down, or the orphans of a killed one, are waited for,
then stopped, before a new one starts. Processes are told by their working directory, never by name.

Invariants: one supervisor a folder (a file lock); one server a supervisor; a server starts only in a folder that no
process of an older one lives in.
"""

import contextlib
import fcntl
import json
import logging
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg
from psycopg import sql

from bursa.errors import DatabaseUnavailableError, DataDirectoryError, StoreError
from bursa.store import cluster as place
from bursa.store import launch
from bursa.store.cluster import Cluster, Role
from bursa.store.programs import copy_server, find_programs, make_environment, run_program

#: How long a start may take, recovery of a crash included, in seconds.
START_LIMIT_S: Final = 120.0
#: How often a server may exit before it was ready until start() gives up.
START_TRIES_MAX: Final = 3
#: First and longest pause before a server that exited is started again, in seconds; it doubles in between.
RESTART_DELAY_MIN_S: Final = 0.1
RESTART_DELAY_MAX_S: Final = 5.0
#: After this long without an exit the pause is short again, in seconds.
RESTART_CALM_S: Final = 30.0
#: How long each way to stop may take, in seconds: disconnect all, leave at once (recovery at the next start), kill.
STOP_LIMITS_S: Final = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
#: How long the processes of an older server may take to go, in seconds, until they are killed.
ORPHAN_LIMIT_S: Final = 30.0
#: How often a file or process is looked at while we wait for a change, in seconds.
POLL_S: Final = 0.01
#: How often the log's size is looked at, in seconds, and its largest size in bytes; one older file is kept.
LOG_CHECK_S: Final = 5.0
LOG_BYTES_MAX: Final = 10 * 1024 * 1024
#: How much of the log's end is searched for the last error, in bytes.
LOG_TAIL_BYTES: Final = 64 * 1024
#: Free space below which a failure without words is blamed on the disk, in bytes.
DISK_FULL_BYTES: Final = 16 * 1024 * 1024

#: Lines of postmaster.pid, from 0: the pid and the state.
_PID_LINE, _STATE_LINE = 0, 7
#: How the server marks what ends a session or itself (the last one: before it has a log), and what it says so often
#: that it is no news.
_FATAL: Final = ("PANIC:  ", "FATAL:  ", "postgres: ")
_HARMLESS: Final = (
    "the database system is",
    "terminating connection",
    "authentication failed",
    "too many clients",
    "connection to client lost",
)


class EmbeddedPostgres:
    """A real PostgreSQL in a folder of its own, reached by a Unix socket, kept alive until stop().

    data_dir: the folder; made if absent (its parent must exist). log: where to report starts and exits.
    Use it as a context manager, or call start() and stop(). Not for use from two threads at once.
    """

    def __init__(self, data_dir: Path, *, log: logging.Logger | None = None) -> None:
        self.data_dir = data_dir
        self._log = log or logging.getLogger(__name__)
        self._cluster: Cluster | None = None
        self._programs = Path()
        self._lock: int | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._wake = -1
        self._ready = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._exits_before_ready = 0
        self._log_from = 0
        self._exit_error = ""
        self.restarts = 0

    # ── For callers ─────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start the server, after making its cluster if there is none, and return when it answers.

        DataDirectoryError: the folder is in use, unreachable for the server's user, or of another owner.
        DatabaseVersionError: the cluster is of another major version. DatabaseUnavailableError: it does not come up.
        """
        if self._thread is not None:
            return
        place.make_folder(self.data_dir)
        self._take_lock()
        self._stopping.clear()
        try:
            self._prepare()
            self._exits_before_ready = 0
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._thread = threading.Thread(target=self._watch, name="bursa-postgres", daemon=True)
            self._thread.start()
            self._wait_until_ready()
            self._set_up_roles()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server: sessions are closed, what is committed is on disk. Does nothing if it does not run."""
        self._stopping.set()
        if self._thread is not None:
            os.eventfd_write(self._wake, 1)
            self._thread.join()
            self._thread = None
            os.close(self._wake)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def dsn(self, role: Role = "app", database: str = place.DATABASE) -> str:
        """Return how to reach the database as a role; works without start() in a folder that was started before.

        It holds a password: never log it. The superuser's works for the system user that started the server alone.
        """
        return place.make_dsn(self._cluster or place.find_cluster(self.data_dir), role, database)

    @property
    def is_running(self) -> bool:
        """Whether the server runs and takes connections (as far as its supervisor knows)."""
        return self._ready.is_set()

    @property
    def pid(self) -> int | None:
        """The pid of the server's first process (the postmaster), if it runs."""
        child = self._child
        return child.pid if child is not None and self._ready.is_set() else None

    @property
    def last_error(self) -> str:
        """The last thing that the server called fatal since its start or, while it is down, before; empty if none."""
        return self._read_last_error() or ("" if self.is_running else self._exit_error)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    # ── Before the start ────────────────────────────────────────────────────────────────────────────────────────────

    def _take_lock(self) -> None:
        path = self.data_dir / "bursa.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode(errors="replace").strip()
            os.close(lock)
            raise DataDirectoryError(
                "data folder", str(self.data_dir), f"a folder that no other process uses: process {holder} does"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def _prepare(self) -> None:
        """Make all that the server needs, and see to it that no older one is left."""
        self._cluster = cluster = place.find_cluster(self.data_dir)
        self._programs = find_programs()
        if (blocked := self._look(cluster.data)) is not None:
            raise DataDirectoryError(
                "data folder",
                str(cluster.folder),
                f"a folder that user {cluster.uid} can reach, since the server must not run as root; {blocked} lets it "
                f"not through: choose another folder such as /var/lib/bursa, or run chmod o+x {blocked}",
            )
        if self._look(self._programs / "bin" / "postgres") is not None:
            self._programs = copy_server(self._programs, cluster.folder / f"programs-{place.POSTGRES_MAJOR}")
        if place.check_version(cluster):
            place.give_to(cluster.data, cluster.uid)
        else:
            place.create_cluster(cluster, self._programs)
        place.write_settings(cluster)
        self._clear_orphans()

    def _look(self, path: Path) -> str | None:
        """Return the first parent of path that the server's user may not enter, if there is one."""
        if all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents):  # anybody may: no need to ask as it
            return None
        return self._ask(path)[0]

    def _ask(self, path: Path) -> tuple[str | None, list[int]]:
        """Look at a folder as the server's user: what blocks the way, and the pids of the processes that live there."""
        assert self._cluster is not None
        if os.geteuid() == self._cluster.uid:
            found = launch.look(path)
        else:
            found = json.loads(run_program([*_LAUNCHER, "look", str(self._cluster.uid), str(path)]))
        return found["blocked"], found["pids"]

    def _clear_orphans(self) -> None:
        """Return when no process of an older server is left; after ORPHAN_LIMIT_S by force."""
        assert self._cluster is not None
        if not self._cluster.pid_file.exists():  # it shut down in order, and its children with it
            return
        began = time.monotonic()
        told: set[int] = set()
        while pids := self._ask(self._cluster.data)[1]:
            waited_s = time.monotonic() - began
            if self._stopping.is_set():
                return
            if waited_s > 2 * ORPHAN_LIMIT_S:
                raise DataDirectoryError(
                    "data folder", str(self._cluster.folder), f"processes {pids} to end when killed"
                )
            for pid in pids:
                if waited_s > ORPHAN_LIMIT_S:
                    self._log.warning("killing process %d of an older server in %s", pid, self._cluster.folder)
                    self._signal(pid, signal.SIGKILL)
                elif pid == self._read_pid_file()[0] and pid not in told:
                    self._log.warning("stopping an older server, process %d, in %s", pid, self._cluster.folder)
                    self._signal(pid, signal.SIGINT)
                    told.add(pid)
            time.sleep(POLL_S)
        # Its pid may be another process's by now, which would keep the new server from starting. No process lives in
        # the folder, so nothing is left to be protected from.
        self._cluster.pid_file.unlink(missing_ok=True)

    def _signal(self, pid: int, what: signal.Signals) -> None:
        """Send a signal to a process of the cluster, and to no other that may have got its pid."""
        assert self._cluster is not None
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if pid in self._ask(self._cluster.data)[1]:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, what)
        finally:
            os.close(handle)

    def _read_pid_file(self) -> tuple[int, str]:
        """Return the pid and the state that a server wrote down; (0, "") if it did not yet."""
        assert self._cluster is not None
        try:
            lines = self._cluster.pid_file.read_text(errors="replace").splitlines()
            return int(lines[_PID_LINE]), lines[_STATE_LINE].strip() if len(lines) > _STATE_LINE else ""
        except (OSError, ValueError, IndexError):
            return 0, ""

    # ── The start, as the caller sees it ────────────────────────────────────────────────────────────────────────────

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._ready.wait(POLL_S):
            if self._exits_before_ready >= START_TRIES_MAX or time.monotonic() > deadline:
                assert self._cluster is not None
                raise DatabaseUnavailableError(
                    "database",
                    self.last_error or "no answer",
                    f"a server that starts; it writes {self._cluster.log_file}",
                )

    def _set_up_roles(self) -> None:
        """Make the roles and the database where they are missing; new passwords where those were lost."""
        assert self._cluster is not None
        known = place.read_passwords(self._cluster)
        passwords = known or place.make_passwords()
        try:
            with psycopg.connect(self.dsn("superuser", "postgres"), autocommit=True) as link:
                query = "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)"
                names = [place.ROLE_NAMES[role] for role in passwords]
                there = {row[0] for row in link.execute(query, (names,)).fetchall()}
                for role, password in passwords.items():
                    name = place.ROLE_NAMES[role]
                    if name in there and known is not None:
                        continue
                    verb = sql.SQL("ALTER" if name in there else "CREATE")
                    text = sql.SQL("{} ROLE {} LOGIN PASSWORD {}")
                    link.execute(text.format(verb, sql.Identifier(name), sql.Literal(password)))
                query = "SELECT 1 FROM pg_database WHERE datname = %s"
                if not link.execute(query, (place.DATABASE,)).fetchall():
                    text = sql.SQL("CREATE DATABASE {} OWNER {}")
                    link.execute(text.format(sql.Identifier(place.DATABASE), sql.Identifier("bursa_migrator")))
        except psycopg.Error as error:
            raise DatabaseUnavailableError("database", str(error), "a server that lets its own user in") from error
        if known is None:
            place.write_whole(self._cluster.password_file, json.dumps(passwords), mode=0o600)

    # ── The supervising thread. The server is its child: the kernel signals the server when this thread ends ─────────

    def _watch(self) -> None:
        delay = RESTART_DELAY_MIN_S
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._clear_orphans()
                self._run_server()
            except (OSError, StoreError) as error:  # no process or no memory for one: try again like after an exit
                self._log.error("the database server cannot be started: %s", error)
            finally:
                was_ready = self._ready.is_set()
                self._ready.clear()
                self._child = None
            if self._stopping.is_set():
                return
            if not was_ready:
                self._exits_before_ready += 1
            if time.monotonic() - began > RESTART_CALM_S:
                delay = RESTART_DELAY_MIN_S
            if not self._stopping.wait(delay):
                self.restarts += 1
            delay = min(2 * delay, RESTART_DELAY_MAX_S)

    def _run_server(self) -> None:
        """Start the server and return when it has ended, by itself or because we stop."""
        child = self._spawn()
        self._child = child
        handle = os.pidfd_open(child.pid)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        try:
            while not self._stopping.is_set() and child.poll() is None:
                if not self._ready.is_set() and self._read_pid_file() == (child.pid, "ready"):
                    self._exits_before_ready = 0
                    self._ready.set()
                    self._log.info("the database server runs, process %d", child.pid)
                poll.poll(1000 * (LOG_CHECK_S if self._ready.is_set() else POLL_S))
                self._limit_log()
            if self._stopping.is_set():
                self._shut_down(child)
            else:
                self._exit_error = self._explain_exit(child)
                self._log.error("the database server ended with status %s: %s", child.returncode, self._exit_error)
        finally:
            os.close(handle)

    def _explain_exit(self, child: subprocess.Popen[bytes]) -> str:
        """Say why the server ended, as well as can be known."""
        assert self._cluster is not None
        if words := self._read_last_error():
            return words
        if shutil.disk_usage(self._cluster.folder).free < DISK_FULL_BYTES:  # it could not even write its log
            return "No space left on device"
        return f"the server ended with status {child.returncode}"

    def _read_last_error(self) -> str:
        if self._cluster is None:
            return ""
        try:
            with self._cluster.log_file.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(min(self._log_from, size), size - LOG_TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        for line in reversed(lines):
            for mark in _FATAL:
                if mark in line and not any(words in line for words in _HARMLESS):
                    return line.partition(mark)[2]
        return ""

    def _spawn(self) -> subprocess.Popen[bytes]:
        assert self._cluster is not None
        options = {"config_file": str(self._cluster.config_file), **place.SAFETY}
        command = [str(self._programs / "bin" / "postgres"), "-D", str(self._cluster.data)]
        command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with open(self._cluster.log_file, "ab", opener=_open_private) as log:
            self._log_from = log.tell()
            return subprocess.Popen(  # noqa: S603 - our own program, no shell
                [*_LAUNCHER, "run", str(self._cluster.uid), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=make_environment(),
                start_new_session=True,  # the terminal's Ctrl-C is for us
            )

    def _shut_down(self, child: subprocess.Popen[bytes]) -> None:
        for what, limit_s in STOP_LIMITS_S:
            child.send_signal(what)
            try:
                child.wait(limit_s)
            except subprocess.TimeoutExpired:
                self._log.warning("the database server is still there %s s after %s", limit_s, what.name)
            else:
                return

    def _limit_log(self) -> None:
        """Move a log that grew too large aside. The server keeps its file open, so the text is copied, then cut."""
        assert self._cluster is not None
        path = self._cluster.log_file
        if path.stat().st_size > LOG_BYTES_MAX:
            shutil.copyfile(path, path.with_name("postgres.log.1"))
            os.truncate(path, 0)
            self._log_from = 0


_LAUNCHER: Final = (sys.executable, "-I", "-S", launch.__file__)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
