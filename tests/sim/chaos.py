"""What goes wrong on the way in.

Fields of the wrong type or size, the same command twice, an id used for something else, a refused command that comes
again late and out of order.
"""

from collections import deque
from enum import StrEnum
from typing import Any, Final

from msgspec.structs import fields, replace

from bursa.market import Command, Outcome, PlaceBid, Tick
from tests.sim.world import World

#: Accepted commands that may be sent again. The engine remembers 65,536 of them for 24 hours; this is well within.
KEPT_MAX: Final = 4_000
KEPT_NS: Final = 23 * 3_600 * 10**9
LATE_MAX: Final = 500

#: Values that no integer, text, list or struct field takes.
WRONG: Final[tuple[Any, ...]] = (1.5, float("nan"), None, b"bytes", 2**64, -(2**63) - 1, (), {"x": 1}, ["x"], object())
#: Texts that are none of the known ones.
WRONG_TEXTS: Final = ("", "usd", "XXX", "GTX", "\x00", "é" * 300)


class Chaos:
    """Keeps what was sent and turns it into trouble."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.accepted: deque[tuple[Command, Outcome, int]] = deque(maxlen=KEPT_MAX)
        self.refused: deque[Command] = deque(maxlen=LATE_MAX)

    def keep(self, command: Command, outcome: Outcome, at_ns: int, *, is_accepted: bool) -> None:
        """Remember a command by what became of it."""
        if type(command) is Tick:
            return
        if is_accepted:
            self.accepted.append((command, outcome, at_ns))
        elif self.world.chance(0.2):
            self.refused.append(command)

    def duplicate(self) -> tuple[Command, Outcome] | None:
        """Return an accepted command and what it was answered: the same must come again."""
        sent = self._recent()
        return (sent[0], sent[1]) if sent else None

    def clash(self) -> Command | None:
        """Return another command under the id of an accepted one."""
        sent = self._recent()
        if sent is None:
            return None
        other = self.world.pick(self.accepted)[0]
        if other == replace(other, command_id=sent[0].command_id):
            return None
        clash = replace(other, command_id=sent[0].command_id)
        return None if clash == sent[0] else clash

    def retry(self) -> Command | None:
        """Return a refused command again, long after and out of order: it is judged anew."""
        if not self.refused:
            return None
        self.refused.rotate(self.world.between(0, len(self.refused)))
        return self.refused.pop()

    def garbage(self) -> tuple[Command, str] | None:
        """Return a command with one field of a wrong type, and the field's name: it must be refused as invalid."""
        if not self.accepted:
            return None
        world = self.world
        command = world.pick(self.accepted)[0]
        if world.chance(0.3):
            command = next((kept for kept, _, _ in self.accepted if type(kept) is PlaceBid), command)
        name = world.pick(fields(command)).name
        value = getattr(command, name)
        fresh = replace(command, command_id=world.next_id())
        wrong = self._wrong_for(value)
        if wrong is None and name == "spec":
            wrong = 1.5  # the one field that may be left empty
        return replace(fresh, **{name: wrong}), name

    def _wrong_for(self, value: object) -> object:
        """Return a value that the field of this one does not take."""
        world = self.world
        if isinstance(value, bool):
            return world.pick((1, 0, "true", None, 1.5))
        if isinstance(value, int) and world.chance(0.5):
            return world.pick((str(value), bool(value), value + 0.5, 2**63, 2**64))
        if isinstance(value, StrEnum) and world.chance(0.5):
            return world.pick(WRONG_TEXTS)
        wrong = world.pick(WRONG)
        if wrong == () and isinstance(value, tuple):
            return 0
        return 1.5 if wrong is None and value is None else wrong

    def _recent(self) -> tuple[Command, Outcome, int] | None:
        """Return one of the kept commands that the engine must still remember."""
        while self.accepted and self.accepted[0][2] < self.world.now_ns - KEPT_NS:
            self.accepted.popleft()
        return self.world.pick(self.accepted) if self.accepted else None
