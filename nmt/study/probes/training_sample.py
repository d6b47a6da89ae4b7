"""Translations of training inputs: a model that fails on these too is not held up by the new."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from nmt.data.joining import JoinedPairs
from nmt.evaluation.by_length import DEFAULT_EDGES
from nmt.evaluation.results import TranslatedSentence
from nmt.study.probes.trained_run import TrainedRun

PAIRS_PER_BUCKET = 100
_SEED = 1


def probe_training(run: TrainedRun) -> list[TranslatedSentence]:
    """Translates up to 100 training inputs of each range of lengths, drawn with a fixed seed.

    Where the run joins pairs, the inputs are joined in the same sizes, but in groups of our own:
    runs that differ in their seed get the same inputs. `index` is the number of the (first) pair.
    """
    pairs = run.pairs("train")
    inputs = training_inputs(len(pairs), run.joined_sizes)
    sources = [run.join_sources([pairs[index][0] for index in group]) for group in inputs]
    lengths = [run.length(source) for source in sources]
    chosen = sample_by_length(lengths)
    found = run.translator.translate([sources[i] for i in chosen], batch_tokens=run.batch_tokens)
    return [
        TranslatedSentence(
            index=inputs[i][0],
            source=sources[i],
            reference=run.join_targets([pairs[index][1] for index in inputs[i]]),
            hypothesis=translation.text,
            score=translation.score,
            source_words=lengths[i],
        )
        for i, translation in zip(chosen, found, strict=True)
    ]


def training_inputs(num_pairs: int, sizes: Sequence[int]) -> list[list[int]]:
    """Puts random pairs together, groups of these sizes being equally likely; sorted."""
    alike = np.ones(num_pairs, dtype=np.int64)
    return sorted(JoinedPairs(alike, alike, sizes=sizes, seed=_SEED).groups(0))


def sample_by_length(lengths: Sequence[int]) -> list[int]:
    """Returns the numbers of up to 100 inputs of each range of lengths, ascending."""
    buckets: list[list[int]] = [[] for _ in range(len(DEFAULT_EDGES) + 1)]
    for index, length in enumerate(lengths):
        buckets[bisect_left(DEFAULT_EDGES, length)].append(index)
    draw = random.Random(_SEED)
    return sorted(
        index
        for bucket in buckets
        for index in draw.sample(bucket, min(PAIRS_PER_BUCKET, len(bucket)))
    )
