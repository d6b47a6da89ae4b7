"""Several corpora as the training text of one run: each has a weight and a set to validate on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nmt.data.corpus import CorpusOptions
from nmt.data.options import build_options

_NEEDED = ("train", "valid")
_LARGEST_WEIGHT = 1000  # an epoch is drawn in memory


@dataclass(frozen=True, kw_only=True)
class MixedCorpus:
    """One entry of `data.corpora`: where the corpus is, as in `CorpusOptions`, and its weight.

    Attributes:
        weight: How often each of its training pairs is seen in an epoch, on average; see
            `WeightedPairs`.
        hub: See `CorpusOptions`.
        directory: As above.
        directory_splits: As above.
        train: As above.
        valid: As above.
        test: As above, but not needed.
        grammar: As above.
        columns: As above.
        expected_sizes: As above.
    """

    weight: float = 1.0
    hub: Mapping[str, Any] | None = None
    directory: str | None = None
    directory_splits: Mapping[str, str] | None = None
    train: Sequence[str] | str | None = None
    valid: Sequence[str] | str | None = None
    test: Sequence[str] | str | None = None
    grammar: Mapping[str, Any] | None = None
    columns: Mapping[str, str | int] | None = None
    expected_sizes: Mapping[str, int] | None = None


def mixed_corpora(
    corpora: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> dict[str, tuple[CorpusOptions, float]]:
    """Returns for each name in `data.corpora` what to load, and its weight.

    Args:
        corpora: For each name the keys of a `MixedCorpus`.
        common: Arguments of `CorpusOptions` that hold where a corpus does not say otherwise.

    Raises:
        ValueError: An impossible name, key, weight or origin.
    """
    if not isinstance(corpora, Mapping):
        raise ValueError(f"data.corpora is {corpora!r}; give names, and keys and values for each.")
    found = {}
    for name, values in corpora.items():
        where = f"data.corpora.{name}"
        if not re.fullmatch(r"\w[\w-]*", str(name), re.ASCII):
            raise ValueError(f"{where}: call it by letters, digits, _ and -, as files are named.")
        entry = asdict(build_options(MixedCorpus, values, where=where))
        weight = entry.pop("weight")
        if type(weight) not in (int, float) or not 0 < weight <= _LARGEST_WEIGHT:
            raise ValueError(
                f"{where}.weight is {weight!r}; give a number above 0 and up to "
                f"{_LARGEST_WEIGHT} (2: all pairs twice in an epoch, 0.5: a random half)."
            )
        own = {key: value for key, value in entry.items() if value is not None}
        options = CorpusOptions(name=str(name), where=where, needed=_NEEDED, **{**common, **own})
        found[str(name)] = (options, float(weight))
    return found
