"""The simulated fleet: rentals start, end, are wiped; nothing happens twice or is lost, real hosts are left alone.

Time is a number that the tests move; nothing sleeps.
"""

import asyncio
from collections import Counter

import pytest

from bursa.hosts import (
    BATCH_COMMANDS_MAX,
    RECHECK_NS,
    RETRY_NS,
    START_NS_MAX,
    START_NS_MIN,
    WIPE_NS,
    SimulatedFleet,
    seed_demo,
)
from bursa.hosts.simulated import pause
from bursa.market import (
    HOUR_NS,
    MINUTE_NS,
    SECOND_NS,
    CheckHost,
    Command,
    EndReason,
    FailRental,
    HostOffer,
    HostSpec,
    HostState,
    ListHost,
    PlaceAsk,
    RegisterParty,
    RentalState,
    ReportHeartbeat,
    ReportSilence,
    StopRental,
    SuspendHost,
    audit,
)
from tests.hosts.exchange import Exchange


@pytest.fixture
def exchange() -> Exchange:
    exchange = Exchange()
    asyncio.run(seed_demo(exchange))
    exchange.batches.clear()
    return exchange


def state_of(exchange: Exchange, rental_id: int) -> RentalState | None:
    rental = exchange.view.rental(rental_id)
    return rental.state if rental else None


def host_state(exchange: Exchange, host_id: int) -> HostState:
    host = exchange.view.host(host_id)
    assert host
    return host.state


def sent(exchange: Exchange) -> Counter[str]:
    return Counter(name for batch in exchange.batches for name in batch)


