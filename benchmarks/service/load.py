"""The load generator over HTTP: raw HTTP/1.1 on keep-alive connections, in a process of its own, as lean as can be.

An httpx client would take more CPU than the server that is measured. Every request carries a key and an
Idempotency-Key of its own, as the SDK's do.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import uvloop

from benchmarks.market.engine import BASE_MICROS, INSTRUMENT, PRICES, TICK_MICROS
from benchmarks.market.measure import Result
from benchmarks.service.measure import latencies, wait_for_go

#: What a reader waits between two reads, in seconds.
READ_PAUSE_S: Final = 0.01
READS: Final = {"book": f"/v1/market/{INSTRUMENT}/book", "gpus": "/v1/gpus"}
#: Different orders that are made before the clock runs.
BODIES: Final = 512
#: One in so many orders is a buy-now of one GPU.
BUY_EVERY: Final = 20
ITEMS: Final = 100
_OK: Final = 200
_CREATED: Final = 201
_END: Final = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request on its way."""

    def __init__(self) -> None:
        #: None until connected; uvloop's transports are no asyncio.Transport, though they do the same.
        self._transport: Any = None
        self._data = bytearray()
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self._need = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Collect a response; hand it over when it is whole."""
        self._data += data
        if not self._need:
            end = self._data.find(_END)
            if end < 0:
                return
            head = bytes(self._data[:end]).lower()
            _, found, rest = head.partition(b"content-length:")
            self._need = end + len(_END) + (int(rest.split(b"\r\n", 1)[0]) if found else 0)
        if len(self._data) >= self._need and self._waiter is not None:
            status = int(self._data[9:12])
            body = bytes(self._data[self._data.find(_END) + len(_END) : self._need])
            del self._data[: self._need]
            self._need = 0
            self._waiter.set_result((status, body))
            self._waiter = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if self._waiter is not None:
            self._waiter.set_exception(exc or ConnectionError("the server closed the connection"))
            self._waiter = None

    def ask(self, request: bytes) -> "asyncio.Future[tuple[int, bytes]]":
        """Send a request; the future is its status and body."""
        assert self._waiter is None, "one request at a time"
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiter

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


class _Counter:
    """What came back: times, accepted orders, and every other status by its number."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.orders = 0
        self.errors: dict[str, int] = {}
        self.first_error = ""

    def fault(self, status: int, body: bytes, count: int = 1) -> None:
        self.errors[str(status)] = self.errors.get(str(status), 0) + count
        self.first_error = self.first_error or body[:500].decode(errors="replace")

    def result(self, wall: float) -> Result:
        return {
            "requests": len(self.times), "orders": self.orders, "seconds": wall, "per_second": self.orders / wall,
            "errors": self.errors, "first_error": self.first_error, **latencies(self.times),
        }  # fmt: skip


def measure(_dsn: str, port: int, keys: list[str], connections: int, seconds: float, seed: int, *, is_batch: bool,
            readers: int = 0) -> Result:  # fmt: skip
    """Send orders for so long, one or ITEMS a request, over so many connections; with readers beside them."""
    return uvloop.run(_measure(port, keys, connections, seconds, seed, is_batch=is_batch, readers=readers))


async def _measure(
    port: int, keys: list[str], connections: int, seconds: float, seed: int, *, is_batch: bool, readers: int
) -> Result:
    loop = asyncio.get_running_loop()
    links = [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(connections + readers)]
    make = _make_batches if is_batch else _make_singles
    requests = [make(keys[number % len(keys)], f"{seed}-{number}", Random(seed + number))
                for number in range(connections)]  # fmt: skip
    for link, request in zip(links, requests, strict=False):  # each key is looked up once
        await link.ask(request())
    orders, reads = _Counter(), {name: _Counter() for name in READS}
    wait_for_go()
    cpu, start = time.process_time(), time.perf_counter()
    until = start + seconds
    await asyncio.gather(
        *(_order(link, request, orders, until, is_batch=is_batch)
          for link, request in zip(links[:connections], requests, strict=True)),
        *(_read(link, reads, until) for link in links[connections:]),
    )  # fmt: skip
    wall = time.perf_counter() - start
    cpu = time.process_time() - cpu
    for link in links:
        link.close()
    return {
        "connections": connections, **orders.result(wall), "load_cpu_seconds": cpu,
        "readers": readers, "reads": {name: counter.result(wall) for name, counter in reads.items()} if readers else {},
    }  # fmt: skip


async def _order(
    link: Connection, request: Callable[[], bytes], counter: _Counter, until: float, *, is_batch: bool
) -> None:
    clock = time.perf_counter
    start = clock()
    while start < until:
        status, body = await link.ask(request())
        end = clock()
        counter.times.append(end - start)
        start = end
        if is_batch and status == _OK:
            accepted = body.count(b'"status":201')
            counter.orders += accepted
            if accepted != ITEMS:
                counter.fault(0, body, ITEMS - accepted)
        elif not is_batch and status == _CREATED:
            counter.orders += 1
        else:
            counter.fault(status, body)


async def _read(link: Connection, counters: dict[str, _Counter], until: float) -> None:
    clock = time.perf_counter
    requests = {name: f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode() for name, path in READS.items()}
    while clock() < until:
        for name, request in requests.items():
            start = clock()
            status, body = await link.ask(request)
            counters[name].times.append(clock() - start)
            if status != _OK:
                counters[name].fault(status, body)
            await asyncio.sleep(READ_PAUSE_S)


def _bodies(rng: Random) -> list[bytes]:
    """Return JSON bodies of orders: resting bids, and every BUY_EVERY-th a buy-now."""
    made = []
    for number in range(BODIES):
        is_buy = number % BUY_EVERY == 0
        micros = BASE_MICROS + PRICES * TICK_MICROS if is_buy else BASE_MICROS - rng.randint(1, 500) * TICK_MICROS
        gpus = 1 if is_buy else rng.choice((1, 2, 4, 8))
        force = '"IOC"' if is_buy else '"GTC"'
        made.append(
            f'{{"instrument":"{INSTRUMENT}","gpus":{gpus},"hours":{rng.randint(1, 24)},'
            f'"limit_price":"{micros // 1_000_000}.{micros % 1_000_000:06}","time_in_force":{force}}}'.encode()
        )
    return made


def _head(path: str, key: str, length: int) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\nIdempotency-Key: "
    )


def _make_singles(key: str, name: str, rng: Random) -> Callable[[], bytes]:
    pairs = [(_head("/v1/orders", key, len(body)).encode(), body) for body in _bodies(rng)]
    numbers = _count()

    def request() -> bytes:
        number = next(numbers)
        head, body = pairs[number % BODIES]
        return b"%bs%b-%d\r\n\r\n%b" % (head, name.encode(), number, body)

    return request


def _make_batches(key: str, name: str, rng: Random) -> Callable[[], bytes]:
    bodies = _bodies(rng)
    pairs = []
    for start in range(0, BODIES - ITEMS, ITEMS):
        items = b",".join(b'{"bid":%b}' % body for body in bodies[start : start + ITEMS])
        body = b'{"items":[%b]}' % items
        pairs.append((_head("/v1/orders:batch", key, len(body)).encode(), body))
    numbers = _count()

    def request() -> bytes:
        number = next(numbers)
        head, body = pairs[number % len(pairs)]
        return b"%bb%b-%d\r\n\r\n%b" % (head, name.encode(), number, body)

    return request


def _count() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1
