"""A head of a request is bounded in length and time, whoever sends it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from bursa.server import connection
from bursa.server.connection import HEAD_BYTES_MAX, Connection

REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
    del receive
    body = scope["path"].encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def talk(folder: Path, scene: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
    async def run() -> None:
        config = uvicorn.Config(answer, http=Connection, ws="none", lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        path = str(folder / "http")
        server = await asyncio.get_running_loop().create_unix_server(lambda: Connection(config, state, {}), path)
        async with server:
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                async with asyncio.timeout(10):
                    await scene(reader, writer)
            finally:
                writer.close()

    asyncio.run(run())


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return head.split(b"\r\n")[0] + b" " + await reader.readexactly(length)


def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        try:
            while not reader.at_eof() and sent < 64 * HEAD_BYTES_MAX:
                writer.write(b"a" * 4_096)
                await writer.drain()
                sent += 4_096
        except ConnectionError:
            pass
        assert sent < 64 * HEAD_BYTES_MAX

    talk(tmp_path, scene)


def test_a_head_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.05)

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Also after a good request on the same connection.
        writer.write(REQUEST + b"GET / HT")
        assert await read_answer(reader) == b"HTTP/1.1 200 OK /"
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")

    talk(tmp_path, scene)


def test_a_connection_that_says_nothing_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_S", 0.05)

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        assert await reader.read() == b""

    talk(tmp_path, scene)


def test_good_requests_in_any_pieces_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_S", 0.2)
    monkeypatch.setattr(connection, "HEAD_S", 0.2)

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in REQUEST:
            writer.write(bytes([byte]))
            await writer.drain()
        assert await read_answer(reader) == b"HTTP/1.1 200 OK /"
        await asyncio.sleep(0.3)  # no timer is left over
        writer.write(b"GET /long HTTP/1.1\r\nX: " + b"a" * (HEAD_BYTES_MAX - 1_000))
        await writer.drain()
        writer.write(b"\r\n\r\n" + REQUEST * 3)
        answers = [await read_answer(reader) for _ in range(4)]
        assert answers == [b"HTTP/1.1 200 OK /long", *[b"HTTP/1.1 200 OK /"] * 3]

    talk(tmp_path, scene)
