"""Operations about the service itself: is it alive, can it take commands, how does it do, what can it do."""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from bursa import wire
from bursa.api.operation import JSON_MEDIA, Call, Operation, Raw
from bursa.api.problems import ProblemError
from bursa.ops import metrics
from bursa.wire import Scope

_RETRY_READY_S: Final = 1


async def _show_health(call: Call) -> object:
    """Tell that the process answers."""
    node = call.exchange.node
    return wire.Health("ok", node.seq, node.epoch, node.detail)


async def _show_readiness(call: Call) -> object:
    """Tell that the process can take commands, or refuse."""
    node = call.exchange.node
    if not node.is_ready:
        raise ProblemError("NOT_READY", node.detail, retry_after_s=_RETRY_READY_S)
    return wire.Health("ready", node.seq, node.epoch, node.detail)


async def _show_metrics(_call: Call) -> object:
    """Show every metric of this process."""
    return Raw(metrics.render(), metrics.CONTENT_TYPE)


async def _show_document(_call: Call) -> object:
    """Show the OpenAPI document."""
    return Raw(_document(), JSON_MEDIA)


@cache
def _document() -> bytes:
    # The document is made from the table that this row stands in, so it can only be asked for later.
    from bursa.api.document import openapi  # noqa: PLC0415 - see above

    return msgspec.json.encode(openapi())


SERVICE_OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        method="GET",
        path="/v1/health",
        name="show_health",
        tag="service",
        summary="Tell that the process answers",
        carry=_show_health,
        answer=wire.Health,
    ),
    Operation(
        method="GET",
        path="/v1/ready",
        name="show_readiness",
        tag="service",
        summary="Tell whether the exchange can take commands",
        carry=_show_readiness,
        answer=wire.Health,
        problems=("NOT_READY",),
    ),
    Operation(
        method="GET",
        path="/v1/metrics",
        name="show_metrics",
        tag="service",
        summary="Show metrics in the Prometheus text format",
        description="For this machine itself without a key; from elsewhere with an operator's key.",
        carry=_show_metrics,
        answer=str,
        scopes=(Scope.ADMIN,),
        is_operators=True,
        is_open_to_loopback=True,
        media=("text/plain",),
    ),
    Operation(
        method="GET",
        path="/v1/openapi.json",
        name="show_document",
        tag="service",
        summary="Show this document",
        carry=_show_document,
        answer=dict,
    ),
)
