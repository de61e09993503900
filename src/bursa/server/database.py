"""The database of a server: the embedded PostgreSQL in the data folder, or the one that BURSA_DATABASE_URL names."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bursa.config import Settings
from bursa.errors import DataDirectoryError
from bursa.ops.logs import log
from bursa.store import EmbeddedPostgres, migrate, role_dsn


class Database(msgspec.Struct, frozen=True):
    """How to reach the database as each role, and the embedded server when there is one. The DSNs hold passwords."""

    app: str
    reader: str
    migrator: str
    postgres: EmbeddedPostgres | None = None

    def __repr__(self) -> str:
        """Say which kind it is, not how to get in."""
        return f"Database({'external' if self.postgres is None else self.postgres.data_dir})"


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """Start the embedded server (unless a URL is set), bring the schema up to date, stop the server at the end.

    DataDirectoryError: the data folder is in use or cannot be used. Else as `store.migrate` and `EmbeddedPostgres`.
    """
    if settings.database_url:
        database = external(settings.database_url)
        migrate(database.migrator, allow_unsafe=settings.allow_unsafe_database)
        yield database
        return
    with EmbeddedPostgres(settings.data_dir, log=log("bursa.postgres")) as postgres:
        database = embedded(postgres)
        migrate(database.migrator)
        yield database


@contextmanager
def reach_database(settings: Settings) -> Iterator[Database]:
    """Reach the database beside a running exchange, or start the embedded server for as long as the block lasts.

    Nothing is made: DataDirectoryError when the data folder holds no exchange.
    """
    if settings.database_url:
        yield external(settings.database_url)
        return
    if not (settings.data_dir / "postgres").is_dir():
        raise DataDirectoryError("data folder", str(settings.data_dir), "the data folder of an exchange (see --data)")
    postgres = EmbeddedPostgres(settings.data_dir, log=log("bursa.postgres"))
    if is_in_use(settings.data_dir):
        yield embedded(postgres)
        return
    with postgres:
        yield embedded(postgres)


def external(url: str) -> Database:
    """Return how to reach a PostgreSQL that others run."""
    return Database(role_dsn(url, "app"), role_dsn(url, "reader"), url)


def embedded(postgres: EmbeddedPostgres) -> Database:
    """Return how to reach an embedded server that runs, in this process or another."""
    return Database(postgres.dsn("app"), postgres.dsn("reader"), postgres.dsn("migrator"), postgres)


def is_in_use(data_dir: Path) -> bool:
    """Tell whether a process runs the embedded server of this folder (it holds the folder's lock)."""
    try:
        handle = os.open(data_dir / "bursa.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared and given back at once: a start in this very moment sees it as free or waits for nobody.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def make_data_folder(settings: Settings) -> None:
    """Make the data folder, and those above it; DataDirectoryError when that fails.

    With an embedded database only those above: the store makes its folder with the rights that its server needs.
    """
    folder = settings.data_dir if settings.database_url else settings.data_dir.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataDirectoryError("data folder", str(folder), f"a folder we may make ({error.strerror})") from None
