"""The OpenAPI document: golden, valid, and complete by rules of our own.

`python -m tests.api.test_openapi` writes the golden files anew; their diff is reviewed as a change of the API.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate

from bursa import services, wire
from bursa.api import openapi, problems
from bursa.api.operation import PATH_PARAMETERS, Operation
from bursa.api.operations import OPERATIONS, TAGS

GOLDEN = Path(__file__).parent.parent / "golden"
Json = dict[str, Any]


def golden_problems() -> dict[str, Json]:
    return {
        code: {"status": status, "type": services.problem_type(code), "title": title}
        for code, (status, title) in problems().items()
    }


def shown(document: object) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


DOCUMENT = openapi()


def rows() -> Iterator[tuple[str, str, Json]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, row in methods.items():
            yield path, method, row


ROWS = list(rows())
NAMES = [row["operationId"] for _, _, row in ROWS]


def test_the_document_is_the_golden_one() -> None:
    golden = (GOLDEN / "openapi.json").read_text("utf-8")
    assert shown(DOCUMENT) == golden, "run `python -m tests.api.test_openapi` and have the diff reviewed"


def test_the_problems_are_the_golden_ones() -> None:
    """A code, its status and its type never change; only titles may."""
    golden = json.loads((GOLDEN / "problems.json").read_text("utf-8"))
    assert golden_problems() == golden, "run `python -m tests.api.test_openapi` and have the diff reviewed"


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_the_document_is_the_same_each_time() -> None:
    assert shown(openapi()) == shown(DOCUMENT)


@pytest.mark.parametrize(("path", "method", "row"), ROWS, ids=NAMES)
def test_an_operation_is_complete(path: str, method: str, row: Json) -> None:
    assert row["summary"], "a summary"
    assert not row["summary"].endswith("."), "a summary is a phrase"
    assert row["tags"][0] in TAGS
    assert any(status.startswith("2") for status in row["responses"])
    assert {"422", "429", "500"} <= set(row["responses"])
    for parameter in row.get("parameters", []):
        if "$ref" not in parameter:
            assert parameter["description"].endswith("."), parameter["name"]
            assert "null" not in json.dumps(parameter["schema"])
    in_path = {part["name"] for part in row.get("parameters", []) if part.get("in") == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", path))
    if in_path:
        assert "404" in row["responses"]
    if row["security"]:
        assert {"401", "403"} <= set(row["responses"])
    if "requestBody" in row:
        assert {"400", "408", "413", "415"} <= set(row["responses"])
    assert method == method.lower()


@pytest.mark.parametrize(("path", "method", "row"), ROWS, ids=NAMES)
def test_every_refusal_has_an_example_with_its_status(path: str, method: str, row: Json) -> None:
    examples = DOCUMENT["components"]["examples"]
    for status, answer in row["responses"].items():
        if status < "400":
            continue
        if "$ref" in answer:
            answer = DOCUMENT["components"]["responses"][answer["$ref"].rpartition("/")[2]]  # noqa: PLW2901
        media = answer["content"]["application/problem+json"]
        assert media["examples"], (path, method, status)
        for code in media["examples"]:
            assert examples[code]["value"]["status"] == int(status)
            msgspec.convert(examples[code]["value"], wire.Problem)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_every_tag_is_used_and_explained() -> None:
    assert {op.tag for op in OPERATIONS} == set(TAGS)


def test_every_path_parameter_is_used() -> None:
    assert {name for op in OPERATIONS for name in op.path_names} == set(PATH_PARAMETERS)


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.body], ids=lambda op: op.name)
def test_the_example_of_a_body_is_one(op: Operation) -> None:
    assert op.body is not None
    msgspec.convert(op.example, op.body)


def test_times_are_marked_as_such() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Order"]["properties"]["placed_at"]["format"] == "date-time"
    assert schemas["BidRequest"]["properties"]["expires_at"]["anyOf"][0]["format"] == "date-time"
    assert schemas["Ticker"]["properties"]["at"]["anyOf"][0]["format"] == "date-time"
    assert "format" not in schemas["Order"]["properties"]["id"]


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.is_command], ids=lambda op: op.name)
def test_only_what_changes_something_takes_an_idempotency_key(op: Operation) -> None:
    assert op.method in {"POST", "PUT", "PATCH", "DELETE"}
    assert op.scopes is not None


def test_problems_have_a_type_of_their_own() -> None:
    types = [facts["type"] for facts in golden_problems().values()]
    assert len(set(types)) == len(types)


if __name__ == "__main__":
    (GOLDEN / "openapi.json").write_text(shown(openapi()), "utf-8")
    (GOLDEN / "problems.json").write_text(shown(golden_problems()), "utf-8")
    sys.stdout.write("wrote openapi.json and problems.json: read their diff before you commit them\n")
