"""The OpenAPI 3.1 document, made from the same table as the routes, so that the two cannot disagree."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import inspect

import bursa
from bursa import services, wire
from bursa.api.inputs import IDEMPOTENCY_KEY_CHARS_MAX
from bursa.api.operation import JSON_MEDIA, PATH_PARAMETERS, SSE_MEDIA, Operation
from bursa.api.operations import OPERATIONS, TAGS
from bursa.api.problems import PROBLEM_MEDIA, problems

_Json = dict[str, Any]

_REF: Final = "#/components/schemas/{name}"
_ABOUT: Final = (
    "A spot exchange for GPU hours. Prices are US$ per GPU-hour excluding tax, money is a decimal string with its"
    " currency, times are RFC 3339 in UTC, ids have a prefix that says what they are. Every refusal is a problem"
    " (RFC 9457) with a stable `code`. A request that changes something may carry an Idempotency-Key: sent again, it"
    " gives the same answer."
)
_PUBLIC: Final = ("RATE_LIMITED", "INTERNAL", "INVALID_FIELD")
_KEYED: Final = ("UNAUTHENTICATED", "KEY_EXPIRED", "KEY_REVOKED", "FORBIDDEN")
_BODY: Final = ("MALFORMED_JSON", "BODY_TOO_SLOW", "BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
_NO_BODY: Final = ("BODY_TOO_SLOW", "BODY_TOO_LARGE")
_AWAY: Final = ("UNAVAILABLE", "QUEUE_FULL", "NOT_LEADER", "DATABASE_UNAVAILABLE")

#: Problems of one status that most operations share, under the name that the document gives them.
_SHARED: Final = {
    "Malformed": ("MALFORMED_JSON",),
    "Unauthenticated": ("KEY_EXPIRED", "KEY_REVOKED", "UNAUTHENTICATED"),
    "Forbidden": ("FORBIDDEN",),
    "NotFound": ("NOT_FOUND",),
    "TooSlow": ("BODY_TOO_SLOW",),
    "TooLarge": ("BODY_TOO_LARGE",),
    "WrongMedia": ("UNSUPPORTED_MEDIA_TYPE",),
    "Invalid": ("INVALID_FIELD",),
    "Limited": ("RATE_LIMITED",),
    "Fault": ("INTERNAL",),
    "Away": ("DATABASE_UNAVAILABLE", "NOT_LEADER", "QUEUE_FULL", "UNAVAILABLE"),
}
_HEADERS: Final[_Json] = {
    "RateLimit": ("What is left: `r` requests, all of them back in `t` seconds.", {"type": "string"}),
    "RateLimit-Policy": ("The limit: `q` requests in `w` seconds.", {"type": "string"}),
    "Retry-After": ("After how many seconds to ask again.", {"type": "integer", "minimum": 1}),
    "traceparent": (
        "The trace of this answer (W3C); its second part is the `trace_id` of problems.",
        {"type": "string"},
    ),
    "Idempotent-Replayed": ("There when this is the answer given before.", {"type": "string", "enum": ["true"]}),
    "ETag": ("The state of the market that the answer shows.", {"type": "string"}),
    "Location": ("Where what was made can be read.", {"type": "string"}),
    "Link": ("The next page of a statement in CSV.", {"type": "string"}),
    "WWW-Authenticate": ("How to authenticate.", {"type": "string"}),
}
_HEADER_PARAMETERS: Final[_Json] = {
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The sender's own name for this request. The same key with the same body gives the same answer;"
        " with another body it is refused.",
        "schema": {"type": "string", "pattern": rf"^[!-~]{{1,{IDEMPOTENCY_KEY_CHARS_MAX}}}$"},
        "example": "5c0a6f4e-order-1",
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "An ETag: the answer is 304 while nothing has changed.",
        "schema": {"type": "string"},
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The id of the last event received; the stream goes on after it.",
        "schema": {"type": "string", "pattern": r"^[0-9]{0,18}$"},
    },
}


def openapi() -> _Json:
    """Return the document: plain dicts and lists, the same on every call."""
    shapes = _shapes()
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    schema_of = dict(zip(shapes, schemas, strict=True))
    for shape in shapes:
        _name_dates(shape, components)
    paths: _Json = {}
    for op in OPERATIONS:
        paths.setdefault(op.path, {})[op.method.lower()] = _operation(op, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "bursa",
            "version": bursa.__version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": {name: components[name] for name in sorted(components)},
            "headers": {name: {"description": text, "schema": schema} for name, (text, schema) in _HEADERS.items()},
            "parameters": _HEADER_PARAMETERS,
            "responses": {name: _refusal(codes, schema_of) for name, codes in _SHARED.items()},
            "examples": {code: {"summary": title, "value": _example(code)} for code, (_, title) in problems().items()},
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "bursa_<number>_<secret>",
                    "description": "A key of a party. What it may do is decided by its scopes.",
                }
            },
        },
    }


def codes_of(op: Operation) -> tuple[str, ...]:
    """Return every problem that an operation can answer with, sorted."""
    codes = {*_PUBLIC, *op.problems}
    if op.path_names:
        codes.add("NOT_FOUND")
    if op.scopes is not None:
        codes |= set(_KEYED)
    if op.body is not None:
        codes |= set(_BODY)
    elif op.method != "GET":
        codes |= set(_NO_BODY)
    if op.is_command:
        codes.add("EXISTS_WITH_DIFFERENT_FIELDS")
    if "cursor" in {field.encode_name for field in msgspec.structs.fields(op.query)}:
        codes.add("INVALID_CURSOR")
    if op.tag != "service" or op.scopes is not None:
        codes |= set(_AWAY)
    return tuple(sorted(codes))


def _shapes() -> list[Any]:
    """Return every struct that a request or an answer is made of, each once, in the table's order."""
    found: dict[Any, None] = {wire.Problem: None}
    for op in OPERATIONS:
        for shape in (op.body, op.answer, *op.events.values()):
            if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
                found.setdefault(shape)
    return list(found)


