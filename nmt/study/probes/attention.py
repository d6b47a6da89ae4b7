"""What the attention of a run links, against gold links, and the matrices of two sentences."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from nmt.alignment import (
    AlignmentScores,
    Links,
    WordAttention,
    attention_links,
    gold_links,
    score_alignment,
)
from nmt.study.probes.trained_run import TrainedRun, has_column

logger = logging.getLogger(__name__)


NUM_VALIDATION = 300
SHOWN_LENGTHS = (12, 25)
_GOLD = ("sure", "possible")


def probe_attention(run: TrainedRun) -> dict[str, Any]:
    """Scores the attention and shows it for two sentences of the test split.

    Everything is teacher-forced on the references. The decoder layer is the one with the lowest
    error rate on validation; without gold links it is the last.

    Returns:
        The entries alignment (where there are gold links) and attention of `probes.json`; nothing
        for a model that has no attention over words.
    """
    if not _has_word_attention(run):
        return {}
    if not has_column(run.data.split(run.headline_split), "sure"):
        return {"attention": _shown(run, layer=-1)}
    by_layer = _scores(run, run.data.valid_splits[0], NUM_VALIDATION)
    layer = min(range(len(by_layer)), key=lambda number: by_layer[number].aer)
    test = _scores(run, run.headline_split, None)[layer]
    alignment = {
        "layer": layer,
        **asdict(test),
        "valid_aer_by_layer": [scores.aer for scores in by_layer],
    }
    return {"alignment": alignment, "attention": _shown(run, layer=layer)}


def _has_word_attention(run: TrainedRun) -> bool:
    """Asks the model, whose interface says no by refusing."""
    try:
        run.translator.attention("a", "a")
    except ValueError as refusal:
        logger.info("no attention is shown: %s", refusal)
        return False
    return True


def _scores(run: TrainedRun, split: str, most: int | None) -> list[AlignmentScores]:
    """Returns the scores of each decoder layer on the first sentences of a split."""
    dataset = run.data.split(split)
    pairs = run.pairs(split)[:most]
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))  # like lengths together
    links = _links(run, [pairs[i] for i in order])
    sure, possible = ([gold_links(row) for row in dataset[name][:most]] for name in _GOLD)
    return [
        score_alignment(found, sure=[sure[i] for i in order], possible=[possible[i] for i in order])
        for found in links
    ]


def _links(run: TrainedRun, pairs: Sequence[tuple[str, str]]) -> list[list[Links]]:
    """Returns the links of each decoder layer, for each pair."""
    found = [
        [attention_links(weights) for weights in attention.weights]
        for attention in run.translator.attentions(pairs, batch_tokens=run.batch_tokens)
    ]
    return [list(layer) for layer in zip(*found, strict=True)]


def _shown(run: TrainedRun, *, layer: int) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "split": run.headline_split,
            "source_words": list(attention.source_words),
            "target_words": list(attention.target_words),
            "weights": [[round(float(w), 4) for w in row] for row in attention.weights[layer]],
        }
        for index, attention in _shown_attention(run)
    ]


def _shown_attention(run: TrainedRun) -> Iterator[tuple[int, WordAttention]]:
    """Yields the sentences closest to 12 and 25 words, the first of equals: a fact of the split."""
    lengths = run.data.source_units(run.headline_split)
    pairs = run.pairs(run.headline_split)
    chosen = {min(range(len(pairs)), key=lambda i: abs(lengths[i] - n)) for n in SHOWN_LENGTHS}
    for index in sorted(chosen, key=lambda i: lengths[i]):
        yield index, run.translator.attention(*pairs[index])
