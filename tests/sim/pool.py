"""A set of integers to pick from at random: adding, removing and picking take constant time and repeat by seed."""

from collections.abc import Iterator
from random import Random


class Pool:
    """Integers in an order that depends only on the calls made, never on hashes."""

    __slots__ = ("_items", "_places")

    def __init__(self) -> None:
        self._items: list[int] = []
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)

    def __contains__(self, item: int) -> bool:
        return item in self._places

    def add(self, item: int) -> None:
        if item not in self._places:
            self._places[item] = len(self._items)
            self._items.append(item)

    def discard(self, item: int) -> None:
        place = self._places.pop(item, None)
        if place is None:
            return
        last = self._items.pop()
        if last != item:
            self._items[place] = last
            self._places[last] = place

    def pick(self, rng: Random) -> int:
        """Return one of them at random; 0 when there is none."""
        return self._items[int(rng.random() * len(self._items))] if self._items else 0
