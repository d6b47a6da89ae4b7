"""Figures of an evaluation: BLEU by input length, and heat maps of attention.

They need no display, and the same numbers give the same bytes. `nmt.study` draws in the same style.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine

from nmt.evaluation.by_length import Bucket

# Okabe and Ito's palette, told apart by colour-blind readers; markers tell curves apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
INK, GREY, SHADE = "#222222", "#666666", "#EFEFEF"

_DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
# `font_families` has named the missing characters already, once instead of one by one.
_MISSING = "Glyph .* missing from font"
CELL_INCHES = 0.23  # of a heat map, for one word


def new_figure(width: float, height: float, *, title: str = "") -> Figure:
    """Makes a figure of some inches that needs no display."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, x=0.015, ha="left", fontsize=12, color=INK)
    return figure


def tidy(axes: Axes) -> None:
    """Leaves horizontal grid lines and two quiet spines."""
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=INK, length=0)


def set_score_axis(axes: Axes, name: str) -> None:
    """Names the axis of scores; it runs from 0 to above the best drawn so far, here and beside."""
    beside = axes.get_shared_y_axes().get_siblings(axes)
    best = min(100.0, max(float(each.dataLim.y1) for each in beside))
    axes.set_ylim(0, next(top for top in (10, 20, 30, 40, 50, 60, 80, 102) if best < top))
    axes.set_ylabel(name, color=INK)


def save_figure(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Writes NAME.png and NAME.svg and returns their paths."""
    return [save_as(figure, directory / f"{name}{ending}") for ending in (".png", ".svg")]


def save_as(figure: Figure, path: Path) -> Path:
    """Writes a .png, .svg or .pdf file without dates or versions and returns its path."""
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    }
    settings: Any = {"svg.hashsalt": path.stem, "svg.fonttype": "path"}
    with warnings.catch_warnings(), rc_context(settings):
        warnings.filterwarnings("ignore", message=_MISSING)
        dpi: Any = 150 if path.suffix.lower() == ".png" else "figure"
        figure.savefig(path, dpi=dpi, metadata=metadata[path.suffix.lower()])
    return path


def font_families(text: str) -> list[str]:
    """Names the fonts that show a text: matplotlib's own, then an installed one for the rest.

    Warns if no installed font has the characters that the first one lacks, such as Chinese ones.
    """
    own = font_manager.findfont(_DEFAULT_FONT)
    needed = {ord(c) for c in text if not c.isspace()} - FT2Font(own).get_charmap().keys()
    if not needed:
        return [_DEFAULT_FONT]
    fonts = sorted(font_manager.fontManager.ttflist, key=lambda font: (font.name, font.weight))
    for font in fonts:
        # Matplotlib's last resort has every character, as the same box.
        shows = font.style == "normal" and not font.name.startswith("Last Resort")
        if shows and needed <= FT2Font(font.fname).get_charmap().keys():
            return [_DEFAULT_FONT, font.name]
    missing = "".join(sorted(map(chr, needed)))[:10]
    warnings.warn(
        f"No installed font shows {missing!r} in the heat maps; install one such as Noto Sans CJK.",
        stacklevel=2,
    )
    return [_DEFAULT_FONT]


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
    """
    columns = list(zip(*curves.values(), strict=True))
    filled = [i for i, column in enumerate(columns) if any(b.num_sentences for b in column)]
    shown = {name: buckets[filled[0] : filled[-1] + 1] for name, buckets in curves.items()}
    figure = new_figure(7.2, 4.4, title=title)
    axes = figure.add_subplot()
    for index, (name, buckets) in enumerate(shown.items()):
        scores = [bucket.bleu for bucket in buckets]
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        draw_line(axes, range(len(scores)), scores, name, colour, marker)
    label_ranges(axes, list(shown.values()), unit)
    set_score_axis(axes, "BLEU")
    if longest_train is not None:
        shade_beyond(axes, next(iter(shown.values())), longest_train, unit)
    if len(curves) > 1:
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def draw_line(
    axes: Axes,
    xs: Sequence[float],
    scores: Sequence[float | None],
    label: str,
    colour: str,
    marker: str,
    dashes: str = "-",
) -> None:
    """Draws a line of scores; None leaves a gap, and a line without a label is in no legend."""
    axes.plot(
        xs,
        [float("nan") if score is None else score for score in scores],
        label=label or "_nolegend_",
        color=colour,
        marker=marker,
        linestyle=dashes,
        linewidth=2,
        markersize=6,
        markeredgecolor="white" if marker != "x" else colour,
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
    if start < end:
        text = f"{prefix}longer than any training input (over {longest_train} {unit}s)"
        shade(axes, start, end, text)


def shade(axes: Axes, start: float, end: float, text: str) -> None:
    """Shades a part of the x axis from a line at its start on, with a text above."""
    axes.axvspan(start, end, color=SHADE, linewidth=0, zorder=0)
    axes.axvline(start, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
    axes.annotate(
        text,
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


_LABEL_INCHES = 0.085  # of one character at the size of the labels
_TITLE_INCHES = 0.45


def draw_attention(
    weights: npt.NDArray[np.float32],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    names: Sequence[Sequence[str]],
    title: str,
) -> Figure:
    """Draws matrices of the same words in a grid, one colour scale from 0 to 1 for all.

    Args:
        weights: (down, across, R, C), rows sum to 1.
        rows: The R words that look, from the top.
        columns: The C words that are looked at.
        names: What stands under each panel, as many as there are panels.
        title: Of the figure.
    """
    down, across = weights.shape[:2]
    fonts = font_families("".join([*rows, *columns]))
    width = max(1.6, CELL_INCHES * len(columns)) + _LABEL_INCHES * max(map(len, rows)) + 0.2
    height = max(1.2, CELL_INCHES * len(rows)) + _LABEL_INCHES * max(map(len, columns)) + 0.5
    whole = max(width * across + 0.9, _TITLE_INCHES + 0.1 * len(title))
    figure = new_figure(whole, height * down + _TITLE_INCHES, title=title)
    all_axes = figure.subplots(down, across, squeeze=False)
    for line, line_of_axes in enumerate(all_axes):
        for place, axes in enumerate(line_of_axes):
            image = draw_panel(
                axes,
                weights[line, place],
                rows=rows,
                columns=columns,
                name=names[line][place],
                fonts=fonts,
            )
    figure.colorbar(
        image, ax=figure.axes, shrink=min(1.0, 2.5 / height), aspect=20, label="attention weight"
    )
    return figure


def draw_panel(
    axes: Axes,
    weights: Any,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    name: str,
    fonts: Sequence[str],
) -> AxesImage:
    """Draws one matrix (R, C) of attention weights with its words and a name below it."""
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    text: dict[str, Any] = {"fontsize": 9, "fontfamily": fonts}
    axes.set_xticks(range(len(columns)), columns, **text)
    axes.set_yticks(range(len(rows)), rows, **text)
    axes.tick_params(
        axis="x", rotation=90, top=True, labeltop=True, bottom=False, labelbottom=False
    )
    axes.tick_params(length=0, colors=INK)
    axes.spines[:].set_color(GREY)
    axes.set_xlabel(name, color=INK, fontsize=10)
    return image
