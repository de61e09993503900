"""One command's talk with an exchange: settings, client, explanations, questions."""

from __future__ import annotations

import difflib
import os
import sys
from typing import Final, TypeVar

from bursa.cli.exits import Exit, Finished
from bursa.cli.options import Consent, Reach
from bursa.cli.program import as_called
from bursa.config import UserConfig, user_path
from bursa.errors import ApiError, BursaError, ConfigError, InputError
from bursa.sdk import Call, Client, Retries, market, to_curl
from bursa.sdk.call import check_url

T = TypeVar("T")

#: How often a request is sent before a person is told that nobody answers: about a second and a half.
ATTEMPTS_MAX: Final = 4


class Session:
    """The exchange and key that flags, environment and files name, and what is asked of it."""

    def __init__(self, reach: Reach, *, is_public: bool = False, is_login: bool = False) -> None:
        if not is_login:
            require_user_file()
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
            try:
                return client.send(call)
            except ApiError as fault:
                for near in _near_gpus(client, fault):
                    fault.add_note(near)
                raise

    def connect(self) -> Client:
        """Return a client to walk pages or follow a stream with; close it after."""
        return Client(self.url, self._key, retries=Retries(attempts_max=ATTEMPTS_MAX))

    def explain(self, call: Call[object], remark: str = "") -> None:
        """Print a call as a curl line."""
        remark = f"# {remark}\n" if remark else ""
        has_key = self.has_key or not self.is_public
        sys.stdout.write(f"{remark}{to_curl(call, self.url, has_key=has_key)}\n")


def require_user_file() -> None:
    """Raise ConfigError when BURSA_CONFIG names a file that is not there: whom it should name is not guessed."""
    path = user_path()
    if os.environ.get("BURSA_CONFIG") and not path.exists():
        raise ConfigError(f"BURSA_CONFIG={path}", "no file", "a file that exists; bursa login writes it")


def _near_gpus(client: Client, fault: ApiError) -> list[str]:
    """Return the name in the catalog that is nearest to one that is not, if there is a near one."""
    if fault.problem_code not in {"UNKNOWN_INSTRUMENT", "NOT_FOUND"} or not fault.errors:
        return []
    asked = str(fault.errors[0].get("value") or "").lower()
    if not asked or (
        fault.problem_code == "NOT_FOUND"
        and not str(fault.errors[0].get("expected")).endswith(("a GPU of yours", "an instrument of yours"))
    ):
        return []
    try:
        gpus = client.send(market.list_gpus()).items
    except BursaError:
        return []
    # Those with a book come first.
    slugs = [gpu.slug for gpu in sorted(gpus, key=lambda gpu: gpu.ticker is None)]
    begun = [slug for slug in slugs if slug.startswith(asked)]
    return (begun or difflib.get_close_matches(asked, slugs, n=1))[:1]


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
        sys.stderr.write(f"{as_called(line)}\n")
    sys.stderr.flush()


def require_limit(limit: int, most: int) -> int:
    """Return the number of rows to ask for; InputError outside 1 to ``most``."""
    if not 1 <= limit <= most:
        raise InputError("--limit", limit, f"a number from 1 to {most}")
    return limit
