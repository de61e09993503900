"""Orders and reads over HTTP: a real `bursa up` on loopback with 1,000 asks, load from another process."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.market.measure import ROOT, Result
from benchmarks.service.measure import BenchError, children, cpu_seconds, own_cpu_seconds, run_worker, wait_for_go
from benchmarks.service.streams import build, leading
from bursa.services import issue_key
from bursa.store import EmbeddedPostgres, migrate, open_pool
from bursa.wire import Scope
from tests.postgres import make_folder

ASKS: Final = 1_000
QUICK_ASKS: Final = 100
KEYS: Final = 64
SECONDS: Final = 4.0
ROUNDS: Final = 2
#: (name, connections, whether 100 orders are in each request).
WAYS: Final = (("single orders", 64, False), ("orders:batch", 16, True))
READERS: Final = 4
#: How long a start may take before the benchmark gives up, in seconds.
START_LIMIT_S: Final = 60.0
_OK: Final = 200
#: The limits of requests would be what is measured, so they are out of the way.
_LIMITS: Final = ("KEY_REQUESTS_PER_S", "KEY_BURST", "ADDRESS_REQUESTS_PER_S", "ADDRESS_BURST")


class Up:
    """`bursa up` in a process of its own, on a free port, with its first lines read."""

    def __init__(self, data: Path, *words: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BURSA_")}
        environment |= {f"BURSA_{name}": "1000000" for name in _LIMITS}
        self.started_at = time.perf_counter()
        self._log = (data.parent / f"{data.name}.log").open("a+", encoding="utf-8")
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "bursa.cli", "up", "--data", str(data), "--port", "0", *words],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self.port = 0
        self._said = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
            if self.port and not line.strip():
                self._said.set()

    def wait_ready(self) -> float:
        """Return the seconds from the start until the welcome stands there and /v1/ready says yes."""
        deadline = self.started_at + START_LIMIT_S
        while not self._said.wait(0.01):
            if self.process.poll() is not None or time.perf_counter() > deadline:
                raise BenchError(f"`bursa up` does not come up: {self._last_words()}")
        link = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            while time.perf_counter() < deadline:
                link.request("GET", "/v1/ready")
                answer = link.getresponse()
                answer.read()
                if answer.status == _OK:
                    return time.perf_counter() - self.started_at
        finally:
            link.close()
        raise BenchError(f"`bursa up` does not get ready: {self._last_words()}")

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read().strip()[-500:]

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of the server's own process, and of its PostgreSQL."""
        return own_cpu_seconds(self.process.pid), sum(cpu_seconds(child) for child in children(self.process.pid))

    def stop(self) -> None:
        """Stop it cleanly, or else by force."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(START_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


def bench(seed: int, *, is_quick: bool) -> Result:
    """Measure single orders and batches."""
    seconds, rounds = (0.5, 1) if is_quick else (SECONDS, ROUNDS)
    runs: dict[str, list[Result]] = {name: [] for name, _, _ in WAYS}
    with _serving(seed, is_quick=is_quick) as (up, keys):
        for number in range(rounds):
            for name, connections, is_batch in WAYS if number % 2 == 0 else WAYS[::-1]:
                runs[name].append(_load(up, keys, connections, seconds, seed + number, is_batch=is_batch))
    return {"asks": QUICK_ASKS if is_quick else ASKS, "ways": runs}


def bench_reads(seed: int, *, is_quick: bool) -> Result:
    """Measure reads of public market data while single orders come over 64 connections, and without them."""
    seconds, rounds = (0.5, 1) if is_quick else (SECONDS, ROUNDS)
    with _serving(seed, is_quick=is_quick) as (up, keys):
        loaded = [
            _load(up, keys, WAYS[0][1], seconds, seed + number, is_batch=False, readers=READERS)
            for number in range(rounds)
        ]
        quiet = _load(up, keys, 0, seconds / 2, seed + rounds, is_batch=False, readers=READERS)
    return {"loaded": loaded, "quiet": quiet}


def _load(
    up: Up, keys: list[str], connections: int, seconds: float, seed: int, *, is_batch: bool, readers: int = 0
) -> Result:
    task: Result = {
        "kind": "load", "port": up.port, "keys": keys, "connections": connections, "seconds": seconds, "seed": seed,
        "is_batch": is_batch, "readers": readers,
    }  # fmt: skip
    before = up.cpu()
    result = run_worker(task)
    server, database = (after - was for after, was in zip(up.cpu(), before, strict=True))
    if "failed" not in result and result["orders"]:
        orders = result["orders"]
        result["cpu_us"] = {
            "server": server / orders * 1e6,
            "postgres": database / orders * 1e6,
            "load": result["load_cpu_seconds"] / orders * 1e6,
        }
    return result


@contextmanager
def _serving(seed: int, *, is_quick: bool) -> Iterator[tuple[Up, list[str]]]:
    """Fill a data folder with a market and keys, then run `bursa up` on it."""
    with make_folder() as folder:
        data = folder / "data"
        with EmbeddedPostgres(data) as server:
            migrate(server.dsn("migrator"))
            task: Result = {"kind": "seed", "asks": QUICK_ASKS if is_quick else ASKS, "seed": seed}
            seeded = run_worker(task, server.dsn("app"))
        if "failed" in seeded:
            raise BenchError(seeded["failed"])
        up = Up(data, "--no-demo")
        try:
            up.wait_ready()
            yield up, seeded["keys"]
        finally:
            up.stop()


def seed(dsn: str, asks: int, seed: int) -> Result:
    """Make the market, and keys of renters who pay in US$."""
    wait_for_go()

    async def run() -> Result:
        node = await leading(dsn)
        try:
            mix = await build(node, "order flow", asks, seed)
        finally:
            await node.stop()
        renters = [party_id for party_id, currency in mix.market.buyers if currency.value == "USD"][:KEYS]
        pool = await open_pool(dsn)
        async with pool:
            made = [await issue_key(pool, party_id=party_id, name="bench", scopes=[Scope.READ, Scope.TRADE])
                    for party_id in renters]  # fmt: skip
        return {"keys": [key.secret for key in made]}

    return uvloop.run(run())
