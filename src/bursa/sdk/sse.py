"""Server-sent events: bytes in, events out; and when to connect again.

`EventParser` follows the rules of the HTML standard for event, id, data and retry. `StreamReader` adds what a client
needs to survive: the last id seen, waits that grow, and a limit to failures in a row. Neither does any I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

import msgspec

from bursa.errors import NetworkError
from bursa.sdk.call import Call
from bursa.sdk.retries import Retries, to_error
from bursa.wire import Problem

T = TypeVar("T")

#: Largest line or event that a client keeps, in bytes; a server that sends more is not ours.
EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
#: Events that end a connection: the server stops, or the reader was too slow. The next connection goes on from there.
_LAST_EVENTS: Final = frozenset({"dropped", "ended"})
_MS_PER_S: Final = 1_000


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream, as it came."""

    event: str
    id: str
    data: bytes


@dataclass(slots=True)
class EventParser:
    """Bytes of a stream in pieces of any size in, whole events out."""

    last_id: str = ""
    retry_s: float | None = None
    _rest: bytes = b""
    _event: str = ""
    _id: str | None = None
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that this chunk completes; NetworkError when one grows past EVENT_BYTES_MAX bytes."""
        self._rest += chunk
        # A \r at the very end may be half of \r\n: it waits for the next chunk.
        held_back = b"\r" if self._rest.endswith(b"\r") else b""
        text = self._rest[: len(self._rest) - len(held_back)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + held_back
        events = [event for line in lines if (event := self._take(line)) is not None]
        if len(self._rest) + self._size > EVENT_BYTES_MAX:
            raise NetworkError("stream", len(self._rest) + self._size, f"events of at most {EVENT_BYTES_MAX} bytes")
        return events

    def _take(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._finish()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value)
            case b"event":
                self._event = value.decode()
            case b"id" if b"\0" not in value:
                self._id = value.decode()
            case b"retry" if value.isdigit():
                self.retry_s = int(value) / _MS_PER_S
            case _:  # a comment (the heartbeat) or a field of a later version
                pass
        return None

    def _finish(self) -> ServerEvent | None:
        # An id counts once its event is whole; an event that broke off comes again.
        self.last_id, self._id = self.last_id if self._id is None else self._id, None
        event = ServerEvent(self._event or "message", self.last_id, b"\n".join(self._data)) if self._data else None
        self._event, self._data, self._size = "", [], 0
        return event


class StreamReader(Generic[T]):
    """One stream over any number of connections: what to ask for next, what came, how long to wait."""

    def __init__(self, call: Call[T], retries: Retries) -> None:
        self._call = call
        self._retries = retries
        self._parser = EventParser(last_id=call.last_event_id)
        self._decoder = msgspec.json.Decoder(call.answer)
        self._failures = 0

    def connect(self) -> Call[T]:
        """Return the call of the next connection: the stream goes on after the last whole event that came."""
        self._parser = EventParser(last_id=self._parser.last_id, retry_s=self._parser.retry_s)
        return replace(self._call, last_event_id=self._parser.last_id)

    def feed(self, chunk: bytes) -> list[T]:
        """Return the messages that a chunk completes.

        Raises ApiError when the server says that it is of no use to come back, NetworkError for an unreadable message.
        """
        messages = []
        for event in self._parser.feed(chunk):
            if event.event in _LAST_EVENTS:
                continue
            try:
                if event.event == "problem":
                    raise to_error(self._call, msgspec.json.decode(event.data, type=Problem))
                messages.append(self._decoder.decode(event.data))
            except msgspec.MsgspecError as fault:
                raise NetworkError(self._call.name, str(fault), "messages that this version of bursa knows") from fault
        if messages:
            self._failures = 0
        return messages

    def wait_s(self, fault: object, chance: float, asked_s: float | None = None) -> float:
        """Return how long to wait before the next connection, in seconds; NetworkError after too many in vain."""
        self._failures += 1
        if self._failures >= self._retries.attempts_max:
            raise NetworkError(self._call.name, fault, "a stream that stays open; ask again later")
        if asked_s is None:
            asked_s = self._parser.retry_s if self._failures == 1 else None
        return self._retries.wait_s(self._failures, asked_s, chance)
