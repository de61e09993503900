"""When a request is sent again, and what an answer means. Pure: the clients do the I/O.

`converse` is a generator that tells its client what to do next (`Send`, `Wait`) and is told what came of it; sync and
async clients drive the same one. A request is repeated only where that cannot do harm: it only looks, or it carries an
idempotency key, so that the exchange carries it out once however often it arrives, or it certainly was not carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar, cast

import httpx
import msgspec

from bursa.errors import ApiError, NetworkError
from bursa.sdk.call import Call
from bursa.wire import Problem

T = TypeVar("T")

#: Answers after which the same request may succeed: too many requests, and a server that is away, full or not leading.
RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})
#: Those that come before a request is carried out.
_UNTOUCHED_STATUSES: Final = frozenset({429, 503})
#: Faults before the request left.
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
#: Characters of an answer that is no problem+json that an error quotes.
EXCERPT_CHARS_MAX: Final = 200
_FIRST_FAULT: Final = 400


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is sent, and how long to wait between: twice as long each time, give or take half of it.

    ``attempts_max`` counts the first one too, so 1 never repeats. A server that asks for a longer wait than
    ``asked_wait_max_s`` is not waited for: the error goes to the caller, who knows better what to do meanwhile.
    """

    attempts_max: int = 5
    first_wait_s: float = 0.2
    wait_max_s: float = 8.0
    asked_wait_max_s: float = 30.0

    def wait_s(self, attempt: int, asked_s: float | None, chance: float) -> float:
        """Return the wait after attempt number ``attempt`` (from 1), in seconds; ``chance`` is in [0, 1)."""
        wait_s = min(self.wait_max_s, self.first_wait_s * float(2 ** (attempt - 1)))
        # Jitter spreads out clients that failed together; what the server asked for is never undercut.
        return max(asked_s or 0.0, wait_s * (0.5 + chance))


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request; answer with the response, or with the fault that stopped it."""

    call: Call[object]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait this long."""

    seconds: float


Step = Send | Wait
Met = httpx.Response | httpx.TransportError | None


def converse(call: Call[T], retries: Retries, chance: Callable[[], float]) -> Generator[Step, Met, T]:
    """Yield what to do next until there is an answer, and return it read as the call's type.

    Raises ApiError for a problem, NetworkError when no answer came within the limits of ``retries``.
    """
    call = call.with_key()
    attempt = 1
    while True:
        met = yield Send(cast("Call[object]", call))
        asked_s: float | None = None
        if isinstance(met, httpx.Response):
            if met.status_code < _FIRST_FAULT:
                return read_answer(call, met)
            asked_s = retry_after_s(met)
            is_worth_it = met.status_code in (RETRIED_STATUSES if call.is_repeatable else _UNTOUCHED_STATUSES)
            if attempt >= retries.attempts_max or not is_worth_it or (asked_s or 0.0) > retries.asked_wait_max_s:
                raise read_problem(call, met)
        else:
            assert isinstance(met, httpx.TransportError), "a client answers Send with a response or a fault"
            is_worth_it = call.is_repeatable or isinstance(met, _UNSENT)
            if attempt >= retries.attempts_max or not is_worth_it:
                raise network_error(call, met) from met
        yield Wait(retries.wait_s(attempt, asked_s, chance()))
        attempt += 1


def read_answer(call: Call[T], response: httpx.Response) -> T:
    """Return a response's body as the call's type: text as it is, JSON decoded; ApiError when it cannot be read."""
    if call.answer is str:
        return cast("T", response.text)
    try:
        return msgspec.json.decode(response.content, type=call.answer)
    except msgspec.MsgspecError as fault:
        raise ApiError(
            call.name,
            response.content[:EXCERPT_CHARS_MAX],
            "an answer that this version of bursa knows",
            status=response.status_code,
            problem_code="UNREADABLE_ANSWER",
            title="The answer cannot be read",
            detail=f"{fault}; is {response.url.host} a bursa exchange of this version?",
        ) from fault


def read_problem(call: Call[object], response: httpx.Response) -> ApiError:
    """Return the ApiError that a response stands for, whether or not its body is problem+json."""
    status = response.status_code
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        problem = Problem(
            type="about:blank",
            title=response.reason_phrase or "The request failed",
            status=status,
            code="UNREADABLE_ANSWER",
            detail=response.text[:EXCERPT_CHARS_MAX].strip(),
        )
    return to_error(call, problem, retry_after_s(response))


def to_error(call: Call[object], problem: Problem, asked_s: float | None = None) -> ApiError:
    """Return the ApiError of a problem; ``asked_s`` is the Retry-After beside it, in seconds."""
    shortfall = problem.shortfall
    return ApiError(
        call.name,
        problem.status,
        problem.detail or problem.title,
        status=problem.status,
        problem_code=problem.code,
        title=problem.title,
        detail=problem.detail,
        errors=[cast("dict[str, object]", msgspec.to_builtins(error)) for error in problem.errors],
        shortfall=None if shortfall is None else cast("dict[str, object]", msgspec.to_builtins(shortfall)),
        trace_id=problem.trace_id,
        retry_after_s=asked_s or problem.retry_after_s or None,
    )


def network_error(call: Call[object], fault: httpx.TransportError) -> NetworkError:
    """Return what to tell the caller when no answer came: for a changing call, how to ask again without harm."""
    said = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
    expected = "an answer; is the exchange running, and the URL right?"
    if not isinstance(fault, _UNSENT) and (call.is_keyed or not call.is_repeatable):
        step = f"repeat it with idempotency_key={call.idempotency_key!r} to find out" if call.is_keyed else "look first"
        expected = f"an answer; whether it took effect is unknown: {step}"
    return NetworkError(call.name, said, expected)


def retry_after_s(response: httpx.Response) -> float | None:
    """Return Retry-After in seconds, None when it is absent or unusable. A date counts from the response's Date."""
    text = response.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        sent = parsedate_to_datetime(response.headers.get("date", ""))
        return max(0.0, (until - sent).total_seconds())
    except (ValueError, TypeError):
        return None
