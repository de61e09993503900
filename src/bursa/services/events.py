"""A party's own happenings, as they are committed: its orders, fills, rentals, hosts and funds.

Events name what they are about by number, and only some name the party; so a follower knows which rentals, orders and
hosts are the party's. It starts from the read tables and learns the rest from the events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from bursa.errors import UnavailableError
from bursa.market import (
    AskAccepted,
    AskAmended,
    AutoExtendSet,
    BidAccepted,
    BidAmended,
    Event,
    HostCameBack,
    HostListed,
    HostRetired,
    HostStateChanged,
    HostWentSilent,
    JournalEntry,
    OrderClosed,
    Outcome,
    PartyReinstated,
    PartySuspended,
    RentalConfirmed,
    RentalEnded,
    RentalExtended,
    RentalFailed,
    RentalHoursCharged,
    RentalHoursReversed,
    RentalInDoubt,
    RentalOpened,
    RentalStarted,
    RentalState,
    RentalWiped,
    Trade,
)
from bursa.money import Currency
from bursa.sequencer import Record
from bursa.services.database import cursor as lend
from bursa.services.database import fetch_all
from bursa.services.exchange import Actor, Exchange, RefusedError, require
from bursa.services.wallet import STATEMENT_ACCOUNTS
from bursa.wire import (
    FundsChange,
    OwnEvent,
    OwnEventKind,
    OwnEvents,
    Scope,
    show_id,
    show_micros,
    show_time,
)

#: Records of the log that a follower may ask to have read again; who is further behind reads the lists instead.
REPLAY_RECORDS_MAX: Final = 200_000
#: Records read from the log at once.
REPLAY_CHUNK: Final = 1_000
_RentalEvent = (
    RentalStarted
    | RentalHoursCharged
    | RentalHoursReversed
    | RentalExtended
    | AutoExtendSet
    | RentalInDoubt
    | RentalConfirmed
    | RentalEnded
    | RentalFailed
    | RentalWiped
)
_WITH_HOURS = RentalHoursCharged | RentalHoursReversed | RentalExtended | AutoExtendSet
#: What an event of a rental is called, and the state that it leads to (None: the same).
_RENTAL_KINDS: Final[dict[type, tuple[OwnEventKind, RentalState | None]]] = {
    RentalStarted: (OwnEventKind.RENTAL_STARTED, RentalState.STARTED),
    RentalHoursCharged: (OwnEventKind.RENTAL_CHARGED, None),
    RentalHoursReversed: (OwnEventKind.RENTAL_REVERSED, None),
    RentalExtended: (OwnEventKind.RENTAL_EXTENDED, None),
    AutoExtendSet: (OwnEventKind.AUTO_EXTEND_SET, None),
    RentalInDoubt: (OwnEventKind.RENTAL_IN_DOUBT, None),
    RentalConfirmed: (OwnEventKind.RENTAL_CONFIRMED, None),
    RentalEnded: (OwnEventKind.RENTAL_ENDED, RentalState.ENDED),
    RentalFailed: (OwnEventKind.RENTAL_FAILED, RentalState.FAILED),
    RentalWiped: (OwnEventKind.RENTAL_WIPED, RentalState.WIPED),
}
_HostEvent = HostStateChanged | HostWentSilent | HostCameBack | HostRetired

_READ_LOG: Final = """
    SELECT seq, at_ns, kind, outcome FROM bursa.command_log WHERE seq > %(seq)s ORDER BY seq LIMIT %(limit)s
"""
_LAST_SEQ: Final = "SELECT COALESCE(max(seq), 0) AS seq FROM bursa.command_log"
# What ended before ``seq`` is over: no event after it is about it.
_OWN_RENTALS: Final = """
    SELECT rental_id FROM bursa.rentals WHERE buyer_id = %(party_id)s AND (state <> 'WIPED' OR seq > %(seq)s)
    UNION
    SELECT rental_id FROM bursa.rentals WHERE seller_id = %(party_id)s AND (state <> 'WIPED' OR seq > %(seq)s)
"""
_OWN_ORDERS: Final = """
    SELECT order_id FROM bursa.orders WHERE party_id = %(party_id)s AND (closed_at_ns = 0 OR seq > %(seq)s)
"""
_OWN_HOSTS: Final = """
    SELECT host_id FROM bursa.hosts WHERE party_id = %(party_id)s AND (NOT is_retired OR seq > %(seq)s)
