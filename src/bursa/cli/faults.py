"""What went wrong, in one or two lines for people and one code for scripts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Final

from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError

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
#: Least top-up that exchanges take, in the currency of the wallet.
TOP_UP_MIN: Final = Decimal("5.00")
_CENT: Final = Decimal("0.01")
_NO_KEY: Final = 401
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
    "NOTHING_TO_FILL": "see what is on sale: bursa gpus list --on-sale",
    "PRICE_OUT_OF_BAND": "see today's prices: bursa market status",
    "EXISTS_WITH_DIFFERENT_FIELDS": "this idempotency key was used for another request: take a new one",
    "TOO_MANY_OPEN_ORDERS": "cancel some: bursa orders list --state open",
    "PARTY_IN_DEBT": "add funds: bursa wallet top-up",
    "TOP_UPS_UNAVAILABLE": "ask the operator how to add funds",
}


def judge(fault: BursaError, line: Sequence[str] = ()) -> tuple[Exit, list[str]]:
    """Return the exit code of a fault and the lines to say; ``line`` is the command line that led to it."""
    match fault:
        case ApiError():
            code = _CODES.get(fault.problem_code) or _STATUSES.get(fault.status)
            if code is None:
                code = Exit.AWAY if fault.status >= _SERVER_FAULT else Exit.USAGE
            return code, _api_lines(fault, line)
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
    match fault:
        case UnusedCliTokensError():
            words = f"nothing more is expected here: {shlex.join(fault.unused_tokens or ())}"
        case MissingArgumentError() if fault.argument is not None and fault.argument.token_count()[0] == 1:
            name = fault.keyword or fault.argument.name
            words = f"{name} needs a value" if fault.keyword or fault.argument.tokens else f"{name} is required"
        case _:
            words = " ".join(str(fault).split())
    command = " ".join(["bursa", *(fault.command_chain or ())])
    return [f"error: {words}", f"next: {command} --help"]


def _api_lines(fault: ApiError, line: Sequence[str]) -> list[str]:
    """Return title, then each wrong field with its value and what would be right; the detail only where none is."""
    told = "; ".join(_field(error) for error in fault.errors[:FIELDS_MAX])
    if fault.problem_code == "INSUFFICIENT_FUNDS" and fault.shortfall:
        told = f"{_lacking(fault.shortfall)} {fault.shortfall.get('currency')} more are needed"
    said = ": ".join(part for part in (fault.title, told or fault.detail) if part)
    said = " ".join(said.split()) or f"the exchange answered {fault.status}"
    near = "".join(f"; did you mean {name}?" for name in getattr(fault, "__notes__", ()))
    lines = [f"error: {said}{near} [{fault.problem_code}]"]
    if step := _next_step(fault, line):
        lines.append(f"next: {step}")
    return lines


def _field(error: Mapping[str, object]) -> str:
    expected = str(error.get("expected"))
    value = f"got {error['value']}, " if error.get("value") is not None else ""
    if expected.endswith(("a GPU of yours", "an instrument of yours")):
        return f"GPU: {value}expected the name of a GPU in the catalog"
    return f"{error.get('field')}: {value}expected {expected}"


def _lacking(shortfall: Mapping[str, object]) -> str:
    """Return what is missing, rounded up to whole cents: less would not do."""
    return str(Decimal(str(shortfall.get("amount"))).quantize(_CENT, ROUND_CEILING))


def _next_step(fault: ApiError, line: Sequence[str]) -> str:
    if fault.problem_code == "INSUFFICIENT_FUNDS" and fault.shortfall:
        amount = max(Decimal(_lacking(fault.shortfall)), TOP_UP_MIN)
        return f"add funds: bursa wallet top-up {amount} --currency {fault.shortfall.get('currency', 'USD')}"
    if fault.retry_after_s:
        return f"try again in {fault.retry_after_s:g} s"
    if fault.status >= _SERVER_FAULT and fault.trace_id:
        return f"tell the operator this trace id: {fault.trace_id}"
    if line[:1] == ("login",) and fault.status == _NO_KEY:
        return "check that the key is whole and of this exchange; it was not kept"
    if fault.problem_code == "NOTHING_TO_FILL" and len(line) > 1 and not line[1].startswith("-"):
        return f"see the offers: bursa market show {shlex.quote(line[1])}{_waiting(line)}"
    return _NEXT.get(fault.problem_code, "")


def _waiting(line: Sequence[str]) -> str:
    """Return the purchase as a bid that waits, where its flags are those of a bid and none is a secret."""
    if any(word.startswith(("--key", "--max-cost", "--idempotency-key")) for word in line) or line[0] != "buy":
        return ""
    words = ["bid", *(word.replace("--max-price", "--price", 1) for word in line[1:])]
    return f"; or wait for one: bursa {shlex.join(words)}"
