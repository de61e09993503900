"""The table of keys: name, how its value is read, what would be right, what it is for.

`Settings` and `ClientSettings` hold the read values; docs/reference/configuration.md is written from this table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

PORT_MAX: Final = 65_535
#: Longest path of a Unix socket, in bytes, that Linux binds.
SOCKET_PATH_BYTES_MAX: Final = 107
_RATE_MAX: Final = 1_000_000
_MIB: Final = 1024 * 1024
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
#: Keys whose value is a secret, or may contain one.
SECRETS: Final = frozenset({"key", "database_url"})


class Role(StrEnum):
    """Which part of the exchange a process is: all of it, only the HTTP API, or only the sequencer."""

    ALL = "all"
    WEB = "web"
    SEQUENCER = "sequencer"


class LogFormat(StrEnum):
    """How log lines look; ``auto`` is text on a terminal and JSON elsewhere."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is built from; the table KEYS says what each means. Its repr shows no secret.

    ``is_demo`` and ``is_sandbox`` None: yes in `bursa up`, where one person tries it, and no in `bursa serve`.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8000
    uds: Path | None = None
    database_url: str = ""
    database_pool_max: int = 8
    allow_unsafe_database: bool = False
    role: Role = Role.ALL
    is_demo: bool | None = None
    is_sandbox: bool | None = None
    log_level: str = "info"
    log_format: LogFormat = LogFormat.AUTO
    body_bytes_max: int = _MIB
    key_requests_per_s: int = 200
    key_burst: int = 1_000
    address_requests_per_s: int = 400
    address_burst: int = 2_000
    trusted_proxies: tuple[str, ...] = ()
    stream_readers_max: int = 10_000
    stream_heartbeat_s: int = 15
    shutdown_s: int = 10

    def __repr__(self) -> str:
        """Return the settings with secrets left out."""
        shown = ", ".join(
            f"{name}={'(hidden)' if name in SECRETS and getattr(self, name) else repr(getattr(self, name))}"
            for name in self.__struct_fields__
        )
        return f"Settings({shown})"


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which exchange a terminal or program talks to, and with which key ("" without one). Its repr hides the key."""

    url: str = "http://127.0.0.1:8000"
    key: str = ""

    def __repr__(self) -> str:
        """Return the URL, and only whether there is a key."""
        return f"ClientSettings(url={self.url!r}, key={'(hidden)' if self.key else ''!r})"


class Key(msgspec.Struct, frozen=True):
    """A key: the field it fills, how text or a TOML value becomes that field's value (ValueError when it cannot)."""

    name: str
    field: str
    read: Callable[[object], object]
    expected: str
    meaning: str
    is_client: bool = False


def default_data_dir(env: Mapping[str, str]) -> Path:
    """Return where data is kept when nobody says: /var/lib/bursa for root, else under the user's XDG data folder.

    Not the home folder for root: PostgreSQL refuses to run as root, and the account it runs as cannot enter /root.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/bursa")
    base = env.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "bursa"


def read_bool(value: object) -> bool:
    """Read a TOML boolean, or one of 1, true, yes, on, 0, false, no, off in any case."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        raise ValueError(text)
    return text in _TRUE


def read_int(low: int, high: int) -> Callable[[object], int]:
    """Return a reader of whole numbers from low to high, both included."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(value)  # noqa: TRY004 - to the caller a wrong type is one more wrong value
        text = str(value)
        # int() would also take " 1", "+1", "1_0" and digits of other scripts.
        if not (text.isascii() and text.isdecimal()) or not low <= int(text[:20]) <= high:
            raise ValueError(value)
        return int(text)

    return read


def read_choice(choices: tuple[str, ...]) -> Callable[[object], str]:
    """Return a reader of one of these words."""

    def read(value: object) -> str:
        if value not in choices:
            raise ValueError(value)
        return str(value)

    return read


def read_text(value: object) -> str:
    """Read text that is not empty and has no control characters."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(value)
    return value


def read_path(value: object) -> Path:
    """Read a path, ``~`` for the home folder; a relative one starts from the working folder."""
    text = str(value) if isinstance(value, Path) else read_text(value)
    return Path(text).expanduser().absolute()


def read_socket_path(value: object) -> Path:
    """Read a path that a Unix socket can be bound to."""
    path = read_path(value)
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
        raise ValueError(path)
    return path


