"""A reader of server-sent events that runs beside a test, in the exchange's loop, as slowly as the test wants."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from starlette.applications import Starlette

from tests.api.stand import WAIT_S, Headers, Party, Stand

LOOK_S = 0.005


class Event(NamedTuple):
    name: str
    data: Any
    id: str | None


class Listener:
    """What one stream has sent so far."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Headers = {}
        self.text = ""
        self.is_over = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.gone = asyncio.Event()
        self.stand: Stand

    def events(self) -> list[Event]:
        """Parse what came, as a browser would."""
        found = []
        for block in self.text.split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            if "event" in fields:
                found.append(Event(fields["event"], json.loads(fields["data"]), fields.get("id")))
        return found

    def wait_for(self, count: int) -> list[Event]:
        """Wait until so many events came."""
        self.wait_until(lambda: len(self.events()) >= count or self.is_over)
        assert len(self.events()) >= count, self.text
        return self.events()

    def wait_until(self, is_true: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_true():
            assert time.monotonic() < deadline, self.text
            time.sleep(LOOK_S)

    def wait_seq(self, seq: int) -> None:
        """Wait until an event with this id or a later one came."""
        self.wait_until(lambda: max((int(event.id or 0) for event in self.events()), default=0) >= seq)

    def wait_over(self) -> None:
        self.wait_until(lambda: self.is_over)

    def block(self) -> None:
        """Stop taking chunks: the next one waits."""
        self.stand.loop.call_soon_threadsafe(self.gate.clear)

    def unblock(self) -> None:
        self.stand.loop.call_soon_threadsafe(self.gate.set)

    def close(self) -> None:
        """Go away, as a client that closes its connection."""
        self.stand.loop.call_soon_threadsafe(self.gone.set)
        self.stand.loop.call_soon_threadsafe(self.gate.set)


@contextmanager
def listening(
    stand: Stand,
    path: str,
    *,
    party: Party | None = None,
    headers: Headers | None = None,
    app: Starlette | None = None,
    method: str = "GET",
    client: tuple[str, int] = ("127.0.0.1", 1),
) -> Iterator[Listener]:
    """Open a stream; close it at the end, and see that it ends."""
    sent = {**(party.headers if party else {}), **(headers or {})}
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), text.encode()) for name, text in sent.items()],
        "client": client,
        "root_path": "",
    }
    listener = Listener()
    listener.stand = stand

    async def receive() -> MutableMapping[str, Any]:
        await listener.gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            listener.status = message["status"]
            listener.headers = {name.decode(): text.decode() for name, text in message["headers"]}
            return
        await listener.gate.wait()
        listener.text += message["body"].decode()

    async def run() -> None:
        try:
            await (app or stand.app)(scope, receive, send)
        finally:
            listener.is_over = True

    running = asyncio.run_coroutine_threadsafe(run(), stand.loop)
    try:
        listener.wait_until(lambda: listener.status)
        yield listener
    finally:
        listener.close()
        running.result(WAIT_S)