def _operation(op: Operation, schema_of: dict[Any, _Json]) -> _Json:
    shown: _Json = {
        "operationId": op.name,
        "tags": [op.tag],
        "summary": op.summary,
    }
    if op.description or op.scopes is not None:
        shown["description"] = "\n\n".join(part for part in (op.description, _scopes_text(op)) if part)
    if op.scopes is None:
        shown["security"] = []
    else:
        shown["security"] = [{"key": []}] + ([{}] if op.is_open_to_loopback else [])
    if parameters := _parameters(op):
        shown["parameters"] = parameters
    if op.body is not None:
        is_required = any(field.required for field in msgspec.structs.fields(op.body))
        content = {JSON_MEDIA: {"schema": schema_of[op.body], "example": op.example}}
        shown["requestBody"] = {"required": is_required, "content": content}
    shown["responses"] = _success(op, schema_of) | _refusals(op, schema_of)
    return shown


def _scopes_text(op: Operation) -> str:
    if op.scopes is None:
        return ""
    if len(op.scopes) == len(wire.Scope):
        return "Any key will do."
    return f"Scope: {' or '.join(scope.value for scope in op.scopes)}{', of an operator' if op.is_operators else ''}."


def _parameters(op: Operation) -> list[_Json]:
    """Return path, query and header parameters."""
    found: list[_Json] = []
    for name in op.path_names:
        text, pattern, example = PATH_PARAMETERS[name]
        schema = {"type": "string", "pattern": pattern}
        found.append(
            {"name": name, "in": "path", "required": True, "description": text, "schema": schema, "example": example}
        )
    (query,), components = msgspec.json.schema_components([op.query], ref_template=_REF)
    properties = components[query["$ref"].rpartition("/")[2]]["properties"]
    for name, schema in properties.items():
        plain = _inline(schema, components)
        text = plain.pop("description")
        # The text "null" is not a null: an absent parameter is how none is said.
        if plain.get("default", "") is None:
            del plain["default"]
        found.append({"name": name, "in": "query", "required": False, "description": text, "schema": plain})
    names = []
    if op.is_command:
        names.append("IdempotencyKey")
    if op.tag_of is not None:
        names.append("IfNoneMatch")
    if op.stream is not None:
        names.append("LastEventId")
    return found + [{"$ref": f"#/components/parameters/{name}"} for name in names]


def _inline(schema: _Json, components: _Json) -> _Json:
    """Return a query parameter's schema without null and without references."""
    plain = dict(schema)
    if "anyOf" in plain:
        (only,) = [part for part in plain.pop("anyOf") if part.get("type") != "null"]
        plain = {**only, **plain}
    if isinstance(plain.get("enum"), list):
        plain["enum"] = [word for word in plain["enum"] if word is not None]
    if "$ref" in plain:
        plain = {**components[plain.pop("$ref").rpartition("/")[2]], **plain}
        plain.pop("title", None)
    return plain


