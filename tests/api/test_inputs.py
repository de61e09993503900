"""What comes in: each fault is told with its field, its value and what would be right."""

import pytest

from bursa import wire
from bursa.api.inputs import body_reader, check_idempotency_key, query_reader
from bursa.api.operation import NoQuery
from bursa.api.problems import ProblemError
from bursa.api.queries import CandlesQuery, OrdersQuery, PageQuery

BID = b'{"instrument":"h100-sxm","gpus":%s,"hours":2,"limit_price":%s}'

BODIES = [
    (BID % (b'"1"', b'"2"'), "gpus", "integer", "1"),
    (BID % (b"true", b'"2"'), "gpus", "integer", "true"),
    (BID % (b"1.5", b'"2"'), "gpus", "integer", "1.5"),
    (BID % (b"0", b'"2"'), "gpus", "integer >= 1", "0"),
    (BID % (b"17", b'"2"'), "gpus", "integer <= 16", "17"),
    (BID % (b"1", b"2.88"), "limit_price", "string", "2.88"),
    (BID % (b"1", b"null"), "limit_price", "string", "null"),
    (BID % (b"1", b'"-2"'), "limit_price", 'a decimal string with at most six places, like "2.88"', "-2"),
    (BID % (b"1", b'"2","bogus":1'), "bogus", "one of the known fields: instrument, gpus, hours", None),
    (BID % (b"1", b'"2","side":"BUY"'), "side", "one of the known fields: instrument, gpus, hours", None),
    (BID % (b"1", b'"2","time_in_force":"DAY"'), "time_in_force", "one of GTC, GTD, IOC, FOK", "DAY"),
    (BID % (b"1", b'"2","currency":"usd"'), "currency", "one of", "usd"),
    (BID % (b"1", b'"2","expires_at":"tomorrow"'), "expires_at", "an RFC 3339 time with its offset", "tomorrow"),
    (BID % (b"1", b'"2","filters":{"regions":["E"]}'), "filters.regions[0]", "string of length >= 2", "E"),
    (BID % (b"1", b'"2","filters":{"color":1}'), "filters.color", "no such field", None),
    (BID % (b"1", b'"2","filters":[]'), "filters", "object", "a list of 0"),
    # What costs time to look at is refused by its length, before anything looks at it.
    (
        BID % (b"1", b'"2","filters":{"avoid_hosts":[%s]}' % b",".join([b'"hst_1"'] * 65)),
        "filters.avoid_hosts",
        "array of length <= 64",
        "a list of 65",
    ),
    (
        BID % (b"1", b'"2","filters":{"regions":[%s]}' % b",".join([b'"EU"'] * 65)),
        "filters.regions",
        "array of length <= 64",
        "a list of 65",
    ),
    (b"{}", "instrument", "a value: the field is required", None),
    (b"[]", "body", "object", "a list of 0"),
    (b"7", "body", "object", "7"),
    (b'"text"', "body", "object", "text"),
]


@pytest.mark.parametrize(("body", "field", "expected", "value"), BODIES)
def test_a_bad_body_is_told_by_its_field(body: bytes, field: str, expected: str, value: str | None) -> None:
    with pytest.raises(ProblemError) as caught:
        body_reader(wire.BidRequest)(body)
    assert caught.value.code == "INVALID_FIELD"
    (error,) = caught.value.errors
    assert error.field == field
    assert error.expected.startswith(expected)
    assert error.value == value


