"""Takes unusable pairs out of training data, and says how many and why.

Never used on validation and test data: what is scored is the whole file.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from datasets import Dataset, Features, Value

from nmt import checks
from nmt.checks import UserError
from nmt.data.cache import cached, key_of
from nmt.data.files import pairs
from nmt.tokenizer import LengthUnit, count_units, is_blank

logger = logging.getLogger(__name__)

Digests = npt.NDArray[np.uint64]
_Rule = Callable[[str, str, int, int], bool]

_VERSION = 3  # of the rules and of what is cached
_ROWS_AT_ONCE = 10_000
_ROWS_OF_A_PROCESS = 2**16
_MOST_PROCESSES = 8
_FOUND = Features(broken=Value("int8"), units=Value("int32"), digest=Value("uint64"))
_REASONS = {
    "empty": "a side is empty",
    "max_length": "too long",
    "max_length_ratio": "lengths too different",
    "identical": "both sides are the same",
    "duplicates": "seen before",
}


@dataclass(frozen=True, kw_only=True)
class CleaningRules:
    """Which pairs are removed; every rule can be switched off (false or null).

    Lengths are in words, or in characters for languages written without spaces (each side in its
    own unit). A pair is counted under the first rule that removes it, in the order below.

    Attributes:
        empty: A side without any visible character.
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
        if self.max_length is not None:
            checks.at_least("data.cleaning.max_length", self.max_length)
        if self.max_length_ratio is not None:
            checks.between("data.cleaning.max_length_ratio", self.max_length_ratio, 1, np.inf)


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


@dataclass(frozen=True)
class CleanedText:
    """The training pairs of a corpus that are used, and what was removed.

    Attributes:
        dataset: The pairs.
        source_units: (pairs,) length of each source.
        digests: (pairs,) what `digest` gives for each.
        report: What was removed.
    """

    dataset: Dataset
    source_units: npt.NDArray[np.int32]
    digests: Digests
    report: CleaningReport


def clean_text(
    train: Dataset,
    rules: CleaningRules,
    *,
    source_unit: LengthUnit,
    target_unit: LengthUnit,
    cache_dir: Path,
    name: str,
) -> CleanedText:
    """Returns the training pairs that pass the rules; both halves of a pair stay or go together.

    Args:
        train: Columns source and target (others are kept as they are).
        rules: What is removed.
        source_unit: What the length of a source is counted in.
        target_unit: What the length of a target is counted in.
        cache_dir: Where the result is kept.
        name: Of the corpus, for the log.
    """

    def make(folder: Path) -> None:
        found = _find(train, rules, source_unit, target_unit)
        rows, removed = _choose(found["broken"], found["digest"], rules)
        np.save(folder / "rows.npy", rows)
        np.save(folder / "source_units.npy", found["units"][rows])
        np.save(folder / "digests.npy", found["digest"][rows])
        report = CleaningReport(len(train), removed)
        (folder / "report.json").write_text(json.dumps(asdict(report)), encoding="utf-8")

    def load(folder: Path) -> CleanedText:
        report = CleaningReport(**json.loads((folder / "report.json").read_text(encoding="utf-8")))
        dataset = train
        if report.kept < report.total:
            dataset = train.select(np.load(folder / "rows.npy"), new_fingerprint=key)
        units, digests = (np.load(folder / f"{part}.npy") for part in ("source_units", "digests"))
        return CleanedText(dataset, units, digests, report)

    key = key_of(_VERSION, train._fingerprint, asdict(rules), source_unit, target_unit)
    cleaned = cached(cache_dir, f"cleaned-{key}", make, load)
    logger.info("Cleaning of %s:\n%s", name, cleaned.report.table())
    if not cleaned.report.kept:
        raise UserError(
            f"Cleaning removed all {cleaned.report.total} training pairs "
            f"({cleaned.report.removed}); check the data or switch rules off in data.cleaning."
        )
    return cleaned


def processes_for(dataset: Dataset) -> int | None:
    """Returns how many processes `Dataset.map` should use: one more for each 65,536 rows."""
    processes = min(_allowed_cores(), _MOST_PROCESSES, len(dataset) // _ROWS_OF_A_PROCESS)
    return processes if processes > 1 else None


def digest(source: str, target: str) -> int:
    """Returns 64 bits: two different ones of five million pairs agree once in a million corpora."""
    seed = xxhash.xxh3_64_intdigest(source.encode())
    return xxhash.xxh3_64_intdigest(target.encode(), seed=seed)


def digests_of(dataset: Dataset) -> Digests:
    """Returns (pairs,) the digest of each pair."""
    return np.fromiter((digest(*pair) for pair in pairs(dataset)), np.uint64, len(dataset))


def _find(
    dataset: Dataset, rules: CleaningRules, source_unit: LengthUnit, target_unit: LengthUnit
) -> Mapping[str, npt.NDArray[Any]]:
    """Returns for each row the first rule it breaks (0: none), its length, and its digest."""
    found = dataset.select_columns(["source", "target"]).map(
        partial(_find_in_batch, rules=rules, source_unit=source_unit, target_unit=target_unit),
        batched=True,
        batch_size=_ROWS_AT_ONCE,
        remove_columns=["source", "target"],
        features=_FOUND,
        num_proc=processes_for(dataset),
        keep_in_memory=True,
        load_from_cache_file=False,
        new_fingerprint="cleaning",
    )
    return {name: found.data.column(name).to_numpy() for name in _FOUND}


def _find_in_batch(
    rows: Mapping[str, Sequence[str]],
    *,
    rules: CleaningRules,
    source_unit: LengthUnit,
    target_unit: LengthUnit,
) -> dict[str, npt.NDArray[Any]]:
    rules_on = list(enumerate(_checks(rules).values(), start=1))
    found: dict[str, list[int]] = {name: [] for name in _FOUND}
    for source, target in zip(rows["source"], rows["target"], strict=True):
        lengths = count_units(source, source_unit), count_units(target, target_unit)
        found["units"].append(lengths[0])
        broken = (n for n, breaks in rules_on if breaks(source, target, *lengths))
        found["broken"].append(next(broken, 0))
        found["digest"].append(digest(source, target))
    return {name: np.array(found[name], _FOUND[name].dtype) for name in _FOUND}


def _checks(rules: CleaningRules) -> dict[str, _Rule]:
    """Returns the rules on single pairs that are on: true for those that must go."""
    found: dict[str, _Rule] = {}
    if rules.empty:
        found["empty"] = lambda source, target, s, t: is_blank(source) or is_blank(target)
    if (longest := rules.max_length) is not None:
        found["max_length"] = lambda source, target, s, t: max(s, t) > longest
    if (ratio := rules.max_length_ratio) is not None:
        found["max_length_ratio"] = lambda source, target, s, t: max(s, t) > ratio * min(s, t)
    if rules.identical:
        found["identical"] = lambda source, target, s, t: source.strip() == target.strip()
    return found


def _choose(
    broken: npt.NDArray[np.int8], digests: Digests, rules: CleaningRules
) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    """Returns the rows to keep, ascending, and how many each rule that is on removes."""
    names = list(_checks(rules))
    removed = {name: int((broken == number).sum()) for number, name in enumerate(names, start=1)}
    rows = np.flatnonzero(broken == 0)
    if rules.duplicates:
        first = np.unique(digests[rows], return_index=True)[1]
        removed["duplicates"] = len(rows) - len(first)
        rows = rows[np.sort(first)]
    return rows, removed


def _allowed_cores() -> int:
    """Returns how many cores this process may use, which a job may bound."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
