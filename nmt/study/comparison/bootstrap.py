"""Intervals for the mean over training seeds, by resampling seeds and test sentences.

Two things vary that a comparison is not about: the seed of a training and the sentences of the
test set. Every resample draws seeds, then documents where the corpus has them, then sentences
(each with replacement), and takes the same sentences and positions in the list of seeds for all
systems, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BOOTSTRAP_SEED = 1234
NUM_RESAMPLES = 1000
COVERAGE = 0.95


@dataclass(frozen=True)
class Resamples:
    """R random draws of seeds and of n sentences.

    Attributes:
        seed_draws: (R, most seeds of a system), uniform in [0, 1): a draw u stands for the seed at
            position floor(u * number of seeds), one mapping for systems of any number of seeds.
        weights: (R, n), how often each sentence was drawn.
    """

    seed_draws: Floats
    weights: Floats


def draw_resamples(
    strata: Sequence[int],
    *,
    num_seeds: int,
    documents: Sequence[str] | None = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = BOOTSTRAP_SEED,
) -> Resamples:
    """Draws seeds and sentences.

    Args:
        strata: The length bucket of each of the n sentences. Without documents, sentences are
            drawn within their bucket, so that its size stays what it is.
        num_seeds: The most seeds that a system has.
        documents: The document of each sentence. Whole documents are drawn first, then as many
            sentences of each drawn one as it has.
        num_resamples: R.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    seed_draws = rng.random((num_resamples, num_seeds))
    weights = np.zeros((num_resamples, len(strata)))
    groups = _members(strata if documents is None else documents)
    times = np.ones((num_resamples, len(groups)), dtype=np.int64)
    if documents is not None:
        times = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), num_resamples)
    for drawn, members in zip(times.T, groups, strict=True):
        equal = np.full(len(members), 1 / len(members))
        weights[:, members] = rng.multinomial(drawn * len(members), equal)
    return Resamples(seed_draws=seed_draws, weights=weights)


def resampled_scores(
    statistics: Floats,
    resamples: Resamples,
    *,
    members: NDArray[np.intp],
    score: Callable[[Floats], Floats],
) -> Floats:
    """Scores every resample of some of the sentences and averages over the seeds drawn.

    Args:
        statistics: (seeds, n, K), what `score` is made of, of each sentence under each seed.
        resamples: Of n sentences.
        members: Indices of the sentences to score.
        score: Takes sums over sentences (..., K) to scores (...).

    Returns:
        (R,): mean score; not a number where no sentence was drawn.
    """
    weights = resamples.weights[:, members]
    scores = score(np.stack([weights @ rows for rows in statistics[:, members]], axis=1))
    scores = np.where(weights.sum(1, keepdims=True) > 0, scores, np.nan)
    return average_over_seeds(scores, resamples)


def average_over_seeds(scores: Floats, resamples: Resamples) -> Floats:
    """Averages scores of R resamples (R, seeds) over the seeds that each of them drew."""
    num_seeds = scores.shape[1]
    positions = (resamples.seed_draws[:, :num_seeds] * num_seeds).astype(np.intp)
    means: Floats = np.take_along_axis(scores, positions, axis=1).mean(axis=1)
    return means


def interval(value: float, replicates: Floats) -> dict[str, float | None]:
    """Returns an estimate with its percentile interval, as `value`, `low` and `high`.

    Resamples without a value are left out; where nothing has one, all three are None.
    """
    known = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or not len(known):
        return {"value": None, "low": None, "high": None}
    tail = 50 * (1 - COVERAGE)
    low, high = np.percentile(known, [tail, 100 - tail])
    return {"value": float(value), "low": float(low), "high": float(high)}


def _members(labels: Sequence[int] | Sequence[str]) -> list[NDArray[np.intp]]:
    """Returns the indices of each distinct label."""
    _, codes = np.unique(np.asarray(labels), return_inverse=True)
    return [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
