"""Every exception that bursa raises on purpose: one tree, each with a stable code.

    BursaError                      bursa_error           base: catch it to catch them all
    ├── InputError                  input_invalid         something came in at the edge that cannot be used
    │   ├── AmountFormatError       amount_format         text is not an amount by the rules of its locale
    │   ├── AmountTooLargeError     amount_too_large      text is an amount that no ledger account can hold
    │   ├── CurrencyError           currency_unknown      not a currency that bursa keeps books in
    │   └── LocaleError             locale_unknown        not a language that bursa formats numbers for
    ├── AmountRangeError            amount_out_of_range   a computed amount left the range of a ledger column
    ├── CurrencyMismatchError       currency_mismatch     two currencies met where only one may be
    ├── ClockError                  clock_fell            at_ns went backwards
    ├── TickDueError                tick_due              time-driven work is due first: apply Tick, then retry
    ├── SnapshotError               snapshot_invalid      magic, version, digest or shape of a snapshot is wrong
    └── ScenarioError               scenario_invalid      a line of a scenario file cannot be used

What is *not* here: an expected refusal of the market is a value (Rejection), a bug is an assertion or a TypeError.
Each message names the field, the value it got and what would be right, so that the reader can act on it at once.
`code` is part of the public surface (problem types, exit codes): it never changes and is never used twice.
Never pass a secret as value: it is shown. Every instance survives pickle if its value does.
"""

from typing import ClassVar, Final

__all__ = [
    "AmountFormatError",
    "AmountRangeError",
    "AmountTooLargeError",
    "BursaError",
    "ClockError",
    "CurrencyError",
    "CurrencyMismatchError",
    "InputError",
    "LocaleError",
    "ScenarioError",
    "SnapshotError",
    "TickDueError",
]

#: Longest part of a value that a message shows, in characters: a message is one line, not a dump.
VALUE_CHARS_MAX: Final = 80


class BursaError(Exception):
    """Base of all of bursa's exceptions.

    Attributes: field (name of what was wrong), value (what it was), expected (a phrase: what would be right).
    """

    code: ClassVar[str] = "bursa_error"

    def __init__(self, field: str, value: object, expected: str) -> None:
        """Say which field had which value, and what would be right."""
        super().__init__(field, value, expected)
        self.field = field
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        """Return one line: field, value (shortened), what would be right."""
        return f"{self.field}: got {_shorten(self.value)}, expected {self.expected}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the constructor's arguments, so that keyword arguments survive too."""
        return type(self), (self.field, self.value, self.expected), self.__dict__


class InputError(BursaError):
    """Something came in at the edge (form, API, CLI, file) that cannot be used as it is."""

    code: ClassVar[str] = "input_invalid"


class AmountFormatError(InputError):
    """The text is not an amount by the number rules of its locale."""

    code: ClassVar[str] = "amount_format"


class AmountTooLargeError(InputError):
    """The text is a well-formed amount, but larger than a ledger account can hold."""

    code: ClassVar[str] = "amount_too_large"


class CurrencyError(InputError):
    """The text is not the ISO 4217 code of a currency that bursa keeps books in."""

    code: ClassVar[str] = "currency_unknown"


class LocaleError(InputError):
    """The text is not the BCP 47 tag of a language that bursa formats numbers for."""

    code: ClassVar[str] = "locale_unknown"


class AmountRangeError(BursaError):
    """A computed amount left the range that a ledger column (PostgreSQL bigint, micro-units) can hold."""

    code: ClassVar[str] = "amount_out_of_range"


class CurrencyMismatchError(BursaError):
    """Amounts of two currencies met in one operation; only the FX functions may cross currencies."""

    code: ClassVar[str] = "currency_mismatch"


class ClockError(BursaError):
    """A command carried an at_ns before that of the command applied last; time in the core never falls."""

    code: ClassVar[str] = "clock_fell"


class TickDueError(BursaError):
    """A command came while time-driven work was due before it; the caller must apply Tick first, then retry."""

    code: ClassVar[str] = "tick_due"


class SnapshotError(BursaError):
    """A snapshot cannot be loaded: its magic, version, digest or shape (the field) is not what it must be."""

    code: ClassVar[str] = "snapshot_invalid"


class ScenarioError(BursaError):
    """A line of a scenario file cannot be used. Attributes besides the base's: file, line (from 1)."""

    code: ClassVar[str] = "scenario_invalid"

    # Five arguments are the five facts a reader needs to fix the line; a bundle would only hide them.
    def __init__(self, file: str, line: int, field: str, value: object, expected: str) -> None:
        """Say where the line is, which field of it had which value, and what would be right."""
        super().__init__(field, value, expected)
        self.file = file
        self.line = line

    def __str__(self) -> str:
        """Return one line that editors can jump from: file:line: what is wrong."""
        return f"{self.file}:{self.line}: {super().__str__()}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the constructor's arguments."""
        return type(self), (self.file, self.line, self.field, self.value, self.expected), self.__dict__


def _shorten(value: object) -> str:
    """Show a value as Python would, cut to VALUE_CHARS_MAX characters, never with a line break."""
    # Text is cut before repr, so that a hostile megabyte costs no megabyte of work.
    cut = value[: VALUE_CHARS_MAX + 1] if isinstance(value, str | bytes) else value
    shown = " ".join(repr(cut).split("\n"))
    return shown if len(shown) <= VALUE_CHARS_MAX else f"{shown[:VALUE_CHARS_MAX]}..."
