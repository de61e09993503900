"""The terminal against a served exchange, with a home folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bursa.cli import main
from bursa.store import EmbeddedPostgres
from tests.api.stand import Party
from tests.postgres import make_database
from tests.sdk.served import Served, serve


@pytest.fixture(scope="session")
def served(postgres: EmbeddedPostgres) -> Iterator[Served]:
    with make_database(postgres) as database, serve(database) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the user's own configuration out of tests, and the output plain and 80 columns wide."""
    for name in ("BURSA_URL", "BURSA_KEY", "FORCE_COLOR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("BURSA_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass
class Said:
    """What a command line left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def run_line(*arguments: str) -> Said:
        code = main(arguments)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run_line


@pytest.fixture
def log_in(served: Served, monkeypatch: pytest.MonkeyPatch) -> Callable[[Party], None]:
    """Let the commands after it act for a party."""

    def take(party: Party) -> None:
        monkeypatch.setenv("BURSA_URL", served.url)
        monkeypatch.setenv("BURSA_KEY", party.key)

    return take


@pytest.fixture
def renter(served: Served, log_in: Callable[[Party], None]) -> Party:
    party = served.renter("100")
    log_in(party)
    return party