MALFORMED = [
    b"",
    b" ",
    b"{",
    b'{"instrument":',
    b"{'instrument': 1}",
    b'{"instrument":"h100-sxm",}',
    b"\xef\xbb\xbf{}",
    b'{"instrument":"\xff"}',
    b'{"\xff":1}',
    b'{"instrument":"\\ud800"}',
    BID % (b"1", b'"2"') + b"x",
    b"NaN",
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", MALFORMED)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(ProblemError) as caught:
        body_reader(wire.BidRequest)(body)
    # A list where an object belongs is noticed before its end is missed.
    assert caught.value.code == ("INVALID_FIELD" if body[:1] == b"[" else "MALFORMED_JSON")


def test_a_text_with_nul_is_refused_where_it_stands() -> None:
    with pytest.raises(ProblemError) as caught:
        body_reader(wire.PartyRequest)(b'{"name":"a","tax_id":"x\\u0000"}')
    assert caught.value.errors == [wire.FieldError("tax_id", "text without the character NUL")]


def test_the_six_characters_of_an_escaped_escape_are_no_nul() -> None:
    assert body_reader(wire.PartyRequest)(b'{"name":"\\\\u0000"}').name == "\\u0000"


def test_an_empty_body_is_an_empty_object_where_all_has_a_default() -> None:
    assert body_reader(wire.PreopenRequest)(b"") == wire.PreopenRequest()


QUERIES = [
    (PageQuery, b"limit=0", "query limit", "integer >= 1"),
    (PageQuery, b"limit=201", "query limit", "integer <= 200"),
    (PageQuery, b"limit=ten", "query limit", "integer"),
    (PageQuery, b"limit=1.0", "query limit", "integer"),
    (PageQuery, b"limit=01", "query limit", "integer"),
    (PageQuery, b"limit=%2B1", "query limit", "integer"),
    (PageQuery, b"limit=", "query limit", "integer"),
    (PageQuery, b"limit=1&limit=2", "query limit", "the parameter once"),
    (PageQuery, b"key=bursa_1_abc", "query key", "a known parameter: one of cursor, limit"),
    (PageQuery, b"cursor=", "query cursor", "string of length >= 1"),
    (PageQuery, b"cursor=a%00b", "query cursor", "text without the character NUL"),
    (PageQuery, b"cursor=%ff", "query", "percent-encoded UTF-8"),
    (PageQuery, b"\xff", "query", "percent-encoded UTF-8"),
    (PageQuery, b"&".join(b"a%d=" % number for number in range(21)), "query", "at most 20 parameters"),
    (PageQuery, b"cursor=" + b"a" * 5_000, "query", "at most 4096 bytes of query"),
    (NoQuery, b"x=1", "query x", "a known parameter: no query parameters"),
    (OrdersQuery, b"side=buy", "query side", "one of BUY, SELL"),
    (OrdersQuery, b"state=gone", "query state", "one of "),
    (OrdersQuery, b"instrument=H100", "query instrument", 'the slug of a GPU model, like "h100-sxm"'),
    (CandlesQuery, b"interval=5m", "query interval", "one of "),
    (CandlesQuery, b"from=2026-12-01", "query from", "an RFC 3339 time"),
    (CandlesQuery, b"from=1", "query from", "an RFC 3339 time"),
    (CandlesQuery, b"from=2026-12-01T00:00:00", "query from", ""),
]


@pytest.mark.parametrize(("shape", "query", "field", "expected"), QUERIES)
def test_a_bad_query_is_told_by_its_parameter(shape: type, query: bytes, field: str, expected: str) -> None:
    with pytest.raises(ProblemError) as caught:
        query_reader(shape)(query)
    (error,) = caught.value.errors
    assert error.field == field
    assert error.expected.startswith(expected)
    assert "bursa_1" not in str(error)


def test_a_good_query_is_typed() -> None:
    query = query_reader(CandlesQuery)(b"interval=1h&from=2026-12-01T00%3A00%3A00Z")
    assert query.interval == "1h"
    assert query.start.isoformat() == "2026-12-01T00:00:00+00:00"
    assert query.end is None
    assert query_reader(PageQuery)(b"limit=7&cursor=abc") == PageQuery(limit=7, cursor="abc")


@pytest.mark.parametrize("key", ["", " ", "a b", "ü", "a\n", "x" * 65, "\x7f"])
def test_a_bad_idempotency_key_is_refused(key: str) -> None:
    with pytest.raises(ProblemError) as caught:
        check_idempotency_key(key)
    assert caught.value.errors[0].field == "header Idempotency-Key"


@pytest.mark.parametrize("key", ["a", "x" * 64, "!~", "5c0a6f4e-order-1"])
def test_a_good_idempotency_key_is_kept(key: str) -> None:
    assert check_idempotency_key(key) == key
