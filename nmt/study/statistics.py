"""How sure is a score? The numbers behind every interval and every test of a comparison.

Two things vary that a comparison is not about: the sentences of the test set and the seed of a
training. Sentences are many, so a resample draws them with replacement (documents first, where the
corpus has them): the bootstrap. Seeds are few: drawn with replacement, intervals over 2, 3 and 5 of
them would cover 47, 75 and 84 % instead of 95. So a resample moves the mean over n seeds as
Student's t with n - 1 degrees of freedom does, and where seeds alone vary, the interval is the t
interval. Sentences and seeds move alike in all systems, so that differences are paired.

A corpus score is a function of sums over sentences, so a resample needs only other weights in the
sum (Koehn 2004): sacreBLEU counts once, and the formulas here are its own, over whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from nmt.evaluation.by_length import DEFAULT_EDGES, Bucket, join_small, sort_by_length
from nmt.evaluation.metrics import bleu_tokenizer, failure_rates
from nmt.evaluation.results import TranslatedSentence
from nmt.tokenizer import default_unit

BOOTSTRAP_SEED = 1234
NUM_RESAMPLES = 1000
COVERAGE = 0.95
NUM_TRIALS = 10_000  # of a paired test
FEWEST_INPUTS = 50  # of a length range

Floats = NDArray[np.float64]
Members = Sequence[int] | NDArray[np.intp]
Ranges = Sequence[tuple[Bucket, Members]]
Sentences = Mapping[str, Sequence[Sequence[TranslatedSentence]]]  # by label, then by seed


# --- Scores with intervals ---


@dataclass(frozen=True)
class Estimate:
    """A value with its uncertainty: a score from 0 to 100, a difference or a ratio of such.

    Attributes:
        value: Of a score, the mean over seeds.
        replicates: (R,) the value in each resample; not a number where it has none.
        by_seed: (S,) a score under each seed; None for what is no score.
    """

    value: float
    replicates: Floats
    by_seed: Floats | None = None

    def minus(self, other: Estimate) -> Estimate:
        """Returns the difference of two over the same resamples."""
        return Estimate(self.value - other.value, self.replicates - other.replicates)

    def over(self, other: Estimate) -> Estimate:
        """Returns the ratio of two over the same resamples; no value where the other is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.value / other.value if other.value else float("nan")
            return Estimate(value, self.replicates / other.replicates)

    def entry(self) -> dict[str, Any]:
        """Returns the value with its percentile interval, for `results.json`.

        Resamples without a value are left out; where nothing has one, all three are None.
        """
        value, known = self.value, self.replicates[np.isfinite(self.replicates)]
        if self.by_seed is not None:
            known = known.clip(0, 100)  # t knows no ends
        seeds = {} if self.by_seed is None else {"by_seed": self.by_seed.tolist()}
        if not np.isfinite(value) or not len(known):
            return {"value": None, "low": None, "high": None, **seeds}
        tail = 50 * (1 - COVERAGE)
        low, high = np.percentile(known, [tail, 100 - tail]).tolist()
        return {"value": value, "low": low, "high": high, **seeds}


