"""One mapping from errors to RFC 9457 problems: status, type, title. Codes are stable; docs/reference/problems.md."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from bursa.errors import (
    BursaError,
    DatabaseUnavailableError,
    InputError,
    NotLeaderError,
    QueueFullError,
    UnavailableError,
)
from bursa.services.exchange import ForbiddenError, NotFoundError, RefusedError, UnauthenticatedError
from bursa.wire import FieldError, Problem

#: Every code that the services give: its HTTP status and its title.
PROBLEMS: Final[dict[str, tuple[int, str]]] = {
    # Who you are and what you may do.
    "UNAUTHENTICATED": (401, "No valid key"),
    "KEY_EXPIRED": (401, "The key has expired"),
    "KEY_REVOKED": (401, "The key was revoked"),
    "FORBIDDEN": (403, "The key may not do this"),
    "PARTY_SUSPENDED": (403, "The party is suspended"),
    "PARTY_IN_DEBT": (403, "The party is in debt"),
    "SPENDING_CAP_REACHED": (403, "The key's daily cap is reached"),
    "TOP_UPS_UNAVAILABLE": (403, "No top-ups here"),
    # Money.
    "INSUFFICIENT_FUNDS": (402, "Insufficient funds"),
    "CURRENCY_NOT_FUNDED": (402, "The currency was never funded"),
    # What is not there, or not as it would have to be.
    "NOT_FOUND": (404, "Not found"),
    "BOOK_CLOSED": (409, "The book is closed"),
    "BOOK_HALTED": (409, "The book is halted"),
    "ORDER_ALREADY_CLOSED": (409, "The order is closed"),
    "RENTAL_ALREADY_ENDED": (409, "The rental is over"),
    "NOTHING_TO_FILL": (409, "Nothing can be filled now"),
    "HOST_HAS_NO_FREE_GPUS": (409, "The host has no free GPUs"),
    "HOST_NOT_HEALTHY": (409, "The host may not sell now"),
    "HOST_ALREADY_OFFERED": (409, "The host stands in another ask"),
    "ASK_WITHDRAWN": (409, "The ask was withdrawn"),
    "NO_CANCEL_PERIOD": (409, "Orders are firm until the opening"),
    "WRONG_STATE": (409, "Not in this state"),
    "EXISTS_WITH_DIFFERENT_FIELDS": (409, "The Idempotency-Key was used for another request"),
    "TOO_MANY_OPEN_ORDERS": (409, "Too many open orders"),
    "LIMIT_REACHED": (409, "A limit is reached"),
    "NO_RATE": (409, "No current exchange rate"),
    "NO_TAX_PROFILE": (409, "The party has no tax profile"),
    "EVENTS_TOO_OLD": (409, "The events are too old to follow on from"),
    # What was sent.
    "INVALID_CURSOR": (400, "The cursor is not one of this list"),
    "INVALID_FIELD": (422, "A field is not right"),
    "UNKNOWN_INSTRUMENT": (422, "No such instrument"),
    "UNKNOWN_HOST": (422, "No such host"),
    "UNKNOWN_PARTY": (422, "No such party"),
    "UNKNOWN_ORDER": (422, "No such order"),
    "UNKNOWN_RENTAL": (422, "No such rental"),
    "UNKNOWN_TRANSFER": (422, "No such transfer"),
    "PRICE_NOT_ON_TICK": (422, "The price is not on the tick"),
    "PRICE_OUT_OF_BAND": (422, "The price is out of band"),
    "QUANTITY_OUT_OF_RANGE": (422, "The quantity is out of range"),
    "HOURS_OUT_OF_RANGE": (422, "The hours are out of range"),
    "AMOUNT_OUT_OF_RANGE": (422, "The amount is out of range"),
    "EXPIRES_TOO_LATE": (422, "It would end too late"),
    "EXPIRES_TOO_EARLY": (422, "It would end too early"),
    "ENTRY_NOT_ALLOWED": (422, "The entry is not allowed"),
    # Not now.
    "UNAVAILABLE": (503, "The exchange cannot take this now"),
    "QUEUE_FULL": (503, "Too much waits"),
    "NOT_LEADER": (503, "Nobody leads the exchange now"),
    "DATABASE_UNAVAILABLE": (503, "The database does not answer"),
    "INTERNAL": (500, "A fault of ours"),
}
#: Longest value that a problem shows, in characters.
VALUE_CHARS_MAX: Final = 80
#: When to ask again while the database is away, in seconds.
DATABASE_RETRY_S: Final = 1


def problem_type(code: str) -> str:
    """Return the URI of a code."""
    return f"urn:bursa:problem:{code.lower().replace('_', '-')}"


def problem_of(error: BursaError, *, trace_id: str = "") -> Problem:
    """Return the problem that an error is to whoever called; a fault of ours tells nothing but the trace id."""
    for kind, tell in _TELLERS:
        if isinstance(error, kind):
            return tell(error, trace_id)
    return _problem("INTERNAL", trace_id=trace_id)


def _problem(
    code: str, detail: str = "", *, trace_id: str, errors: list[FieldError] | None = None, retry_after_s: int = 0
) -> Problem:
    status, title = PROBLEMS[code]
    return Problem(
        type=problem_type(code),
        title=title,
        status=status,
        code=code,
        detail=detail,
        trace_id=trace_id,
        errors=errors or [],
        retry_after_s=retry_after_s,
    )


def _tell_refused(error: BursaError, trace_id: str) -> Problem:
    assert isinstance(error, RefusedError), error
    status, title = PROBLEMS[error.problem_code]
    return Problem(
        type=problem_type(error.problem_code),
        title=title,
        status=status,
        code=error.problem_code,
        detail=f"Expected {error.expected}." if error.expected else "",
        trace_id=trace_id,
        errors=_fields(error),
        shortfall=error.shortfall,
    )


def _fields(error: BursaError) -> list[FieldError]:
    if not error.field:
        return []
    value = None if error.value is None or error.value == "" else str(error.value)[:VALUE_CHARS_MAX]
    return [FieldError(error.field, error.expected, value)]


def _tell_input(error: BursaError, trace_id: str) -> Problem:
    return _problem("INVALID_FIELD", f"Expected {error.expected}.", trace_id=trace_id, errors=_fields(error))


def _tell_unauthenticated(error: BursaError, trace_id: str) -> Problem:
    assert isinstance(error, UnauthenticatedError), error
    return _problem(error.problem_code, f"Expected {error.expected}.", trace_id=trace_id)


def _tell_forbidden(error: BursaError, trace_id: str) -> Problem:
    return _problem("FORBIDDEN", f"Expected {error.expected}.", trace_id=trace_id, errors=_fields(error))


def _tell_not_found(error: BursaError, trace_id: str) -> Problem:
    return _problem("NOT_FOUND", f"Expected {error.expected}.", trace_id=trace_id, errors=_fields(error))


def _tell_unavailable(error: BursaError, trace_id: str) -> Problem:
    assert isinstance(error, UnavailableError), error
    code = "UNAVAILABLE"
    if isinstance(error, QueueFullError):
        code = "QUEUE_FULL"
    elif isinstance(error, NotLeaderError):
        code = "NOT_LEADER"
    state = "" if error.value is None or error.value == "" else f"{error.value}; "
    detail = f"{error.field}: {state}expected {error.expected}."
    return _problem(code, detail, trace_id=trace_id, retry_after_s=max(1, ceil(error.retry_after_s)))


def _tell_database(_: BursaError, trace_id: str) -> Problem:
    return _problem("DATABASE_UNAVAILABLE", trace_id=trace_id, retry_after_s=DATABASE_RETRY_S)


_TELLERS: Final[tuple[tuple[type[BursaError], Callable[[BursaError, str], Problem]], ...]] = (
    (RefusedError, _tell_refused),
    (NotFoundError, _tell_not_found),
    (ForbiddenError, _tell_forbidden),
    (UnauthenticatedError, _tell_unauthenticated),
    (UnavailableError, _tell_unavailable),
    (DatabaseUnavailableError, _tell_database),
    (InputError, _tell_input),
)
