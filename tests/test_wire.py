"""Ids, amounts and times survive the border, and what is none of them is named."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa import wire
from bursa.errors import InputError
from bursa.money import MICROS_MAX, Currency
from bursa.wire.ids import DIGITS_MAX, PREFIXES

KINDS = st.sampled_from(sorted(PREFIXES))
#: A microsecond on the wire is the shortest time; the engine counts nanoseconds.
MICROSECONDS = st.integers(1, 2**62 // 1_000)


@given(kind=KINDS, number=st.integers(1, 10**DIGITS_MAX - 1))
def test_ids_come_back(kind: str, number: int) -> None:
    assert wire.parse_id(kind, wire.show_id(kind, number)) == number


@given(kind=KINDS, text=st.text(max_size=30) | st.from_regex(r"[a-z]{3}_[0-9]{0,20}", fullmatch=True))
def test_an_id_has_one_form(kind: str, text: str) -> None:
    try:
        number = wire.parse_id(kind, text)
    except InputError:
        with pytest.raises(InputError) as refused:
            wire.parse_id(kind, text, "offers.host")
        assert (refused.value.field, refused.value.value) == ("offers.host", text)
        assert refused.value.expected == f"an id like {PREFIXES[kind]}_17"
    else:
        assert wire.show_id(kind, number) == text


@pytest.mark.parametrize(
    "text",
    ["", "17", "ord_", "ord_0", "ord_017", "ord_-1", "ord_1.0", "ORD_1", "rnt_1", "ord_1 ", " ord_1", "ord_1_2",
     "ord_٣", "ord_²", "ord_" + "9" * 19, "ord_1\n"],
)  # fmt: skip
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        wire.parse_id("order", text)


def test_prefixes_tell_kinds_apart() -> None:
    assert len(set(PREFIXES.values())) == len(PREFIXES)


@given(micros=st.integers(-MICROS_MAX, MICROS_MAX))
def test_amounts_come_back(micros: int) -> None:
    text = wire.show_micros(micros)
    assert wire.parse_micros(text, "amount") == micros
    assert len(text.partition(".")[2]) >= 2
    assert msgspec.convert(text, wire.Decimal6) == text


@given(text=st.text(max_size=20) | st.from_regex(r"-?[0-9]{0,15}\.?[0-9]{0,8}", fullmatch=True))
def test_what_reads_as_an_amount_is_exactly_that(text: str) -> None:
    try:
        micros = wire.parse_micros(text, "limit_price")
    except InputError:
        with pytest.raises(InputError, match="at most six places"):
            wire.parse_micros(text, "limit_price")
    else:
        assert float(text) == pytest.approx(micros / 10**6, abs=1e-3)


@pytest.mark.parametrize(
    "text", ["", ".5", "5.", "1e3", "+1", "01", "1,5", "1.0000001", "٣", "NaN", "1 ", "--1", "1\n"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="decimal string"):
        wire.parse_micros(text, "amount")


@given(micros=st.integers(0, 10**18), currency=st.sampled_from(Currency))
def test_amounts_name_their_currency(micros: int, currency: Currency) -> None:
    amount = wire.show_amount(micros, currency)
    again = msgspec.json.decode(msgspec.json.encode(amount), type=wire.Amount)
    assert (wire.parse_micros(again.amount, "amount"), again.currency) == (micros, currency)


@given(microseconds=MICROSECONDS)
def test_times_come_back_to_the_microsecond(microseconds: int) -> None:
    at = wire.show_time(microseconds * 1_000)
    assert at is not None
    assert at.tzinfo is UTC
    assert wire.parse_time(at, "until") == microseconds * 1_000
    elsewhere = at.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert wire.parse_time(elsewhere, "until") == microseconds * 1_000


def test_never_is_no_time() -> None:
    assert wire.show_time(0) is None


def test_a_time_without_its_offset_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        wire.parse_time(datetime(2026, 12, 1, 12), "expires_at")  # noqa: DTZ001 - that is what is refused
    assert refused.value.field == "expires_at"


@pytest.mark.parametrize("price", ["-1", "1.0000001", "1e3", "", "1000000000000.5", "NaN", " 1"])
def test_a_request_refuses_a_price_that_is_none(price: str) -> None:
    body = msgspec.json.encode({"instrument": "h100-sxm", "gpus": 1, "hours": 1, "limit_price": price})
    with pytest.raises(msgspec.ValidationError, match="limit_price"):
        msgspec.json.decode(body, type=wire.BidRequest)


def test_a_request_refuses_fields_that_it_does_not_know() -> None:
    body = b'{"instrument":"h100-sxm","gpus":1,"hours":1,"limit_price":"1","max_price":"2"}'
    with pytest.raises(msgspec.ValidationError, match="max_price"):
        msgspec.json.decode(body, type=wire.BidRequest)


def test_no_answer_but_a_new_key_holds_a_secret() -> None:
    structs = [getattr(wire, name) for name in wire.__all__ if isinstance(getattr(wire, name), type)]
    holders = [
        struct.__name__
        for struct in structs
        if issubclass(struct, msgspec.Struct) and any("secret" in name for name in struct.__struct_fields__)
    ]
    assert holders == ["NewKey"]
