"""The user's file: the exchange and the key that `bursa login` remembers, readable by its owner alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import tomli_w

from bursa.config.sources import read_file, resolve, user_path
from bursa.errors import ConfigError


class UserConfig(msgspec.Struct, frozen=True):
    """Which exchange the user's terminal talks to and with which key ("" when not logged in)."""

    url: str
    key: str

    @classmethod
    def load(
        cls,
        flags: Mapping[str, object] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        project_file: Path | None = None,
        user_file: Path | None = None,
    ) -> UserConfig:
        """Return URL and key: flag > BURSA_URL, BURSA_KEY > project file (URL only) > user file > default.

        Raises ConfigError as `load` of the settings does.
        """
        client = resolve(flags, env=env, project_file=project_file, user_file=user_file).client
        return cls(client.url, client.key)

    def write(self, path: Path | None = None) -> Path:
        """Store URL and key in the user's file (absent: `user_path()`) with mode 0600; keep its other keys.

        An empty key removes the one that is there (log out). Returns the path; ConfigError when it cannot be written.
        """
        target = user_path() if path is None else path
        entries = read_file(target)
        entries |= {"url": self.url, "key": self.key}
        if not self.key:
            del entries["key"]
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp makes it 0600; the rename puts a whole file there or none.
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
            try:
                with os.fdopen(handle, "wb") as file:
                    tomli_w.dump(entries, file)
                Path(name).replace(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise ConfigError(str(target), error.strerror, "a file that can be written") from None
        return target

    def __repr__(self) -> str:
        """Return the URL, and only whether there is a key."""
        return f"UserConfig(url={self.url!r}, key={'(hidden)' if self.key else ''!r})"