"""
_decode_outcome = msgspec.msgpack.Decoder(Outcome).decode


async def own_events(exchange: Exchange, actor: Actor, *, after_seq: int | None = None) -> AsyncIterator[OwnEvents]:
    """Yield what happens to the actor's party, one item a record of the log, in order and without a gap.

    Starts after a place in the log, or now. Raises RefusedError when that is too far back (EVENTS_TOO_OLD) or no place
    in this log (INVALID_FIELD), and SlowReaderError when the reader does not keep up.
    """
    require(actor, Scope.READ)
    feed = exchange.feed
    position = feed.seq if after_seq is None else after_seq
    if feed.seq - position > REPLAY_RECORDS_MAX:
        expected = f"at least {feed.seq - REPLAY_RECORDS_MAX}; read orders and rentals, then follow from now"
        raise RefusedError("EVENTS_TOO_OLD", "Last-Event-ID", after_seq, expected)
    if position > feed.seq:
        # Another process may be ahead of this feed, nobody of the log: its events would never come.
        (last,) = await fetch_all(exchange.reader, _LAST_SEQ, {})
        if position > last.seq:
            expected = f"at most {last.seq}, the newest event of this exchange"
            raise RefusedError("INVALID_FIELD", "Last-Event-ID", after_seq, expected)
    # The tables may be ahead of the feed, never behind: what they know more is what the events are about to say.
    follower = await _Follower.load(exchange, actor.party_id, position)
    while True:
        try:
            subscription = feed.subscribe(position)
            break
        except UnavailableError:
            async for record in _read_log(exchange, position):
                position = record.seq
                if (told := follower.tell(record)) is not None:
                    yield told
    with subscription:
        async for record in subscription:
            if record.seq > position and (told := follower.tell(record)) is not None:
                yield told


async def _read_log(exchange: Exchange, seq: int) -> AsyncIterator[Record]:
    rows = await fetch_all(exchange.reader, _READ_LOG, {"seq": seq, "limit": REPLAY_CHUNK})
    for row in rows:
        yield Record(row.seq, row.at_ns, row.kind, _decode_outcome(bytes(row.outcome)).events)


class _Follower:
    """What is a party's own, and how to tell what happens to it."""

    def __init__(self, party_id: int, orders: set[int], rentals: set[int], hosts: set[int]) -> None:
        self._party_id = party_id
        self._orders = orders
        self._rentals = rentals
        self._hosts = hosts
        self._accounts = {f"{kind}:{party_id}": kind for kind in STATEMENT_ACCOUNTS}
        self._tellers: dict[type, Callable[[Any], OwnEvent | None]] = {
            BidAccepted: self._placed,
            AskAccepted: self._placed,
            BidAmended: self._amended,
            AskAmended: self._amended,
            OrderClosed: self._closed,
            Trade: self._traded,
            RentalOpened: self._opened,
            HostListed: self._listed,
            JournalEntry: self._posted,
            PartySuspended: self._standing,
            PartyReinstated: self._standing,
            **dict.fromkeys(_RENTAL_KINDS, self._rental),
            **dict.fromkeys(_HostEvent.__args__, self._host),
        }

    @classmethod
    async def load(cls, exchange: Exchange, party_id: int, seq: int) -> _Follower:
        """Return a follower that knows what is the party's after a place in the log."""
        parameters = {"party_id": party_id, "seq": seq}
        found: list[set[int]] = []
        async with lend(exchange.reader) as rows:
            for query in (_OWN_ORDERS, _OWN_RENTALS, _OWN_HOSTS):
                await rows.execute(query, parameters)
                found.append({row[0] for row in await rows.fetchall()})
        return cls(party_id, *found)

    def tell(self, record: Record) -> OwnEvents | None:
        """Return what a record did to the party; None for nothing."""
        told = [own for event in record.events if (own := self._tell(event)) is not None]
        at = show_time(record.at_ns)
        return OwnEvents(record.seq, at, told) if told and at is not None else None

    def _tell(self, event: Event) -> OwnEvent | None:
        teller = self._tellers.get(type(event))
        return teller(event) if teller is not None else None

    # ---- orders --------------------------------------------------------------------------------------------

    def _placed(self, event: BidAccepted | AskAccepted) -> OwnEvent | None:
        if event.party_id != self._party_id:
            return None
        self._orders.add(event.order_id)
        is_bid = isinstance(event, BidAccepted)
        return OwnEvent(
            OwnEventKind.ORDER_PLACED,
            order=show_id("order", event.order_id),
            instrument=event.instrument,
            price=show_micros(event.limit_micros if isinstance(event, BidAccepted) else event.price_micros),
            gpus=event.gpus if isinstance(event, BidAccepted) else None,
            hours=event.hours if isinstance(event, BidAccepted) else None,
            quantity=event.lots if isinstance(event, BidAccepted) else sum(offer.gpus for offer in event.offers),
            state="BUY" if is_bid else "SELL",
        )

    def _amended(self, event: BidAmended | AskAmended) -> OwnEvent | None:
        if event.order_id not in self._orders:
            return None
        is_bid = isinstance(event, BidAmended)
        return OwnEvent(
            OwnEventKind.ORDER_AMENDED,
            order=show_id("order", event.order_id),
            price=show_micros(event.limit_micros if isinstance(event, BidAmended) else event.price_micros),
            quantity=event.lots if isinstance(event, BidAmended) else sum(offer.gpus for offer in event.offers),
            state="BUY" if is_bid else "SELL",
        )

    def _closed(self, event: OrderClosed) -> OwnEvent | None:
        if event.party_id != self._party_id:
            return None
        self._orders.discard(event.order_id)
        return OwnEvent(
            OwnEventKind.ORDER_CLOSED,
            order=show_id("order", event.order_id),
            state=event.state.value,
            quantity=event.filled_lots,
        )

    def _traded(self, event: Trade) -> OwnEvent | None:
        if self._party_id not in {event.buyer_id, event.seller_id}:
            return None
        return OwnEvent(
            OwnEventKind.FILL,
            order=show_id("order", event.bid_id if event.buyer_id == self._party_id else event.ask_id),
            rental=show_id("rental", event.rental_id),
            host=show_id("host", event.host_id),
            instrument=event.instrument,
            price=show_micros(event.price_micros),
            gpus=event.gpus,
            hours=event.hours,
        )

    # ---- rentals -------------------------------------------------------------------------------------------

    def _opened(self, event: RentalOpened) -> OwnEvent | None:
        if self._party_id not in {event.buyer_id, event.seller_id}:
            return None
        self._rentals.add(event.rental_id)
        return OwnEvent(
            OwnEventKind.RENTAL_OPENED,
            rental=show_id("rental", event.rental_id),
            host=show_id("host", event.host_id),
            state=RentalState.OPENED.value,
            price=show_micros(event.price_micros),
            gpus=event.gpus,
            hours=event.hours,
        )

    def _rental(self, event: _RentalEvent) -> OwnEvent | None:
        if event.rental_id not in self._rentals:
            return None
        if isinstance(event, RentalWiped):
            self._rentals.discard(event.rental_id)
        kind, state = _RENTAL_KINDS[type(event)]
        return OwnEvent(
            kind,
            rental=show_id("rental", event.rental_id),
            state=state.value if state is not None else None,
            reason=event.reason.value if isinstance(event, RentalEnded | RentalFailed) else None,
            price=show_micros(event.price_micros) if isinstance(event, RentalExtended) else None,
            hours=event.hours if isinstance(event, _WITH_HOURS) else None,
            ends_at=show_time(event.ends_at_ns) if isinstance(event, RentalStarted | RentalExtended) else None,
        )

    # ---- hosts and funds -----------------------------------------------------------------------------------

    def _listed(self, event: HostListed) -> OwnEvent | None:
        if event.party_id != self._party_id:
            return None
        self._hosts.add(event.host_id)
        host = show_id("host", event.host_id)
        return OwnEvent(OwnEventKind.HOST_LISTED, host=host, instrument=event.instrument, gpus=event.spec.gpus)

    def _host(self, event: _HostEvent) -> OwnEvent | None:
        if event.host_id not in self._hosts:
            return None
        host = show_id("host", event.host_id)
        match event:
            case HostStateChanged():
                return OwnEvent(OwnEventKind.HOST_CHANGED, host=host, state=event.state.value)
            case HostWentSilent():
                return OwnEvent(OwnEventKind.HOST_SILENT, host=host)
            case HostCameBack():
                return OwnEvent(OwnEventKind.HOST_BACK, host=host)
            case HostRetired():
                self._hosts.discard(event.host_id)
                return OwnEvent(OwnEventKind.HOST_RETIRED, host=host)

    def _posted(self, event: JournalEntry) -> OwnEvent | None:
        funds = [
            FundsChange(kind, show_micros(posting.credit_micros - posting.debit_micros), Currency(posting.currency))
            for posting in event.postings
            if (kind := self._accounts.get(posting.account)) is not None
        ]
        if not funds:
            return None
        return OwnEvent(
            OwnEventKind.FUNDS,
            order=show_id("order", event.order_id) if event.order_id in self._orders else None,
            rental=show_id("rental", event.rental_id) if event.rental_id in self._rentals else None,
            entry=event.kind,
            funds=funds,
        )

    def _standing(self, event: PartySuspended | PartyReinstated) -> OwnEvent | None:
        if event.party_id != self._party_id:
            return None
        is_suspended = isinstance(event, PartySuspended)
        return OwnEvent(OwnEventKind.PARTY_SUSPENDED if is_suspended else OwnEventKind.PARTY_REINSTATED)
