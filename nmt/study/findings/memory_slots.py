"""How much of a sentence fits one vector? BLEU against words (and bits) per memory vector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, ScalarFormatter

from nmt.evaluation.figures import GREY, INK, MARKERS, set_score_axis, tidy
from nmt.study.findings.information import corpus_bits
from nmt.study.presentation import (
    LineStyle,
    Results,
    Section,
    Table,
    add_legend,
    draw_ranges,
    main_split,
    number,
    panel_figure,
    with_interval,
)
from nmt.study.statistics import COVERAGE, Estimate, Floats, SplitScores
from nmt.study.systems import Comparison, System, config_key

SLOTS = "model.memory_slots"
DASHES = ("-", "--", ":", "-.")  # of the families


# --- Scores ---


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Places every system and length range on axes of words and bits per vector.

    The entry has the points of each family of slot counts and of one constant vector, how well one
    curve fits them and at which load it has fallen by half; None where there is no such family.
    """
    families = slot_families(comparison.systems)
    if not families:
        return {"slots": None}
    scores, bits = comparison.main, corpus_bits(comparison)
    groups = {
        name: [point for system in family for point in _points(scores, system, bits, name)]
        for name, family in families.items()
    }
    final_states = [
        point
        for system in comparison.systems
        if system.role == "constant"
        for point in _points(scores, system, bits, system.label)
    ]
    every = [point for points in groups.values() for point in points]
    fitted = groups | ({"all of them": every} if len(groups) > 1 else {})
    halves = {name: _half(points) for name, points in groups.items()}
    first = next(iter(halves.values()))
    return {
        "slots": {
            "families": {name: [s.label for s in family] for name, family in families.items()},
            "points": [{**point, "bleu": point["bleu"].entry()} for point in every],
            "final_state": [{**point, "bleu": point["bleu"].entry()} for point in final_states],
            "fits": [{"family": name, **_fits(points)} for name, points in fitted.items()],
            "half_load": {
                name: {"load": _entry(half), "ratio": _entry(half.over(first))}
                for name, half in halves.items()
            },
        }
    }


def slot_families(systems: Sequence[System]) -> dict[str, list[System]]:
    """Groups systems that differ in their memory slots alone; one without such kin is left out."""
    families: dict[str, list[System]] = {}
    for system in systems:
        if system.role != "constant" and SLOTS in system.config:
            rest = {k: v for k, v in system.config.items() if k != SLOTS}
            families.setdefault(config_key(system.model_name, rest), []).append(system)
    kept = [
        sorted(family, key=lambda system: system.memory_slots or float("inf"))
        for family in families.values()
        if len(family) > 1
    ]
    return {re.sub(r", memory_slots=\d+", "", family[0].label): family for family in kept}


def _points(
    scores: SplitScores, system: System, bits: Floats | None, family: str
) -> Iterator[dict[str, Any]]:
    slots = 1 if system.role == "constant" else system.memory_slots
    words = np.maximum(1, scores.lengths)
    vectors = words if slots is None else np.minimum(slots, words)
    for bucket, members in scores.ranges:
        yield {
            "system": system.label,
            "slots": slots,
            "range": bucket.label,
            "num_sentences": len(members),
            "length": float(words[members].mean()),
            "words_per_vector": float((words / vectors)[members].mean()),
            "bits_per_vector": None if bits is None else float((bits / vectors)[members].mean()),
            "bleu": scores.bleu(system.label, members),
            "family": family,
        }


def isotonic_fit(x: Floats, y: Floats) -> Floats:
    """Fits the non-increasing function of x with the least squared error (pool adjacent violators).

    Args:
        x: (n,) in any order; equal ones get one value.
        y: (n,)

    Returns:
        (n,): the function at x.
    """
    places, where = np.unique(x, return_inverse=True)
    blocks: list[tuple[float, int, int]] = []  # mean, weight, number of places
    for place in range(len(places)):
        values = y[where == place]
        blocks.append((float(values.mean()), len(values), 1))
        while len(blocks) > 1 and blocks[-1][0] > blocks[-2][0]:
            (mean, weight, count), (before, more, places_before) = blocks.pop(), blocks.pop()
            pooled = (mean * weight + before * more) / (weight + more)
            blocks.append((pooled, weight + more, count + places_before))
    levels: Floats = np.repeat([block[0] for block in blocks], [block[2] for block in blocks])
    return levels[where]


