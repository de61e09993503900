"""What an operation of the API is: one row of the table from which both the routes and the OpenAPI document are made.

Invariant: nothing about an operation is written twice. What a row says is what the endpoint does and what the document
tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bursa import wire
from bursa.services import Actor, Exchange

JSON_MEDIA: Final = "application/json"
SSE_MEDIA: Final = "text/event-stream"
CSV_MEDIA: Final = "text/csv"

#: Names of path parameters: what each is, the pattern that it matches, and an example.
PATH_PARAMETERS: Final[dict[str, tuple[str, str, str]]] = {
    "order": ("The id of an order, a bid or an ask.", r"^ord_[1-9][0-9]{0,17}$", "ord_17"),
    "rental": ("The id of a rental.", r"^rnt_[1-9][0-9]{0,17}$", "rnt_17"),
    "host": ("The id of a host.", r"^hst_[1-9][0-9]{0,17}$", "hst_17"),
    "party": ("The id of a party.", r"^pty_[1-9][0-9]{0,17}$", "pty_17"),
    "key": ("The id of a key.", r"^key_[1-9][0-9]{0,17}$", "key_17"),
    "transfer": ("The id of a transfer.", r"^tfr_[1-9][0-9]{0,17}$", "tfr_17"),
    "instrument": ("An instrument: the slug of a GPU model.", r"^[a-z0-9][a-z0-9._-]{0,63}$", "h100-sxm"),
    "gpu": ("The slug of a GPU model.", r"^[a-z0-9][a-z0-9._-]{0,63}$", "h100-sxm"),
    "book": ("An instrument, or `all` for every book.", r"^[a-z0-9][a-z0-9._-]{0,63}$", "all"),
}


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No query parameters."""


class Call:
    """One request, checked: what an operation's function gets."""

    __slots__ = ("actor", "address", "body", "exchange", "headers", "idempotency_key", "path", "query", "secret")

    actor: Actor
    body: Any
    query: Any

    def __init__(self, exchange: Exchange, path: Mapping[str, str], headers: Mapping[bytes, bytes]) -> None:
        self.exchange = exchange
        self.path = path
        self.headers = headers
        self.idempotency_key: str | None = None
        self.address = ""
        self.secret = ""

    def header(self, name: bytes) -> str | None:
        """Return a header's text (its name in lower case), None when absent."""
        found = self.headers.get(name)
        return None if found is None else found.decode("latin-1")


class Raw(NamedTuple):
    """An answer that is not JSON: its bytes, media type and further headers."""

    body: bytes
    media: str
    headers: tuple[tuple[str, str], ...] = ()


#: What carries an operation out; the answer is a wire struct, a services.Reply of one, or a Raw.
Carry = Callable[[Call], Awaitable[object]]
#: Which stream an operation opens: of an instrument, or of the actor's own happenings.
Stream = Literal["market", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    ``scopes``: any one of them lets a key in; None = public. ``is_command``: takes an Idempotency-Key. ``problems``:
    codes beyond those that follow from the row's other members. ``tag_of`` gives the ETag before anything is computed.
    """

    method: str
    path: str
    name: str
    tag: str
    summary: str
    answer: Any
    carry: Carry | None = None
    stream: Stream | None = None
    description: str = ""
    scopes: tuple[wire.Scope, ...] | None = None
    is_operators: bool = False
    query: type[msgspec.Struct] = NoQuery
    body: type[msgspec.Struct] | None = None
    example: Mapping[str, Any] | None = None
    status: int = 200
    is_command: bool = False
    problems: tuple[str, ...] = ()
    media: tuple[str, ...] = (JSON_MEDIA,)
    tag_of: Callable[[Call], str] | None = None
    location: Callable[[Any], str] | None = None
    items_of: Callable[[Any], int] | None = None
    is_open_to_loopback: bool = False
    events: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the path's parameters, in order."""
        return tuple(part.partition("}")[0] for part in self.path.split("{")[1:])
