"""The translations of one split under several systems, ready to be scored on any resample."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.evaluation.by_length import DEFAULT_EDGES
from nmt.evaluation.metrics import failure_rates
from nmt.evaluation.results import TranslatedSentence
from nmt.study.comparison.bootstrap import (
    Resamples,
    average_over_seeds,
    draw_resamples,
    interval,
    resampled_scores,
)
from nmt.study.comparison.sufficient_statistics import (
    Floats,
    Scorer,
    bleu_of,
    bleu_statistics,
    brevity_penalty_of,
    chrf_of,
    chrf_statistics,
    length_ratio_of,
)
from nmt.tokenizer import default_unit

Members = NDArray[np.intp]


@dataclass(frozen=True)
class Gap:
    """A difference: its value, and in each resample (R,)."""

    value: float
    replicates: Floats

    def minus(self, other: Gap) -> Gap:
        """Returns the difference of two over the same resamples."""
        return Gap(self.value - other.value, self.replicates - other.replicates)

    def entry(self) -> dict[str, float | None]:
        """Returns the value with its interval, for `results.json`."""
        return interval(self.value, self.replicates)


@dataclass(frozen=True)
class Measured:
    """A score: of each seed (S,), and the mean over seeds in each resample (R,)."""

    by_seed: Floats
    replicates: Floats

    @property
    def value(self) -> float:
        """The mean over seeds."""
        return float(self.by_seed.mean())

    def minus(self, other: Measured) -> Gap:
        """Returns the difference of the means of two scores over the same resamples."""
        return Gap(self.value - other.value, self.replicates - other.replicates)

    def entry(self) -> dict[str, Any]:
        """Returns the mean over seeds with its interval, and each seed, for `results.json`."""
        return {**interval(self.value, self.replicates), "by_seed": self.by_seed.tolist()}


@dataclass(frozen=True)
class LengthRange:
    """The sentences whose source is `low` to `high` units long; `high` is None for the last."""

    low: int
    high: int | None
    members: Members

    @property
    def label(self) -> str:
        """The range for people: "1-10", or "81+"."""
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class SplitScores:
    """The n sentences of a split, and what each system's scores of them are made of.

    Attributes:
        sentences: The sentences by the label of a system, then by seed.
        lengths: (n,) source lengths.
        ranges: The length ranges that hold sentences.
        resamples: The same for every system.
        has_documents: Whether documents were drawn before sentences.
        target_lang: Language code that decides BLEU's tokenizer.
    """

    sentences: Mapping[str, Sequence[Sequence[TranslatedSentence]]]
    lengths: NDArray[np.int64]
    ranges: Sequence[LengthRange]
    resamples: Resamples
    has_documents: bool
    target_lang: str

    @cached_property
    def bleu_counts(self) -> Mapping[str, Floats]:
        """(seeds, n, 10) of `bleu_statistics` by label."""
        return self._count(partial(bleu_statistics, target_lang=self.target_lang))

    @cached_property
    def chrf_counts(self) -> Mapping[str, Floats]:
        """(seeds, n, 18) of `chrf_statistics` by label."""
        return self._count(chrf_statistics)

    @property
    def everything(self) -> Members:
        """The indices of all sentences."""
        return np.arange(len(self.lengths))

    @property
    def texts(self) -> Sequence[TranslatedSentence]:
        """The sentences of the first run, for what does not depend on the system."""
        return next(iter(self.sentences.values()))[0]

    def bleu(self, label: str, members: Members) -> Measured:
        """Measures BLEU of a system on some sentences."""
        return self._measure(self.bleu_counts[label], members, bleu_of)

    def chrf(self, label: str, members: Members) -> Measured:
        """Measures chrF2 of a system on some sentences."""
        return self._measure(self.chrf_counts[label], members, chrf_of)

    def chrf_slope(self, label: str) -> Measured:
        """Measures how sentence chrF2 changes with each ten units of source length."""
        scores = chrf_of(self.chrf_counts[label])
        tens = self.lengths / 10
        weights = self.resamples.weights
        slopes = np.stack([_slopes(weights, tens, rows) for rows in scores], axis=1)
        return Measured(
            by_seed=np.array([_slopes(np.ones((1, len(tens))), tens, rows)[0] for rows in scores]),
            replicates=average_over_seeds(slopes, self.resamples),
        )

    def _count(self, count: Callable[[list[str], list[str]], Floats]) -> dict[str, Floats]:
        runs = [(label, rows) for label, runs in self.sentences.items() for rows in runs]
        counts = count(
            [row.hypothesis for _, rows in runs for row in rows],
            [row.reference for _, rows in runs for row in rows],
        ).reshape(len(runs), len(self.lengths), -1)
        labels = np.array([label for label, _ in runs])
        return {label: counts[labels == label] for label in self.sentences}

    def _measure(self, counts: Floats, members: Members, score: Scorer) -> Measured:
        return Measured(
            by_seed=score(counts[:, members].sum(1)),
            replicates=resampled_scores(counts, self.resamples, members=members, score=score),
        )

    def summary(self, label: str, members: Members) -> dict[str, Any]:
        """Returns scores and rates of a system on some sentences, averaged over seeds."""
        sums = self.bleu_counts[label][:, members].sum(1)
        rates = [
            failure_rates(
                [s.source for s in rows],
                [s.hypothesis for s in rows],
                members,
                unit=default_unit(self.target_lang),
            )
            for rows in self.sentences[label]
        ]
        return {
            "num_sentences": len(members),
            "bleu": self.bleu(label, members).entry(),
            "chrf": self.chrf(label, members).entry(),
            "length_ratio": float(length_ratio_of(sums).mean()),
            "brevity_penalty": float(brevity_penalty_of(sums).mean()),
            **{key: float(np.mean([rate[key] for rate in rates])) for key in rates[0]},
        }


def score_sentences(
    sentences: Mapping[str, Sequence[Sequence[TranslatedSentence]]],
    *,
    target_lang: str,
    strata: Sequence[int] | None = None,
) -> SplitScores:
    """Counts n-grams of all translations and draws resamples of the sentences.

    Args:
        sentences: The same sentences by the label of a system, then by seed.
        target_lang: Language code that decides BLEU's tokenizer.
        strata: The group that each sentence is resampled in; None takes its length range.
    """
    first = next(iter(sentences.values()))[0]
    lengths = np.array([sentence.source_words for sentence in first])
    ranges = length_ranges(lengths)
    documents = [sentence.document for sentence in first if sentence.document is not None]
    has_documents = len(documents) == len(first)
    return SplitScores(
        sentences=sentences,
        lengths=lengths,
        ranges=ranges,
        resamples=draw_resamples(
            strata or [bisect_left(DEFAULT_EDGES, length) for length in lengths],
            num_seeds=max(len(runs) for runs in sentences.values()),
            documents=documents if has_documents else None,
        ),
        has_documents=has_documents,
        target_lang=target_lang,
    )


def length_ranges(lengths: NDArray[np.int64]) -> list[LengthRange]:
    """Sorts sentences into the ranges of `nmt.evaluation.by_length`; empty ranges are left out.

    A source without words, if any, is in the first range.
    """
    lows = [1, *(edge + 1 for edge in DEFAULT_EDGES)]
    places = np.array([bisect_left(DEFAULT_EDGES, length) for length in lengths])
    ranges = [
        LengthRange(low, high, np.flatnonzero(places == place))
        for place, (low, high) in enumerate(zip(lows, [*DEFAULT_EDGES, None], strict=True))
    ]
    return [each for each in ranges if len(each.members)]


def _slopes(weights: Floats, lengths: Floats, scores: Floats) -> Floats:
    """Fits a line to (length, score) by least squares under each row of weights (R, n)."""
    total = weights.sum(1)
    mean_length, mean_score = weights @ lengths / total, weights @ scores / total
    covariance = weights @ (lengths * scores) / total - mean_length * mean_score
    variance = weights @ lengths**2 / total - mean_length**2
    slopes: Floats = np.where(variance > 0, covariance / np.maximum(variance, 1e-12), np.nan)
    return slopes
