"""Which training pairs an epoch has when some corpora are to be seen more often than others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """One corpus of the training pairs, which stand one corpus after the other.

    Attributes:
        num_pairs: Its pairs.
        weight: How often each of them is seen in an epoch, on average.
    """

    num_pairs: int
    weight: float


class WeightedPairs:
    """The pairs of each epoch: 2.5 of a corpus are all pairs twice and a random half once more.

    The part is drawn anew in each epoch, as many pairs of each length as it has a share of: each
    pair has the same chance, and every epoch has nearly the same lengths. Every corpus gives at
    least one pair.

    Attributes:
        longest: (rows,) ascending; in no epoch is the i-th shortest pair longer than `longest[i]`.
    """

    def __init__(self, longer: Integers, shares: Sequence[Share], *, seed: int) -> None:
        """Sorts the lengths.

        Args:
            longer: (pairs,) max(S, T) of each pair.
            shares: The corpora that the pairs are of, in order.
            seed: Makes the parts, together with the epoch.
        """
        assert sum(share.num_pairs for share in shares) == len(longer)
        self._seed = seed
        self._corpora = []
        longest = []
        start = 0
        for share in shares:
            corpus = _Corpus(longer[start : start + share.num_pairs], start, share.weight)
            self._corpora.append(corpus)
            longest.append(corpus.longest())
            start += share.num_pairs
        self.longest = np.sort(np.concatenate(longest))

    def rows(self, epoch: int) -> Integers:
        """Returns (rows,) the numbers of the pairs of an epoch, each as often as it is seen."""
        random = np.random.default_rng([self._seed, 2, epoch])
        return np.concatenate([corpus.rows(random) for corpus in self._corpora])


class _Corpus:
    def __init__(self, longer: Integers, start: int, weight: float) -> None:
        num_pairs = len(longer)
        self._longer, self._start = longer, start
        self._times, self._part = divmod(max(1, round(weight * num_pairs)), num_pairs)

    def rows(self, random: np.random.Generator) -> Integers:
        num_pairs = len(self._longer)
        whole = np.tile(np.arange(num_pairs), self._times)
        shuffled = random.permutation(num_pairs)
        by_length = shuffled[np.argsort(self._longer[shuffled], kind="stable")]
        # Every n/m-th pair of that order from a random place on: each is taken by m of n places.
        places = np.arange(self._part) * num_pairs + random.integers(num_pairs)
        part = by_length[places // max(1, self._part)]
        return np.concatenate([whole, part]) + self._start

    def longest(self) -> Integers:
        ascending = np.sort(self._longer)
        last_places = (np.arange(self._part) + 1) * len(ascending) - 1
        part = ascending[last_places // max(1, self._part)]
        return np.concatenate([np.tile(ascending, self._times), part])
