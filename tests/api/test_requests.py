"""What every request meets before its use case: paths, methods, bodies, headers; and what every answer carries."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest

from bursa.api.operations import OPERATIONS
from tests.api.stand import INSTRUMENT, WAIT_S, Json, Party, Stand, assert_problem, bid
from tests.api.test_streams import limits

PUBLIC = [op for op in OPERATIONS if op.scopes is None]
KEYED = [op for op in OPERATIONS if op.scopes is not None and not op.is_open_to_loopback]
EXAMPLES = {"instrument": INSTRUMENT, "book": INSTRUMENT, "gpu": INSTRUMENT}


def path_of(path: str, **given: str) -> str:
    """Fill a path's parameters, ids of things that are not there if nothing else is given."""
    ids = {"order": "ord_9", "rental": "rnt_9", "host": "hst_99", "party": "pty_999", "key": "key_999"}
    return path.format(**{"transfer": "tfr_9", **ids, **EXAMPLES, **given})


# ── Paths and methods ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/nothing", "/v2/orders", "/v1/orders/", "/v1/orders/ord_1/x"])
def test_a_path_that_is_none_is_a_problem(stand: Stand, path: str) -> None:
    assert_problem(stand.call("GET", path), 404, "NO_SUCH_PATH")


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_a_wrong_method_is_told_the_right_ones(stand: Stand, op: Any) -> None:  # noqa: ANN401 - an Operation
    answer = stand.call("TRACE", path_of(op.path))
    assert_problem(answer, 405, "METHOD_NOT_ALLOWED")
    methods = {other.method for other in OPERATIONS if other.path == op.path}
    expected = methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
    assert set(answer.headers["allow"].split(", ")) == expected


def test_options_lists_the_methods(stand: Stand) -> None:
    answer = stand.call("OPTIONS", "/v1/orders")
    assert answer.status_code == 204
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize("op", [op for op in PUBLIC if not op.stream], ids=lambda op: op.name)
def test_head_is_get_without_a_body(stand: Stand, op: Any) -> None:  # noqa: ANN401 - an Operation
    path = path_of(op.path)
    got, head = stand.call("GET", path), stand.call("HEAD", path)
    assert head.status_code == got.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == got.headers["content-type"]
    assert head.headers.get("etag") == got.headers.get("etag")


# ── Who asks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("op", KEYED, ids=lambda op: op.name)
def test_without_a_key_nothing_is_told(stand: Stand, op: Any) -> None:  # noqa: ANN401 - an Operation
    """Not even whether the body would have been right."""
    answer = stand.call(op.method, path_of(op.path), content=b"{")
    assert_problem(answer, 401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"] == 'Bearer realm="bursa"'


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "Basic YTpi", "Bearer nonsense", "Bearer bursa_1_" + "a" * 43, "Bearer " + "x" * 5_000],
)
def test_a_bad_key_is_none(stand: Stand, header: str) -> None:
    answer = stand.call("GET", "/v1/wallet", headers={"authorization": header})
    problem = assert_problem(answer, 401, "UNAUTHENTICATED")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert "a" * 20 not in str(problem)


def test_a_revoked_key_stops_working_at_once(stand: Stand) -> None:
    party = stand.register()
    made = stand.made("/v1/keys", {"name": "short", "scopes": ["read"]}, party)
    user = Party(party.id, made["secret"])
    assert stand.call("GET", "/v1/wallet", party=user).status_code == 200
    assert stand.call("DELETE", f"/v1/keys/{made['key']['id']}", party=party).status_code == 200
    assert_problem(stand.call("GET", "/v1/wallet", party=user), 401, "KEY_REVOKED")


