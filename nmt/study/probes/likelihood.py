"""The probability of the references: sees the loss of information where BLEU has nothing to say."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from nmt.evaluation.by_length import DEFAULT_EDGES
from nmt.study.probes.trained_run import TrainedRun
from nmt.translator import TranslationScore

POSITION_EDGES = (5, 10, 20, 40, 80)


def probe_likelihood(run: TrainedRun, split: str) -> list[dict[str, Any]]:
    """Scores the references of a split, teacher-forced; see `nll_by_length_and_position`."""
    scores = run.translator.score(run.pairs(split), batch_tokens=run.batch_tokens)
    return nll_by_length_and_position(scores, run.data.source_units(split))


def nll_by_length_and_position(
    scores: Sequence[TranslationScore], lengths: Sequence[int]
) -> list[dict[str, Any]]:
    """Adds up negative log-probabilities by input length and by place in the target.

    Args:
        scores: Of the references.
        lengths: The input length of each.

    Returns:
        One object for each range of lengths that has inputs: low, high (None: no end) and
        positions, one object for each range of target positions that has tokens: low, high, nll
        (summed nats) and tokens. Positions are pieces from 1, EOS included.
    """
    shape = (len(DEFAULT_EDGES) + 1, len(POSITION_EDGES) + 1)
    nll = [[0.0] * shape[1] for _ in range(shape[0])]
    tokens = [[0] * shape[1] for _ in range(shape[0])]
    for score, length in zip(scores, lengths, strict=True):
        row = bisect_left(DEFAULT_EDGES, length)
        for position, log_prob in enumerate(score.token_log_probs, start=1):
            column = bisect_left(POSITION_EDGES, position)
            nll[row][column] -= log_prob
            tokens[row][column] += 1
    return [
        {
            **bounds,
            "positions": [
                {**place, "nll": nll[row][column], "tokens": tokens[row][column]}
                for column, place in enumerate(_ranges(POSITION_EDGES))
                if tokens[row][column]
            ],
        }
        for row, bounds in enumerate(_ranges(DEFAULT_EDGES))
        if any(tokens[row])
    ]


def _ranges(edges: Sequence[int]) -> list[dict[str, int | None]]:
    lows = [1, *(edge + 1 for edge in edges)]
    return [{"low": low, "high": high} for low, high in zip(lows, [*edges, None], strict=True)]
