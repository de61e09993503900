"""Operations end to end: orders and their idempotency, batches, pages, CSV, ETags, limits, health and metrics."""

import csv
import io
import logging
import re
from typing import Any

import msgspec
import pytest

from bursa import wire
from bursa.ops import metrics
from tests.api.stand import INSTRUMENT, Json, Party, Stand, assert_problem, bid, make_host
from tests.api.test_streams import limits

# ── Orders ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bid_that_fills_is_told_with_its_rental(stand: Stand) -> None:
    party = stand.register(funds="100")
    answer = stand.call("POST", "/v1/orders", bid(limit_price="2.00"), party=party)
    assert answer.status_code == 201
    order = msgspec.json.decode(answer.content, type=wire.Order)
    assert answer.headers["location"] == f"/v1/orders/{order.id}"
    assert (order.state, order.filled, order.leaves) == ("FILLED", 1, 0)
    shown = stand.call("GET", answer.headers["location"], party=party)
    assert msgspec.json.decode(shown.content, type=wire.Order).fills == order.fills
    rental = stand.call("GET", f"/v1/rentals/{order.fills[0].rental}", party=party)
    assert msgspec.json.decode(rental.content, type=wire.RentalView).role == "BUYER"


def test_an_order_is_amended_and_canceled(stand: Stand) -> None:
    party = stand.register(funds="100")
    order = stand.made("/v1/orders", bid(), party)["id"]
    amended = stand.call("PATCH", f"/v1/orders/{order}", {"limit_price": "1.6", "lots": 2}, party=party)
    assert (amended.status_code, amended.json()["price"], amended.json()["leaves"]) == (200, "1.60", 2)
    canceled = stand.call("DELETE", f"/v1/orders/{order}", party=party)
    assert (canceled.status_code, canceled.json()["state"]) == (200, "CANCELED")
    again = stand.call("DELETE", f"/v1/orders/{order}", party=party)
    assert_problem(again, 409, "ORDER_ALREADY_CLOSED")


def test_the_same_key_and_body_give_the_same_answer(stand: Stand) -> None:
    party = stand.register(funds="100")
    headers = {"idempotency-key": "once"}
    first = stand.call("POST", "/v1/orders", bid(), party=party, headers=headers)
    again = stand.call("POST", "/v1/orders", bid(), party=party, headers=headers)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.status_code, again.content) == (first.status_code, first.content) == (201, first.content)
    assert len(stand.call("GET", "/v1/orders", party=party).json()["items"]) == 1


def test_the_same_key_with_another_body_is_a_conflict(stand: Stand) -> None:
    party = stand.register(funds="100")
    headers = {"idempotency-key": "once"}
    stand.made("/v1/orders", bid(), party, **headers)
    answer = stand.call("POST", "/v1/orders", bid(hours=3), party=party, headers=headers)
    assert_problem(answer, 409, "EXISTS_WITH_DIFFERENT_FIELDS")
    assert len(stand.call("GET", "/v1/orders", party=party).json()["items"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("/v1/wallet/top-ups", {"amount": "10", "currency": "USD"}, {"amount": "11", "currency": "USD"}),
        ("/v1/wallet/refunds", {"amount": "10", "currency": "USD"}, {"amount": "11", "currency": "USD"}),
        (
            "/v1/hosts",
            {"instrument": INSTRUMENT, "spec": {"gpus": 1, "country": "DE"}},
            {"instrument": INSTRUMENT, "spec": {"gpus": 2, "country": "DE"}},
        ),
    ],
)
def test_what_moves_money_or_machines_happens_once(stand: Stand, path: str, body: Json, other: Json) -> None:
    party = stand.register(funds="100")
    headers = {"idempotency-key": "once"}
    first = stand.call("POST", path, body, party=party, headers=headers)
    again = stand.call("POST", path, body, party=party, headers=headers)
    assert first.status_code == again.status_code == 201, first.text
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"
    answer = stand.call("POST", path, other, party=party, headers=headers)
    assert_problem(answer, 409, "EXISTS_WITH_DIFFERENT_FIELDS")


def test_one_partys_keys_are_not_anothers(stand: Stand) -> None:
    for _ in range(2):
        party = stand.register(funds="100")
        answer = stand.call("POST", "/v1/orders", bid(), party=party, headers={"idempotency-key": "mine"})
        assert answer.status_code == 201
        assert "idempotent-replayed" not in answer.headers


