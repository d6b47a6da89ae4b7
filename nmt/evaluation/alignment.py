"""Word alignment against gold links: alignment error rate, precision, recall.

Och and Ney (2003), "A Systematic Comparison of Various Statistical Alignment Models", section 5:
gold links are sure (S) or possible (P, which contains S), A are the links that were found, and

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|
    AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

with the counts of the whole corpus, not the mean over sentences. All of them are shares, 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Links = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class AlignmentScores:
    """How well links agree with gold links, over a corpus.

    Attributes:
        aer: Alignment error rate, 0 is best.
        precision: Share of the links found that are at least possible.
        recall: Share of the sure links that were found.
        num_sentences: Sentences counted.
    """

    aer: float
    precision: float
    recall: float
    num_sentences: int


def attention_links(weights: npt.ArrayLike) -> Links:
    """Links each target word to the source word it looks at most, the first of equals.

    Args:
        weights: (T', S'), one row for each target word.

    Returns:
        Pairs (source word, target word), numbered from 0.
    """
    return frozenset((int(source), row) for row, source in enumerate(np.argmax(weights, axis=-1)))


def gold_links(pairs: Iterable[Sequence[int]]) -> Links:
    """Returns links stored as lists [source word, target word], as in the grammar's columns."""
    return frozenset((source, target) for source, target in pairs)


def score_alignment(
    found: Sequence[Links], *, sure: Sequence[Links], possible: Sequence[Links]
) -> AlignmentScores:
    """Scores the links of a corpus.

    Args:
        found: The links of each sentence, pairs (source word, target word).
        sure: Its sure gold links.
        possible: Its possible gold links; sure ones count as possible whether listed here or not.

    Raises:
        ValueError: The numbers of sentences differ, or there is no link or no sure gold link.
    """
    if not len(found) == len(sure) == len(possible):
        raise ValueError(
            f"There are links for {len(found)} sentences, sure gold links for {len(sure)} and "
            f"possible ones for {len(possible)}; pass one set of each for every sentence."
        )
    num_found, num_sure = sum(map(len, found)), sum(map(len, sure))
    if not num_found or not num_sure:
        raise ValueError(
            f"There are {num_found} links and {num_sure} sure gold links in {len(found)} "
            "sentences; pass at least one of each."
        )
    hits_sure = sum(len(a & s) for a, s in zip(found, sure, strict=True))
    hits_possible = sum(len(a & (s | p)) for a, s, p in zip(found, sure, possible, strict=True))
    return AlignmentScores(
        aer=1 - (hits_sure + hits_possible) / (num_found + num_sure),
        precision=hits_possible / num_found,
        recall=hits_sure / num_sure,
        num_sentences=len(found),
    )
