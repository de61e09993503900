"""RFC 9457 problem details, with members of bursa's own."""

from __future__ import annotations

import msgspec

from bursa.wire.values import Amount


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong with one field and what would be right."""

    field: str
    expected: str
    value: str | None = None


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refusal or fault. ``type`` and ``code`` are stable; ``title`` and ``detail`` are for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    trace_id: str = ""
    errors: list[FieldError] = []
    shortfall: Amount | None = None
    retry_after_s: int = 0
