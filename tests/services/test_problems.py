"""Every error has one problem; a fault of ours tells nothing."""

import pickle

import pytest

from bursa import errors
from bursa.market import Rejection
from bursa.money import Currency
from bursa.services import (
    PROBLEMS,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    UnauthenticatedError,
    problem_of,
    problem_type,
)
from bursa.services.submitting import WIRE_FIELDS, _translate
from bursa.wire import Amount, FieldError

CASES: list[tuple[errors.BursaError, int, str]] = [
    (RefusedError("BOOK_CLOSED", "instrument", "x", "an open one"), 409, "BOOK_CLOSED"),
    (RefusedError("INSUFFICIENT_FUNDS", "currency", "USD", "1 more"), 402, "INSUFFICIENT_FUNDS"),
    (NotFoundError("order", "ord_17"), 404, "NOT_FOUND"),
    (ForbiddenError("scopes", "read", "a key with the scope trade"), 403, "FORBIDDEN"),
    (UnauthenticatedError(), 401, "UNAUTHENTICATED"),
    (UnauthenticatedError("KEY_EXPIRED", "a key that has not expired"), 401, "KEY_EXPIRED"),
    (errors.InputError("limit_price", "x", "a decimal"), 422, "INVALID_FIELD"),
    (errors.QueueFullError("queue", 9, "room"), 503, "QUEUE_FULL"),
    (errors.NotLeaderError("leader", "", "one"), 503, "NOT_LEADER"),
    (errors.UnavailableError("exchange", "", "one"), 503, "UNAVAILABLE"),
    (errors.DatabaseUnavailableError("database", "secret dsn", "one"), 503, "DATABASE_UNAVAILABLE"),
    (errors.LogError("seq", "secret", "another"), 500, "INTERNAL"),
]


@pytest.mark.parametrize(("error", "status", "code"), CASES)
def test_each_error_has_its_problem(error: errors.BursaError, status: int, code: str) -> None:
    problem = problem_of(error, trace_id="t")
    assert (problem.status, problem.code, problem.trace_id) == (status, code, "t")
    assert problem.type == problem_type(code)
    assert problem.title == PROBLEMS[code][1]
    assert (problem.retry_after_s > 0) == (status == 503)
    assert "secret" not in f"{problem}"
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert problem_of(twin, trace_id="t") == problem


def test_what_is_unavailable_is_told_with_why_and_what_is_expected() -> None:
    why = "no process leads: start one with the role sequencer or all"
    problem = problem_of(errors.UnavailableError("exchange", why, "an exchange that is ready"))
    assert problem.detail == f"exchange: {why}; expected an exchange that is ready."
    assert problem_of(errors.QueueFullError("queue", 0, "room")).detail == "queue: 0; expected room."
    assert problem_of(errors.UnavailableError("exchange", "", "one")).detail == "exchange: expected one."


def test_every_rejection_has_a_problem_of_its_own() -> None:
    # NOT_YOURS is told as what is not there.
    assert {code.value for code in Rejection} - set(PROBLEMS) == {"NOT_YOURS"}


def test_a_problem_names_field_value_and_shortfall() -> None:
    short = Amount("4.28", Currency.USD)
    problem = problem_of(RefusedError("INSUFFICIENT_FUNDS", "currency", "USD", "4.28 more in USD", shortfall=short))
    assert problem.shortfall == short
    assert problem.errors == [FieldError("currency", "4.28 more in USD", "USD")]
    assert problem_type("NO_TAX_PROFILE") == "urn:bursa:problem:no-tax-profile"


@pytest.mark.parametrize(
    ("field", "market", "wire"),
    [
        ("limit_micros", "1 to 10000000000 micro-US$ per GPU-hour", "US$0.000001 to US$10000.00 per GPU-hour"),
        ("limit_micros", "a multiple of 1000 micro-US$", "a multiple of US$0.001"),
        ("price_micros", "at least 1440000 micro-US$ (reference 2880000)", "at least US$1.44 (reference US$2.88)"),
        ("limit_micros", "at least 2880000, the price of an extension", "at least 2.88, the price of an extension"),
        ("limit_micros", "an order that holds less than 2^63 micro-units", "an order that holds less than 2^63"),
        ("micros", "whole cents, 5000000 to 1000000000000000 micro-units", "whole cents, 5.00 to 1000000000.00"),
        ("currency", "4280000 micro-units more in USD", "4.28 more in USD"),
        ("until_ns", "at most 1796126400000000000", "at most 2026-12-01T12:00:00Z"),
        ("lots", "1 to 64", "1 to 64"),
    ],
)  # fmt: skip
def test_what_would_be_right_is_told_in_units_of_the_wire(field: str, market: str, wire: str) -> None:
    assert _translate(field, market) == wire


def test_no_field_of_the_market_goes_out_with_its_unit() -> None:
    assert not [name for name in WIRE_FIELDS.values() if name.endswith(("_ns", "_micros", "_ppm"))]
