"""The real Engine on the plain stream.

A sell is an ask on a host of its own, a buy is a bid for lots of one GPU for one hour. Every unit traded is a rental
with its own hold and journal entries, so this is far more work than a plain book does; it is here to show that the
engine agrees with the referee trade for trade, and what all of it costs.
"""

from typing import Any, Final

from benchmarks.market.engine import INSTRUMENT, Market
from benchmarks.market.measure import timed
from benchmarks.market.plain import BUY, Fill, make_stream
from bursa.market import (
    CancelOrder,
    CheckHost,
    Command,
    CreditTopUp,
    HostOffer,
    HostSpec,
    ListHost,
    ListInstrument,
    OpenBook,
    Outcome,
    PlaceAsk,
    PlaceBid,
    Placed,
    RegisterParty,
    SetTaxProfile,
    Side,
    TaxProfile,
    Trade,
    VatScheme,
)
from bursa.money import Currency

TICK_MICROS: Final = 1_000
#: A host has at most 16 GPUs, so sizes stop there.
SIZE_MAX: Final = 16


def measure_mapped(ops: int, seed: int) -> dict[str, Any]:
    """Play the stream through the engine; parties, hosts and commands are made before the clock starts."""
    stream, referee = make_stream(ops, seed, SIZE_MAX)
    market = Market(seed)
    buyer = market.made(RegisterParty(command_id="buyer"))
    seller = market.made(RegisterParty(command_id="seller"))
    profile = TaxProfile("DE", VatScheme.DOMESTIC, 190_000)
    market.must(SetTaxProfile(command_id="tax", party_id=buyer, profile=profile))
    market.must(
        CreditTopUp(command_id="funds", party_id=buyer, currency=Currency.USD, micros=10**14, provider="stripe")
    )
    market.must(ListInstrument(command_id="list", instrument=INSTRUMENT))
    market.must(OpenBook(command_id="open", instrument=INSTRUMENT))
    commands: list[Command | int] = []
    for order_id, side, price, size in stream:
        if not size:
            commands.append(order_id)
        elif side == BUY:
            commands.append(PlaceBid(
                command_id=f"o{order_id}", party_id=buyer, instrument=INSTRUMENT, gpus=1, hours=1, lots=size,
                limit_micros=price * TICK_MICROS,
            ))  # fmt: skip
        else:
            spec = HostSpec(gpus=size, country="DE", region="EU")
            host = market.made(ListHost(command_id=f"h{order_id}", party_id=seller, instrument=INSTRUMENT, spec=spec))
            market.must(CheckHost(command_id=f"k{order_id}", host_id=host))
            commands.append(PlaceAsk(
                command_id=f"o{order_id}", party_id=seller, offers=(HostOffer(host, size),),
                price_micros=price * TICK_MICROS,
            ))  # fmt: skip
    outcomes: list[Outcome] = []
    theirs: dict[int, int] = {}
    sides = {op.order_id: op.side for op in stream}
    with timed() as span:
        for op, command in zip(stream, commands, strict=True):
            if isinstance(command, int):
                party_id = buyer if sides[command] == BUY else seller
                cancel = CancelOrder(command_id=f"x{command}", party_id=party_id, order_id=theirs[command])
                outcomes.append(market.apply(cancel))
                continue
            outcome = market.apply(command)
            outcomes.append(outcome)
            result = outcome.result
            assert isinstance(result, Placed), (command, result)
            theirs[op.order_id] = result.order_id
    fills = _fills(outcomes, {number: order_id for order_id, number in theirs.items()})
    return {
        "contender": "bursa Engine",
        "ops": ops,
        "seconds": span.wall,
        "cpu_seconds": span.cpu,
        "ops_per_second": ops / span.wall,
        "trades": len(referee.fills),
        "rentals": sum(fill.size for fill in referee.fills),
        "agrees": fills == referee.fills,
    }


def _fills(outcomes: list[Outcome], ids: dict[int, int]) -> list[Fill]:
    """Return the trades of single lots joined to fills between two orders, as a plain book reports them."""
    fills: list[Fill] = []
    for outcome in outcomes:
        last: tuple[int, int] | None = None
        for event in outcome.events:
            if not isinstance(event, Trade):
                continue
            taker, maker = (event.bid_id, event.ask_id) if event.taker is Side.BUY else (event.ask_id, event.bid_id)
            price = event.price_micros // TICK_MICROS
            if last == (taker, maker):
                fills[-1] = fills[-1]._replace(size=fills[-1].size + 1)
            else:
                fills.append(Fill(ids[taker], ids[maker], price, 1))
            last = (taker, maker)
    return fills
