"""One request to the API as plain data, and how it is shown to people.

A verb of the SDK is a pure function that returns a `Call`; the clients send it. So the sync client, the async client
and `bursa … --explain` share every path, query and body, and none of them is written twice.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from bursa.errors import InputError

#: Random bytes in an idempotency key that the client makes.
KEY_BYTES: Final = 16
#: Longest idempotency key that the API takes, in characters.
KEY_CHARS_MAX: Final = 64
#: What stands for the key wherever a request is shown.
MASKED_KEY: Final = "bursa_…"

T_co = TypeVar("T_co", covariant=True)
Plain = str | int | bool | datetime | date | StrEnum | None


class Page(Protocol[T_co]):
    """A page of a list; ``next`` is the cursor of the page after it, None at the end."""

    @property
    def items(self) -> Sequence[T_co]:
        """Return what is on this page."""
        ...

    @property
    def next(self) -> str | None:
        """Return the cursor of the next page."""
        ...


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """A request: what to send, and the type that the answer is read as.

    ``is_keyed`` requests carry an idempotency key; the client makes one where none is given, and keeps it for every
    retry, so that a repeat is never carried out twice. A call that is not ``is_repeatable`` is sent again only where
    it certainly was not carried out. A call whose answer is ``str`` gives the body as text.
    """

    method: str
    path: str
    answer: type[T_co]
    query: Mapping[str, str] = field(default_factory=dict)
    body: msgspec.Struct | None = None
    is_keyed: bool = False
    is_repeatable: bool = True
    idempotency_key: str | None = None
    accept: str = "application/json"
    last_event_id: str = ""

    def with_query(self, **values: str) -> Call[T_co]:
        """Return the same call with these query parameters set."""
        return replace(self, query={**self.query, **values})

    def with_key(self) -> Call[T_co]:
        """Return the call with an idempotency key: its own, or for a keyed call without one a new one."""
        if not self.is_keyed or self.idempotency_key is not None:
            return self
        return replace(self, idempotency_key=new_idempotency_key())

    @property
    def target(self) -> str:
        """Return path and query as they stand in the request line."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def name(self) -> str:
        """Return method and path, as errors name the request."""
        return f"{self.method} {self.path}"

    @property
    def content(self) -> bytes | None:
        """Return the body as JSON, None where there is none."""
        return None if self.body is None else msgspec.json.encode(self.body)

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that belong to the call itself; the key is not among them."""
        headers = {"Accept": self.accept}
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        if self.idempotency_key is not None:
            headers["Idempotency-Key"] = self.idempotency_key
        if self.last_event_id:
            headers["Last-Event-ID"] = self.last_event_id
        return headers


def read(path: str, answer: type[T_co], **query: Plain) -> Call[T_co]:
    """Return a call that only looks. Query values of None are left out."""
    return Call("GET", path, answer, query=_query(query))


def follow(path: str, answer: type[T_co], after_seq: int | None) -> Call[T_co]:
    """Return a call that opens a stream of ``answer`` messages: from now on, or what came after ``after_seq``."""
    last_event_id = "" if after_seq is None else str(after_seq)
    return Call("GET", path, answer, accept="text/event-stream", last_event_id=last_event_id)


def change(
    method: str,
    path: str,
    answer: type[T_co],
    body: msgspec.Struct | None = None,
    idempotency_key: str | None = None,
) -> Call[T_co]:
    """Return a call that changes something; InputError for an idempotency key that the API would not take."""
    if idempotency_key is not None:
        is_visible = all("!" <= letter <= "~" for letter in idempotency_key)
        if not idempotency_key or len(idempotency_key) > KEY_CHARS_MAX or not is_visible:
            expected = f"1 to {KEY_CHARS_MAX} visible ASCII characters without a space"
            raise InputError("idempotency_key", idempotency_key, expected)
    return Call(method, path, answer, body=body, is_keyed=True, idempotency_key=idempotency_key)


def segment(text: str, field_name: str) -> str:
    """Return an id or slug as one segment of a path; InputError when it cannot be one."""
    if not text or text in {".", ".."}:
        raise InputError(field_name, text, "an id or a name, not empty")
    return quote(text, safe="")


def new_idempotency_key() -> str:
    """Return a key that nobody else has: 128 random bits."""
    return secrets.token_hex(KEY_BYTES)


def to_curl(call: Call[object], url: str, *, has_key: bool) -> str:
    r"""Return the call as a curl line to try by hand. The key is masked; put yours in its place.

    >>> print(to_curl(read("/v1/gpus", list), "http://127.0.0.1:8000", has_key=False))
    curl 'http://127.0.0.1:8000/v1/gpus' \
      -H 'Accept: application/json'
    """
    base, socket_path = check_url(url)
    first = "curl" if call.method == "GET" else f"curl -X {call.method}"
    reached = f" --unix-socket {_quoted(socket_path)}" if socket_path else ""
    parts = [f"{first}{reached} {_quoted(base + call.target)}"]
    headers = call.with_key().headers
    if has_key:
        headers = {"Authorization": f"Bearer {MASKED_KEY}", **headers}
    parts += [f"-H {_quoted(f'{name}: {value}')}" for name, value in headers.items()]
    if call.content is not None:
        parts.append(f"-d {_quoted(call.content.decode())}")
    return " \\\n  ".join(parts)


def check_url(url: str) -> tuple[str, str | None]:
    """Return an exchange's URL for requests, and the path of the Unix socket to reach it by, None for TCP.

    A socket is named ``http+unix:///run/bursa.sock``. InputError when the URL is none of these or holds a password.
    """
    parts = urlsplit(url)
    is_plain = not (parts.username or parts.query or parts.fragment)
    if is_plain and parts.scheme == "http+unix" and (path := unquote(parts.netloc + parts.path)).startswith("/"):
        return "http://localhost", path
    if is_plain and parts.scheme in {"http", "https"} and parts.hostname:
        return url.rstrip("/"), None
    raise InputError("url", url, "the exchange's address, like http://127.0.0.1:8000")


def _quoted(text: str) -> str:
    """Quote for a shell, always with quotes, so that every line of a curl command looks the same."""
    quoted = shlex.quote(text)
    return quoted if quoted.startswith("'") else f"'{text}'"


def _query(values: Mapping[str, Plain]) -> dict[str, str]:
    # A name that is a Python keyword carries an underscore at its end.
    return {name.rstrip("_"): _text(value) for name, value in values.items() if value is not None}


def _text(value: Plain) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)
