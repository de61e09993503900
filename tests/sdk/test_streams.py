"""Streams: bytes in any pieces, connections that break, servers that end or refuse them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.errors import ApiError, NetworkError
from bursa.market import BookState, TimeInForce
from bursa.sdk import Client, LiveBook, Retries
from bursa.sdk.sse import EVENT_BYTES_MAX, EventParser, ServerEvent
from bursa.wire import (
    BidRequest,
    BookView,
    Level,
    OwnEventKind,
    OwnEvents,
    Problem,
    StreamDelta,
    StreamSnapshot,
    StreamTrade,
    Ticker,
)
from tests.api.stand import INSTRUMENT
from tests.sdk.served import Served
from tests.sdk.test_faults import Kind, Play, Sync, both, refusal

STREAM = b': heartbeat\n\nretry: 50\n\nevent: own\nid: 7\ndata: {"a":\ndata: 1}\n\ndata\n\nid: 8\ndata: x\n\n'
EVENTS = [ServerEvent("own", "7", b'{"a":\n1}'), ServerEvent("message", "7", b""), ServerEvent("message", "8", b"x")]


@given(st.lists(st.integers(0, len(STREAM) * 2)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_do_not_depend_on_pieces_or_line_ends(cuts: list[int], end: bytes) -> None:
    text = STREAM.replace(b"\n", end)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    parser = EventParser()
    found = [event for start, stop in pairwise(places) for event in parser.feed(text[start:stop])]
    # A lone \r at the very end may be half of \r\n, so its event comes with the next byte.
    found += parser.feed(b":\n")
    assert found == EVENTS
    assert parser.retry_s == 0.05


def test_an_event_without_end_is_given_up() -> None:
    parser = EventParser()
    assert parser.feed(b"data: " + b"x" * (EVENT_BYTES_MAX - 6)) == []
    with pytest.raises(NetworkError, match="events of at most"):
        parser.feed(b"x")


def own(seq: int) -> bytes:
    events = OwnEvents(seq=seq, at=datetime(2026, 12, 1, tzinfo=UTC), events=[])
    return b"event: own\nid: %d\ndata: %s\n\n" % (seq, msgspec.json.encode(events))


def stream(*parts: bytes) -> httpx.Response:
    return httpx.Response(200, stream=httpx.ByteStream(b"".join(parts)))


@both
def test_a_broken_stream_goes_on_after_the_last_event(kind: Kind) -> None:
    half = own(9)[:20]
    play = Play(stream(own(7), own(8), half), httpx.ConnectError, stream(own(9)))
    assert [message.seq for message in kind(play).take("stream_events", 3)] == [7, 8, 9]
    assert [request.headers.get("last-event-id") for request in play.sent] == [None, "8", "8"]


@both
def test_the_end_of_a_connection_is_no_message(kind: Kind) -> None:
    ended, dropped = b"event: ended\ndata: {}\n\n", b"event: dropped\ndata: {}\n\n"
    play = Play(stream(own(7), ended), stream(own(8), dropped), stream(own(9)))
    assert [message.seq for message in kind(play).take("stream_events", 3)] == [7, 8, 9]


@both
def test_a_problem_within_a_stream_ends_it(kind: Kind) -> None:
    problem = Problem(type="urn:bursa:problem:key-revoked", title="Revoked", status=401, code="KEY_REVOKED")
    play = Play(stream(own(7), b"event: problem\ndata: %s\n\n" % msgspec.json.encode(problem)))
    with pytest.raises(ApiError) as caught:
        kind(play).take("stream_events", 2)
    assert (caught.value.status, caught.value.problem_code) == (401, "KEY_REVOKED")


@both
def test_a_refused_stream_is_not_asked_for_again(kind: Kind) -> None:
    play = Play(refusal(401, "UNAUTHENTICATED"))
    with pytest.raises(ApiError):
        kind(play).take("stream_events", 1)
    assert len(play.sent) == 1


@both
def test_a_busy_server_is_asked_again_after_the_wait_it_names(kind: Kind) -> None:
    made = kind(Play(refusal(429, "TOO_MANY_STREAMS", **{"retry-after": "3"}), stream(own(7))))
    assert [message.seq for message in made.take("stream_events", 1)] == [7]
    assert made.waits[0] >= 3


@both
def test_failures_in_a_row_are_limited(kind: Kind) -> None:
    play = Play(stream(own(7)), *[httpx.ConnectError] * 3)
    with pytest.raises(NetworkError):
        kind(play, Retries(attempts_max=3)).take("stream_events", 2)
    # The stream that ended counts as the first of the three.
    assert len(play.sent) == 3


@both
def test_a_message_of_another_shape_is_a_fault(kind: Kind) -> None:
    with pytest.raises(NetworkError, match="messages that this version of bursa knows"):
        kind(Play(stream(b'event: own\ndata: {"seq":"x"}\n\n'))).take("stream_events", 1)


def test_a_stream_starts_after_a_seq() -> None:
    play = Play(stream(own(8)))
    client = Sync(play).client
    with client:
        next(client.stream_events(after_seq=7))
    assert play.sent[0].headers["last-event-id"] == "7"


# ── Against the running exchange ─────────────────────────────────────────────────────────────────────────────────────


def test_own_events_are_followed_from_a_seq_on(client: Client) -> None:
    before = client.show_wallet().seq
    rest = BidRequest(instrument=INSTRUMENT, gpus=1, hours=1, limit_price="1.10")
    orders = [client.place_bid(rest) for _ in range(3)]
    found = []
    for message in client.stream_events(after_seq=before):
        found += [event.order for event in message.events if event.kind is OwnEventKind.ORDER_PLACED]
        if len(found) == 3:
            break
    assert found == [order.id for order in orders]


def test_a_live_book_is_the_book(served: Served, client: Client) -> None:
    live = LiveBook()
    rest = BidRequest(instrument=INSTRUMENT, gpus=1, hours=1, limit_price="1.07")
    order = None
    with served.client() as watcher:
        for message in watcher.stream_market(INSTRUMENT):
            if live.apply(message) and order is None:
                order = client.place_bid(rest)
            assert live.book is not None
            if order is not None and live.book.seq >= order.seq:
                break
        book = watcher.show_book(INSTRUMENT, levels=200)
    assert order is not None
    assert live.book is not None
    assert "1.07" in [level.price for level in live.book.bids]
    assert (live.book.bids, live.book.asks) == (book.bids, book.asks)


def test_lists_are_walked_page_by_page(client: Client) -> None:
    rest = BidRequest(instrument=INSTRUMENT, gpus=1, hours=1, limit_price="1.10", time_in_force=TimeInForce.GTC)
    ids = [client.place_bid(rest).id for _ in range(5)]
    assert [order.id for order in client.iterate_orders(limit=2)] == ids[::-1]


# ── LiveBook by itself ───────────────────────────────────────────────────────────────────────────────────────────────

TICKER = Ticker(
    instrument="x",
    state=BookState.OPEN,
    best_ask="2.00",
    best_bid=None,
    last_price=None,
    reference_price=None,
    gpus_on_sale=1,
    gpus_wanted=0,
    volume_gpu_hours=0,
    until=None,
    is_demo=False,
    seq=1,
    at=None,
)
BOOK = BookView(
    instrument="x",
    state=BookState.OPEN,
    bids=[Level("1.50", 1)],
    asks=[Level("2.00", 1), Level("10.00", 4)],
    seq=1,
    at=None,
)


def test_deltas_change_add_and_remove_levels_in_the_order_of_prices() -> None:
    live = LiveBook()
    assert not live.apply(StreamDelta(seq=1, previous_seq=0, bids=[], asks=[], ticker=TICKER))
    assert live.apply(StreamSnapshot(seq=1, ticker=TICKER, book=BOOK))
    bids, asks = [Level("1.60", 2)], [Level("2.00", 0), Level("9.00", 3), Level("10.00", 5)]
    assert live.apply(StreamDelta(seq=2, previous_seq=1, bids=bids, asks=asks, ticker=TICKER))
    assert live.book is not None
    assert [(level.price, level.gpus) for level in live.book.bids] == [("1.60", 2), ("1.50", 1)]
    assert [(level.price, level.gpus) for level in live.book.asks] == [("9.00", 3), ("10.00", 5)]
    assert live.book.seq == 2


def test_a_trade_changes_no_level(client: Client) -> None:
    live = LiveBook(ticker=TICKER, book=BOOK)
    trade = client.list_trades(INSTRUMENT, limit=1).items
    for item in trade:
        live.apply(StreamTrade(seq=2, trade=item))
    assert live.book == BOOK
