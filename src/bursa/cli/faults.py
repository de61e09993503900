"""What went wrong, in one or two lines for people and one code for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cyclopts import CycloptsError

from bursa.cli.exits import Exit
from bursa.errors import (
    ApiError,
    BursaError,
    DataDirectoryError,
    InputError,
    LogError,
    MigrationError,
    NetworkError,
    StoreError,
    UnavailableError,
)

#: Most faulty fields that one line names.
FIELDS_MAX: Final = 3
_SERVER_FAULT: Final = 500
#: What answers mean, where the status alone does not tell it.
_CODES: Final = {
    "UNKNOWN_INSTRUMENT": Exit.NOT_FOUND,
    "UNKNOWN_HOST": Exit.NOT_FOUND,
    "UNKNOWN_ORDER": Exit.NOT_FOUND,
    "UNKNOWN_RENTAL": Exit.NOT_FOUND,
    "NOTHING_TO_FILL": Exit.NEGATIVE,
    "UNREADABLE_ANSWER": Exit.AWAY,
}
_STATUSES: Final = {
    401: Exit.FORBIDDEN,
    402: Exit.CONFLICT,
    403: Exit.FORBIDDEN,
    404: Exit.NOT_FOUND,
    408: Exit.AWAY,
    409: Exit.CONFLICT,
    410: Exit.NOT_FOUND,
    429: Exit.AWAY,
}
_NEXT: Final = {
    "UNAUTHENTICATED": "log in: bursa login",
    "KEY_EXPIRED": "make another key, then: bursa login",
    "KEY_REVOKED": "make another key, then: bursa login",
    "FORBIDDEN": "see what your key may do: bursa whoami",
    "SPENDING_CAP_REACHED": "wait for the next UTC day, or use a key with a higher cap: bursa key list",
    "CURRENCY_NOT_FUNDED": "see what your wallet holds: bursa wallet show",
    "UNKNOWN_INSTRUMENT": "see the names: bursa gpus list",
    "BOOK_CLOSED": "see which books are open: bursa market status",
    "BOOK_HALTED": "see until when: bursa market status",
    "NOTHING_TO_FILL": "see the offers: bursa market show GPU; or wait for one with: bursa bid",
    "PRICE_OUT_OF_BAND": "see today's prices: bursa market status",
    "EXISTS_WITH_DIFFERENT_FIELDS": "this idempotency key was used for another request: take a new one",
    "TOO_MANY_OPEN_ORDERS": "cancel some: bursa orders list --state open",
    "PARTY_IN_DEBT": "add funds: bursa wallet top-up",
    "TOP_UPS_UNAVAILABLE": "ask the operator how to add funds",
}


def judge(fault: BursaError) -> tuple[Exit, list[str]]:
    """Return the exit code of a fault and the lines to say."""
    match fault:
        case ApiError():
            code = _CODES.get(fault.problem_code) or _STATUSES.get(fault.status)
            if code is None:
                code = Exit.AWAY if fault.status >= _SERVER_FAULT else Exit.USAGE
            return code, _api_lines(fault)
        case NetworkError():
            hint = "next: start one with: bursa up; or name another with --url or BURSA_URL"
            return Exit.AWAY, [f"error: {fault}", hint] if "Connect" in str(fault.value) else [f"error: {fault}"]
        case DataDirectoryError():
            return Exit.CONFLICT, [f"error: {fault}"]
        case LogError() | MigrationError():
            return Exit.NEGATIVE, [f"error: {fault}"]
        case StoreError() | UnavailableError():
            return Exit.AWAY, [f"error: {fault}"]
        case InputError():
            return Exit.USAGE, [f"error: {fault}"]
        case _:
            return Exit.USAGE, [f"error: {fault}"]


def usage_lines(fault: CycloptsError) -> list[str]:
    """Return what to say about a command line that cannot be understood."""
    words = " ".join(str(fault).split())
    command = " ".join(["bursa", *(fault.command_chain or ())])
    return [f"error: {words}", f"next: {command} --help"]


def _api_lines(fault: ApiError) -> list[str]:
    said = ": ".join(part for part in (fault.title, fault.detail) if part) or f"the exchange answered {fault.status}"
    fields = [_field(error) for error in fault.errors[:FIELDS_MAX]]
    # The detail of a refusal often is the one field's sentence; it is not said twice.
    told = "; ".join(field for field in fields if field not in said)
    lines = [f"error: {' '.join(said.split())}{f' ({told})' if told else ''} [{fault.problem_code}]"]
    if step := _next_step(fault):
        lines.append(f"next: {step}")
    return lines


def _field(error: Mapping[str, object]) -> str:
    value = f", got {error['value']}" if error.get("value") is not None else ""
    return f"{error.get('field')}: expected {error.get('expected')}{value}"


def _next_step(fault: ApiError) -> str:
    if fault.problem_code == "INSUFFICIENT_FUNDS":
        lacking = fault.shortfall or {}
        amount, currency = lacking.get("amount", "AMOUNT"), lacking.get("currency", "USD")
        return f"add funds: bursa wallet top-up {amount} --currency {currency}"
    if fault.retry_after_s:
        return f"try again in {fault.retry_after_s:g} s"
    if fault.status >= _SERVER_FAULT and fault.trace_id:
        return f"tell the operator this trace id: {fault.trace_id}"
    return _NEXT.get(fault.problem_code, "")