def explained(y: Floats, fitted: Floats) -> float | None:
    """Returns R^2, the share of the variance of y that a fit explains; None if y is constant."""
    spread = float(((y - y.mean()) ** 2).sum())
    return 1 - float(((y - fitted) ** 2).sum()) / spread if spread > 0 else None


def half_load(load: Floats, bleu: Floats) -> float:
    """Returns the words per vector (n,) at which BLEU (n,) has fallen to half.

    That is where the falling fit has half of its value at the lowest load, straight between points
    on a log axis; not a number where BLEU falls less.
    """
    places, first = np.unique(load, return_index=True)
    levels = isotonic_fit(load, bleu)[first]
    below = np.flatnonzero(levels <= levels[0] / 2)
    if levels[0] <= 0 or not len(below):
        return float("nan")
    around = slice(below[0] - 1, below[0] + 1)
    return float(np.exp(np.interp(-levels[0] / 2, -levels[around], np.log(places[around]))))


def _half(points: Sequence[dict[str, Any]]) -> Estimate:
    """Returns `half_load` of the words per vector, and in each resample (R,)."""
    load = np.array([point["words_per_vector"] for point in points])
    resampled = np.stack([point["bleu"].replicates for point in points], axis=1)
    value = half_load(load, np.array([point["bleu"].value for point in points]))
    return Estimate(value, np.array([half_load(load, bleu) for bleu in resampled]))


def _entry(found: Estimate) -> dict[str, float | None]:
    """Has no value where more resamples lack one than an interval leaves out at one end."""
    missing = (~np.isfinite(found.replicates)).mean()
    known = missing <= (1 - COVERAGE) / 2
    return (found if known else Estimate(float("nan"), found.replicates)).entry()


