"""Takes unusable pairs out of training data, and says how many and why.

Never used on validation and test data: what is scored is the whole file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import xxhash
from datasets import Dataset

from nmt.checks import UserError
from nmt.data.files import pairs
from nmt.data.text import map_shards
from nmt.tokenizer import LengthUnit, count_units


@dataclass(frozen=True, kw_only=True)
class CleaningRules:
    """Which pairs are removed; every rule can be switched off (false or null).

    Lengths are in words, or in characters for languages written without spaces (each side in its
    own unit). A pair is counted under the first rule that removes it, in the order below.

    Attributes:
        empty: A side without any character but white space.
        max_length: The longest side allowed, inclusive.
        max_length_ratio: How many times longer one side may be than the other, inclusive.
        identical: Both sides are the same text (left untranslated).
        duplicates: The same pair as an earlier one.
    """

    empty: bool
    max_length: int | None
    max_length_ratio: float | None
    identical: bool
    duplicates: bool

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            UserError: A limit below one.
        """
        for name in ("max_length", "max_length_ratio"):
            value = getattr(self, name)
            if value is not None and not (type(value) in (int, float) and value >= 1):
                raise UserError(
                    f"data.cleaning.{name} is {value!r}; set it to 1 or more, or to null for "
                    "no limit."
                )


@dataclass(frozen=True)
class CleaningReport:
    """What cleaning did.

    Attributes:
        total: Pairs before.
        removed: Name of each rule that is on, and the pairs it removed.
    """

    total: int
    removed: dict[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Pairs left."""
        return self.total - sum(self.removed.values())

    def table(self) -> str:
        """Returns the counts as lines of plain text."""
        rows = [("training pairs", self.total)]
        rows += [(f"- {_REASONS[name]}", -count) for name, count in self.removed.items()]
        rows += [("kept", self.kept)]
        return "\n".join(f"{label:<32}{count:>12,}" for label, count in rows)


_REASONS = {
    "empty": "a side is empty",
    "max_length": "too long",
    "max_length_ratio": "lengths too different",
    "identical": "both sides are the same",
    "duplicates": "seen before",
}

_Rule = Callable[[str, str, int, int], bool]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CleanedRows:
    """Which pairs of a training set are used.

    Attributes:
        rows: (kept,) numbers of the rows that are kept, ascending.
        source_units: (kept,) length of each of their sources.
        report: What was removed.
    """

    rows: Integers
    source_units: npt.NDArray[np.int32]
    report: CleaningReport


def clean(
    dataset: Dataset,
    *,
    rules: CleaningRules,
    source_unit: LengthUnit = "word",
    target_unit: LengthUnit = "word",
) -> CleanedRows:
    """Chooses the usable pairs of training data; both halves of a pair stay or go together.

    Args:
        dataset: Columns source and target (others are kept as they are).
        rules: What is removed.
        source_unit: What the length of a source is counted in.
        target_unit: What the length of a target is counted in.
    """
    work = partial(_findings, dataset, rules, source_unit, target_unit)
    findings = map_shards(work, len(dataset))
    broken, source_units, digests = (np.concatenate(part) for part in zip(*findings, strict=True))
    names = list(_checks(rules))
    removed = {name: int((broken == number).sum()) for number, name in enumerate(names, start=1)}
    rows = np.flatnonzero(broken == 0)
    if rules.duplicates:
        first = np.unique(digests[rows], return_index=True)[1]
        removed["duplicates"] = len(rows) - len(first)
        rows = rows[np.sort(first)]
    return CleanedRows(rows, source_units[rows], CleaningReport(len(dataset), removed))


def _findings(
    dataset: Dataset,
    rules: CleaningRules,
    source_unit: LengthUnit,
    target_unit: LengthUnit,
    rows: range,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32], npt.NDArray[np.uint64]]:
    """Returns for each row the first rule it breaks (0: none), its length, and a digest."""
    checks = list(enumerate(_checks(rules).values(), start=1))
    broken, source_units = np.zeros(len(rows), np.int8), np.zeros(len(rows), np.int32)
    digests = np.zeros(len(rows), np.uint64)
    for row, (source, target) in enumerate(pairs(dataset.select(rows))):
        lengths = count_units(source, source_unit), count_units(target, target_unit)
        source_units[row] = lengths[0]
        broken[row] = next((n for n, breaks in checks if breaks(source, target, *lengths)), 0)
        digests[row] = _digest(source, target)
    return broken, source_units, digests


def _checks(rules: CleaningRules) -> dict[str, _Rule]:
    """Returns the rules on single pairs that are on: true for those that must go."""
    checks: dict[str, _Rule] = {}
    if rules.empty:
        checks["empty"] = lambda source, target, s, t: min(s, t) == 0
    if (longest := rules.max_length) is not None:
        checks["max_length"] = lambda source, target, s, t: max(s, t) > longest
    if (ratio := rules.max_length_ratio) is not None:
        checks["max_length_ratio"] = lambda source, target, s, t: max(s, t) > ratio * min(s, t)
    if rules.identical:
        checks["identical"] = lambda source, target, s, t: source.strip() == target.strip()
    return checks


def _digest(source: str, target: str) -> int:
    """Returns 64 bits: two different ones of five million pairs agree once in a million corpora."""
    seed = xxhash.xxh3_64_intdigest(source.encode())
    return xxhash.xxh3_64_intdigest(target.encode(), seed=seed)
