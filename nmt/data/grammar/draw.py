"""Random choices that count their information: every draw adds -log2 of its probability."""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")

_INTEGER_BITS = [0.0, *(math.log2(count) for count in range(1, 129))]


class Table(Generic[T]):
    """A finite distribution, prepared once so that a draw costs one bisection.

    Args:
        items: What can be drawn; at least one.
        weights: Positive weights, as many as items; they need not sum to one.

    Raises:
        ValueError: There is nothing to draw.
    """

    __slots__ = ("bits", "cumulative", "items")

    def __init__(self, items: Sequence[T], weights: Sequence[float]) -> None:
        if not items:
            raise ValueError(
                "a table of choices is empty: give the lexicon at least one entry for it"
            )
        total = sum(weights)
        self.items = tuple(items)
        # The last bound is left out, so that rounding never leads past the last item.
        self.cumulative = list(accumulate(weight / total for weight in weights))[:-1]
        self.bits = [-math.log2(weight / total) for weight in weights]

    def __len__(self) -> int:
        return len(self.items)


def zipf_weights(count: int, *, shift: float = 2.0) -> list[float]:
    """Weights 1 / (rank + shift) with ranks from 0: Zipf's law, flattened at the top."""
    return [1.0 / (rank + shift) for rank in range(count)]


def zipf_table(items: Sequence[T]) -> Table[T]:
    """A table of items in the order of their frequency."""
    return Table(items, zipf_weights(len(items)))


class Draw:
    """One stream of random choices with the bits spent so far and the link keys handed out.

    Attributes:
        bits: Sum of -log2 of the probability of every choice since the last `restart`.
    """

    __slots__ = ("_key", "_random", "bits")

    def __init__(self, generator: random.Random) -> None:
        self._random = generator.random
        self._key = 0
        self.bits = 0.0

    def restart(self) -> None:
        """Begins a new input: no bits spent, link keys from 1."""
        self.bits = 0.0
        self._key = 0

    def key(self) -> int:
        """A link key not used before in this input."""
        self._key += 1
        return self._key

    def pick(self, table: Table[T]) -> T:
        """One item of the table."""
        index = bisect_right(table.cumulative, self._random())
        self.bits += table.bits[index]
        return table.items[index]

    def flip(self, probability: float) -> bool:
        """True with the given probability, strictly between 0 and 1."""
        happened = self._random() < probability
        self.bits -= math.log2(probability if happened else 1.0 - probability)
        return happened

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included; `low` when there is no room."""
        count = high - low + 1
        if count <= 1:
            return low
        self.bits += _INTEGER_BITS[count]
        return low + int(self._random() * count)
