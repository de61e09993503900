"""A full disk: nothing is confirmed that is not kept, the reason is said, and freed space brings it all back."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from bursa.errors import DatabaseUnavailableError
from bursa.store import EmbeddedPostgres, connect
from tests.postgres import make_folder
from tests.store.test_embedded import wait_until

MOUNT = ["mount", "-t", "tmpfs", "-o", "size=160m,mode=0711", "bursa-test"]
BALLAST_BYTES = 64 * 1024 * 1024


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Mount a small file system of its own; only root may."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    with make_folder() as folder:
        place = folder / "disk"
        place.mkdir()
        mounted = subprocess.run([*MOUNT, str(place)], check=False, capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)


#: Two ways to fill it, one row a commit: large rows (their table cannot grow), or much log (the server panics).
LARGE_ROW = "INSERT INTO kept SELECT %s, string_agg(md5(random()::text), '') FROM generate_series(1, 8000)"
MUCH_LOG = "INSERT INTO kept SELECT %s, pg_logical_emit_message(true, '', repeat('x', 2000000))::text"


def fill(server: EmbeddedPostgres, statement: LiteralString, confirmed: list[tuple[int]]) -> str:
    """Add rows until the server refuses; return how it did."""
    try:
        with connect(server.dsn("superuser"), autocommit=True) as link:
            while True:
                number = len(confirmed)
                link.execute(statement, (number,))
                confirmed.append((number,))
    except (psycopg.Error, DatabaseUnavailableError) as error:
        return f"{error} {server.last_error}"


@pytest.mark.slow
@pytest.mark.parametrize("statement", [LARGE_ROW, MUCH_LOG], ids=["large rows", "much log"])
def test_a_full_disk_confirms_nothing_says_so_and_recovers_when_freed(
    small_disk: Path, statement: LiteralString
) -> None:
    ballast = small_disk / "ballast"
    confirmed: list[tuple[int]] = []
    with EmbeddedPostgres(small_disk / "data") as server:
        with connect(server.dsn("superuser"), autocommit=True) as link:
            link.execute("CREATE TABLE kept (n bigint PRIMARY KEY, filler text)")
        ballast.write_bytes(bytes(BALLAST_BYTES))
        words = [fill(server, statement, confirmed)]
        if statement == MUCH_LOG:  # the server panics, has no room to recover, and is started again and again
            wait_until(lambda: server.restarts > 1)
            words.append(fill(server, statement, confirmed))
        assert confirmed
        assert any("No space left on device" in text for text in words), words
        before = list(confirmed)

        ballast.unlink()
        wait_until(lambda: server.is_running)
        with connect(server.dsn("superuser"), autocommit=True) as link:
            link.execute("INSERT INTO kept VALUES (-1, '')")
            rows = link.execute("SELECT n FROM kept WHERE n >= 0 ORDER BY n").fetchall()
        # What was refused may have been kept where the answer was lost, but never the other way round.
        assert rows[: len(before)] == before
        assert len(rows) <= len(before) + len(words)
