"""`bursa serve` for real: sequencer, standby and web as processes on one shared PostgreSQL."""

from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from bursa import server
from bursa.config import Settings
from bursa.errors import ConfigError
from tests.postgres import Database
from tests.server.process import Server, running, wait_until

pytestmark = pytest.mark.slow


def url_of(database: Database) -> str:
    parts = conninfo_to_dict(database.dsn("superuser"))
    place = quote(str(parts["host"]), safe="")
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={place}&port={parts['port']}"


def leads(process: Server) -> bool:
    return "bursa_is_leader 1.0" in process.http.get("/v1/metrics").text


def sees(process: Server, seq: int) -> bool:
    return bool(process.http.get("/v1/health").json()["seq"] >= seq)


def test_parts_share_the_work_and_the_standby_takes_over(reachable_path: Path, database: Database) -> None:
    url = url_of(database)
    settings = Settings(data_dir=reachable_path / "data", database_url=url)
    with (
        running(reachable_path, "serve", "one", role="sequencer", database_url=url) as one,
        running(reachable_path, "serve", "two", role="sequencer", database_url=url) as two,
        running(reachable_path, "serve", "web", role="web", database_url=url) as web,
    ):
        key = {"Authorization": f"Bearer {server.create_key(settings).secret}"}
        wait_until("one leads", lambda: leads(one))
        assert not leads(two)
        assert not leads(web)
        assert one.http.get("/v1/market").status_code == 404, "a sequencer has no API"
        party = {"name": "Anna", "tax": {"country": "DE", "scheme": "OSS", "vat_percent": "19"}}
        made = web.http.post("/v1/admin/parties", json=party, headers={**key, "Idempotency-Key": "anna"})
        assert made.status_code == 201, made.text
        one.kill()
        wait_until("two leads", lambda: leads(two))
        again = web.http.post("/v1/admin/parties", json=party, headers={**key, "Idempotency-Key": "anna"})
        assert (again.status_code, again.json()["id"]) == (201, made.json()["id"])
        assert again.headers["Idempotent-Replayed"] == "true"
        other = web.http.post("/v1/admin/parties", json={"name": "Ben"}, headers=key)
        assert other.status_code == 201, other.text
        wait_until("all see it", lambda: sees(two, other.json()["seq"]) and sees(web, other.json()["seq"]))
        assert web.stop() == 0
        assert two.stop() == 0
    report = server.verify(settings)
    assert report.is_ok, report.differences
    assert url not in web.log + two.log


def test_sandbox_and_demo_are_off_unless_asked_for(reachable_path: Path, database: Database) -> None:
    url = url_of(database)
    settings = Settings(data_dir=reachable_path / "data", database_url=url)
    with running(reachable_path, "serve", database_url=url) as process:
        key = {"Authorization": f"Bearer {server.create_key(settings).secret}"}
        funds = {"amount": "10.00", "currency": "USD"}
        refused = process.http.post("/v1/wallet/top-ups", json=funds, headers=key)
        assert refused.json()["code"] == "TOP_UPS_UNAVAILABLE"
        assert process.http.get("/v1/market").json()["items"] == []
        assert process.stop() == 0


def test_without_a_shared_database_there_are_no_parts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="database_url"):
        server.serve(Settings(data_dir=tmp_path))
