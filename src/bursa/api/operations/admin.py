"""Operations of the operator: books, parties, rates, hosts, transfers. All need an operator's key with scope admin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from bursa import services, wire
from bursa.api.operation import Carry, Operation
from bursa.api.queries import PageQuery
from bursa.wire import Scope


def _operation(
    method: str,
    path: str,
    name: str,
    summary: str,
    carry: Carry,
    answer: type[msgspec.Struct],
    **more: Any,  # noqa: ANN401 - members of Operation
) -> Operation:
    """Return a row with what all of the operator's operations have in common."""
    more.setdefault("is_command", method != "GET")
    return Operation(
        method=method,
        path=path,
        name=name,
        tag="operator",
        summary=summary,
        carry=carry,
        answer=answer,
        scopes=(Scope.ADMIN,),
        is_operators=True,
        **more,
    )


def _on(use_case: Callable[..., Awaitable[object]], name: str) -> Carry:
    """Return what carries out a use case on the thing that a path parameter names."""
    return lambda c: use_case(c.exchange, c.actor, c.path[name], idempotency_key=c.idempotency_key)


def _on_with_body(use_case: Callable[..., Awaitable[object]], name: str) -> Carry:
    """Return the same for a use case that also takes the request's body."""
    return lambda c: use_case(c.exchange, c.actor, c.path[name], c.body, idempotency_key=c.idempotency_key)


_TAX: Final = {"country": "DE", "scheme": "DOM", "vat_percent": "19"}
_BOOK: Final = ("WRONG_STATE", "UNKNOWN_INSTRUMENT")

