"""What a start makes for the parties of an exchange that was started before."""

import asyncio
from pathlib import Path

import pytest

from bursa.server import bootstrap
from tests.postgres import Database
from tests.services.world import open_world

pytestmark = pytest.mark.slow


def test_a_missing_key_file_is_made_anew_until_the_party_has_too_many_keys(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with open_world(database) as world:
            first = await bootstrap.found_parties(world.exchange, tmp_path, "http://a")
            again = await bootstrap.found_parties(world.exchange, tmp_path, "http://b")
            assert first.operator.secret
            assert (again.operator.secret, again.operator.is_renewed) == ("", False)
            path = first.operator.path
            assert "http://b" in path.read_text()
            path.unlink()
            new = await bootstrap.found_parties(world.exchange, tmp_path, "http://b")
            assert new.operator.is_renewed
            assert new.operator.secret not in {"", first.operator.secret}
            assert new.operator.secret in path.read_text()
            assert new.renter is not None
            assert not new.renter.is_renewed, "its file is there"
            monkeypatch.setattr("bursa.services.keys.KEYS_PER_PARTY_MAX", 2)
            path.unlink()
            full = await bootstrap.found_parties(world.exchange, tmp_path, "http://b")
            assert (full.operator.secret, full.operator.is_renewed) == ("", False)
            assert not path.exists()

    asyncio.run(scenario())
    assert "no new key was made" in caplog.text
