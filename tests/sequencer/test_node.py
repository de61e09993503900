"""A node leads, answers durably and once, follows, and takes over."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bursa.errors import QueueFullError, UnavailableError
from bursa.market import (
    IDEMPOTENCY_COMMANDS_MAX,
    Command,
    CreditTopUp,
    Done,
    ListInstrument,
    PlaceBid,
    PreopenBook,
    RegisterParty,
    Rejected,
    Rejection,
    Tick,
)
from bursa.money import Currency
from bursa.sequencer import Answer, Node, Position, verify
from bursa.sequencer.sequencer import QUEUE_COMMANDS_MAX
from bursa.store import connect
from tests.postgres import Database
from tests.sequencer.recording import ManualClock, leading

pytestmark = pytest.mark.slow
HOUR_NS = 3_600 * 10**9


def party(name: str, tax_id: str = "") -> RegisterParty:
    return RegisterParty(command_id=name, tax_id=tax_id or name)


def top_up(name: str, micros: int = 100_000_000) -> CreditTopUp:
    return CreditTopUp(command_id=name, party_id=1, currency=Currency.USD, micros=micros, provider="sandbox")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a test may poll
            await asyncio.sleep(0.005)


def rows_of(database: Database) -> int:
    with connect(database.dsn("reader")) as connection:
        row = connection.execute("SELECT count(*), max(seq) FROM bursa.command_log").fetchone()
        assert row is not None
        assert row[0] == (row[1] or 0), "seq is dense"
        return int(row[0])


def run(scenario: Awaitable[None]) -> None:
    async def main() -> None:
        await scenario

    asyncio.run(main())


def test_an_answer_is_in_the_log_before_it_is_given(database: Database) -> None:
    async def scenario() -> None:
        async with leading(database.dsn()) as node:
            answer = await node.submit(party("p1"))
            assert answer.result == Done(1)
            assert (answer.seq, answer.is_repeat) == (1, False)
            assert rows_of(database) == 1
            assert node.feed.seq == 1
            answers = await node.submit_many([top_up(f"t{number}") for number in range(300)])
            assert [one.seq for one in answers] == list(range(2, 302))
            assert rows_of(database) == 301

    run(scenario())


def test_a_repeat_has_one_effect_and_one_answer(database: Database) -> None:
    async def scenario() -> None:
        async with leading(database.dsn()) as node:
            await node.submit(party("p1"))
            first = await node.submit(top_up("t"))
            again = await asyncio.gather(*(node.submit(top_up("t")) for _ in range(5)))
            expected = (True, 2, first.result, first.events)
            assert [(one.is_repeat, one.seq, one.result, one.events) for one in again] == [expected] * 5
            other = await node.submit(top_up("t", 200_000_000))
            assert isinstance(other.result, Rejected)
            assert other.result.code is Rejection.EXISTS_WITH_DIFFERENT_FIELDS
            assert rows_of(database) == 2

    run(scenario())


def test_an_id_that_the_engine_forgot_is_answered_from_the_log(database: Database) -> None:
    async def scenario() -> None:
        clock = ManualClock(1_767_600_000 * 10**9)
        async with leading(database.dsn(), clock) as node:
            await node.submit(party("p1"))
            first = await node.submit(top_up("old"))
            clock.set(clock.now_ns() + 25 * HOUR_NS)
            again = await node.submit(top_up("old"))
            assert again.is_repeat
            assert (again.seq, again.result, again.events) == (first.seq, first.result, first.events)
            other = await node.submit(top_up("old", 1_000_000_000))
            assert isinstance(other.result, Rejected)
            assert other.result.code is Rejection.EXISTS_WITH_DIFFERENT_FIELDS
            assert rows_of(database) == 2
        async with leading(database.dsn(), clock) as node:  # and after a restart
            assert (await node.submit(top_up("old"))).seq == first.seq
            assert rows_of(database) == 2

    run(scenario())


def test_more_commands_than_the_engine_remembers_are_still_known(database: Database) -> None:
    async def scenario() -> None:
        async with leading(database.dsn()) as node:
            await node.submit(party("p1"))
            await node.submit(top_up("first"))
            sent = 0
            while sent <= IDEMPOTENCY_COMMANDS_MAX:
                more = [ListInstrument(command_id=f"i{sent + number}", instrument="x") for number in range(4_000)]
                await node.submit_many(more)
                sent += 4_000
            assert (await node.submit(top_up("first"))).seq == 2
            assert rows_of(database) == sent + 2

    run(scenario())


def test_refusals_change_nothing_and_are_not_logged(database: Database) -> None:
    async def scenario() -> None:
        async with leading(database.dsn()) as node:
            bid = PlaceBid(command_id="b", party_id=9, instrument="none", gpus=1, hours=1, limit_micros=10**6)
            answer = await node.submit(bid)
            assert isinstance(answer.result, Rejected)
            assert (answer.seq, answer.events) == (0, ())
            assert rows_of(database) == 0
            assert (await node.submit(party("p1"))).seq == 1

    run(scenario())


def test_a_command_that_is_not_well_formed_is_refused_not_fatal(database: Database) -> None:
    async def scenario() -> None:
        async with leading(database.dsn()) as node:
            bad: list[Command] = [
                RegisterParty(command_id=""),
                RegisterParty(command_id="x" * 10_000),
                RegisterParty(command_id=7),  # type: ignore[arg-type]
                RegisterParty(command_id="a\0b"),
                RegisterParty(command_id="ok", tax_id=object()),  # type: ignore[arg-type]
                Tick(command_id="tick"),
                RegisterParty(command_id="tick-2"),
            ]
            for command in bad:
                answer = await node.submit(command)
                assert isinstance(answer.result, Rejected), command
            assert (await node.submit(party("p1"))).result == Done(1)

    run(scenario())


def test_a_full_queue_refuses_at_once(database: Database) -> None:
    async def scenario() -> None:
        async with leading(database.dsn()) as node:
            with pytest.raises(QueueFullError) as caught:
                await node.submit_many([party(f"p{number}") for number in range(QUEUE_COMMANDS_MAX + 1)])
            assert caught.value.retry_after_s > 0
            assert (await node.submit(party("p"))).result == Done(1)
            assert node.queue_depth == 0

    run(scenario())


def test_a_standby_follows_and_takes_over(database: Database) -> None:
    async def scenario() -> None:
        standby = Node(database.dsn())
        async with leading(database.dsn()) as leader:
            await standby.start()
            await leader.submit(party("p1"))
            await until(lambda: standby.seq == 1 and standby.is_ready)
            assert not standby.is_leader
            answer = await standby.submit(top_up("through-the-inbox"))
            assert (answer.result, answer.seq) == (Done(), 2)
            assert leader.seq == 2
            epoch = leader.epoch
        await until(lambda: standby.is_leader)
        assert standby.epoch == epoch + 1
        assert (await standby.submit(top_up("through-the-inbox"))).is_repeat
        assert (await standby.submit(top_up("after"))).seq == 3
        await standby.stop()
        assert verify(database.dsn()).is_ok

    run(scenario())


def test_a_node_that_may_not_lead_hands_over_through_the_inbox(database: Database) -> None:
    async def scenario() -> None:
        loaded: list[int] = []
        other = Node(database.dsn(), may_lead=False, on_load=lambda position: loaded.append(position.seq))
        async with leading(database.dsn()) as leader:
            await leader.submit(party("p1"))
            await other.start()
            assert loaded == [1]
            await until(lambda: other.is_ready)
            assert other.epoch == leader.epoch > 0
            answers = await asyncio.gather(*(other.submit(top_up(f"t{number}")) for number in range(50)))
            assert sorted(one.seq for one in answers) == list(range(2, 52))
            ordered = await other.submit_many([party(f"q{number}") for number in range(20)])
            assert [one.result for one in ordered] == [Done(number + 2) for number in range(20)]
            refused = await other.submit(top_up("small", 1))
            assert isinstance(refused.result, Rejected)
            await until(lambda: other.seq == leader.seq)
            await other.stop()
        with connect(database.dsn("app")) as connection:
            left = "SELECT (SELECT count(*) FROM bursa.inbox), (SELECT count(*) FROM bursa.answers)"
            assert connection.execute(left).fetchone() == (0, 0)

    run(scenario())


def test_a_follower_knows_the_epoch_of_a_leader_that_wrote_nothing(database: Database) -> None:
    async def scenario() -> None:
        early = Node(database.dsn(), may_lead=False)
        await early.start()
        assert early.epoch == 0
        async with leading(database.dsn()) as leader:
            await until(lambda: early.epoch == leader.epoch)
            assert leader.epoch > 0
            late = Node(database.dsn(), may_lead=False)
            await late.start()
            assert late.epoch == leader.epoch
            await late.stop()
        await early.stop()
        assert early.seq == 0

    run(scenario())


def test_time_does_its_work_without_commands(database: Database) -> None:
    async def scenario() -> None:
        clock = ManualClock(1_767_600_000 * 10**9)
        async with leading(database.dsn(), clock) as node:
            await node.submit(party("p1"))
            await node.submit(ListInstrument(command_id="i", instrument="h100-sxm"))
            await node.submit(PreopenBook(command_id="o", instrument="h100-sxm", opens_at_ns=clock.now_ns() + HOUR_NS))
            clock.set(clock.now_ns() + HOUR_NS)
            await until(lambda: node.seq >= 4)
            with connect(database.dsn("reader")) as connection:
                row = connection.execute("SELECT state FROM bursa.instruments").fetchone()
                assert row == ("OPEN",)

    run(scenario())


def test_when_nobody_leads_the_caller_is_told(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("bursa.sequencer.node.SUBMIT_PATIENCE_S", 0.2)
        monkeypatch.setattr("bursa.sequencer.inbox.ANSWER_LIMIT_S", 0.2)
        node = Node(database.dsn(), may_lead=False)
        await node.start()
        with pytest.raises(UnavailableError):
            await node.submit(party("p1"))
        await node.stop()

    run(scenario())


def test_the_position_at_load_is_the_committed_one(database: Database) -> None:
    async def scenario() -> None:
        seen: list[tuple[int, int]] = []

        def on_load(position: Position) -> None:
            seen.append((position.seq, position.engine.available(1, Currency.USD)))

        async with leading(database.dsn()) as node:
            await node.submit(party("p1"))
            await node.submit(top_up("t"))
        async with leading(database.dsn(), on_load=on_load) as node:
            answers: list[Answer] = await node.submit_many([top_up("t2")])
            assert answers[0].seq == 3
        assert seen == [(2, 100_000_000)]

    run(scenario())
