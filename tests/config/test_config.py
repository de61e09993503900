"""Settings: the nearest source wins; a fault anywhere is named with its source, its value and what would be right."""

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bursa.config import ClientSettings, LogFormat, Role, Settings, UserConfig, load, resolve, user_path
from bursa.config.keys import KEYS, SECRETS
from bursa.config.sources import FILE_BYTES_MAX, show_value
from bursa.errors import ConfigError

SECRET = "bursa_17_" + "s" * 43
DSN = "postgresql://bursa:hunter2@db.example/bursa"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """No source has a say, except those that a test adds."""
    return {"env": {}, "project_file": tmp_path / "bursa.toml", "user_file": tmp_path / "config.toml"}


def fail(files: dict[str, Any], flags: dict[str, object] | None = None, **changes: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(flags, **(files | changes))
    return caught.value


# ── Precedence ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_source_the_defaults_hold(files: dict[str, Any]) -> None:
    settings = load(**files)
    assert (settings.host, settings.port, settings.role, settings.is_demo) == ("127.0.0.1", 8000, Role.ALL, None)
    assert settings.data_dir.is_absolute()
    assert {origin.source for origin in resolve(**files).origins} == {"default"}


def test_flag_beats_environment_beats_project_beats_user(files: dict[str, Any]) -> None:
    files["user_file"].write_text("port = 1001\nhost = 'user'\nlog_level = 'error'\nbody_bytes_max = 2048\n")
    files["project_file"].write_text("port = 1002\nhost = 'project'\nlog_level = 'warning'\n")
    files["env"] = {"BURSA_PORT": "1003", "BURSA_HOST": "env"}
    resolved = resolve({"port": 1004, "host": None}, **files)
    settings = resolved.settings
    assert (settings.port, settings.host, settings.log_level, settings.body_bytes_max) == (1004, "env", "warning", 2048)
    sources = {origin.key: origin.source for origin in resolved.origins}
    assert sources["port"] == "--port"
    assert sources["host"] == "BURSA_HOST"
    assert sources["log_level"] == f"{files['project_file']}: log_level"
    assert sources["body_bytes_max"] == f"{files['user_file']}: body_bytes_max"
    assert sources["uds"] == "default"


def test_every_kind_of_value_can_be_written_in_the_environment(files: dict[str, Any]) -> None:
    files["env"] = {
        "BURSA_DATA": "~/bursa",
        "BURSA_DEMO": "No",
        "BURSA_ROLE": "sequencer",
        "BURSA_LOG_FORMAT": "json",
        "BURSA_TRUSTED_PROXIES": "10.0.0.1, 10.0.0.2",
        "BURSA_UDS": "run/bursa.sock",
        "BURSA_HOST": "",
    }
    settings = load(**files)
    assert settings.data_dir == Path.home() / "bursa"
    assert settings.is_demo is False
    assert settings.role is Role.SEQUENCER
    assert settings.log_format is LogFormat.JSON
    assert settings.trusted_proxies == ("10.0.0.1", "10.0.0.2")
    assert settings.uds == Path.cwd() / "run" / "bursa.sock"
    assert settings.host == "127.0.0.1", "an empty variable is an absent one"


@pytest.mark.parametrize("name", sorted(KEYS.keys() - SECRETS))
def test_every_shown_value_can_be_read_back(name: str, files: dict[str, Any]) -> None:
    resolved = resolve(**files)
    key = KEYS[name]
    value = getattr(resolved.client if key.is_client else resolved.settings, key.field)
    assert value is None or key.read(show_value(value)) == value


def test_the_table_of_keys_covers_every_field() -> None:
    fields = {key.field for key in KEYS.values()}
    assert fields == {*Settings.__struct_fields__, *ClientSettings.__struct_fields__}


def test_root_keeps_data_where_an_unprivileged_server_can_reach_it(
    files: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files["env"] = {"XDG_DATA_HOME": str(tmp_path)}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert load(**files).data_dir == Path("/var/lib/bursa")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert load(**files).data_dir == tmp_path / "bursa"
    files["env"] = {"XDG_DATA_HOME": "relative/is/ignored"}
    assert load(**files).data_dir == Path.home() / ".local" / "share" / "bursa"


# ── Faults ───────────────────────────────────────────────────────────────────────────────────────────────────────────

BAD_VALUES = [
    ("port", "65536"),
    ("port", "-1"),
    ("port", " 80"),
    ("port", "8_0"),
    ("port", "٨٠"),
    ("port", "9" * 5_000),
    ("demo", "maybe"),
    ("role", "leader"),
    ("log_format", "xml"),
    ("log_level", "loud"),
    ("host", "a\nb"),
    ("uds", "/" + "x" * 107),
    ("body_bytes_max", "10"),
    ("url", "ftp://example"),
    ("url", "http://"),
    ("database_url", "mysql://db/bursa"),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_bad_value_is_named_with_its_variable_and_what_is_right(name: str, value: str, files: dict[str, Any]) -> None:
    variable = f"BURSA_{name.upper()}"
    error = fail(files, env={variable: value})
    assert error.field == variable
    assert error.expected == KEYS[name].expected


@pytest.mark.parametrize("value", [True, 1.5, [80]])
def test_a_port_of_a_wrong_type_in_a_file_is_refused(value: object, files: dict[str, Any]) -> None:
    files["project_file"].write_text(f"port = {str(value).lower()}\n")
    assert fail(files).field == f"{files['project_file']}: port"


def test_a_bad_value_is_found_even_where_a_nearer_source_wins(files: dict[str, Any]) -> None:
    files["user_file"].write_text("port = 'http'\n")
    assert fail(files, {"port": 80}).field == f"{files['user_file']}: port"


def test_an_unknown_key_names_the_nearest_known_one(files: dict[str, Any]) -> None:
    error = fail(files, env={"BURSA_PROT": "80"})
    assert (error.field, error.value) == ("BURSA_PROT", "prot")
    assert "port" in error.expected
    files["project_file"].write_text("zzz = 1\n")
    assert "one of " in fail(files).expected


def test_variables_of_tests_and_of_others_are_left_alone(files: dict[str, Any]) -> None:
    files["env"] = {"BURSA_TEST_ROUNDS": "9", "BURSA_CONFIG": "x", "PORT": "1", "bursa_port": "2"}
    assert load(**files).port == 8000


@pytest.mark.parametrize("data", [b"port = ", b"\xff", b"port = 1\nport = 2\n"])
def test_a_file_that_is_not_toml_is_named(data: bytes, files: dict[str, Any]) -> None:
    files["project_file"].write_bytes(data)
    assert fail(files).field == str(files["project_file"])


def test_a_huge_file_is_refused_unread(files: dict[str, Any]) -> None:
    files["user_file"].write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    assert "bytes" in fail(files).expected


def test_a_file_that_cannot_be_read_is_named(files: dict[str, Any]) -> None:
    files["user_file"].mkdir()
    assert fail(files).field == str(files["user_file"])


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_in_the_project_file_is_refused_and_not_shown(files: dict[str, Any]) -> None:
    files["project_file"].write_text(f"key = '{SECRET}'\n")
    assert SECRET not in str(fail(files))


def test_secrets_are_hidden_wherever_settings_are_shown(files: dict[str, Any]) -> None:
    files["env"] = {"BURSA_KEY": SECRET, "BURSA_DATABASE_URL": DSN}
    resolved = resolve(**files)
    assert (resolved.settings.database_url, resolved.client.key) == (DSN, SECRET)
    shown = repr(resolved) + str(resolved.settings) + repr(UserConfig("http://x", SECRET))
    assert SECRET not in shown
    assert "hunter2" not in shown
    assert "hunter2" not in str(fail(files, env={"BURSA_DATABASE_URL": "mysql://bursa:hunter2@db"}))


# ── The user's file ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_login_and_logout_keep_the_other_keys_and_the_file_private(files: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    files["user_file"] = path
    UserConfig("http://127.0.0.1:9000", SECRET).write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert UserConfig.load(**files) == UserConfig("http://127.0.0.1:9000", SECRET)
    path.write_text(path.read_text() + "port = 8001\n")
    path.chmod(0o644)
    UserConfig("http://127.0.0.1:9000", "").write(path)
    assert tomllib.loads(path.read_text()) == {"url": "http://127.0.0.1:9000", "port": 8001}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path], "nothing else is left behind"


def test_a_user_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        UserConfig("http://x", "").write(tmp_path / "file" / "config.toml")


def test_the_user_file_lies_where_xdg_says() -> None:
    assert user_path({"XDG_CONFIG_HOME": "/etc/xdg"}) == Path("/etc/xdg/bursa/config.toml")
    assert user_path({"XDG_CONFIG_HOME": "x"}) == Path.home() / ".config" / "bursa" / "config.toml"
    assert user_path({"BURSA_CONFIG": "/a/b.toml"}) == Path("/a/b.toml")
