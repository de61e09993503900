"""Every verb of the API, declared once for both clients.

A verb is a descriptor around a function that builds a `Call`. Read from a `Client` it is a method that returns the
answer, read from an `AsyncClient` one that returns an awaitable of it; type checkers see the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from bursa.sdk import admin, market, orders, parties, rentals, wallet
from bursa.sdk.call import Call, Page

P = ParamSpec("P")
T = TypeVar("T")


class SyncCarrier(Protocol):
    """What carries calls out and waits for them."""

    def send(self, call: Call[T], /) -> T:
        """Return the answer."""
        ...

    def pages(self, call: Call[Page[T]], /) -> Iterator[T]:
        """Return the items of all pages."""
        ...

    def stream(self, call: Call[T], /) -> Iterator[T]:
        """Return the messages of a stream."""
        ...


class AsyncCarrier(Protocol):
    """What carries calls out in an event loop."""

    def send(self, call: Call[T], /) -> Awaitable[T]:
        """Return an awaitable of the answer."""
        ...

    def pages(self, call: Call[Page[T]], /) -> AsyncIterator[T]:
        """Return the items of all pages."""
        ...

    def stream(self, call: Call[T], /) -> AsyncIterator[T]:
        """Return the messages of a stream."""
        ...


class Verb(Generic[P, T]):
    """A method that sends one call."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCarrier, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncCarrier, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: SyncCarrier | AsyncCarrier | None, owner: type) -> Any:  # the overloads say what
        return self if client is None else _bind(self.build, client.send)


class Pages(Generic[P, T]):
    """A method that walks the pages of a list and gives their items one by one."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCarrier, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncCarrier, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: SyncCarrier | AsyncCarrier | None, owner: type) -> Any:
        return self if client is None else _bind(self.build, client.pages)


class Stream(Generic[P, T]):
    """A method that follows a stream, over as many connections as it takes."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCarrier, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncCarrier, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: SyncCarrier | AsyncCarrier | None, owner: type) -> Any:
        return self if client is None else _bind(self.build, client.stream)


def _bind(build: Callable[..., Call[Any]], carry_out: Callable[[Call[Any]], object]) -> Callable[..., object]:
    def bound(*arguments: object, **named: object) -> object:
        return carry_out(build(*arguments, **named))

    return update_wrapper(bound, build)


class Verbs:
    """The verbs, by subject. What each does, takes and raises is told at the function that it names."""

    # What everybody may see
    list_gpus = Verb(market.list_gpus)
    show_gpu = Verb(market.show_gpu)
    list_tickers = Verb(market.list_tickers)
    show_ticker = Verb(market.show_ticker)
    show_book = Verb(market.show_book)
    list_trades = Verb(market.list_trades)
    iterate_trades = Pages(market.list_trades)
    list_candles = Verb(market.list_candles)
    stream_market = Stream(market.stream_market)
    health = Verb(market.health)
    ready = Verb(market.ready)
    openapi = Verb(market.openapi)

    # Orders
    quote_bid = Verb(orders.quote_bid)
    place_bid = Verb(orders.place_bid)
    place_many = Verb(orders.place_many)
    list_orders = Verb(orders.list_orders)
    iterate_orders = Pages(orders.list_orders)
    show_order = Verb(orders.show_order)
    amend_bid = Verb(orders.amend_bid)
    cancel_order = Verb(orders.cancel_order)
    place_ask = Verb(orders.place_ask)
    amend_ask = Verb(orders.amend_ask)

    # Rentals
    list_rentals = Verb(rentals.list_rentals)
    iterate_rentals = Pages(rentals.list_rentals)
    show_rental = Verb(rentals.show_rental)
    stop_rental = Verb(rentals.stop_rental)
    extend_rental = Verb(rentals.extend_rental)
    set_auto_extend = Verb(rentals.set_auto_extend)
    reclaim_rental = Verb(rentals.reclaim_rental)

    # Wallet
    show_wallet = Verb(wallet.show_wallet)
    list_statement = Verb(wallet.list_statement)
    iterate_statement = Pages(wallet.list_statement)
    statement_csv = Verb(wallet.statement_csv)
    top_up = Verb(wallet.top_up)
    request_refund = Verb(wallet.request_refund)
    request_payout = Verb(wallet.request_payout)
    list_transfers = Verb(wallet.list_transfers)
    iterate_transfers = Pages(wallet.list_transfers)

    # One's own party
    whoami = Verb(parties.whoami)
    list_keys = Verb(parties.list_keys)
    iterate_keys = Pages(parties.list_keys)
    create_key = Verb(parties.create_key)
    revoke_key = Verb(parties.revoke_key)
    list_hosts = Verb(parties.list_hosts)
    iterate_hosts = Pages(parties.list_hosts)
    show_host = Verb(parties.show_host)
    list_host = Verb(parties.list_host)
    retire_host = Verb(parties.retire_host)
    stream_events = Stream(parties.stream_events)

    # The operator
    status = Verb(admin.status)
    metrics = Verb(admin.metrics)
    list_instrument = Verb(admin.list_instrument)
    preopen_book = Verb(admin.preopen_book)
    open_book = Verb(admin.open_book)
    halt_book = Verb(admin.halt_book)
    resume_book = Verb(admin.resume_book)
    list_parties = Verb(admin.list_parties)
    iterate_parties = Pages(admin.list_parties)
    show_party = Verb(admin.show_party)
    register_party = Verb(admin.register_party)
    set_tax_profile = Verb(admin.set_tax_profile)
    suspend_party = Verb(admin.suspend_party)
    reinstate_party = Verb(admin.reinstate_party)
    create_party_key = Verb(admin.create_party_key)
    import_rates = Verb(admin.import_rates)
    check_host = Verb(admin.check_host)
    suspend_host = Verb(admin.suspend_host)
    end_rental = Verb(admin.end_rental)
    settle_transfer = Verb(admin.settle_transfer)
    return_transfer = Verb(admin.return_transfer)
