"""Migrations run forward, once, by one process at a time, and only if the files are those that were applied."""

import hashlib
import threading
from pathlib import Path

import psycopg
import pytest

from bursa.errors import DatabaseUnavailableError, DatabaseVersionError, MigrationError
from bursa.store import EmbeddedPostgres, connect, connections, migrate, schema
from tests.postgres import Database, make_database

FIRST = (Path(str(schema._FOLDER)) / "0001_exchange.sql").read_bytes()
LAST = len(list(Path(str(schema._FOLDER)).glob("*.sql")))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder of migrations that a test may change, holding those of the program."""
    for file in schema._FOLDER.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(schema, "_FOLDER", tmp_path)
    return tmp_path


def test_a_new_database_gets_all_and_the_next_time_none(postgres: EmbeddedPostgres) -> None:
    with make_database(postgres, is_migrated=False) as database:
        assert migrate(database.dsn("migrator")) == tuple(range(1, LAST + 1))
        assert migrate(database.dsn("migrator")) == ()
        with connect(database.dsn("reader")) as link:
            row = link.execute("SELECT name, sha256 FROM bursa.migrations WHERE number = 1").fetchone()
        assert row == ("0001_exchange.sql", hashlib.sha256(FIRST).digest())


def test_a_new_file_is_applied_as_the_owner_of_the_schema(postgres: EmbeddedPostgres, files: Path) -> None:
    number = LAST + 1
    (files / f"{number:04}_more.sql").write_text("CREATE TABLE bursa.more (n int);\nINSERT INTO bursa.more VALUES (1);")
    with make_database(postgres) as database:
        assert migrate(database.dsn("migrator")) == (number,)
        with connect(database.dsn("superuser")) as link:
            row = link.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'more'").fetchone()
        assert row == ("bursa_migrator",)


@pytest.mark.parametrize("fault", ["SELEC 1", "SELECT 1 / 0", "INSERT INTO bursa.more VALUES ('x')"])
def test_a_file_that_fails_leaves_no_trace(postgres: EmbeddedPostgres, files: Path, fault: str) -> None:
    (files / f"{LAST + 1:04}_more.sql").write_text(f"CREATE TABLE bursa.more (n int);\n{fault};")
    with make_database(postgres) as database:
        with pytest.raises(MigrationError, match=r"_more\.sql: got "):
            migrate(database.dsn("migrator"))
        with connect(database.dsn("migrator")) as link:
            assert link.execute("SELECT to_regclass('bursa.more')").fetchone() == (None,)
            assert link.execute("SELECT max(number) FROM bursa.migrations").fetchone() == (LAST,)


def test_a_changed_file_is_refused_with_both_checksums(database: Database, files: Path) -> None:
    (files / "0001_exchange.sql").write_bytes(FIRST + b"\n")
    with pytest.raises(MigrationError, match=r"0001_exchange\.sql") as caught:
        migrate(database.dsn("migrator"))
    assert hashlib.sha256(FIRST).hexdigest() in str(caught.value)
    assert hashlib.sha256(FIRST + b"\n").hexdigest() in str(caught.value)


def test_a_renamed_file_is_refused(database: Database, files: Path) -> None:
    (files / "0001_exchange.sql").rename(files / "0001_market.sql")
    with pytest.raises(MigrationError, match=r"0001_market\.sql"):
        migrate(database.dsn("migrator"))


def test_a_gap_in_the_files_is_refused(database: Database, files: Path) -> None:
    (files / f"{LAST + 2:04}_more.sql").write_text("SELECT 1")
    with pytest.raises(MigrationError, match=f"number {LAST + 1:04}, which is missing"):
        migrate(database.dsn("migrator"))


def test_a_newer_database_is_left_alone(postgres: EmbeddedPostgres, files: Path) -> None:
    newer = files / f"{LAST + 1:04}_more.sql"
    newer.write_text("CREATE TABLE bursa.more ()")
    with make_database(postgres) as database:
        migrate(database.dsn("migrator"))
        newer.unlink()
        with pytest.raises(MigrationError, match=f"at most {LAST}: the database is newer; update bursa"):
            migrate(database.dsn("migrator"))


def test_a_row_of_migrations_taken_out_is_noticed(postgres: EmbeddedPostgres, files: Path) -> None:
    (files / f"{LAST + 1:04}_more.sql").write_text("SELECT 1")
    with make_database(postgres) as database:
        migrate(database.dsn("migrator"))
        with connect(database.dsn("migrator")) as link:
            link.execute("DELETE FROM bursa.migrations WHERE number = 1")
        with pytest.raises(MigrationError, match=r"0001_exchange.sql: got 'not applied'"):
            migrate(database.dsn("migrator"))


def test_many_processes_at_once_apply_each_file_once(postgres: EmbeddedPostgres) -> None:
    with make_database(postgres, is_migrated=False) as database:
        results: list[tuple[int, ...]] = []
        dsn = database.dsn("migrator")
        threads = [threading.Thread(target=lambda: results.append(migrate(dsn))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [()] * 5 + [tuple(range(1, LAST + 1))]


def test_a_lock_that_is_never_given_up_is_reported(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "LOCK_LIMIT_S", 0.05)
    with connect(database.dsn("migrator"), autocommit=True) as link:
        link.execute("SELECT pg_advisory_lock(%s)", (schema.MIGRATION_LOCK,))
        with pytest.raises(DatabaseUnavailableError, match="migration lock: got 'held by another process'"):
            migrate(database.dsn("migrator"))


def test_an_old_server_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "POSTGRES_MAJOR_MIN", 99)
    with pytest.raises(DatabaseVersionError, match="server version: got '18', expected PostgreSQL 99 or newer"):
        migrate(database.dsn("migrator"))


def test_a_server_that_may_lose_commits_is_refused_unless_allowed(postgres: EmbeddedPostgres) -> None:
    with make_database(postgres) as database:
        with connect(database.dsn("superuser"), autocommit=True) as link:
            link.execute(f"ALTER DATABASE {database.name} SET synchronous_commit = off".encode())
        with pytest.raises(DatabaseVersionError, match=r"synchronous_commit: .*BURSA_ALLOW_UNSAFE_DATABASE=1"):
            migrate(database.dsn("migrator"))
        assert migrate(database.dsn("migrator"), allow_unsafe=True) == ()


def test_a_database_of_another_encoding_is_refused_though_unsafe_ones_are_allowed(postgres: EmbeddedPostgres) -> None:
    with connect(postgres.dsn("superuser", "postgres"), autocommit=True) as link:
        link.execute("CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C' OWNER bursa_migrator")
    try:
        with pytest.raises(DatabaseVersionError, match="database plain: got 'SQL_ASCII', expected UTF8"):
            migrate(postgres.dsn("migrator", "plain"), allow_unsafe=True)
        with connect(postgres.dsn("migrator", "plain")) as link:
            assert link.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'bursa'").fetchall() == []
    finally:
        with connect(postgres.dsn("superuser", "postgres"), autocommit=True) as link:
            link.execute("DROP DATABASE plain WITH (FORCE)")


def test_a_session_cut_off_while_it_migrates_is_unavailable(postgres: EmbeddedPostgres, files: Path) -> None:
    (files / f"{LAST + 1:04}_more.sql").write_text("SELECT pg_terminate_backend(pg_backend_pid())")
    with make_database(postgres) as database:
        with pytest.raises(DatabaseUnavailableError):
            migrate(database.dsn("migrator"))
        with connect(database.dsn("migrator")) as link:
            assert link.execute("SELECT max(number) FROM bursa.migrations").fetchone() == (LAST,)


def test_two_databases_of_one_server_share_its_roles(postgres: EmbeddedPostgres, database: Database) -> None:
    with make_database(postgres, is_migrated=False) as other:
        migrate(other.dsn("migrator"))
        for dsn in (other.dsn("app"), database.dsn("app")):
            with connect(dsn) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute("DELETE FROM bursa.command_log")
