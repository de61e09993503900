"""Money: worked numbers of the design, rounding against fractions, splits, the value type and its machine form."""

import math
import operator
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bursa import money
from bursa.errors import (
    AmountFormatError,
    AmountRangeError,
    AmountTooLargeError,
    BursaError,
    CurrencyError,
    CurrencyMismatchError,
    InputError,
)
from bursa.money import (
    MICROS_MAX,
    MICROS_PER_CENT,
    MICROS_PER_UNIT,
    Currency,
    Money,
    allocate_micros,
    convert_half_even,
    customer_rate,
    fee_micros,
    parse_currency,
    round_down,
    round_half_even,
    round_half_up,
    round_up,
    split_micros,
    tax_micros,
    to_wallet_up,
)

EUR, USD, GBP = Currency.EUR, Currency.USD, Currency.GBP
GERMANY, ITALY = 190_000, 220_000  # VAT rates, parts per million
#: Every kind of thing that is not an exact amount, though Python would happily calculate with most of them.
NOT_INTS = [1.0, 0.5, math.nan, math.inf, True, Decimal(1), Fraction(1), "1", b"1", None, 1j]

currencies = st.sampled_from(Currency)
micros = st.integers(-MICROS_MAX, MICROS_MAX)
amounts = st.builds(Money, micros, currencies)
small_micros = st.integers(-(10**15), 10**15)
numerators = st.integers() | st.integers(-40, 40)
denominators = st.integers(1, 10**30) | st.integers(1, 12)


def micro(text: str) -> int:
    """Read a number of the design's tables as micro-units."""
    value = Fraction(text) * MICROS_PER_UNIT
    assert value.denominator == 1, text
    return int(value)


def usd(text: str) -> Money:
    return Money(micro(text), USD)


# ── the worked numbers of the design: money rules §3, market rules §7 ────────────────────────────────────────────────


def test_anna_german_consumer() -> None:
    """Bid 4 h at 3.00 with 19 % VAT, trade at 2.88, fee 10 %, three hours used, one released."""
    gross_bid = micro("3") + tax_micros(micro("3"), GERMANY)
    assert 4 * gross_bid == micro("14.28")
    net = micro("2.88")
    tax = tax_micros(net, GERMANY)
    fee = fee_micros(net, 1_000)
    assert (tax, fee, net - fee) == (micro("0.5472"), micro("0.288"), micro("2.592"))
    assert net + tax == micro("3.4272")
    assert 4 * (net + tax) == micro("13.7088")
    assert 4 * gross_bid - 4 * (net + tax) == micro("0.5712")
    assert 3 * (net + tax) == micro("10.2816")


def test_anna_penalty_invoice_payout_and_chargeback() -> None:
    assert fee_micros(micro("8.64"), 1_000) == micro("0.864")
    accrued = usd("1.6416")
    assert accrued.round_half_up_to_cent() == (usd("1.64"), usd("0.0016"))
    assert round_half_up(tax_micros(micro("8.64"), GERMANY), MICROS_PER_CENT) == 164
    assert usd("7.776").floor_to_cent() == (usd("7.77"), usd("0.006"))
    assert usd("100") - usd("95.43") == usd("4.57")


def test_bruno_italian_consumer_with_a_euro_wallet() -> None:
    """Rate 1/1.106028 (mid 1.1172 less 1 %), bid 4 h at 3.00, trade at 2.88; the mid side and the FX margin."""
    rate = customer_rate(micro("1.1172"), 100)
    assert rate == micro("1.106028")
    net_bid = to_wallet_up(micro("3"), rate)
    tax_bid = tax_micros(net_bid, ITALY)
    assert (net_bid, tax_bid, net_bid + tax_bid) == (micro("2.712409"), micro("0.59673"), micro("3.309139"))
    assert 4 * (net_bid + tax_bid) == micro("13.236556")
    net = to_wallet_up(micro("2.88"), rate)
    tax = tax_micros(net, ITALY)
    assert (net, tax, net + tax) == (micro("2.603913"), micro("0.572861"), micro("3.176774"))
    assert 4 * (net + tax) == micro("12.707096")
    assert 4 * (net_bid + tax_bid) - 4 * (net + tax) == micro("0.52946")
    mid = convert_half_even(micro("2.88"), micro("1.1172"))
    assert (mid, net - mid) == (micro("2.577873"), micro("0.02604"))


