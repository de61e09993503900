"""kill -9 of the leader under load: how long until the standby answers, and whether each answer given is in the log."""

import asyncio
import json
import os
import signal
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
import uvloop

from benchmarks.market.measure import Result
from benchmarks.service.measure import BenchError, Worker, median_of, wait_for_go
from benchmarks.service.streams import PlaceAndCancel, build, leading
from bursa.errors import UnavailableError
from bursa.sequencer import Node
from tests.postgres import make_database, make_folder, run_postgres

ASKS: Final = 200
IN_FLIGHT: Final = 64
ROUNDS: Final = 9
#: How long the leader is under load before it is killed, in seconds.
LOAD_S: Final = 1.0
#: How often the standby asks, in seconds.
PROBE_S: Final = 0.005
_ACK: Final = struct.Struct("<qq")


def bench(seed: int, *, is_quick: bool) -> Result:
    """Kill the leader again and again; the standby leads then, and a new process stands by."""
    rounds, load_s, asks = (1, 0.3, 20) if is_quick else (ROUNDS, LOAD_S, ASKS)
    found: list[Result] = []
    nodes: list[_NodeProcess] = []
    with run_postgres() as server, make_database(server) as database, make_folder() as folder:
        dsn = database.dsn("app")
        parties = uvloop.run(_make_market(dsn, asks, seed))
        try:
            nodes.append(_NodeProcess(dsn, folder, parties, seed))
            nodes[0].wait("leads")
            for number in range(1, rounds + 1):
                nodes.append(_NodeProcess(dsn, folder, parties, seed + number))
                nodes[1].wait("follows")
                time.sleep(load_s)
                leader = nodes.pop(0)
                killed_at = leader.kill()
                leads, answers = nodes[0].wait("leads"), nodes[0].wait("answers")
                acknowledged = leader.acknowledged()
                found.append({
                    "leads_s": leads - killed_at,
                    "answers_s": answers - killed_at,
                    "acknowledged": len(acknowledged),
                    "lost": _lost(dsn, leader.name, acknowledged),
                })  # fmt: skip
        finally:
            for node in nodes:
                node.kill()
    times = [run["answers_s"] for run in found]
    return {
        "rounds": found,
        "min_s": min(times),
        "median_s": median_of(found, "answers_s"),
        "max_s": max(times),
        "acknowledged": sum(run["acknowledged"] for run in found),
        "lost": sum(run["lost"] for run in found),
    }


async def _make_market(dsn: str, asks: int, seed: int) -> list[int]:
    """Fill the log before the first node starts; return who may buy in US$."""
    node = await leading(dsn)
    try:
        mix = await build(node, "steady mix", asks, seed)
        return [party_id for party_id, currency in mix.market.buyers if currency.value == "USD"]
    finally:
        await node.stop()


def _lost(dsn: str, name: str, acknowledged: dict[int, int]) -> int:
    """Count answers given whose command is not at its place in the log."""
    if not acknowledged:
        return 0
    with psycopg.connect(dsn) as connection:
        rows: dict[int, str] = dict(
            connection.execute(
                "SELECT seq, command_id FROM bursa.command_log WHERE seq = ANY(%s)", (list(acknowledged),)
            ).fetchall()
        )
    # The id ends with the number of the command; in front stands the client's name, which begins with the node's.
    return sum(
        not (found := rows.get(seq, "")).startswith(name) or int(found.rpartition("-")[2]) != number
        for seq, number in acknowledged.items()
    )


class _NodeProcess:
    """A node in a process of its own, and the file in which it notes every answer that it gave."""

    def __init__(self, dsn: str, folder: Path, parties: list[int], seed: int) -> None:
        self.name = f"n{seed}x"
        self.answers = folder / self.name
        task = {"kind": "node", "name": self.name, "answers": str(self.answers), "parties": parties, "seed": seed}
        self._worker = Worker(task, dsn)
        self._worker.wait_ready()
        self._worker.go()

    def wait(self, what: str) -> float:
        """Return when (by the clock of all processes) it said so."""
        assert self._worker.process.stdout is not None
        for line in self._worker.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if said["what"] == what:
                return float(said["at"])
        raise BenchError(f"node {self.name} ended before it said '{what}'")

    def kill(self) -> float:
        """Kill -9; return when."""
        at = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(self._worker.process.pid, signal.SIGKILL)
        self._worker.kill()
        return at

    def acknowledged(self) -> dict[int, int]:
        """Return the number of the command by the seq of its answer."""
        data = self.answers.read_bytes() if self.answers.exists() else b""
        whole = len(data) - len(data) % _ACK.size
        return dict(_ACK.iter_unpack(data[:whole]))


# ---- in the node's process ---------------------------------------------------------------------------------


def run_node(dsn: str, name: str, answers: str, parties: list[int], seed: int) -> Result:
    """Follow, ask all the time, lead, and be under load until killed."""
    wait_for_go()
    uvloop.run(_run_node(dsn, name, answers, parties, seed))
    return {}


async def _run_node(dsn: str, name: str, answers: str, parties: list[int], seed: int) -> None:
    node = Node(dsn, snapshot_commands=20_000)
    await node.start()
    while not node.is_ready:  # noqa: ASYNC110 - a node tells nobody
        await asyncio.sleep(0.001)
    _say("follows" if not node.is_leader else "starts")
    watch = asyncio.create_task(_watch(node))
    await _probe(node, PlaceAndCancel(f"{name}-probe", parties, seed))
    await watch
    file = os.open(answers, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    await asyncio.gather(*(_client(node, PlaceAndCancel(f"{name}-{n}", parties, seed + n), file)
                           for n in range(IN_FLIGHT)))  # fmt: skip


async def _watch(node: Node) -> None:
    while not node.is_leader:  # noqa: ASYNC110 - a node tells nobody
        await asyncio.sleep(0.001)
    _say("leads")


async def _probe(node: Node, stream: PlaceAndCancel) -> None:
    """Submit one command after the other until this node has answered one as the leader."""
    while True:
        command = stream.next()
        answer = None
        while answer is None:
            with suppress(UnavailableError):
                answer = await node.submit(command)
        if node.is_leader:
            _say("answers")
            return
        stream.note(command, answer)
        await asyncio.sleep(PROBE_S)


async def _client(node: Node, stream: PlaceAndCancel, file: int) -> None:
    while True:
        command = stream.next()
        answer = await node.submit(command)
        os.write(file, _ACK.pack(answer.seq, int(command.command_id.rpartition("-")[2])))
        stream.note(command, answer)


def _say(what: str) -> None:
    print(json.dumps({"what": what, "at": time.monotonic()}), flush=True)
