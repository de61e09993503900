"""Runs an exchange in this process: everything is started in order, waited for, and stopped in the reverse order.

The order of the start: log, socket, database, schema, sequencer (replay), market view, services, API, first parties,
demo sellers. What can fail for a reason that the user can mend comes first. One event loop carries all of it; only the
supervisor of PostgreSQL and the sequencer have threads beside it.

The first Ctrl-C or SIGTERM stops cleanly: no new connections, readers of streams are told to come back, running
requests are answered, what is in the queue is committed, PostgreSQL shuts down. The second ends the process at once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TextIO

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette

from bursa.api import Limits, create_app
from bursa.config import LogFormat, Role, Settings
from bursa.errors import ConfigError, UnavailableError
from bursa.ops import logs
from bursa.server.assembly import Parts, assemble
from bursa.server.bootstrap import found_market, found_operator, found_parties
from bursa.server.connection import Connection
from bursa.server.database import Database, make_data_folder, open_database
from bursa.server.listening import BACKLOG, listen, show_url
from bursa.server.stopping import EXIT_CLEAN, EXIT_INTERRUPTED, Interrupted, Stopping, catch_signals
from bursa.server.welcome import write_welcome

#: Connections at a time; more are answered 503 until some are closed.
CONNECTIONS_MAX: Final = 20_000
#: How long a connection may be idle between two requests, in seconds.
IDLE_S: Final = 75
#: How often a start looks whether the exchange takes commands by now, in seconds.
READY_POLL_S: Final = 0.02
#: After how long it says in the log what it waits for, in seconds.
READY_PATIENCE_S: Final = 2.0
_LOG: Final = logs.log("bursa.server")

#: What a start does once the API answers; it gets the parts and the URL.
Found = Callable[[Parts, str], Awaitable[None]]


def up(settings: Settings, *, out: TextIO | None = None) -> int:
    """Run a whole exchange until somebody stops it; return the exit code (0 when stopped, 130 when interrupted early).

    ``out`` (absent: stdout) gets the URLs, the keys at the first start, and commands to try; logs go to stderr.
    NetworkError: the port is taken. ConfigError: it cannot be bound. DataDirectoryError: the data folder is in use or
    cannot be used. DatabaseUnavailableError, MigrationError, LogError: as they say.
    """
    chosen = msgspec.structs.replace(
        settings, role=Role.ALL, is_demo=settings.is_demo is not False, is_sandbox=settings.is_sandbox is not False
    )

    async def found(parts: Parts, url: str) -> None:
        await found_operator(parts.exchange)
        await found_market(parts.exchange, is_demo=chosen.is_demo is True)
        first = await found_parties(parts.exchange, chosen.data_dir, url)
        _say(write_welcome(chosen, url, first, parts.exchange.view), out)

    return _run(chosen, found)


def serve(settings: Settings, *, out: TextIO | None = None) -> int:
    """Run one part of an exchange (``settings.role``) on a shared PostgreSQL; exit codes and errors as `up`.

    Several processes may do the same: one leads, the others stand by, and any may answer the API.
    ConfigError: there is no database_url.
    """
    if not settings.database_url:
        raise ConfigError("database_url", "", "a PostgreSQL that all parts share, like postgresql://user@host/bursa")
    chosen = msgspec.structs.replace(settings, is_demo=settings.is_demo is True, is_sandbox=settings.is_sandbox is True)

    async def found(parts: Parts, url: str) -> None:
        if chosen.role is not Role.WEB:
            await found_operator(parts.exchange)
            if chosen.is_demo:
                await found_market(parts.exchange, is_demo=True)
        _say(f"bursa serve --role {chosen.role} on {url}: {parts.describe()}", out)

    return _run(chosen, found)


def configure_logs(settings: Settings) -> None:
    """Send the log to stderr in the form that the settings or the terminal ask for."""
    is_json = settings.log_format is LogFormat.JSON
    if settings.log_format is LogFormat.AUTO:
        is_json = not sys.stderr.isatty()
    logs.configure(settings.log_level, is_json=is_json)


def limits_of(settings: Settings) -> Limits:
    """Return the limits of the API that the settings ask for."""
    return Limits(
        key_rate=settings.key_requests_per_s,
        key_burst=settings.key_burst,
        address_rate=settings.address_requests_per_s,
        address_burst=settings.address_burst,
        body_bytes_max=settings.body_bytes_max,
        streams_max=settings.stream_readers_max,
        stream_heartbeat_s=settings.stream_heartbeat_s,
    )


def _run(settings: Settings, found: Found) -> int:
    configure_logs(settings)
    with catch_signals() as stopping:
        try:
            make_data_folder(settings)
            with listen(settings) as bound, open_database(settings) as database:
                # From here on a signal is a request; should the loop not run yet, it sees that there was one.
                stopping.on_first = lambda: None
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(_operate(settings, database, bound, stopping, found))
        except (Interrupted, asyncio.CancelledError):
            return EXIT_INTERRUPTED
    _LOG.info("stopped")
    return EXIT_CLEAN


async def _operate(
    settings: Settings, database: Database, bound: socket.socket, stopping: Stopping, found: Found
) -> None:
    """Build the exchange, answer requests, wait for somebody to stop it."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    stopping.on_first = lambda: loop.call_soon_threadsafe(task.cancel)
    if stopping.count:
        raise Interrupted
    async with assemble(settings, database) as parts:
        stop = asyncio.Event()
        stopping.on_first = lambda: loop.call_soon_threadsafe(stop.set)
        if stopping.count:
            stop.set()
        app = create_app(parts.exchange, limits_of(settings), is_service_only=settings.role is Role.SEQUENCER)
        async with _answering(app, settings, bound):
            founding = asyncio.create_task(_found(parts, show_url(settings, bound), found))
            waiting = asyncio.create_task(stop.wait())
            await asyncio.wait({founding, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if founding.done():
                founding.result()  # a fault of the first steps ends the server
            else:
                founding.cancel()
                await asyncio.wait({founding})
            await waiting
            _LOG.info("stopping: %s", parts.describe())


async def _found(parts: Parts, url: str, found: Found) -> None:
    """Do the first steps as soon as the exchange takes commands, and again when it went away meanwhile."""
    node = parts.exchange.node
    while True:
        waited = 0.0
        while not node.is_ready:
            await asyncio.sleep(READY_POLL_S)
            waited += READY_POLL_S
            if waited > READY_PATIENCE_S:
                _LOG.warning("not ready yet: %s", node.detail)
                waited = 0.0
        try:
            await found(parts, url)
        except UnavailableError as error:
            _LOG.warning("the first steps wait: %s", error)
            await asyncio.sleep(error.retry_after_s)
        else:
            return


@asynccontextmanager
async def _answering(app: Starlette, settings: Settings, bound: socket.socket) -> AsyncIterator[None]:
    """Answer requests while the block lasts. At its end: close the door, end the streams, finish what is running."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # Its warnings are written by whoever sends nonsense, as often as they like.
        log_level=logging.ERROR,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        limit_concurrency=CONNECTIONS_MAX,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=settings.shutdown_s,
    )
    config.load()
    server = uvicorn.Server(config)
    # Server.serve() is not used: it would take the signals from us.
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[bound])
    ticking = asyncio.create_task(server.main_loop(), name="bursa-http")
    try:
        yield
    finally:
        server.should_exit = True
        await app.state.api.stop()
        await ticking
        await server.shutdown(sockets=[bound])


def _say(text: str, out: TextIO | None) -> None:
    stream = sys.stdout if out is None else out
    stream.write(f"{text}\n")
    stream.flush()
