"""Currency and Money: an amount that knows its currency.

Role: the value type for everything off the engine's hot path (services, billing, wire, tests).
Invariants: micros is an int that a PostgreSQL bigint holds; two currencies never meet in one operation; nothing here
rounds without handing back the remainder. A wrong type is a bug and raises TypeError at once, it is never coerced.
Source of every rule: money rules §1 (docs/explain/ledger.md).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, final

from bursa.errors import AmountFormatError, AmountTooLargeError, CurrencyError, CurrencyMismatchError
from bursa.money.rounding import (
    MICRO_DIGITS,
    MICROS_MAX,
    MICROS_PER_CENT,
    MICROS_PER_UNIT,
    allocate_micros,
    check_micros,
    round_down,
    round_half_up,
    round_up,
    split_micros,
)

__all__ = ["Currency", "Money", "parse_currency"]

#: Longest decimal string that is looked at, in characters; the longest right one has 21 ("-9223372036854.775807").
DECIMAL_CHARS_MAX: Final = 40
_DECIMAL: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]{1,6}))?")
_CENT_DIGITS: Final = 2


class Currency(StrEnum):
    """A currency that bursa keeps books in, by its ISO 4217 code. Adding one is a decision, not a default."""

    EUR = "EUR"
    USD = "USD"
    GBP = "GBP"

    # As the text that it is: Enum's own hash is Python code, and the ledger looks up a currency for every posting.
    __hash__ = str.__hash__

    @property
    def minor_digits(self) -> int:
        """Decimals of the currency on a legal document (ISO 4217); 2 for all three, as MICROS_PER_CENT relies on."""
        return _CENT_DIGITS


def parse_currency(text: str, *, field: str = "currency") -> Currency:
    """Return the currency with exactly this ISO 4217 code (upper case), or raise CurrencyError."""
    try:
        return Currency(text)
    except ValueError:
        raise CurrencyError(field, text, f"one of {', '.join(Currency)}") from None


@final
@dataclass(frozen=True, slots=True)
class Money:
    """An amount of one currency: an exact number of micro-units (10**-6 of the currency).

    Equal only to the same amount of the same currency; sums, differences and order need one currency
    (CurrencyMismatchError) and Money on both sides (TypeError); only an int multiplies it. It has no division: use
    split or allocate, which lose nothing. Raises TypeError for micros that are not exactly int or a currency that is
    not a Currency, AmountRangeError beyond MICROS_MAX. Source: money rules §1.
    """

    micros: int
    currency: Currency

    def __post_init__(self) -> None:
        """Check types and range; bool is an int to Python but never an amount."""
        _require_int(self.micros, "micros")
        if type(self.currency) is not Currency:
            message = f"currency must be a Currency, not {type(self.currency).__name__}"
            raise TypeError(message)
        check_micros(self.micros)

    @classmethod
    def zero(cls, currency: Currency) -> Self:
        """Return nothing of a currency; the start value for sum()."""
        return cls(0, currency)

    @classmethod
    def from_decimal_string(cls, text: str, currency: Currency, *, field: str = "amount") -> Self:
        """Read the machine form of an amount, as API and files carry it: "2.88", "-0.000001", "100".

        Units: whole currency units, up to 6 decimals after a point; a leading minus, but no plus, exponent, group mark,
        leading zero, space or minus zero. Raises AmountFormatError, AmountTooLargeError. Source: money rules §1.
        """
        _require_str(text, field)
        match = _DECIMAL.fullmatch(text) if len(text) <= DECIMAL_CHARS_MAX else None
        if match is None:
            raise AmountFormatError(field, text, "a decimal string such as 2.88: at most 6 decimals, no group marks")
        micros = micros_from_digits(match[2], match[3] or "", text=text, field=field)
        if match[1] and micros == 0:
            raise AmountFormatError(field, text, "a decimal string such as 0.00: zero has no sign")
        return cls(-micros if match[1] else micros, currency)

    def to_decimal_string(self) -> str:
        """Write the machine form: a point, at least 2 decimals, at most 6, no needless zeros; inverse of the reader."""
        whole, fraction = divmod(abs(self.micros), MICROS_PER_UNIT)
        digits = f"{fraction:0{MICRO_DIGITS}}".rstrip("0").ljust(_CENT_DIGITS, "0")
        return f"{'-' if self.micros < 0 else ''}{whole}.{digits}"

    def __str__(self) -> str:
        """Return the exact amount and its code, for logs and people who read logs: `12.34 USD`."""
        return f"{self.to_decimal_string()} {self.currency.value}"

    def __bool__(self) -> bool:
        """Tell whether there is anything: False for zero only."""
        return self.micros != 0

    def __neg__(self) -> "Money":
        """Return the same amount owed the other way."""
        return Money(-self.micros, self.currency)

    def __abs__(self) -> "Money":
        """Return the amount without its sign."""
        return Money(abs(self.micros), self.currency)

    def __add__(self, other: "Money") -> "Money":
        """Return the exact sum; raises CurrencyMismatchError, AmountRangeError, TypeError."""
        return Money(self.micros + self._same_currency(other), self.currency)

    def __sub__(self, other: "Money") -> "Money":
        """Return the exact difference; raises CurrencyMismatchError, AmountRangeError, TypeError."""
        return Money(self.micros - self._same_currency(other), self.currency)

    def __mul__(self, factor: int) -> "Money":
        """Return the amount taken an integer number of times (hours, GPUs); raises AmountRangeError, TypeError."""
        _require_int(factor, "factor")
        return Money(self.micros * factor, self.currency)

    __rmul__ = __mul__

    def __lt__(self, other: "Money") -> bool:
        """Compare within one currency; raises CurrencyMismatchError, TypeError."""
        return self.micros < self._same_currency(other)

    def __le__(self, other: "Money") -> bool:
        """Compare within one currency; raises CurrencyMismatchError, TypeError."""
        return self.micros <= self._same_currency(other)

    def __gt__(self, other: "Money") -> bool:
        """Compare within one currency; raises CurrencyMismatchError, TypeError."""
        return self.micros > self._same_currency(other)

    def __ge__(self, other: "Money") -> bool:
        """Compare within one currency; raises CurrencyMismatchError, TypeError."""
        return self.micros >= self._same_currency(other)

    def split(self, parts: int) -> tuple["Money", ...]:
        """Split into equal parts that differ by at most one micro and sum exactly; see split_micros."""
        _require_int(parts, "parts")
        return tuple(Money(micros, self.currency) for micros in split_micros(self.micros, parts))

    def allocate(self, weights: Sequence[int]) -> tuple["Money", ...]:
        """Divide in proportion to weights by largest remainder, summing exactly; see allocate_micros."""
        for weight in weights:
            _require_int(weight, "weight")
        return tuple(Money(micros, self.currency) for micros in allocate_micros(self.micros, weights))

    def floor_to_cent(self) -> tuple["Money", "Money"]:
        """Round down to whole cents: payouts, shown balances. Return (rounded, remainder >= 0); they sum to self."""
        return self._with_remainder(round_down(self.micros, MICROS_PER_CENT))

    def ceil_to_cent(self) -> tuple["Money", "Money"]:
        """Round up to whole cents: card charges. Return (rounded, remainder <= 0); they sum to self."""
        return self._with_remainder(round_up(self.micros, MICROS_PER_CENT))

    def round_half_up_to_cent(self) -> tuple["Money", "Money"]:
        """Round to whole cents, ties away from zero: document totals. Return (rounded, remainder), summing to self."""
        return self._with_remainder(round_half_up(self.micros, MICROS_PER_CENT))

    def _with_remainder(self, cents: int) -> tuple["Money", "Money"]:
        rounded = Money(cents * MICROS_PER_CENT, self.currency)
        return rounded, self - rounded

    def _same_currency(self, other: object) -> int:
        """Return other's micros, or raise: answering NotImplemented would let Python try something else."""
        if not isinstance(other, Money):
            message = f"Money works only with Money of the same currency, not with {type(other).__name__}"
            raise TypeError(message)
        if other.currency is not self.currency:
            raise CurrencyMismatchError("currency", other.currency.value, f"{self.currency.value}, as the other amount")
        return other.micros


def micros_from_digits(whole: str, fraction: str, *, text: str, field: str) -> int:
    """Return the micro-units of checked ASCII digits (at most 6 of fraction), or raise AmountTooLargeError for text."""
    micros = int(whole) * MICROS_PER_UNIT + int(fraction.ljust(MICRO_DIGITS, "0"))
    if micros > MICROS_MAX:
        raise AmountTooLargeError(field, text, f"at most {MICROS_MAX // MICROS_PER_UNIT}")
    return micros


def _require_int(value: object, name: str) -> None:
    if type(value) is not int:
        message = f"{name} must be an int, not {type(value).__name__}"
        raise TypeError(message)


def _require_str(value: object, name: str) -> None:
    if not isinstance(value, str):
        message = f"{name} must be a str, not {type(value).__name__}"
        raise TypeError(message)
