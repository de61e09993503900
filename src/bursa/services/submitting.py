"""From a command to its answer: submit it, and tell a refusal in the words of the wire.

The market speaks of micro-units and nanoseconds; whoever called speaks of decimals and of times. Ids that are unknown
and ids of others' things get one and the same answer.
"""

from __future__ import annotations

import re
from typing import Final

from bursa.market import Command, Rejected, Rejection
from bursa.money import Currency
from bursa.sequencer import Answer
from bursa.services.exchange import Exchange, NotFoundError, RefusedError
from bursa.wire import show_amount, show_id, show_micros, show_time

#: What a field of a command is called on the wire, where that differs.
WIRE_FIELDS: Final = {
    "as_of_ns": "as_of",
    "cap_micros": "cap",
    "command_id": "Idempotency-Key",
    "expires_at_ns": "expires_at",
    "filters.is_verified_only": "filters.verified_only",
    "host_id": "host",
    "limit_micros": "limit_price",
    "micros": "amount",
    "mid_micros": "rate",
    "offers.host_id": "offers.host",
    "opens_at_ns": "opens_at",
    "order_id": "id",
    "party_id": "party",
    "payout_id": "id",
    "price_micros": "price",
    "profile.country": "tax.country",
    "profile.evidence": "tax.evidence",
    "profile.rule_version": "tax.rule_version",
    "profile.vat_ppm": "tax.vat_percent",
    "reference_micros": "reference_price",
    "refund_id": "id",
    "rental_id": "id",
    "until_ns": "until",
}
#: Fields whose texts count micro-units.
_MONEY_FIELDS: Final = frozenset(
    {"limit_micros", "price_micros", "reference_micros", "cap_micros", "micros", "currency"}
)
_UNKNOWN: Final = {
    Rejection.UNKNOWN_ORDER: "order",
    Rejection.UNKNOWN_RENTAL: "rental",
    Rejection.UNKNOWN_HOST: "host",
    Rejection.UNKNOWN_PARTY: "party",
    Rejection.UNKNOWN_TRANSFER: "transfer",
}
#: The field of a command that holds the id in the path of a request, by the kind of what it names.
_PATH_FIELDS: Final = {
    "order_id": "order",
    "rental_id": "rental",
    "host_id": "host",
    "party_id": "party",
    "refund_id": "transfer",
    "payout_id": "transfer",
}
#: A number that counts micro-units or nanoseconds; not one of hours ("96 h") or of a power ("10^6").
_NUMBER: Final = re.compile(r"(?<![\d^.])\d+(?![\d^.]| h\b)")
_US_DOLLARS: Final = re.compile(r"([\d.]+)( to )?([\d.]+)? micro-US\$")


async def submit(exchange: Exchange, command: Command, *, is_fresh: bool) -> Answer:
    """Return the answer to a command that was carried out; raise what refused it."""
    answer = await exchange.node.submit(command, is_fresh=is_fresh)
    if isinstance(answer.result, Rejected):
        raise refusal_of(answer.result, command)
    return answer


def refusal_of(result: Rejected, command: Command) -> RefusedError | NotFoundError:
    """Return the error that tells a refusal of a command."""
    field = result.field
    value = _value(command, field)
    if field == "command_id":  # made of the party and what the client sent: only that is the client's
        value = str(value).partition(":")[2]
    code = result.code
    if field in _PATH_FIELDS and (code is Rejection.NOT_YOURS or code in _UNKNOWN):
        kind = _PATH_FIELDS[field]
        return NotFoundError(kind, show_id(kind, value) if isinstance(value, int) else str(value))
    expected = result.expected
    if code in {Rejection.NOT_YOURS, Rejection.UNKNOWN_HOST}:
        # A host is the one thing of others that a body can name: one answer, whether it exists or not.
        code, expected = Rejection.UNKNOWN_HOST, "the id of a host of yours"
    if field in _PATH_FIELDS:
        value = show_id(_PATH_FIELDS[field], value) if isinstance(value, int) else value
    shortfall = None
    if result.shortfall_micros:
        shortfall = show_amount(result.shortfall_micros, Currency(getattr(command, "currency", Currency.USD)))
    return RefusedError(
        code.value, WIRE_FIELDS.get(field, field), _show_value(field, value), _translate(field, expected),
        shortfall=shortfall,
    )  # fmt: skip


def _value(command: Command, field: str) -> object:
    """Return the value of a (nested) field; "" where the refusal names none, or a list."""
    value: object = command
    for name in field.split("."):
        value = getattr(value, name, "")
    return value if isinstance(value, int | str) else ""


def _show_value(field: str, value: object) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if field.endswith("_ns"):
        at = show_time(value)
        return at.isoformat() if at else "none"
    return show_micros(value) if field in _MONEY_FIELDS else value


def _translate(field: str, expected: str) -> str:
    """Return what would be right with decimals for micro-units and times for nanoseconds."""
    if field.endswith("_ns"):
        return _NUMBER.sub(lambda number: _show_ns(int(number[0])), expected)
    if field not in _MONEY_FIELDS:
        return expected
    shown = _NUMBER.sub(lambda number: show_micros(int(number[0])), expected)
    shown = _US_DOLLARS.sub(_dollars, shown)
    return shown.replace("(reference ", "(reference US$").replace(" micro-units", "")


def _dollars(match: re.Match[str]) -> str:
    low, to, high = match.groups()
    return f"US${low}{to}US${high}" if to and high else f"US${low}"


def _show_ns(number: int) -> str:
    at = show_time(number)
    # Small numbers count something else than time.
    return at.isoformat().replace("+00:00", "Z") if at and number >= 10**15 else str(number)
