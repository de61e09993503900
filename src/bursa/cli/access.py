"""`bursa login`, `logout`, `whoami`, `config` and `completion`: the terminal's own affairs."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from bursa.cli.commands import build_app, new_app
from bursa.cli.options import REACH, TABLE_VIEW, VIEW, Reach, TableView, View
from bursa.errors import InputError

if TYPE_CHECKING:
    from bursa.config import UserConfig

#: Longest key that is read from a pipe, in characters.
KEY_CHARS_MAX: Final = 200

config_app = new_app("config", "Show and set what the terminal uses.")


def login(*, view: View = VIEW, reach: Reach = REACH) -> None:
    """Remember an exchange and a key, after a look whether they work.

    The key is asked for, or read from a pipe; it is kept in a file that only you can read.
    """
    from bursa.cli import render, screens
    from bursa.cli.session import Session, say
    from bursa.config import UserConfig
    from bursa.sdk import parties

    user = UserConfig.load({"url": reach.url})
    key = reach.key or ("" if reach.explain else _read_key(user.url))
    session = Session(Reach(url=user.url, key=key or None, explain=reach.explain), is_login=True)
    identity = session.ask(parties.whoami())
    path = UserConfig(session.url, key).write()
    render.show(identity, view, [screens.identity(identity)])
    say(f"Logged in to {session.url}; kept in {path}")


def _read_key(url: str) -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        key = getpass(f"Key for {url}: ", stream=sys.stderr)
    else:
        key = sys.stdin.readline(KEY_CHARS_MAX + 2)
    key = key.strip()
    if not key or len(key) > KEY_CHARS_MAX:
        raise InputError("key", "(hidden)" if key else "", "a key like bursa_17_…, as printed when it was made")
    return key


def logout() -> None:
    """Forget the key; the exchange's address stays. The key itself lives on: bursa key revoke."""
    from bursa.cli.session import say
    from bursa.config import UserConfig

    path = UserConfig(_remembered().url, "").write()
    say(f"Logged out; {path} holds no key.")


def whoami(*, view: View = VIEW, reach: Reach = REACH) -> None:
    """Show who the key acts for, and what it may do."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import parties

    identity = Session(reach).ask(parties.whoami())
    render.show(identity, view, [screens.identity(identity)])


@config_app.command(name="show")
def show(*, view: TableView = TABLE_VIEW, reach: Reach = REACH) -> None:
    """Show every setting, its value and where it comes from: flag, environment, project file, user file, default."""
    from bursa.cli import render
    from bursa.cli.session import require_user_file
    from bursa.config import Origin, resolve

    require_user_file()
    origins = resolve({"url": reach.url, "key": reach.key}).origins
    if view.json:
        render.write_json(origins)
    elif view.csv:
        render.write_csv(Origin, origins)
    else:
        rows = [(origin.key, origin.value, origin.source) for origin in origins]
        render.print_grid(render.Grid(("!Setting", "Value", "From"), rows))


@config_app.command(name="set")
def set_(name: Literal["url"], value: str, /) -> None:
    """Set a setting in your own file.

    Parameters
    ----------
    name
        Name of the setting; the key is set by bursa login.
    value
        Its new value.
    """
    from bursa.cli.session import say
    from bursa.config import UserConfig
    from bursa.sdk.call import check_url

    check_url(value)
    user = _remembered()
    # A key belongs to the exchange that made it: it is not sent to another.
    key = user.key if user.url == value.rstrip("/") else ""
    path = UserConfig(value.rstrip("/"), key).write()
    say(f"{name} is {value.rstrip('/')} now; kept in {path}", *([] if key else ["next: bursa login"]))


def _remembered() -> UserConfig:
    """Return what the user's file says, whatever environment and project say."""
    from bursa.config import UserConfig, user_path

    return UserConfig.load(env={}, project_file=Path(os.devnull), user_file=user_path())


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a completion script.

    For bash: bursa completion bash > ~/.local/share/bash-completion/completions/bursa

    Parameters
    ----------
    shell
        Shell to complete in.
    """
    sys.stdout.write(build_app().generate_completion(shell=shell))
