"""A running exchange behind a real HTTP server on a Unix socket, for the SDK and the terminal."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from bursa.sdk import Client
from tests.api.stand import Party, Stand, run_stand
from tests.postgres import Database

STARTED_S = 10.0


@dataclass
class Served:
    """The exchange and the URL of its socket."""

    stand: Stand
    url: str

    def client(self, party: Party | None = None) -> Client:
        return Client(self.url, party.key if party else None)

    def renter(self, funds: str = "1000") -> Party:
        return self.stand.register(funds=funds)


@contextmanager
def serve(database: Database) -> Iterator[Served]:
    """Run an exchange and its server until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="bursa-sdk-") as folder, run_stand(database) as stand:
        path = Path(folder) / "api.sock"
        config = uvicorn.Config(stand.app, uds=str(path), lifespan="off", log_level="error", access_log=False)
        server = uvicorn.Server(config)
        serving = asyncio.run_coroutine_threadsafe(server.serve(), stand.loop)
        stand.run(_wait_until_started(server))
        try:
            yield Served(stand, f"http+unix://{path}")
        finally:
            stand.run(stand.app.state.api.stop())
            server.should_exit = True
            serving.result(STARTED_S)


async def _wait_until_started(server: uvicorn.Server) -> None:
    async with asyncio.timeout(STARTED_S):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event to wait for
            await asyncio.sleep(0.01)
