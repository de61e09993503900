"""The whole state as canonical bytes, and back.

A snapshot is a magic word, a format version, the SHA-256 of the payload and the payload: msgpack of the live
state with everything in the order of its ids. Indexes, timers and sets of open orders are not in it; they
are rebuilt. Equal states give equal bytes, so the digest of the payload is the digest of the state.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from bursa.errors import SnapshotError
from bursa.market.events import Outcome
from bursa.market.fitting import CAPS_ALL, ask_masks, bid_masks
from bursa.market.matching import ask_key, bid_key
from bursa.market.rules import MarketRules
from bursa.market.state import Ask, Bid, Book, Counters, Host, Party, Rate, Rental, Sides, State, Transfer
from bursa.market.types import NO_FILTERS, Filters, TaxProfile
from bursa.money import Currency

MAGIC: Final = b"bursa-market\x00"
VERSION: Final = 1
_HEAD: Final = len(MAGIC) + 2 + 32

T = TypeVar("T")


class _Payload(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What a snapshot holds, in this order."""

    rules: MarketRules
    now_ns: int
    counters: Counters
    parties: list[Party]
    hosts: list[Host]
    books: list[Book]
    bids: list[Bid]
    asks: list[Ask]
    rentals: list[Rental]
    transfers: list[Transfer]
    rates: list[tuple[Currency, Rate]]
    balances: list[tuple[Currency, list[tuple[str, int]]]]
    remembered: list[tuple[str, bytes, Outcome, int]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Payload).decode


def _payload(state: State) -> bytes:
    balances = state.ledger.balances
    return _encode(
        _Payload(
            rules=state.rules,
            now_ns=state.now_ns,
            counters=state.counters,
            parties=_by_id(state.parties),
            hosts=_by_id(state.hosts),
            books=list(state.books.values()),
            bids=_by_id(state.bids),
            asks=_by_id(state.asks),
            rentals=_by_id(state.rentals),
            transfers=_by_id(state.transfers),
            rates=sorted(state.rates.items()),
            balances=[(currency, sorted(balances[currency].items())) for currency in Currency],
            remembered=[(name, raw, outcome, at_ns) for name, (raw, outcome, at_ns) in state.remembered.items()],
        )
    )


def _by_id(things: dict[int, T]) -> list[T]:
    return [things[number] for number in sorted(things)]


def dump(state: State) -> bytes:
    """Return the snapshot of a state."""
    payload = _payload(state)
    return MAGIC + VERSION.to_bytes(2, "big") + sha256(payload).digest() + payload


def digest(state: State) -> str:
    """Return the SHA-256 of the canonical state, in hexadecimal."""
    return sha256(_payload(state)).hexdigest()


def load(data: bytes) -> State:
    """Return the state of a snapshot; SnapshotError when it is not one, is of another version, or is damaged."""
    if type(data) is not bytes:
        raise SnapshotError("data", type(data).__name__, "bytes")
    if data[: len(MAGIC)] != MAGIC or len(data) < _HEAD:
        raise SnapshotError("magic", data[: len(MAGIC)], f"a snapshot that begins with {MAGIC!r}")
    version = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 2], "big")
    if version != VERSION:
        raise SnapshotError("version", version, f"version {VERSION}")
    payload = data[_HEAD:]
    if sha256(payload).digest() != data[_HEAD - 32 : _HEAD]:
        raise SnapshotError("digest", sha256(payload).hexdigest(), data[_HEAD - 32 : _HEAD].hex())
    try:
        return _rebuild(_decode(payload))
    except (msgspec.MsgspecError, LookupError, ArithmeticError, MemoryError, AssertionError, ValueError) as error:
        raise SnapshotError("payload", str(error), "the state of a market") from error


def _rebuild(payload: _Payload) -> State:
    """Return the state with everything that is derived from it."""
    state = State(payload.rules)
    state.now_ns = payload.now_ns
    state.counters = payload.counters
    state.parties = {party.party_id: party for party in payload.parties}
    state.hosts = {host.host_id: host for host in payload.hosts}
    state.books = {book.instrument: book for book in payload.books}
    state.bids = {bid.order_id: bid for bid in payload.bids}
    state.asks = {ask.order_id: ask for ask in payload.asks}
    state.rentals = {rental.rental_id: rental for rental in payload.rentals}
    state.transfers = {transfer.transfer_id: transfer for transfer in payload.transfers}
    state.rates = dict(payload.rates)
    for currency, accounts in payload.balances:
        state.ledger.balances[currency] = dict(accounts)
    state.remembered.update((name, (raw, outcome, at_ns)) for name, raw, outcome, at_ns in payload.remembered)
    state.instruments = [book.instrument for book in payload.books]
    assert [book.number for book in payload.books] == list(range(len(payload.books))), "books out of order"
    _rebuild_orders(state)
    state.timers.rebuild()
    return state


def _rebuild_orders(state: State) -> None:
    """Put the open orders back into their books and under their parties."""
    state.open_orders = {party_id: set() for party_id in state.parties}
    state.sides = {instrument: Sides() for instrument in state.books}
    bids: dict[str, list[tuple[int, Bid, int, int, int]]] = {instrument: [] for instrument in state.books}
    asks: dict[str, list[tuple[int, Ask, int, int, int]]] = {instrument: [] for instrument in state.books}
    # Decoded orders each have their own copy of the few names, profiles and filters in use; share them again.
    profiles: dict[TaxProfile, TaxProfile] = {}
    filters: dict[Filters, Filters] = {NO_FILTERS: NO_FILTERS}
    masks: dict[int, int] = {}
    for bid in state.bids.values():
        bid.instrument = state.books[bid.instrument].instrument
        bid.tax = profiles.setdefault(bid.tax, bid.tax)
        bid.filters = filters.setdefault(bid.filters, bid.filters)
        state.open_orders[bid.party_id].add(bid.order_id)
        want, need = bid_masks(state.sides[bid.instrument], bid.gpus, bid.hours, bid.filters)
        want, caps = masks.setdefault(want, want), CAPS_ALL & ~need
        caps = masks.setdefault(caps, caps)
        bids[bid.instrument].append((bid_key(bid.limit_micros, bid.priority), bid, want, caps, 0))
    for ask in state.asks.values():
        ask.instrument = state.books[ask.instrument].instrument
        state.open_orders[ask.party_id].add(ask.order_id)
        sides = state.sides[ask.instrument]
        fit, caps = ask_masks(state, sides, ask)
        if fit:
            key = ask_key(ask.price_micros, ask.priority)
            sides.ask_keys[ask.order_id] = key
            asks[ask.instrument].append((key, ask, fit, caps, ask.until_ns))
    for instrument, sides in state.sides.items():
        sides.bids.load(bids[instrument])
        sides.asks.load(asks[instrument])
