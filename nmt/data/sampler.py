"""Which sentence pairs go into which batch, in which order, on which rank.

Pairs of like length go together and a batch is as large as a token budget allows: its cost is
rows x max(S, T), what the padded batch really takes. In training the batches are the same for
1, 2, 4 and 8 ranks; rank r of n takes every n-th one, beginning with the r-th. Where some corpora
are to be seen more often than others, `WeightedPairs` says which pairs an epoch has.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch.distributed
from torch.utils.data import Sampler

Integers = npt.NDArray[np.int64]
# What a row of a batch is made of: a pair, or several pairs joined into one.
Row = int | Sequence[int]


class Rows(list[Row]):
    """The rows of a batch, and the epoch they are drawn in."""

    def __init__(self, rows: Iterable[Row], epoch: int = 0) -> None:
        super().__init__(rows)
        self.epoch = epoch


# Batches are shared out evenly on up to this many ranks or accumulated micro-batches.
ROUND_TO = 8
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Share:
    """One corpus of the training pairs, which stand one corpus after the other.

    Attributes:
        num_pairs: Its pairs.
        weight: How often each of them is seen in an epoch, on average.
    """

    num_pairs: int
    weight: float


class TokenBatchSampler(Sampler[Rows]):
    """Yields lists of pair numbers, one list a batch, for this rank.

    In training the pairs are cut from a sort by (max(S, T), T, S) with ties shuffled, so that the
    number of batches depends on the lengths only. The largest batches are then split until
    the count divides by eight and by the batches of an update on all ranks, so that an epoch ends
    with an update, and the order of the batches is shuffled, anew in each epoch. Every pair
    appears exactly once an epoch, or as often as the weight of its corpus says (see
    `WeightedPairs`). Only where there are too few pairs to give every rank as many batches (13
    pairs of one batch each on two ranks) some batches are repeated, with a warning that says how
    many: unequal ranks would hang.

    In evaluation (`shuffle=False`) the cut is the same, longest first and without rounding; with
    `spread` the first batches, however many are taken, are of all lengths. Ranks
    may get unequal numbers of batches, and nothing is dropped. Nothing is repeated either, but for
    a rank that has no batch of its own: Lightning would leave it out of the evaluation, and the
    others would wait for it. It repeats the first batch, so gather results by `Batch.index`.

    A pair longer than the budget is a batch of its own.

    Attributes:
        epoch: The epoch whose order the next iteration takes; see `set_epoch`.
        start: The next iteration leaves out this many batches, for resuming within an epoch.
    """

    def __init__(
        self,
        source_lengths: Sequence[int] | Integers,
        target_lengths: Sequence[int] | Integers,
        *,
        token_budget: int,
        seed: int = 1,
        shuffle: bool = True,
        spread: bool = False,
        groups: Callable[[int], Sequence[Sequence[int]]] | None = None,
        shares: Sequence[Share] | None = None,
        accumulate: int = 1,
    ) -> None:
        """Sorts the lengths and cuts them.

        Args:
            source_lengths: Tokens of each source, its EOS counted.
            target_lengths: Tokens of each target, its EOS (or BOS) counted.
            token_budget: The largest rows x max(S, T) of a batch of more than one pair.
            seed: Makes the order, together with the epoch.
            shuffle: True for training, False for evaluation.
            spread: In evaluation the order is not by length.
            groups: Gives for an epoch the pairs that are joined at each number, whose lengths the
                above then are (see `JoinedPairs`); None joins none.
            shares: The corpora that the pairs are of, in training, and how often each is seen;
                None sees each pair once.
            accumulate: Batches of a rank that make one update.
        """
        source = np.asarray(source_lengths, dtype=np.int64)
        target = np.asarray(target_lengths, dtype=np.int64)
        assert len(source) == len(target) > 0
        assert groups is None or shares is None
        self.token_budget = token_budget
        self.seed = seed
        self.shuffle = shuffle
        self._spread = spread
        self.accumulate = accumulate
        self._groups = groups
        self.epoch = 0
        self.start = 0
        self._longer = np.maximum(source, target)
        base = int(self._longer.max()) + 1
        self._key = (self._longer * base + target) * base + source  # sorts by (max(S, T), T, S)
        self._weighted = None if shares is None else WeightedPairs(self._longer, shares, seed=seed)
        longest = np.sort(self._longer) if self._weighted is None else self._weighted.longest
        self._most_rows = len(longest)
        self._most_batches = len(cut(longest, token_budget))
        self._checksum = zlib.crc32(self._key.tobytes())
        for share in shares or ():
            self._checksum = zlib.crc32(repr(share).encode(), self._checksum)

    @property
    def fingerprint(self) -> int:
        """A number that changes with what the batches of a rank depend on, but the epoch."""
        _, world = rank_and_world()
        numbers = np.array(
            [self.token_budget, self.seed, int(self.shuffle), world, self.accumulate]
        )
        return zlib.crc32(numbers.tobytes(), self._checksum)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration; Lightning calls it before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Returns the number of batches an epoch gives this rank, whatever `start` is."""
        rank, world = rank_and_world()
        if self.shuffle:
            return math.ceil(self._num_batches(world) / world)
        return max(1, len(range(rank, self._most_batches, world)))

    def __iter__(self) -> Iterator[Rows]:
        # The order is fixed here, not at the first batch: the loader changes `start` afterwards.
        return self._iterate(self.epoch, self.start)

    def _iterate(self, epoch: int, start: int) -> Iterator[Rows]:
        rank, world = rank_and_world()
        pairs, ends, order = self._plan(epoch, world)
        starts = np.concatenate([[0], ends[:-1]])
        own = order[rank::world]
        groups = None if self._groups is None else self._groups(epoch)
        for batch in (own if len(own) else order[:1])[start:]:
            rows = pairs[starts[batch] : ends[batch]].tolist()
            yield Rows(rows if groups is None else [groups[row] for row in rows], epoch)

    def _plan(self, epoch: int, world: int) -> tuple[Integers, Integers, Integers]:
        """Returns the sorted pairs, where each batch ends in them, and the order of the batches."""
        if not self.shuffle:
            by_length = np.argsort(self._key, kind="stable")
            ends = cut(self._longer[by_length], self.token_budget)
            return (
                by_length,
                ends,
                _spread(len(ends)) if self._spread else np.arange(len(ends))[::-1],
            )
        random = np.random.default_rng([self.seed, epoch])
        rows = len(self._key) if self._weighted is None else self._weighted.rows(epoch)
        shuffled = random.permutation(rows)
        pairs = shuffled[np.argsort(self._key[shuffled], kind="stable")]
        longer = self._longer[pairs]
        ends = split_largest(cut(longer, self.token_budget), longer, self._num_batches(world))
        order = random.permutation(len(ends))
        return pairs, ends, _repeat_to_share(order, world)

    def _num_batches(self, world: int) -> int:
        """Returns how many batches every epoch has: whole updates where possible."""
        for divisor in (ROUND_TO, 4, 2, 1):
            multiple = math.lcm(divisor, world * self.accumulate)
            count = math.ceil(self._most_batches / multiple) * multiple
            if count <= self._most_rows:
                return count
        return self._most_batches


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


