"""Many bids and cancels in one request, applied in their order, each with its own answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bursa.errors import BursaError, InputError, QueueFullError
from bursa.market import CancelOrder, PlaceBid, Rejected
from bursa.sequencer import Answer
from bursa.services import spending as caps
from bursa.services.exchange import Actor, Exchange, NotFoundError, RefusedError, Reply, command_ids, require
from bursa.services.orders import bid_command, cost_of
from bursa.services.orderviews import find_orders, order_of_answer, order_of_row
from bursa.services.problems import problem_of
from bursa.services.submitting import refusal_of
from bursa.wire import BatchAnswer, BatchItem, BatchRequest, BatchResult, Scope, parse_id, show_id

_CREATED = 201
_OK = 200


@dataclass(slots=True)
class _Item:
    """One item on its way: a command, or the error that it ended with."""

    command: PlaceBid | CancelOrder | None = None
    is_fresh: bool = False
    error: BursaError | None = None
    answer: Answer | None = None


async def place_many(
    exchange: Exchange, actor: Actor, request: BatchRequest, *, idempotency_key: str | None = None
) -> Reply[BatchAnswer]:
    """Place and cancel bids in the order of the items. An item without a key of its own takes it from the request's.

    Raises only what concerns all items: the scope, or an exchange that takes no commands now.
    """
    require(actor, Scope.TRADE)
    command_ids(actor, idempotency_key)
    items = [_read(actor, item, idempotency_key, place) for place, item in enumerate(request.items)]
    await _check_cancels(exchange, actor, items)
    wishes = [(item.command.command_id, cost_of(item.command)) for item in items if isinstance(item.command, PlaceBid)]
    spending = await caps.reserve(exchange, actor, wishes)
    for item in items:
        if spending is not None and item.command is not None and item.command.command_id in spending.over:
            item.error, item.command = spending.over[item.command.command_id], None
    sent = [(item, item.command) for item in items if item.command is not None]
    if sent:
        is_fresh = all(item.is_fresh for item, _ in sent)
        try:
            answers = await exchange.node.submit_many([command for _, command in sent], is_fresh=is_fresh)
        except QueueFullError:
            await caps.settle(exchange, spending, [(command.command_id, False, False) for _, command in sent])
            raise
        outcomes: list[tuple[str, bool, bool]] = []
        for (item, command), answer in zip(sent, answers, strict=True):
            item.answer = answer
            if isinstance(command, PlaceBid):
                is_accepted = not isinstance(answer.result, Rejected)
                outcomes.append((command.command_id, is_accepted, answer.is_repeat))
        await caps.settle(exchange, spending, outcomes)
    canceled = [item.command.order_id for item in items if isinstance(item.command, CancelOrder)]
    rows = await find_orders(exchange, actor, canceled)
    is_repeat = bool(sent) and all(item.answer is not None and item.answer.is_repeat for item, _ in sent)
    return Reply(BatchAnswer([_result(item, rows) for item in items]), is_repeat)


def _read(actor: Actor, item: BatchItem, batch_key: str | None, place: int) -> _Item:
    """Return the command of an item, or what is wrong with it."""
    try:
        own = item.idempotency_key
        ids = command_ids(actor, own if own is not None else batch_key)
        # A key of its own makes the item the same request as if it had come alone.
        command_id = ids.of() if own is not None or batch_key is None else ids.of(str(place))
        if (item.bid is None) == (item.cancel is None):
            return _Item(error=RefusedError("INVALID_FIELD", f"items[{place}]", None, "either bid or cancel"))
        if item.bid is not None:
            return _Item(bid_command(command_id, actor.party_id, item.bid), ids.is_fresh)
        assert item.cancel is not None, item
        number = parse_id("order", item.cancel, "cancel")
        return _Item(CancelOrder(command_id=command_id, party_id=actor.party_id, order_id=number), ids.is_fresh)
    except (InputError, RefusedError) as error:
        return _Item(error=error)


async def _check_cancels(exchange: Exchange, actor: Actor, items: list[_Item]) -> None:
    """Turn cancels of what is not a bid of this party into not found: another's order is not even closed."""
    wanted = [item.command.order_id for item in items if isinstance(item.command, CancelOrder)]
    rows = await find_orders(exchange, actor, wanted)
    for item in items:
        if isinstance(item.command, CancelOrder):
            row = rows.get(item.command.order_id)
            if row is None or row.side != "BUY":
                item.error, item.command = NotFoundError("order", show_id("order", item.command.order_id)), None


def _result(item: _Item, rows: dict[int, Any]) -> BatchResult:
    error = item.error
    if item.answer is not None and item.command is not None:
        if isinstance(item.answer.result, Rejected):
            error = refusal_of(item.answer.result, item.command)
        elif isinstance(item.command, PlaceBid):
            return BatchResult(_CREATED, order_of_answer(item.answer))
        else:
            return BatchResult(_OK, order_of_row(rows[item.command.order_id]))
    assert error is not None, item
    problem = problem_of(error)
    return BatchResult(problem.status, problem=problem)
