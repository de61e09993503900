"""The exception tree: it is drawn as it is, its codes never move, and its messages tell the reader what to do."""

import copy
import pickle
import re

import pytest

from bursa import errors

#: The public codes. Clients branch on them: a line may be added, never changed or removed.
CODES = {
    "BursaError": "bursa_error",
    "InputError": "input_invalid",
    "AmountFormatError": "amount_format",
    "AmountTooLargeError": "amount_too_large",
    "CurrencyError": "currency_unknown",
    "LocaleError": "locale_unknown",
    "AmountRangeError": "amount_out_of_range",
    "CurrencyMismatchError": "currency_mismatch",
    "ClockError": "clock_fell",
    "TickDueError": "tick_due",
    "SnapshotError": "snapshot_invalid",
    "ScenarioError": "scenario_invalid",
    "ConfigError": "config_invalid",
    "StoreError": "store_failed",
    "DatabaseUnavailableError": "database_unavailable",
    "MigrationError": "migration_invalid",
    "DatabaseVersionError": "database_version",
    "DataDirectoryError": "data_directory",
    "LogError": "log_invalid",
    "UnavailableError": "unavailable",
    "QueueFullError": "queue_full",
    "NotLeaderError": "not_leader",
    "ApiError": "api_error",
    "NetworkError": "network_failed",
}

DRAWN_LINE = re.compile(r"    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w*Error) +(?P<code>[a-z_]+) +\S.*")


def real_tree(root: type[errors.BursaError], depth: int = 0) -> list[tuple[int, str, str]]:
    """List (depth, name, code) of the classes of errors.py in the order of their definition."""
    rows = [(depth, root.__name__, root.code)]
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            rows += real_tree(child, depth + 1)
    return rows


def drawn_tree() -> list[tuple[int, str, str]]:
    """List (depth, name, code) of the tree in the module's docstring."""
    matches = [DRAWN_LINE.fullmatch(line) for line in (errors.__doc__ or "").splitlines()]
    return [(len(match["branch"]) // 4, match["name"], match["code"]) for match in matches if match]


def all_classes() -> list[type[errors.BursaError]]:
    return [getattr(errors, name) for name in errors.__all__]


def sample(cls: type[errors.BursaError]) -> errors.BursaError:
    if cls is errors.ScenarioError:
        return errors.ScenarioError("opening.txt", 12, "price", "0,33", "0.33")
    return cls("price", "0,33", "0.33")


def test_drawn_tree_is_the_real_tree() -> None:
    assert drawn_tree() == real_tree(errors.BursaError)


def test_codes_are_golden_and_each_class_has_its_own() -> None:
    assert {cls.__name__: vars(cls)["code"] for cls in all_classes()} == CODES
    assert len(set(CODES.values())) == len(CODES)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in CODES.values())


def test_every_class_is_public_and_sorted() -> None:
    assert errors.__all__ == sorted(errors.__all__)
    assert sorted(name for _, name, _ in real_tree(errors.BursaError)) == errors.__all__


@pytest.mark.parametrize("cls", all_classes())
def test_message_names_field_value_and_what_would_be_right(cls: type[errors.BursaError]) -> None:
    assert "price: got '0,33', expected 0.33" in str(sample(cls))


@pytest.mark.parametrize("cls", all_classes())
def test_survives_pickle_and_copy_with_its_notes(cls: type[errors.BursaError]) -> None:
    original = sample(cls)
    original.add_note("while reading the morning's prices")
    for twin in (pickle.loads(pickle.dumps(original)), copy.copy(original)):  # noqa: S301 - our own bytes
        assert type(twin) is cls
        assert (str(twin), vars(twin)) == (str(original), vars(original))


def test_survives_pickle_when_made_with_keywords() -> None:
    original = errors.ClockError(field="at_ns", value=5, expected="at least 7")
    assert str(pickle.loads(pickle.dumps(original))) == "at_ns: got 5, expected at least 7"  # noqa: S301 - our own bytes


def test_scenario_error_says_where() -> None:
    error = sample(errors.ScenarioError)
    assert str(error) == "opening.txt:12: price: got '0,33', expected 0.33"


@pytest.mark.parametrize("value", ["x" * 1_000_000, b"x" * 1_000_000, ["x" * 1_000_000], "a\nb", "\u2028\ud800"])
def test_message_stays_one_short_line(value: object) -> None:
    message = str(errors.InputError("name", value, "a short name"))
    assert len(message.splitlines()) == 1
    assert len(message) < errors.VALUE_CHARS_MAX + 60
    assert message.endswith("expected a short name")
