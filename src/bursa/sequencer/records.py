"""What the sequencer hands out: answers to commands, records of the log, and the way to submit."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bursa.market import Command, Done, Event, Placed, Rejected


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The durable answer to one command.

    ``seq`` is its position in the log, 0 for a refusal (which changes nothing and is not logged); ``is_repeat`` says
    that an earlier command with this id had been carried out, whose answer this is.
    """

    result: Done | Placed | Rejected
    events: tuple[Event, ...] = ()
    seq: int = 0
    at_ns: int = 0
    is_repeat: bool = False


class Record(msgspec.Struct, frozen=True, gc=False):
    """One committed command as the feed carries it: its place, its time and what happened."""

    seq: int
    at_ns: int
    kind: str
    events: tuple[Event, ...]


class Submitter(Protocol):
    """Where commands go: the sequencer itself in its own process, the inbox table from anywhere else."""

    async def submit(self, command: Command, *, is_fresh: bool = False) -> Answer:
        """Return the answer once it is durable.

        ``is_fresh`` promises that the command's id was just made from randomness, so that no log can know it.
        Raises QueueFullError when too much waits, NotLeaderError and UnavailableError when nobody can decide now; then
        the outcome is unknown until the same command (same id) is submitted again.
        """
        ...

    async def submit_many(self, commands: list[Command], *, is_fresh: bool = False) -> list[Answer]:
        """Submit commands in this order, one after the other; return their answers in that order."""
        ...
