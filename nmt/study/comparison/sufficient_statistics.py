"""Corpus BLEU and chrF of many weighted samples at once, from counts kept for each sentence.

A corpus score is a function of sums over sentences, so a bootstrap resample needs only other
weights in the sum (Koehn 2004). sacreBLEU counts; the formulas here are its own, over whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.evaluation.metrics import bleu_tokenizer

Floats = NDArray[np.float64]
Scorer = Callable[[Floats], Floats]

_BLEU_ORDER = 4
_CHRF_BETA_SQUARED = 4.0


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], *, target_lang: str
) -> Floats:
    """Counts what BLEU is made of.

    Args:
        hypotheses: n detokenised translations.
        references: The raw reference of each.
        target_lang: Language code that decides the tokenizer.

    Returns:
        (n, 10): hypothesis and reference length in tokens, then for orders 1 to 4 the matching
        n-grams, then those of the hypothesis.
    """
    metric = BLEU(tokenize=bleu_tokenizer(target_lang), effective_order=True, force=True)
    return _count(metric, hypotheses, references)


def chrf_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> Floats:
    """Counts what chrF2 is made of.

    Returns:
        (n, 18): for orders 1 to 6 the character n-grams of hypothesis, reference and both.
    """
    return _count(CHRF(), hypotheses, references)


def bleu_of(sums: Floats) -> Floats:
    """Scores sums of `bleu_statistics`: sacreBLEU's BLEU with effective order, exponential decay.

    Args:
        sums: (..., 10), added up over the sentences of each sample.

    Returns:
        (...): BLEU of each sample, 0 to 100.
    """
    correct = sums[..., 2 : 2 + _BLEU_ORDER]
    total = sums[..., 2 + _BLEU_ORDER :]
    counted = np.cumprod(total > 0, axis=-1).astype(bool)
    missed = counted & (correct == 0)
    # The first order without a match counts as half a match, the next as a quarter, and so on.
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), correct)
    logs = np.log(np.where(counted, smoothed, 1.0) / np.where(counted, total, 1.0))
    mean_log = logs.sum(-1) / np.maximum(1, counted.sum(-1))
    scores: Floats = 100.0 * brevity_penalty_of(sums) * np.exp(mean_log)
    return np.where(correct.any(-1), scores, 0.0)


def brevity_penalty_of(sums: Floats) -> Floats:
    """Returns BLEU's penalty for short output, 0 to 1, of sums of `bleu_statistics` (..., 10)."""
    ratio = sums[..., 1] / np.maximum(sums[..., 0], 1e-12)
    penalty: Floats = np.exp(np.minimum(0.0, 1.0 - ratio))
    return penalty


def length_ratio_of(sums: Floats) -> Floats:
    """Returns hypothesis tokens over reference tokens of sums of `bleu_statistics` (..., 10)."""
    ratio: Floats = sums[..., 0] / np.maximum(sums[..., 1], 1.0)
    return ratio


def chrf_of(sums: Floats) -> Floats:
    """Scores sums of `chrf_statistics`: chrF2 of sacreBLEU.

    Args:
        sums: (..., 18), added up over the sentences of each sample.

    Returns:
        (...): chrF2 of each sample, 0 to 100.
    """
    hypothesis, reference, match = (sums[..., start::3] for start in range(3))
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(1, counted.sum(-1))
    precision = np.where(counted, match / np.maximum(hypothesis, 1), 0.0).sum(-1) / orders
    recall = np.where(counted, match / np.maximum(reference, 1), 0.0).sum(-1) / orders
    weighted = _CHRF_BETA_SQUARED * precision + recall
    score: Floats = (
        (1 + _CHRF_BETA_SQUARED) * precision * recall / np.where(weighted > 0, weighted, 1.0)
    )
    return 100.0 * score


def _count(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Floats:
    """Counts equal pairs once: good systems translate most sentences alike."""
    pairs = list(zip(hypotheses, references, strict=True))
    places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    ours, theirs = zip(*places, strict=True)
    counts = np.array(metric._extract_corpus_statistics(ours, [theirs]), dtype=np.float64)
    found: Floats = counts[[places[pair] for pair in pairs]]
    return found
