"""Every exception that bursa raises on purpose: one tree, each with a stable code.

    BursaError                      bursa_error           base: catch it to catch them all
    ├── InputError                  input_invalid         something came in at the edge that cannot be used
    │   ├── AmountFormatError       amount_format         text is not an amount by the rules of its locale
    │   ├── AmountTooLargeError     amount_too_large      text is an amount that no ledger account can hold
    │   ├── CurrencyError           currency_unknown      not a currency that bursa keeps books in
    │   ├── LocaleError             locale_unknown        not a language that bursa formats numbers for
    │   └── ConfigError             config_invalid        a setting (file, environment, flag) cannot be used
    ├── AmountRangeError            amount_out_of_range   a computed amount left the range of a ledger column
    ├── CurrencyMismatchError       currency_mismatch     two currencies met where only one may be
    ├── ClockError                  clock_fell            at_ns went backwards
    ├── TickDueError                tick_due              time-driven work is due first: apply Tick, then retry
    ├── SnapshotError               snapshot_invalid      magic, version, digest or shape of a snapshot is wrong
    ├── ScenarioError               scenario_invalid      a line of a scenario file cannot be used
    ├── StoreError                  store_failed          PostgreSQL or its data folder failed us
    │   ├── DatabaseUnavailableError  database_unavailable  no connection, or the server is down or starting
    │   ├── MigrationError          migration_invalid     the schema and its migration files do not agree
    │   ├── DatabaseVersionError    database_version      a PostgreSQL too old, or set up to lose commits
    │   └── DataDirectoryError      data_directory        a data folder is in use, unreachable or not ours
    ├── LogError                    log_invalid           a gap, wrong digest or unreadable row in the command log
    ├── UnavailableError            unavailable           the exchange cannot take commands now: retry later
    │   ├── QueueFullError          queue_full            more commands wait than the queue may hold
    │   └── NotLeaderError          not_leader            this process does not lead, or no longer does
    ├── ApiError                    api_error             the HTTP API answered with a problem (SDK)
    └── NetworkError                network_failed        no answer came from the HTTP API (SDK)

What is *not* here: an expected refusal of the market is a value (Rejection), a bug is an assertion or a TypeError.
Each message names the field, the value it got and what would be right, so that the reader can act on it at once.
`code` is part of the public surface (problem types, exit codes): it never changes and is never used twice.
Never pass a secret as value: it is shown. Every instance survives pickle if its value does.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, TypedDict, Unpack

__all__ = [
    "AmountFormatError",
    "AmountRangeError",
    "AmountTooLargeError",
    "ApiError",
    "BursaError",
    "ClockError",
    "ConfigError",
    "CurrencyError",
    "CurrencyMismatchError",
    "DataDirectoryError",
    "DatabaseUnavailableError",
    "DatabaseVersionError",
    "InputError",
    "LocaleError",
    "LogError",
    "MigrationError",
    "NetworkError",
    "NotLeaderError",
    "QueueFullError",
    "ScenarioError",
    "SnapshotError",
    "StoreError",
    "TickDueError",
    "UnavailableError",
]

#: Longest part of a value that a message shows, in characters: a message is one line, not a dump.
VALUE_CHARS_MAX: Final = 80

#: When to ask again if nobody knows better, in seconds.
RETRY_AFTER_S: Final = 1.0


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


class ConfigError(InputError):
    """A setting (from a file, the environment or a flag: the field names it) cannot be used."""

    code: ClassVar[str] = "config_invalid"


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


class StoreError(BursaError):
    """PostgreSQL, or the folder that it keeps its data in, did not do what it must."""

    code: ClassVar[str] = "store_failed"


class DatabaseUnavailableError(StoreError):
    """No connection to the database: it is down, starting, recovering, out of disk, or its address is wrong."""

    code: ClassVar[str] = "database_unavailable"


class MigrationError(StoreError):
    """The migrations applied to a database and the migration files of this program do not agree."""

    code: ClassVar[str] = "migration_invalid"


class DatabaseVersionError(StoreError):
    """The PostgreSQL server is too old, its database is not UTF8, or its settings may lose commits it has confirmed."""

    code: ClassVar[str] = "database_version"


class DataDirectoryError(StoreError):
    """A data folder cannot be used: another process holds it, its user cannot reach it, or it is not ours."""

    code: ClassVar[str] = "data_directory"


class LogError(BursaError):
    """The command log cannot be followed: a gap in seq, a digest that does not match, a row that cannot be read."""

    code: ClassVar[str] = "log_invalid"


class UnavailableError(BursaError):
    """The exchange cannot take commands now. Attribute besides the base's: retry_after_s (seconds)."""

    code: ClassVar[str] = "unavailable"

    def __init__(self, field: str, value: object, expected: str, *, retry_after_s: float = RETRY_AFTER_S) -> None:
        """Say what is unavailable, and after how many seconds asking again makes sense."""
        super().__init__(field, value, expected)
        self.retry_after_s = retry_after_s


class QueueFullError(UnavailableError):
    """More commands wait than the queue may hold; nothing was done with this one."""

    code: ClassVar[str] = "queue_full"


class NotLeaderError(UnavailableError):
    """This process does not lead the exchange, or has just lost the lead; ask again, another one will answer."""

    code: ClassVar[str] = "not_leader"


class _ApiDetails(TypedDict, total=False):
    """What a problem+json answer says; all of it optional. See ApiError for the meaning."""

    status: int
    problem_code: str
    title: str
    detail: str
    errors: Sequence[Mapping[str, object]]
    shortfall: Mapping[str, object] | None
    trace_id: str
    retry_after_s: float | None


class ApiError(BursaError):
    """The HTTP API answered with a problem.

    Attributes besides the base's: status (HTTP), problem_code (the server's stable code), title, detail, errors (one
    mapping a wrong field), shortfall (what is missing and how to get it, or None), trace_id (quote it to the operator),
    retry_after_s (seconds, or None where asking again does not help).
    """

    code: ClassVar[str] = "api_error"

    def __init__(self, field: str, value: object, expected: str, **details: Unpack[_ApiDetails]) -> None:
        """Say which request (field) got which answer (value), and what the server said about it."""
        super().__init__(field, value, expected)
        self.status = details.get("status", 0)
        self.problem_code = details.get("problem_code", "")
        self.title = details.get("title", "")
        self.detail = details.get("detail", "")
        self.errors = tuple(details.get("errors", ()))
        self.shortfall = details.get("shortfall")
        self.trace_id = details.get("trace_id", "")
        self.retry_after_s = details.get("retry_after_s")

    def __str__(self) -> str:
        """Return one line: what the server said where it said something, else the base's line."""
        said = ": ".join(part for part in (self.title, self.detail) if part)
        if not said:
            return super().__str__()
        facts = [self.problem_code, f"HTTP {self.status}" if self.status else "", self.trace_id]
        known = ", ".join(fact for fact in facts if fact)
        return " ".join(f"{said} ({known})".splitlines()) if known else said


class NetworkError(BursaError):
    """No answer came from the HTTP API: refused, timed out, cut off. Whether the request took effect is unknown."""

    code: ClassVar[str] = "network_failed"


def _shorten(value: object) -> str:
    """Show a value as Python would, cut to VALUE_CHARS_MAX characters, never with a line break."""
    # Text is cut before repr, so that a hostile megabyte costs no megabyte of work.
    cut = value[: VALUE_CHARS_MAX + 1] if isinstance(value, str | bytes) else value
    shown = " ".join(repr(cut).split("\n"))
    return shown if len(shown) <= VALUE_CHARS_MAX else f"{shown[:VALUE_CHARS_MAX]}..."
