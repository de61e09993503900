"""Operations of renters: orders, rentals, and the stream of one's own happenings."""

from __future__ import annotations

from typing import Final

from bursa import services, wire
from bursa.api.operation import SSE_MEDIA, Operation
from bursa.api.queries import OrdersQuery, RentalsQuery
from bursa.wire import Scope

_BOOK: Final = ("BOOK_CLOSED", "BOOK_HALTED", "NO_CANCEL_PERIOD")
_PRICE: Final = ("PRICE_NOT_ON_TICK", "PRICE_OUT_OF_BAND")
_FUNDS: Final = ("INSUFFICIENT_FUNDS", "CURRENCY_NOT_FUNDED", "NO_RATE", "AMOUNT_OUT_OF_RANGE", "SPENDING_CAP_REACHED")
_STANDING: Final = ("PARTY_SUSPENDED", "PARTY_IN_DEBT", "NO_TAX_PROFILE")
_PLACING: Final = (
    *_BOOK[:2],
    *_PRICE,
    *_FUNDS,
    *_STANDING,
    "UNKNOWN_INSTRUMENT",
    "QUANTITY_OUT_OF_RANGE",
    "HOURS_OUT_OF_RANGE",
    "EXPIRES_TOO_LATE",
    "EXPIRES_TOO_EARLY",
    "TOO_MANY_OPEN_ORDERS",
    "NOTHING_TO_FILL",
    "LIMIT_REACHED",
)
_BID: Final = {"instrument": "h100-sxm", "gpus": 1, "hours": 24, "limit_price": "2.88"}

