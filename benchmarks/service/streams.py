"""The two streams of commands, the market that they act on, and how either gets into a node.

**steady mix**: the one of benchmarks/market (buy-nows, resting bids, cancels, asks repriced, each rental started,
stopped and wiped). **order flow**: 45 % resting bids, 45 % cancels of one of them, 10 % buy-nows of one GPU; about
1,000 bids rest at any time.

Both need what the answers say, so commands are made while the clock runs; what that costs is measured by sampling.
"""

import asyncio
import time
from collections.abc import Iterator
from random import Random
from typing import Final
from unittest.mock import patch

from benchmarks.market import engine
from benchmarks.market.engine import FOLLOW, INSTRUMENT, RULES, Market, Mix
from benchmarks.market.measure import Result
from benchmarks.service.measure import latencies
from bursa.market import NO_FILTERS, CancelOrder, ChangeRules, Command, Outcome, PlaceBid, Placed, Rejected
from bursa.sequencer import Answer, Node

#: Resting bids that the order flow begins with, and around which their number moves.
RESTING_BIDS: Final = 1_000
#: Commands of the market's making that are submitted together.
CHUNK: Final = 500
#: One in so many commands is made under the clock of the thread's CPU time.
SAMPLE_EVERY: Final = 16


class OrderFlow(Mix):
    """Places and cancels bids that rest, and buys a single GPU now and then; rentals are left alone."""

    def next(self) -> Command:
        """Return the next command; the number of resting bids is drawn back to where it was."""
        market = self.market
        dice = market.rng.random()
        if dice < 0.1:
            return self.buy_now(1, NO_FILTERS)
        if dice < 0.55 + (len(self.bids) - RESTING_BIDS) / (2 * RESTING_BIDS) and self.bids:
            index = market.rng.randrange(len(self.bids))
            self.bids[index], self.bids[-1] = self.bids[-1], self.bids[index]
            order_id, party_id = self.bids.pop()
            return CancelOrder(command_id=market.next_id(), party_id=party_id, order_id=order_id)
        return self._rest()

    def note(self, command: Command, outcome: Outcome) -> None:
        """Learn which bids rest; nothing follows from a trade."""
        result = outcome.result
        if isinstance(command, PlaceBid) and isinstance(result, Placed) and result.leaves_lots:
            self.bids.append((result.order_id, command.party_id))
        self.trades += sum(type(event).__name__ == "Trade" for event in outcome.events)


STREAMS: Final[dict[str, type[Mix]]] = {"steady mix": Mix, "order flow": OrderFlow}


class _Recorder(Market):
    """A market of now that keeps what was done to it: a node that is given the same assigns the same ids."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.now_ns = time.time_ns()
        self.kept: list[Command] = []

    def apply(self, command: Command) -> Outcome:
        self.kept.append(command)
        return super().apply(command)


async def build(node: Node, stream: str, asks: int, seed: int) -> Mix:
    """Give a node that leads an empty market a market with that many asks; return the stream on it."""
    with patch.object(engine, "Market", _Recorder):
        market, standing = engine.build(asks, seed)
    assert isinstance(market, _Recorder)
    commands = [ChangeRules(command_id="rules", rules=RULES), *market.kept]
    for start in range(0, len(commands), CHUNK):
        for answer in await node.submit_many(commands[start : start + CHUNK], is_fresh=True):
            assert not isinstance(answer.result, Rejected), answer
    mix = STREAMS[stream](market, standing, FOLLOW)
    if isinstance(mix, OrderFlow):
        bids = [mix._rest() for _ in range(min(RESTING_BIDS, 10 * asks))]
        for bid, answer in zip(bids, await node.submit_many(bids, is_fresh=True), strict=True):
            mix.note(bid, _outcome(answer))
    mix.trades = 0
    return mix


def _outcome(answer: Answer) -> Outcome:
    return Outcome(answer.result, answer.events)


class Drive:
    """Clients that each submit one command after the other: as many in flight as there are clients."""

    def __init__(self, node: Node, mix: Mix, *, is_fresh: bool) -> None:
        self.node = node
        self.mix = mix
        self.is_fresh = is_fresh
        self.times: list[float] = []
        self.refused = 0
        self._sampled_ns = 0
        self._samples = 0

    async def run(self, in_flight: int, *, seconds: float = 3600.0, commands: int = 2**62) -> Result:
        """Submit for so long, or so many; return rate and latencies of what was answered."""
        self.times.clear()
        self.refused = 0
        start = time.perf_counter()
        left = iter(range(commands))
        await asyncio.gather(*(self._client(start + seconds, left) for _ in range(in_flight)))
        wall = time.perf_counter() - start
        count = len(self.times)
        return {
            "in_flight": in_flight,
            "commands": count,
            "refused": self.refused,
            "seconds": wall,
            "per_second": count / wall,
            **latencies(self.times),
            "making_us": self._sampled_ns / max(self._samples, 1) / 1e3,
        }

    async def _client(self, until: float, left: Iterator[int]) -> None:
        clock, mix, node, is_fresh = time.perf_counter, self.mix, self.node, self.is_fresh
        for number in left:
            is_sample = number % SAMPLE_EVERY == 0
            began = time.thread_time_ns() if is_sample else 0
            command = mix.next()
            spent = time.thread_time_ns() - began if is_sample else 0
            start = clock()
            answer = await node.submit(command, is_fresh=is_fresh)
            end = clock()
            self.times.append(end - start)
            began = time.thread_time_ns() if is_sample else 0
            self.refused += isinstance(answer.result, Rejected)
            mix.note(command, _outcome(answer))
            if is_sample:
                self._sampled_ns += spent + time.thread_time_ns() - began
                self._samples += 1
            if end >= until:
                return


async def leading(dsn: str, **options: int) -> Node:
    """Start a node and wait until it leads."""
    node = Node(dsn, **options)  # type: ignore[arg-type]
    await node.start()
    while not node.is_leader:  # noqa: ASYNC110 - a node tells nobody
        await asyncio.sleep(0.005)
    return node


class PlaceAndCancel:
    """A client's own stream for a market that is there: place a bid that rests, cancel it, and so on."""

    def __init__(self, name: str, parties: list[int], seed: int) -> None:
        self._rng = Random(seed)
        self._name = name
        self._parties = parties
        self._number = 0
        self._placed: list[tuple[int, int]] = []

    def next(self) -> Command:
        """Return the next command, with an id made of the client's name and a number."""
        self._number += 1
        command_id = f"{self._name}-{self._number}"
        if self._placed:
            order_id, party_id = self._placed.pop()
            return CancelOrder(command_id=command_id, party_id=party_id, order_id=order_id)
        return PlaceBid(
            command_id=command_id,
            party_id=self._rng.choice(self._parties),
            instrument=INSTRUMENT,
            gpus=1,
            hours=self._rng.randint(1, 24),
            limit_micros=engine.BASE_MICROS - self._rng.randint(1, 500) * engine.TICK_MICROS,
        )

    def note(self, command: Command, answer: Answer) -> None:
        """Learn which order to cancel."""
        if isinstance(command, PlaceBid) and isinstance(answer.result, Placed):
            self._placed.append((answer.result.order_id, command.party_id))