@pytest.mark.parametrize(
    ("hours", "net", "tax", "buyer", "released"),
    [(4, "7.16", "1.3604", "8.5204", "12.7806"), (3, "5.37", "1.0203", "6.3903", "14.9107")],
    ids=["E: stopped in the fourth hour", "F: host lost after 3 h 59 min"],
)
def test_german_bid_of_ten_hours(hours: int, net: str, tax: str, buyer: str, released: str) -> None:
    hold = 10 * (micro("2") + tax_micros(micro("2"), GERMANY))
    kept = 10 * (micro("1.79") + tax_micros(micro("1.79"), GERMANY))
    assert (hold, kept) == (micro("23.8"), micro("21.301"))
    net_used, tax_used = hours * micro("1.79"), hours * tax_micros(micro("1.79"), GERMANY)
    assert (net_used, tax_used, net_used + tax_used) == (micro(net), micro(tax), micro(buyer))
    assert kept - net_used - tax_used == micro(released)


def test_case_e_fee_and_seller() -> None:
    fee = 4 * fee_micros(micro("1.79"), 1_000)
    assert (fee, 4 * micro("1.79") - fee) == (micro("0.716"), micro("6.444"))


def test_case_g_french_business() -> None:
    rate = customer_rate(micro("1.0870"), 100)
    assert rate == micro("1.076130")
    net = to_wallet_up(micro("4.19"), rate)
    assert (net, tax_micros(net, 0), 24 * net) == (micro("3.893582"), 0, micro("93.445968"))
    assert micro("7") - (micro("100") - 24 * net) == micro("0.445968")


# ── rounding, against exact fractions ────────────────────────────────────────────────────────────────────────────────


@given(numerators, denominators)
@example(1, 2)
@example(3, 2)
@example(-1, 2)
@example(-3, 2)
def test_rounding_equals_fractions(numerator: int, denominator: int) -> None:
    exact = Fraction(numerator, denominator)
    assert round_half_even(numerator, denominator) == round(exact)  # Fraction rounds half to even
    assert round_down(numerator, denominator) == math.floor(exact)
    assert round_up(numerator, denominator) == math.ceil(exact)
    away = math.floor(abs(exact) + Fraction(1, 2))
    assert round_half_up(numerator, denominator) == (away if exact >= 0 else -away)


@pytest.mark.parametrize(
    ("numerator", "even", "down", "up", "half_up"),
    [
        (5, 2, 2, 3, 3),
        (7, 4, 3, 4, 4),
        (-5, -2, -3, -2, -3),
        (-7, -4, -4, -3, -4),
        (4, 2, 2, 2, 2),
        (-4, -2, -2, -2, -2),
    ],
)
def test_ties_of_halves(numerator: int, even: int, down: int, up: int, half_up: int) -> None:
    assert round_half_even(numerator, 2) == even
    assert round_down(numerator, 2) == down
    assert round_up(numerator, 2) == up
    assert round_half_up(numerator, 2) == half_up


@given(small_micros, st.integers(0, 1_000_000))
def test_tax_is_half_even_and_mirrors_credits(net: int, rate_ppm: int) -> None:
    assert tax_micros(net, rate_ppm) == round(Fraction(net * rate_ppm, 1_000_000))
    assert tax_micros(-net, rate_ppm) == -tax_micros(net, rate_ppm)


@given(st.integers(0, 10**15), st.integers(0, 10_000))
def test_fee_is_floor_and_never_exceeds_the_net(net: int, fee_bps: int) -> None:
    fee = fee_micros(net, fee_bps)
    assert fee == math.floor(Fraction(net * fee_bps, 10_000))
    assert 0 <= fee <= net


@given(st.integers(0, 10**12), st.integers(10**4, 10**9), st.integers(0, 2_000))
def test_a_customer_never_pays_less_than_mid(price: int, mid: int, margin_bps: int) -> None:
    rate = customer_rate(mid, margin_bps)
    assert rate == math.floor(Fraction(mid * (10_000 - margin_bps), 10_000))
    paid = to_wallet_up(price, rate)
    assert paid == math.ceil(Fraction(price * MICROS_PER_UNIT, rate))
    assert paid >= convert_half_even(price, mid)


