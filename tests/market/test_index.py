"""The fit index against a plain sorted list, through long random sequences of operations."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.market import index as index_module
from bursa.market.index import FitIndex

EntryOf = tuple[int, int, int, int]


class Model:
    """Entries in a dict, searched by sorting all of them."""

    def __init__(self) -> None:
        self.entries: dict[int, EntryOf] = {}

    def first(self, want: int, need: int, key_min: int, key_max: int, horizon_min: int, odd_only: bool) -> int | None:
        for key in sorted(self.entries):
            item, fit, caps, horizon = self.entries[key]
            if not key_min <= key <= key_max or not fit & want or caps & need != need or horizon < horizon_min:
                continue
            if odd_only and item % 2 == 0:
                continue
            return item
        return None


def is_odd(item: int) -> bool:
    return item % 2 == 1


def is_any(_: int) -> bool:
    return True


def check_same(index: FitIndex[int], model: Model) -> None:
    assert list(index.keys()) == sorted(model.entries)
    assert list(index) == [model.entries[key][0] for key in sorted(model.entries)]
    assert len(index) == len(model.entries)
    assert list(index.faults()) == []
    first = min(model.entries, default=None)
    assert index.peek() == (None if first is None else (first, model.entries[first][0]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("keys", "size", "fruitless"), [(40, 4, 0), (400, 6, 10), (4_000, 96, 512)])
def test_agrees_with_a_sorted_list(
    seed: int, keys: int, size: int, fruitless: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "LEAF_ENTRIES_MAX", size)
    monkeypatch.setattr(index_module, "BLOCK_LEAVES_MAX", size)
    monkeypatch.setattr(index_module, "FRUITLESS_MAX", fruitless)
    monkeypatch.setattr(index_module, "FLOORS_MAX", 20)
    rng = random.Random(seed)
    index: FitIndex[int] = FitIndex()
    model = Model()
    for step in range(4_000):
        key = rng.randrange(keys)
        fit, caps, horizon = 1 << rng.randrange(6), rng.randrange(64), rng.randrange(50)
        action = rng.random()
        if key not in model.entries and action < 0.7:
            index.insert(key, step, fit, caps, horizon)
            model.entries[key] = (step, fit, caps, horizon)
        elif key in model.entries and action < 0.5:
            assert index.remove(key) == model.entries.pop(key)[0]
        elif key in model.entries and action < 0.7:
            index.update(key, fit, caps, horizon)
            model.entries[key] = (model.entries[key][0], fit, caps, horizon)
        else:
            want, need = rng.randrange(64), rng.choice([0, 1, 2, 5, 63])
            key_min, key_max = sorted((rng.randrange(keys), rng.randrange(keys)))
            key_min *= rng.randrange(2)  # half of the searches begin at the front, and may leave a floor
            horizon_min = rng.randrange(50)
            odd_only, token_too = rng.random() < 0.5, rng.random() < 0.7
            found = index.first(
                want,
                need,
                is_odd if odd_only else is_any,
                key_min=key_min,
                key_max=key_max,
                horizon_min=horizon_min,
                token="odd" if odd_only and token_too else None,
            )
            assert found == model.first(want, need, key_min, key_max, horizon_min, odd_only)
        if step % 200 == 0:
            check_same(index, model)
    check_same(index, model)


@given(st.sets(st.integers(0, 10_000), max_size=500))
def test_load_equals_inserts(keys: set[int]) -> None:
    loaded: FitIndex[int] = FitIndex()
    loaded.load([(key, key, 1 << key % 5, key % 7, key) for key in keys])
    model = Model()
    model.entries = {key: (key, 1 << key % 5, key % 7, key) for key in keys}
    check_same(loaded, model)
    for key in sorted(keys):
        assert loaded.first(1 << key % 5, key % 7, is_any, key_min=key, horizon_min=key) == key
        assert loaded.remove(key) == key
    assert len(loaded) == 0


def test_a_key_is_unique() -> None:
    index: FitIndex[str] = FitIndex()
    index.insert(1, "a")
    with pytest.raises(AssertionError, match="already in the index"):
        index.insert(1, "b")
    with pytest.raises(KeyError):
        index.remove(2)
    with pytest.raises(KeyError):
        index.update(0, 1, 1)


def test_a_search_does_not_visit_what_cannot_fit() -> None:
    """The point of the index: a rare match behind many that do not fit is found without asking each of them."""
    index: FitIndex[int] = FitIndex()
    count = 100_000
    index.load([(key, key, 2 if key == count - 1 else 1, 0, 0) for key in range(count)])
    asked: list[int] = []

    def accept(item: int) -> bool:
        asked.append(item)
        return True

    assert index.first(2, 0, accept) == count - 1
    assert asked == [count - 1]


def test_a_rare_pair_of_common_properties_is_searched_for_once() -> None:
    """Every leaf holds both properties, one entry holds the two together: the second search starts at it."""
    index: FitIndex[int] = FitIndex()
    count = 50_000
    index.load([(2 * key, key, 1, 3 if key == count - 1 else 1 + key % 2, 0) for key in range(count)])
    assert index.first(1, 3, is_any) == count - 1
    assert index._floors == {(1, 3, None): (2 * (count - 1), 0)}
    index.insert(99, -1, 1, 2)
    assert index._floors == {(1, 3, None): (2 * (count - 1), 0)}, "an entry that does not pass lowers no floor"
    index.insert(101, -2, 1, 3)
    assert index._floors == {(1, 3, None): (101, 0)}
    assert index.first(1, 3, is_any) == -2
    assert index.remove(101) == -2
    assert index.first(1, 3, is_any) == count - 1
    assert index._floors == {(1, 3, None): (2 * (count - 1), 0)}
