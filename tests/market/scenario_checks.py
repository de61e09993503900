"""Forms of scenario lines that look: results behind `->`, effects below a command, and `expect` lines.

Role: each compares what a line says with what the engine answered, did or holds, and fails with both.
Docs: docs/reference/scenario-format.md, which a test holds to these tables.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, get_args

from bursa.market.commands import Command
from bursa.market.events import AuctionHeld, Event, Outcome, Placed, Rejected
from bursa.market.state import Ask
from bursa.market.types import EntryKind, JournalEntry, OrderState, Posting, Rejection, Trade
from tests.market.scenario_commands import read_filters, read_posting
from tests.market.scenario_grammar import Fields, Form, Place, match_form, read_clock_ns, show_clock, show_micros
from tests.market.scenario_names import START_NS, Names
from tests.market.scenario_world import World

# ---- results ---------------------------------------------------------------------------------------------------------

OK_FORM: Final = Form(
    "ok[ {state:word}][ filled {filled:int}][ leaves {leaves:int}][ canceled {canceled:int}]", lambda: None
)
REPEATED_FORM: Final = Form("repeated", lambda: None)
REFUSED_FORM: Final = Form(
    "{code:word}[ field {field:word}][ shortfall {shortfall:money} {currency:word}]", lambda: None
)
RESULT_FORMS: Final = (OK_FORM, REPEATED_FORM, REFUSED_FORM)


def check_result(place: Place, text: str, command: Command, outcome: Outcome, *, is_repeated: bool) -> None:
    """Compare the result that a line expects with the one that came."""
    form = OK_FORM if re.match(r"ok\b", text) else REPEATED_FORM if text == "repeated" else REFUSED_FORM
    _form, fields = match_form([form], place, text)
    if form is OK_FORM and fields.has("state") and fields.text("state") not in tuple(OrderState):
        raise place.error("state", fields.text("state"), f"one of {', '.join(OrderState)}")
    got = show_result(outcome, command, is_repeated=is_repeated)
    if form is REFUSED_FORM and fields.text("code") not in tuple(Rejection):
        raise place.error("result", text, f"ok, repeated or one of {', '.join(Rejection)}")
    if form is REPEATED_FORM:
        is_right = is_repeated
    elif form is OK_FORM:
        is_right = not isinstance(outcome.result, Rejected) and not is_repeated and _is_placed_as(fields, outcome)
    else:
        is_right = isinstance(outcome.result, Rejected) and _is_refused_as(fields, command, outcome.result)
    if not is_right:
        raise place.mismatch("the command had another result", text, got)


def show_result(outcome: Outcome, command: Command, *, is_repeated: bool) -> str:
    """Write a result as a scenario would."""
    result = outcome.result
    if is_repeated:
        return "repeated"
    if isinstance(result, Rejected):
        parts = [result.code, f" field {result.field}" if result.field else ""]
        if result.shortfall_micros:
            parts.append(f" shortfall {show_micros(result.shortfall_micros)} {getattr(command, 'currency', 'USD')}")
        return "".join(parts) + (f" (it wants {result.expected})" if result.expected else "")
    if isinstance(result, Placed):
        lots = f"filled {result.filled_lots} leaves {result.leaves_lots} canceled {result.canceled_lots}"
        return f"ok {result.state} {lots}"
    return "ok"


def _is_placed_as(fields: Fields, outcome: Outcome) -> bool:
    result = outcome.result
    if not isinstance(result, Placed):
        return not any(value is not None for value in fields.texts.values())
    return (
        fields.text("state", result.state) == result.state
        and fields.number("filled", result.filled_lots) == result.filled_lots
        and fields.number("leaves", result.leaves_lots) == result.leaves_lots
        and fields.number("canceled", result.canceled_lots) == result.canceled_lots
    )


def _is_refused_as(fields: Fields, command: Command, result: Rejected) -> bool:
    return (
        fields.text("code") == result.code
        and fields.text("field", result.field) == result.field
        and fields.micros("shortfall", result.shortfall_micros) == result.shortfall_micros
        and (not fields.has("currency") or fields.text("currency") == getattr(command, "currency", "USD"))
    )


# ---- effects ---------------------------------------------------------------------------------------------------------

_Effect: TypeAlias = Callable[[World, Fields, tuple[Event, ...]], None]
EFFECT_FORMS: Final[list[Form[None]]] = []


def _effect(template: str) -> Callable[[_Effect], _Effect]:
    def add(build: _Effect) -> _Effect:
        EFFECT_FORMS.append(Form(template, build))
        return build

    return add


def check_effects(world: World, effects: Sequence[tuple[Place, str]], events: tuple[Event, ...]) -> None:
    """Compare the indented lines below a command with the events that it and the Ticks with it caused."""
    lines = [(place, *match_form(EFFECT_FORMS, place, text)) for place, text in effects]
    _check_trades(world, [fields for _place, form, fields in lines if form.build is _trade], events)
    _check_postings(world, [fields for _place, form, fields in lines if form.build is _post], events)
    for _place, form, fields in lines:
        form.build(world, fields, events)


@_effect(
    "trade {bid:name} x {ask:name} on {host:name}: {gpus:int} GPU(s) x {hours:int} h at {price:money}"
    "[ opens {rental:name}]"
)
def _trade(_world: World, _fields: Fields, _events: tuple[Event, ...]) -> None:
    """Do nothing: all trades of a command are checked together."""


@_effect("post {posting:text}")
def _post(_world: World, _fields: Fields, _events: tuple[Event, ...]) -> None:
    """Do nothing: all postings of a command are checked together; `post nothing` if there are none."""


@_effect("with {posting:text}")
def _with(_world: World, _fields: Fields, _events: tuple[Event, ...]) -> None:
    """Do nothing: the postings of `operator posts` were read with the command."""


@_effect("no trade")
def _no_trade(world: World, fields: Fields, events: tuple[Event, ...]) -> None:
    trades = [show_trade(event, world.names) for event in events if isinstance(event, Trade)]
    if trades:
        raise fields.place.mismatch("there were trades", "none", trades)


@_effect("entries {kinds:text}")
def _entries(_world: World, fields: Fields, events: tuple[Event, ...]) -> None:
    expected = [kind.strip() for kind in fields.text("kinds").split(",")]
    if unknown := [kind for kind in expected if kind not in tuple(EntryKind)]:
        raise fields.place.error("entries", unknown[0], f"of {', '.join(EntryKind)}")
    got = [str(event.kind) for event in events if isinstance(event, JournalEntry)]
    if expected != got:
        raise fields.place.mismatch("other journal entries", ", ".join(expected), ", ".join(got))


@_effect("auction at {price:money}: {volume:int} GPU-hours, imbalance {imbalance:int}[, unfilled {unfilled:text}]")
def _auction(world: World, fields: Fields, events: tuple[Event, ...]) -> None:
    names = world.names
    auctions = [event for event in events if isinstance(event, AuctionHeld)]
    got = [
        f"auction at {show_micros(a.price_micros)}: {a.gpu_hours} GPU-hours, imbalance {a.imbalance_gpus}"
        + (
            f", unfilled {' and '.join(names.name_of('order', bid) for bid in a.unfilled_bids)}"
            if a.unfilled_bids
            else ""
        )
        for a in auctions
    ]
    unfilled = fields.text("unfilled")
    expected = (
        f"auction at {show_micros(fields.micros('price'))}: {fields.number('volume')} GPU-hours,"
        f" imbalance {fields.number('imbalance')}" + (f", unfilled {unfilled}" if unfilled else "")
    )
    if expected not in got:
        raise fields.place.mismatch("no such auction", expected, got)


@_effect("event {type:word}[: {facts:text}]")
def _event(world: World, fields: Fields, events: tuple[Event, ...]) -> None:
    found = _events_of(fields, events)
    facts = [part.strip() for part in fields.text("facts").split(",")] if fields.has("facts") else []
    shown = [_event_facts(event, world.names) for event in found]
    if not any(all(fact in event_facts for fact in facts) for event_facts in shown):
        others = [", ".join(event_facts) for event_facts in shown] or sorted({type(event).__name__ for event in events})
        raise fields.place.mismatch("no such event", fields.place.text, others)


@_effect("no event {type:word}")
def _no_event(world: World, fields: Fields, events: tuple[Event, ...]) -> None:
    found = [", ".join(_event_facts(event, world.names)) for event in _events_of(fields, events)]
    if found:
        raise fields.place.mismatch("there was such an event", "none", found)


def _events_of(fields: Fields, events: tuple[Event, ...]) -> list[Event]:
    """Return the events of the type that a line names; a name that is none must not pass as absent."""
    names = [kind.__name__ for kind in get_args(Event)]
    if fields.text("type") not in names:
        raise fields.place.error("event", fields.text("type"), f"one of {', '.join(names)}")
    return [event for event in events if type(event).__name__ == fields.text("type")]


def show_trade(trade: Trade, names: Names) -> str:
    """Write a trade as a scenario would, without the name of its rental."""
    bid, ask = names.name_of("order", trade.bid_id), names.name_of("order", trade.ask_id)
    lot = f"{trade.gpus} GPU x {trade.hours} h at {show_micros(trade.price_micros)}"
    return f"trade {bid} x {ask} on {names.name_of('host', trade.host_id)}: {lot}"


def show_posting(posting: Posting, names: Names) -> str:
    """Write a posting as a scenario would."""
    side, micros = ("debit", posting.debit_micros) if posting.debit_micros else ("credit", posting.credit_micros)
    return f"{posting.currency} {names.account_name(posting.account)} {side} {show_micros(micros)}"


def _check_trades(world: World, lines: list[Fields], events: tuple[Event, ...]) -> None:
    """Compare all trades, in their order, and give the rentals their names."""
    if not lines:
        return
    trades = [event for event in events if isinstance(event, Trade)]
    expected = [
        f"trade {f.text('bid')} x {f.text('ask')} on {f.text('host')}: {f.number('gpus')} GPU x {f.number('hours')} h"
        f" at {show_micros(f.micros('price'))}"
        for f in lines
    ]
    got = [show_trade(trade, world.names) for trade in trades]
    if expected != got:
        raise lines[0].place.mismatch("other trades", expected, got)
    for fields, trade in zip(lines, trades, strict=True):
        if fields.has("rental"):
            world.names.bind(fields.place, "rental", fields.text("rental"), trade.rental_id)


def _check_postings(world: World, lines: list[Fields], events: tuple[Event, ...]) -> None:
    """Compare all postings in any order; where one is written, all must be."""
    if not lines:
        return
    names = world.names
    texts = [(f.place, f.text("posting")) for f in lines if f.text("posting") != "nothing"]
    expected = Counter(show_posting(read_posting(place, text, names), names) for place, text in texts)
    entries = [event for event in events if isinstance(event, JournalEntry)]
    got = Counter(show_posting(posting, names) for entry in entries for posting in entry.postings)
    if expected != got:
        missing, surplus = sorted((expected - got).elements()), sorted((got - expected).elements())
        raise lines[0].place.mismatch(
            "other postings",
            f"{sum(expected.values())} postings; not found: {'; '.join(missing) or 'none'}",
            f"{sum(got.values())} postings; not in the scenario: {'; '.join(surplus) or 'none'}",
        )


def _event_facts(event: Event, names: Names) -> list[str]:
    """Write an event's fields as `rental r1`, `penalty 0.864`, `ends at 4:00:00`, `reason host_lost`."""
    kinds = {"party_id": "party", "buyer_id": "party", "seller_id": "party", "host_id": "host", "rental_id": "rental"}
    kinds |= {"order_id": "order", "bid_id": "order", "ask_id": "order"}
    facts = []
    for name in event.__struct_fields__:
        value = getattr(event, name)
        words = name.removesuffix("_id").removesuffix("_micros").removesuffix("_ns").replace("_", " ")
        if name in kinds:
            value = names.name_of(kinds[name], value)
        elif name.endswith("_micros"):
            value = show_micros(value)
        elif name.endswith("_ns"):
            value = show_clock(value - START_NS) if value >= START_NS else value
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        facts.append(f"{words} {value}")
    return facts


