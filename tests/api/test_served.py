"""The API behind a real server on a Unix socket: what an in-process transport cannot show."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from bursa.ops import metrics
from tests.api.stand import GENEROUS, INSTRUMENT, READY_S, Stand, bid

STREAM = f"/v1/market/{INSTRUMENT}/stream"
LOOK_S = 0.01


@asynccontextmanager
async def served(stand: Stand, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the API on a socket in a folder; give a client of it."""
    socket = str(folder / "api.sock")
    app = stand.make_app(GENEROUS)
    config = uvicorn.Config(app, uds=socket, lifespan="off", log_config=None, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        transport = httpx.AsyncHTTPTransport(uds=socket)
        async with httpx.AsyncClient(transport=transport, base_url="http://bursa.test") as client:
            yield client
        await app.state.api.stop()
    finally:
        server.should_exit = True
        await serving


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(READY_S):
        while not is_true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(LOOK_S)


def readers() -> float:
    return metrics.REGISTRY.get_sample_value("bursa_sse_readers") or 0.0


@pytest.mark.slow
def test_a_reader_that_goes_gives_its_seat_back(stand: Stand, tmp_path: Path) -> None:
    async def run() -> str:
        before = readers()
        async with served(stand, tmp_path) as client:
            async with client.stream("GET", STREAM) as answer:
                lines = answer.aiter_lines()
                name = ""
                while not name.startswith("event"):
                    name = await anext(lines)
                assert readers() == before + 1
            await until(lambda: readers() == before)
            return name

    assert stand.run(run()) == "event: snapshot"


@pytest.mark.slow
def test_a_stop_ends_streams_so_that_the_server_can_close(stand: Stand, tmp_path: Path) -> None:
    async def run() -> list[str]:
        found: list[str] = []

        async def read(client: httpx.AsyncClient) -> None:
            async with client.stream("GET", STREAM) as answer:
                async for line in answer.aiter_lines():
                    found.append(line)  # noqa: PERF401 - it is watched while it grows

        async with served(stand, tmp_path) as client:
            reading = asyncio.create_task(read(client))
            await until(lambda: "event: snapshot" in found)
            await stand.apps[-1].state.api.stop()
            await reading
        return found

    assert "event: ended" in stand.run(run())


@pytest.mark.slow
def test_a_connection_carries_many_requests_until_a_body_is_left_unread(stand: Stand, tmp_path: Path) -> None:
    party = stand.register(funds="100")

    async def run() -> list[tuple[int, str | None]]:
        answers: list[httpx.Response] = []
        async with served(stand, tmp_path) as client:
            answers += [await client.post("/v1/orders", json=bid(), headers=party.headers) for _ in range(3)]
            large = b'{"instrument":"' + b"x" * 2_000_000
            headers = {**party.headers, "content-type": "application/json"}
            answers.append(await client.post("/v1/orders", content=large, headers=headers))
            answers.append(await client.post("/v1/orders", json=bid(), headers=party.headers))
        return [(answer.status_code, answer.headers.get("connection")) for answer in answers]

    assert stand.run(run()) == [(201, None)] * 3 + [(413, "close"), (201, None)]
