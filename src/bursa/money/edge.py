"""Amounts and numbers as people write them: formatting and strict parsing in nine languages.

Role: the only place where an amount becomes text for people, or text of people becomes an amount.
Invariants: what format_money writes, parse_amount reads back to the same amount; text that could be read in two ways is
refused, with the right form in the error (`0.33` under Indonesian rules is never 33). Formatting equals Babel's, which
the tests use as oracle; the table is here because the core is pure and parsing needs it stricter than Babel has it.
Source: docs/explain/ledger.md, "Formats at the edge"; marks, patterns and symbols are Unicode CLDR's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from bursa.errors import AmountFormatError, AmountRangeError, LocaleError
from bursa.money.amount import Currency, Money, micros_from_digits
from bursa.money.rounding import MICRO_DIGITS, round_half_even

__all__ = [
    "AMOUNT_CHARS_MAX",
    "LOCALES",
    "NUMBER_DIGITS_MAX",
    "Places",
    "format_balance",
    "format_money",
    "format_number",
    "parse_amount",
]

#: Longest text that parse_amount looks at, in characters: nobody means a longer amount.
AMOUNT_CHARS_MAX: Final = 40
#: Most digits before, and most after, the decimal mark that format_number writes.
NUMBER_DIGITS_MAX: Final = 30

#: Decimals to show: that many (0 to 6, half-even), "exact" (as needed, at least the currency's), None (the currency's).
Places: TypeAlias = int | Literal["exact"] | None

_NBSP: Final = "\u00a0"
_NARROW_NBSP: Final = "\u202f"
#: What may stand between a number and its currency when a symbol is allowed: people cannot type a no-break space.
_SYMBOL_SPACES: Final = (" ", _NBSP, _NARROW_NBSP)


@dataclass(frozen=True, slots=True)
class _NumberRules:
    """How one language writes numbers and sums of money. Patterns hold {symbol} and {number}."""

    decimal_mark: str
    group_mark: str
    positive: str
    negative: str
    symbols: Mapping[Currency, str]
    group_digits: int = 3

    def symbol_is_first(self) -> bool:
        return self.positive.startswith("{symbol}")


def _symbols(eur: str, usd: str, gbp: str) -> Mapping[Currency, str]:
    return MappingProxyType({Currency.EUR: eur, Currency.USD: usd, Currency.GBP: gbp})


_BEFORE: Final = ("{symbol}{number}", "-{symbol}{number}")
_BEFORE_SPACED: Final = (f"{{symbol}}{_NBSP}{{number}}", f"-{{symbol}}{_NBSP}{{number}}")
_BEFORE_SPACED_DUTCH: Final = (f"{{symbol}}{_NBSP}{{number}}", f"{{symbol}}{_NBSP}-{{number}}")
_AFTER: Final = (f"{{number}}{_NBSP}{{symbol}}", f"-{{number}}{_NBSP}{{symbol}}")

_RULES: Final[Mapping[str, _NumberRules]] = MappingProxyType(
    {
        "en": _NumberRules(".", ",", *_BEFORE, _symbols("€", "$", "£")),
        "id": _NumberRules(",", ".", *_BEFORE, _symbols("€", "US$", "£")),
        "de": _NumberRules(",", ".", *_AFTER, _symbols("€", "$", "£")),
        "fr": _NumberRules(",", _NARROW_NBSP, *_AFTER, _symbols("€", "$US", "£GB")),
        "es": _NumberRules(",", ".", *_AFTER, _symbols("€", "US$", "GBP")),
        "nl": _NumberRules(",", ".", *_BEFORE_SPACED_DUTCH, _symbols("€", "US$", "£")),
        "pl": _NumberRules(",", _NBSP, *_AFTER, _symbols("€", "USD", "GBP")),
        "it": _NumberRules(",", ".", *_AFTER, _symbols("€", "USD", "£")),
        "pt-BR": _NumberRules(",", ".", *_BEFORE_SPACED, _symbols("€", "US$", "£")),
    }
)

#: BCP 47 tags of the languages that numbers are formatted and read in.
LOCALES: Final[tuple[str, ...]] = tuple(_RULES)


def format_money(money: Money, locale: str, places: Places = None) -> str:
    """Write an amount with its currency symbol as the language does: `US$0,33`, `1.234,50 €`.

    places: None for cents (half-even; totals), "exact" for prices and statements, or 0 to 6. Raises LocaleError.
    Groups start at four digits in every language, as Babel's do.
    """
    rules = _rules_for(locale)
    places_shown = _places_for(money, places)
    units = round_half_even(money.micros, 10 ** (MICRO_DIGITS - places_shown))
    pattern = rules.negative if units < 0 else rules.positive
    number = _digits(abs(units), places_shown, rules)
    return pattern.format(symbol=rules.symbols[money.currency], number=number)


def format_balance(money: Money, locale: str) -> str:
    """Write a balance in cents rounded down, so that nobody is shown money that is not there. Raises LocaleError.

    Source: money rules §1, "displayed balances down"; market rules §3.
    """
    floored, _remainder = money.floor_to_cent()
    return format_money(floored, locale)


def format_number(value: int | Decimal, locale: str, places: int | None = None) -> str:
    """Write a plain number as the language does: 1008 is `1.008` in Indonesian.

    places: decimals to show, 0 to NUMBER_DIGITS_MAX, half-even; None keeps those the value has. Raises LocaleError,
    AmountRangeError (not finite, or more than NUMBER_DIGITS_MAX digits on a side), TypeError (float, bool, str).
    """
    rules = _rules_for(locale)
    if type(value) is not int and type(value) is not Decimal:
        message = f"value must be an int or a Decimal, not {type(value).__name__}"
        raise TypeError(message)
    places_own = _places_of_number(value)
    places_shown = places_own if places is None else places
    assert type(places_shown) is int, places
    assert 0 <= places_shown <= NUMBER_DIGITS_MAX, places
    numerator, denominator = value.as_integer_ratio()
    units = round_half_even(numerator * 10**places_shown, denominator)
    return f"{'-' if units < 0 else ''}{_digits(abs(units), places_shown, rules)}"


def parse_amount(
    text: str,
    currency: Currency,
    locale: str,
    *,
    field: str = "amount",
    places_max: int = 2,
    allow_grouping: bool = False,
    allow_sign: bool = False,
    allow_symbol: bool = False,
) -> Money:
    """Read an amount that a person wrote, strictly by the rules of the language, never by a guess.

    Digits 0-9, at most one decimal mark with 1 to places_max (0 to 6) digits behind it. Only where allowed: the
    language's group mark with every group right; one leading minus; the currency's symbol where the language puts it,
    or its ISO code at either end, with at most one space between. Anything else is refused.
    Raises AmountFormatError, AmountTooLargeError, LocaleError (all InputError); TypeError if text is no str.
    Source: docs/explain/ledger.md, "Formats at the edge".
    """
    rules = _rules_for(locale)
    assert type(places_max) is int, places_max
    assert 0 <= places_max <= MICRO_DIGITS, places_max
    if not isinstance(text, str):
        message = f"{field} must be a str, not {type(text).__name__}"
        raise TypeError(message)
    body, is_negative = "", False
    if len(text) <= AMOUNT_CHARS_MAX:  # what is longer stays unread and is refused below
        body, is_negative = _unwrap(text, currency, rules, allow_sign=allow_sign, allow_symbol=allow_symbol)
    match = _number_match(body, rules, allow_grouping=allow_grouping)
    if match is None or len(match["fraction"] or "") > places_max:
        raise AmountFormatError(field, text, _right_form(body, rules, places_max, allow_grouping=allow_grouping))
    whole = match["whole"].replace(rules.group_mark, "")
    micros = micros_from_digits(whole, match["fraction"] or "", text=text, field=field)
    if is_negative and micros == 0:
        raise AmountFormatError(field, text, "zero without a sign")
    return Money(-micros if is_negative else micros, currency)


def _rules_for(locale: str) -> _NumberRules:
    rules = _RULES.get(locale)
    if rules is None:
        raise LocaleError("locale", locale, f"one of {', '.join(LOCALES)}")
    return rules


def _places_for(money: Money, places: Places) -> int:
    """Return how many decimals to show of an amount."""
    if places is None:
        return money.currency.minor_digits
    if places == "exact":
        return len(money.to_decimal_string().partition(".")[2])
    assert type(places) is int, places
    assert 0 <= places <= MICRO_DIGITS, places
    return places


def _places_of_number(value: int | Decimal) -> int:
    """Return how many decimals a number has; refuse what is not finite or too long before any work is done on it."""
    exponent = 0
    if isinstance(value, Decimal):
        raw = value.as_tuple().exponent
        is_short = isinstance(raw, int) and raw >= -NUMBER_DIGITS_MAX and value.adjusted() < NUMBER_DIGITS_MAX
        exponent = raw if isinstance(raw, int) else 0
    else:
        is_short = abs(value) < 10**NUMBER_DIGITS_MAX
    if not is_short:
        shown = value if isinstance(value, Decimal) else f"an int of {value.bit_length()} bits"
        raise AmountRangeError("number", shown, f"a finite number of at most {NUMBER_DIGITS_MAX} digits on either side")
    return max(0, -exponent)


def _digits(units: int, places: int, rules: _NumberRules) -> str:
    """Write a count (>= 0) of 10**-places with the language's marks."""
    digits = str(units).rjust(places + 1, "0")
    whole, fraction = (digits[:-places], digits[-places:]) if places else (digits, "")
    head = len(whole) % rules.group_digits
    groups = [whole[start : start + rules.group_digits] for start in range(head, len(whole), rules.group_digits)]
    grouped = rules.group_mark.join([whole[:head], *groups] if head else groups)
    return f"{grouped}{rules.decimal_mark}{fraction}" if fraction else grouped


