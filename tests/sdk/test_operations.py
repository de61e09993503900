"""The SDK and the OpenAPI document name the same operations, parameters and answers."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bursa.sdk.call import Call
from bursa.sdk.verbs import Stream, Verb, Verbs
from bursa.wire import BatchItem

DOCUMENT = json.loads((Path(__file__).parent.parent / "golden" / "openapi.json").read_text())
OPERATIONS = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
BUILDERS: dict[str, Callable[..., Call[Any]]] = {
    name: verb.build for name, verb in vars(Verbs).items() if isinstance(verb, Verb | Stream)
}
VALUES: dict[str, Any] = {
    "interval": "1h",
    "start": datetime(2026, 12, 1, tzinfo=UTC),
    "end": datetime(2026, 12, 2, tzinfo=UTC),
    "levels": 5,
    "limit": 5,
    "after_seq": 7,
    "items": [BatchItem(cancel="ord_1")],
}


class Empty(msgspec.Struct):
    """Stands for any body: what is compared here is the rest."""


def build(name: str) -> Call[Any]:
    """Call a verb's function with a value for everything it takes."""
    parameters = inspect.signature(BUILDERS[name]).parameters
    is_body = {"request", "bid", "ask", "amendment"}
    given = {key: Empty() if key in is_body else VALUES.get(key, f"{key}-1") for key in parameters}
    return BUILDERS[name](**given)


def find_operation(call: Call[Any]) -> tuple[str, str]:
    found = [
        (method, path)
        for method, path in OPERATIONS
        if method == call.method and re.fullmatch(re.sub(r"\{[a-z]+\}", "[^/:]+", path), call.path)
    ]
    literal = [operation for operation in found if "{" not in operation[1]]
    assert len(literal or found) == 1, f"{call.name}: {found}"
    return (literal or found)[0]


def describe(operation: tuple[str, str]) -> dict[str, Any]:
    method, path = operation
    described: dict[str, Any] = DOCUMENT["paths"][path][method.lower()]
    return described


@pytest.mark.parametrize("name", BUILDERS)
def test_a_verb_calls_an_operation_with_parameters_that_it_knows(name: str) -> None:
    call = build(name)
    described = describe(find_operation(call))
    parameters = [
        DOCUMENT["components"]["parameters"][parameter["$ref"].rsplit("/", 1)[1]] if "$ref" in parameter else parameter
        for parameter in described.get("parameters", [])
    ]
    known = {parameter["name"] for parameter in parameters}
    assert set(call.query) <= known
    assert (call.idempotency_key is not None) == ("Idempotency-Key" in known)
    assert (call.body is not None) == ("requestBody" in described)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_verb_reads_the_shape_that_the_operation_answers(name: str) -> None:
    call = build(name)
    responses = describe(find_operation(call))["responses"]
    content = next(answer for status, answer in responses.items() if status.startswith("2"))["content"]
    if call.answer is str or call.path == "/v1/openapi.json" or call.accept == "text/event-stream":
        assert any(kind.startswith(call.accept.partition(";")[0]) for kind in content)
        return
    assert content["application/json"]["schema"]["$ref"].rsplit("/", 1)[1] == call.answer.__name__


def test_every_operation_has_a_verb() -> None:
    assert {find_operation(build(name)) for name in BUILDERS} == OPERATIONS