# ---- expectations ----------------------------------------------------------------------------------------------------

_Expect: TypeAlias = Callable[[World, Fields], list[tuple[str, object, object]]]
EXPECT_FORMS: Final[list[Form[list[tuple[str, object, object]]]]] = []


def _expect(template: str) -> Callable[[_Expect], _Expect]:
    def add(build: _Expect) -> _Expect:
        EXPECT_FORMS.append(Form(f"expect {template}", build))
        return build

    return add


def check_expectation(world: World, place: Place, body: str) -> None:
    """Compare an `expect` line with the engine's present state."""
    form, fields = match_form(EXPECT_FORMS, place, body)
    for what, expected, got in form.build(world, fields):
        if expected != got:
            raise place.mismatch(f"another {what}", expected, got)


@_expect("wallet {party:name} {currency:word} available {available:money}[ held {held:money}]")
def _wallet(world: World, f: Fields) -> list[tuple[str, object, object]]:
    party_id = world.names.id_of(f.place, "party", f.text("party"))
    currency = f.currency()
    available = world.engine.available(party_id, currency)
    held = sum(hold.micros for hold in world.engine.holds() if hold.party_id == party_id and hold.currency == currency)
    return [
        ("available balance", show_micros(f.micros("available")), show_micros(available)),
        ("held balance", show_micros(f.micros("held", held)), show_micros(held)),
    ]


