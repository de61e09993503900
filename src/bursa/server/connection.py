"""A connection of the HTTP server that waits and remembers only so much before a request's head is whole.

uvicorn bounds neither: a head of any length is kept in memory, and a client that says nothing, or one byte a minute,
stays for ever. What comes after the head, the body, is bounded by the API.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

#: Longest head of a request, in bytes after the piece in which it begins.
HEAD_BYTES_MAX: Final = 65_536
#: How long a head may take from its first byte on, in seconds.
HEAD_S: Final = 10.0
#: How long a new connection may say nothing, in seconds.
SILENT_S: Final = 30.0
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(HttpToolsProtocol):
    """What uvicorn makes for each connection. A head that comes in one piece, as nearly all do, needs no timer."""

    _head_bytes = 0
    _is_in_head = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first byte."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(SILENT_S, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._forget_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head."""
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that is not whole by now has a limit and a time."""
        was_in_head = self._is_in_head
        super().data_received(data)
        if not self._is_in_head:
            self._forget_timer()
            return
        if self.transport.is_closing():
            return
        if not was_in_head:
            self._head_bytes = 0
            self._forget_timer()
            self._timer = self.loop.call_later(HEAD_S, self._refuse, _TOO_SLOW)
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(_TOO_LARGE)

    def _refuse(self, answer: bytes) -> None:
        # A request before it on this connection may still be on its way to its answer: then only the end is told.
        before: RequestResponseCycle | None = self.cycle
        if before is None or before.response_complete:
            self.transport.write(answer)
        self.transport.close()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
