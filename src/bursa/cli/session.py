"""One command's talk with an exchange: settings, client, explanations, questions."""

from __future__ import annotations

import sys
from typing import Final, TypeVar

from bursa.cli.exits import Exit, Finished
from bursa.cli.options import Consent, Reach
from bursa.config import UserConfig
from bursa.errors import InputError
from bursa.sdk import Call, Client, Retries, to_curl
from bursa.sdk.call import check_url

T = TypeVar("T")

#: How often a request is sent before a person is told that nobody answers: about a second and a half.
ATTEMPTS_MAX: Final = 4


class Session:
    """The exchange and key that flags, environment and files name, and what is asked of it."""

    def __init__(self, reach: Reach, *, is_public: bool = False) -> None:
        user = UserConfig.load({"url": reach.url, "key": reach.key})
        check_url(user.url)
        self.url = user.url
        self.has_key = bool(user.key)
        self.is_public = is_public
        self.is_explaining = reach.explain
        if not (is_public or self.has_key or self.is_explaining):
            say(f"error: not logged in to {self.url}", "next: bursa login, or set BURSA_KEY")
            raise Finished(Exit.FORBIDDEN)
        self._key = user.key or None

    def ask(self, call: Call[T]) -> T:
        """Return the answer to a call; where calls are only to be explained, print it and finish."""
        if self.is_explaining:
            self.explain(call)
            raise Finished(Exit.OK)
        with self.connect() as client:
            return client.send(call)

    def connect(self) -> Client:
        """Return a client to walk pages or follow a stream with; close it after."""
        return Client(self.url, self._key, retries=Retries(attempts_max=ATTEMPTS_MAX))

    def explain(self, call: Call[object], remark: str = "") -> None:
        """Print a call as a curl line."""
        remark = f"# {remark}\n" if remark else ""
        has_key = self.has_key or not self.is_public
        sys.stdout.write(f"{remark}{to_curl(call, self.url, has_key=has_key)}\n")


def confirm(question: str, consent: Consent) -> None:
    """Ask before something is held or ended, where a person sits at a terminal; Finished when the answer is not yes."""
    if not is_asked(consent):
        return
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        say("Nothing was done.")
        raise Finished(Exit.NEGATIVE)


def is_asked(consent: Consent) -> bool:
    """Tell whether `confirm` will ask: a person is there, and has not said yes already."""
    return not consent.yes and sys.stdin.isatty() and sys.stderr.isatty()


def say(*lines: str) -> None:
    """Tell people something beside the output, on stderr."""
    sys.stdout.flush()
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def require_limit(limit: int, most: int) -> int:
    """Return the number of rows to ask for; InputError outside 1 to ``most``."""
    if not 1 <= limit <= most:
        raise InputError("--limit", limit, f"a number from 1 to {most}")
    return limit
