"""A small market for fault tests: how it is set up, and an endless mix of commands that needs no memory of its own.

What a worker must know (which rental is to be started, which bid is open) it reads from the read tables, since it may
be killed at any time. All of a command's fields are fixed before it is sent, so it can be sent again as it was.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
import psycopg

from bursa.market import (
    AmendAsk,
    CancelOrder,
    ChangeRules,
    CheckHost,
    Command,
    CreditTopUp,
    Done,
    HostOffer,
    HostSpec,
    ListHost,
    ListInstrument,
    MarketRules,
    OpenBook,
    PlaceAsk,
    PlaceBid,
    RegisterParty,
    ReportWiped,
    SetTaxProfile,
    StartRental,
    StopRental,
    TaxProfile,
    TimeInForce,
    VatScheme,
)
from bursa.money import Currency
from bursa.sequencer import Node

INSTRUMENT: Final = "h100-sxm"
BUYERS: Final = 12
SELLERS: Final = 4
HOSTS_PER_SELLER: Final = 5
GPUS_PER_HOST: Final = 8
BASE_MICROS: Final = 2_000_000
TICK_MICROS: Final = 1_000
#: What each buyer has at the start, and each top-up brings, in micro-US$.
FUNDS_MICROS: Final = 10**14
TOP_UP_MICROS: Final = 7_000_000
#: The party that only tops up: its wallet counts how often.
COUNTER: Final = "COUNTER"
RULES: Final = MarketRules(open_orders_max=200, halt_move_percent=100_000)
_TAXES: Final = (TaxProfile("US", VatScheme.OUTSIDE, 0), TaxProfile("DE", VatScheme.DOMESTIC, 190_000))


class _Terms(msgspec.Struct):
    """What is read of an ask's terms."""

    offers: tuple[HostOffer, ...]


_terms = msgspec.msgpack.Decoder(_Terms).decode


async def set_up(node: Node) -> None:
    """Open the market: one book, buyers with money, hosts with an ask each, and the party that counts."""
    names = iter(range(10_000))

    def next_id() -> str:
        return f"setup-{next(names)}"

    async def made(command: Command) -> int:
        result = (await node.submit(command)).result
        assert isinstance(result, Done), (command, result)
        return result.id

    await made(ChangeRules(command_id=next_id(), rules=RULES))
    await made(ListInstrument(command_id=next_id(), instrument=INSTRUMENT))
    await made(OpenBook(command_id=next_id(), instrument=INSTRUMENT))
    await made(RegisterParty(command_id=next_id(), tax_id=COUNTER))
    for number in range(BUYERS):
        party_id = await made(RegisterParty(command_id=next_id(), tax_id=f"B{number}"))
        await made(SetTaxProfile(command_id=next_id(), party_id=party_id, profile=_TAXES[number % len(_TAXES)]))
        await made(top_up(next_id(), party_id, FUNDS_MICROS))
    spec = HostSpec(gpus=GPUS_PER_HOST, country="DE", region="EU", vcpus=128, ram_gib=512, disk_gib=2_000)
    for number in range(SELLERS * HOSTS_PER_SELLER):
        if number % HOSTS_PER_SELLER == 0:
            seller_id = await made(RegisterParty(command_id=next_id(), tax_id=f"S{number}"))
        host_id = await made(ListHost(command_id=next_id(), party_id=seller_id, instrument=INSTRUMENT, spec=spec))
        await made(CheckHost(command_id=next_id(), host_id=host_id, is_verified=True))
        ask = PlaceAsk(
            command_id=next_id(),
            party_id=seller_id,
            offers=(HostOffer(host_id, GPUS_PER_HOST),),
            price_micros=BASE_MICROS + number * TICK_MICROS,
        )
        assert (await node.submit(ask)).seq > 0


def top_up(command_id: str, party_id: int, micros: int = TOP_UP_MICROS) -> CreditTopUp:
    """Return a top-up in US$."""
    return CreditTopUp(
        command_id=command_id, party_id=party_id, currency=Currency.USD, micros=micros, provider="stripe"
    )


