"""Server-sent events against a real exchange: snapshot, chained deltas, coming back, slow readers, seats, one's own."""

import asyncio
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from bursa.api import Limits
from bursa.api.streams import Reader
from bursa.market import MarketView
from tests.api.listener import Event, Listener, listening
from tests.api.stand import GENEROUS, INSTRUMENT, Json, Stand, assert_problem, bid

STREAM = f"/v1/market/{INSTRUMENT}/stream"


def limits(**changes: Any) -> Limits:  # noqa: ANN401 - members of Limits
    """Return generous limits with changes."""
    return msgspec.structs.replace(GENEROUS, **changes)


class Copy:
    """A reader's copy of a book, kept by snapshot and deltas."""

    def __init__(self) -> None:
        self.sides: dict[str, dict[str, Json]] = {"bids": {}, "asks": {}}
        self.seq = 0
        self.trades: list[str] = []

    def apply(self, event: Event) -> None:
        if event.name == "snapshot":
            book = event.data["book"]
            self.sides = {side: {level["price"]: level for level in book[side]} for side in ("bids", "asks")}
        elif event.name == "trade":
            assert event.id is None
            self.trades.append(event.data["trade"]["id"])
            return
        elif event.name == "delta":
            assert event.data["previous_seq"] == self.seq, "deltas chain"
            for side, levels in self.sides.items():
                for level in event.data[side]:
                    levels.pop(level["price"], None)
                    if level["gpus"]:
                        levels[level["price"]] = level
        self.seq = event.data["seq"]
        assert event.id == str(self.seq)

    def shown(self) -> Json:
        bids = sorted(self.sides["bids"].values(), key=lambda level: -Decimal(level["price"]))
        asks = sorted(self.sides["asks"].values(), key=lambda level: Decimal(level["price"]))
        return {"bids": bids, "asks": asks}


def book_of(stand: Stand) -> Json:
    book = stand.call("GET", f"/v1/market/{INSTRUMENT}/book").json()
    return {"bids": book["bids"], "asks": book["asks"]}


def seq_of(stand: Stand) -> int:
    found: int = stand.call("GET", f"/v1/market/{INSTRUMENT}").json()["seq"]
    return found


def follow(copy: Copy, listener: Listener, until_seq: int) -> None:
    """Apply all events until the copy is as new as a place in the log."""
    listener.wait_seq(until_seq)
    for event in listener.events():
        copy.apply(event)


def test_a_stream_begins_with_a_snapshot_and_goes_on_with_deltas(stand: Stand) -> None:
    party = stand.register(funds="1000")
    with listening(stand, STREAM) as listener:
        assert listener.status == 200
        assert listener.headers["content-type"] == "text/event-stream"
        assert listener.headers["cache-control"] == "no-store"
        assert listener.text.startswith("retry: ")
        listener.wait_for(1)
        first = stand.made("/v1/orders", bid(limit_price="1.51"), party)
        stand.made("/v1/orders", bid(limit_price="1.52"), party)
        stand.call("DELETE", f"/v1/orders/{first['id']}", party=party)
        stand.made("/v1/orders", bid(limit_price="2"), party)
        copy = Copy()
        follow(copy, listener, seq_of(stand))
        assert listener.events()[0].name == "snapshot"
        assert copy.shown() == book_of(stand)
        assert len(copy.trades) == 1


def test_readers_share_one_computation(stand: Stand) -> None:
    """Ten readers get the same bytes; only their snapshots may differ."""
    party = stand.register(funds="1000")
    with listening(stand, STREAM) as first, listening(stand, STREAM) as second:
        first.wait_for(1)
        second.wait_for(1)
        stand.made("/v1/orders", bid(), party)
        seq = seq_of(stand)
        for listener in (first, second):
            follow(Copy(), listener, seq)
        assert first.events()[-1] == second.events()[-1]


def test_many_changes_become_few_deltas(stand: Stand) -> None:
    """At most ten steps a second: what comes faster is told together."""
    party = stand.register(funds="1000")
    app = stand.make_app(limits(stream_interval_s=0.3))
    with listening(stand, STREAM, app=app) as listener:
        listener.wait_for(1)
        items = [{"bid": bid(limit_price=f"1.{price}")} for price in range(51, 91)]
        for _ in range(3):
            stand.made("/v1/orders:batch", {"items": items[:5]}, party)
        copy = Copy()
        follow(copy, listener, seq_of(stand))
        assert len(listener.events()) <= 1 + 4
        assert copy.shown() == book_of(stand)


