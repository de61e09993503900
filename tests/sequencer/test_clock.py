"""The clock never falls, follows what NTP slews, and does not follow what somebody set."""

from hypothesis import given
from hypothesis import strategies as st

from bursa.sequencer import GuardedClock
from bursa.sequencer.clock import STEP_NS

SECOND = 10**9
HOUR = 3_600 * SECOND


class Machine:
    """A wall clock and a boot clock that a test moves."""

    def __init__(self) -> None:
        self.wall = 1_767_600_000 * SECOND
        self.steady = 5 * SECOND

    def pass_time(self, ns: int) -> None:
        self.wall += ns
        self.steady += ns

    def clock(self, floor_ns: int = 0) -> GuardedClock:
        return GuardedClock(floor_ns, wall_ns=lambda: self.wall, steady_ns=lambda: self.steady)


def test_it_tells_the_time() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock.now_ns() == machine.wall
    machine.pass_time(10 * SECOND)
    assert clock.now_ns() == machine.wall
    assert clock.steps == 0


def test_a_wall_clock_set_by_an_hour_is_not_followed() -> None:
    for step in (HOUR, -HOUR):
        machine = Machine()
        clock = machine.clock()
        before = clock.now_ns()
        machine.wall += step
        machine.pass_time(SECOND)
        assert clock.now_ns() == before + SECOND
        assert clock.steps == 1


def test_the_alarm_about_one_step_does_not_repeat_at_once() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += HOUR
    for _ in range(100):
        machine.pass_time(SECOND // 10)
        clock.now_ns()
    assert clock.steps == 1
    machine.pass_time(60 * SECOND)
    clock.now_ns()
    assert clock.steps == 2


def test_a_small_difference_is_followed_slowly() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += SECOND
    for _ in range(2_000):
        machine.pass_time(SECOND)
        clock.now_ns()
    assert clock.now_ns() == machine.wall


def test_it_starts_no_earlier_than_the_log() -> None:
    machine = Machine()
    clock = machine.clock(machine.wall + HOUR)
    assert clock.now_ns() == machine.wall + HOUR
    assert clock.steps == 1


@given(st.lists(st.tuples(st.integers(0, 10 * SECOND), st.integers(-2 * HOUR, 2 * HOUR)), max_size=30))
def test_it_never_falls_and_never_runs_ahead(moves: list[tuple[int, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    last = start = clock.now_ns()
    passed = 0
    for ns, step in moves:
        machine.wall += step
        machine.pass_time(ns)
        passed += ns
        now = clock.now_ns()
        assert now >= last
        assert now - start <= passed + passed // 1_000 + STEP_NS // 1_000
        last = now