def test_an_expired_key_stops_working(stand: Stand) -> None:
    party = stand.register()
    made = stand.made("/v1/keys", {"name": "old", "scopes": ["read"], "expires_at": "2100-01-01T00:00:00Z"}, party)
    user = Party(party.id, made["secret"])
    assert stand.call("GET", "/v1/wallet", party=user).status_code == 200
    clock = stand.exchange.clock
    stand.exchange.clock = lambda: clock() + 75 * 365 * 24 * 3_600 * 10**9
    try:
        assert_problem(stand.call("GET", "/v1/wallet", party=user), 401, "KEY_EXPIRED")
    finally:
        stand.exchange.clock = clock


@pytest.mark.parametrize("op", KEYED, ids=lambda op: op.name)
def test_a_key_without_the_scope_may_not(stand: Stand, keyring: dict[str, Party], op: Any) -> None:  # noqa: ANN401
    others = [scope for scope in ("read", "trade", "fund", "sell", "admin") if scope not in op.scopes]
    if op.is_operators:
        others.append("admin")  # the right scope, but not the operator's
    for scope in others:
        answer = stand.call(op.method, path_of(op.path), op.example, party=keyring[scope])
        assert_problem(answer, 403, "FORBIDDEN")


@pytest.fixture(scope="session")
def keyring(stand: Stand) -> dict[str, Party]:
    """Keys of one party, each with one scope."""
    party = stand.register(funds="1000")
    scopes = ("read", "trade", "fund", "sell", "admin")
    return {scope: Party(party.id, stand.make_key(party, scopes=[scope])) for scope in scopes}


OWN_READS = ["/v1/orders/{order}", "/v1/rentals/{rental}", "/v1/hosts/{host}"]


def test_what_is_anothers_is_not_there(stand: Stand) -> None:
    """Answers about another party's things differ in nothing from those about things that do not exist."""
    owner, stranger = stand.register(funds="1000"), stand.register(funds="1000")
    order = stand.made("/v1/orders", bid(), owner)["id"]
    rental = stand.made("/v1/orders", bid(limit_price="2"), owner)["fills"][0]["rental"]
    key = stand.call("GET", "/v1/keys", party=owner).json()["items"][0]["id"]
    calls: list[tuple[str, str, Json | None]] = [
        ("GET", f"/v1/orders/{order}", None),
        ("DELETE", f"/v1/orders/{order}", None),
        ("PATCH", f"/v1/orders/{order}", {"limit_price": "1.6", "lots": 1}),
        ("PATCH", f"/v1/asks/{order}", {"price": "3", "offers": [{"host": stand.host, "gpus": 1}]}),
        ("GET", f"/v1/rentals/{rental}", None),
        ("POST", f"/v1/rentals/{rental}/stop", None),
        ("POST", f"/v1/rentals/{rental}/extend", {"hours": 1, "limit_price": "2"}),
        ("PUT", f"/v1/rentals/{rental}/auto-extend", {"hours": 1, "limit_price": "2", "cap": "5"}),
        ("POST", f"/v1/rentals/{rental}/reclaim", None),
        ("GET", f"/v1/hosts/{stand.host}", None),
        ("DELETE", f"/v1/hosts/{stand.host}", None),
        ("DELETE", f"/v1/keys/{key}", None),
    ]
    for method, path, body in calls:
        head, number = path.rsplit("_", 1)
        nowhere = f"{head}_{'9' * 15}{number.removeprefix(number.partition('/')[0])}"
        foreign = assert_problem(stand.call(method, path, body, party=stranger), 404, "NOT_FOUND")
        unknown = assert_problem(stand.call(method, nowhere, body, party=stranger), 404, "NOT_FOUND")
        for problem in (foreign, unknown):
            del problem["trace_id"]
            for error in problem.get("errors", []):
                error.pop("value", None)
        assert foreign == unknown, (method, path)
    assert stand.call("GET", f"/v1/orders/{order}", party=owner).json()["state"] == "NEW"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/orders/17",
        "/v1/orders/rnt_17",
        "/v1/orders/ord_0",
        "/v1/orders/ord_01",
        "/v1/orders/ord_-1",
        "/v1/orders/ord_1%0A",
        "/v1/orders/ord_1%00",
        "/v1/orders/ord_%D9%A1",
        "/v1/orders/ord_" + "9" * 30,
        "/v1/rentals/ord_1",
        "/v1/hosts/hst_",
    ],
)
def test_what_is_no_id_is_not_found(stand: Stand, path: str) -> None:
    assert_problem(stand.call("GET", path, party=stand.operator), 404, "NOT_FOUND")


# ── Bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def trader(stand: Stand) -> Party:
    return stand.register(funds="1000")


@pytest.mark.parametrize("content", [b"", b"{", b"nonsense", b"\xff"])
def test_a_body_that_is_not_json(stand: Stand, trader: Party, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = stand.call("POST", "/v1/orders", party=trader, content=content, headers=headers)
    assert_problem(answer, 400, "MALFORMED_JSON")


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "application/xml", ""],
)
def test_a_body_of_another_type(stand: Stand, trader: Party, media: str) -> None:
    answer = stand.call("POST", "/v1/orders", party=trader, content=b"{}", headers={"content-type": media})
    assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_body_without_a_type(stand: Stand, trader: Party) -> None:
    answer = stand.call("POST", "/v1/orders", party=trader, content=b'{"a":1}')
    assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_packed_body(stand: Stand, trader: Party) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = stand.call("POST", "/v1/orders", party=trader, content=b"x", headers=headers)
    assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_by_any_of_its_names(stand: Stand, trader: Party, media: str) -> None:
    content = b'{"instrument":"h100-sxm","gpus":1,"hours":1,"limit_price":"1.5"}'
    answer = stand.call("POST", "/v1/quotes", party=trader, content=content, headers={"content-type": media})
    assert answer.status_code == 200, answer.text


def test_a_body_where_none_belongs(stand: Stand, trader: Party) -> None:
    answer = stand.call("DELETE", "/v1/orders/ord_9", {"really": True}, party=trader)
    assert assert_problem(answer, 422, "INVALID_FIELD")["errors"][0]["field"] == "body"


def test_a_body_that_says_it_is_too_large_is_not_read(stand: Stand, trader: Party) -> None:
    headers = {"content-type": "application/json", "content-length": "1048577"}
    answer, taken = send_slowly(stand, trader, [], headers)
    assert_problem(answer, 413, "BODY_TOO_LARGE")
    assert answer.headers["connection"] == "close"
    assert taken == 0


def test_a_length_of_many_digits_is_too_large(stand: Stand, trader: Party) -> None:
    headers = {"content-type": "application/json", "content-length": "9" * 4_000}
    answer, _ = send_slowly(stand, trader, [], headers)
    assert_problem(answer, 413, "BODY_TOO_LARGE")


def test_a_body_that_becomes_too_large_is_read_no_further(stand: Stand, trader: Party) -> None:
    answer, taken = send_slowly(stand, trader, [b" " * 65_536] * 100, {"content-type": "application/json"})
    assert_problem(answer, 413, "BODY_TOO_LARGE")
    assert taken == 17


def test_a_body_that_never_ends_is_given_up(stand: Stand, trader: Party) -> None:
    headers = {"content-type": "application/json"}
    answer, _ = send_slowly(stand, trader, [b"{"], headers, is_endless=True, body_seconds_max=0.05)
    assert_problem(answer, 408, "BODY_TOO_SLOW")
    assert answer.headers["connection"] == "close"


def test_a_body_in_pieces_is_one_body(stand: Stand, trader: Party) -> None:
    pieces = [b'{"instrument":"h100-sxm","gpus":1,', b'"hours":1,', b'"limit_price":"1.5"}']
    answer, taken = send_slowly(stand, trader, pieces, {"content-type": "application/json"})
    assert answer.status_code == 200
    assert taken == 3