def test_who_comes_back_goes_on_where_it_was(stand: Stand) -> None:
    party = stand.register(funds="1000")
    copy = Copy()
    with listening(stand, STREAM) as stayed:
        with listening(stand, STREAM) as listener:
            stand.made("/v1/orders", bid(), party)
            follow(copy, listener, seq_of(stand))
        known = copy.seq
        stand.made("/v1/orders", bid(limit_price="2"), party)
        follow(Copy(), stayed, seq_of(stand))
        with listening(stand, STREAM, headers={"last-event-id": str(known)}) as listener:
            follow(copy, listener, seq_of(stand))
            assert "snapshot" not in {event.name for event in listener.events()}
        assert copy.shown() == book_of(stand)
        assert len(copy.trades) == 1


def test_who_knows_all_gets_nothing_until_something_changes(stand: Stand) -> None:
    party = stand.register(funds="1000")
    with listening(stand, STREAM) as first:
        seq = first.wait_for(1)[0].id or ""
        with listening(stand, STREAM, headers={"last-event-id": seq}) as listener:
            stand.made("/v1/orders", bid(), party)
            assert listener.wait_for(1)[0].name == "delta"


def test_who_was_away_too_long_gets_a_snapshot(stand: Stand) -> None:
    with listening(stand, STREAM, headers={"last-event-id": "1"}) as listener:
        assert listener.wait_for(1)[0].name == "snapshot"


def test_a_last_event_id_that_is_none_is_refused(stand: Stand) -> None:
    for wrong in ("abc", "-1", "9" * 19, "1.5"):
        answer = stand.call("GET", STREAM, headers={"last-event-id": wrong})
        problem = assert_problem(answer, 422, "INVALID_FIELD")
        assert problem["errors"][0]["field"] == "header Last-Event-ID"


def test_an_unknown_instrument_has_no_stream(stand: Stand) -> None:
    assert_problem(stand.call("GET", "/v1/market/abacus/stream"), 404, "NOT_FOUND")


def test_a_quiet_stream_is_kept_alive(stand: Stand) -> None:
    app = stand.make_app(limits(stream_heartbeat_s=0.02))
    with listening(stand, STREAM, app=app) as listener:
        listener.wait_until(lambda: listener.text.count(": heartbeat\n\n") >= 2)


def test_a_stream_ends_after_its_time(stand: Stand) -> None:
    app = stand.make_app(limits(stream_life_s=0.05))
    with listening(stand, STREAM, app=app) as listener:
        listener.wait_over()
        assert listener.events()[-1].name == "ended"


def test_stopping_ends_every_stream(stand: Stand) -> None:
    party = stand.register()
    app = stand.make_app(GENEROUS)
    with listening(stand, STREAM, app=app) as market, listening(stand, "/v1/events", app=app, party=party) as own:
        market.wait_for(1)
        stand.run(app.state.api.stop())
        for listener in (market, own):
            listener.wait_over()
            assert listener.events()[-1].name == "ended"


def test_a_slow_reader_is_dropped_and_told(stand: Stand) -> None:
    party = stand.register(funds="1000")
    app = stand.make_app(limits(stream_waiting_max=2, stream_interval_s=0.001))
    with listening(stand, STREAM, app=app) as slow, listening(stand, STREAM, app=app) as quick:
        slow.wait_for(1)
        quick.wait_for(1)
        slow.block()
        for _ in range(8):
            stand.made("/v1/orders", bid(), party)
            seq = seq_of(stand)
            quick.wait_seq(seq)
        slow.unblock()
        slow.wait_over()
        assert slow.events()[-1].name == "dropped"
        assert quick.events()[-1].name == "delta"
        assert not quick.is_over


def test_a_reader_that_takes_nothing_at_all_is_cut_off(stand: Stand) -> None:
    app = stand.make_app(limits(stream_send_s=0.05))
    with listening(stand, STREAM, app=app) as listener:
        listener.wait_for(1)
        listener.block()
        party = stand.register(funds="1000")
        stand.made("/v1/orders", bid(), party)
        listener.wait_over()


def test_seats_are_counted_by_address_and_in_all(stand: Stand) -> None:
    app = stand.make_app(limits(streams_per_address_max=2, streams_max=3))
    with listening(stand, STREAM, app=app), listening(stand, STREAM, app=app):
        problem = assert_problem(stand.call("GET", STREAM, app=app), 429, "TOO_MANY_STREAMS")
        assert problem["retry_after_s"] == 10
        elsewhere = ("192.0.2.1", 1)
        with listening(stand, STREAM, app=app, client=elsewhere):
            answer = stand.call("GET", STREAM, app=app, client=("192.0.2.2", 1))
            assert_problem(answer, 429, "TOO_MANY_STREAMS")
    with listening(stand, STREAM, app=app) as listener:
        assert listener.status == 200, "a seat is given back"


