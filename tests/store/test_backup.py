"""A backup made while the exchange runs comes back whole, or says that it is damaged; it never writes over anything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bursa.errors import DataDirectoryError, StoreError
from bursa.store import EmbeddedPostgres, backup, check_backup, connect, dump_schema, migrate, restore
from tests.postgres import Database, make_database, make_folder
from tests.store.test_schema import SCHEMA

RATE = "INSERT INTO bursa.fx_rates VALUES ('USD', %s, 1100000, 'test')"


def add_rate(dsn: str, day: str) -> None:
    with connect(dsn) as link:
        link.execute(RATE, (day,))


def read_days(dsn: str) -> list[str]:
    with connect(dsn) as link:
        return [str(row[0]) for row in link.execute("SELECT as_of FROM bursa.fx_rates ORDER BY 1").fetchall()]


@pytest.fixture(scope="module")
def copied() -> Iterator[Path]:
    """Make a copy of a cluster that holds one rate, and the cluster another one added after it."""
    with make_folder() as folder:
        with EmbeddedPostgres(folder / "data") as server:
            migrate(server.dsn("migrator"))
            add_rate(server.dsn(), "2026-01-01")
            backup(server, folder / "copy")
            add_rate(server.dsn(), "2026-01-02")
        yield folder / "copy"


@pytest.mark.slow
def test_a_copied_cluster_comes_back_as_it_was_and_takes_new_rows(copied: Path, reachable_path: Path) -> None:
    restore(copied, reachable_path / "back")
    with EmbeddedPostgres(reachable_path / "back") as server:
        assert migrate(server.dsn("migrator")) == ()
        assert read_days(server.dsn()) == ["2026-01-01"]
        add_rate(server.dsn(), "2026-01-03")
        assert dump_schema(server.dsn("migrator")) == SCHEMA.read_text()


def test_a_backup_is_for_its_owner_alone(copied: Path) -> None:
    assert copied.stat().st_mode & 0o077 == 0
    assert not (copied / "passwords.json").exists()


def test_a_damaged_copy_is_refused_and_restores_nothing(copied: Path, reachable_path: Path) -> None:
    victim = next(
        path for path in sorted((copied / "base").rglob("*")) if path.is_file() and path.stat().st_size > 8192
    )
    whole = victim.read_bytes()
    try:
        victim.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        with pytest.raises(StoreError, match=rf"pg_verifybackup: .*{victim.name}"):
            restore(copied, reachable_path / "back")
    finally:
        victim.write_bytes(whole)
    assert not (reachable_path / "back").exists()
    check_backup(copied)


def test_a_missing_file_of_a_copy_is_noticed(copied: Path) -> None:
    control = copied / "global" / "pg_control"
    control.rename(copied.parent / "aside")
    try:
        with pytest.raises(StoreError, match=r"pg_verifybackup: .*pg_control"):
            check_backup(copied)
    finally:
        (copied.parent / "aside").rename(control)


@pytest.mark.parametrize("occupied", ["file", "folder"])
def test_nothing_is_written_over(copied: Path, database: Database, reachable_path: Path, occupied: str) -> None:
    target = reachable_path / "target"
    if occupied == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "mine").write_text("mine")
    with pytest.raises(DataDirectoryError, match=r"target folder: .*a folder that is absent or empty"):
        backup(database.dsn("migrator"), target)
    with pytest.raises(DataDirectoryError, match=r"target folder: .*a folder that is absent or empty"):
        restore(copied, target)
    assert (target if occupied == "file" else target / "mine").read_text() == "mine"


def test_a_dump_comes_back_into_an_empty_database_with_all_rights(
    postgres: EmbeddedPostgres, database: Database, tmp_path: Path
) -> None:
    add_rate(database.dsn(), "2026-01-01")
    (tmp_path / "dump").mkdir()  # an empty folder of that name may be there
    assert backup(database.dsn("migrator"), tmp_path / "dump") == tmp_path / "dump"
    with make_database(postgres, is_migrated=False) as other:
        restore(tmp_path / "dump", other.dsn("migrator"))
        assert migrate(other.dsn("migrator")) == ()
        assert read_days(other.dsn("reader")) == ["2026-01-01"]
        assert dump_schema(other.dsn("migrator")) == SCHEMA.read_text()
        with pytest.raises(DataDirectoryError, match="a database without a schema bursa"):
            restore(tmp_path / "dump", other.dsn("migrator"))


def test_a_damaged_dump_is_refused(database: Database, tmp_path: Path) -> None:
    for day in range(1, 28):
        add_rate(database.dsn(), f"2026-01-{day:02}")
    file = backup(database.dsn("migrator"), tmp_path / "dump") / "bursa.dump"
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(StoreError, match="pg_restore"):
        restore(tmp_path / "dump", database.dsn("migrator"))


def test_a_failed_backup_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="pg_dump: got 'exit status 1'") as caught:
        backup("host=/nowhere dbname=x user=u password=hush", tmp_path / "dump")
    assert "hush" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_target_of_the_wrong_kind_is_refused(copied: Path, database: Database, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a data folder: the backup is a copy of a cluster"):
        restore(copied, database.dsn("migrator"))
    backup(database.dsn("migrator"), tmp_path / "dump")
    with pytest.raises(StoreError, match="the address of a database: the backup is a dump"):
        restore(tmp_path / "dump", tmp_path / "back")
    with pytest.raises(StoreError, match="a folder that holds"):
        restore(tmp_path, tmp_path / "back")