def rank_and_world() -> tuple[int, int]:
    """Returns this process's rank and the number of ranks; (0, 1) without torch.distributed.

    Asked at each iteration: samplers are made before the processes know each other.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def cut(longer: Integers, token_budget: int) -> Integers:
    """Cuts sorted pairs into batches, each as large as the budget allows.

    Args:
        longer: (pairs,) max(S, T) of each pair, ascending.
        token_budget: The largest rows x max(S, T) of a batch of more than one pair.

    Returns:
        (batches,) where each batch ends: the first pair that is no longer in it.
    """
    run_ends = np.flatnonzero(np.append(np.diff(longer) > 0, True)) + 1
    runs = list(zip(longer[run_ends - 1].tolist(), run_ends.tolist(), strict=True))
    ends = []
    start, end = 0, 0
    for length, run_end in runs:  # one run: all pairs of one length
        rows = max(1, token_budget // length)
        if end > start and end - start >= rows:
            ends.append(end)
            start = end
        while run_end - start > rows:
            start += rows
            ends.append(start)
        end = run_end
    ends.append(end)
    return np.array(ends, dtype=np.int64)


def split_largest(ends: Integers, longer: Integers, count: int) -> Integers:
    """Halves the costliest batch of more than one pair until there are `count` batches.

    Args:
        ends: (batches,) where each batch ends.
        longer: (pairs,) max(S, T) of each pair, ascending.
        count: At least the number of batches and at most the number of pairs.

    Returns:
        (count,) where each batch ends.
    """
    while len(ends) < count:
        rows = np.diff(ends, prepend=0)
        costs = np.where(rows > 1, rows * longer[ends - 1], 0)
        largest = int(costs.argmax())
        ends = np.insert(ends, largest, ends[largest] - rows[largest] // 2)
    return ends


def _repeat_to_share(order: Integers, world: int) -> Integers:
    """Repeats the first batches until every rank gets as many, and says so."""
    missing = -len(order) % world
    if missing:
        warnings.warn(
            f"{len(order)} training batches of too few sentence pairs to split further cannot be "
            f"shared evenly by {world} ranks: {missing} of the {len(order) + missing} batches of "
            "each epoch are repetitions; use fewer devices.",
            stacklevel=2,
        )
    return np.resize(order, len(order) + missing)


def _spread(count: int) -> Integers:
    """Returns an order of which each beginning is spread evenly over the whole."""
    places = (0.5 + _GOLDEN * np.arange(count)) % 1
    return np.argsort(np.argsort(places))
