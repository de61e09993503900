"""An ordered index of one side of a book that finds "the first that fits" without scanning what does not.

Entries are ordered by an integer key (price, then time). Each entry carries two bit masks and a horizon,
and so does every leaf and every block above it, as the OR (the maximum) of what lies below:

* ``fit``: the entry may serve a query whose ``want`` shares at least one bit with it;
* ``caps``: ... and whose ``need`` bits are all among its own;
* ``horizon``: ... and whose ``horizon_min`` is not beyond its own.

A search walks blocks, then leaves, then entries in key order and skips every block and leaf whose summary
says that nothing below can fit. The masks are necessary conditions; the caller's ``accept`` decides.
Removing an entry leaves the summaries above too wide, which is harmless for correctness; a leaf or block
that was visited in vain is summed up afresh, so the visits that staleness costs are paid back.

Summaries do not help when each of two properties is common but both together are rare. A search that looked
at many entries in vain therefore leaves a floor: for this ``want`` and ``need``, nothing below that key passes
the masks. The next one starts there; an insert or update below a floor lowers it if it passes. Without such
searches there are no floors and they cost nothing. A search with a ``token`` leaves a floor below which nothing
passes the whole of its test; the token must name all that the test depends on but the entry, and an entry may
come to pass only through an insert or update, as time goes on never by itself.

Three fixed levels of about 48 give a search, insert or removal a cost that hardly grows up to a million
entries. Why not a heap: a heap finds the first, but not the first that fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from functools import reduce
from operator import or_
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LEAF_ENTRIES_MAX: Final = 96
BLOCK_LEAVES_MAX: Final = 96
#: Entries that a search may look at in vain before it leaves a floor, and floors kept (the oldest goes).
FRUITLESS_MAX: Final = 512
FLOORS_MAX: Final = 256
#: Larger than any key: prices are below 2**40 ticks and times below 2**64.
KEY_MAX: Final = 1 << 128


#: want, need and token of a search.
_Query = tuple[int, int, Hashable]


_NO_FLOOR: Final = (0, 0)


class _Leaf(Generic[T]):
    """At most LEAF_ENTRIES_MAX entries in parallel lists, ordered by key."""

    __slots__ = ("caps", "caps_any", "fit_any", "fits", "horizon_max", "horizons", "is_stale", "items", "keys")

    def __init__(self, keys: list[int], items: list[T], fits: list[int], caps: list[int], horizons: list[int]) -> None:
        self.keys = keys
        self.items = items
        self.fits = fits
        self.caps = caps
        self.horizons = horizons
        self.summarize()

    def summarize(self) -> None:
        self.is_stale = False
        self.fit_any = reduce(or_, self.fits, 0)
        self.caps_any = reduce(or_, self.caps, 0)
        self.horizon_max = max(self.horizons, default=0)


class _Block(Generic[T]):
    """At most BLOCK_LEAVES_MAX leaves and the largest key of each."""

    __slots__ = ("caps_any", "fit_any", "horizon_max", "is_stale", "leaves", "maxes")

    def __init__(self, leaves: list[_Leaf[T]]) -> None:
        self.leaves = leaves
        self.maxes = [leaf.keys[-1] for leaf in leaves]
        self.summarize()

    def summarize(self) -> None:
        self.is_stale = False
        self.fit_any = 0
        self.caps_any = 0
        self.horizon_max = 0
        for leaf in self.leaves:
            self.fit_any |= leaf.fit_any
            self.caps_any |= leaf.caps_any
            self.horizon_max = max(self.horizon_max, leaf.horizon_max)


class FitIndex(Generic[T]):
    """Entries of one side of a book in the order of their keys; keys are unique."""

    __slots__ = ("_blocks", "_count", "_floors", "_maxes")

    def __init__(self) -> None:
        self._blocks: list[_Block[T]] = []
        #: Query → (nothing below this key passes, for this horizon_min and any later one).
        self._floors: dict[_Query, tuple[int, int]] = {}
        self._maxes: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        for block in self._blocks:
            for leaf in block.leaves:
                yield from leaf.items

    def keys(self) -> Iterator[int]:
        """Yield the keys in order."""
        for block in self._blocks:
            for leaf in block.leaves:
                yield from leaf.keys

    def insert(self, key: int, item: T, fit: int = 1, caps: int = 0, horizon: int = 0) -> None:
        """Add an entry; its key must not be there yet. O(log n) in practice."""
        if self._floors:
            self._lower_floors(key, fit, caps)
        if not self._blocks:
            leaf = _Leaf([key], [item], [fit], [caps], [horizon])
            self._blocks.append(_Block([leaf]))
            self._maxes.append(key)
            self._count = 1
            return
        b = bisect_left(self._maxes, key)
        if b == len(self._maxes):
            b -= 1
            self._maxes[b] = key
        block = self._blocks[b]
        n = bisect_left(block.maxes, key)
        if n == len(block.maxes):
            n -= 1
            block.maxes[n] = key
        leaf = block.leaves[n]
        keys = leaf.keys
        i = bisect_left(keys, key)
        assert i == len(keys) or keys[i] != key, "key is already in the index"
        keys.insert(i, key)
        leaf.items.insert(i, item)
        leaf.fits.insert(i, fit)
        leaf.caps.insert(i, caps)
        leaf.horizons.insert(i, horizon)
        leaf.fit_any |= fit
        leaf.caps_any |= caps
        block.fit_any |= fit
        block.caps_any |= caps
        leaf.horizon_max = max(leaf.horizon_max, horizon)
        block.horizon_max = max(block.horizon_max, horizon)
        self._count += 1
        if len(keys) > LEAF_ENTRIES_MAX:
            self._split(b, n)

    def remove(self, key: int) -> T:
        """Remove and return the entry with this key; KeyError when there is none."""
        b, n, i = self._locate(key)
        block = self._blocks[b]
        leaf = block.leaves[n]
        keys = leaf.keys
        del keys[i], leaf.fits[i], leaf.caps[i], leaf.horizons[i]
        item = leaf.items.pop(i)
        leaf.is_stale = block.is_stale = True
        self._count -= 1
        if not keys:
            self._drop_leaf(b, n)
        elif i == len(keys):
            block.maxes[n] = keys[-1]
            if n == len(block.maxes) - 1:
                self._maxes[b] = keys[-1]
        if keys and len(keys) < LEAF_ENTRIES_MAX // 4 and len(block.leaves) > 1:
            self._merge(b, n)
        return item

    def update(self, key: int, fit: int, caps: int, horizon: int = 0) -> None:
        """Give the entry with this key other masks; KeyError when there is none."""
        b, n, i = self._locate(key)
        if self._floors:
            self._lower_floors(key, fit, caps)
        block = self._blocks[b]
        leaf = block.leaves[n]
        leaf.fits[i] = fit
        leaf.caps[i] = caps
        leaf.horizons[i] = horizon
        leaf.is_stale = block.is_stale = True
        leaf.fit_any |= fit
        leaf.caps_any |= caps
        block.fit_any |= fit
        block.caps_any |= caps
        leaf.horizon_max = max(leaf.horizon_max, horizon)
        block.horizon_max = max(block.horizon_max, horizon)

    def peek(self) -> tuple[int, T] | None:
        """Return the first key and entry of all."""
        if not self._blocks:
            return None
        leaf = self._blocks[0].leaves[0]
        return leaf.keys[0], leaf.items[0]

    def first(  # noqa: C901, PLR0912 - the innermost loop: calls would cost more than the search
        self,
        want: int,
        need: int,
        accept: Callable[[T], bool],
        *,
        key_min: int = 0,
        key_max: int = KEY_MAX,
        horizon_min: int = 0,
        token: Hashable = None,
    ) -> T | None:
        """Return the first entry with key_min ≤ key ≤ key_max that passes masks, horizon and ``accept``."""
        floor, since = self._floors.get((want, need, token), _NO_FLOOR) if self._floors else _NO_FLOOR
        if horizon_min < since:
            floor = 0  # it was found for a later time, when less may pass
        start = max(floor, key_min)
        # The first key that passes the masks, or with a token the whole test; and entries looked at before it.
        passed, fruitless = KEY_MAX, 0
        found: T | None = None
        for b in range(bisect_left(self._maxes, start), len(self._maxes)):
            block = self._blocks[b]
            if block.leaves[0].keys[0] > key_max or found is not None:
                break
            if not block.fit_any & want or block.caps_any & need != need:
                continue
            is_block_hit = False
            for leaf in block.leaves:
                if not leaf.fit_any & want or leaf.caps_any & need != need:
                    continue
                keys = leaf.keys
                if keys[0] > key_max:
                    break
                if leaf.horizon_max < horizon_min:
                    fruitless += len(keys)
                    if token is None:
                        passed = min(passed, keys[0])
                    continue
                is_hit = False
                for i, fit in enumerate(leaf.fits):
                    if fit & want and leaf.caps[i] & need == need:
                        is_hit = True
                        key = keys[i]
                        if key < start or key > key_max:
                            continue
                        if token is None:
                            passed = min(passed, key)
                        if leaf.horizons[i] >= horizon_min and accept(leaf.items[i]):
                            found = leaf.items[i]
                            passed = min(passed, key)
                            break
                        fruitless += 1
                if found is not None:
                    break
                if is_hit:
                    is_block_hit = True
                    continue
                fruitless += len(keys)
                if leaf.is_stale:
                    leaf.summarize()
            if block.is_stale and not is_block_hit and found is None:
                block.summarize()
        if (floor or fruitless > FRUITLESS_MAX) and key_min <= floor:
            self._set_floor((want, need, token), (min(passed, key_max + 1), horizon_min))
        return found

    def _set_floor(self, query: _Query, floor: tuple[int, int]) -> None:
        floors = self._floors
        if query not in floors and len(floors) >= FLOORS_MAX:
            del floors[next(iter(floors))]
        floors[query] = floor

    def _lower_floors(self, key: int, fit: int, caps: int) -> None:
        for query, (floor, since) in self._floors.items():
            if key < floor and fit & query[0] and caps & query[1] == query[1]:
                self._floors[query] = (key, since)

    def faults(self) -> Iterator[str]:
        """Say in words which summary or floor would hide an entry; for the audit."""
        for block in self._blocks:
            for leaf in block.leaves:
                for key, fit, caps, horizon in zip(leaf.keys, leaf.fits, leaf.caps, leaf.horizons, strict=True):
                    if (fit & ~(leaf.fit_any & block.fit_any)) or (caps & ~(leaf.caps_any & block.caps_any)):
                        yield f"a summary hides key {key}"
                    if horizon > min(leaf.horizon_max, block.horizon_max):
                        yield f"a horizon hides key {key}"
                    for (want, need, token), (floor, _) in self._floors.items():
                        if token is None and key < floor and fit & want and caps & need == need:
                            yield f"a floor hides key {key}"

    def entries(self) -> Iterator[tuple[int, T, int, int, int]]:
        """Yield (key, item, fit, caps, horizon) in order."""
        for block in self._blocks:
            for leaf in block.leaves:
                yield from zip(leaf.keys, leaf.items, leaf.fits, leaf.caps, leaf.horizons, strict=True)

    def floors(self) -> Iterator[tuple[Hashable, int, int]]:
        """Yield (token, key, horizon_min) of each floor that a search with a token left."""
        for (_, _, token), (floor, since) in self._floors.items():
            if token is not None:
                yield token, floor, since

    def load(self, entries: list[tuple[int, T, int, int, int]]) -> None:
        """Fill an empty index with (key, item, fit, caps, horizon) entries in any order."""
        assert not self._blocks, "load fills an empty index"
        entries.sort(key=lambda entry: entry[0])
        size = LEAF_ENTRIES_MAX * 2 // 3
        leaves = [
            _Leaf(*(list(column) for column in zip(*entries[i : i + size], strict=True)))
            for i in range(0, len(entries), size)
        ]
        size = BLOCK_LEAVES_MAX * 2 // 3
        self._blocks = [_Block(leaves[i : i + size]) for i in range(0, len(leaves), size)]
        self._maxes = [block.maxes[-1] for block in self._blocks]
        self._count = len(entries)

    def _locate(self, key: int) -> tuple[int, int, int]:
        b = bisect_left(self._maxes, key)
        if b < len(self._maxes):
            block = self._blocks[b]
            n = bisect_left(block.maxes, key)
            keys = block.leaves[n].keys
            i = bisect_left(keys, key)
            if keys[i] == key:
                return b, n, i
        raise KeyError(key)

    def _split(self, b: int, n: int) -> None:
        block = self._blocks[b]
        leaf = block.leaves[n]
        half = len(leaf.keys) // 2
        right = _Leaf(leaf.keys[half:], leaf.items[half:], leaf.fits[half:], leaf.caps[half:], leaf.horizons[half:])
        del leaf.keys[half:], leaf.items[half:], leaf.fits[half:], leaf.caps[half:], leaf.horizons[half:]
        leaf.summarize()
        block.leaves.insert(n + 1, right)
        block.maxes[n : n + 1] = [leaf.keys[-1], right.keys[-1]]
        if len(block.leaves) > BLOCK_LEAVES_MAX:
            half = len(block.leaves) // 2
            other = _Block(block.leaves[half:])
            self._blocks[b : b + 1] = [_Block(block.leaves[:half]), other]
            self._maxes[b : b + 1] = [self._blocks[b].maxes[-1], other.maxes[-1]]

    def _drop_leaf(self, b: int, n: int) -> None:
        block = self._blocks[b]
        del block.leaves[n], block.maxes[n]
        if block.leaves:
            self._maxes[b] = block.maxes[-1]
        else:
            del self._blocks[b], self._maxes[b]

    def _merge(self, b: int, n: int) -> None:
        """Join a leaf that has become small with a neighbor, unless the two would be full together."""
        block = self._blocks[b]
        left = n - 1 if n else n
        one, two = block.leaves[left], block.leaves[left + 1]
        if len(one.keys) + len(two.keys) > LEAF_ENTRIES_MAX * 3 // 4:
            return
        block.leaves[left] = _Leaf(
            one.keys + two.keys,
            one.items + two.items,
            one.fits + two.fits,
            one.caps + two.caps,
            one.horizons + two.horizons,
        )
        block.maxes[left] = two.keys[-1]
        del block.leaves[left + 1], block.maxes[left + 1]