def test_a_head_of_a_stream_is_its_head_alone(stand: Stand) -> None:
    answer = stand.call("HEAD", STREAM)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.content == b""


def test_a_fault_ends_the_readers_of_its_instrument_alone(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    """The trades are taken away under the stream's feet, and given back: who comes again is served again."""
    party = stand.register(funds="100")
    app = stand.make_app(limits())
    view = stand.exchange.view
    with listening(stand, STREAM, app=app) as listener:
        listener.wait_for(1)
        stand.exchange.view = BrokenView(view)  # type: ignore[assignment]
        try:
            stand.made("/v1/orders", bid(), party)
            listener.wait_over()
        finally:
            stand.exchange.view = view
        assert listener.events()[-1].name == "ended"
        assert "The stream of an instrument failed" in caplog.text
    with listening(stand, STREAM, app=app) as listener:
        assert listener.wait_for(1)[0].name == "snapshot"


class BrokenView:
    """A view without trades."""

    def __init__(self, view: MarketView) -> None:
        self._view = view

    def __getattr__(self, name: str) -> object:
        if name == "trades_after":
            raise AttributeError(name)
        return getattr(self._view, name)


# ── One's own ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_own_events_tell_what_happens_to_oneself_alone(stand: Stand) -> None:
    party, other = stand.register(funds="1000"), stand.register(funds="1000")
    with listening(stand, "/v1/events", party=party) as listener:
        stand.made("/v1/orders", bid(), other)
        order = stand.made("/v1/orders", bid(), party)
        (first, *_) = listener.wait_for(1)
        assert first.name == "own"
        assert first.id == str(first.data["seq"])
        assert {happening["order"] for happening in first.data["events"] if "order" in happening} == {order["id"]}


def test_own_events_go_on_after_the_last_one(stand: Stand) -> None:
    party = stand.register(funds="1000")
    with listening(stand, "/v1/events", party=party) as listener:
        stand.made("/v1/orders", bid(), party)
        last = listener.wait_for(1)[0].id or ""
    missed = stand.made("/v1/orders", bid(limit_price="1.6"), party)
    with listening(stand, "/v1/events", party=party, headers={"last-event-id": last}) as listener:
        assert missed["id"] in str(listener.wait_for(1)[0].data)


def test_own_events_need_a_key(stand: Stand) -> None:
    assert_problem(stand.call("GET", "/v1/events"), 401, "UNAUTHENTICATED")


def test_a_stream_ends_when_its_key_is_revoked(stand: Stand) -> None:
    party = stand.register(funds="1000")
    made = stand.made("/v1/keys", {"name": "reader", "scopes": ["read"]}, party)
    app = stand.make_app(limits(stream_heartbeat_s=0.02))
    headers = {"authorization": f"Bearer {made['secret']}"}
    with listening(stand, "/v1/events", app=app, headers=headers) as listener:
        listener.wait_until(lambda: ": heartbeat" in listener.text)
        assert stand.call("DELETE", f"/v1/keys/{made['key']['id']}", party=party).status_code == 200
        listener.wait_over()
        last = listener.events()[-1]
        assert (last.name, last.data["code"]) == ("problem", "KEY_REVOKED")


# ── The queue of a reader ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_never_holds_more_than_its_limit() -> None:
    async def run() -> list[bytes | None]:
        reader = Reader(3)
        for number in range(10):
            reader.put(b"%d" % number)
        return [await reader.take(1), await reader.take(1)]

    first, second = asyncio.run(run())
    assert first is not None
    assert first.startswith(b"event: dropped")
    assert second is None


def test_what_waits_is_taken_together_and_the_end_comes_last() -> None:
    async def run() -> list[bytes | None]:
        reader = Reader(3)
        reader.put(b"a")
        reader.put(b"b")
        reader.end(b"c")
        reader.put(b"d")
        return [await reader.take(1), await reader.take(1)]

    assert asyncio.run(run()) == [b"abc", None]


def test_a_source_that_can_wait_waits_for_room() -> None:
    async def run() -> bool:
        reader = Reader(1)
        reader.put(b"a")
        waiting = asyncio.ensure_future(reader.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        await reader.take(1)
        return await waiting

    assert asyncio.run(run())
