"""Plain limit orders against a foreign oracle: PyPI's pyorderbook, another author's price-time book.

Where nothing of a host matters, bursa's book is a plain one: a bid is q lots of 1 GPU for 1 hour, an ask q GPUs of a
host of its own, and no rental ends. Then every trade must be the one that pyorderbook makes: the same maker and taker,
the same price, the same size, in the same order.
"""

from dataclasses import dataclass, field
from typing import Final

import pyorderbook
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.market import Engine, MarketRules, Outcome, Placed, Side, Trade, audit
from bursa.market import commands as c
from bursa.market.types import HostOffer, HostSpec
from tests.market.strategies import H100, Pick, World, one_of, picked, proof, seeded

RULES: Final = MarketRules(
    bid_band_percent=100_000, ask_band_percent=0, halt_move_percent=100_000, open_orders_max=100_000
)
GPUS_MAX: Final = 16
TICK: Final = 1_000


@dataclass(frozen=True)
class Match:
    """Trades of one maker with one taker, added up."""

    maker: int
    taker: int
    price_micros: int
    size: int


@dataclass
class Pair:
    """The same orders in both books; an order's number is the engine's order id."""

    world: World
    buyer: int
    seller: int
    theirs: pyorderbook.Book = field(default_factory=pyorderbook.Book)
    orders: dict[int, pyorderbook.Order] = field(default_factory=dict)

    @classmethod
    def new(cls) -> "Pair":
        world = World(Engine(RULES))
        world.open()
        return cls(world, world.party(usd=50_000_000), world.party(usd=0))

    def buy(self, size: int, price_micros: int) -> list[Match]:
        outcome = self.world.bid(self.buyer, price_micros, lots=size)
        return self.agree(outcome, pyorderbook.bid(H100, price_micros, size))

    def sell(self, size: int, price_micros: int) -> list[Match]:
        spec = HostSpec(size, "DE", "EU")
        host_id = self.world.make(c.ListHost, party_id=self.seller, instrument=H100, spec=spec)
        self.world.do(c.CheckHost, host_id=host_id)
        offers = (HostOffer(host_id, size),)
        outcome = self.world.do(c.PlaceAsk, party_id=self.seller, offers=offers, price_micros=price_micros)
        return self.agree(outcome, pyorderbook.ask(H100, price_micros, size))

    def agree(self, outcome: Outcome, order: pyorderbook.Order) -> list[Match]:
        assert isinstance(outcome.result, Placed)
        number = outcome.result.order_id
        self.orders[number] = order
        numbers = {known.id: known_number for known_number, known in self.orders.items()}
        theirs = [
            Match(numbers[trade.standing_order_id], number, int(trade.fill_price), trade.fill_quantity)
            for trade in self.theirs.match(order).trades
        ]
        ours = matches(outcome)
        assert ours == theirs
        assert outcome.result.filled_lots == sum(match.size for match in theirs)
        assert outcome.result.leaves_lots == order.quantity
        return ours

    def cancel(self, number: int) -> None:
        order = self.orders[number]
        party_id = self.buyer if order.side is pyorderbook.Side.BID else self.seller
        self.world.do(c.CancelOrder, party_id=party_id, order_id=number)
        self.theirs.cancel(order)
        del self.orders[number]

    def resting(self) -> list[int]:
        """Orders of which something is left."""
        return [number for number, order in self.orders.items() if order.quantity]


def matches(outcome: Outcome) -> list[Match]:
    """Add up trades that follow each other between the same two orders at the same price."""
    found: list[Match] = []
    for trade in outcome.events:
        if not isinstance(trade, Trade):
            continue
        taker, maker = (trade.bid_id, trade.ask_id) if trade.taker is Side.BUY else (trade.ask_id, trade.bid_id)
        match = Match(maker, taker, trade.price_micros, trade.gpus)
        if found and (found[-1].maker, found[-1].taker, found[-1].price_micros) == (maker, taker, trade.price_micros):
            match = Match(maker, taker, trade.price_micros, found.pop().size + trade.gpus)
        found.append(match)
    return found


def run(pick: Pick, commands: int) -> int:
    """Send limits and cancels to both; return how many matches both made."""
    pair, count = Pair.new(), 0
    for _ in range(commands):
        resting = pair.resting()
        if resting and pick(4) == 3:
            pair.cancel(one_of(pick, resting))
            continue
        send = pair.sell if pick(2) else pair.buy
        count += len(send(1 + pick(GPUS_MAX), (1_000 + pick(12)) * TICK))
    assert audit(pair.world.engine) == ()
    return count


@pytest.mark.slow
@proof(60)
@given(st.data())
def test_short_streams_agree(data: st.DataObject) -> None:
    run(picked(data), data.draw(st.integers(1, 40)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_long_streams_agree(seed: int) -> None:
    assert run(seeded(seed), 1_500) > 500


def last_first(queue: pyorderbook.OrderQueue) -> pyorderbook.Order:
    return list(queue.values())[-1]


def test_a_book_without_time_priority_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyorderbook.OrderQueue, "peek", last_first)
    with pytest.raises(AssertionError):
        run(seeded(0), 300)