REFUSED = [
    (bid(instrument="abacus"), 422, "UNKNOWN_INSTRUMENT", "instrument"),
    (bid(limit_price="1.5555"), 422, "PRICE_NOT_ON_TICK", "limit_price"),
    (bid(limit_price="900"), 422, "PRICE_OUT_OF_BAND", "limit_price"),
    (bid(hours=8_000), 422, "HOURS_OUT_OF_RANGE", "hours"),
    (bid(lots=64), 402, "INSUFFICIENT_FUNDS", None),
    (bid(lots=65), 422, "QUANTITY_OUT_OF_RANGE", "lots"),
    (bid(currency="EUR"), 409, "NO_RATE", "currency"),
    (bid(time_in_force="FOK"), 409, "NOTHING_TO_FILL", None),
    (bid(time_in_force="GTD"), 422, None, "expires_at"),
    (bid(expires_at="2026-12-01T00:00:00"), 422, "INVALID_FIELD", "expires_at"),
    (bid(filters={"avoid_hosts": ["host 1"]}), 422, "INVALID_FIELD", None),
    (bid(filters={"regions": ["XYZW"]}), 422, "INVALID_FIELD", "filters.regions"),
]


@pytest.mark.parametrize(("body", "status", "code", "field"), REFUSED)
def test_a_refused_bid_is_told_why(stand: Stand, body: Json, status: int, code: str | None, field: str | None) -> None:
    party = stand.register(funds="100")
    answer = stand.call("POST", "/v1/orders", body, party=party)
    problem = assert_problem(answer, status, code or answer.json()["code"])
    if field is not None:
        assert problem["errors"][0]["field"] == field, problem
    assert stand.call("GET", "/v1/orders", party=party).json()["items"] == []


def test_insufficient_funds_come_with_the_shortfall(stand: Stand) -> None:
    party = stand.register(funds="10")
    answer = stand.call("POST", "/v1/orders", bid(hours=24), party=party)
    problem = assert_problem(answer, 402, "INSUFFICIENT_FUNDS")
    # 24 h × US$1.50 × 1.19 = US$42.84
    assert problem["shortfall"] == {"amount": "32.84", "currency": "USD"}


def test_a_quote_holds_nothing(stand: Stand) -> None:
    party = stand.register(funds="100")
    quote = stand.made("/v1/quotes", bid(limit_price="2"), party)
    assert quote["hold"] == {"amount": "4.76", "currency": "USD"}
    assert stand.call("GET", "/v1/wallet", party=party).json()["balances"][0]["held"] == "0.00"


def test_a_batch_answers_each_item_for_itself(stand: Stand) -> None:
    party = stand.register(funds="100")
    first = stand.made("/v1/orders", bid(), party)["id"]
    items = [
        {"bid": bid()},
        {"bid": bid(limit_price="1.5555")},
        {"cancel": first},
        {"cancel": "ord_999999"},
        {"bid": bid(), "idempotency_key": "own"},
    ]
    answer = stand.call("POST", "/v1/orders:batch", {"items": items}, party=party)
    assert answer.status_code == 200
    results = msgspec.json.decode(answer.content, type=wire.BatchAnswer).results
    assert [result.status for result in results] == [201, 422, 200, 404, 201]
    assert results[1].problem is not None
    assert results[1].problem.code == "PRICE_NOT_ON_TICK"
    assert [order["state"] for order in stand.call("GET", "/v1/orders", party=party).json()["items"]] == [
        "NEW",
        "NEW",
        "CANCELED",
    ]


