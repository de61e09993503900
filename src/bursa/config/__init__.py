"""Settings: what an operator or a user can choose, and from where each choice came.

Role: the only room that reads the environment and the two configuration files. One flat namespace of keys; a key has
the same name in a file (`port`), in the environment (`BURSA_PORT`) and as a flag (`--port`). The nearest source wins:
flag, then environment, then the project's `bursa.toml`, then the user's `~/.config/bursa/config.toml`.

Invariants: an unknown key or a bad value anywhere is a ConfigError, never ignored; a secret is never shown.
"""

from bursa.config.keys import ClientSettings, LogFormat, Role, Settings
from bursa.config.sources import Origin, Resolved, load, resolve, user_path
from bursa.config.user import UserConfig

__all__ = [
    "ClientSettings",
    "LogFormat",
    "Origin",
    "Resolved",
    "Role",
    "Settings",
    "UserConfig",
    "load",
    "resolve",
    "user_path",
]