def _success(op: Operation, schema_of: dict[Any, _Json]) -> _Json:
    """Return the answer when all goes well."""
    content: _Json = {}
    for media in op.media:
        if media == JSON_MEDIA:
            content[media] = {"schema": schema_of.get(op.answer, {"type": "object"})}
        elif media == SSE_MEDIA:
            content[media] = {"schema": _event_schema(op, schema_of)}
        else:
            content[media] = {"schema": {"type": "string"}}
    names = ["RateLimit", "RateLimit-Policy", "traceparent"]
    names += ["Idempotent-Replayed"] if op.is_command else []
    names += ["ETag"] if op.tag_of is not None else []
    names += ["Location"] if op.location is not None else []
    names += ["Link"] if len(op.media) > 1 else []
    doc = "What was asked for." if op.status == 200 else "It was made."  # noqa: PLR2004 - HTTP's own number
    found: _Json = {str(op.status): {"description": doc, "headers": _header_refs(names), "content": content}}
    if op.tag_of is not None:
        found["304"] = {
            "description": "Nothing has changed since the ETag was given.",
            "headers": _header_refs(["ETag", "RateLimit", "RateLimit-Policy", "traceparent"]),
        }
    return found


def _event_schema(op: Operation, schema_of: dict[Any, _Json]) -> _Json:
    """Return the schema of one event of a stream, as OpenAPI 3.2 describes them: its fields, ``data`` holding JSON."""
    last = {"type": "object", "properties": {"detail": {"type": "string"}}, "required": ["detail"]}
    data = {**{name: schema_of[shape] for name, shape in op.events.items()}, "dropped": last, "ended": last}
    kinds = [
        {
            "properties": {
                "event": {"const": name},
                "id": {"type": "string", "description": "Place in the log."},
                "data": {"type": "string", "contentMediaType": JSON_MEDIA, "contentSchema": schema},
            },
            "required": ["event", "data"],
        }
        for name, schema in data.items()
    ]
    return {"type": "object", "oneOf": kinds}


def _refusals(op: Operation, schema_of: dict[Any, _Json]) -> _Json:
    """Return the problems by status, each code with its example."""
    known = problems()
    by_status: dict[int, list[str]] = {}
    for code in codes_of(op):
        by_status.setdefault(known[code][0], []).append(code)
    names = {codes: name for name, codes in _SHARED.items()}
    found: _Json = {}
    for status in sorted(by_status):
        codes = tuple(by_status[status])
        name = names.get(codes)
        found[str(status)] = {"$ref": f"#/components/responses/{name}"} if name else _refusal(codes, schema_of)
    return found


def _refusal(codes: tuple[str, ...], schema_of: dict[Any, _Json]) -> _Json:
    """Return an answer that is one of some problems of one status, each with its example."""
    known = problems()
    status = known[codes[0]][0]
    headers = ["traceparent"]
    headers += ["WWW-Authenticate"] if status == 401 else []  # noqa: PLR2004 - HTTP's own number
    headers += ["Retry-After"] if status in {429, 503} else []
    examples = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    return {
        "description": "; ".join(known[code][1] for code in codes) + ".",
        "headers": _header_refs(headers),
        "content": {PROBLEM_MEDIA: {"schema": schema_of[wire.Problem], "examples": examples}},
    }


def _header_refs(names: list[str]) -> _Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _example(code: str) -> _Json:
    """Return a problem as it goes out."""
    status, title = problems()[code]
    is_later = status in {429, 503}
    problem = wire.Problem(
        type=services.problem_type(code),
        title=title,
        status=status,
        code=code,
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        errors=[wire.FieldError("gpus", "int <= 16", "99")] if code == "INVALID_FIELD" else [],
        shortfall=wire.Amount("12.40", _USD) if code == "INSUFFICIENT_FUNDS" else None,
        retry_after_s=1 if is_later else 0,
    )
    shown: _Json = msgspec.to_builtins(problem)
    return shown


_USD: Final = msgspec.convert({"amount": "0", "currency": "USD"}, wire.Amount).currency


def _name_dates(shape: Any, components: _Json) -> None:  # noqa: ANN401 - any struct
    """Add the format of times: msgspec names it only where a time zone is asked for."""
    seen: set[type] = set()
    waiting: list[inspect.Type] = [inspect.type_info(shape)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.StructType) and info.cls not in seen:
            seen.add(info.cls)
            properties = components[info.cls.__name__]["properties"]
            for field in info.fields:
                if any(isinstance(part, inspect.DateTimeType) for part in _parts(field.type)):
                    _set_format(properties[field.encode_name])
                waiting.append(field.type)
        else:
            waiting.extend(part for part in _parts(info) if part is not info)


def _parts(info: inspect.Type) -> list[inspect.Type]:
    """Return what a type consists of, one step down; a plain type is its own part."""
    if isinstance(info, inspect.Metadata):
        return _parts(info.type)
    if isinstance(info, inspect.UnionType):
        return [part for member in info.types for part in _parts(member)]
    if isinstance(info, inspect.ListType):
        return _parts(info.item_type)
    return [info]


def _set_format(schema: _Json) -> None:
    for part in schema.get("anyOf", [schema]):
        if part.get("type") == "string":
            part["format"] = "date-time"
