"""Where settings come from: flags, the environment, the project file, the user file; the nearest source wins."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bursa.config.keys import KEYS, SECRETS, ClientSettings, Settings, default_data_dir
from bursa.errors import ConfigError

PREFIX: Final = "BURSA_"
PROJECT_FILE: Final = "bursa.toml"
#: Largest configuration file, in bytes.
FILE_BYTES_MAX: Final = 65_536
#: Environment variables with the prefix that are not keys: where the user file is; what tests and benchmarks use.
_OTHER_VARIABLES: Final = ("CONFIG", "TEST_", "BENCH_")


class Origin(msgspec.Struct, frozen=True):
    """One setting as `bursa config` shows it: its value as text (a secret hidden), and the source it came from."""

    key: str
    value: str
    source: str


class Resolved(msgspec.Struct, frozen=True):
    """All settings, and for each key where it came from."""

    settings: Settings
    client: ClientSettings
    origins: tuple[Origin, ...]


def load(
    flags: Mapping[str, object] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    project_file: Path | None = None,
    user_file: Path | None = None,
) -> Settings:
    """Return the server's settings: flag > environment > project file > user file > default.

    ``flags`` maps key names (``data``, ``port``, ``demo`` …) to values; a None counts as not given. Absent sources are
    the real ones. Raises ConfigError naming the source with its key, the value and what would be right.
    """
    return resolve(flags, env=env, project_file=project_file, user_file=user_file).settings


def resolve(
    flags: Mapping[str, object] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    project_file: Path | None = None,
    user_file: Path | None = None,
) -> Resolved:
    """Return the settings of server and terminal with the source of each; arguments and errors as of `load`."""
    environment = os.environ if env is None else env
    project = Path(PROJECT_FILE) if project_file is None else project_file
    user = user_path(environment) if user_file is None else user_file
    # From the farthest source to the nearest; a nearer one replaces what a farther one said.
    layers = [
        [(name, value, f"{user}: {name}") for name, value in read_file(user).items()],
        [(name, value, f"{project}: {name}") for name, value in _read_project(project).items()],
        _environment_entries(environment),
        [(name, value, "--" + name.replace("_", "-")) for name, value in (flags or {}).items() if value is not None],
    ]
    found: dict[str, tuple[object, str]] = {}
    for layer in layers:
        for name, value, source in layer:
            # Every source is checked, also where a nearer one wins: a fault shows when it is made, not months later.
            found[name] = _read_value(name, value, source), source
    server: dict[str, Any] = {"data_dir": default_data_dir(environment)}
    client: dict[str, Any] = {}
    for name, (value, _) in found.items():
        (client if KEYS[name].is_client else server)[KEYS[name].field] = value
    settings, terminal = Settings(**server), ClientSettings(**client)
    return Resolved(settings, terminal, _origins(settings, terminal, found))


def user_path(env: Mapping[str, str] | None = None) -> Path:
    """Return the path of the user's file: $BURSA_CONFIG, or bursa/config.toml in $XDG_CONFIG_HOME or ~/.config."""
    environment = os.environ if env is None else env
    if chosen := environment.get(f"{PREFIX}CONFIG"):
        return Path(chosen).expanduser()
    base = environment.get("XDG_CONFIG_HOME", "")
    # The XDG rules say to ignore a relative path.
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "bursa" / "config.toml"


def read_file(path: Path) -> dict[str, object]:
    """Return the keys of a TOML file, {} when there is none; ConfigError when it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(str(path), error.strerror, "a file that can be read") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(str(path), f"more than {FILE_BYTES_MAX} bytes", f"at most {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        # The text is not shown: it may hold a key.
        raise ConfigError(str(path), str(error), "TOML 1.0 in UTF-8") from None


def _read_project(path: Path) -> dict[str, object]:
    """Return the keys of the project file. It is shared with others, so a key in it is refused."""
    entries = read_file(path)
    if "key" in entries:
        raise ConfigError(f"{path}: key", "(hidden)", "no key in a project's file; run `bursa login` or set BURSA_KEY")
    return entries


def _environment_entries(env: Mapping[str, str]) -> list[tuple[str, object, str]]:
    entries: list[tuple[str, object, str]] = []
    for variable in sorted(env):
        name = variable.removeprefix(PREFIX)
        # An empty variable counts as absent, as with most programs.
        if variable.startswith(PREFIX) and not name.startswith(_OTHER_VARIABLES) and env[variable]:
            entries.append((name.lower(), env[variable], variable))
    return entries


def _read_value(name: str, value: object, source: str) -> object:
    key = KEYS.get(name)
    if key is None:
        near = difflib.get_close_matches(name, KEYS, n=1)
        hint = f"a known key; did you mean {near[0]}?" if near else f"one of {', '.join(sorted(KEYS))}"
        raise ConfigError(source, name, hint)
    try:
        return key.read(value)
    except ValueError:
        raise ConfigError(source, "(hidden)" if name in SECRETS else value, key.expected) from None


def _origins(settings: Settings, client: ClientSettings, found: Mapping[str, tuple[object, str]]) -> tuple[Origin, ...]:
    origins = []
    for name, key in KEYS.items():
        value = getattr(client if key.is_client else settings, key.field)
        source = found[name][1] if name in found else "default"
        origins.append(Origin(name, "(hidden)" if name in SECRETS and value else show_value(value), source))
    return tuple(origins)


def show_value(value: object) -> str:
    """Return a setting as it would be written in the environment."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
