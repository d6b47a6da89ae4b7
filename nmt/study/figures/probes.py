"""Figures of what the probes found, drawn from the results of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.evaluation.figures import (
    CELL_INCHES,
    GREY,
    INK,
    MARKERS,
    SHADE,
    draw_panel,
    font_families,
    new_figure,
    set_score_axis,
    tidy,
)
from nmt.study.figures.length import LineStyle, Results, draw_band, system_styles

WIDEST_BESIDE = 14


def draw_joined(results: Results) -> Figure:
    """Draws BLEU of joined inputs (solid) and of the same sentences translated alone (dashed)."""
    joined, unit = results["joined"], results["task"]["unit"]
    styles = {k: s for k, s in system_styles(results).items() if k in joined["systems"]}
    figure = new_figure(7.2, 4.6, title="The same sentences, joined into one input or alone")
    axes = figure.add_subplot()
    xs = [group["source_words"] for group in joined["groups"]]
    for label, style in styles.items():
        for kind, dashes in (("joined", "-"), ("alone", "--")):
            look = LineStyle(style.colour, style.marker, dashes)
            draw_band(axes, xs, joined["systems"][label][kind], look, f"{label}, {kind}")
    ticks = [f"{x:.0f}\n{g['num_joined']}" for x, g in zip(xs, joined["groups"], strict=True)]
    axes.set_xticks(xs, ticks, fontsize=8.5)
    axes.set_xlabel(f"mean input length ({unit}s) / sentences joined", color=INK)
    _finish_scores(axes)
    _mark_longest(axes, results, xs)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9, handlelength=4)
    return figure


def draw_nll(results: Results) -> Figure:
    """Draws the loss of reference tokens by their position, one line for each input length."""
    styles = [label for label in system_styles(results) if label in results["nll"]]
    figure = new_figure(max(5.0, 3.4 * len(styles)), 4.4, title="Loss by position in the target")
    all_axes = figure.subplots(1, len(styles), sharey=True, squeeze=False)[0]
    for number, (axes, label) in enumerate(zip(all_axes, styles, strict=True)):
        ranges = results["nll"][label]
        for place, each in enumerate(ranges):
            colour = colormaps["viridis"](0.9 * place / max(1, len(ranges) - 1))
            xs = [(p["low"] + (p["high"] or p["low"])) / 2 for p in each["positions"]]
            name = f"{each['low']}–{each['high']}" if each["high"] else f"{each['low']}+"
            axes.plot(
                xs,
                [p["nll"] for p in each["positions"]],
                color=colour,
                label="_nolegend_" if number else name,
                marker=MARKERS[place % len(MARKERS)],
                markersize=4,
            )
        axes.set_title(label, fontsize=10, color=INK, loc="left")
        axes.set_xlabel("position in the target (tokens)", color=INK)
        axes.set_ylim(bottom=0)
        tidy(axes)
    all_axes[0].set_ylabel("nats per token, teacher-forced", color=INK)
    figure.legend(
        loc="outside lower center",
        ncols=9,
        frameon=False,
        fontsize=8.5,
        title=f"input length ({results['task']['unit']}s)",
        title_fontsize=8.5,
    )
    return figure


def draw_bits(results: Results) -> Figure:
    """Draws BLEU against the information in an input."""
    bits = results["bits"]
    figure = new_figure(7.2, 4.4, title="BLEU by information in the input")
    axes = figure.add_subplot()
    for label, style in system_styles(results).items():
        xs = [each["mean"] for each in bits["ranges"]]
        draw_band(axes, xs, bits["systems"][label], style, label)
    axes.set_xlabel("information (bits), mean of each sixth of the sentences", color=INK)
    _finish_scores(axes)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def draw_heat_map(entry: Mapping[str, Any]) -> Figure:
    """Draws the attention weights of one sentence, a panel a system.

    Rows are words of the reference from the top, columns words of the source.
    """
    systems = entry["systems"]
    words = [w for s in systems.values() for w in (*s["source_words"], *s["target_words"])]
    fonts = font_families("".join(words))
    columns = max(len(system["source_words"]) for system in systems.values())
    rows = max(len(system["target_words"]) for system in systems.values())
    # Two long sentences do not fit side by side at a size that can be read.
    across = 1 if columns > WIDEST_BESIDE else len(systems)
    down = len(systems) // across
    width = (max(2.2, CELL_INCHES * columns) + 1.3) * across
    figure = new_figure(width, (max(2.0, CELL_INCHES * rows) + 1.3) * down)
    all_axes = figure.subplots(down, across, squeeze=False).flat
    for axes, (label, system) in zip(all_axes, systems.items(), strict=True):
        image = draw_panel(
            axes,
            system["weights"],
            rows=system["target_words"],
            columns=system["source_words"],
            name=label,
            fonts=fonts,
        )
    figure.colorbar(
        image, ax=figure.axes, shrink=0.6, aspect=30, label="attention weight", pad=0.01
    )
    return figure


def _finish_scores(axes: Axes) -> None:
    set_score_axis(axes, "BLEU")
    tidy(axes)


def _mark_longest(axes: Axes, results: Results, xs: Sequence[float]) -> None:
    longest = results["task"]["longest_train"]
    if longest >= max(xs):
        return
    right = axes.get_xlim()[1]
    axes.axvspan(longest, right, color=SHADE, linewidth=0, zorder=0)
    axes.axvline(longest, color=GREY, linestyle=(0, (4, 3)), linewidth=1.2, zorder=1)
    axes.set_xlim(right=right)
    axes.annotate(
        f"extrapolation: over {longest} {results['task']['unit']}s",
        xy=(1, 1),
        xytext=(0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8.5,
        color=GREY,
    )
