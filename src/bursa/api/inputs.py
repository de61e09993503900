"""What comes in: queries and bodies become structs, or a problem that names field, value and what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from bursa import wire
from bursa.api.problems import ProblemError
from bursa.wire.values import DECIMAL_PATTERN

#: Most parameters of a query string, and its longest text in bytes.
QUERY_PARAMETERS_MAX: Final = 20
QUERY_BYTES_MAX: Final = 4_096
#: Longest Idempotency-Key, in characters.
IDEMPOTENCY_KEY_CHARS_MAX: Final = 64
#: Longest part of a value that a problem repeats, in characters.
_VALUE_CHARS_MAX: Final = 80
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,64}")
# The shapes of msgspec's messages.
_AT: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_PATTERN: Final = re.compile(r"Expected `str` matching regex '(?P<shown>.*)'", re.DOTALL)
_PATTERN_WORDS: Final = {
    DECIMAL_PATTERN: 'a decimal string with at most six places, like "2.88"',
    r"^[a-z0-9][a-z0-9-]*$": 'the slug of a GPU model, like "h100-sxm"',
    r"^[A-Z]{2}$": "an ISO 3166 country code such as DE",
}
_TYPE: Final = re.compile(r"`(\w+)`")
_JSON_WORDS: Final = {"int": "integer", "str": "string", "bool": "true or false", "float": "number"}
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_ABSENT: Final = object()

BodyReader = Callable[[bytes], Any]
QueryReader = Callable[[bytes], Any]


def body_reader(shape: type[msgspec.Struct]) -> BodyReader:
    """Return what decodes bodies of a shape. An empty body is {} where the shape has a default for every field."""
    decode = msgspec.json.Decoder(shape).decode
    empty = b"{}" if all(not field.required for field in msgspec.structs.fields(shape)) else b""

    def read(body: bytes) -> Any:  # noqa: ANN401 - the shape is the caller's
        try:
            answer = decode(body or empty)
        except msgspec.ValidationError as error:
            raise ProblemError("INVALID_FIELD", errors=[_field_error(error, _plain(body), shape)]) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProblemError("MALFORMED_JSON", str(error)) from None
        # PostgreSQL has no NUL in text; the escape is the only way for one to come in.
        if b"\\u0000" in body and (path := _path_of_nul(_plain(body), "")):
            raise ProblemError("INVALID_FIELD", errors=[wire.FieldError(path, "text without the character NUL")])
        return answer

    return read


def refuse_body(body: bytes) -> None:
    """Refuse a body where none belongs; an empty object is none."""
    if body.strip() not in {b"", b"{}"}:
        raise ProblemError("INVALID_FIELD", errors=[wire.FieldError("body", "no body, or an empty object")])


def query_reader(shape: type[msgspec.Struct]) -> QueryReader:
    """Return what turns query strings into a shape; an unknown or repeated parameter is refused by its name."""
    fields = msgspec.structs.fields(shape)
    names = {field.encode_name for field in fields}
    integers = {field.encode_name for field in fields if _is_integer(field.type)}
    defaults = msgspec.convert({}, shape)
    known = f"one of {', '.join(sorted(names))}" if names else "no query parameters"

    def read(query: bytes) -> Any:  # noqa: ANN401 - the shape is the caller's
        if not query:
            return defaults
        values: dict[str, object] = {}
        for name, text in _pairs(query):
            if name not in names:
                raise _query_problem(name[:_VALUE_CHARS_MAX], f"a known parameter: {known}")
            if name in values:
                raise _query_problem(name, "the parameter once")
            values[name] = int(text) if name in integers and _INTEGER.fullmatch(text) else text
        try:
            return msgspec.convert(values, shape)
        except msgspec.ValidationError as error:
            found = _field_error(error, values, shape)
            raise _query_problem(found.field, found.expected, found.value) from None

    return read


def check_idempotency_key(header: str | None) -> str | None:
    """Return an Idempotency-Key as it is, None when absent; refuse what is not 1 to 64 visible ASCII characters."""
    if header is None or _IDEMPOTENCY_KEY.fullmatch(header):
        return header
    expected = f"1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters"
    found = wire.FieldError("header Idempotency-Key", expected, _shorten(header))
    raise ProblemError("INVALID_FIELD", errors=[found])


def _pairs(query: bytes) -> list[tuple[str, str]]:
    """Split a query string; a piece without "=" has an empty value."""
    if len(query) > QUERY_BYTES_MAX:
        raise _query_problem("", f"at most {QUERY_BYTES_MAX} bytes of query")
    try:
        # Strict, so that two texts never become one.
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX
        )
    except UnicodeDecodeError:
        raise _query_problem("", "percent-encoded UTF-8") from None
    except ValueError:
        raise _query_problem("", f"at most {QUERY_PARAMETERS_MAX} parameters") from None
    for name, text in pairs:
        if "\x00" in text:
            raise _query_problem(name, "text without the character NUL")
    return pairs


def _query_problem(name: str, expected: str, value: str | None = None) -> ProblemError:
    return ProblemError("INVALID_FIELD", errors=[wire.FieldError(f"query {name}".rstrip(), expected, value)])


def _is_integer(kind: object) -> bool:
    """Tell whether a field takes an integer, from its type's own description."""
    info = msgspec.inspect.type_info(kind)
    parts = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    return any(isinstance(_bare(part), msgspec.inspect.IntType) for part in parts)