def _unwrap(
    text: str, currency: Currency, rules: _NumberRules, *, allow_sign: bool, allow_symbol: bool
) -> tuple[str, bool]:
    """Take one allowed minus and one allowed symbol off; return what should be the bare number, and if it is negative.

    The minus may stand before the symbol (-US$5) or behind it (Dutch: € -5), never twice.
    """
    is_negative = allow_sign and text.startswith("-")
    body = text[1:] if is_negative else text
    if allow_symbol:
        body = _without_symbol(body, rules.symbols[currency], currency.value, symbol_is_first=rules.symbol_is_first())
    if allow_sign and not is_negative and body.startswith("-"):
        return body[1:], True
    return body, is_negative


def _without_symbol(text: str, symbol: str, code: str, *, symbol_is_first: bool) -> str:
    """Take one symbol (on the language's side) or code (on either side) and one space next to it off the text."""
    for mark in (symbol, code) if symbol_is_first else (code,):
        if text.startswith(mark):
            rest = text[len(mark) :]
            return rest[1:] if rest.startswith(_SYMBOL_SPACES) else rest
    for mark in (code,) if symbol_is_first else (symbol, code):
        if text.endswith(mark):
            rest = text[: -len(mark)]
            return rest[:-1] if rest.endswith(_SYMBOL_SPACES) else rest
    return text