def counter_id(connection: psycopg.Connection[Any]) -> int:
    """Return the party that only tops up."""
    row = connection.execute("SELECT party_id FROM bursa.parties WHERE tax_id = %s", (COUNTER,)).fetchone()
    assert row is not None
    return int(row[0])


class Mix:
    """Makes commands from a seed and from what the read tables say now (`refresh`)."""

    def __init__(self, seed: int, name: str, first: int) -> None:
        self._rng = Random(seed)
        self._name = name
        self._number = first
        self._buyers: list[int] = []
        self._counter = 0
        self._asks: list[tuple[int, int, int]] = []
        self._bids: list[tuple[int, int]] = []
        self._rentals: list[tuple[int, str, int]] = []
        self.is_loaded = False

    def load(self, connection: psycopg.Connection[Any]) -> None:
        """Read what never changes: parties, asks."""
        self._counter = counter_id(connection)
        self._buyers = [n for (n,) in connection.execute("SELECT party_id FROM bursa.parties WHERE tax_id LIKE 'B%'")]
        asks = connection.execute(
            "SELECT order_id, party_id, terms FROM bursa.orders WHERE side = 'SELL' ORDER BY order_id"
        ).fetchall()
        self._asks = [(order_id, _terms(terms).offers[0].host_id, party_id) for order_id, party_id, terms in asks]
        assert len(self._asks) == SELLERS * HOSTS_PER_SELLER, self._asks
        self.refresh(connection)
        self.is_loaded = True

    def refresh(self, connection: psycopg.Connection[Any]) -> None:
        """Read what is to be done: rentals whose next step is due, bids that rest."""
        self._rentals = connection.execute(
            "SELECT rental_id, state, buyer_id FROM bursa.rentals WHERE state <> 'WIPED' ORDER BY random() LIMIT 60"
        ).fetchall()
        self._bids = connection.execute(
            "SELECT order_id, party_id FROM bursa.orders WHERE side = 'BUY' AND closed_at_ns = 0"
            " ORDER BY random() LIMIT 40"
        ).fetchall()

    def __iter__(self) -> Iterator[Command]:
        return self

    def __next__(self) -> Command:
        dice = self._rng.random()
        command_id = f"{self._name}-{self._number}"
        self._number += 1
        if self._rentals and dice < 0.35:
            return _next_step(command_id, *self._rentals.pop())
        if dice < 0.55:
            return self._bid(command_id, BASE_MICROS * 2, TimeInForce.IOC)
        if dice < 0.65:
            return self._bid(command_id, BASE_MICROS - self._rng.randint(1, 500) * TICK_MICROS, TimeInForce.GTC)
        if self._bids and dice < 0.75:
            order_id, party_id = self._bids.pop()
            return CancelOrder(command_id=command_id, party_id=party_id, order_id=order_id)
        if dice < 0.85:
            order_id, host_id, seller_id = self._rng.choice(self._asks)
            return AmendAsk(
                command_id=command_id,
                party_id=seller_id,
                order_id=order_id,
                price_micros=BASE_MICROS + self._rng.randrange(100) * TICK_MICROS,
                offers=(HostOffer(host_id, GPUS_PER_HOST),),
            )
        if dice < 0.88:  # refused: nobody has this number
            return CancelOrder(command_id=command_id, party_id=self._buyers[0], order_id=10**9)
        return top_up(command_id, self._counter)

    def _bid(self, command_id: str, limit_micros: int, time_in_force: TimeInForce) -> PlaceBid:
        rng = self._rng
        return PlaceBid(
            command_id=command_id,
            party_id=rng.choice(self._buyers),
            instrument=INSTRUMENT,
            gpus=rng.choice((1, 1, 2, 4)),
            hours=rng.randint(1, 24),
            limit_micros=limit_micros,
            time_in_force=time_in_force,
        )


def _next_step(command_id: str, rental_id: int, state: str, buyer_id: int) -> Command:
    """Return what brings a rental one step nearer to its end; by the time it arrives, another may have done it."""
    if state == "OPENED":
        return StartRental(command_id=command_id, rental_id=rental_id)
    if state == "STARTED":
        return StopRental(command_id=command_id, party_id=buyer_id, rental_id=rental_id)
    return ReportWiped(command_id=command_id, rental_id=rental_id)
