"""PostgreSQL's binary forms, built directly: fields of a COPY row and arrays of a statement's parameters.

A field is its length in four bytes and its bytes; a row is the number of its fields in two bytes and its fields; a COPY
stream is a header, rows and a trailer. Source: PostgreSQL documentation, COPY, "Binary Format"; arrays: array_recv.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER: Final = b"\xff\xff"

#: Object ids of the types that parameters have (pg_type.dat).
INT8_OID: Final = 20
INT4_OID: Final = 23
TEXT_OID: Final = 25
BYTEA_OID: Final = 17
BOOL_OID: Final = 16

#: Words that occur again and again (states, kinds, instruments, currencies) whose fields are kept ready.
_WORDS_MAX: Final = 4_096

_int8 = struct.Struct(">iq").pack
_int4 = struct.Struct(">ii").pack
_int2 = struct.Struct(">ih").pack
_length = struct.Struct(">i").pack
_array_head = struct.Struct(">iiiii").pack
_TRUE: Final = b"\0\0\0\x01\x01"
_FALSE: Final = b"\0\0\0\x01\0"


def int8(value: int) -> bytes:
    """Return the field of a bigint."""
    return _int8(8, value)


def int4(value: int) -> bytes:
    """Return the field of an integer."""
    return _int4(4, value)


def int2(value: int) -> bytes:
    """Return the field of a smallint."""
    return _int2(2, value)


def boolean(value: bool) -> bytes:  # noqa: FBT001 - a value to encode, not a switch
    """Return the field of a boolean."""
    return _TRUE if value else _FALSE


def raw(value: bytes) -> bytes:
    """Return the field of a bytea, or of text given as UTF-8."""
    return _length(len(value)) + value


def text(value: str) -> bytes:
    """Return the field of a text."""
    encoded = value.encode()
    return _length(len(encoded)) + encoded


@lru_cache(_WORDS_MAX)
def word(value: str) -> bytes:
    """Return the field of a text that occurs often."""
    return text(value)


def array(oid: int, fields: Sequence[bytes]) -> bytes:
    """Return the binary form of a one-dimensional array without NULLs, from the fields of its elements."""
    if not fields:
        return _array_head(0, 0, oid, 0, 0)[:12]
    return _array_head(1, 0, oid, len(fields), 1) + b"".join(fields)


def stream(rows: Iterable[bytes]) -> bytes:
    """Return a whole COPY stream of rows."""
    return b"".join((COPY_HEADER, *rows, COPY_TRAILER))
