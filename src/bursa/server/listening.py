"""The socket that the API answers on: bound before anything else starts, so that a taken port costs nothing."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bursa.config import Settings
from bursa.errors import ConfigError, NetworkError

#: Connections that wait to be accepted; the kernel may allow fewer.
BACKLOG: Final = 2_048
#: Mode of a Unix socket: its owner and a proxy in its group.
SOCKET_MODE: Final = 0o660


@contextmanager
def listen(settings: Settings) -> Iterator[socket.socket]:
    """Bind the Unix socket, or host and port; close it (and remove the Unix socket's file) at the end.

    NetworkError: another program listens there. ConfigError: there is no such address, or it may not be used.
    """
    bound = _bind_path(settings.uds) if settings.uds is not None else _bind_port(settings.host, settings.port)
    try:
        yield bound
    finally:
        bound.close()
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)


def show_url(settings: Settings, bound: socket.socket) -> str:
    """Return the URL that a client on this machine reaches the socket at."""
    if settings.uds is not None:
        return f"http+unix://{quote(str(settings.uds))}"
    port = bound.getsockname()[1]
    # An address that means "all" is none to call.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bind_port(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # create_server sets SO_REUSEADDR: a port whose old connections linger is free, one that is listened on is not.
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise ConfigError("host", host, f"an address of this machine ({error.strerror})") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise NetworkError(
                "address", f"{host}:{port}", f"a free port: another program listens there; try --port {port + 1}"
            ) from None
        raise ConfigError("host", f"{host}:{port}", f"an address that we may listen on ({error.strerror})") from None


def _bind_path(path: Path) -> socket.socket:
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The mode has to be right from the start: whoever connects before a chmod stays connected.
        mask = os.umask(0o777 & ~SOCKET_MODE)
        try:
            bound.bind(str(path))
        finally:
            os.umask(mask)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise ConfigError("uds", str(path), f"a path that we may make a socket at ({error.strerror})") from None
    return bound


def _remove_stale(path: Path) -> None:
    """Remove the socket's file that a killed server left; NetworkError when somebody answers there."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError("uds", str(path), "a path where nothing is, or an old socket")
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
        else:
            raise NetworkError("address", str(path), "a free socket: another program listens there")
