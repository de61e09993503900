"""Pages: opaque cursors and their limits.

A cursor is base64url of what it holds and a short checksum. It is no secret and grants nothing: every query asks for
the actor's own rows whatever the cursor says. The checksum catches what was cut, mixed up or made by hand.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final

import msgspec

from bursa.market import INT_MAX
from bursa.services.exchange import RefusedError

#: Items on a page.
PAGE_ITEMS_MAX: Final = 500
#: Longest cursor, in characters.
CURSOR_CHARS_MAX: Final = 1_024
_CHECKSUM_BYTES: Final = 6


def check_limit(limit: int, most: int = PAGE_ITEMS_MAX) -> int:
    """Return the number of items of a page; RefusedError when it is not 1 to ``most``."""
    if 1 <= limit <= most:
        return limit
    raise RefusedError("INVALID_FIELD", "limit", limit, f"1 to {most}")


def write_cursor(kind: str, *values: object) -> str:
    """Return a cursor of a kind of list that holds values (integers, texts, maps of them)."""
    data = msgspec.msgpack.encode([kind, *values])
    return _text(data + _checksum(data))


def read_cursor(kind: str, cursor: str, types: Any) -> Any:  # noqa: ANN401 - a tuple type and a value of it
    """Return the values of a cursor as a tuple of ``types``; RefusedError (INVALID_CURSOR) when it is not one."""
    refusal = RefusedError("INVALID_CURSOR", "cursor", cursor, "the `next` of an earlier page of this list, unchanged")
    if not cursor.isascii() or len(cursor) > CURSOR_CHARS_MAX:
        raise refusal
    try:
        raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        raise refusal from None
    data, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    if _text(raw) != cursor or checksum != _checksum(data):
        raise refusal
    try:
        found, *values = msgspec.msgpack.decode(data, type=list[Any])
        if found != kind:
            raise refusal
        return msgspec.convert(tuple(values), types)
    except (msgspec.MsgspecError, ValueError):
        raise refusal from None


def _text(raw: bytes) -> str:
    """Return the one text that stands for the bytes of a cursor: base64 has several for some."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def before(kind: str, cursor: str | None) -> int:
    """Return the id that a page newest first starts below: the cursor's, or above all ids without one."""
    if cursor is None:
        return INT_MAX
    (number,) = read_cursor(kind, cursor, tuple[int])
    return int(number)


def _checksum(data: bytes) -> bytes:
    return sha256(b"bursa cursor" + data).digest()[:_CHECKSUM_BYTES]
