"""Figures of what the probes found, drawn from the results of a comparison."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, ScalarFormatter

from nmt.evaluation.plots_length import (
    LineStyle,
    Results,
    draw_band,
    slot_styles,
    system_styles,
)
from nmt.evaluation.plots_style import (
    GREY,
    INK,
    MARKERS,
    SHADE,
    font_families,
    new_figure,
    set_score_axis,
    tidy,
)


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
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def draw_words_per_vector(results: Results) -> Figure:
    """Draws BLEU against words, and bits if known, per memory vector, with the one-curve fit."""
    slots, unit = results["slots"], results["task"]["unit"]
    panels = [("words_per_vector", f"{unit}s per vector"), ("bits_per_vector", "bits per vector")]
    panels = [p for p in panels if slots["points"][0][p[0]] is not None]
    figure = new_figure(7.2 if len(panels) == 1 else 9.6, 4.8, title="BLEU by load of a vector")
    for number, (axes, (key, name)) in enumerate(
        zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True)
    ):
        _draw_points(axes, results, key)
        fit = slots["fits"][-1]
        places = fit["curves"][key]
        r2 = fit[f"r2_{key}"]
        axes.plot(*zip(*places, strict=True), color=INK, linewidth=1.2, drawstyle="steps-mid")
        if r2 is not None:
            axes.set_title(f"one falling curve: R² = {r2:.3f}", fontsize=10, color=INK, loc="left")
        axes.set_xscale("log")
        axes.set_xlabel(f"{name} (log scale)", color=INK)
        highest = max(point[key] for point in [*slots["points"], *slots["final_state"]])
        axes.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.set_xlim(right=highest * 1.15)
        _finish_scores(axes, name="BLEU" if number == 0 else "")
    _slots_legend(figure, results)
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

    Rows are words of the translation from the top, columns words of the source.
    """
    systems = entry["systems"]
    words = [w for s in systems.values() for w in (*s["source_words"], *s["target_words"])]
    fonts = font_families("".join(words))
    columns = max(len(system["source_words"]) for system in systems.values())
    rows = max(len(system["target_words"]) for system in systems.values())
    # A word is a fifth of an inch; long sentences get smaller cells so that two panels fit a page.
    cell = min(0.24, 7.0 / max(columns, rows))
    width, height = (max(2.2, cell * columns) + 1.3) * len(systems), max(2.0, cell * rows) + 1.6
    figure = new_figure(width, height)
    all_axes = figure.subplots(1, len(systems), squeeze=False)[0]
    for axes, (label, system) in zip(all_axes, systems.items(), strict=True):
        image = axes.imshow(system["weights"], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        text = {"fontsize": max(4.5, min(9.0, cell * 40)), "fontfamily": fonts}
        axes.set_xticks(range(len(system["source_words"])), system["source_words"], **text)
        axes.set_yticks(range(len(system["target_words"])), system["target_words"], **text)
        axes.tick_params(
            axis="x", rotation=90, top=True, labeltop=True, bottom=False, labelbottom=False
        )
        axes.tick_params(length=0, colors=INK)
        axes.spines[:].set_color(GREY)
        axes.set_xlabel(label, color=INK, fontsize=10)
    figure.colorbar(image, ax=list(all_axes), shrink=0.6, label="attention weight", pad=0.01)
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
        (f"k = {'all' if count is None else count}", LineStyle(colours[count], "s"))
        for count in sorted(colours, key=lambda count: (count is None, count))
    ]
    looks += [(name, LineStyle(INK, MARKERS[i])) for i, name in enumerate(slots["families"])]
    constants = dict.fromkeys(point["family"] for point in slots["final_state"])
    looks += [(", ".join(constants) + " (final state)", LineStyle(GREY, "x"))] if constants else []
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle="none", label=name)
        for name, look in looks
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=8.5)


def _finish_scores(axes: Axes, *, name: str = "BLEU") -> None:
    set_score_axis(axes, name)
    tidy(axes)


def _mark_longest(axes: Axes, results: Results, xs: Sequence[float]) -> None:
    longest = results["task"]["longest_train"]
    if longest is None or longest >= max(xs):
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
