"""The operator's work on the database: beside a running exchange, and while none runs."""

import io
import json
from pathlib import Path

import pytest

from bursa import server
from bursa.config import Settings
from bursa.errors import DataDirectoryError, InputError
from bursa.server.database import is_in_use
from bursa.wire import Scope, parse_id
from tests.server.process import Server, running

pytestmark = pytest.mark.slow


def count_json_lines(settings: Settings) -> int:
    out = io.BytesIO()
    rows = server.export(settings, "jsonl", out)
    lines = out.getvalue().splitlines()
    assert all(json.loads(line) for line in lines)
    assert rows > 0
    return len(lines)


def check_beside(exchange: Server, settings: Settings, folder: Path) -> tuple[str, int]:
    """Verify, export, back up and make keys while the exchange runs; return digest and number of exported lines."""
    report = server.verify(settings)
    assert report.is_ok, report.differences
    assert report.digest == exchange.get("/v1/admin/status", "operator")["digest"]
    assert server.backup(settings, folder / "backup") == folder / "backup"
    made = server.create_key(settings, name="second")
    answer = exchange.http.get("/v1/whoami", headers={"Authorization": f"Bearer {made.secret}"})
    assert answer.json()["is_operator"] is True
    renter = parse_id("party", exchange.get("/v1/whoami")["party"])
    weak = server.create_key(settings, party=renter, scopes=frozenset({Scope.READ}))
    refused = exchange.buy(headers={"Authorization": f"Bearer {weak.secret}"}, idempotency_key="weak")
    assert refused.status_code == 403
    with pytest.raises(InputError, match="party"):
        server.create_key(settings, party=999)
    return report.digest, count_json_lines(settings)


def test_an_exchange_is_verified_exported_backed_up_and_restored(reachable_path: Path) -> None:
    with running(reachable_path, demo="no") as exchange:
        settings = Settings(data_dir=exchange.data)
        digest, lines = check_beside(exchange, settings, reachable_path)
        assert exchange.stop() == 0
    assert not is_in_use(settings.data_dir)
    report = server.verify(settings, from_genesis=False)
    assert (report.is_ok, report.digest) == (True, digest), report.differences
    assert count_json_lines(settings) == lines
    assert not is_in_use(settings.data_dir), "started for the moment only"
    target = reachable_path / "books.csv"
    assert server.export(settings, "csv", target) > 0
    before = target.read_bytes()
    with pytest.raises(InputError, match="out"):
        server.export(settings, "csv", target)
    assert target.read_bytes() == before, "an export never overwrites"
    with pytest.raises(DataDirectoryError, match="empty"):
        server.restore(settings, reachable_path / "backup")
    restored = Settings(data_dir=reachable_path / "other" / "data")
    assert server.restore(restored, reachable_path / "backup") == restored.data_dir
    assert server.verify(restored).digest == digest
