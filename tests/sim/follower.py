"""A second engine in a process of its own, fed with every command through a pipe while the simulation runs.

Why like this: it replays the whole stream, accepted and refused, from the first command; memory stays bounded, since
nothing is kept; it has another hash seed, so an order that depends on hashes shows; commands take the way through
bytes, as they do in a real log; and it never restores a snapshot, so a restore that is not transparent shows too. It
uses the second core.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, Final
from zlib import crc32

import msgspec

from bursa.market import Command, Engine, MarketRules, Outcome

_FRAME: Final = struct.Struct("<qII")
_ROOT: Final = Path(__file__).parents[2]
_TIMEOUT_SECONDS: Final = 600


class Verdict(msgspec.Struct, frozen=True):
    """Frames applied, the first whose outcome differed (0 = none) and why, and the last digest."""

    frames: int
    differs_at: int
    why: str
    digest: str


class Follower:
    """The writing end. `send` blocks while the other process is behind, so nothing piles up."""

    def __init__(self, rules: MarketRules) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sim.follower"], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._send_bytes(0, 0, self._encode(rules))

    def send(self, command: Command, at_ns: int, outcome: Outcome) -> None:
        """Hand over one command with the answer it must get."""
        self._send_bytes(at_ns, crc32(self._encode(outcome)), self._encode(command))

    def finish(self) -> Verdict:
        """Close the stream and return the verdict."""
        out, _ = self._process.communicate(timeout=_TIMEOUT_SECONDS)
        if self._process.returncode:
            return Verdict(0, 1, f"the follower ended with exit code {self._process.returncode}", "")
        return msgspec.json.decode(out, type=Verdict)

    def abandon(self) -> None:
        """End it without a verdict."""
        self._process.kill()
        self._process.communicate()

    def _send_bytes(self, at_ns: int, check: int, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(_FRAME.pack(at_ns, check, len(data)) + data)


def follow(stream: BinaryIO) -> Verdict:
    """Apply all frames of a stream; the first carries the rules."""
    encode = msgspec.msgpack.Encoder().encode
    decode = msgspec.msgpack.Decoder(Command).decode
    head = stream.read(_FRAME.size)
    _, _, size = _FRAME.unpack(head)
    engine = Engine(msgspec.msgpack.decode(stream.read(size), type=MarketRules))
    frames = 0
    while head := stream.read(_FRAME.size):
        at_ns, check, size = _FRAME.unpack(head)
        command = decode(stream.read(size))
        frames += 1
        try:
            outcome = engine.apply(command, at_ns)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            return _drained(stream, Verdict(frames, frames, f"{command!r} raised {error!r}", ""))
        if crc32(encode(outcome)) != check:
            return _drained(stream, Verdict(frames, frames, f"{command!r} had another outcome: {outcome!r}", ""))
    return Verdict(frames, 0, "", engine.digest())


def _drained(stream: BinaryIO, verdict: Verdict) -> Verdict:
    """Read the rest, so that the writer does not meet a closed pipe."""
    while stream.read(1 << 20):
        pass
    return verdict


if __name__ == "__main__":
    print(json.dumps(msgspec.to_builtins(follow(sys.stdin.buffer))))