FUNCTIONS_OF_TWO: list[Callable[..., object]] = [
    *(round_half_even, round_down, round_up, round_half_up, tax_micros, fee_micros, customer_rate),
    *(to_wallet_up, convert_half_even, split_micros),
]


@pytest.mark.parametrize("bad", NOT_INTS, ids=repr)
@pytest.mark.parametrize("function", FUNCTIONS_OF_TWO)
def test_plain_functions_refuse_what_is_not_an_int(function: Callable[..., object], bad: object) -> None:
    assert function(7, 2) is not None
    with pytest.raises((AssertionError, TypeError)):
        function(bad, 2)
    with pytest.raises((AssertionError, TypeError)):
        function(7, bad)


@pytest.mark.parametrize("denominator", [0, -1])
@pytest.mark.parametrize("function", [round_half_even, round_down, round_up, round_half_up, to_wallet_up])
def test_denominators_are_positive(function: Callable[[int, int], int], denominator: int) -> None:
    with pytest.raises(AssertionError):
        function(1, denominator)


def test_rates_and_fees_have_bounds() -> None:
    for call, args in [
        *[(tax_micros, (1, bad)) for bad in (-1, 1_000_001)],
        *[(fee_micros, (1, bad)) for bad in (-1, 10_001)],
        *[(customer_rate, bad) for bad in ((1_000_000, -1), (1_000_000, 10_000), (0, 100), (1, 100))],
        (fee_micros, (-1, 100)),
    ]:
        with pytest.raises(AssertionError):
            call(*args)


def test_conversions_stay_in_range() -> None:
    for convert in (to_wallet_up, convert_half_even):
        with pytest.raises(AmountRangeError, match="at most 9223372036854775807"):
            convert(MICROS_MAX, 999_999)


# ── splits and partitions: nothing is lost ───────────────────────────────────────────────────────────────────────────


@given(amounts, st.integers(1, 200))
def test_split_is_exact_and_even(amount: Money, parts: int) -> None:
    shares = amount.split(parts)
    assert len(shares) == parts
    assert sum(shares, Money.zero(amount.currency)) == amount
    assert max(shares).micros - min(shares).micros <= 1
    assert (-amount).split(parts) == tuple(-share for share in shares)


@given(amounts, st.lists(st.integers(0, 10**12), min_size=1, max_size=40).filter(any))
def test_allocation_is_exact_and_within_one_micro_of_fair(amount: Money, weights: list[int]) -> None:
    shares = amount.allocate(weights)
    assert sum(shares, Money.zero(amount.currency)) == amount
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share.micros - Fraction(amount.micros * weight, sum(weights))) < 1
        assert weight or not share
    assert (-amount).allocate(weights) == tuple(-share for share in shares)


def test_allocation_gives_the_rest_to_the_largest_remainders() -> None:
    assert allocate_micros(100, [1, 1, 1]) == (34, 33, 33)  # equal remainders: the earlier weight
    assert allocate_micros(10, [1, 5, 2]) == (1, 6, 3)  # 1.25, 6.25, 2.5
    assert allocate_micros(-10, [1, 5, 2]) == (-1, -6, -3)
    assert allocate_micros(7, [0, 1]) == (0, 7)
    assert split_micros(100, 3) == (34, 33, 33)


@given(st.integers(1, 10**9), st.integers(1, 720), st.sets(st.integers(1, 720 * 3600 - 1), max_size=30))
def test_any_partition_of_hours_sums_to_the_total(price: int, hours: int, cuts: set[int]) -> None:
    """Charging the growth of the rounded total cannot drift, however the time is cut."""
    total_s = hours * 3600
    stops = [0, *sorted(cut for cut in cuts if cut < total_s), total_s]
    due = [round_half_even(price * stop, 3600) for stop in stops]
    assert sum(after - before for before, after in pairwise(due)) == hours * price


@given(st.integers(1, 10**9), st.integers(0, 300_000), st.lists(st.integers(1, 16), min_size=1, max_size=16))
def test_hours_charged_one_by_one_exhaust_the_hold(net: int, rate_ppm: int, slices: list[int]) -> None:
    gross = net + tax_micros(net, rate_ppm)
    hold = Money(gross * sum(slices), EUR)
    for hours in slices:
        hold -= Money(gross, EUR) * hours
    assert not hold


