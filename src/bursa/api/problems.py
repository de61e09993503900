"""Problems (RFC 9457): every refusal and every fault leaves the API as one of these, with a stable code.

What the use cases refuse is named in `services.PROBLEMS`; this adds what only HTTP knows. The status of a code is
decided here or there, never at the place where it is raised.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bursa import services, wire
from bursa.errors import BursaError
from bursa.ops import logs

#: Media type of a problem.
PROBLEM_MEDIA: Final = "application/problem+json"

#: Codes that only HTTP knows: status and title.
HTTP_PROBLEMS: Final[dict[str, tuple[int, str]]] = {
    "MALFORMED_JSON": (400, "The body is not JSON"),
    "NO_SUCH_PATH": (404, "There is nothing at this path"),
    "METHOD_NOT_ALLOWED": (405, "The path does not know this method"),
    "BODY_TOO_SLOW": (408, "The body took too long to arrive"),
    "BODY_TOO_LARGE": (413, "The body is too large"),
    "UNSUPPORTED_MEDIA_TYPE": (415, "The body has the wrong content type"),
    "RATE_LIMITED": (429, "Too many requests"),
    "TOO_MANY_STREAMS": (429, "Too many open streams"),
    "NOT_READY": (503, "The exchange cannot take commands yet"),
}


class ProblemError(Exception):
    """Ends a request with a problem. ``headers`` are sent with it."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        errors: list[wire.FieldError] | None = None,
        *,
        retry_after_s: int = 0,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.errors = errors or []
        self.retry_after_s = retry_after_s
        self.headers = headers


def problems() -> dict[str, tuple[int, str]]:
    """Return every code that the API can answer with, sorted, with its status and title."""
    return dict(sorted((services.PROBLEMS | HTTP_PROBLEMS).items()))


def problem_from(error: BaseException, trace_id: str) -> wire.Problem:
    """Return what an exception looks like from outside; a bug shows nothing but its trace id."""
    if isinstance(error, ProblemError):
        return _http_problem(error, trace_id)
    if isinstance(error, BursaError):
        return _redacted(services.problem_of(error, trace_id=trace_id))
    return _http_problem(
        ProblemError("INTERNAL", "It was written down. Name the trace id when you ask about it."), trace_id
    )


def _http_problem(error: ProblemError, trace_id: str) -> wire.Problem:
    status, title = HTTP_PROBLEMS.get(error.code) or services.PROBLEMS[error.code]
    problem = wire.Problem(
        type=services.problem_type(error.code),
        title=title,
        status=status,
        code=error.code,
        detail=error.detail,
        trace_id=trace_id,
        errors=error.errors,
        retry_after_s=error.retry_after_s,
    )
    return _redacted(problem)


def _redacted(problem: wire.Problem) -> wire.Problem:
    """Cut out what looks like a key: somebody may have sent it in a wrong place."""
    if "bursa_" not in problem.detail and not any("bursa_" in (error.value or "") for error in problem.errors):
        return problem
    errors = [
        msgspec.structs.replace(error, value=None if error.value is None else logs.redact(error.value))
        for error in problem.errors
    ]
    return msgspec.structs.replace(problem, detail=logs.redact(problem.detail), errors=errors)