def _fits(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Fits one curve for all systems, and one for each, and predicts each from all others."""
    y = np.array([point["bleu"].value for point in points])
    x = {
        key: np.array([point[key] for point in points])
        for key in ("words_per_vector", "bits_per_vector", "length")
        if points[0][key] is not None
    }
    fitted = {key: isotonic_fit(each, y) for key, each in x.items()}
    names = np.array([point["system"] for point in points])
    load = x["words_per_vector"]
    separate, predicted = np.empty_like(y), np.empty_like(y)
    for name in set(names):
        ours = names == name
        separate[ours] = isotonic_fit(x["length"][ours], y[ours])
        places, first = np.unique(load[~ours], return_index=True)
        levels = isotonic_fit(load[~ours], y[~ours])[first]
        predicted[ours] = np.interp(np.log(load[ours]), np.log(places), levels)
    return {
        "num_points": len(points),
        **{f"r2_{key}": explained(y, each) for key, each in fitted.items()},
        "curves": {
            key: sorted(set(zip(x[key].tolist(), each.tolist(), strict=True)))
            for key, each in fitted.items()
            if key != "length"
        },
        "r2_left_out": explained(y, predicted),
        "r2_separate": explained(y, separate),
    }


# --- Figures ---


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws BLEU by input length, and by the load of a memory vector."""
    return {
        "slots_by_length": _draw_by_length(results),
        "words_per_vector": draw_words_per_vector(results),
    }


def _draw_by_length(results: Results) -> Figure:
    """Draws BLEU against source length for each number of memory slots, a panel a family."""
    families, split = results["slots"]["families"], main_split(results)
    constants = [s["label"] for s in results["systems"] if s["role"] == "constant"]
    slots = {s["label"]: s["memory_slots"] for s in results["systems"]}
    title, width = "BLEU by input length and memory slots", max(7.2, 4.6 * len(families))
    figure, panels = panel_figure(title, len(families), width, 4.8)
    named: set[str] = set()
    for place, (axes, (family, labels)) in enumerate(zip(panels, families.items(), strict=True)):
        styles = dict.fromkeys(constants, LineStyle(GREY, "x", ":")) | slot_styles(results, labels)
        curves = []
        for label, style in styles.items():
            name = label if label in constants else _slots_name(slots[label])
            curves.append((split[label]["buckets"], style, "" if name in named else name))
            named.add(name)
        draw_ranges(axes, results, curves, name="" if place else "BLEU")
        axes.set_title(family, fontsize=10, color=INK, loc="left")
    add_legend(figure, columns=4 if len(families) == 1 else 8)
    return figure


def slot_styles(results: Results, labels: Sequence[str]) -> dict[str, LineStyle]:
    """Returns the look of systems by their number of slots: from dark, few, to bright, all."""
    slots = {
        s["label"]: s["memory_slots"] or 10**6
        for s in results["systems"]
        if s["role"] != "constant"
    }
    counts = sorted(set(slots.values()))
    styles = {}
    for label in labels:
        place = counts.index(slots[label])
        shade = colormaps["viridis"](place / max(1, len(counts) - 1) * 0.9)
        styles[label] = LineStyle(to_hex(shade), MARKERS[place % len(MARKERS)])
    return styles


def _slots_name(slots: int | None) -> str:
    return "no pooling" if slots is None else f"k = {slots}"


def draw_words_per_vector(results: Results) -> Figure:
    """Draws BLEU by words, and bits if known, per memory vector, with a fit for each family."""
    slots, unit = results["slots"], results["task"]["unit"]
    names = {"words_per_vector": f"{unit}s per vector", "bits_per_vector": "bits per vector"}
    keys = [key for key in names if slots["points"][0][key] is not None]
    width = 7.2 if len(keys) == 1 else 9.6
    figure, panels = panel_figure("BLEU by load of a vector", len(keys), width, 4.8)
    fits = slots["fits"][: len(slots["families"])]
    for place, (axes, key) in enumerate(zip(panels, keys, strict=True)):
        _draw_points(axes, results, key)
        for fit, dashes in zip(fits, cycle(DASHES)):
            curve = zip(*fit["curves"][key], strict=True)
            axes.plot(*curve, color=INK, linewidth=1.2, linestyle=dashes, drawstyle="steps-mid")
        found = ", ".join("-" if f[f"r2_{key}"] is None else f"{f[f'r2_{key}']:.3f}" for f in fits)
        title = f"one falling curve{' each' if len(fits) > 1 else ''}: R² = {found}"
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        axes.set_xscale("log")
        axes.set_xlabel(f"{names[key]} (log scale)", color=INK)
        highest = max(point[key] for point in [*slots["points"], *slots["final_state"]])
        axes.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.set_xlim(right=highest * 1.15)
        set_score_axis(axes, "" if place else "BLEU")
        tidy(axes)
    _add_slots_legend(figure, results)
    return figure


def _draw_points(axes: Axes, results: Results, key: str) -> None:
    slots = results["slots"]
    groups = [
        ([point for point in slots["points"] if point["system"] == label], style.colour, marker)
        for labels, marker in zip(slots["families"].values(), MARKERS, strict=False)
        for label, style in slot_styles(results, labels).items()
    ]
    for points, colour, marker in [*groups, (slots["final_state"], GREY, "x")]:
        values = [point["bleu"] for point in points]
        axes.errorbar(
            [point[key] for point in points],
            [value["value"] for value in values],
            yerr=[
                [max(0.0, value["value"] - value["low"]) for value in values],
                [max(0.0, value["high"] - value["value"]) for value in values],
            ],
            color=colour,
            marker=marker,
            linestyle="none",
            markersize=6,
            elinewidth=1,
            zorder=3,
        )


def _add_slots_legend(figure: Figure, results: Results) -> None:
    """Explains colours (number of slots) and markers (family) apart."""
    slots = results["slots"]
    labels = [label for labels in slots["families"].values() for label in labels]
    counts = {point["system"]: point["slots"] for point in slots["points"]}
    colours = {counts[k]: style.colour for k, style in slot_styles(results, labels).items()}
    several = len(slots["families"]) > 1
    looks = {
        _slots_name(count): LineStyle(colours[count], "s", "none")
        for count in sorted(colours, key=lambda count: (count is None, count))
    }
    for name, marker, dashes in zip(slots["families"], MARKERS, cycle(DASHES), strict=False):
        looks[name] = LineStyle(INK, marker, dashes if several else "none")
    constants = dict.fromkeys(point["family"] for point in slots["final_state"])
    if constants:
        looks[", ".join(constants) + " (final state)"] = LineStyle(GREY, "x", "none")
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, ls=look.dashes, label=name)
        for name, look in looks.items()
    ]
    columns = 6 if max(map(len, looks)) < 30 else 3
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5
    )


# --- Text ---


