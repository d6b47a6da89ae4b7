"""The ways in which a translation fails by itself: it repeats, it is empty, it copies."""

import numpy as np
from numpy.typing import NDArray

RATES = ("repeated", "empty", "copied")


def failures(source: str, hypothesis: str, *, unit: str = "word") -> tuple[bool, bool, bool]:
    """Says whether a translation repeats a 4-gram, is empty, and equals its source.

    Args:
        source: The input.
        hypothesis: Its translation.
        unit: What a 4-gram is of: "word", or "character" where words have no space between them.
    """
    words = hypothesis.split()
    units = words if unit == "word" else list("".join(words))
    four_grams = [tuple(units[start : start + 4]) for start in range(len(units) - 3)]
    repeated = len(set(four_grams)) < len(four_grams)
    return repeated, not words, bool(words) and words == source.split()


def failure_rates(
    sources: list[str], hypotheses: list[str], members: NDArray[np.intp], *, unit: str
) -> dict[str, float]:
    """Returns the shares of failing translations among some, by the names in `RATES`."""
    marks = np.array([failures(sources[index], hypotheses[index], unit=unit) for index in members])
    return dict(zip(RATES, marks.mean(axis=0).tolist(), strict=True))
