"""Flags that several commands share, as dataclasses that Cyclopts spreads over a command's signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from bursa.errors import InputError

if TYPE_CHECKING:
    from cyclopts import Token

PAGE_LIMIT: Final = 50
#: Most digits of a whole number on the command line.
DIGITS_MAX: Final = 9


def read_whole(kind: object, tokens: Sequence[Token]) -> int:
    """Return a whole number from its digits; InputError naming the flag for anything else. It is never rounded."""
    del kind
    token = tokens[0]
    text = token.value
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise InputError(token.keyword or "number", text, f"a whole number like 2, of at most {DIGITS_MAX} digits")
    return int(text)


#: Whole numbers as flags take them.
Whole = Annotated[int, Parameter(converter=read_whole)]
MaybeWhole = Annotated[int | None, Parameter(converter=read_whole)]


@Parameter(name="*")
@dataclass(frozen=True)
class Reach:
    """Which exchange a command talks to, and how."""

    url: str | None = None
    "Exchange to talk to, else BURSA_URL, bursa.toml, or what login remembers."
    key: str | None = None
    "Key to use, else BURSA_KEY or what login remembers. A flag is visible to others on this machine."
    explain: bool = False
    "Print the HTTP call as a curl line, with the key masked, and do not send it."


@Parameter(name="*")
@dataclass(frozen=True)
class View:
    """How an answer is shown."""

    json: bool = False
    "Print JSON as the API gives it; streams as JSON Lines."


@Parameter(name="*")
@dataclass(frozen=True)
class TableView(View):
    """How a list is shown."""

    csv: bool = False
    "Print CSV with a line of column names."


@Parameter(name="*")
@dataclass(frozen=True)
class PageView(TableView):
    """How a list that may be long is shown."""

    limit: Whole = PAGE_LIMIT
    "Most rows to ask for."
    cursor: str | None = None
    "Start at this place, as an earlier page named it."


@Parameter(name="*")
@dataclass(frozen=True)
class Consent:
    """What to do before something changes."""

    yes: bool = False
    "Do not ask before funds are held or something is ended."


@Parameter(name="*")
@dataclass(frozen=True)
class Repeat:
    """How a request is known again."""

    idempotency_key: str | None = None
    "Name this request, so that it can be repeated without being carried out twice."


@Parameter(name="*")
@dataclass(frozen=True)
class Filters:
    """What a bid asks of a host; RAM, disk and vCPUs are per GPU."""

    region: tuple[str, ...] = ()
    "Country (DE) or group (EU) of the host; may be given several times."
    verified: bool = False
    "Only hosts that the operator has verified."
    reliability_min: Whole = 0
    "Least reliability, in per mille of promised hours delivered."
    ram_gib: Whole = 0
    "Least RAM per GPU, in GiB."
    disk_gib: Whole = 0
    "Least disk per GPU, in GiB."
    vcpus: Whole = 0
    "Least vCPUs per GPU."
    avoid_host: tuple[str, ...] = ()
    "Host not to rent from; may be given several times."


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Which exchange on this machine, for what works on its database directly."""

    data: str | None = None
    "Folder that holds everything of the exchange."
    database_url: str | None = None
    "PostgreSQL to use instead of the one in the folder; better given as BURSA_DATABASE_URL."


#: What each is where no flag of it is given.
REACH: Final = Reach()
VIEW: Final = View()
TABLE_VIEW: Final = TableView()
PAGE_VIEW: Final = PageView()
CONSENT: Final = Consent()
REPEAT: Final = Repeat()
FILTERS: Final = Filters()
PLACE: Final = Place()
