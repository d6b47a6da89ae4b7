"""Figures of scores against input length, with bands, drawn from the results of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.evaluation.by_length import Bucket
from nmt.evaluation.figures import (
    COLOURS,
    INK,
    MARKERS,
    label_ranges,
    new_figure,
    set_score_axis,
    shade_beyond,
)

Results = Mapping[str, Any]


@dataclass(frozen=True)
class LineStyle:
    """How a line looks."""

    colour: str
    marker: str = "o"
    dashes: str = "-"


def system_styles(results: Results) -> dict[str, LineStyle]:
    """Returns the look of each system without slots, the same in every figure.

    The first system of each of the shipped models looks the same in all comparisons.
    """
    own = {"rnn": 0, "bahdanau": 1, "transformer": 2, "sutskever": 3}
    others = count(len(own))
    styles = {}
    for label in (system["label"] for system in results["systems"] if system["shown"]):
        model = label.split(",")[0]
        place = own.pop(model) if model in own else next(others)
        styles[label] = LineStyle(COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)])
    return styles


def draw_by_length(results: Results, *, metric: str = "bleu") -> Figure:
    """Draws a metric against source length, one line with its band for each system.

    The split and its long companion share the axis, but not a line.
    """
    styles = system_styles(results)
    name = {"bleu": "BLEU", "chrf": "chrF"}[metric]
    figure = new_figure(7.2, 4.6, title=f"{name} by input length")
    axes = figure.add_subplot()
    first = next(iter(styles))
    splits = results["splits"].values()
    ranges = ranges_of([split["systems"][first]["buckets"] for split in splits])
    places = {bucket.label: place for place, bucket in enumerate(ranges[0])}
    for number, split in enumerate(splits):
        for label, style in styles.items():
            buckets = split["systems"][label]["buckets"]
            dashed = LineStyle(style.colour, style.marker, ":" if number else "-")
            xs = [places[bucket["range"]] for bucket in buckets]
            draw_band(axes, xs, [b[metric] for b in buckets], dashed, "" if number else label)
    finish_lengths(axes, results, ranges, name)
    _legend(figure, len(styles))
    return figure


def draw_train_by_length(results: Results) -> Figure:
    """Draws BLEU by length on training sentences (dashed) beside the test sentences (solid)."""
    split = results["splits"][results["split"]]["systems"]
    trains = results["train"]
    styles = {label: s for label, s in system_styles(results).items() if label in trains}
    figure = new_figure(7.2, 4.6, title="BLEU by input length: test and training sentences")
    axes = figure.add_subplot()
    first = next(iter(styles))
    tables = [split[first]["buckets"], trains[first]["buckets"]]
    ranges = ranges_of(tables)
    places = {bucket.label: place for place, bucket in enumerate(ranges[0])}
    for label, style in styles.items():
        for suffix, dashes, buckets in (
            (results["split"], "-", split[label]["buckets"]),
            ("train", "--", trains[label]["buckets"]),
        ):
            xs = [places[bucket["range"]] for bucket in buckets]
            values = [bucket["bleu"] for bucket in buckets]
            look = LineStyle(style.colour, style.marker, dashes)
            draw_band(axes, xs, values, look, f"{label}, {suffix}")
    finish_lengths(axes, results, ranges, "BLEU")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9, handlelength=4)
    return figure


def draw_kinds(results: Results) -> Figure:
    """Draws BLEU by length of inputs of one sentence and of several, a panel each."""
    kinds = results["kinds"]
    styles = system_styles(results)
    figure = new_figure(max(7.2, 5.4 * len(kinds)), 4.6, title="BLEU by input length and kind")
    all_axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for number, (axes, (kind, content)) in enumerate(zip(all_axes, kinds.items(), strict=True)):
        ranges = ranges_of([next(iter(content["systems"].values()))])
        for label, style in styles.items():
            values = [bucket["bleu"] for bucket in content["systems"][label]]
            draw_band(axes, range(len(values)), values, style, "" if number else label)
        finish_lengths(axes, results, ranges, "" if number else "BLEU")
        axes.set_title(kind_name(kind), fontsize=10, color=INK, loc="left")
    _legend(figure, len(styles))
    return figure


def kind_name(kind: str) -> str:
    """Returns what a kind of input is called for people."""
    return {"sentence": "one sentence", "multi": "several sentences"}.get(kind, kind)


def draw_band(
    axes: Axes,
    xs: Sequence[float],
    values: Sequence[Mapping[str, Any]],
    style: LineStyle,
    label: str,
) -> None:
    """Draws a line through values with the band between their bounds."""
    gaps = [{k: float("nan") if v is None else v for k, v in value.items()} for value in values]
    axes.fill_between(
        list(xs),
        [value["low"] for value in gaps],
        [value["high"] for value in gaps],
        color=style.colour,
        alpha=0.18,
        linewidth=0,
        zorder=2,
    )
    axes.plot(
        list(xs),
        [value["value"] for value in gaps],
        label=label or "_nolegend_",
        color=style.colour,
        marker=style.marker,
        linestyle=style.dashes,
        linewidth=2,
        markersize=6,
        markeredgecolor="white" if style.marker != "x" else style.colour,
        clip_on=False,
        zorder=3,
    )


def ranges_of(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Bucket]]:
    """Returns the ranges that occur in any table, once for each with its number of sentences."""
    bounds = sorted({(b["low"], b["high"]) for table in tables for b in table}, key=lambda b: b[0])
    counts = [{(b["low"], b["high"]): b["num_sentences"] for b in table} for table in tables]
    return [
        [Bucket(*each, found.get(each, 0), None, None, None, None) for each in bounds]
        for found in counts
    ]


def finish_lengths(
    axes: Axes, results: Results, ranges: Sequence[Sequence[Bucket]], name: str
) -> None:
    """Labels the axes of a figure by length and shades what training never saw."""
    task = results["task"]
    label_ranges(axes, ranges, task["unit"])
    set_score_axis(axes, name)
    shade_beyond(axes, ranges[0], task["longest_train"], task["unit"], prefix="extrapolation: ")


def _legend(figure: Figure, num_lines: int) -> None:
    if num_lines > 1:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