ADMIN_OPERATIONS: Final[tuple[Operation, ...]] = (
    _operation(
        "POST",
        "/v1/admin/instruments",
        "list_instrument",
        "List an instrument, or set its reference price",
        lambda c: services.list_instrument(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        wire.Done,
        body=wire.InstrumentRequest,
        example={"instrument": "h100-sxm", "reference_price": "2.88"},
        problems=("PRICE_OUT_OF_BAND", "PRICE_NOT_ON_TICK", "LIMIT_REACHED"),
    ),
    _operation(
        "POST",
        "/v1/admin/books/{book}/preopen",
        "preopen_book",
        "Let orders rest before the market opens",
        _on_with_body(services.preopen_book, "book"),
        wire.Done,
        body=wire.PreopenRequest,
        example={"opens_at": "2026-12-01T12:00:00Z"},
        problems=(*_BOOK, "EXPIRES_TOO_EARLY", "EXPIRES_TOO_LATE"),
    ),
    _operation(
        "POST",
        "/v1/admin/books/{book}/open",
        "open_book",
        "Open a book by an auction",
        _on(services.open_book, "book"),
        wire.Done,
        problems=_BOOK,
    ),
    _operation(
        "POST",
        "/v1/admin/books/{book}/halt",
        "halt_book",
        "Halt a book",
        _on(services.halt_book, "book"),
        wire.Done,
        problems=_BOOK,
    ),
    _operation(
        "POST",
        "/v1/admin/books/{book}/resume",
        "resume_book",
        "Resume a halted book by an auction",
        _on(services.resume_book, "book"),
        wire.Done,
        problems=_BOOK,
    ),
    _operation(
        "GET",
        "/v1/admin/parties",
        "list_parties",
        "List parties",
        lambda c: services.list_parties(c.exchange, c.actor, limit=c.query.limit, cursor=c.query.cursor),
        wire.PartyPage,
        query=PageQuery,
    ),
    _operation(
        "POST",
        "/v1/admin/parties",
        "register_party",
        "Register a party",
        lambda c: services.register_party(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        wire.PartyView,
        status=201,
        location=lambda party: f"/v1/admin/parties/{party.id}",
        body=wire.PartyRequest,
        example={"name": "Anna GmbH", "tax_id": "DE123456789", "tax": _TAX},
        problems=("LIMIT_REACHED",),
    ),
    _operation(
        "GET",
        "/v1/admin/parties/{party}",
        "show_party",
        "Show a party",
        lambda c: services.show_party(c.exchange, c.actor, c.path["party"]),
        wire.PartyView,
    ),
    _operation(
        "PUT",
        "/v1/admin/parties/{party}/tax",
        "set_tax_profile",
        "Decide the tax of a party's future purchases",
        _on_with_body(services.set_tax_profile, "party"),
        wire.PartyView,
        body=wire.TaxRequest,
        example=_TAX,
    ),
    _operation(
        "POST",
        "/v1/admin/parties/{party}/suspend",
        "suspend_party",
        "Suspend a party: its orders are canceled, its rentals run on",
        _on(services.suspend_party, "party"),
        wire.PartyView,
        problems=("WRONG_STATE",),
    ),
    _operation(
        "POST",
        "/v1/admin/parties/{party}/reinstate",
        "reinstate_party",
        "Lift a suspension",
        _on(services.reinstate_party, "party"),
        wire.PartyView,
        problems=("WRONG_STATE",),
    ),
    _operation(
        "POST",
        "/v1/admin/parties/{party}/keys",
        "create_party_key",
        "Make a key for a party",
        lambda c: services.create_party_key(c.exchange, c.actor, c.path["party"], c.body),
        wire.NewKey,
        status=201,
        body=wire.KeyRequest,
        example={"name": "first key", "scopes": ["read", "trade", "fund", "sell", "admin"]},
        is_command=False,
        problems=("LIMIT_REACHED",),
    ),
    _operation(
        "POST",
        "/v1/admin/rates",
        "import_rates",
        "Import the ECB's reference rates",
        lambda c: services.import_rates(c.exchange, c.actor, c.body, idempotency_key=c.idempotency_key),
        wire.Done,
        body=wire.RatesRequest,
        example={"source": "ECB", "rates": [{"currency": "USD", "rate": "1.0862", "as_of": "2026-11-27"}]},
        problems=("AMOUNT_OUT_OF_RANGE", "WRONG_STATE", "EXPIRES_TOO_EARLY", "EXPIRES_TOO_LATE"),
    ),
    _operation(
        "POST",
        "/v1/admin/hosts/{host}/check",
        "check_host",
        "Record that a host passed its check",
        _on_with_body(services.check_host, "host"),
        wire.Done,
        body=wire.CheckRequest,
        example={"is_verified": True},
        problems=("WRONG_STATE", "QUANTITY_OUT_OF_RANGE", "HOST_ALREADY_OFFERED"),
    ),
    _operation(
        "POST",
        "/v1/admin/hosts/{host}/suspend",
        "suspend_host",
        "Take a host off the market until it passes a check",
        _on(services.suspend_host, "host"),
        wire.Done,
        problems=("WRONG_STATE",),
    ),
    _operation(
        "POST",
        "/v1/admin/rentals/{rental}/end",
        "end_rental",
        "End a rental",
        _on_with_body(services.end_rental, "rental"),
        wire.Done,
        body=wire.EndRentalRequest,
        example={"reason": "policy"},
        problems=("RENTAL_ALREADY_ENDED", "WRONG_STATE"),
    ),
    _operation(
        "POST",
        "/v1/admin/transfers/{transfer}/settle",
        "settle_transfer",
        "Record that a refund or payout was paid",
        _on(services.settle_transfer, "transfer"),
        wire.Done,
        problems=("WRONG_STATE",),
    ),
    _operation(
        "POST",
        "/v1/admin/transfers/{transfer}/return",
        "return_transfer",
        "Record that a refund or payout came back",
        _on(services.return_transfer, "transfer"),
        wire.Done,
        problems=("WRONG_STATE",),
    ),
    _operation(
        "GET",
        "/v1/admin/status",
        "show_status",
        "Show how the exchange stands",
        lambda c: services.status(c.exchange, c.actor),
        wire.Status,
    ),
)