def read_names(value: object) -> tuple[str, ...]:
    """Read a TOML array of texts, or names with commas between; "" is none."""
    names = value if isinstance(value, list | tuple) else str(value).split(",") if value else []
    return tuple(read_text(name.strip() if isinstance(name, str) else name) for name in names)


def read_url(*schemes: str) -> Callable[[object], str]:
    """Return a reader of URLs with one of these schemes."""

    def read(value: object) -> str:
        text = read_text(value)
        scheme, separator, rest = text.partition("://")
        if scheme not in schemes or not separator or not rest or " " in text:
            raise ValueError(value)
        return text.rstrip("/")

    return read


def _switch(name: str, field: str, meaning: str) -> Key:
    return Key(name, field, read_bool, "true or false", meaning)


def _count(name: str, low: int, high: int, meaning: str, unit: str = "") -> Key:
    return Key(name, name, read_int(low, high), f"a whole number{unit} from {low} to {high}", meaning)


_LEVELS: Final = ("debug", "info", "warning", "error")

KEYS: Final = {
    key.name: key
    for key in (
        Key("data", "data_dir", read_path, "a path of a folder", "Folder that holds everything of one exchange."),
        Key("host", "host", read_text, "an address to listen on", "Address to listen on."),
        Key("port", "port", read_int(0, PORT_MAX), "a port from 0 (any free one) to 65535", "Port to listen on."),
        Key(
            "uds",
            "uds",
            read_socket_path,
            f"a path of at most {SOCKET_PATH_BYTES_MAX} bytes",
            "Unix socket to listen on, instead of host and port.",
        ),
        Key(
            "database_url",
            "database_url",
            read_url("postgresql", "postgres"),
            "a URL like postgresql://user:password@host/database",
            "PostgreSQL to use; absent: one embedded in the data folder. Secret.",
        ),
        _count("database_pool_max", 1, 100, "Most connections of each pool to PostgreSQL.", " of connections"),
        _switch(
            "allow_unsafe_database",
            "allow_unsafe_database",
            "Accept a PostgreSQL that may lose what it confirmed (fsync off). Only for tests.",
        ),
        Key(
            "role",
            "role",
            lambda value: Role(str(value)),
            "all, web or sequencer",
            "Which part of the exchange this process is.",
        ),
        _switch(
            "demo", "is_demo", "Run demo sellers with simulated hosts; absent: yes in `bursa up`, no in `bursa serve`."
        ),
        _switch(
            "sandbox",
            "is_sandbox",
            "Let renters top up with play money; absent: yes in `bursa up`, no in `bursa serve`.",
        ),
        Key(
            "log_level",
            "log_level",
            read_choice(_LEVELS),
            f"one of {', '.join(_LEVELS)}",
            "Least severe log line to write.",
        ),
        Key(
            "log_format",
            "log_format",
            lambda value: LogFormat(str(value)),
            "auto, text or json",
            "Form of log lines; auto is text on a terminal, JSON elsewhere.",
        ),
        _count("body_bytes_max", 1_024, 64 * _MIB, "Largest body of a request.", " of bytes"),
        _count("key_requests_per_s", 1, _RATE_MAX, "Requests per second that one key may make for long."),
        _count("key_burst", 1, _RATE_MAX, "Requests that one key may make at once."),
        _count("address_requests_per_s", 1, _RATE_MAX, "Requests per second without a valid key from one address."),
        _count("address_burst", 1, _RATE_MAX, "Requests without a valid key from one address at once."),
        Key(
            "trusted_proxies",
            "trusted_proxies",
            read_names,
            "addresses with commas between",
            "Proxies whose X-Forwarded-For header is believed.",
        ),
        _count("stream_readers_max", 1, 100_000, "Most readers of event streams at a time."),
        _count("stream_heartbeat_s", 1, 300, "Time between heartbeats of a quiet stream.", " of seconds"),
        _count("shutdown_s", 1, 300, "Longest wait for running requests at the end.", " of seconds"),
        Key(
            "url",
            "url",
            read_url("http", "https", "http+unix"),
            "a URL like http://127.0.0.1:8000",
            "Exchange that the terminal talks to.",
            is_client=True,
        ),
        Key(
            "key",
            "key",
            read_text,
            "a key like bursa_17_… (as printed when it was made)",
            "Key of the terminal; never in the project file. Secret.",
            is_client=True,
        ),
    )
}