@dataclass(frozen=True)
class SplitScores:
    """The n sentences of a split, and what each system's scores of them are made of.

    Attributes:
        sentences: The sentences by the label of a system, then by seed.
        seeds: The seeds of each system.
        lengths: (n,) source lengths.
        ranges: Length ranges of at least `FEWEST_INPUTS` sentences, each with their places.
        resamples: The same for every system.
        has_documents: Whether documents were drawn before sentences.
        target_lang: Language code that decides BLEU's tokenizer.
    """

    sentences: Sentences
    seeds: Mapping[str, Sequence[int]]
    lengths: NDArray[np.int64]
    ranges: Ranges
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
        """The places of all sentences."""
        return range(len(self.lengths))

    @property
    def texts(self) -> Sequence[TranslatedSentence]:
        """The sentences of the first run, for what does not depend on the system."""
        return next(iter(self.sentences.values()))[0]

    @property
    def contrasted_ranges(self) -> Ranges:
        """The unjoined ranges of enough sentences: 41-50 stays one beside few that are longer."""
        exact = sort_by_length(self.lengths.tolist())
        enough = [each for each in exact if each[0].num_sentences >= FEWEST_INPUTS]
        return enough if len(enough) > 1 else self.ranges

    def bleu(self, label: str, members: Members) -> Estimate:
        """Measures BLEU of a system on some sentences."""
        return self._measure(label, self.bleu_counts[label], members, bleu_of)

    def chrf(self, label: str, members: Members) -> Estimate:
        """Measures chrF2 of a system on some sentences."""
        return self._measure(label, self.chrf_counts[label], members, chrf_of)

    def chrf_slope(self, label: str) -> Estimate:
        """Measures how sentence chrF2 changes with each ten units of source length."""
        tens = self.lengths / 10
        weights = np.vstack([np.ones_like(tens), self.resamples.weights])  # first as they are
        slopes = np.stack(
            [_slopes(weights, tens, rows) for rows in chrf_of(self.chrf_counts[label])], axis=1
        )
        means = self.resamples.average_over_seeds(slopes[1:], self.seeds[label])
        return Estimate(float(slopes[0].mean()), means)

    def table(self, label: str) -> list[dict[str, Any]]:
        """Returns the scores of a system in every length range, for `results.json`."""
        return [
            {"range": bucket.label, "low": bucket.low, "high": bucket.high}
            | self.summary(label, members)
            for bucket, members in self.ranges
        ]

    def summary(self, label: str, members: Members) -> dict[str, Any]:
        """Returns scores and rates of a system on some sentences, averaged over seeds."""
        places = np.asarray(members)
        sums = self.bleu_counts[label][:, places].sum(1)
        rates = [
            failure_rates(
                [rows[place].source for place in places],
                [rows[place].hypothesis for place in places],
                unit=default_unit(self.target_lang),
            )
            for rows in self.sentences[label]
        ]
        return {
            "num_sentences": len(places),
            "bleu": self.bleu(label, places).entry(),
            "chrf": self.chrf(label, places).entry(),
            "length_ratio": float(length_ratio_of(sums).mean()),
            "brevity_penalty": float(brevity_penalty_of(sums).mean()),
            **{key: float(np.mean([rate[key] for rate in rates])) for key in rates[0]},
        }

    def _count(self, count: Callable[..., Floats]) -> dict[str, Floats]:
        """Counts the n-grams of all systems at once: they translate many sentences alike."""
        runs = [(label, rows) for label, runs in self.sentences.items() for rows in runs]
        every = [row for _, rows in runs for row in rows]
        references = zip(*((row.reference, *row.more_references) for row in every), strict=True)
        counts = count([row.hypothesis for row in every], *references)
        counts = counts.reshape(len(runs), len(self.lengths), -1)
        labels = np.array([label for label, _ in runs])
        return {label: counts[labels == label] for label in self.sentences}

    def _measure(
        self, label: str, counts: Floats, members: Members, score: Callable[[Floats], Floats]
    ) -> Estimate:
        places = np.asarray(members)
        by_seed = score(counts[:, places].sum(1))
        scores = self.resamples.scores(counts, members=places, score=score)
        replicates = self.resamples.average_over_seeds(scores, self.seeds[label])
        return Estimate(float(by_seed.mean()), replicates, by_seed)


def score_sentences(
    sentences: Sentences,
    *,
    seeds: Mapping[str, Sequence[int]],
    target_lang: str,
    strata: Sequence[int] | None = None,
    ranges_like: Ranges | None = None,
) -> SplitScores:
    """Prepares the translations of some sentences to be scored, and draws their resamples.

    Args:
        sentences: The same sentences by the label of a system, then by seed.
        seeds: The seeds of each system, and perhaps of others.
        target_lang: Language code that decides BLEU's tokenizer.
        strata: The group that each sentence is resampled in; None takes its length range.
        ranges_like: Ranges of other sentences, to show both beside each other. Without them,
            ranges of few sentences are joined to their neighbours.
    """
    first = next(iter(sentences.values()))[0]
    lengths = [sentence.source_words for sentence in first]
    if ranges_like is None:
        ranges = join_small(sort_by_length(lengths), FEWEST_INPUTS)
    else:
        edges = [bucket.high for bucket, _ in ranges_like if bucket.high is not None]
        if len(edges) == len(ranges_like):
            edges += [edge for edge in DEFAULT_EDGES if edge > edges[-1]]
        ranges = [each for each in sort_by_length(lengths, edges) if each[1]]
    documents = [sentence.document for sentence in first if sentence.document is not None]
    has_documents = len(documents) == len(first)
    if strata is None:
        group_of = {place: group for group, (_, members) in enumerate(ranges) for place in members}
        strata = [group_of[place] for place in range(len(lengths))]
    return SplitScores(
        sentences=sentences,
        seeds=seeds,
        lengths=np.array(lengths),
        ranges=ranges,
        resamples=draw_resamples(
            strata,
            seeds=sorted({seed for label in sentences for seed in seeds[label]}),
            documents=documents if has_documents else None,
        ),
        has_documents=has_documents,
        target_lang=target_lang,
    )


