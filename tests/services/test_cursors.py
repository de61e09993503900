"""Cursors come back unchanged or not at all; ids of requests never meet ids of their parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.market import INT_MAX
from bursa.services import Actor, RefusedError
from bursa.services.cursors import before, check_limit, read_cursor, write_cursor
from bursa.services.exchange import command_ids

NUMBERS = st.integers(0, INT_MAX)


@given(
    number=NUMBERS,
    line=NUMBERS,
    running=st.dictionaries(st.text(max_size=8), st.integers(-INT_MAX, INT_MAX), max_size=4),
)
def test_a_cursor_gives_back_what_it_holds(number: int, line: int, running: dict[str, int]) -> None:
    cursor = write_cursor("statement", number, line, running)
    assert read_cursor("statement", cursor, tuple[int, int, dict[str, int]]) == (number, line, running)


@given(number=NUMBERS, at=st.integers(0, 200), sign=st.sampled_from("AZaz09-_=+/ é\0"))
def test_a_changed_cursor_is_refused(number: int, at: int, sign: str) -> None:
    cursor = write_cursor("orders", number)
    changed = cursor[: at % len(cursor)] + sign + cursor[at % len(cursor) + 1 :]
    if changed != cursor:
        with pytest.raises(RefusedError) as refused:
            before("orders", changed)
        assert refused.value.problem_code == "INVALID_CURSOR"


@pytest.mark.parametrize("text", ["", "=", "x", "A" * 5_000, "bm90IG9uZQ", "ord_17"])
def test_what_was_never_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        before("orders", text)
    assert refused.value.field == "cursor"


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(RefusedError):
        before("orders", write_cursor("rentals", 17))
    with pytest.raises(RefusedError):
        before("orders", write_cursor("orders", "seventeen"))


def test_a_page_has_a_limit() -> None:
    assert [check_limit(limit) for limit in (1, 500)] == [1, 500]
    for limit in (0, -1, 501):
        with pytest.raises(RefusedError):
            check_limit(limit)


VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=64)


@given(one=VISIBLE, other=VISIBLE, party=st.integers(0, 99), part=st.sampled_from(["tax", "0", "17", "EUR"]))
def test_ids_of_parts_are_no_ids_of_requests(one: str, other: str, party: int, part: str) -> None:
    first = command_ids(Actor(party, 1, frozenset()), one)
    second = command_ids(Actor(party, 2, frozenset()), other)
    assert first.of(part) != second.of()
    assert (first.of() == second.of()) == (one == other)
    assert (first.of(part) == second.of(part)) == (one == other)
    assert not first.is_fresh


def test_without_a_key_ids_are_fresh() -> None:
    actor = Actor(1, 1, frozenset())
    one, other = command_ids(actor, None), command_ids(actor, None)
    assert one.is_fresh
    assert one.of() != other.of()
    # Not even a client that saw a fresh id could send one: a key stands behind the colon.
    sent = command_ids(actor, one.of().partition(":")[2])
    assert sent.of() != one.of()


@pytest.mark.parametrize("key", ["", "a b", "x" * 65, "né", "a\n"])
def test_a_bad_idempotency_key_is_refused(key: str) -> None:
    with pytest.raises(RefusedError) as refused:
        command_ids(Actor(1, 1, frozenset()), key)
    assert refused.value.field == "Idempotency-Key"