def test_splits_refuse_bad_shapes() -> None:
    for parts in (0, -1, money.PARTS_MAX + 1):
        with pytest.raises(AssertionError):
            usd("1").split(parts)
    for weights in ([], [0, 0], [1, -1]):
        with pytest.raises(AssertionError):
            usd("1").allocate(weights)


@given(amounts)
def test_cents_with_the_remainder_lose_nothing(amount: Money) -> None:
    exact = Fraction(amount.micros, MICROS_PER_CENT)
    for round_to_cent, rounded_cents in [
        (amount.floor_to_cent, math.floor(exact)),
        (amount.ceil_to_cent, math.ceil(exact)),
        (amount.round_half_up_to_cent, round_half_up(amount.micros, MICROS_PER_CENT)),
    ]:
        if abs(rounded_cents) * MICROS_PER_CENT > MICROS_MAX:
            with pytest.raises(AmountRangeError):
                round_to_cent()
            continue
        rounded, remainder = round_to_cent()
        assert rounded.micros == rounded_cents * MICROS_PER_CENT
        assert rounded + remainder == amount
        assert abs(remainder.micros) < MICROS_PER_CENT


# ── Money: one currency, ints only ───────────────────────────────────────────────────────────────────────────────────


@given(small_micros, small_micros, st.integers(-1000, 1000), currencies)
def test_arithmetic_is_that_of_integers(left: int, right: int, factor: int, currency: Currency) -> None:
    one, other = Money(left, currency), Money(right, currency)
    assert (one + other).micros == left + right
    assert (one - other).micros == left - right
    assert one * factor == factor * one == Money(left * factor, currency)
    assert (abs(one).micros, (-one).micros, bool(one)) == (abs(left), -left, left != 0)
    for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        assert compare(one, other) == compare(left, right)
    assert hash(one) == hash(Money(left, currency))


ORDERED = [operator.add, operator.sub, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("operate", ORDERED)
@given(st.permutations(list(Currency)), small_micros, small_micros)
def test_mixed_currencies_always_raise(
    operate: Callable[[Any, Any], object], pair: list[Currency], left: int, right: int
) -> None:
    one, other = Money(left, pair[0]), Money(right, pair[1])
    with pytest.raises(CurrencyMismatchError, match=f"got '{pair[1]}', expected {pair[0]}"):
        operate(one, other)
    # Equality is a question, not a sum: it must not raise, or amounts could not live in sets and lists.
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize("bad", [*NOT_INTS, 1], ids=repr)
def test_money_refuses_to_calculate_with_anything_else(bad: Any) -> None:  # noqa: ANN401 - wrong types are the point
    amount = usd("1")
    for operate in ORDERED:
        for pair in ((amount, bad), (bad, amount)):
            with pytest.raises(TypeError):
                operate(*pair)
    assert amount != bad


@pytest.mark.parametrize("bad", NOT_INTS, ids=repr)
def test_money_is_made_of_ints_only(bad: Any) -> None:  # noqa: ANN401 - wrong types are the point
    amount = usd("1")
    for call in (
        lambda: Money(bad, USD),
        lambda: amount * bad,
        lambda: bad * amount,
        lambda: amount.split(bad),
        lambda: amount.allocate([1, bad]),
        lambda: Money(1, bad),
    ):
        with pytest.raises(TypeError):
            call()


def test_money_has_no_division_and_no_float() -> None:
    amount: Any = usd("1")
    for operate in (operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.mul):
        with pytest.raises(TypeError):
            operate(amount, amount)
    for convert in (float, int, round, math.floor):
        with pytest.raises(TypeError):
            convert(amount)


def test_money_is_frozen_and_needs_a_real_currency() -> None:
    amount: Any = usd("1")
    with pytest.raises(AttributeError):
        amount.micros = 2
    text: Any = "USD"
    with pytest.raises(TypeError, match="currency must be a Currency, not str"):
        Money(1, text)


def test_money_range_is_that_of_a_bigint() -> None:
    assert Money(2**63 - 1, EUR).micros == MICROS_MAX
    top = Money(MICROS_MAX, EUR)
    with pytest.raises(AmountRangeError):
        top + Money(1, EUR)
    with pytest.raises(AmountRangeError):
        -top - Money(1, EUR)
    with pytest.raises(AmountRangeError):
        top * 2
    with pytest.raises(AmountRangeError):
        Money(2**63, EUR)


def test_money_survives_pickle_and_msgspec() -> None:
    amount = usd("12.345678")
    assert pickle.loads(pickle.dumps(amount)) == amount  # noqa: S301 - our own bytes
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(amount), type=Money) == amount
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"micros": 1.5, "currency": "USD"}', type=Money)


