"""The probability of the references: sees the loss of information where BLEU has nothing to say."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib import colormaps
from matplotlib.figure import Figure

from nmt.evaluation.by_length import Bucket, join_small, sort_by_length
from nmt.evaluation.figures import INK, MARKERS, new_figure, tidy
from nmt.study.presentation import FigureReference, Results, Section, shown_labels
from nmt.study.statistics import FEWEST_INPUTS
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.study.measure import TrainedRun
    from nmt.translator import TranslationScore

POSITION_EDGES = (5, 10, 20, 40, 80)


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
        One object for each range of lengths: low, high (None: no end) and
        positions, one object for each range of target positions that has tokens: low, high, nll
        (summed nats) and tokens. Positions are pieces from 1, EOS included.
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
    cells: list[dict[str, Any]] = [
        {"low": place.low, "high": place.high, "nll": 0.0, "tokens": 0}
        for place, _ in sort_by_length([], POSITION_EDGES)
    ]
    for log_probs in sentences:
        for position, log_prob in enumerate(log_probs, start=1):
            cell = cells[bisect_left(POSITION_EDGES, position)]
            cell["nll"] -= log_prob
            cell["tokens"] += 1
    return [cell for cell in cells if cell["tokens"]]


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
    sums: dict[tuple[int, int | None], dict[tuple[int, int | None], list[float]]] = {}
    for row in (row for table in tables for row in table):
        positions = sums.setdefault((row["low"], row["high"]), {})
        for place in row["positions"]:
            total = positions.setdefault((place["low"], place["high"]), [0.0, 0.0])
            total[0] += place["nll"]
            total[1] += place["tokens"]
    return [
        {
            "low": low,
            "high": high,
            "positions": [
                {"low": start, "high": end, "nll": nll / tokens, "tokens": int(tokens)}
                for (start, end), (nll, tokens) in positions.items()
            ],
        }
        for (low, high), positions in sums.items()
    ]


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws the loss of reference tokens by their position, one line for each input length."""
    if results["nll"] is None:
        return {}
    labels = [label for label in shown_labels(results) if label in results["nll"]]
    figure = new_figure(max(5.0, 3.4 * len(labels)), 4.4, title="Loss by position in the target")
    panels = figure.subplots(1, len(labels), sharey=True, squeeze=False)[0]
    for number, (axes, label) in enumerate(zip(panels, labels, strict=True)):
        ranges = results["nll"][label]
        for place, each in enumerate(ranges):
            name = Bucket(each["low"], each["high"]).label.replace("-", "–")
            axes.plot(
                [(p["low"] + (p["high"] or p["low"])) / 2 for p in each["positions"]],
                [p["nll"] for p in each["positions"]],
                color=colormaps["viridis"](0.9 * place / max(1, len(ranges) - 1)),
                label="_nolegend_" if number else name,
                marker=MARKERS[place % len(MARKERS)],
                markersize=4,
            )
        axes.set_title(label, fontsize=10, color=INK, loc="left")
        axes.set_xlabel("position in the target (tokens)", color=INK)
        axes.set_ylim(bottom=0)
        tidy(axes)
    panels[0].set_ylabel("nats per token, teacher-forced", color=INK)
    figure.legend(
        loc="outside lower center",
        ncols=9,
        frameon=False,
        fontsize=8.5,
        title=f"input length ({results['task']['unit']}s)",
        title_fontsize=8.5,
    )
    return {"loss_by_position": figure}


def tell(results: Results) -> list[Section]:
    """Says how to read the curves."""
    if results["nll"] is None:
        return []
    return [
        Section(
            "Loss by target position",
            [
                "This is the mean negative log-likelihood of the reference's tokens, each "
                "predicted from the correct ones before it. It shows what is lost where BLEU has "
                "no room to show it. Systems with different tokenizers have different tokens: "
                "compare only the shapes of their curves."
            ],
            [FigureReference("loss_by_position", "Loss by target position for each input length")],
        )
    ]
