"""What this room needs of the sequencer, which stands beside it and may not be imported: shapes, no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bursa.market import Command, Done, Event, Placed, Rejected


class Answered(Protocol):
    """The durable answer to a command."""

    @property
    def result(self) -> Done | Placed | Rejected:
        """What came of it."""
        ...

    @property
    def is_repeat(self) -> bool:
        """Whether an earlier command with this id had been carried out, whose answer this is."""
        ...


class CommandPort(Protocol):
    """Where commands go; a Submitter is one."""

    async def submit_many(self, commands: list[Command], *, is_fresh: bool = False) -> Sequence[Answered]:
        """Submit commands in this order; return their answers in that order, once they are durable.

        Raises UnavailableError when nobody can decide now; what became of each is unknown until it is sent again.
        """
        ...


class Committed(Protocol):
    """One committed command; a Record of the feed is one."""

    @property
    def seq(self) -> int:
        """Its place in the log."""
        ...

    @property
    def at_ns(self) -> int:
        """Its time."""
        ...

    @property
    def kind(self) -> str:
        """The name of the command's type."""
        ...

    @property
    def events(self) -> tuple[Event, ...]:
        """All that happened, in order."""
        ...
