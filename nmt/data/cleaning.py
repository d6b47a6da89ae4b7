"""Takes unusable pairs out of training data, and says how many and why.

Never used on validation and test data: what is scored is the whole file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from datasets import Dataset

from nmt.data.columns import pairs
from nmt.data.language_identification import LanguageCheck
from nmt.data.length_unit import LengthUnit, count_units


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
        language: Model file of `scripts/language_id.py`; a side that it finds beyond doubt in the
            language of the other side goes (see `LanguageIdentifier.clearly_in`).
        duplicates: The same pair as an earlier one.
    """

    empty: bool
    max_length: int | None
    max_length_ratio: float | None
    identical: bool
    duplicates: bool
    language: str | None = None

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ValueError: A limit below one, or a language rule without a file.
        """
        for name in ("max_length", "max_length_ratio"):
            value = getattr(self, name)
            if value is not None and not (type(value) in (int, float) and value >= 1):
                raise ValueError(
                    f"data.cleaning.{name} is {value!r}; set it to 1 or more, or to null for "
                    "no limit."
                )
        if self.language and not isinstance(self.language, str):
            raise ValueError(
                f"data.cleaning.language is {self.language!r}; set it to a model file of "
                "scripts/language_id.py, or to null."
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
    "language": "a side in the wrong language",
    "duplicates": "seen before",
}

_Pair = tuple[str, str]
_Rule = Callable[[str, str, int, int], bool]
_PAIRS_AT_ONCE = 10_000


def clean(
    dataset: Dataset,
    *,
    rules: CleaningRules,
    source_unit: LengthUnit = "word",
    target_unit: LengthUnit = "word",
    language_check: LanguageCheck | None = None,
) -> tuple[list[int], CleaningReport]:
    """Chooses the usable pairs of training data; both halves of a pair stay or go together.

    Args:
        dataset: Columns source and target (others are kept as they are).
        rules: What is removed.
        source_unit: What the length of a source is counted in.
        target_unit: What the length of a target is counted in.
        language_check: With the model of `rules.language`.

    Returns:
        The row numbers that are kept, in order, and the counts.
    """
    checks = _checks(rules, _in_wrong_language(dataset, language_check))
    removed = dict.fromkeys(checks, 0)
    keep: list[int] = []
    for row, (source, target) in enumerate(pairs(dataset)):
        lengths = count_units(source, source_unit), count_units(target, target_unit)
        for name, unusable in checks.items():
            if unusable(source, target, *lengths):
                removed[name] += 1
                break
        else:
            keep.append(row)
    return keep, CleaningReport(len(dataset), removed)


def _checks(rules: CleaningRules, in_wrong_language: set[_Pair]) -> dict[str, _Rule]:
    """Returns the rules that are on: true for (source, target, lengths) that must go."""
    checks: dict[str, _Rule] = {}
    if rules.empty:
        checks["empty"] = lambda source, target, s, t: min(s, t) == 0
    if (longest := rules.max_length) is not None:
        checks["max_length"] = lambda source, target, s, t: max(s, t) > longest
    if (ratio := rules.max_length_ratio) is not None:
        checks["max_length_ratio"] = lambda source, target, s, t: max(s, t) > ratio * min(s, t)
    if rules.identical:
        checks["identical"] = lambda source, target, s, t: source.strip() == target.strip()
    if rules.language:
        checks["language"] = lambda source, target, s, t: (source, target) in in_wrong_language
    if rules.duplicates:
        checks["duplicates"] = _SeenBefore()
    return checks


def _in_wrong_language(dataset: Dataset, check: LanguageCheck | None) -> set[_Pair]:
    """Judges many pairs at a time, which is much faster than one by one."""
    found: set[_Pair] = set()
    if check is not None:
        for rows in dataset.select_columns(["source", "target"]).iter(batch_size=_PAIRS_AT_ONCE):
            both = zip(rows["source"], rows["target"], strict=True)
            wrong = check.wrong(rows["source"], rows["target"])
            found.update(pair for pair, is_wrong in zip(both, wrong, strict=True) if is_wrong)
    return found


class _SeenBefore:
    """True for a pair that was given before; only 8 bytes of each are kept."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __call__(self, source: str, target: str, s: int, t: int) -> bool:
        key = hash((source, target))
        if key in self._seen:
            return True
        self._seen.add(key)
        return False