def test_currencies() -> None:
    assert [(currency, currency.minor_digits) for currency in Currency] == [("EUR", 2), ("USD", 2), ("GBP", 2)]
    assert 10**USD.minor_digits * MICROS_PER_CENT == MICROS_PER_UNIT
    assert parse_currency("EUR") is EUR
    for bad in ("eur", "CHF", "", " EUR"):
        with pytest.raises(CurrencyError, match="one of EUR, USD, GBP"):
            parse_currency(bad)


# ── the machine form: decimal strings ────────────────────────────────────────────────────────────────────────────────


@given(amounts)
def test_decimal_string_round_trip(amount: Money) -> None:
    text = amount.to_decimal_string()
    assert Money.from_decimal_string(text, amount.currency) == amount
    assert Fraction(text) * MICROS_PER_UNIT == amount.micros
    assert str(amount) == f"{amount}" == f"{text} {amount.currency.value}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("12.34", "12.34"),
        ("12.3", "12.30"),
        ("12", "12.00"),
        ("-0.000001", "-0.000001"),
        ("0.120", "0.12"),
        ("0", "0.00"),
    ],
)
def test_decimal_strings_show_what_is_needed(text: str, shown: str) -> None:
    assert str(Money.from_decimal_string(text, USD)) == f"{shown} USD"


BAD_DECIMAL_STRINGS = [
    *("", " ", "-", ".", "1.", ".5", "+1", "--1", "1-", "01", "007", "00", "-0", "-0.00", "1.0000000", "1,5", "1.2.3"),
    *(
        "1_000",
        "1e3",
        "1E3",
        "0x1",
        "inf",
        "nan",
        "NaN",
        "Infinity",
        " 1",
        "1 ",
        "1\n",
        "1\x00",
        "٣",
        "\uff11",
        "1.٣",
        "²",
    ),
    *("1 000", "1\u00a0000", "$1", "1 USD", "1" * 41, "0." + "0" * 50),
]


@pytest.mark.parametrize("text", BAD_DECIMAL_STRINGS, ids=ascii)
def test_decimal_strings_are_strict(text: str) -> None:
    with pytest.raises(AmountFormatError, match=r"price: got .*, expected a decimal string such as "):
        Money.from_decimal_string(text, USD, field="price")


def test_decimal_strings_have_a_range() -> None:
    assert Money.from_decimal_string("-9223372036854.775807", USD).micros == -MICROS_MAX
    for text in ("9223372036854.775808", "-9223372036854.775808", "9" * 40):
        with pytest.raises(AmountTooLargeError, match="at most 9223372036854"):
            Money.from_decimal_string(text, USD)


@given(st.text() | st.text(alphabet="0123456789.-+eE,", max_size=45))
def test_decimal_strings_never_fail_otherwise(text: str) -> None:
    try:
        amount = Money.from_decimal_string(text, USD)
    except InputError:
        return
    assert Fraction(text) * MICROS_PER_UNIT == amount.micros


@pytest.mark.parametrize("bad", [1, 1.5, None, b"1", Decimal(1)], ids=repr)
def test_only_text_is_parsed(bad: Any) -> None:  # noqa: ANN401 - wrong types are the point
    with pytest.raises(TypeError):
        Money.from_decimal_string(bad, USD)


def test_public_names_are_sorted_and_documented() -> None:
    constants = [name for name in money.__all__ if name.isupper()]
    classes = [name for name in money.__all__ if name[0].isupper() and not name.isupper()]
    functions = [name for name in money.__all__ if name.islower()]
    assert money.__all__ == sorted(constants) + sorted(classes) + sorted(functions)
    for name in functions:
        assert getattr(money, name).__doc__, name
    assert issubclass(InputError, BursaError)