@_expect("balance {currency:word} {account:word}[:{owner:text}] {side:name} {amount:money}")
def _balance(world: World, f: Fields) -> list[tuple[str, object, object]]:
    if f.text("side") not in ("debit", "credit"):
        raise f.place.error("side", f.text("side"), "debit or credit")
    account = f.text("account") + (f":{f.text('owner')}" if f.has("owner") else "")
    micros = world.engine.balance(world.names.account_id(f.place, account), f.currency())
    got = -micros if f.text("side") == "debit" else micros
    return [(f"{f.text('side')} balance", show_micros(f.micros("amount")), show_micros(got))]


@_expect("no holds")
def _no_holds(world: World, _fields: Fields) -> list[tuple[str, object, object]]:
    return [("list of holds", (), world.engine.holds())]


@_expect("order {order:name} {state:word}[ filled {filled:int}][ leaves {leaves:int}][ canceled {canceled:int}]")
def _order(world: World, f: Fields) -> list[tuple[str, object, object]]:
    order_id = world.names.id_of(f.place, "order", f.text("order"))
    order = world.engine.order(order_id)
    if isinstance(order, Ask):
        raise f.place.error(
            "order", f.text("order"), "a bid, or an ask that is closed; `expect ask` for one that stands"
        )
    if order is not None:
        state, filled, leaves, canceled = (
            str(order.state),
            order.filled,
            order.leaves,
            order.lots - order.filled - order.leaves,
        )
    else:
        closed = world.closed.get(order_id)
        if closed is None:
            raise f.place.mismatch("no such order", f.text("order"), "an order that is neither open nor closed")
        state, filled, leaves, canceled = str(closed.state), closed.filled_lots, 0, closed.canceled_lots
    return [
        ("state", f.text("state"), state),
        ("number filled", f.number("filled", filled), filled),
        ("number left", f.number("leaves", leaves), leaves),
        ("number canceled", f.number("canceled", canceled), canceled),
    ]


