"""The database of a server: embedded or external, reached beside a running exchange or started for the purpose."""

from pathlib import Path

import pytest

from bursa.config import Settings
from bursa.errors import DataDirectoryError
from bursa.server.database import is_in_use, make_data_folder, open_database, reach_database
from bursa.store import connect
from tests.postgres import Database

pytestmark = pytest.mark.slow


def newest_migration(dsn: str) -> int:
    with connect(dsn) as link:
        row = link.execute("SELECT max(number) FROM bursa.migrations").fetchone()
    assert row is not None
    return int(row[0])


def test_an_embedded_database_is_made_used_beside_and_used_again(reachable_path: Path) -> None:
    settings = Settings(data_dir=reachable_path / "deep" / "data")
    make_data_folder(settings)
    with open_database(settings) as database:
        assert is_in_use(settings.data_dir)
        assert newest_migration(database.app) >= 1
        with reach_database(settings) as beside:
            assert beside.postgres is not None
            assert not beside.postgres.is_running, "it is another process's, as far as this one can tell"
            assert newest_migration(beside.reader) >= 1
        with pytest.raises(DataDirectoryError, match="no other process"), open_database(settings):
            pass
        assert "password" not in repr(database)
    assert not is_in_use(settings.data_dir)
    with reach_database(settings) as started:
        assert is_in_use(settings.data_dir)
        assert newest_migration(started.reader) >= 1
    assert not is_in_use(settings.data_dir)


def test_an_admin_on_the_wrong_folder_makes_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="--data"), reach_database(Settings(data_dir=tmp_path / "x")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_external_database_is_migrated_and_roles_act_on_it(database: Database) -> None:
    settings = Settings(data_dir=Path("/nowhere"), database_url=database.dsn("superuser"))
    with open_database(settings) as opened:
        assert opened.postgres is None
        for dsn, role in ((opened.app, "bursa_app"), (opened.reader, "bursa_reader")):
            with connect(dsn) as link:
                assert link.execute("SELECT current_user").fetchone() == (role,)
    with reach_database(settings) as reached:
        assert newest_migration(reached.reader) >= 1
