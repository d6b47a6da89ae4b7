"""Figures of memory slots: BLEU by input length and by the load of a memory vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, ScalarFormatter

from nmt.evaluation.figures import GREY, INK, MARKERS, new_figure, set_score_axis, tidy
from nmt.study.figures.length import LineStyle, Results, draw_band, finish_lengths, ranges_of

DASHES = ("-", "--", ":", "-.")  # of the families


def draw_slots_by_length(results: Results) -> Figure:
    """Draws BLEU against source length for each number of memory slots, a panel a family."""
    families = results["slots"]["families"]
    figure = new_figure(
        max(7.2, 4.6 * len(families)), 4.8, title="BLEU by input length and memory slots"
    )
    split = results["splits"][results["split"]]["systems"]
    ranges = ranges_of([next(iter(split.values()))["buckets"]])
    constants = [s["label"] for s in results["systems"] if s["role"] == "constant"]
    slots = {s["label"]: s["memory_slots"] for s in results["systems"]}
    all_axes = figure.subplots(1, len(families), sharey=True, squeeze=False)[0]
    named: set[str] = set()
    for number, (axes, (family, labels)) in enumerate(zip(all_axes, families.items(), strict=True)):
        styles = {label: LineStyle(GREY, "x", ":") for label in constants}
        styles |= slot_styles(results, labels)
        for label, style in styles.items():
            buckets = split[label]["buckets"]
            name = label if label in constants else _slots_name(slots[label])
            values = [bucket["bleu"] for bucket in buckets]
            draw_band(axes, range(len(buckets)), values, style, "" if name in named else name)
            named.add(name)
        finish_lengths(axes, results, ranges, "BLEU" if number == 0 else "")
        axes.set_title(family, fontsize=10, color=INK, loc="left")
    columns = 4 if len(families) == 1 else 8
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure


def slot_styles(results: Results, labels: Sequence[str]) -> dict[str, LineStyle]:
    """Returns the look of systems by their number of slots: from dark, few, to bright, all."""
    counts = sorted(
        {s["memory_slots"] or 10**6 for s in results["systems"] if s["role"] != "constant"}
    )
    slots = {system["label"]: system["memory_slots"] or 10**6 for system in results["systems"]}
    colours = colormaps["viridis"]
    shade = {k: place / max(1, len(counts) - 1) * 0.9 for place, k in enumerate(counts)}
    return {
        label: LineStyle(
            to_hex(colours(shade[slots[label]])),
            MARKERS[counts.index(slots[label]) % len(MARKERS)],
        )
        for label in labels
    }


def _slots_name(slots: int | None) -> str:
    return "no pooling" if slots is None else f"k = {slots}"


def draw_words_per_vector(results: Results) -> Figure:
    """Draws BLEU by words, and bits if known, per memory vector, with a fit for each family."""
    slots, unit = results["slots"], results["task"]["unit"]
    panels = [("words_per_vector", f"{unit}s per vector"), ("bits_per_vector", "bits per vector")]
    panels = [p for p in panels if slots["points"][0][p[0]] is not None]
    figure = new_figure(7.2 if len(panels) == 1 else 9.6, 4.8, title="BLEU by load of a vector")
    for number, (axes, (key, name)) in enumerate(
        zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True)
    ):
        _draw_points(axes, results, key)
        fits = slots["fits"][: len(slots["families"])]
        for fit, dashes in zip(fits, cycle(DASHES)):
            axes.plot(
                *zip(*fit["curves"][key], strict=True),
                color=INK,
                linewidth=1.2,
                linestyle=dashes,
                drawstyle="steps-mid",
            )
        found = [fit[f"r2_{key}"] for fit in fits]
        title = f"one falling curve{' each' if len(fits) > 1 else ''}: R² = "
        title += ", ".join("-" if r2 is None else f"{r2:.3f}" for r2 in found)
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        axes.set_xscale("log")
        axes.set_xlabel(f"{name} (log scale)", color=INK)
        highest = max(point[key] for point in [*slots["points"], *slots["final_state"]])
        axes.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.set_xlim(right=highest * 1.15)
        set_score_axis(axes, "BLEU" if number == 0 else "")
        tidy(axes)
    _slots_legend(figure, results)
    return figure


def _draw_points(axes: Axes, results: Results, key: str) -> None:
    slots = results["slots"]
    for number, labels in enumerate(slots["families"].values()):
        for label, style in slot_styles(results, labels).items():
            points = [point for point in slots["points"] if point["system"] == label]
            _scatter(axes, points, key, LineStyle(style.colour, MARKERS[number]))
    _scatter(axes, slots["final_state"], key, LineStyle(GREY, "x"))


def _scatter(axes: Axes, points: Sequence[Mapping[str, Any]], key: str, style: LineStyle) -> None:
    values = [point["bleu"] for point in points]
    axes.errorbar(
        [point[key] for point in points],
        [value["value"] for value in values],
        yerr=[
            [max(0.0, value["value"] - value["low"]) for value in values],
            [max(0.0, value["high"] - value["value"]) for value in values],
        ],
        color=style.colour,
        marker=style.marker,
        linestyle="none",
        markersize=6,
        elinewidth=1,
        zorder=3,
    )


def _slots_legend(figure: Figure, results: Results) -> None:
    """Explains colours (number of slots) and markers (family) apart."""
    slots = results["slots"]
    labels = [label for labels in slots["families"].values() for label in labels]
    names = {point["system"]: point["slots"] for point in slots["points"]}
    colours = {names[k]: style.colour for k, style in slot_styles(results, labels).items()}
    looks = [
        (_slots_name(count), LineStyle(colours[count], "s", "none"))
        for count in sorted(colours, key=lambda count: (count is None, count))
    ]
    several = len(slots["families"]) > 1
    looks += [
        (name, LineStyle(INK, MARKERS[number], DASHES[number % len(DASHES)] if several else "none"))
        for number, name in enumerate(slots["families"])
    ]
    constants = dict.fromkeys(point["family"] for point in slots["final_state"])
    looks += (
        [(", ".join(constants) + " (final state)", LineStyle(GREY, "x", "none"))]
        if constants
        else []
    )
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, label=name) for name, look in looks
    ]
    for handle, (_, look) in zip(handles, looks, strict=True):
        handle.set(linestyle=look.dashes)
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=8.5)
