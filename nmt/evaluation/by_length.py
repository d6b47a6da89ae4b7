"""Scores by input length: does a model still translate when the sentence grows?

Each sentence falls into one bucket by its source length, counted in a unit of the text (words or
characters), never in pieces of a model's tokenizer. So buckets hold the same sentences for every
model (compare Bahdanau et al. 2015, figure 2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt.evaluation.metrics import bleu_score, chrf

DEFAULT_EDGES = (10, 20, 30, 40, 50, 60, 70, 80)

BUCKET_METHOD = (
    "Each range is scored alone. Where no translation in it has four tokens, BLEU takes the "
    "n-grams there are (sacreBLEU's effective order)."
)


@dataclass(frozen=True)
class Bucket:
    """The sentences whose source is `low` to `high` units long, both inclusive, and their scores.

    Attributes:
        low: Shortest length that belongs here.
        high: Longest length that belongs here; None for the last, open bucket.
        num_sentences: Sentences in the bucket.
        bleu: Their corpus BLEU, 0 to 100; None where nothing was scored, as the three below.
        chrf: Their corpus chrF2, 0 to 100.
        length_ratio: Tokens of the hypotheses over tokens of the references (0 if those are empty).
        brevity_penalty: BLEU's penalty for short output, 0 to 1.
    """

    low: int
    high: int | None
    num_sentences: int = 0
    bleu: float | None = None
    chrf: float | None = None
    length_ratio: float | None = None
    brevity_penalty: float | None = None

    @property
    def label(self) -> str:
        """The range for people: "1-10", or "81+" for the open bucket."""
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def sort_by_length(
    lengths: Sequence[int], edges: Sequence[int] = DEFAULT_EDGES
) -> list[tuple[Bucket, list[int]]]:
    """Sorts sentences into ranges of source lengths: every range, with the indices in it.

    Args:
        lengths: The source length of each sentence.
        edges: Longest length of each bucket but the last, which is open: (10, 20) makes 1-10,
            11-20 and 21+. Sources of length 0, if any, go to the first bucket, then 0-10.
    """
    members: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for index, length in enumerate(lengths):
        members[bisect_left(edges, length)].append(index)
    lows = [min([1, *lengths]), *(edge + 1 for edge in edges)]
    return [
        (Bucket(low, high, len(indices)), indices)
        for low, high, indices in zip(lows, [*edges, None], members, strict=True)
    ]


def join_small(
    ranges: Sequence[tuple[Bucket, list[int]]], fewest: int
) -> list[tuple[Bucket, list[int]]]:
    """Joins ranges with fewer sentences to the next longer one; the last, to the one before it.

    Empty ranges vanish. If there are fewer sentences in all, they make one range.
    """
    joined: list[tuple[Bucket, list[int]]] = []
    for each in ranges:
        if joined and each[1] and len(joined[-1][1]) < fewest:
            joined[-1] = _join(joined[-1], each)
        elif each[1]:
            joined.append(each)
    if len(joined) > 1 and len(joined[-1][1]) < fewest:
        joined[-2:] = [_join(*joined[-2:])]
    return joined


def _join(
    shorter: tuple[Bucket, list[int]], longer: tuple[Bucket, list[int]]
) -> tuple[Bucket, list[int]]:
    indices = sorted(shorter[1] + longer[1])
    return Bucket(shorter[0].low, longer[0].high, len(indices)), indices


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    *,
    target_lang: str,
    edges: Sequence[int] = DEFAULT_EDGES,
    more_references: Sequence[Sequence[str]] = (),
) -> list[Bucket]:
    """Scores each range of source lengths by itself; the counts add up to the number of sentences.

    The score of a bucket is the corpus score of its sentences alone, so the buckets do not average
    to the score of the whole. BLEU uses sacreBLEU's effective order: where no hypothesis has four
    tokens it averages over the orders there are, where one has it is the ordinary BLEU.

    Args:
        hypotheses: Detokenised translations.
        references: The raw reference of each.
        lengths: The source length of each, in words or characters.
        target_lang: Language code that decides BLEU's tokenizer.
        edges: As for `sort_by_length`.
        more_references: Further sets of references, which count as alternatives.
    """
    every, buckets = (hypotheses, references, *more_references), []
    for bucket, indices in sort_by_length(lengths, edges):
        if indices:
            texts = [[column[index] for index in indices] for column in every]
            scores = bleu_score(*texts, target_lang=target_lang, effective_order=True)
            bucket = replace(
                bucket,
                bleu=scores.score,
                chrf=chrf(*texts),
                length_ratio=float(scores.ratio),
                brevity_penalty=scores.bp,
            )
        buckets.append(bucket)
    return buckets


def trim_empty(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Drops the empty buckets at both ends, for tables and axes; empty ones in between stay."""
    filled = [index for index, bucket in enumerate(buckets) if bucket.num_sentences]
    return list(buckets[filled[0] : filled[-1] + 1]) if filled else []