def test_a_rental_starts_after_one_to_two_seconds_and_is_wiped_after_its_end(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    before = exchange.view.depth("h100-sxm")
    rental_id = exchange.rent(buyer)
    exchange.let_pass(fleet, START_NS_MIN - 1)
    assert state_of(exchange, rental_id) is RentalState.OPENED
    exchange.let_pass(fleet, START_NS_MAX - START_NS_MIN + 1)
    assert state_of(exchange, rental_id) is RentalState.STARTED
    exchange.let_pass(fleet, HOUR_NS + WIPE_NS)
    assert state_of(exchange, rental_id) is None, "ended by itself after its hour, and wiped"
    assert exchange.view.depth("h100-sxm") == before, "its GPU is on sale again"
    assert sent(exchange) == {f"fleet-start-{rental_id}": 1, f"fleet-wipe-{rental_id}": 1}
    assert audit(exchange.engine) == ()


def test_a_rental_that_its_renter_stops_is_wiped_after_a_second(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rental_id = exchange.rent(buyer)
    exchange.let_pass(fleet, START_NS_MAX)
    exchange.do(StopRental(command_id="stop", party_id=buyer, rental_id=rental_id))
    exchange.let_pass(fleet, WIPE_NS - 1)
    assert state_of(exchange, rental_id) is RentalState.ENDED
    exchange.let_pass(fleet, 1)
    assert state_of(exchange, rental_id) is None


def test_a_rental_stopped_before_its_start_is_never_started(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rental_id = exchange.rent(buyer)
    exchange.do(StopRental(command_id="stop", party_id=buyer, rental_id=rental_id))
    exchange.let_pass(fleet, MINUTE_NS)
    assert state_of(exchange, rental_id) is None
    assert sent(exchange) == {f"fleet-wipe-{rental_id}": 1}


def test_starts_are_spread_over_their_second(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rentals = [exchange.rent(buyer) for _ in range(11)]
    opened = exchange.now_ns
    exchange.let_pass(fleet, MINUTE_NS)
    delays = []
    for rental_id in rentals:
        rental = exchange.view.rental(rental_id)
        assert rental
        delays.append(rental.started_at_ns - opened)
    assert min(delays) >= START_NS_MIN
    assert max(delays) <= START_NS_MAX
    assert len(set(delays)) == 11


def test_a_restart_catches_up_with_what_is_open(exchange: Exchange) -> None:
    """Nobody was there when a rental opened, when another ended, and when a host was suspended."""
    first, buyer = exchange.fleet(), exchange.buyer()
    running, ended = exchange.rent(buyer), exchange.rent(buyer)
    failed = exchange.rent(buyer, instrument="l40s")
    exchange.let_pass(first, START_NS_MAX)
    exchange.listeners.clear()
    opened = exchange.rent(buyer)
    exchange.do(StopRental(command_id="stop", party_id=buyer, rental_id=ended))
    exchange.do(FailRental(command_id="fail", rental_id=failed, reason=EndReason.HOST_LOST))
    exchange.now_ns += 20 * SECOND_NS
    second = exchange.fleet()
    exchange.batches.clear()
    asyncio.run(second.work())
    assert state_of(exchange, opened) is RentalState.STARTED
    assert state_of(exchange, running) is RentalState.STARTED
    assert (state_of(exchange, ended), state_of(exchange, failed)) == (None, None)
    assert {host.state for host in exchange.view.hosts()} == {HostState.HEALTHY}
    names = sent(exchange)
    assert {f"fleet-start-{opened}", f"fleet-wipe-{ended}", f"fleet-wipe-{failed}"} < set(names)
    assert len(names) == 4
    assert second.next_due_ns is None


def test_a_restart_in_the_middle_of_everything_does_nothing_twice(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    for number in range(12):
        exchange.rent(buyer, gpus=1 + number % 2)
        exchange.let_pass(fleet, SECOND_NS * 3 // 4)
        exchange.listeners.clear()
        fleet = exchange.fleet()
    exchange.let_pass(fleet, 2 * HOUR_NS)
    assert list(exchange.view.rentals()) == []
    assert set(sent(exchange).values()) == {1}
    assert audit(exchange.engine) == ()


def test_an_answer_that_was_lost_is_asked_for_again(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rental_id = exchange.rent(buyer)
    exchange.is_answer_lost = True
    exchange.let_pass(fleet, START_NS_MAX)
    exchange.is_answer_lost = False
    started = exchange.view.rental(rental_id)
    assert started
    seq = exchange.seq
    exchange.let_pass(fleet, RETRY_NS)
    assert exchange.seq == seq
    assert state_of(exchange, rental_id) is RentalState.STARTED
    assert fleet.next_due_ns is None


def test_the_fleet_waits_for_an_exchange_that_is_away(exchange: Exchange, caplog: pytest.LogCaptureFixture) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rental_id = exchange.rent(buyer)
    exchange.is_away = True
    exchange.let_pass(fleet, 30 * SECOND_NS)
    assert state_of(exchange, rental_id) is RentalState.OPENED
    assert "waits for the exchange" in caplog.text
    assert len(caplog.records) <= 30 * SECOND_NS // RETRY_NS
    exchange.is_away = False
    exchange.let_pass(fleet, RETRY_NS)
    assert state_of(exchange, rental_id) is RentalState.STARTED


def test_a_rental_on_a_silent_host_starts_once_it_is_heard(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rental_id = exchange.rent(buyer)
    rental = exchange.view.rental(rental_id)
    assert rental
    exchange.do(ReportSilence(command_id="silent", host_id=rental.host_id, last_heartbeat_ns=exchange.now_ns))
    exchange.let_pass(fleet, 20 * SECOND_NS)
    assert state_of(exchange, rental_id) is RentalState.OPENED
    exchange.do(ReportHeartbeat(command_id="heard", host_id=rental.host_id))
    exchange.let_pass(fleet, RETRY_NS)
    assert state_of(exchange, rental_id) is RentalState.STARTED


def test_a_host_that_failed_is_back_after_its_check(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    before = exchange.view.depth("h100-sxm")
    for number in range(2):
        rental_id = exchange.rent(buyer)
        exchange.let_pass(fleet, START_NS_MAX)
        exchange.do(FailRental(command_id=f"fail-{number}", rental_id=rental_id, reason=EndReason.HOST_LOST))
        exchange.let_pass(fleet, RECHECK_NS - 1)
        assert exchange.view.depth("h100-sxm") != before
        exchange.let_pass(fleet, 1)
        assert exchange.view.depth("h100-sxm") == before
    assert sum(name.startswith("fleet-check-") for name in sent(exchange)) == 2


@pytest.mark.parametrize("is_failed_first", [True, False])
def test_what_the_operator_suspends_stays_suspended(exchange: Exchange, is_failed_first: bool) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rental_id = exchange.rent(buyer, gpus=8)
    rental = exchange.view.rental(rental_id)
    assert rental
    commands: list[Command] = [
        SuspendHost(command_id="suspend", host_id=rental.host_id),
        FailRental(command_id="fail", rental_id=rental_id, reason=EndReason.START_FAILED),
    ]
    for command in reversed(commands) if is_failed_first else commands:
        exchange.do(command)
    exchange.let_pass(fleet, MINUTE_NS)
    assert host_state(exchange, rental.host_id) is HostState.SUSPENDED
    exchange.do(CheckHost(command_id="check", host_id=rental.host_id))
    other = exchange.rent(buyer, gpus=8)
    again = exchange.view.rental(other)
    assert again
    assert again.host_id == rental.host_id
    exchange.do(FailRental(command_id="again", rental_id=other, reason=EndReason.START_FAILED))
    exchange.let_pass(fleet, MINUTE_NS)
    states = {host.state for host in exchange.view.hosts()}
    assert states == {HostState.HEALTHY}, "the operator has let it back; what fails later is checked as usual"


def test_real_hosts_are_left_alone(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    seller = exchange.do(RegisterParty(command_id="seller", payout_account="real"))
    spec = HostSpec(8, "DE", "EU")
    host_id = exchange.do(ListHost(command_id="host", party_id=seller, instrument="h100-sxm", spec=spec))
    exchange.do(CheckHost(command_id="check", host_id=host_id))
    offers = (HostOffer(host_id, 8),)
    exchange.do(PlaceAsk(command_id="ask", party_id=seller, offers=offers, price_micros=2_500_000))
    rentals = [exchange.rent(buyer) for _ in range(2)]
    exchange.do(StopRental(command_id="stop", party_id=buyer, rental_id=rentals[0]))
    exchange.do(FailRental(command_id="fail", rental_id=rentals[1], reason=EndReason.START_FAILED))
    exchange.let_pass(fleet, MINUTE_NS)
    again = SimulatedFleet(exchange, exchange.view, clock=exchange.clock)
    again.catch_up()
    assert (fleet.next_due_ns, again.next_due_ns) == (None, None)
    assert exchange.batches == []
    assert state_of(exchange, rentals[0]) is RentalState.ENDED


def test_much_at_once_goes_in_bounded_batches(exchange: Exchange) -> None:
    fleet, buyer = exchange.fleet(), exchange.buyer()
    rentals = []
    for instrument in exchange.view.instruments():
        while exchange.view.best_ask(instrument, gpus=1, hours=1):
            rentals.append(exchange.rent(buyer, instrument))
    assert len(rentals) > BATCH_COMMANDS_MAX
    exchange.now_ns += MINUTE_NS
    asyncio.run(fleet.work())
    assert [len(batch) for batch in exchange.batches] == [BATCH_COMMANDS_MAX, len(rentals) - BATCH_COMMANDS_MAX]
    assert {state_of(exchange, rental_id) for rental_id in rentals} == {RentalState.STARTED}


def test_the_running_fleet_wakes_for_news_and_for_what_is_due(exchange: Exchange) -> None:
    """`run` with a clock that its own pauses move: a whole rental, without a real second."""
    buyer = exchange.buyer()
    pauses: list[float | None] = []

    async def wait(wake: asyncio.Event, seconds: float | None) -> None:
        pauses.append(seconds)
        if seconds is None:
            await wake.wait()
            return
        exchange.now_ns += round(seconds * SECOND_NS) + 1
        exchange.tick()
        await asyncio.sleep(0)

    async def reach(rental_id: int, state: RentalState | None) -> None:
        for _ in range(100):
            if state_of(exchange, rental_id) is state:
                return
            await asyncio.sleep(0)
        pytest.fail(f"rental {rental_id} never became {state}")

    async def play() -> int:
        fleet = SimulatedFleet(exchange, exchange.view, clock=exchange.clock, wait=wait)
        exchange.listeners.append(fleet.take)
        task = asyncio.create_task(fleet.run())
        await asyncio.sleep(0)
        assert pauses == [None]
        rental_id = exchange.rent(buyer)
        await reach(rental_id, RentalState.STARTED)
        exchange.do(StopRental(command_id="stop", party_id=buyer, rental_id=rental_id))
        await reach(rental_id, None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return rental_id

    rental_id = asyncio.run(asyncio.wait_for(play(), 30))
    assert sent(exchange) == {f"fleet-start-{rental_id}": 1, f"fleet-wipe-{rental_id}": 1}


def test_a_real_pause_ends_when_it_is_woken_and_when_its_time_is_over() -> None:
    async def play() -> None:
        wake = asyncio.Event()
        await pause(wake, 0.001)
        wake.set()
        await pause(wake, None)

    asyncio.run(asyncio.wait_for(play(), 30))
