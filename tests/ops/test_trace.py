"""Trace ids follow W3C Trace Context."""

import re

import pytest

from bursa.ops.trace import from_traceparent, new_trace_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def test_new_ids_are_valid_and_differ() -> None:
    ids = {new_trace_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in ids)


@pytest.mark.parametrize("header", [f"00-{TRACE}-{SPAN}-01", f"01-{TRACE}-{SPAN}-00-more"])
def test_a_valid_header_gives_its_trace(header: str) -> None:
    assert from_traceparent(header) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        TRACE,
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"01-{TRACE}-{SPAN}-01-{'x' * 300}",
    ],
)
def test_any_other_header_gives_a_new_trace(header: str | None) -> None:
    found = from_traceparent(header)
    assert re.fullmatch(r"[0-9a-f]{32}", found)
    assert found.upper() != TRACE.upper()
