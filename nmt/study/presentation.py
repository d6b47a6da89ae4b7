"""How a finding is shown: sections with tables and numbers, and lines with bands in figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.evaluation.by_length import Bucket
from nmt.evaluation.figures import (
    COLOURS,
    INK,
    MARKERS,
    draw_line,
    label_ranges,
    new_figure,
    set_score_axis,
    shade_beyond,
    tidy,
)

Results = Mapping[str, Any]  # what `results.json` holds


@dataclass(frozen=True)
class Table:
    """Rows of texts under column names; numeric ones are set flush right after the first column."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    is_numeric: bool = True

    @property
    def rule(self) -> str:
        """The line below the head of a Markdown table."""
        right = "---:|" if self.is_numeric else "---|"
        return "|---|" + right * (len(self.columns) - 1)


@dataclass(frozen=True)
class Section:
    """Paragraphs, figures, tables, paragraphs and a list, in this order.

    Figures are captions by the name of their files.
    """

    title: str
    before: Sequence[str] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    after: Sequence[str] = ()
    items: Sequence[str] = ()
    is_box: bool = False
    is_appendix: bool = False  # comes last


def number(value: float | None, digits: int = 1) -> str:
    """Formats a number for people: thousands apart, "–" for none."""
    if value is None:
        return "–"
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")  # + 0.0: no minus zero


def with_interval(found: Mapping[str, Any] | None, digits: int = 1) -> str:
    """Formats a value with its interval: "12.3 [11.0, 13.5]"."""
    if found is None or found["value"] is None:
        return "–"
    value, low, high = (number(found[key], digits) for key in ("value", "low", "high"))
    return f"{value}\u00a0[{low},\u00a0{high}]"  # no line break within


def shown_labels(results: Results) -> list[str]:
    """Returns the labels of the systems without memory slots, in order."""
    return [system["label"] for system in results["systems"] if system["shown"]]


def main_split(results: Results) -> Mapping[str, Any]:
    """Returns the scores on the split that is compared on, by the label of a system."""
    systems: Mapping[str, Any] = results["splits"][results["split"]]["systems"]
    return systems


@dataclass(frozen=True)
class LineStyle:
    """How a line looks."""

    colour: str
    marker: str = "o"
    dashes: str = "-"


def system_styles(results: Results) -> dict[str, LineStyle]:
    """Returns the look of each system without slots, the same in every figure.

    The first of each side of the minimal pair looks the same in all comparisons, then come two
    other models, then everything else.
    """
    sides = {"constant": 0, "attended": 1}
    models, others = iter((2, 3)), count(4)
    styles: dict[str, LineStyle] = {}
    seen: set[str] = set()
    for system in results["systems"]:
        if not system["shown"]:
            continue
        label, name = system["label"], system["role"] or system["model_name"]
        places = others if name in seen else models
        place = sides.pop(name) if name in sides else next(places, None) or next(others)
        seen.add(name)
        styles[label] = LineStyle(COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)])
    return styles


def score_figure(title: str, height: float = 4.6) -> tuple[Figure, Axes]:
    """Makes a figure of one panel."""
    figure, (axes,) = panel_figure(title, 1, 7.2, height)
    return figure, axes


def panel_figure(
    title: str, count: int, width: float, height: float = 4.6
) -> tuple[Figure, list[Axes]]:
    """Makes a figure of panels beside each other with the same y axis."""
    figure = new_figure(width, height, title=title)
    return figure, list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


def draw_lines(
    axes: Axes,
    xs: Sequence[float],
    curves: Sequence[tuple[Sequence[Mapping[str, Any]], LineStyle, str]],
    xlabel: str,
) -> None:
    """Draws lines of BLEU with their bands; a curve is its values, its look and its name."""
    for values, style, label in curves:
        draw_band(axes, xs, values, style, label)
    axes.set_xlabel(xlabel, color=INK)
    set_score_axis(axes, "BLEU")
    tidy(axes)


def draw_band(
    axes: Axes,
    xs: Sequence[float],
    values: Sequence[Mapping[str, Any]],
    style: LineStyle,
    label: str,
) -> None:
    """Draws a line through values with the band between their bounds."""
    low, high = (
        [float("nan") if value[key] is None else value[key] for value in values]
        for key in ("low", "high")
    )
    axes.fill_between(xs, low, high, color=style.colour, alpha=0.18, linewidth=0, zorder=2)
    scores = [value["value"] for value in values]
    draw_line(axes, xs, scores, label, style.colour, style.marker, style.dashes)


def draw_ranges(
    axes: Axes,
    results: Results,
    curves: Sequence[tuple[Sequence[Mapping[str, Any]], LineStyle, str]],
    metric: str = "bleu",
    name: str = "BLEU",
) -> None:
    """Draws lines over the length ranges that occur in any of them, and labels the axes.

    Args:
        axes: Are labelled, and shaded where training never was.
        results: Of the comparison.
        curves: The scores by range, the look and the name in the legend of each line.
        metric: What is drawn of a range.
        name: Of the axis of scores; "" leaves it to the panel beside.
    """
    tables = [[(b["low"], b["high"], b["num_sentences"]) for b in table] for table, _, _ in curves]
    bounds = sorted({bucket[:2] for table in tables for bucket in table}, key=lambda b: b[0])
    places = {each: place for place, each in enumerate(bounds)}
    for table, style, label in curves:
        xs = [places[bucket["low"], bucket["high"]] for bucket in table]
        draw_band(axes, xs, [bucket[metric] for bucket in table], style, label)
    counts = [{(low, high): n for low, high, n in table} for table in tables]
    ranges = [[Bucket(*each, found.get(each, 0)) for each in bounds] for found in counts]
    task = results["task"]
    label_ranges(axes, ranges, task["unit"])
    set_score_axis(axes, name)
    shade_beyond(axes, ranges[0], task["longest_train"], task["unit"], prefix="extrapolation: ")


def add_legend(figure: Figure, columns: int = 3, handlelength: float | None = None) -> None:
    """Names the lines below the axes, unless there is only one."""
    if sum(len(axes.get_legend_handles_labels()[0]) for axes in figure.axes) > 1:
        figure.legend(
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=9,
            handlelength=handlelength,
        )