@_expect("ask {order:name} {leaves:int} GPU(s) at {price:money}")
def _ask(world: World, f: Fields) -> list[tuple[str, object, object]]:
    order = world.engine.order(world.names.id_of(f.place, "order", f.text("order")))
    if not isinstance(order, Ask):
        return [("ask", "a standing ask", order)]
    leaves = 0
    for offer in order.offers:
        host = world.engine.host(offer.host_id)
        leaves += host.leaves(offer.gpus) if host is not None else 0
    return [
        ("number of GPUs left", f.number("leaves"), leaves),
        ("price", show_micros(f.micros("price")), show_micros(order.price_micros)),
    ]


@_expect("rental {rental:name} {state:word}[ {reason:word}][ {charged:int} hour(s)][ until {clock:clock}]")
def _rental(world: World, f: Fields) -> list[tuple[str, object, object]]:
    rental_id = world.names.id_of(f.place, "rental", f.text("rental"))
    record, rental = world.rentals.get(rental_id), world.engine.rental(rental_id)
    if record is None:
        raise f.place.mismatch("no such rental", f.text("rental"), "a rental that was never opened")
    if rental is not None:
        assert (rental.state, rental.charged_hours) == (record.state, record.charged_hours), (rental, record)
    ends = show_clock(record.ends_at_ns - START_NS) if record.ends_at_ns else "not started"
    return [
        ("state", f.text("state"), str(record.state)),
        ("reason", f.text("reason", record.reason), record.reason),
        ("number of charged hours", f.number("charged", record.charged_hours), record.charged_hours),
        ("end", show_clock(read_clock_ns(f.text("clock"))) if f.has("clock") else ends, ends),
    ]


