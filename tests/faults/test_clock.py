"""A wall clock that is set by an hour: the exchange's time goes on as it did, and nobody pays for an hour not lived."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from bursa.market import HOUR_NS, SECOND_NS, PlaceBid, StartRental, TimeInForce, Trade
from bursa.sequencer import GuardedClock, Node
from bursa.sequencer.clock import STEP_NS
from bursa.store import connect
from tests.faults.market import BASE_MICROS, INSTRUMENT, set_up, top_up
from tests.faults.test_commits import find_counter
from tests.postgres import Database

START_NS = 1_767_600_000 * SECOND_NS


class FakeTime:
    """The two clocks of a machine: the wall clock, which somebody sets, and the one that counts since the boot."""

    def __init__(self) -> None:
        self.wall = START_NS
        self.steady = 5 * SECOND_NS

    def pass_by(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.steady += nanoseconds

    def guard(self, floor_ns: int = 0) -> GuardedClock:
        return GuardedClock(floor_ns, wall_ns=lambda: self.wall, steady_ns=lambda: self.steady)


@pytest.mark.parametrize("step", [HOUR_NS, -HOUR_NS, STEP_NS + 1, -STEP_NS - 1])
def test_a_step_is_an_alarm_and_is_not_followed(step: int, caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeTime()
    clock = fake.guard()
    fake.pass_by(SECOND_NS)
    before = clock.now_ns()
    assert clock.steps == 0
    fake.wall += step
    for seconds in range(1, 11):
        fake.pass_by(SECOND_NS)
        assert clock.now_ns() == before + seconds * SECOND_NS
    assert clock.steps == 1, "one step is one alarm"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_time_never_falls_and_small_differences_are_followed_slowly() -> None:
    fake = FakeTime()
    clock = fake.guard()
    last = clock.now_ns()
    fake.wall -= SECOND_NS
    for _ in range(1_100):
        fake.pass_by(SECOND_NS)
        now = clock.now_ns()
        assert 0 < now - last <= SECOND_NS
        last = now
    assert last == fake.wall
    assert clock.steps == 0


def test_a_start_before_the_newest_record_goes_on_from_there() -> None:
    fake = FakeTime()
    clock = fake.guard(START_NS + HOUR_NS)
    assert clock.now_ns() == START_NS + HOUR_NS
    assert clock.steps == 1
    fake.pass_by(SECOND_NS)
    assert clock.now_ns() == START_NS + HOUR_NS + SECOND_NS


async def start_rental(node: Node, database: Database) -> int:
    """Rent for three hours and start; return the rental."""
    with connect(database.dsn()) as connection:
        row = connection.execute("SELECT party_id FROM bursa.parties WHERE tax_id = 'B0'").fetchone()
    assert row is not None
    bid = PlaceBid(
        command_id="bid",
        party_id=row[0],
        instrument=INSTRUMENT,
        gpus=1,
        hours=3,
        limit_micros=2 * BASE_MICROS,
        time_in_force=TimeInForce.IOC,
    )
    answer = await node.submit(bid)
    rental_id = next(event.rental_id for event in answer.events if isinstance(event, Trade))
    assert (await node.submit(StartRental(command_id="start", rental_id=rental_id))).seq > 0
    return rental_id


@pytest.mark.slow
@pytest.mark.parametrize("step", [HOUR_NS, -HOUR_NS], ids=["forward", "back"])
def test_no_hour_is_charged_by_a_step(database: Database, step: int) -> None:
    """And an hour that passes is charged, whatever the wall clock says by then."""
    fake = FakeTime()

    def charged(rental_id: int) -> int:
        with connect(database.dsn()) as connection:
            row = connection.execute(
                "SELECT charged_hours FROM bursa.rentals WHERE rental_id = %s", (rental_id,)
            ).fetchone()
        assert row is not None
        return int(row[0])

    async def wait_for(is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not is_so():  # noqa: ASYNC110 - a test may poll
                await asyncio.sleep(0.01)

    async def run() -> None:
        node = Node(database.dsn(), make_clock=fake.guard)
        await node.start()
        try:
            await wait_for(lambda: node.is_leader)
            await set_up(node)
            rental_id = await start_rental(node, database)
            party_id, before = find_counter(database), charged(rental_id)
            fake.wall += step
            fake.pass_by(60 * SECOND_NS)
            for number in range(20):  # each looks for due work first
                fake.pass_by(SECOND_NS)
                await node.submit(top_up(f"after-{number}", party_id))
            assert charged(rental_id) == before
            assert node.feed.at_ns == START_NS + 80 * SECOND_NS
            fake.pass_by(HOUR_NS)
            await wait_for(lambda: charged(rental_id) == before + 1)
        finally:
            await node.stop()

    asyncio.run(run())
