"""A real server in a process of its own, on a Unix socket, for tests to use, kill and start again."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from bursa.store.launch import find_inhabitants

#: How long a start, a stop or a recovery may take before a test fails, in seconds: this machine may be busy.
PATIENCE_S = 60.0
#: How often a test looks again, in seconds.
POLL_S = 0.02

START = "import sys; from bursa import config, server; sys.exit(server.{verb}(config.load()))"


def wait_until(what: str, is_so: Any) -> None:  # noqa: ANN401 - a function of no arguments, whatever it returns
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(POLL_S)


class Server:
    """One run of `bursa up` or `bursa serve`. Leaving the block kills it, if it still runs."""

    def __init__(self, folder: Path, verb: str = "up", name: str = "bursa", **settings: str) -> None:
        self.data = folder / "data"
        self.socket = folder / f"{name}.sock"
        env = {key: value for key, value in os.environ.items() if not key.startswith("BURSA_")}
        env |= {f"BURSA_{key.upper()}": value for key, value in settings.items()}
        env |= {"BURSA_DATA": str(self.data), "BURSA_UDS": str(self.socket), "BURSA_CONFIG": str(folder / "none.toml")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START.format(verb=verb)],
            env=env,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()
        self.http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)), base_url="http://bursa", timeout=30
        )

    def _read(self, name: str, stream: Any) -> None:  # noqa: ANN401 - a text stream
        self.lines[name].extend(stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        self.kill()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        if kind is not None:
            sys.stderr.write(self.log)

    @property
    def printed(self) -> str:
        return "".join(self.lines["stdout"])

    @property
    def log(self) -> str:
        return "".join(self.lines["stderr"])

    def wait_welcome(self) -> Self:
        """Wait for the last thing that a start prints."""

        def is_up() -> bool:
            assert self.process.poll() is None, self.log
            return self.printed.endswith("\n\n") or "bursa serve" in self.printed

        wait_until("the start", is_up)
        return self

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def is_ready(self) -> bool:
        try:
            return self.http.get("/v1/ready").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def key(self, who: str = "renter") -> dict[str, str]:
        """Return the header that makes a request the renter's or the operator's."""
        stored = tomllib.loads((self.data / f"{who}.toml").read_text())
        return {"Authorization": f"Bearer {stored['key']}"}

    def buy(self, *, headers: Mapping[str, str], idempotency_key: str, gpu: str = "h100-sxm") -> httpx.Response:
        """Buy one GPU-hour at the best offer."""
        body = {"instrument": gpu, "gpus": 1, "hours": 1, "limit_price": "5", "time_in_force": "IOC"}
        return self.http.post("/v1/orders", json=body, headers={**headers, "Idempotency-Key": idempotency_key})

    def get(self, path: str, who: str = "renter") -> Any:  # noqa: ANN401 - JSON
        answer = self.http.get(path, headers=self.key(who))
        answer.raise_for_status()
        return answer.json()


@contextlib.contextmanager
def running(folder: Path, verb: str = "up", name: str = "bursa", **settings: str) -> Iterator[Server]:
    """Run a server until the block ends, from the moment it has said that it is up; its database ends with it."""
    with Server(folder, verb, name, **settings) as server:
        yield server.wait_welcome()
    wait_until("the database is gone", lambda: not find_inhabitants(server.data / "postgres"))
