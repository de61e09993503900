"""Calls about quotes, bids and asks. In the examples, ``client`` is a `Client` of a renter and ``seller`` of a seller.

Every changing call takes an ``idempotency_key``: the same key with the same content gives the same answer and is
carried out once. Without one the client makes its own, which covers its own retries but not yours.
"""

from __future__ import annotations

from collections.abc import Iterable

from bursa.market import OrderState, Side
from bursa.sdk.call import Call, change, read, segment
from bursa.wire import (
    AskAmendment,
    AskRequest,
    BatchAnswer,
    BatchItem,
    BatchRequest,
    BidAmendment,
    BidRequest,
    Order,
    OrderPage,
    Quote,
)


def quote_bid(bid: BidRequest) -> Call[Quote]:
    """Tell what a bid would cost now, tax included, and what the wallet lacks for it. Nothing is reserved or changed.

    >>> quote = client.quote_bid(BidRequest(instrument="h100-sxm", gpus=1, hours=2, limit_price="3.00"))
    >>> quote.hold.amount
    '7.14'
    """
    return Call("POST", "/v1/quotes", Quote, body=bid)


def place_bid(bid: BidRequest, *, idempotency_key: str | None = None) -> Call[Order]:
    """Place a bid; the answer says what was filled at once. ApiError INSUFFICIENT_FUNDS has the shortfall.

    >>> bid = BidRequest(instrument="h100-sxm", gpus=1, hours=1, limit_price="1.00")
    >>> order = client.place_bid(bid, idempotency_key="monday-1")
    >>> print(order.state, order.leaves)
    NEW 1
    >>> client.place_bid(bid, idempotency_key="monday-1").id == order.id
    True
    """
    return change("POST", "/v1/orders", Order, bid, idempotency_key)


def place_many(items: Iterable[BatchItem], *, idempotency_key: str | None = None) -> Call[BatchAnswer]:
    """Place and cancel up to 1,000 orders in one request, in this order, each with its own result.

    >>> bid = BidRequest(instrument="h100-sxm", gpus=1, hours=1, limit_price="0.90")
    >>> answer = client.place_many([BatchItem(bid=bid), BatchItem(cancel="ord_999999")])
    >>> [result.order is not None for result in answer.results]
    [True, False]
    """
    return change("POST", "/v1/orders:batch", BatchAnswer, BatchRequest(items=list(items)), idempotency_key)


def list_orders(
    *,
    side: Side | None = None,
    state: OrderState | str | None = None,
    instrument: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[OrderPage]:
    """Return a page of your orders, newest first; ``state`` is "open", "closed" or one state.

    `iterate_orders` gives them all.

    >>> all(order.leaves for order in client.list_orders(state="open").items)
    True
    """
    return read("/v1/orders", OrderPage, side=side, state=state, instrument=instrument, limit=limit, cursor=cursor)


def show_order(order: str) -> Call[Order]:
    """Return one of your orders with its fills.

    >>> newest = client.list_orders(limit=1).items[0]
    >>> client.show_order(newest.id).id == newest.id
    True
    """
    return read(f"/v1/orders/{segment(order, 'order')}", Order)


def amend_bid(order: str, amendment: BidAmendment, *, idempotency_key: str | None = None) -> Call[Order]:
    """Change limit and lots of an open bid. Another limit or more lots loses its time priority.

    >>> bid = client.place_bid(BidRequest(instrument="h100-sxm", gpus=1, hours=1, limit_price="0.80"))
    >>> client.amend_bid(bid.id, BidAmendment(limit_price="0.85", lots=1)).price
    '0.85'
    """
    return change("PATCH", f"/v1/orders/{segment(order, 'order')}", Order, amendment, idempotency_key)


def cancel_order(order: str, *, idempotency_key: str | None = None) -> Call[Order]:
    """Cancel what is left of a bid or an ask; what it held is released. Rentals that it opened go on.

    >>> bid = client.place_bid(BidRequest(instrument="h100-sxm", gpus=1, hours=1, limit_price="0.80"))
    >>> print(client.cancel_order(bid.id).state)
    CANCELED
    """
    return change("DELETE", f"/v1/orders/{segment(order, 'order')}", Order, None, idempotency_key)


def place_ask(ask: AskRequest, *, idempotency_key: str | None = None) -> Call[Order]:
    """Offer hours of your hosts' GPUs at a price.

    >>> host = seller.list_host(HostRequest(instrument="h100-sxm", spec=HostFacts(gpus=8, country="DE")))
    >>> _ = operator.check_host(host.id)  # by the operator, once it has passed its check
    >>> ask = seller.place_ask(AskRequest(offers=[Offer(host=host.id, gpus=1)], price="9.00"))
    >>> print(ask.side, ask.price)
    SELL 9.00
    """
    return change("POST", "/v1/asks", Order, ask, idempotency_key)


def amend_ask(order: str, amendment: AskAmendment, *, idempotency_key: str | None = None) -> Call[Order]:
    """Change price and offers of an ask. Another price, more GPUs or another host loses its time priority.

    >>> ask = seller.list_orders(side=Side.SELL, state="open").items[0]
    >>> seller.amend_ask(ask.id, AskAmendment(price="8.50", offers=ask.offers)).price
    '8.50'
    """
    return change("PATCH", f"/v1/asks/{segment(order, 'order')}", Order, amendment, idempotency_key)
