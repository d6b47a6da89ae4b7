"""The ways in which a translation fails by itself: it repeats, it is empty, it copies."""

import numpy as np
from numpy.typing import NDArray

RATES = ("repeated", "empty", "copied")


def failures(source: str, hypothesis: str) -> tuple[bool, bool, bool]:
    """Says whether a translation repeats a 4-gram of words, is empty, and equals its source."""
    words = hypothesis.split()
    four_grams = [tuple(words[start : start + 4]) for start in range(len(words) - 3)]
    repeated = len(set(four_grams)) < len(four_grams)
    return repeated, not words, bool(words) and words == source.split()


def failure_rates(
    sources: list[str], hypotheses: list[str], members: NDArray[np.intp]
) -> dict[str, float]:
    """Returns the shares of failing translations among some, by the names in `RATES`."""
    marks = np.array([failures(sources[index], hypotheses[index]) for index in members])
    return dict(zip(RATES, marks.mean(axis=0).tolist(), strict=True))