def tell(results: Results) -> Iterator[Section]:
    """Tells how BLEU depends on the load of a memory vector."""
    unit = results["task"]["unit"]
    yield Section(
        f"Memory slots: {unit}s per vector",
        [
            "The source is pooled into k vectors before attention, with the same parameters for "
            f"every k. So a vector holds input length / k {unit}s, and at least one. In systems "
            "with one final state it holds the whole input. What is pooled are the pieces of the "
            f"tokenizer, so a {unit} may be divided between two vectors.",
        ],
        {
            "slots_by_length": "BLEU by input length for each number of slots k",
            "words_per_vector": "Each point is one k and one length range, with its 95 % interval; "
            "the line is the best falling step function of the load through the points with slots "
            "of a family",
        },
        [*_tables(results)],
        [_tell_rises(results), *_tell_method(unit)],
    )


def _tables(results: Results) -> Iterator[Table]:
    slots, unit = results["slots"], results["task"]["unit"]
    scores: dict[str, dict[str, Any]] = {}
    for point in slots["points"]:
        scores.setdefault(point["system"], {})[point["range"]] = point["bleu"]
    ranges = list(dict.fromkeys(point["range"] for point in slots["points"]))
    points = [(name, *(with_interval(row.get(e)) for e in ranges)) for name, row in scores.items()]
    yield Table(("BLEU by input length", *ranges), points)
    columns = ["systems", "points", f"{unit}s per vector", "one left out", "bits per vector"]
    columns += ["length", "separate"]
    keys = ["r2_words_per_vector", "r2_left_out", "r2_bits_per_vector", "r2_length", "r2_separate"]
    fits = [
        (fit["family"], str(fit["num_points"]), *(number(fit.get(key), 3) for key in keys))
        for fit in slots["fits"]
    ]
    yield Table(columns, fits, "How well one curve fits: R² of non-increasing (isotonic) fits")
    columns = ["systems", f"{unit}s per vector", "times the first"]
    shown = 2 if len(slots["half_load"]) == 1 else 3
    halves = [
        (name, with_interval(half["load"]), with_interval(half["ratio"]))[:shown]
        for name, half in slots["half_load"].items()
    ]
    yield Table(columns[:shown], halves, "The load that halves BLEU")


def _tell_rises(results: Results) -> str:
    """Says whether BLEU rises with the number of slots in every range, as the protocol expects."""
    slots = results["slots"]
    scores = {(point["system"], point["range"]): point["bleu"] for point in slots["points"]}
    ranges = list(dict.fromkeys(point["range"] for point in slots["points"]))
    steps = [step for labels in slots["families"].values() for step in pairwise(labels)]
    falls = [
        (fewer, more, each, scores[more, each]["high"] < scores[fewer, each]["low"])
        for fewer, more in steps
        for each in ranges
        if scores[more, each]["value"] < scores[fewer, each]["value"]
    ]
    if not falls:
        return "As expected, mean BLEU rises with the number of slots in every range."
    places = "; ".join(f"{more} below {fewer} at {each}" for fewer, more, each, _ in falls)
    return (
        "The expectation was that BLEU rises with the number of slots in every range. The means do "
        f"not at {len(falls)} of {len(steps) * len(ranges)} steps ({places}). At "
        f"{sum(clear for *_, clear in falls)} of them the intervals do not overlap."
    )


def _tell_method(unit: str) -> list[str]:
    return [
        "R² is the share of the variance of BLEU between points (one for each k and length range, "
        "unweighted) that the best non-increasing function explains. The columns differ in what "
        f"it is a function of. “{unit}s per vector” and “bits per vector”: one function for all k. "
        "“One left out”: the first, with the points of each system predicted from the curve "
        "through those of all others (below 0 is worse than the mean). “Length”: one function of "
        "input length for all k, which knows nothing of slots. “Separate”: a function of length "
        "for each system, the most that falling curves could explain. Systems with one final "
        "state are shown but not fitted.",
        f"Bits grow with {unit}s, so “{unit}s per vector” and “bits per vector” are one piece of "
        "evidence, not two.",
        f"The load that halves BLEU is the number of {unit}s per vector where the curve of a "
        "family has half of its value at the lowest load, straight between points on a log axis. "
        "It is not given where more than 2.5 % of the resamples never fall so far.",
        "What came before: Britz, Guan and Luong (2017), Efficient Attention using a Fixed-Size "
        "Memory Representation, attend to K fixed contexts. Vázquez et al. (2020), A Systematic "
        "Study of Inner-Attention-Based Sentence Representations in Multilingual Neural Machine "
        "Translation, vary an attention bridge and look at sentence length.",
    ]