def send_slowly(
    stand: Stand,
    party: Party,
    pieces: list[bytes],
    headers: dict[str, str],
    *,
    is_endless: bool = False,
    **changes: float,
) -> tuple[httpx.Response, int]:
    """Ask for a quote with a body in pieces; return the answer and how many pieces were taken."""
    app = stand.make_app(limits(**changes))
    sent = {**party.headers, **headers}
    left = list(pieces)
    got: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if left:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left) or is_endless}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        got.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/quotes",
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in sent.items()],
        "client": None,
    }

    async def run() -> None:
        await asyncio.wait_for(app(scope, receive, send), WAIT_S)

    stand.run(run())
    head = got[0]
    answer = httpx.Response(head["status"], headers=head["headers"], content=got[1]["body"])
    return answer, len(pieces) - len(left)


# ── Queries and headers ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_an_unknown_parameter_is_refused_by_name(stand: Stand, op: Any) -> None:  # noqa: ANN401 - an Operation
    if "{" in op.path and op.scopes is None and op.method != "GET":
        raise AssertionError("public operations only read")
    answer = stand.call(op.method, path_of(op.path) + "?bogus=1", op.example, party=stand.operator)
    problem = assert_problem(answer, 422, "INVALID_FIELD")
    assert problem["errors"][0]["field"] == "query bogus"


def test_a_key_in_the_query_is_neither_taken_nor_repeated(stand: Stand, trader: Party) -> None:
    answer = stand.call("GET", f"/v1/wallet?key={trader.key}")
    assert_problem(answer, 401, "UNAUTHENTICATED")
    answer = stand.call("GET", f"/v1/wallet?key={trader.key}", party=trader)
    assert_problem(answer, 422, "INVALID_FIELD")
    assert trader.key not in answer.text


def test_a_key_in_a_wrong_field_is_not_repeated(stand: Stand, trader: Party) -> None:
    answer = stand.call("POST", "/v1/orders", bid(limit_price=trader.key), party=trader)
    assert_problem(answer, 422, "INVALID_FIELD")
    assert trader.key.rpartition("_")[2][:10] not in answer.text


def test_a_bad_idempotency_key_is_refused(stand: Stand, trader: Party) -> None:
    headers = {"idempotency-key": "two words"}
    answer = stand.call("POST", "/v1/orders", bid(), party=trader, headers=headers)
    problem = assert_problem(answer, 422, "INVALID_FIELD")
    assert problem["errors"][0]["field"] == "header Idempotency-Key"


def test_the_trace_of_the_asker_goes_on(stand: Stand) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = stand.call("GET", "/v1/nothing", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert assert_problem(answer, 404, "NO_SUCH_PATH")["trace_id"] == trace
    version, shown, span, _flags = answer.headers["traceparent"].split("-")
    assert (version, shown) == ("00", trace)
    assert span != "00f067aa0ba902b7", "a span of its own"


@pytest.mark.parametrize("header", ["", "nonsense", "00-" + "0" * 32 + "-00f067aa0ba902b7-01"])
def test_a_trace_that_is_none_is_replaced(stand: Stand, header: str) -> None:
    answer = stand.call("GET", "/v1/health", headers={"traceparent": header})
    assert answer.status_code == 200
    assert answer.headers["traceparent"].split("-")[1] != "0" * 32


def test_private_answers_are_not_stored(stand: Stand, trader: Party) -> None:
    for path in ("/v1/wallet", "/v1/orders", "/v1/whoami"):
        assert stand.call("GET", path, party=trader).headers["cache-control"] == "no-store"
    assert stand.call("GET", "/v1/market").headers["cache-control"] == "no-cache"


def test_a_fault_of_ours_shows_nothing_but_its_trace(stand: Stand, trader: Party, caplog: Any) -> None:  # noqa: ANN401
    """The view is taken away under the API's feet: the nearest thing to a bug that a test can make happen."""
    view = stand.exchange.view
    del stand.exchange.view
    try:
        answer = stand.call("GET", f"/v1/market/{INSTRUMENT}", party=trader)
    finally:
        stand.exchange.view = view
    problem = assert_problem(answer, 500, "INTERNAL")
    assert "view" not in answer.text
    assert "AttributeError" in caplog.text
    assert problem["trace_id"]