@_expect("host {host:name} {state:word}[ reliability {reliability:int}]")
def _host(world: World, f: Fields) -> list[tuple[str, object, object]]:
    host = world.engine.host(world.names.id_of(f.place, "host", f.text("host")))
    if host is None:
        return [("state", f.text("state"), "RETIRED")]
    return [
        ("state", f.text("state"), str(host.state)),
        ("reliability", f.number("reliability", host.reliability), host.reliability),
    ]


@_expect("book {instrument:word} {state:word}")
def _book(world: World, f: Fields) -> list[tuple[str, object, object]]:
    book = world.engine.book(f.text("instrument"))
    return [("state of the book", f.text("state"), str(book.state) if book is not None else "not listed")]


def _levels(levels: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{show_micros(price)} x {gpus}" for price, gpus in levels) or "none"


@_expect("bids[ of {instrument:word}]: {levels:text}")
def _bids(world: World, f: Fields) -> list[tuple[str, object, object]]:
    instrument = world.names.instrument(f.place, f.text("instrument"))
    return [("list of bids", f.text("levels"), _levels(world.engine.depth(instrument).bids))]


@_expect("asks[ of {instrument:word}]: {levels:text}")
def _asks(world: World, f: Fields) -> list[tuple[str, object, object]]:
    instrument = world.names.instrument(f.place, f.text("instrument"))
    return [("list of asks", f.text("levels"), _levels(world.engine.depth(instrument).asks))]


@_expect(
    "best {gpus:int} GPU(s)[ x {hours:int} h][ of {instrument:word}][ for {party:name}][ with {options:text}]"
    " = {ask:text}"
)
def _best(world: World, f: Fields) -> list[tuple[str, object, object]]:
    names = world.names
    options = [part.strip() for part in f.text("options").split(",")] if f.has("options") else []
    best = world.engine.best_ask(
        names.instrument(f.place, f.text("instrument")),
        gpus=f.number("gpus"),
        hours=f.number("hours", 1),
        filters=read_filters(f.place, options, names),
        party_id=names.id_of(f.place, "party", f.text("party")) if f.has("party") else 0,
        at_ns=world.now_ns,
    )
    got = "none"
    if best is not None:
        order, host = names.name_of("order", best.order_id), names.name_of("host", best.host_id)
        got = f"{order} on {host} at {show_micros(best.price_micros)}"
    return [("best ask", f.text("ask"), got)]


@_expect("indicative[ of {instrument:word}] {price:money}, {volume:int} GPU-hours, imbalance {imbalance:int}")
def _indicative(world: World, f: Fields) -> list[tuple[str, object, object]]:
    shown = world.engine.indicative(world.names.instrument(f.place, f.text("instrument")))
    return [
        ("indicative price", show_micros(f.micros("price")), show_micros(shown.price_micros)),
        ("indicative volume", f.number("volume"), shown.gpu_hours),
        ("indicative imbalance", f.number("imbalance"), shown.imbalance_gpus),
    ]


@_expect("next due at {clock:clock}")
def _next_due(world: World, f: Fields) -> list[tuple[str, object, object]]:
    expected = show_clock(read_clock_ns(f.text("clock")))
    return [("next due time", expected, show_clock(world.engine.next_due_ns - START_NS))]
