"""A real PostgreSQL for tests: one embedded server a session, one migrated database without rows a test.

As pytest fixtures (nothing to import): `postgres` (the server), `database` (a `Database` without rows),
`reachable_path` (an empty folder that a server can run in; where we are root, tmp_path bars the server's user).
As context managers, for scripts and for tests that need more than one: `run_postgres`, `make_database`, `make_folder`.
"""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import sql

from bursa.store import EmbeddedPostgres, Role, connect, migrate

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Database:
    """One database of a server that runs."""

    server: EmbeddedPostgres
    name: str

    def dsn(self, role: Role = "app") -> str:
        """Return how to reach it as a role. It holds a password."""
        return self.server.dsn(role, self.name)


@contextmanager
def make_folder() -> Iterator[Path]:
    """Make an empty folder that the server's user can reach, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="bursa-test-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def run_postgres() -> Iterator[EmbeddedPostgres]:
    """Run a server of its own; its database `bursa` is migrated, and is the template of make_database."""
    with make_folder() as folder, EmbeddedPostgres(folder / "data") as server:
        migrate(server.dsn("migrator"))
        yield server


@contextmanager
def make_database(server: EmbeddedPostgres, *, is_migrated: bool = True) -> Iterator[Database]:
    """Make a fresh database in a server that runs, by default with the schema; drop it afterwards."""
    database = Database(server, f"test_{next(_NUMBERS)}")
    name = sql.Identifier(database.name)
    template = sql.Identifier("bursa" if is_migrated else "template0")
    with connect(server.dsn("superuser", "postgres"), autocommit=True) as link:
        link.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER bursa_migrator STRATEGY file_copy").format(name, template)
        )
    try:
        yield database
    finally:
        with connect(server.dsn("superuser", "postgres"), autocommit=True) as link:
            link.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def empty_database(database: Database) -> None:
    """Take a database back to how its migrations left it: rows, sequences and sessions, not changes of its schema."""
    with connect(database.server.dsn("superuser", database.name), autocommit=True) as link:
        link.execute(_EMPTY)


#: Emptying what has rows takes a tenth of the time of a new database.
_EMPTY = b"""
DO $$
DECLARE
    name regclass;
    is_used boolean;
BEGIN
    PERFORM pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
    FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'bursa'::regnamespace AND relkind = 'r'
                AND relname NOT IN ('migrations', 'leader') LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', name) INTO is_used;
        IF is_used THEN
            EXECUTE format('TRUNCATE %s', name);
        END IF;
    END LOOP;
    PERFORM setval(seqrelid::regclass, 1, false) FROM pg_sequence;
    DELETE FROM bursa.leader;
    INSERT INTO bursa.leader (epoch, holder, pid, renewed_at) VALUES (0, '', 0, 'epoch');
END
$$
"""


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """Share one server among the tests of a session. Do not stop it; its database `bursa` stays without connections."""
    with run_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def shared_database(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """Make the one database that `database` empties for each test; not for use by tests."""
    with make_database(postgres) as made:
        yield made


@pytest.fixture
def database(shared_database: Database) -> Database:
    """Give a test a migrated database without rows. A test that changes the schema or settings takes make_database."""
    empty_database(shared_database)
    return shared_database


@pytest.fixture
def reachable_path() -> Iterator[Path]:
    """Give a test an empty folder that a server can run in."""
    with make_folder() as folder:
        yield folder
