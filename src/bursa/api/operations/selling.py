"""Operations of sellers: hosts, asks, and taking a rented host back."""

from __future__ import annotations

from typing import Final

from bursa import services, wire
from bursa.api.operation import Operation
from bursa.api.queries import PageQuery
from bursa.wire import Scope

_OFFERS: Final = [{"host": "hst_3", "gpus": 8}]
_ASKING: Final = (
    "BOOK_CLOSED",
    "BOOK_HALTED",
    "NO_CANCEL_PERIOD",
    "PRICE_NOT_ON_TICK",
    "PRICE_OUT_OF_BAND",
    "QUANTITY_OUT_OF_RANGE",
    "PARTY_SUSPENDED",
    "PARTY_IN_DEBT",
    "UNKNOWN_HOST",
    "HOST_HAS_NO_FREE_GPUS",
    "HOST_NOT_HEALTHY",
    "HOST_ALREADY_OFFERED",
    "WRONG_STATE",
    "LIMIT_REACHED",
)

SELLING_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="POST",
        path="/v1/asks",
        name="place_ask",
        tag="selling",
        summary="Place an ask",
        carry=lambda c: services.place_ask(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        answer=wire.Order,
        status=201,
        location=lambda order: f"/v1/orders/{order.id}",
        scopes=(Scope.SELL,),
        body=wire.AskRequest,
        example={"offers": _OFFERS, "price": "2.88", "min_hours": 4},
        is_command=True,
        problems=(
            *_ASKING,
            "HOURS_OUT_OF_RANGE",
            "EXPIRES_TOO_LATE",
            "EXPIRES_TOO_EARLY",
            "TOO_MANY_OPEN_ORDERS",
        ),
    ),
    Operation(
        method="PATCH",
        path="/v1/asks/{order}",
        name="amend_ask",
        tag="selling",
        summary="Amend an ask",
        description="Another price, more GPUs or another host loses time priority.",
        carry=lambda c: services.amend_ask(
            c.exchange, c.actor, c.path["order"], c.body, idempotency_key=c.idempotency_key
        ),
        answer=wire.Order,
        scopes=(Scope.SELL,),
        body=wire.AskAmendment,
        example={"price": "2.80", "offers": _OFFERS},
        is_command=True,
        problems=(*_ASKING, "ORDER_ALREADY_CLOSED"),
    ),
    Operation(
        method="GET",
        path="/v1/hosts",
        name="list_hosts",
        tag="selling",
        summary="List one's hosts",
        carry=lambda c: services.list_hosts(c.exchange, c.actor, limit=c.query.limit, cursor=c.query.cursor),
        answer=wire.HostPage,
        scopes=(Scope.READ,),
        query=PageQuery,
    ),
    Operation(
        method="POST",
        path="/v1/hosts",
        name="list_host",
        tag="selling",
        summary="List a host for sale",
        description="It can sell once it has passed its check.",
        carry=lambda c: services.list_host(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        answer=wire.HostView,
        status=201,
        location=lambda host: f"/v1/hosts/{host.id}",
        scopes=(Scope.SELL,),
        body=wire.HostRequest,
        example={"instrument": "h100-sxm", "spec": {"gpus": 8, "country": "DE", "vcpus": 192, "ram_gib": 1536}},
        is_command=True,
        problems=("UNKNOWN_INSTRUMENT", "QUANTITY_OUT_OF_RANGE", "PARTY_SUSPENDED", "PARTY_IN_DEBT", "LIMIT_REACHED"),
    ),
    Operation(
        method="GET",
        path="/v1/hosts/{host}",
        name="show_host",
        tag="selling",
        summary="Show a host",
        carry=lambda c: services.show_host(c.exchange, c.actor, c.path["host"]),
        answer=wire.HostView,
        scopes=(Scope.READ,),
    ),
    Operation(
        method="DELETE",
        path="/v1/hosts/{host}",
        name="retire_host",
        tag="selling",
        summary="Take a host off the exchange for good",
        carry=lambda c: services.retire_host(c.exchange, c.actor, c.path["host"], idempotency_key=c.idempotency_key),
        answer=wire.HostView,
        scopes=(Scope.SELL,),
        is_command=True,
        problems=("WRONG_STATE", "HOST_ALREADY_OFFERED", "UNKNOWN_HOST"),
    ),
    Operation(
        method="POST",
        path="/v1/rentals/{rental}/reclaim",
        name="reclaim_rental",
        tag="selling",
        summary="Take a rented host back, against a penalty",
        carry=lambda c: services.reclaim_rental(
            c.exchange, c.actor, c.path["rental"], idempotency_key=c.idempotency_key
        ),
        answer=wire.RentalView,
        scopes=(Scope.SELL,),
        is_command=True,
        problems=("RENTAL_ALREADY_ENDED", "WRONG_STATE"),
    ),
)
