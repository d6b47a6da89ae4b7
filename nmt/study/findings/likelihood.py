"""The probability of the references: sees the loss of information where BLEU has nothing to say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from nmt.evaluation.by_length import Bucket, join_small, sort_by_length
from nmt.evaluation.figures import INK, MARKERS, tidy
from nmt.study.presentation import Results, Section, panel_figure, shown_labels
from nmt.study.statistics import FEWEST_INPUTS, Floats
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.scoring import TranslationScore
    from nmt.study.measure import TrainedRun

POSITION_EDGES = (5, 10, 20, 40, 80)
FEWEST_TOKENS = 50  # of the references, for a point in the figure


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Scores the references, teacher-forced, of the test splits whose lengths are of training."""
    found = {}
    for split in run.data.test_splits:
        if split in (run.headline_split, "test_joined"):
            scores = run.translator.score(run.pairs(split), batch_tokens=run.batch_tokens)
            found[split] = nll_by_length_and_position(scores, run.data.source_units(split))
    return {"nll": found}


def nll_by_length_and_position(
    scores: Sequence[TranslationScore], lengths: Sequence[int], *, fewest: int = FEWEST_INPUTS
) -> list[dict[str, Any]]:
    """Adds up negative log-probabilities by input length and by place in the target.

    Args:
        scores: Of the references.
        lengths: The input length of each.
        fewest: Inputs of a range of lengths.

    Returns:
        For each range of lengths low, high (None: no end) and positions: for each range of target
        positions that has tokens low, high, nll (summed nats) and tokens. Positions are pieces from
        1, EOS included.
    """
    return [
        {
            "low": bucket.low,
            "high": bucket.high,
            "positions": _by_position([scores[index].token_log_probs for index in members]),
        }
        for bucket, members in join_small(sort_by_length(lengths), fewest)
    ]


def _by_position(sentences: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    log_probs = list(chain.from_iterable(sentences))
    places = [place for each in sentences for place in range(1, len(each) + 1)]
    return [
        {
            "low": cell.low,
            "high": cell.high,
            "nll": -sum(log_probs[index] for index in members),
            "tokens": len(members),
        }
        for cell, members in sort_by_length(places, POSITION_EDGES)
        if members
    ]


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Averages the loss of target tokens by input length and position, over all seeds."""
    found = {}
    for label, runs in comparison.probed("nll", "likelihood by position").items():
        tables = [run.get(comparison.split, []) for run in runs]
        if all(tables):
            found[label] = _average(tables)
    shown = any(system.label in found for system in comparison.shown)
    return {"nll": found if shown else None}


def _average(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Adds up the tables of several runs, matched by length range and position."""
    sums: dict[Any, dict[Any, Floats]] = {}
    for row in chain.from_iterable(tables):
        cells = sums.setdefault((row["low"], row["high"]), {})
        for cell in row["positions"]:
            place = cell["low"], cell["high"]
            cells[place] = cells.get(place, 0) + np.array([cell["nll"], cell["tokens"]])
    return [
        {
            "low": low,
            "high": high,
            "positions": [
                {"low": start, "high": end, "nll": nll / tokens, "tokens": int(tokens)}
                for (start, end), (nll, tokens) in cells.items()
            ],
        }
        for (low, high), cells in sums.items()
    ]


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws the loss of reference tokens by their position, one line for each input length."""
    labels = [label for label in shown_labels(results) if label in results["nll"]]
    width = max(5.0, 3.4 * len(labels))
    num_seeds = {system["label"]: len(system["seeds"]) for system in results["systems"]}
    figure, panels = panel_figure("Loss by position in the target", len(labels), width, 4.4)
    for axes, label in zip(panels, labels, strict=True):
        ranges = results["nll"][label]
        for place, each in enumerate(ranges):
            fewest = FEWEST_TOKENS * num_seeds[label]
            positions = [p for p in each["positions"] if p["tokens"] >= fewest]
            axes.plot(
                [(p["low"] + (p["high"] or p["low"])) / 2 for p in positions],
                [p["nll"] for p in positions],
                color=colormaps["viridis"](0.9 * place / max(1, len(ranges) - 1)),
                label=Bucket(each["low"], each["high"]).label.replace("-", "–"),
                marker=MARKERS[place % len(MARKERS)],
                markersize=4,
            )
        axes.set_title(label, fontsize=10, color=INK, loc="left")
        axes.set_xlabel("position in the target (tokens)", color=INK)
        axes.set_ylim(bottom=0)
        tidy(axes)
    panels[0].set_ylabel("nats per token, teacher-forced", color=INK)
    figure.legend(
        handles=panels[0].get_lines(),
        loc="outside lower center",
        ncols=9,
        frameon=False,
        fontsize=8.5,
        title=f"input length ({results['task']['unit']}s)",
        title_fontsize=8.5,
    )
    return {"loss_by_position": figure}


def tell(results: Results) -> Iterator[Section]:
    """Says how to read the curves."""
    yield Section(
        "Loss by target position",
        [
            "This is the mean negative log-likelihood of the reference's tokens, each predicted "
            "from the correct ones before it. It shows what is lost where BLEU has no room to show "
            "it. Systems with different tokenizers have different tokens: compare only the shapes "
            "of their curves."
        ],
        {"loss_by_position": "Loss by target position for each input length"},
    )
