"""The supervisor keeps a real server alive through kill -9, takes over from older ones, and never shares a folder."""

import functools
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bursa.errors import DatabaseUnavailableError, DatabaseVersionError, DataDirectoryError
from bursa.store import EmbeddedPostgres, cluster, connect, embedded
from bursa.store.programs import copy_server, find_programs
from tests.postgres import make_folder

#: How long a real process may take to do what a test waits for, in seconds.
PATIENCE_S = 30.0

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")


def wait_until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def has_new_server(server: EmbeddedPostgres, old_pid: int) -> bool:
    return server.is_running and server.pid not in (None, old_pid)


def as_owner(place: cluster.Cluster) -> dict[str, object]:
    """Return the arguments of Popen that make a process belong to a cluster's user."""
    return {"user": place.uid, "group": place.uid, "extra_groups": []} if os.geteuid() == 0 else {}


def ask(server: EmbeddedPostgres, query: str) -> list[tuple[object, ...]]:
    with connect(server.dsn("superuser"), autocommit=True) as link:
        return link.execute(query.encode()).fetchall()


def write(server: EmbeddedPostgres, statement: str) -> None:
    with connect(server.dsn("superuser"), autocommit=True) as link:
        link.execute(statement.encode())


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """Make one data folder for the module: making a cluster takes a second."""
    with make_folder() as folder:
        data = folder / "data"
        with EmbeddedPostgres(data) as server:
            write(server, "CREATE TABLE kept (n bigint PRIMARY KEY)")
        yield data


