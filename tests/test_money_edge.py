"""Amounts as people write them: formatting against Babel as oracle, and parsing that never guesses."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from babel import Locale
from babel.numbers import format_currency, format_decimal
from hypothesis import given
from hypothesis import strategies as st

from bursa.errors import AmountFormatError, AmountRangeError, AmountTooLargeError, InputError, LocaleError
from bursa.money import (
    LOCALES,
    MICROS_MAX,
    MICROS_PER_CENT,
    MICROS_PER_UNIT,
    Currency,
    Money,
    format_balance,
    format_money,
    format_number,
    parse_amount,
    round_half_even,
)

EUR, USD, GBP = Currency.EUR, Currency.USD, Currency.GBP

currencies = st.sampled_from(Currency)
locales = st.sampled_from(LOCALES)
amounts = st.builds(Money, st.integers(-MICROS_MAX, MICROS_MAX) | st.integers(-(10**10), 10**10), currencies)


def micro(text: str) -> int:
    return Money.from_decimal_string(text, EUR).micros


def usd(text: str) -> Money:
    return Money.from_decimal_string(text, USD)


# ── formatting, against Babel ────────────────────────────────────────────────────────────────────────────────────────


def babel_money(amount: Money, locale: str, decimals: int) -> str:
    """Let Babel write an amount; it pads and rounds nothing here, since decimals suffice."""
    value = Decimal(amount.micros).scaleb(-6).quantize(Decimal(1).scaleb(-decimals))
    tag = locale.replace("-", "_")
    pattern = str(Locale.parse(tag).currency_formats["standard"].pattern)
    pattern = pattern.replace("0.00", "0." + "0" * decimals if decimals else "0")
    return format_currency(value, amount.currency, pattern, locale=tag, currency_digits=False)


@given(amounts, locales, st.integers(0, 6))
def test_format_money_equals_babel(amount: Money, locale: str, places: int) -> None:
    step = 10 ** (6 - places)
    amount = Money(round_half_even(amount.micros, step) * step if abs(amount.micros) < 10**18 else 0, amount.currency)
    assert format_money(amount, locale, places) == babel_money(amount, locale, places)


@given(amounts, locales)
def test_exact_formatting_equals_babel(amount: Money, locale: str) -> None:
    fraction = str(abs(amount.micros) % MICROS_PER_UNIT).rjust(6, "0").rstrip("0")
    assert format_money(amount, locale, "exact") == babel_money(amount, locale, max(2, len(fraction)))


def babel_number(value: Decimal, locale: str, places: int) -> str:
    pattern = "#,##0." + "0" * places if places else "#,##0"
    return format_decimal(value, pattern, locale=locale.replace("-", "_"))


@given(st.integers(-(10**20), 10**20), st.integers(0, 8), locales)
def test_format_number_equals_babel(units: int, places: int, locale: str) -> None:
    value = Decimal(units).scaleb(-places)
    assert format_number(value, locale) == babel_number(value, locale, places)
    assert format_number(units, locale) == babel_number(Decimal(units), locale, 0)


@pytest.mark.parametrize(
    ("locale", "amount", "shown"),
    [
        ("en", usd("1234.5"), "$1,234.50"),
        ("id", usd("0.33"), "US$0,33"),
        ("de", Money(micro("1234.5"), EUR), "1.234,50\u00a0€"),
        ("fr", Money(micro("-1234567.5"), EUR), "-1\u202f234\u202f567,50\u00a0€"),
        ("es", usd("1234.5"), "1.234,50\u00a0US$"),
        ("nl", Money(micro("-5"), EUR), "€\u00a0-5,00"),
        ("pl", Money(micro("12345"), EUR), "12\u00a0345,00\u00a0€"),
        ("it", Money(micro("1234.5"), GBP), "1.234,50\u00a0£"),
        ("pt-BR", usd("-1234.5"), "-US$\u00a01.234,50"),
    ],
)
def test_formats_seen_by_people(locale: str, amount: Money, shown: str) -> None:
    assert format_money(amount, locale) == shown


def test_places() -> None:
    price = usd("0.3333")
    assert format_money(price, "id", "exact") == "US$0,3333"
    assert [format_money(price, "en", places) for places in (None, 0, 1, 6)] == ["$0.33", "$0", "$0.3", "$0.333300"]
    assert format_money(usd("0.005"), "en") == "$0.00"
    assert format_money(usd("-0.005"), "en") == "$0.00"  # no minus zero
    assert format_money(usd("-0.015"), "en") == "-$0.02"
    for bad in (-1, 7, 1.0, True, "all"):
        places: Any = bad
        with pytest.raises(AssertionError):
            format_money(price, "en", places)


@given(amounts.filter(lambda amount: amount.micros > -(10**18)), locales)
def test_balances_are_shown_rounded_down(amount: Money, locale: str) -> None:
    floored = Money(amount.micros // MICROS_PER_CENT * MICROS_PER_CENT, amount.currency)
    assert format_balance(amount, locale) == format_money(floored, locale)
    assert format_balance(usd("92.009999"), "en") == "$92.00"


def test_format_number() -> None:
    assert format_number(1008, "id") == "1.008"
    assert format_number(Decimal("-1234.50"), "fr") == "-1\u202f234,50"
    assert format_number(Decimal("2.5"), "en", 0) == "2"
    assert format_number(Decimal("1E+3"), "en", 1) == "1,000.0"
    for bad in (1.5, True, "1", None):
        value: Any = bad
        with pytest.raises(TypeError):
            format_number(value, "en")
    for huge in (Decimal("nan"), Decimal("inf"), Decimal("1E+999999"), Decimal("1E-999999"), 10**30, 10**5000):
        with pytest.raises(AmountRangeError):
            format_number(huge, "en")


def test_unknown_locales_are_refused() -> None:
    for locale in ("", "xx", "EN", "pt_BR", "pt", "en-US"):
        for call in (
            lambda tag=locale: format_money(usd("1"), tag),
            lambda tag=locale: format_number(1, tag),
            lambda tag=locale: parse_amount("1", USD, tag),
        ):
            with pytest.raises(LocaleError, match="one of en, id, de, fr, es, nl, pl, it, pt-BR"):
                call()


# ── strict parsing ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(amounts, locales, st.integers(0, 6))
def test_what_is_written_is_read_back(amount: Money, locale: str, places: int) -> None:
    step = 10 ** (6 - places)
    amount = Money(int(amount.micros / Fraction(step)) * step, amount.currency)
    text = format_money(amount, locale, places)
    read = parse_amount(
        text, amount.currency, locale, places_max=places, allow_grouping=True, allow_sign=True, allow_symbol=True
    )
    assert read == amount


@given(amounts, locales)
def test_exact_text_without_groups_is_read_back(amount: Money, locale: str) -> None:
    mark = "." if locale == "en" else ","
    text = abs(amount).to_decimal_string().replace(".", mark)
    assert parse_amount(text, amount.currency, locale, places_max=6) == abs(amount)


@pytest.mark.parametrize(
    ("text", "locale", "right"),
    [
        ("0.33", "id", "0,33 "),
        ("0,33", "en", "0.33 "),
        ("1.000", "de", "1000 if 1.000 is a whole number "),
        ("1,000", "en", "1000 if 1,000 is a whole number "),
        ("0.3333", "de", "an amount such as 1234,50 "),
        ("0.330", "id", "an amount such as 1234,50 "),
        ("007", "de", "7 "),
        ("007,5", "de", "7,5 "),
        ("1\u202f234", "fr", "an amount such as 1234,50 "),
        ("Rp5", "id", "an amount such as 1234,50 "),
    ],
)
def test_refusals_say_what_would_be_right(text: str, locale: str, right: str) -> None:
    with pytest.raises(AmountFormatError) as caught:
        parse_amount(text, USD, locale, field="limit")
    assert str(caught.value).startswith(f"limit: got {text!r}, expected {right}(at most 2 decimals after ")


@pytest.mark.parametrize("locale", LOCALES)
@given(body=st.from_regex(r"[0-9]{1,7}([.,][0-9]{1,6})?", fullmatch=True))
def test_advice_is_itself_accepted(locale: str, body: str) -> None:
    try:
        parse_amount(body, EUR, locale)
    except InputError as error:
        advice = error.expected.removeprefix("an amount such as ").split(" ", maxsplit=1)[0]
        assert parse_amount(advice, EUR, locale).micros >= 0


BAD_AMOUNTS = [
    *("", " ", ",", ".", "-", "+", "1,", ",5", "1,2,3", "1,,2", "007", "00", "01,5", "-5", "+5", "5-", "(5)", "1e3"),
    *(
        "1E3",
        "inf",
        "nan",
        "Infinity",
        "NaN",
        "0x10",
        "1_000",
        "٣",
        "\uff11\uff12",
        "1,٣",
        "²",
        "½",
        "一",
        "1 ",
        " 1",
        "1\n",
        "\t1",
    ),
    *(
        "1 000",
        "1\u00a0000",
        "1\u202f000",
        "1'000",
        "1’000",
        "5 €",
        "€5",
        "EUR 5",
        "5%",
        "1,234",
        "1.00",
        "1.000,5",
        "\u22125",
    ),
    *("1" * 41, "0," + "0" * 60, "1\x00", "1\ud800"),
]


@pytest.mark.parametrize("text", BAD_AMOUNTS, ids=ascii)
def test_parsing_is_strict(text: str) -> None:
    with pytest.raises(AmountFormatError, match=r"bid: got .*, expected .*1234,50|bid: got .*, expected [0-9]"):
        parse_amount(text, EUR, "de", field="bid")


def test_groups_must_be_exactly_right() -> None:
    for text, units in [("1.000", "1000"), ("12.345.678", "12345678"), ("1000", "1000"), ("1.000,5", "1000.5")]:
        assert parse_amount(text, EUR, "de", allow_grouping=True).micros == micro(units)
    for text in ("1.00", "1.0000", "10.00.000", "1000.000", "1..000", ".000", "1.", "0.333", "001.000", "1,000.00"):
        with pytest.raises(AmountFormatError):
            parse_amount(text, EUR, "de", allow_grouping=True)
    for space in (" ", "\u00a0", "\u2009"):  # French groups are narrow no-break spaces, and nothing else
        with pytest.raises(AmountFormatError):
            parse_amount(f"1{space}000", EUR, "fr", allow_grouping=True)
    assert parse_amount("1\u202f000", EUR, "fr", allow_grouping=True) == Money(micro("1000"), EUR)


def test_decimals_have_a_limit() -> None:
    assert parse_amount("0,123456", EUR, "de", places_max=6).micros == 123_456
    assert parse_amount("5", EUR, "de", places_max=0).micros == micro("5")
    for text, places_max in [("0,123", 2), ("0,330", 2), ("0,1234567", 6), ("5,0", 0)]:
        with pytest.raises(AmountFormatError, match=f"at most {places_max} decimals|no decimals"):
            parse_amount(text, EUR, "de", places_max=places_max)


def test_symbols_only_where_allowed_and_only_the_right_one() -> None:
    good = {
        "id": ("US$5", "USD 5", "5 USD"),
        "de": ("5\u00a0$", "5 $", "5$", "5 USD", "USD5"),
        "pl": ("5 USD", "USD 5"),
    }
    bad = {"id": ("$5", "5 US$", "US$  5", "US$US$5", "US$5 USD", "US$", "EUR 5", "Rp5"), "de": ("$5", "5 €", "5 usd")}
    for locale, texts in good.items():
        for text in texts:
            assert parse_amount(text, USD, locale, allow_symbol=True) == usd("5")
            with pytest.raises(AmountFormatError):
                parse_amount(text, USD, locale)
    for locale, texts in bad.items():
        for text in texts:
            with pytest.raises(AmountFormatError):
                parse_amount(text, USD, locale, allow_symbol=True)


def test_signs_only_where_allowed() -> None:
    assert parse_amount("-5", EUR, "de", allow_sign=True) == Money(micro("-5"), EUR)
    for text in ("+5", "--5", "- 5", "5-", "-", "-0", "-0,00"):
        with pytest.raises(AmountFormatError):
            parse_amount(text, EUR, "de", allow_sign=True)
    for text in ("--€5", "-€-5", "€--5"):
        with pytest.raises(AmountFormatError):
            parse_amount(text, EUR, "en", allow_sign=True, allow_symbol=True)


def test_too_large_is_said_so() -> None:
    for text in ("9223372036855", "9" * 40):
        with pytest.raises(AmountTooLargeError, match="at most 9223372036854"):
            parse_amount(text, EUR, "de")


marks = st.text(alphabet="0123456789.,-+ \u00a0\u202f€$USDEUR٣\uff11eE", max_size=45)


@given(
    st.text() | marks, currencies, locales, st.tuples(st.booleans(), st.booleans(), st.booleans()), st.integers(0, 6)
)
def test_parsing_raises_nothing_but_input_errors(
    text: str, currency: Currency, locale: str, allowed: tuple[bool, bool, bool], places: int
) -> None:
    grouping, sign, symbol = allowed
    try:
        amount = parse_amount(
            text, currency, locale, places_max=places, allow_grouping=grouping, allow_sign=sign, allow_symbol=symbol
        )
    except InputError as error:
        refusal = error
    else:
        assert amount.micros % 10 ** (6 - places) == 0
        assert sign or amount.micros >= 0
        assert grouping or symbol or set(text) <= set("-0123456789.,")
        return
    assert (refusal.field, refusal.value) == ("amount", text)
    assert refusal.expected