TRADING_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="POST",
        path="/v1/orders",
        name="place_bid",
        tag="orders",
        summary="Place a bid",
        description="The answer is durable, and tells what was filled at once.",
        carry=lambda c: services.place_bid(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        answer=wire.Order,
        status=201,
        location=lambda order: f"/v1/orders/{order.id}",
        scopes=(Scope.TRADE,),
        body=wire.BidRequest,
        example=_BID,
        is_command=True,
        problems=_PLACING,
    ),
    Operation(
        method="GET",
        path="/v1/orders",
        name="list_orders",
        tag="orders",
        summary="List one's orders, newest first",
        carry=lambda c: services.list_orders(
            c.exchange,
            c.actor,
            side=c.query.side,
            state=c.query.state,
            instrument=c.query.instrument,
            limit=c.query.limit,
            cursor=c.query.cursor,
        ),
        answer=wire.OrderPage,
        scopes=(Scope.READ,),
        query=OrdersQuery,
    ),
    Operation(
        method="POST",
        path="/v1/orders:batch",
        name="place_many",
        tag="orders",
        summary="Place and cancel many orders at once",
        description=(
            "At most 1,000 items, carried out in this order, each with its own status and answer. An item costs a tenth"
            " of what a request costs. With an Idempotency-Key, items without one of their own take theirs from it."
        ),
        carry=lambda c: services.place_many(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        answer=wire.BatchAnswer,
        scopes=(Scope.TRADE,),
        body=wire.BatchRequest,
        example={"items": [{"bid": _BID, "idempotency_key": "first"}, {"cancel": "ord_17"}]},
        is_command=True,
        items_of=lambda batch: len(batch.items),
        problems=("SPENDING_CAP_REACHED",),
    ),
    Operation(
        method="GET",
        path="/v1/orders/{order}",
        name="show_order",
        tag="orders",
        summary="Show an order with its fills",
        carry=lambda c: services.show_order(c.exchange, c.actor, c.path["order"]),
        answer=wire.Order,
        scopes=(Scope.READ,),
    ),
    Operation(
        method="PATCH",
        path="/v1/orders/{order}",
        name="amend_bid",
        tag="orders",
        summary="Amend a bid",
        description="Another limit or more lots loses time priority.",
        carry=lambda c: services.amend_bid(
            c.exchange, c.actor, c.path["order"], c.body, idempotency_key=c.idempotency_key
        ),
        answer=wire.Order,
        scopes=(Scope.TRADE,),
        body=wire.BidAmendment,
        example={"limit_price": "2.95", "lots": 2},
        is_command=True,
        problems=(*_BOOK, *_PRICE, *_FUNDS, *_STANDING, "QUANTITY_OUT_OF_RANGE", "ORDER_ALREADY_CLOSED", "WRONG_STATE"),
    ),
    Operation(
        method="DELETE",
        path="/v1/orders/{order}",
        name="cancel_order",
        tag="orders",
        summary="Cancel what is left of an order",
        description="A bid needs the scope trade, an ask the scope sell.",
        carry=lambda c: services.cancel_order(c.exchange, c.actor, c.path["order"], idempotency_key=c.idempotency_key),
        answer=wire.Order,
        scopes=(Scope.TRADE, Scope.SELL),
        is_command=True,
        problems=("ORDER_ALREADY_CLOSED", "NO_CANCEL_PERIOD"),
    ),
    Operation(
        method="POST",
        path="/v1/quotes",
        name="quote_bid",
        tag="orders",
        summary="Ask what a bid would cost now",
        description="Nothing is reserved and nothing is written.",
        carry=lambda c: services.quote_bid(c.exchange, c.actor, c.body),
        answer=wire.Quote,
        scopes=(Scope.READ,),
        body=wire.BidRequest,
        example=_BID,
        problems=_PLACING,
    ),
    Operation(
        method="GET",
        path="/v1/rentals",
        name="list_rentals",
        tag="rentals",
        summary="List one's rentals, newest first",
        carry=lambda c: services.list_rentals(
            c.exchange,
            c.actor,
            role=c.query.role,
            state=c.query.state,
            limit=c.query.limit,
            cursor=c.query.cursor,
        ),
        answer=wire.RentalPage,
        scopes=(Scope.READ,),
        query=RentalsQuery,
    ),
    Operation(
        method="GET",
        path="/v1/rentals/{rental}",
        name="show_rental",
        tag="rentals",
        summary="Show a rental",
        carry=lambda c: services.show_rental(c.exchange, c.actor, c.path["rental"]),
        answer=wire.RentalView,
        scopes=(Scope.READ,),
    ),
    Operation(
        method="POST",
        path="/v1/rentals/{rental}/stop",
        name="stop_rental",
        tag="rentals",
        summary="Stop a rental as its renter",
        description="The started hour, or the ask's shortest time if longer, is charged; the rest is released.",
        carry=lambda c: services.stop_rental(c.exchange, c.actor, c.path["rental"], idempotency_key=c.idempotency_key),
        answer=wire.RentalView,
        scopes=(Scope.TRADE,),
        is_command=True,
        problems=("RENTAL_ALREADY_ENDED", "WRONG_STATE"),
    ),
    Operation(
        method="POST",
        path="/v1/rentals/{rental}/extend",
        name="extend_rental",
        tag="rentals",
        summary="Buy more hours on the same GPUs",
        carry=lambda c: services.extend_rental(
            c.exchange, c.actor, c.path["rental"], c.body, idempotency_key=c.idempotency_key
        ),
        answer=wire.RentalView,
        scopes=(Scope.TRADE,),
        body=wire.ExtendRequest,
        example={"hours": 12, "limit_price": "2.88"},
        is_command=True,
        problems=(
            *_BOOK[:2],
            *_PRICE,
            *_FUNDS,
            *_STANDING,
            "RENTAL_ALREADY_ENDED",
            "WRONG_STATE",
            "ASK_WITHDRAWN",
            "HOST_NOT_HEALTHY",
            "HOURS_OUT_OF_RANGE",
            "LIMIT_REACHED",
        ),
    ),
    Operation(
        method="PUT",
        path="/v1/rentals/{rental}/auto-extend",
        name="set_auto_extend",
        tag="rentals",
        summary="Extend a rental at each end, or not any more",
        carry=lambda c: services.set_auto_extend(
            c.exchange, c.actor, c.path["rental"], c.body, idempotency_key=c.idempotency_key
        ),
        answer=wire.RentalView,
        scopes=(Scope.TRADE,),
        body=wire.AutoExtendRequest,
        example={"hours": 24, "limit_price": "2.88", "cap": "500"},
        is_command=True,
        problems=(
            *_PRICE,
            *_STANDING[:2],
            "RENTAL_ALREADY_ENDED",
            "WRONG_STATE",
            "HOURS_OUT_OF_RANGE",
            "AMOUNT_OUT_OF_RANGE",
            "SPENDING_CAP_REACHED",
        ),
    ),
    Operation(
        method="GET",
        path="/v1/events",
        name="follow_own_events",
        tag="orders",
        summary="Follow one's orders, fills, rentals and funds",
        description=(
            "Server-sent events. Each event `own` has the place in the log as its id; with Last-Event-ID the stream"
            " goes on after it, from the log if need be. Without, it begins now."
        ),
        stream="own",
        answer=str,
        scopes=(Scope.READ,),
        media=(SSE_MEDIA,),
        events={"own": wire.OwnEvents, "problem": wire.Problem},
        problems=("TOO_MANY_STREAMS",),
    ),
)
