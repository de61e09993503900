"""Trace ids by the W3C rules (traceparent, version 00), so that any OpenTelemetry collector can join them."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import Final

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
#: Longest traceparent that is looked at, in characters.
_HEADER_CHARS_MAX: Final = 256

#: The trace that the running task belongs to, 32 hex digits; "" outside any.
current_trace_id: ContextVar[str] = ContextVar("bursa_trace_id", default="")


def new_trace_id() -> str:
    """Return a new random trace id: 32 hex digits, not all zero."""
    return os.urandom(15).hex() + "01"


def from_traceparent(header: str | None) -> str:
    """Return the trace id of a `traceparent` header, or a new one when it is absent or not valid."""
    match = _TRACEPARENT.fullmatch(header) if header and len(header) <= _HEADER_CHARS_MAX else None
    if match is None:
        return new_trace_id()
    version, trace_id, span_id, more = match.groups()
    # Version ff is forbidden, and version 00 has nothing after the flags.
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return new_trace_id()
    return trace_id