@pytest.fixture
def server(made: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(made) as started:
        write(started, "TRUNCATE kept")
        yield started


# ── How it is set up ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_confirmed_commits_are_on_disk_pages_are_checked_and_nothing_listens_on_tcp(server: EmbeddedPostgres) -> None:
    names = ["fsync", "synchronous_commit", "full_page_writes", "data_checksums", "listen_addresses", "timezone", "jit"]
    shown = {name: ask(server, f"SHOW {name}")[0][0] for name in names}
    assert shown == {**dict.fromkeys(names[:4], "on"), "listen_addresses": "", "timezone": "UTC", "jit": "off"}
    row = ask(server, "SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'bursa'")
    assert row == [("C.UTF-8", "UTF8")]


def test_alter_system_cannot_switch_safety_off(server: EmbeddedPostgres, made: Path) -> None:
    write(server, "ALTER SYSTEM SET fsync = off")
    server.stop()
    with EmbeddedPostgres(made) as again:
        assert ask(again, "SHOW fsync") == [("on",)]
        write(again, "ALTER SYSTEM RESET fsync")


def test_nobody_is_trusted(server: EmbeddedPostgres) -> None:
    dsn = server.dsn("app")
    with pytest.raises(DatabaseUnavailableError, match=r"database bursa at .* as bursa_app") as caught:
        connect(make_conninfo(dsn, password="guess"))  # noqa: S106 - a wrong one
    assert "password authentication failed" in str(caught.value)
    assert "password" not in conninfo_to_dict(server.dsn("superuser"))
    lines = (server.data_dir / "pg_hba.conf").read_text().splitlines()
    methods = {line.split()[3] for line in lines if not line.startswith("#")}
    assert methods == {"peer", "scram-sha-256"}


def test_secrets_are_for_their_owner_and_in_no_log(server: EmbeddedPostgres, made: Path) -> None:
    file = made / "passwords.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    passwords = [conninfo_to_dict(server.dsn(role))["password"] for role in cluster.LOGIN_ROLES]
    assert len(set(passwords)) == 3
    log = (made / "postgres.log").read_text()
    assert not any(str(password) in log for password in passwords)
    assert stat.S_IMODE((made / "postgres.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((made / "socket").stat().st_mode) == 0o700


@as_root
def test_root_runs_the_server_as_a_user_without_an_account(server: EmbeddedPostgres, made: Path) -> None:
    owner = (made / "postgres").stat().st_uid
    assert owner == cluster.SERVER_UID
    status = Path(f"/proc/{server.pid}/status").read_text()
    assert f"Uid:\t{owner}\t{owner}\t{owner}\t{owner}" in status
    assert "CapEff:\t0000000000000000" in status
    assert made.stat().st_uid == 0


def test_dsn_works_beside_a_running_supervisor_and_not_before_the_first_start(
    server: EmbeddedPostgres, made: Path, reachable_path: Path
) -> None:
    assert EmbeddedPostgres(made).dsn("reader") == server.dsn("reader")
    with pytest.raises(DataDirectoryError, match="started at least once"):
        EmbeddedPostgres(reachable_path / "new").dsn()


def test_lost_passwords_are_made_anew(made: Path) -> None:
    before = EmbeddedPostgres(made).dsn("app")
    (made / "passwords.json").unlink()
    with EmbeddedPostgres(made) as server:
        assert server.dsn("app") != before
        connect(server.dsn("app")).close()


@pytest.mark.slow
def test_a_long_path_gets_a_socket_elsewhere(reachable_path: Path) -> None:
    folder = reachable_path / ("long" * 20)
    with EmbeddedPostgres(folder) as server:
        place = cluster.find_cluster(folder).socket_folder
        assert folder not in place.parents
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert ask(server, "SELECT 1") == [(1,)]
    place.rmdir()


def test_a_socket_folder_of_somebody_else_is_refused(reachable_path: Path) -> None:
    (reachable_path / "socket").mkdir(mode=0o777)
    with pytest.raises(DataDirectoryError, match=r"socket folder: .* alone \(0700\)"):
        cluster.write_settings(cluster.Cluster(reachable_path, cluster.SERVER_UID))


# ── Folders that cannot be used ──────────────────────────────────────────────────────────────────────────────────────


def test_a_second_supervisor_is_refused_by_folder_and_process(server: EmbeddedPostgres, made: Path) -> None:
    with pytest.raises(DataDirectoryError) as caught:
        EmbeddedPostgres(made).start()
    assert str(made) in str(caught.value)
    assert f"process {os.getpid()}" in str(caught.value)
    assert ask(server, "SELECT 1") == [(1,)]


@as_root
@pytest.mark.parametrize("depth", [0, 1])
def test_a_folder_that_the_server_cannot_reach_is_refused_by_the_parent_that_bars_it(
    reachable_path: Path, depth: int
) -> None:
    barred = [reachable_path, reachable_path / "home"][depth]
    barred.mkdir(exist_ok=True)
    barred.chmod(0o700)
    with pytest.raises(DataDirectoryError, match=rf"chmod o\+x {barred}$"):
        EmbeddedPostgres(reachable_path / "home" / "data").start()
    assert not (reachable_path / "home" / "data" / "postgres").exists()
    assert stat.S_IMODE(barred.stat().st_mode) == 0o700


def test_a_cluster_of_another_version_is_refused(reachable_path: Path) -> None:
    folder = reachable_path / "postgres"
    folder.mkdir()
    (folder / "PG_VERSION").write_text("17\n")
    with pytest.raises(DatabaseVersionError, match="PG_VERSION: got '17', expected 18"):
        EmbeddedPostgres(reachable_path).start()


def test_a_server_that_cannot_start_says_why(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cluster._SETTINGS, "max_wal_size", "-1")
    server = EmbeddedPostgres(made)
    with pytest.raises(DatabaseUnavailableError, match="configuration file"):
        server.start()
    monkeypatch.undo()
    with server:
        assert ask(server, "SELECT 1") == [(1,)]


@as_root
@pytest.mark.slow
def test_programs_that_the_server_cannot_reach_are_copied(
    reachable_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's environment often lies in root's home, where the server's user may not look."""
    hidden = copy_server(find_programs(), reachable_path / "home" / "installed")
    (reachable_path / "home").chmod(0o700)
    monkeypatch.setattr(embedded, "find_programs", lambda: hidden)
    with EmbeddedPostgres(reachable_path / "data") as server:
        assert ask(server, "SELECT 1") == [(1,)]
        assert str(reachable_path / "data" / "programs-18") in Path(f"/proc/{server.pid}/cmdline").read_text()


def test_a_client_that_was_killed_is_no_error_of_the_server(server: EmbeddedPostgres, made: Path) -> None:
    link = connect(server.dsn("superuser"), autocommit=True)
    link.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)")
    link.close()  # while the server still sends
    wait_until(lambda: "connection to client lost" in (made / "postgres.log").read_text())
    assert server.last_error == ""


# ── Killed, and back ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_killed_server_comes_back_with_every_confirmed_row(server: EmbeddedPostgres) -> None:
    confirmed = []
    for victim in range(3):
        pid = server.pid
        assert pid is not None
        with connect(server.dsn("superuser"), autocommit=True) as link:
            for number in range(100 * victim, 100 * victim + 50):
                link.execute("INSERT INTO kept VALUES (%s)", (number,))
                confirmed.append((number,))
            os.kill(pid, signal.SIGKILL)
            wait_until(functools.partial(has_new_server, server, pid))
        assert ask(server, "SELECT n FROM kept ORDER BY n") == confirmed
    assert server.restarts == 3


def test_orphans_that_do_not_end_are_killed(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stopped backend holds the shared memory of the dead server: no new one may start beside it."""
    monkeypatch.setattr(embedded, "ORPHAN_LIMIT_S", 0.3)
    link = psycopg.connect(server.dsn("superuser"))
    orphan, pid = link.info.backend_pid, server.pid
    assert pid is not None
    os.kill(orphan, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_new_server(server, pid))
    wait_until(lambda: not is_alive(orphan))
    assert f"killing process {orphan} of an older server" in caplog.text
    link.close()


SUPERVISOR = """
import sys, time
from pathlib import Path
from bursa.store import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_killed_supervisor_takes_its_server_along(made: Path, is_waiting: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(made)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        with pytest.raises(DataDirectoryError, match=f"process {process.pid} does"):
            EmbeddedPostgres(made).start()
        with connect(EmbeddedPostgres(made).dsn("superuser"), autocommit=True) as link:
            link.execute("TRUNCATE kept")
            link.execute("INSERT INTO kept VALUES (-1)")
        process.kill()
    if is_waiting:
        wait_until(lambda: not is_alive(pid))
    with EmbeddedPostgres(made) as server:  # where we did not wait, the old server still shuts down
        assert server.pid != pid
        assert ask(server, "SELECT n FROM kept") == [(-1,)]
        assert not is_alive(pid)


def test_a_server_left_over_is_stopped_and_replaced(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = cluster.find_cluster(made)
    command = [str(find_programs() / "bin" / "postgres"), "-D", str(place.data), "-c"]
    command.append(f"config_file={place.config_file}")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **as_owner(place)) as left:  # type: ignore[call-overload]
        wait_until(lambda: place.pid_file.exists() and "ready" in place.pid_file.read_text())
        with EmbeddedPostgres(made) as server:
            assert left.wait(PATIENCE_S) == 0  # a fast shutdown, not a kill
            assert server.pid != left.pid
            assert ask(server, "SELECT 1") == [(1,)]
    assert f"stopping an older server, process {left.pid}" in caplog.text


def test_a_stale_pid_file_that_names_another_process_stops_nobody(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that happens to be in the cluster's folder, such as somebody's shell."""
    monkeypatch.setattr(embedded, "ORPHAN_LIMIT_S", 0.1)
    place = cluster.find_cluster(made)
    bystander = subprocess.Popen(["sleep", "600"], cwd=place.data, **as_owner(place))  # type: ignore[call-overload]
    try:
        place.pid_file.write_text(f"{bystander.pid}\n{place.data}\n1\n5432\n\n\n  1 1\nready\n")
        os.chown(place.pid_file, place.uid, -1)
        with EmbeddedPostgres(made) as server:
            assert ask(server, "SELECT 1") == [(1,)]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.slow
def test_a_cluster_half_made_is_made_again(reachable_path: Path) -> None:
    (reachable_path / "postgres.new").mkdir()
    (reachable_path / "postgres.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(reachable_path) as server:
        assert ask(server, "SELECT 1") == [(1,)]
    assert not (reachable_path / "postgres.new").exists()


def test_stop_ends_sessions_and_processes_and_can_be_repeated(made: Path) -> None:
    server = EmbeddedPostgres(made)
    server.stop()
    server.start()
    server.start()
    link = psycopg.connect(server.dsn("superuser"))
    pids = [server.pid, link.info.backend_pid]
    server.stop()
    server.stop()
    assert not server.is_running
    assert server.pid is None
    assert not any(is_alive(pid) for pid in pids if pid is not None)
    with pytest.raises(psycopg.OperationalError):
        link.execute("SELECT 1")
    with pytest.raises(DatabaseUnavailableError, match=r"database bursa at .* as bursa_app"):
        connect(server.dsn("app"))


# ── Pages and logs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_flipped_bit_in_a_page_is_refused(made: Path) -> None:
    with EmbeddedPostgres(made) as server:
        write(server, "DROP TABLE IF EXISTS flipped")
        write(server, "CREATE TABLE flipped AS SELECT n, n * 10 AS micros FROM generate_series(1, 100) AS n")
        path = made / "postgres" / str(ask(server, "SELECT pg_relation_filepath('flipped')")[0][0])
    data = bytearray(path.read_bytes())
    data[8000] ^= 0x10  # within the rows of the first page
    path.write_bytes(data)
    with EmbeddedPostgres(made) as server:
        with pytest.raises(psycopg.errors.DataCorrupted, match="invalid page in block 0"):
            ask(server, "SELECT sum(micros) FROM flipped")
        write(server, "DROP TABLE flipped")


def test_a_log_that_grew_too_large_is_moved_aside(
    made: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(embedded, "LOG_CHECK_S", 0.05)
    monkeypatch.setattr(embedded, "LOG_BYTES_MAX", 10_000)
    log = made / "postgres.log"
    with EmbeddedPostgres(made) as server:
        write(server, "DO $$ BEGIN FOR n IN 1 .. 400 LOOP RAISE WARNING 'line % of many', n; END LOOP; END $$")
        wait_until(lambda: log.stat().st_size < 10_000)
        assert "line 100 of many" in (made / "postgres.log.1").read_text()
        assert ask(server, "SELECT 1") == [(1,)]
