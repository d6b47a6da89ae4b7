"""Joined inputs: the same sentences alone and as parts of one longer input.

Long test sentences differ from short ones in more than their length. Here the content is the same;
what a joined input loses against its sentences translated alone is lost to length, or, with more
sentences than in any training input, to their number.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from nmt.study.probes.trained_run import TrainedRun, has_column

MOST_JOINED = 8
LONGEST_SENTENCE = 15
LONGEST_MEAN = 80
NUM_SENTENCES = 240
_SEED = 1


def probe_joined(run: TrainedRun) -> Iterator[dict[str, Any]]:
    """Translates sentences of the test split alone and in groups of 1 to 8, joined.

    The sentences are the single ones of at most 15 words, 240 of them drawn with a fixed seed, so
    that all runs on a corpus get the same. Every group size has the same sentences in the same
    order: their references are one text, cut otherwise, so that scores of different sizes compare
    too, not only joined and alone within a size. Where a size does not divide their number, the
    last ones are left out (2 of 240 for groups of 7, none for the others). Sizes whose inputs have
    more than 80 words in the mean are left out. Inputs of more sentences than training ever had
    are extrapolation, like lengths it never had.

    Yields:
        One object a group: num_joined, source_words, and the texts reference, joined (the
        translation of the joined input) and alone (the translations of its sentences, joined).
    """
    pairs = run.pairs(run.headline_split)
    lengths = [run.length(source) for source, _ in pairs]
    groups = groups_by_size(_eligible(run, lengths), lengths)
    sources = [run.join_sources([pairs[index][0] for index in group]) for group in groups]
    hypotheses = run.translate(sources)
    alone = {
        group[0]: text for group, text in zip(groups, hypotheses, strict=True) if len(group) == 1
    }
    for group, source, hypothesis in zip(groups, sources, hypotheses, strict=True):
        yield {
            "num_joined": len(group),
            "source_words": run.length(source),
            "reference": run.join_targets([pairs[index][1] for index in group]),
            "joined": hypothesis,
            "alone": run.join_targets([alone[index] for index in group]),
        }


def groups_by_size(candidates: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Draws the sentences and cuts them into neighbours, once for each group size.

    Args:
        candidates: Numbers of the sentences to choose from.
        lengths: The length of every sentence of the split.

    Returns:
        The groups of one, then those of two, and so on up to eight.
    """
    order = random.Random(_SEED).sample(candidates, min(NUM_SENTENCES, len(candidates)))
    groups = []
    for size in range(1, MOST_JOINED + 1):
        whole = [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
        num_words = sum(lengths[index] for group in whole for index in group)
        if whole and num_words <= LONGEST_MEAN * len(whole):
            groups += whole
    return groups


def _eligible(run: TrainedRun, lengths: Sequence[int]) -> list[int]:
    dataset = run.data.split(run.headline_split)
    single = [True] * len(lengths)
    if has_column(dataset, "num_sentences"):
        single = [number == 1 for number in dataset["num_sentences"][:]]
    return [
        index
        for index, length in enumerate(lengths)
        if single[index] and 0 < length <= LONGEST_SENTENCE
    ]