def _number_match(body: str, rules: _NumberRules, *, allow_grouping: bool) -> re.Match[str] | None:
    """Match a bare number, plain or with every group right; a zero never leads another digit."""
    decimal_mark, group_mark = re.escape(rules.decimal_mark), re.escape(rules.group_mark)
    fraction = rf"(?:{decimal_mark}(?P<fraction>[0-9]+))?"
    plain = re.fullmatch(rf"(?P<whole>0|[1-9][0-9]*){fraction}", body)
    if plain is not None or not allow_grouping:
        return plain
    size = rules.group_digits
    return re.fullmatch(rf"(?P<whole>[1-9][0-9]{{0,{size - 1}}}(?:{group_mark}[0-9]{{{size}}})+){fraction}", body)


def _right_form(body: str, rules: _NumberRules, places_max: int, *, allow_grouping: bool) -> str:
    """Say what would be right: the same number in the right form where that is beyond doubt, else an example."""
    mark = rules.decimal_mark
    decimals = f"at most {places_max} decimals after {mark!r}" if places_max else "no decimals"
    groups = f"groups of {rules.group_digits} by {rules.group_mark!a} or none" if allow_grouping else "no group marks"
    example = f"1234{mark}50"[: 5 + places_max] if places_max else "1234"
    advice = f"an amount such as {example}"
    suspect = re.fullmatch(r"0*([0-9]{1,13})(?:([.,])([0-9]{1,6}))?", body)
    if suspect is not None:
        whole, wrong_mark, fraction = suspect[1], suspect[2], suspect[3] or ""
        if wrong_mark == rules.group_mark and len(fraction) == rules.group_digits and whole != "0":
            advice = f"{whole}{fraction} if {body} is a whole number"
        elif len(fraction) <= places_max:
            advice = f"{whole}{mark}{fraction}" if fraction else whole
    return f"{advice} ({decimals}, {groups}, digits 0-9 and nothing else)"
