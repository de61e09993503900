"""What `bursa up` prints: keys only when they are new, and commands that fit the market as it is."""

from pathlib import Path

import msgspec
import pytest

from bursa.config import Settings
from bursa.market import Engine, ListInstrument, MarketView, OpenBook
from bursa.server.assembly import describe_fault
from bursa.server.bootstrap import Credentials, FirstStart
from bursa.server.welcome import find_command, suggest, write_welcome

NEW = FirstStart(
    Credentials("pty_1", Path("/d/operator.toml"), "bursa_1_o"),
    Credentials("pty_2", Path("/d/renter.toml"), "bursa_2_r"),
)
OLD = FirstStart(Credentials("pty_1", Path("/d/operator.toml")), Credentials("pty_2", Path("/d/renter.toml")))
SETTINGS = Settings(data_dir=Path("/d"))


def view_of(*instruments: str, reference_micros: int = 0) -> MarketView:
    engine = Engine()
    for name in instruments:
        engine.apply(ListInstrument(command_id=f"l-{name}", instrument=name, reference_micros=reference_micros), 1)
        engine.apply(OpenBook(command_id=f"o-{name}", instrument=name), 1)
    return MarketView.from_engine(engine, 1, 1)


def test_new_keys_are_shown_and_old_ones_are_not() -> None:
    text = write_welcome(SETTINGS, "http://127.0.0.1:8000", NEW, view_of())
    assert text.count("bursa_1_o") == text.count("bursa_2_r") == 1
    assert "shown this once" in text
    text = write_welcome(SETTINGS, "http://127.0.0.1:8000", OLD, view_of())
    assert "admin key create --data /d\n" in text
    assert "bursa_1" not in text
    text = write_welcome(msgspec.structs.replace(SETTINGS, database_url="postgresql://h/b"), "http://x", OLD, view_of())
    assert "admin key create\n" in text


def test_keys_made_for_files_that_are_missing_are_said_to_be_new() -> None:
    renewed = FirstStart(
        Credentials("pty_1", Path("/d/operator.toml"), "bursa_1_n", is_renewed=True),
        Credentials("pty_2", Path("/d/renter.toml"), "bursa_2_n", is_renewed=True),
    )
    text = write_welcome(SETTINGS, "http://127.0.0.1:8000", renewed, view_of())
    assert text.count("bursa_1_n") == text.count("bursa_2_n") == 1
    assert "had no key files: new keys were made" in text
    assert "shown this once" in text
    assert "play money" not in text, "what was spent stays spent"
    text = write_welcome(SETTINGS, "http://x", FirstStart(OLD.operator, renewed.renter), view_of())
    assert "had no renter.toml: new keys were made" in text
    assert "new keys" not in write_welcome(SETTINGS, "http://x", NEW, view_of())


def test_a_path_with_a_space_is_quoted_for_the_shell() -> None:
    first = FirstStart(Credentials("pty_1", Path("/my data/operator.toml")), None)
    assert "export BURSA_CONFIG='/my data/operator.toml'" in write_welcome(SETTINGS, "http://x", first, view_of())


def test_without_offers_a_bid_is_suggested_and_without_books_a_look() -> None:
    assert suggest(view_of("l4", reference_micros=440_000))[0] == "bid l4 --gpus 1 --hours 1 --price 0.44"
    assert suggest(view_of())[0] == "market status"


def test_the_command_is_named_as_the_shell_finds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    script = tmp_path / "env" / "bursa"
    script.write_text("")
    monkeypatch.setattr("sys.executable", str(tmp_path / "env" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert find_command() == "env/bursa"
    monkeypatch.chdir("/")
    assert find_command() == str(script)[1:]
    monkeypatch.setenv("PATH", f"{tmp_path}:{script.parent}")
    assert find_command() == "bursa"


@pytest.mark.parametrize(
    ("last_error", "is_running", "said"),
    [
        ('could not extend file "base/1": No space left on device', True, "disk of the database is full"),
        ("", False, "started again"),
        ("", True, ""),
        ("out of memory", True, "out of memory"),
    ],
)
def test_the_database_s_last_words_are_told_as_what_they_mean(last_error: str, is_running: bool, said: str) -> None:
    found = describe_fault(last_error, is_running=is_running)
    assert said in found
    assert bool(found) == bool(said)