def _slopes(weights: Floats, lengths: Floats, scores: Floats) -> Floats:
    """Fits a line to (length, score) by least squares under each row of weights (R, n)."""
    total = weights.sum(1)
    mean_length, mean_score = weights @ lengths / total, weights @ scores / total
    covariance = weights @ (lengths * scores) / total - mean_length * mean_score
    variance = weights @ lengths**2 / total - mean_length**2
    slopes: Floats = np.where(variance > 0, covariance / np.maximum(variance, 1e-12), np.nan)
    return slopes


# --- Resampling ---


@dataclass(frozen=True)
class Resamples:
    """R random draws of n sentences and of the noise of seeds.

    Attributes:
        weights: (R, n), how often each sentence was drawn.
        seed_noise: (R,) standard normal numbers for each seed, whichever system it is of.
        seed_scale: (R, most degrees of freedom), standard normal numbers.
    """

    weights: Floats
    seed_noise: Mapping[int, Floats]
    seed_scale: Floats

    def scores(
        self, counts: Floats, *, members: NDArray[np.intp], score: Callable[[Floats], Floats]
    ) -> Floats:
        """Scores every resample of some of the sentences under each seed.

        Args:
            counts: (seeds, n, K), what `score` is made of, of each sentence under each seed.
            members: Places of the sentences to score.
            score: Takes sums over sentences (..., K) to scores (...).

        Returns:
            (R, seeds): scores; not a number where no sentence was drawn.
        """
        weights = self.weights[:, members]
        scores = score(np.stack([weights @ rows for rows in counts[:, members]], axis=1))
        return np.where(weights.sum(1, keepdims=True) > 0, scores, np.nan)

    def average_over_seeds(self, scores: Floats, seeds: Sequence[int]) -> Floats:
        """Averages scores (R, S) over S seeds, as uncertain as so few seeds are.

        For scores x of mean m and standard deviation s, the average is m + t s / sqrt(S) with
        Student's t of S - 1 degrees of freedom (z below has unit variance, so (z - mean(z)) x has
        variance (S - 1) s^2). It is linear in x, hence right for paired differences too: two
        systems share the noise of a seed that both have, and no other.
        """
        num_seeds = len(seeds)
        if num_seeds == 1:
            return scores[:, 0]
        z = np.stack([self.seed_noise[seed] for seed in seeds], axis=1)
        z -= z.mean(axis=1, keepdims=True)
        chi_squared = (self.seed_scale[:, : num_seeds - 1] ** 2).sum(axis=1, keepdims=True)
        t = z / np.sqrt(chi_squared / (num_seeds - 1))
        weights = 1 / num_seeds + t / np.sqrt(num_seeds * (num_seeds - 1))
        averages: Floats = (scores * weights).sum(axis=1)
        return averages


def draw_resamples(
    strata: Sequence[int],
    *,
    seeds: Sequence[int],
    documents: Sequence[str] | None = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = BOOTSTRAP_SEED,
) -> Resamples:
    """Draws sentences, and the noise of seeds.

    Args:
        strata: The length bucket of each of the n sentences. Without documents, sentences are
            drawn within their bucket, so that its size stays what it is.
        seeds: All that any system has, each once.
        documents: The document of each sentence. Whole documents are drawn first, then as many
            sentences of each drawn one as it has.
        num_resamples: R.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    weights = np.zeros((num_resamples, len(strata)))
    _, codes = np.unique(
        np.asarray(strata if documents is None else documents), return_inverse=True
    )
    groups = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    times = np.ones((num_resamples, len(groups)), dtype=np.int64)
    if documents is not None:
        times = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), num_resamples)
    for drawn, members in zip(times.T, groups, strict=True):
        equal = np.full(len(members), 1 / len(members))
        weights[:, members] = rng.multinomial(drawn * len(members), equal)
    noise = {each: rng.standard_normal(num_resamples) for each in seeds}
    return Resamples(weights, noise, rng.standard_normal((num_resamples, len(seeds) - 1)))


# --- BLEU and chrF of weighted samples ---


def bleu_statistics(
    hypotheses: Sequence[str], *references: Sequence[str], target_lang: str
) -> Floats:
    """Counts what BLEU is made of.

    Args:
        hypotheses: n detokenised translations.
        references: The raw reference of each; further sets count as alternatives.
        target_lang: Language code that decides BLEU's tokenizer.

    Returns:
        (n, 10): hypothesis and reference length in tokens, then for orders 1 to 4 the matching
        n-grams, then those of the hypothesis.
    """
    metric = BLEU(tokenize=bleu_tokenizer(target_lang), effective_order=True, force=True)
    return _count(metric, hypotheses, *references)


def chrf_statistics(hypotheses: Sequence[str], *references: Sequence[str]) -> Floats:
    """Counts what chrF2 is made of.

    Returns:
        (n, 18): for orders 1 to 6 the character n-grams of hypothesis, reference and both.
    """
    return _count(CHRF(), hypotheses, *references)


def bleu_of(sums: Floats) -> Floats:
    """Scores sums (..., 10) of `bleu_statistics`: BLEU with effective order, exponential decay."""
    correct, total = sums[..., 2:6], sums[..., 6:]
    counted = np.cumprod(total > 0, axis=-1).astype(bool)
    missed = counted & (correct == 0)
    # The first order without a match counts as half a match, the next as a quarter, and so on.
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), correct)
    logs = np.log(np.where(counted, smoothed, 1.0) / np.where(counted, total, 1.0))
    mean_log = logs.sum(-1) / np.maximum(1, counted.sum(-1))
    scores: Floats = 100.0 * brevity_penalty_of(sums) * np.exp(mean_log)
    return np.where(correct.any(-1), scores, 0.0)


def brevity_penalty_of(sums: Floats) -> Floats:
    """Returns BLEU's penalty for short output, 0 to 1, of sums (..., 10) of `bleu_statistics`."""
    ratio = sums[..., 1] / np.maximum(sums[..., 0], 1e-12)
    penalty: Floats = np.exp(np.minimum(0.0, 1.0 - ratio))
    return penalty


