"""Joins sentence pairs into longer inputs: what changes is the length, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from nmt.checks import UserError
from nmt.data.cache import key_of

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Concatenation:
    """How many pairs become one.

    Attributes:
        train: Sizes that are equally likely: (1, 1, 2) leaves half of the training inputs at three
            pairs of four alone. Which pairs are joined is drawn anew in each epoch.
        test: Sizes of the inputs of `test_joined`, which has all of `test` once for each size.
    """

    train: Sequence[int]
    test: Sequence[int]

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            sizes = getattr(self, name)
            if not _are_sizes(sizes):
                raise UserError(
                    f"data.concatenate.{name} is {sizes!r}; give a list of numbers of pairs, "
                    "each 1 or more, such as [1, 2, 3]."
                )


def _are_sizes(sizes: Any) -> bool:
    return (
        isinstance(sizes, Sequence)
        and not isinstance(sizes, str)
        and len(sizes) > 0
        and all(type(size) is int and size >= 1 for size in sizes)
    )


class JoinedPairs:
    """Which training pairs stand together: other pairs in each epoch, in groups of equal lengths.

    The groups are drawn once. In each epoch every pair takes the place of one of the same lengths,
    so that every pair is seen once and the lengths of the joined inputs, hence the number of
    batches, do not change.

    Attributes:
        source_lengths: (groups,) tokens of each joined source, EOS counted.
        target_lengths: (groups,) tokens of each joined target, EOS counted.
    """

    def __init__(
        self, source_lengths: Integers, target_lengths: Integers, *, sizes: Sequence[int], seed: int
    ) -> None:
        """Draws the groups.

        Args:
            source_lengths: (pairs,) tokens of each source, EOS counted.
            target_lengths: (pairs,) tokens of each target, EOS counted.
            sizes: How many pairs a group may have, equally likely.
            seed: Makes the groups, and with the epoch who is in them.
        """
        random = np.random.default_rng([seed, 0])
        self._seed = seed
        self._starts = _starts(len(source_lengths), sizes, random)
        places = random.permutation(len(source_lengths))  # the pair at each place
        self._kind = source_lengths * (int(target_lengths.max()) + 1) + target_lengths
        self._places_by_kind = np.argsort(self._kind[places], kind="stable")
        num_joints = np.diff(self._starts, append=len(places)) - 1  # each has an EOS too many
        self.source_lengths = np.add.reduceat(source_lengths[places], self._starts) - num_joints
        self.target_lengths = np.add.reduceat(target_lengths[places], self._starts) - num_joints

    def groups(self, epoch: int) -> Groups:
        """Returns the numbers of the pairs in each group, in order."""
        shuffled = np.random.default_rng([self._seed, 1, epoch]).permutation(len(self._kind))
        pairs_by_kind = shuffled[np.argsort(self._kind[shuffled], kind="stable")]
        pairs = np.empty_like(pairs_by_kind)
        pairs[self._places_by_kind] = pairs_by_kind
        return Groups(pairs, np.append(self._starts, len(pairs)))


class Groups(Sequence[list[int]]):
    """Groups of pairs as two arrays: a list of lists of millions would take a gigabyte."""

    def __init__(self, pairs: Integers, bounds: Integers) -> None:
        """Takes the pairs of all groups, and where each group starts and the last one ends."""
        self._pairs, self._bounds = pairs, bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, group: Any) -> Any:
        """Returns the pairs of a group; raises IndexError behind the last one."""
        if not 0 <= group < len(self):
            raise IndexError(group)
        pairs: list[int] = self._pairs[self._bounds[group] : self._bounds[group + 1]].tolist()
        return pairs

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns (groups,) the sum over each group of what each pair has."""
        sums: npt.NDArray[Any] = np.add.reduceat(values[self._pairs], self._bounds[:-1])
        return sums


def _starts(num_pairs: int, sizes: Sequence[int], random: np.random.Generator) -> Integers:
    """Returns where groups of random sizes start; the last one may be smaller than drawn."""
    drawn = random.choice(np.asarray(sizes, dtype=np.int64), size=num_pairs)
    starts: Integers = np.cumsum(drawn) - drawn
    return starts[starts < num_pairs]


def join_test(dataset: Dataset, sizes: Sequence[int]) -> Dataset:
    """Returns the pairs joined by a space, in order, k neighbours at a time, for each size k.

    The last group of a size is smaller where the number of pairs is no multiple of it: no text is
    left out. A group belongs to the document of its first pair.

    Args:
        dataset: Columns source and target; perhaps document.
        sizes: As `Concatenation.test`.
    """
    groups = [range(i, i + size) for size in sizes for i in range(0, len(dataset), size)]
    groups = [group[: len(dataset) - group.start] for group in groups]
    columns: dict[str, list[str]] = {}
    for side in ("source", "target"):
        lines = dataset[side][:]
        columns[side] = [" ".join(lines[i] for i in group) for group in groups]
    if "document" in dataset.column_names:
        names = dataset["document"][:]
        columns["document"] = [names[group.start] for group in groups]
    joined = Dataset.from_dict(columns)
    joined._fingerprint = key_of("joined", dataset._fingerprint, list(sizes))
    return joined