def _bare(info: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return _bare(info.type) if isinstance(info, msgspec.inspect.Metadata) else info


def _field_error(error: msgspec.ValidationError, got: object, shape: type[msgspec.Struct]) -> wire.FieldError:
    """Turn msgspec's message into the field's path, what is expected there, and what came."""
    match = _AT.match(str(error))
    assert match is not None, "the pattern matches any text"
    what, path = match["what"], (match["path"] or "$").removeprefix("$")
    if missing := _MISSING.fullmatch(what):
        return wire.FieldError(f"{path}.{missing['name']}".lstrip("."), "a value: the field is required")
    if unknown := _UNKNOWN.fullmatch(what):
        name = unknown["name"][:_VALUE_CHARS_MAX]
        names = [] if path else [field.encode_name for field in msgspec.structs.fields(shape)]
        expected = f"one of the known fields: {', '.join(names)}" if names else "no such field"
        return wire.FieldError(f"{path}.{name}".lstrip("."), expected)
    value = _value_at(got, path)
    expected = _in_json_words(what.partition(", got ")[0])
    if what.startswith("Invalid enum value"):
        expected = _words_at(shape, path) or "one of the listed words"
    elif what.startswith("Invalid RFC3339"):
        expected = "an RFC 3339 time with its offset, like 2026-12-01T12:00:00Z"
    return wire.FieldError(path.lstrip(".") or "body", expected, None if value is _ABSENT else _shorten(value))


def _in_json_words(what: str) -> str:
    """Return what msgspec expected in JSON's words, and a known pattern in a person's."""
    if pattern := _PATTERN.fullmatch(what):
        text = pattern["shown"].replace("\\\\", "\\")
        return _PATTERN_WORDS.get(text) or f"a string that matches {text}"
    return _TYPE.sub(lambda kind: _JSON_WORDS.get(kind[1], kind[1]), what.removeprefix("Expected "))


def _words_at(shape: type[msgspec.Struct], path: str) -> str:
    """Name the words that the enumeration at a path of struct fields knows, or nothing when there is none."""
    info: object = msgspec.inspect.type_info(shape)
    for name, _ in _STEP.findall(path):
        parts = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
        struct = next((part for part in parts if isinstance(part, msgspec.inspect.StructType)), None)
        found = [field.type for field in struct.fields if field.encode_name == name] if struct and name else []
        info = found[0] if found else info
        while isinstance(info, msgspec.inspect.Metadata | msgspec.inspect.ListType):
            info = info.type if isinstance(info, msgspec.inspect.Metadata) else info.item_type
    parts = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    for part in map(_bare_object, parts):
        if isinstance(part, msgspec.inspect.EnumType):
            return "one of " + ", ".join(str(word.value) for word in part.cls)
        if isinstance(part, msgspec.inspect.LiteralType):
            return "one of " + ", ".join(map(str, part.values))
    return ""


def _bare_object(info: object) -> object:
    return info.type if isinstance(info, msgspec.inspect.Metadata) else info


def _plain(body: bytes) -> object:
    """Decode a body without a shape, to show what stood at a place."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _ABSENT


def _value_at(got: object, path: str) -> object:
    for name, index in _STEP.findall(path):
        try:
            if isinstance(got, Mapping) and name:
                got = got[name]
            elif isinstance(got, list) and index:
                got = got[int(index)]
            else:
                return _ABSENT
        except LookupError:
            return _ABSENT
    return got


def _shorten(value: object) -> str:
    """Show a value as JSON text does, cut."""
    if isinstance(value, str):
        text = value[: _VALUE_CHARS_MAX + 1]
    else:
        text = f"a list of {len(value)}" if isinstance(value, list) else msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def _path_of_nul(value: object, path: str) -> str:
    """Return where a text holds NUL, or nothing."""
    if isinstance(value, str):
        return (path or "body") if "\x00" in value else ""
    if isinstance(value, dict):
        for name, part in value.items():
            if found := _path_of_nul(part, f"{path}.{name}".lstrip(".")):
                return found
    elif isinstance(value, list):
        for index, part in enumerate(value):
            if found := _path_of_nul(part, f"{path}[{index}]"):
                return found
    return ""
