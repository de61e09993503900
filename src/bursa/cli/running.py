"""`bursa up` and `bursa serve`: an exchange, or a part of one, in this process."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

from typing import Literal

from bursa.cli.options import MaybeWhole


def up(
    *,
    data: str | None = None,
    port: MaybeWhole = None,
    host: str | None = None,
    no_demo: bool = False,
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
    no_demo
        Leave out the demo sellers with simulated hosts that a first start puts into the market.
    log_level
        Least severe log line to write.
    """
    from bursa import server
    from bursa.config import load

    flags = {"data": data, "port": port, "host": host, "log_level": log_level, "demo": False if no_demo else None}
    return server.up(load(flags))


def serve(
    *,
    role: Literal["all", "web", "sequencer"] | None = None,
    data: str | None = None,
    port: MaybeWhole = None,
    host: str | None = None,
    database_url: str | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
) -> int:
    """Run a part of an exchange on a PostgreSQL that its parts share.

    Parameters
    ----------
    role
        Which part: web (the HTTP API), sequencer, or all of it.
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