def length_ratio_of(sums: Floats) -> Floats:
    """Returns hypothesis tokens over reference tokens of sums (..., 10) of `bleu_statistics`."""
    ratio: Floats = sums[..., 0] / np.maximum(sums[..., 1], 1.0)
    return ratio


def chrf_of(sums: Floats) -> Floats:
    """Scores sums (..., 18) of `chrf_statistics`: chrF2 of sacreBLEU."""
    hypothesis, reference, match = (sums[..., start::3] for start in range(3))
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(1, counted.sum(-1))
    precision = np.where(counted, match / np.maximum(hypothesis, 1), 0.0).sum(-1) / orders
    recall = np.where(counted, match / np.maximum(reference, 1), 0.0).sum(-1) / orders
    weighted = 4 * precision + recall
    score: Floats = 5 * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return 100.0 * score


def _count(metric: Metric, *texts: Sequence[str]) -> Floats:
    """Counts what is equal once: good systems translate most sentences alike."""
    rows = list(zip(*texts, strict=True))
    places = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    hypotheses, *references = zip(*places, strict=True)
    counts = np.array(metric._extract_corpus_statistics(hypotheses, references), dtype=np.float64)
    found: Floats = counts[[places[row] for row in rows]]
    return found


# --- Paired tests ---


def paired_test(
    baseline: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_lang: str,
    num_trials: int,
) -> dict[str, float]:
    """Tests a difference in corpus BLEU by paired approximate randomisation.

    Riezler and Maxwell (2005): if the systems were alike, exchanging their translations of random
    sentences would make gaps as large as the one seen. sacreBLEU counts only larger gaps, which
    makes p far too small where hardly any sentence differs; with m different ones no p can be
    below 2^(1 - m), the chance of the gap seen itself or its mirror image.

    Args:
        baseline: Translations of one system.
        hypotheses: Translations of the other, of the same sentences.
        references: The raw reference of each.
        target_lang: Language code that decides BLEU's tokenizer.
        num_trials: Random exchanges.

    Returns:
        baseline_bleu, bleu, and p_value, the chance to see their gap.
    """
    test = PairedTest(
        [("baseline", baseline), ("system", hypotheses)],
        {"BLEU": BLEU(tokenize=bleu_tokenizer(target_lang), effective_order=True, force=True)},
        [references],
        test_type="ar",
        n_samples=num_trials,
    )
    _, scores = test()
    first, second = cast(list[Result], scores["BLEU"])
    num_different = sum(a != b for a, b in zip(baseline, hypotheses, strict=True))
    smallest = min(1.0, 2.0 ** (1 - num_different))
    p_value = max(smallest, cast(float, second.p_value))
    return {"baseline_bleu": first.score, "bleu": second.score, "p_value": p_value}


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects p-values for having tested more than once (Holm 1979).

    The smallest of m is multiplied by m, the next by m - 1 and so on; none falls below the one
    before it, none exceeds 1. Rejecting those below a level keeps the chance of any false
    rejection below it.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
