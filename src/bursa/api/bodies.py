"""Reading a request's body: no more bytes than allowed, no longer than allowed, and only JSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from bursa.api.operation import JSON_MEDIA
from bursa.api.problems import ProblemError

if TYPE_CHECKING:
    from bursa.api.answers import Request
    from bursa.api.limits import Limits

#: What is left of a body unread makes its connection useless.
_CLOSE: Final = (("connection", "close"),)
_JSON: Final = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})


class ReaderGoneError(Exception):
    """The client went away before its request was complete."""


def check_media(headers: dict[bytes, bytes]) -> bool:
    """Refuse a body that says it is not plain JSON; tell whether it says that it is."""
    media = headers.get(b"content-type")
    if media is not None and media not in _JSON and media.lower().strip() not in _JSON:
        shown = media[:80].decode("latin-1")
        raise ProblemError("UNSUPPORTED_MEDIA_TYPE", f"Got {shown!r}; send {JSON_MEDIA}, in UTF-8.", headers=_CLOSE)
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise ProblemError("UNSUPPORTED_MEDIA_TYPE", "Send the body without Content-Encoding.", headers=_CLOSE)
    return media is not None


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the whole body; refuse it as soon as it is known to be too large, or when it takes too long."""
    limit = limits.body_bytes_max
    length = request.headers_in.get(b"content-length", b"0")
    # A length of many digits is too large whatever it says; int() of it would cost time.
    if len(length) > 18 or (length.isdigit() and int(length) > limit):  # noqa: PLR2004 - explained above
        raise _too_large(limit)
    receive = request.receive
    try:
        async with asyncio.timeout(limits.body_seconds_max):
            message = await receive()
            if message["type"] != "http.request":
                raise ReaderGoneError
            body: bytes = message.get("body", b"")
            if not message.get("more_body", False):
                if len(body) > limit:
                    raise _too_large(limit)
                return body
            parts, size = [body], len(body)
            while message.get("more_body", False):
                if size > limit:
                    raise _too_large(limit)
                message = await receive()
                if message["type"] != "http.request":
                    raise ReaderGoneError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
    except TimeoutError:
        detail = f"It has to arrive within {limits.body_seconds_max:g} seconds."
        raise ProblemError("BODY_TOO_SLOW", detail, headers=_CLOSE) from None
    if size > limit:
        raise _too_large(limit)
    return b"".join(parts)


def _too_large(limit: int) -> ProblemError:
    return ProblemError("BODY_TOO_LARGE", f"At most {limit} bytes.", headers=_CLOSE)
