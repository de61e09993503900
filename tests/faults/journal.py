"""What a worker writes down: each command before it is sent, each answer when it comes.

Two files of lines that are each written by one system call, so that kill -9 tears none apart; the machine itself does
not go down here, so nothing needs to be flushed to disk.
"""

import base64
import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from bursa.market import Command, Outcome
from bursa.sequencer import Answer

_pack = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Command).decode


class Acknowledged(NamedTuple):
    """An answer that a worker got: seq 0 is a refusal, the digest is over result and events."""

    command_id: str
    seq: int
    digest: str


class Journal:
    """The files of one worker, which outlive it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._sent = folder / f"{name}.sent"
        self._acknowledged = folder / f"{name}.acknowledged"
        self._handles = [
            os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) for path in (self._sent, self._acknowledged)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            os.close(handle)

    def note_sent(self, commands: list[Command]) -> None:
        """Write commands down before they are sent."""
        lines = [f"{command.command_id} {base64.b64encode(_pack(command)).decode()}\n" for command in commands]
        os.write(self._handles[0], "".join(lines).encode())

    def note_answers(self, commands: list[Command], answers: list[Answer]) -> None:
        """Write answers down as soon as they are there."""
        lines = [
            f"{command.command_id} {answer.seq} {digest_of(answer)}\n"
            for command, answer in zip(commands, answers, strict=True)
        ]
        os.write(self._handles[1], "".join(lines).encode())

    def sent(self) -> dict[str, Command]:
        """Return all commands ever sent, by id."""
        pairs = (line.split() for line in self._sent.read_text().splitlines())
        return {name: _decode(base64.b64decode(data)) for name, data in pairs}

    def acknowledged(self) -> list[Acknowledged]:
        """Return all answers, in the order in which they came."""
        fields = (line.split() for line in self._acknowledged.read_text().splitlines())
        return [Acknowledged(name, int(seq), digest) for name, seq, digest in fields]

    def count(self) -> int:
        """Return how many answers there are."""
        return self._acknowledged.read_bytes().count(b"\n")


def digest_of(answer: Answer | Outcome) -> str:
    """Return a digest of what an answer says happened."""
    return hashlib.sha256(_pack((answer.result, answer.events))).hexdigest()[:16]
