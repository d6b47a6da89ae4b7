"""Figures of an evaluation, drawn without a display and the same bytes for the same numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.evaluation.length import Bucket
from nmt.figures.style import (
    COLOURS,
    GREY,
    INK,
    MARKERS,
    SHADE,
    new_figure,
    save_png,
    score_top,
    tidy,
)


def plot_bleu_by_length(
    curves: Mapping[str, Sequence[Bucket]],
    path: str | Path,
    *,
    unit: str,
    longest_train: int | None = None,
    title: str = "",
) -> Path:
    """Writes `draw_bleu_by_length` as a PNG and returns its path."""
    figure = draw_bleu_by_length(curves, unit=unit, longest_train=longest_train, title=title)
    save_png(figure, Path(path))
    return Path(path)


def draw_bleu_by_length(
    curves: Mapping[str, Sequence[Bucket]],
    *,
    unit: str,
    longest_train: int | None = None,
    title: str = "",
) -> Figure:
    """Draws BLEU against source length, one line for each model or split.

    The number of sentences stands under each range. A range without sentences leaves a gap in the
    line. Lengths that the model never saw in training are shaded.

    Args:
        curves: Buckets of `bleu_by_length` by the name to show, all with the same ranges.
        unit: What lengths count, "word" or "character".
        longest_train: Length of the longest source in the training data; None draws no border.
        title: Printed above the axes.

    Raises:
        ValueError: if there is no curve or the curves have different ranges.
    """
    ranges = _shown_ranges(curves)
    shown = {name: buckets[ranges.start : ranges.stop] for name, buckets in curves.items()}
    figure = new_figure(7.2, 4.4, title=title)
    axes = figure.add_subplot()
    _draw_curves(axes, shown)
    label_ranges(axes, list(shown.values()), unit)
    best = max(bucket.bleu or 0 for buckets in shown.values() for bucket in buckets)
    axes.set_ylim(0, score_top(best))
    axes.set_ylabel("BLEU", color=INK)
    if longest_train is not None:
        shade_beyond(axes, next(iter(shown.values())), longest_train, unit)
    if len(curves) > 1:
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _shown_ranges(curves: Mapping[str, Sequence[Bucket]]) -> range:
    """Returns the indices from the first to the last bucket with sentences in any curve."""
    kinds = {tuple((b.low or 1, b.high) for b in buckets) for buckets in curves.values()}
    if len(kinds) != 1:
        raise ValueError(
            f"The curves {list(curves)} have {len(kinds)} different sets of length buckets; "
            "pass curves of the same edges."
        )
    columns = list(zip(*curves.values(), strict=True))
    filled = [i for i, column in enumerate(columns) if any(b.num_sentences for b in column)]
    return range(filled[0], filled[-1] + 1)


def _draw_curves(axes: Axes, curves: Mapping[str, Sequence[Bucket]]) -> None:
    for index, (name, buckets) in enumerate(curves.items()):
        axes.plot(
            range(len(buckets)),
            [float("nan") if bucket.bleu is None else bucket.bleu for bucket in buckets],
            label=name,
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            linewidth=2,
            markersize=6,
            markeredgecolor="white",
            clip_on=False,
            zorder=3,
        )


def label_ranges(axes: Axes, curves: Sequence[Sequence[Bucket]], unit: str) -> None:
    """Writes the length ranges and their numbers of sentences below the axes."""
    columns = list(zip(*curves, strict=True))
    ticks = [f"{column[0].label.replace('-', '–')}\n{_counts(column)}" for column in columns]
    axes.set_xticks(range(len(columns)), ticks, fontsize=8.5)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_xlabel(f"input length ({unit}s); n: sentences", color=INK)
    tidy(axes)


def _counts(column: Sequence[Bucket]) -> str:
    """Returns the sentences in one range: one number where the curves agree, else all."""
    counts = sorted({bucket.num_sentences for bucket in column} - {0}) or [0]
    return "n = " + (
        f"{counts[0]}–{counts[-1]}" if len(counts) > 2 else " / ".join(map(str, counts))
    )


def shade_beyond(
    axes: Axes, buckets: Sequence[Bucket], longest_train: int, unit: str, *, prefix: str = ""
) -> None:
    """Shades the lengths that training never saw, from a line at the longest one on.

    Args:
        axes: Where range i of `buckets` covers i - 0.5 to i + 0.5.
        buckets: The ranges shown.
        longest_train: Length of the longest source in the training data.
        unit: What lengths count.
        prefix: Put before the label of the shade.
    """
    start, end = _position(buckets, longest_train), len(buckets) - 0.5
    if start >= end:
        return
    axes.axvspan(start, end, color=SHADE, linewidth=0, zorder=0)
    axes.axvline(start, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
    axes.annotate(
        f"{prefix}longer than any training input (over {longest_train} {unit}s)",
        xy=(1, 1),
        xytext=(0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8.5,
        color=GREY,
    )


def _position(buckets: Sequence[Bucket], length: int) -> float:
    """Places a length on the axis, where bucket i covers i - 0.5 to i + 0.5.

    The open bucket counts as wide as the one before it.
    """
    for index, bucket in enumerate(buckets):
        if bucket.high is None or length <= bucket.high:
            before = buckets[index - 1] if bucket.high is None and index else bucket
            width = (before.high or before.low) - before.low + 1
            share = (length - bucket.low + 1) / width
            return index - 0.5 + min(1.0, max(0.0, share))
    return len(buckets) - 0.5
