"""The sequencer's clock: never falls, does not follow a wall clock that was set, and says when it was.

Time runs with the machine's boot clock, from the wall clock's time at the start. A small difference between the two, as
NTP makes by slewing, is followed slowly; one of more than STEP_NS means that somebody set the clock: that is an alarm,
and not followed, since an hour that nobody lived through must not be charged. A restart takes the wall clock anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from bursa.ops import metrics

#: A wall clock this far from ours was set, not slewed, in nanoseconds.
STEP_NS: Final = 2 * 10**9
#: How fast small differences are followed: one part in so many of the time that went by.
SLEW_PARTS: Final = 1_000
#: Time between two alarms about one step, in nanoseconds.
ALARM_EVERY_NS: Final = 60 * 10**9

_log = logging.getLogger("bursa.sequencer.clock")


class Clock(Protocol):
    """Where time comes from."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds since the epoch; never less than before."""
        ...


def _boot_ns() -> int:
    """Return the machine's running time, suspension included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class GuardedClock:
    """The clock described above. ``floor_ns`` is the time of the newest record of the log."""

    def __init__(
        self,
        floor_ns: int = 0,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = _boot_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._last_steady = steady_ns()
        self._now = max(wall_ns(), floor_ns)
        self._next_alarm = self._last_steady
        self.steps = 0
        if self._now - wall_ns() > STEP_NS:
            self._alarm(wall_ns() - self._now)

    def now_ns(self) -> int:
        """Return the time in nanoseconds since the epoch; never less than before."""
        steady = self._steady_ns()
        passed = max(steady - self._last_steady, 0)
        self._last_steady = steady
        self._now += passed
        difference = self._wall_ns() - self._now
        if -STEP_NS <= difference <= STEP_NS:
            # Never more than a part of the time that went by, so that time goes on while it slows down.
            bound = passed // SLEW_PARTS
            self._now += max(-bound, min(bound, difference))
        elif steady >= self._next_alarm:
            self._alarm(difference)
        return self._now

    def _alarm(self, difference: int) -> None:
        self.steps += 1
        self._next_alarm = self._last_steady + ALARM_EVERY_NS
        metrics.CLOCK_STEPS.inc()
        _log.error(
            "the wall clock is %.1f s from the exchange's time; it was set, and is not followed until a restart",
            difference / 10**9,
        )
