"""Scores by input length: does a model still translate when the sentence grows?

Each sentence falls into one bucket by its source length, counted in a unit of the text (words or
characters), never in pieces of a model's tokenizer, so buckets hold the same sentences for every
model (compare Bahdanau et al. 2015, figure 2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.metrics import bleu_score, chrf

DEFAULT_EDGES = (10, 20, 30, 40, 50, 60, 70, 80)

BUCKET_METHOD = (
    "Each range is scored alone. Where no translation in it has four tokens, BLEU takes the "
    "n-grams there are (sacreBLEU's effective order)."
)


@dataclass(frozen=True)
class Bucket:
    """The scores of the sentences whose source is `low` to `high` units long, both inclusive.

    Attributes:
        low: Shortest length that belongs here.
        high: Longest length that belongs here; None for the last, open bucket.
        num_sentences: Sentences in the bucket.
        bleu: Their corpus BLEU, 0 to 100; None in an empty bucket, as the three below.
        chrf: Their corpus chrF2, 0 to 100.
        length_ratio: Tokens of the hypotheses over tokens of the references (0 if those are empty).
        brevity_penalty: BLEU's penalty for short output, 0 to 1.
    """

    low: int
    high: int | None
    num_sentences: int
    bleu: float | None
    chrf: float | None
    length_ratio: float | None
    brevity_penalty: float | None

    @property
    def label(self) -> str:
        """The range for people: "1-10", or "81+" for the open bucket."""
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def bleu_by_length(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int],
    *,
    target_lang: str,
    edges: Sequence[int] = DEFAULT_EDGES,
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
        edges: Longest length of each bucket but the last, which is open: (10, 20) makes 1-10,
            11-20 and 21+. Sources of length 0, if any, go to the first bucket, then 0-10.

    Raises:
        ValueError: if counts differ, a length is negative, or the edges do not ascend from 1.
    """
    _check_lengths(hypotheses, lengths, edges)
    members: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for index, length in enumerate(lengths):
        members[bisect_left(edges, length)].append(index)
    lows = [min(1, *lengths), *(edge + 1 for edge in edges)]
    return [
        _score_bucket(
            [hypotheses[index] for index in indices],
            [references[index] for index in indices],
            target_lang=target_lang,
            bounds=(low, high),
        )
        for indices, low, high in zip(members, lows, [*edges, None], strict=True)
    ]


def trim_empty(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Drops the empty buckets at both ends, for tables and axes; empty ones in between stay."""
    filled = [index for index, bucket in enumerate(buckets) if bucket.num_sentences]
    return list(buckets[filled[0] : filled[-1] + 1]) if filled else []


def _score_bucket(
    hypotheses: list[str],
    references: list[str],
    *,
    target_lang: str,
    bounds: tuple[int, int | None],
) -> Bucket:
    if not hypotheses:
        return Bucket(*bounds, 0, None, None, None, None)
    score = bleu_score(hypotheses, references, target_lang=target_lang, effective_order=True)
    return Bucket(
        *bounds,
        num_sentences=len(hypotheses),
        bleu=score.score,
        chrf=chrf(hypotheses, references),
        length_ratio=float(score.ratio),
        brevity_penalty=score.bp,
    )


def _check_lengths(hypotheses: Sequence[str], lengths: Sequence[int], edges: Sequence[int]) -> None:
    if len(lengths) != len(hypotheses):
        raise ValueError(
            f"There are {len(hypotheses)} hypotheses and {len(lengths)} source lengths; pass "
            "exactly one length for each hypothesis."
        )
    if not lengths or min(lengths) < 0:
        shortest = min(lengths, default="none at all")
        raise ValueError(f"The shortest source length is {shortest}; pass lengths of 0 or more.")
    if not edges or edges[0] < 1 or list(edges) != sorted(set(edges)):
        raise ValueError(
            f"The length edges {list(edges)} do not ascend from 1 or more; pass some like 10, 20."
        )
