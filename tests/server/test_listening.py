"""The socket is bound before anything else starts, and a taken one is told with what to do."""

import os
import socket
import stat
from pathlib import Path

import pytest
from pytest_socket import enable_socket

from bursa.config import Settings
from bursa.errors import ConfigError, NetworkError
from bursa.server.listening import listen, show_url


def on_path(path: Path) -> Settings:
    return Settings(data_dir=path.parent, uds=path)


def on_port(port: int, host: str = "127.0.0.1") -> Settings:
    return Settings(data_dir=Path("/"), host=host, port=port)


@pytest.fixture
def loopback() -> None:
    """Allow sockets: these tests bind ports of 127.0.0.1, and connect nowhere."""
    enable_socket()


def test_a_unix_socket_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a b.sock"
    mask = os.umask(0)
    try:
        with listen(on_path(path)) as bound:
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            assert show_url(on_path(path), bound).endswith("/a%20b.sock")
    finally:
        os.umask(mask)
    assert not path.exists()


def test_the_socket_of_a_killed_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    with listen(on_path(path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_socket_that_is_answered_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen(on_path(path)):
        with pytest.raises(NetworkError, match="another program"), listen(on_path(path)):
            pass
        assert path.exists(), "the loser must not remove the winner's socket"


def test_a_file_is_not_overwritten_by_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("x")
    with pytest.raises(ConfigError, match="uds"), listen(on_path(path)):
        pass
    assert path.read_text() == "x"


def test_a_socket_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"), listen(on_path(tmp_path / "no" / "s")):
        pass


@pytest.mark.usefixtures("loopback")
def test_port_0_takes_a_free_one_and_a_taken_one_is_told() -> None:
    with listen(on_port(0)) as bound:
        port = bound.getsockname()[1]
        assert show_url(on_port(0), bound) == f"http://127.0.0.1:{port}"
        assert show_url(on_port(0, "0.0.0.0"), bound) == f"http://127.0.0.1:{port}"  # noqa: S104 - only shown
        with pytest.raises(NetworkError, match=f"127.0.0.1:{port}.*--port {port + 1}"), listen(on_port(port)):
            pass


@pytest.mark.usefixtures("loopback")
def test_an_address_of_no_interface_is_refused() -> None:
    """192.0.2.1 is kept for documentation: no machine has it."""
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1"), listen(on_port(0, "192.0.2.1")):
        pass
