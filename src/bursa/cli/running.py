"""`bursa up` and `bursa serve`: an exchange, or a part of one, in this process."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter


def up(
    *,
    data: str | None = None,
    port: int | None = None,
    host: str | None = None,
    demo: Annotated[bool, Parameter(negative="--no-demo")] = True,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
) -> int:
    """Run a whole exchange on this machine; prints URLs, a key and first steps. Ctrl-C stops it cleanly.

    Parameters
    ----------
    data
        Folder that holds everything of the exchange.
    port
        Port to listen on; 0 for any free one.
    host
        Address to listen on.
    demo
        Put demo sellers with simulated hosts into the market at first start.
    log_level
        Least severe log line to write.
    """
    from bursa import server
    from bursa.config import load

    flags = {"data": data, "port": port, "host": host, "log_level": log_level, "demo": None if demo else False}
    return server.up(load(flags))


def serve(
    *,
    role: Literal["all", "web", "sequencer"] = "all",
    data: str | None = None,
    port: int | None = None,
    host: str | None = None,
    database_url: str | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
) -> int:
    """Run a part of an exchange on a PostgreSQL that its parts share.

    Parameters
    ----------
    role
        Which part: the HTTP API, the sequencer, or both.
    data
        Folder for what belongs to this process alone.
    port
        Port to listen on.
    host
        Address to listen on.
    database_url
        PostgreSQL to use; better given as BURSA_DATABASE_URL, since flags are visible to others on this machine.
    log_level
        Least severe log line to write.
    """
    from bursa import server
    from bursa.config import load

    flags = {
        "role": role,
        "data": data,
        "port": port,
        "host": host,
        "database_url": database_url,
        "log_level": log_level,
    }
    return server.serve(load(flags))