def test_a_batch_sent_again_places_nothing(stand: Stand) -> None:
    party = stand.register(funds="100")
    body, headers = {"items": [{"bid": bid()}, {"bid": bid(hours=3)}]}, {"idempotency-key": "batch"}
    first = stand.call("POST", "/v1/orders:batch", body, party=party, headers=headers)
    again = stand.call("POST", "/v1/orders:batch", body, party=party, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    assert len(stand.call("GET", "/v1/orders", party=party).json()["items"]) == 2


def test_a_batch_is_bounded(stand: Stand) -> None:
    party = stand.register()
    too_many = {"items": [{"cancel": "ord_1"}] * 1_001}
    assert_problem(stand.call("POST", "/v1/orders:batch", too_many, party=party), 422, "INVALID_FIELD")
    assert_problem(stand.call("POST", "/v1/orders:batch", {"items": []}, party=party), 422, "INVALID_FIELD")


def test_a_seller_lists_asks_and_withdraws(stand: Stand) -> None:
    seller = stand.register()
    host = make_host(stand, seller)
    ask = stand.made("/v1/asks", {"offers": [{"host": host, "gpus": 2}], "price": "3"}, seller)
    amended = stand.call(
        "PATCH", f"/v1/asks/{ask['id']}", {"price": "3.1", "offers": [{"host": host, "gpus": 2}]}, party=seller
    )
    assert (amended.status_code, amended.json()["price"]) == (200, "3.10")
    assert stand.call("DELETE", f"/v1/orders/{ask['id']}", party=seller).json()["state"] == "CANCELED"
    assert stand.call("DELETE", f"/v1/hosts/{host}", party=seller).json()["is_retired"] is True


def test_a_foreign_host_in_an_ask_is_unknown(stand: Stand) -> None:
    seller = stand.register()
    for host in (stand.host, "hst_999999"):
        answer = stand.call("POST", "/v1/asks", {"offers": [{"host": host, "gpus": 1}], "price": "3"}, party=seller)
        assert_problem(answer, 422, "UNKNOWN_HOST")


# ── Lists ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pages_lead_through_all_items_once(stand: Stand) -> None:
    party = stand.register(funds="100")
    made = [stand.made("/v1/orders", bid(), party)["id"] for _ in range(5)]
    seen, path = [], "/v1/orders?limit=2"
    while path:
        page = stand.call("GET", path, party=party).json()
        assert len(page["items"]) <= 2
        seen += [order["id"] for order in page["items"]]
        path = f"/v1/orders?limit=2&cursor={page['next']}" if page["next"] else ""
    assert seen == made[::-1]


@pytest.mark.parametrize("path", ["/v1/orders", "/v1/rentals", "/v1/wallet/statement", "/v1/hosts", "/v1/keys"])
@pytest.mark.parametrize("cursor", ["x", "AAAA", "%00", "e30", "a" * 512])
def test_a_cursor_of_ones_own_making_is_refused(stand: Stand, path: str, cursor: str) -> None:
    answer = stand.call("GET", f"{path}?cursor={cursor}", party=stand.operator)
    assert answer.status_code in {400, 422}, answer.text
    assert answer.json()["code"] in {"INVALID_CURSOR", "INVALID_FIELD"}


def test_orders_are_filtered(stand: Stand) -> None:
    party = stand.register(funds="100")
    first = stand.made("/v1/orders", bid(), party)["id"]
    second = stand.made("/v1/orders", bid(), party)["id"]
    stand.call("DELETE", f"/v1/orders/{first}", party=party)
    for query, expected in (
        ("state=open", [second]),
        ("state=CANCELED", [first]),
        ("side=SELL", []),
        (f"instrument={INSTRUMENT}&side=BUY", [second, first]),
        ("instrument=abacus", []),
    ):
        items = stand.call("GET", f"/v1/orders?{query}", party=party).json()["items"]
        assert [order["id"] for order in items] == expected, query


@pytest.mark.parametrize(
    ("query", "accept"), [("?format=csv", "*/*"), ("", "text/csv"), ("?format=csv", "application/json")]
)
def test_a_statement_comes_as_csv(stand: Stand, query: str, accept: str) -> None:
    party = stand.register(funds="100")
    stand.made("/v1/orders", bid(), party)
    answer = stand.call("GET", f"/v1/wallet/statement{query}", party=party, headers={"accept": accept})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    lines = stand.call("GET", "/v1/wallet/statement", party=party).json()["items"]
    assert [(row["entry"], row["at"], row["change"]) for row in rows] == [
        (line["entry"], line["at"], line["change"]) for line in lines
    ]
    assert [row["balance"] for row in rows] == ["96.43", "100.00"]


def test_a_statement_in_csv_leads_to_its_next_page(stand: Stand) -> None:
    party = stand.register(funds="100")
    stand.made("/v1/orders", bid(), party)
    answer = stand.call("GET", "/v1/wallet/statement?format=csv&limit=1", party=party)
    match = re.fullmatch(r'<(\S+)>; rel="next"', answer.headers["link"])
    assert match is not None
    rest = stand.call("GET", match[1], party=party)
    assert rest.headers["content-type"].startswith("text/csv")
    assert len(rest.text.splitlines()) == 2
    assert "link" not in rest.headers


def test_a_formula_in_a_memo_is_quoted() -> None:
    from bursa.api.operations.wallet import _cell  # noqa: PLC0415 - no use case lets such a memo in

    assert _cell("memo", "=1+1") == "'=1+1"
    assert _cell("memo", "plain") == "plain"
    assert _cell("change", "-5.00") == "-5.00"
    assert _cell("order", None) == ""


# ── Market data ──────────────────────────────────────────────────────────────────────────────────────────────────────

MARKET = ["/v1/market", f"/v1/market/{INSTRUMENT}", f"/v1/market/{INSTRUMENT}/book", "/v1/gpus", "/v1/gpus/h100-sxm"]


@pytest.mark.parametrize("path", MARKET)
def test_nothing_new_is_not_sent_again(stand: Stand, path: str) -> None:
    at_ns = 1_800_000_000 * 10**9
    clock, stand.exchange.clock = stand.exchange.clock, lambda: at_ns
    try:
        first = stand.call("GET", path)
        tag = first.headers["etag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            answer = stand.call("GET", path, headers={"if-none-match": known})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
            assert "content-type" not in answer.headers
        assert stand.call("GET", path, headers={"if-none-match": '"other"'}).status_code == 200
        party = stand.register(funds="100")
        stand.made("/v1/orders", bid(), party)
        changed = stand.call("GET", path, headers={"if-none-match": tag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag
    finally:
        stand.exchange.clock = clock


@pytest.mark.parametrize("path", ["", "/book", "/trades", "/candles", "/stream"])
def test_an_unknown_instrument_is_not_found(stand: Stand, path: str) -> None:
    assert_problem(stand.call("GET", f"/v1/market/abacus{path}"), 404, "NOT_FOUND")


def test_candles_and_trades_tell_of_a_trade(stand: Stand) -> None:
    party = stand.register(funds="100")
    order = stand.made("/v1/orders", bid(limit_price="2"), party)
    trades = stand.call("GET", f"/v1/market/{INSTRUMENT}/trades?limit=1").json()["items"]
    assert [trade["id"] for trade in trades] == [order["fills"][0]["trade"]]
    assert party.id not in str(trades)
    for interval in ("1m", "1h", "1d"):
        candles = stand.call("GET", f"/v1/market/{INSTRUMENT}/candles?interval={interval}").json()["items"]
        assert candles[-1]["close"] == "2.00"


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Watch:
    """A clock that stands still until told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_key_that_asks_too_often_waits(stand: Stand) -> None:
    watch = Watch()
    app = stand.make_app(limits(key_rate=1, key_burst=3), monotonic=watch)
    party, other = stand.register(), stand.register()
    for left in (2, 1, 0):
        answer = stand.call("GET", "/v1/wallet", party=party, app=app)
        assert answer.status_code == 200
        assert answer.headers["ratelimit-policy"] == '"key";q=3;w=3'
        assert answer.headers["ratelimit"].startswith(f'"key";r={left};t=')
    answer = stand.call("GET", "/v1/wallet", party=party, app=app)
    problem = assert_problem(answer, 429, "RATE_LIMITED")
    assert answer.headers["retry-after"] == "1"
    assert problem["retry_after_s"] == 1
    assert stand.call("GET", "/v1/wallet", party=other, app=app).status_code == 200
    watch.now += 1
    assert stand.call("GET", "/v1/wallet", party=party, app=app).status_code == 200


def test_an_address_that_asks_too_often_waits(stand: Stand) -> None:
    app = stand.make_app(limits(address_rate=1, address_burst=2), monotonic=Watch())
    paths = ("/v1/market", "/v1/nothing", "/v1/gpus")
    answers = [stand.call("GET", path, app=app, client=("192.0.2.1", 1)) for path in paths]
    assert [answer.status_code for answer in answers] == [200, 404, 429]
    assert stand.call("GET", "/v1/market", app=app, client=("192.0.2.2", 1)).status_code == 200


def test_guessing_keys_is_slow(stand: Stand) -> None:
    app = stand.make_app(limits(address_rate=1, address_burst=20), monotonic=Watch())
    guess = {"authorization": "Bearer bursa_1_" + "a" * 43}
    codes = [stand.call("GET", "/v1/wallet", headers=guess, app=app).status_code for _ in range(4)]
    assert codes == [401, 401, 429, 429]


def test_good_keys_do_not_spend_their_addresss_tokens(stand: Stand) -> None:
    app = stand.make_app(limits(address_rate=1, address_burst=2), monotonic=Watch())
    party = stand.register()
    codes = {stand.call("GET", "/v1/wallet", party=party, app=app).status_code for _ in range(5)}
    assert codes == {200}


def test_items_of_a_batch_cost_less_than_requests(stand: Stand) -> None:
    app = stand.make_app(limits(key_rate=1, key_burst=12, batch_items_per_token=10), monotonic=Watch())
    party = stand.register()
    batch = {"items": [{"cancel": "ord_999999"}] * 50}
    statuses = [stand.call("POST", "/v1/orders:batch", batch, party=party, app=app).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


# ── The service itself ───────────────────────────────────────────────────────────────────────────────────────────────


def test_health_and_readiness(stand: Stand) -> None:
    assert stand.call("GET", "/v1/health").json()["status"] == "ok"
    assert stand.call("GET", "/v1/ready").json()["status"] == "ready"


def test_not_ready_is_told_with_the_reason_and_no_warning(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "bursa.api")
    node = stand.exchange.node
    node.detail = "the disk of the database is full"
    try:
        answer = stand.call("GET", "/v1/ready")
        assert stand.call("GET", "/v1/health").status_code == 200
    finally:
        node.detail = ""
    problem = assert_problem(answer, 503, "NOT_READY")
    assert problem["detail"] == "the disk of the database is full"
    assert answer.headers["retry-after"] == "1"
    levels = [record.levelname for record in caplog.records if getattr(record, "code", "") == "NOT_READY"]
    assert levels == ["DEBUG"]


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        (("127.0.0.1", 1), {}, 200),
        (("::1", 1), {}, 200),
        (("192.0.2.1", 1), {}, 401),
        (("127.0.0.1", 1), {"x-forwarded-for": "192.0.2.1"}, 401),
        (("127.0.0.1", 1), {"forwarded": "for=192.0.2.1"}, 401),
    ],
)
def test_metrics_are_for_this_machine(stand: Stand, client: Any, headers: Any, status: int) -> None:  # noqa: ANN401
    assert stand.call("GET", "/v1/metrics", client=client, headers=headers).status_code == status


def test_metrics_are_for_the_operator_from_anywhere(stand: Stand) -> None:
    far = ("192.0.2.1", 1)
    answer = stand.call("GET", "/v1/metrics", party=stand.operator, client=far)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert_problem(stand.call("GET", "/v1/metrics", party=stand.register(), client=far), 403, "FORBIDDEN")


def requests_of(method: str, route: str, status: str) -> float:
    labels = {"method": method, "route": route, "status": status}
    return metrics.REGISTRY.get_sample_value("bursa_http_requests_total", labels) or 0.0


def test_requests_are_counted_by_route_and_status(stand: Stand) -> None:
    kinds = [
        ("GET", "/v1/orders/{order}", "404", "GET", "/v1/orders/ord_999999"),
        ("OTHER", "unmatched", "404", "SPY", "/v1/nothing/at/all"),
        ("PUT", "/v1/orders", "405", "PUT", "/v1/orders"),
    ]
    for method, route, status, sent, path in kinds:
        before = requests_of(method, route, status)
        stand.call(sent, path, party=stand.operator)
        assert requests_of(method, route, status) == before + 1, route


def test_a_process_without_orders_serves_its_health_alone(stand: Stand) -> None:
    app = stand.make_app(limits(), is_service_only=True)
    assert stand.call("GET", "/v1/ready", app=app).status_code == 200
    assert_problem(stand.call("GET", "/v1/market", app=app), 404, "NO_SUCH_PATH")


def test_the_document_is_served(stand: Stand) -> None:
    answer = stand.call("GET", "/v1/openapi.json")
    assert answer.json()["openapi"] == "3.1.0"


def test_a_party_is_suspended_and_reinstated(stand: Stand) -> None:
    party = stand.register(funds="100")
    stand.made(f"/v1/admin/parties/{party.id}/suspend", None, stand.operator)
    assert_problem(stand.call("POST", "/v1/orders", bid(), party=party), 403, "PARTY_SUSPENDED")
    stand.made(f"/v1/admin/parties/{party.id}/reinstate", None, stand.operator)
    assert stand.call("POST", "/v1/orders", bid(), party=party).status_code == 201


def test_a_key_stops_at_its_daily_cap(stand: Stand) -> None:
    party = stand.register(funds="100")
    capped = Party(party.id, stand.make_key(party, daily_cap="5"))
    assert stand.call("POST", "/v1/orders", bid(), party=capped).status_code == 201
    assert_problem(stand.call("POST", "/v1/orders", bid(), party=capped), 403, "SPENDING_CAP_REACHED")
    assert stand.call("POST", "/v1/orders", bid(), party=party).status_code == 201
