"""How much of a sentence fits one vector: BLEU against words (and bits) per memory vector."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from nmt.study.comparison.bootstrap import COVERAGE
from nmt.study.comparison.contrasts import role
from nmt.study.comparison.split_scores import Gap, SplitScores
from nmt.study.comparison.sufficient_statistics import Floats
from nmt.study.comparison.systems import System, config_key


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
    """Returns the load at which the falling fit has half of its value at the lowest load.

    Args:
        load: (n,), words per vector.
        bleu: (n,)

    Returns:
        The load, straight between points on a log axis; not a number where BLEU falls less.
    """
    places, first = np.unique(load, return_index=True)
    levels = isotonic_fit(load, bleu)[first]
    below = np.flatnonzero(levels <= levels[0] / 2)
    if levels[0] <= 0 or not len(below):
        return float("nan")
    around = slice(below[0] - 1, below[0] + 1)
    return float(np.exp(np.interp(-levels[0] / 2, -levels[around], np.log(places[around]))))


def slot_families(systems: Sequence[System]) -> dict[str, list[System]]:
    """Groups systems that differ in their memory slots alone; one without such kin is left out."""
    families: dict[str, list[System]] = {}
    for system in systems:
        if role(system) != "constant" and "model.memory_slots" in system.config:
            rest = {k: v for k, v in system.config.items() if k != "model.memory_slots"}
            families.setdefault(config_key(system.model_name, rest), []).append(system)
    kept = [sorted(family, key=_slots) for family in families.values() if len(family) > 1]
    return {re.sub(r", memory_slots=\d+", "", family[0].label): family for family in kept}


def slot_results(
    scores: SplitScores, systems: Sequence[System], bits: Sequence[float] | None
) -> dict[str, Any] | None:
    """Places every system and length range on axes of words and bits per vector.

    Args:
        scores: Of the main split.
        systems: All systems.
        bits: Information of each sentence, where the corpus knows it.

    Returns:
        The points of each family of slot counts and of one constant vector, how well one curve
        fits them and at which load it has fallen by half; None where there is no such family.
    """
    families = slot_families(systems)
    if not families:
        return None
    information = None if bits is None else np.array(bits, dtype=np.float64)
    points = [
        point | {"family": name}
        for name, family in families.items()
        for system in family
        for point in _points(scores, system, information)
    ]
    final_states = [
        point | {"family": system.label}
        for system in systems
        if role(system) == "constant"
        for point in _points(scores, system, information)
    ]
    groups = {name: [p for p in points if p["family"] == name] for name in families}
    halves = {name: _half(group) for name, group in groups.items()}
    first = next(iter(halves.values()))
    if len(groups) > 1:
        groups["all of them"] = points
    return {
        "families": {n: [s.label for s in family] for n, family in families.items()},
        "points": [_entry(point) for point in points],
        "final_state": [_entry(point) for point in final_states],
        "fits": [{"family": name, **_fits(group)} for name, group in groups.items()],
        "half_load": {
            name: {
                "load": _known(half).entry(),
                "ratio": _known(
                    Gap(half.value / first.value, half.replicates / first.replicates)
                ).entry(),
            }
            for name, half in halves.items()
        },
    }


def _entry(point: dict[str, Any]) -> dict[str, Any]:
    return point | {"bleu": point["bleu"].entry()}


def _known(found: Gap) -> Gap:
    """Leaves nothing where more resamples lack a value than an interval leaves out at one end."""
    missing = float((~np.isfinite(found.replicates)).mean())
    return found if missing <= (1 - COVERAGE) / 2 else Gap(float("nan"), found.replicates)


def _half(points: Sequence[dict[str, Any]]) -> Gap:
    """Returns `half_load` of the words per vector, and in each resample (R,)."""
    load = np.array([point["words_per_vector"] for point in points])
    resampled = np.stack([point["bleu"].replicates for point in points], axis=1)
    value = half_load(load, np.array([point["bleu"].value for point in points]))
    return Gap(value, np.array([half_load(load, bleu) for bleu in resampled]))


def _points(scores: SplitScores, system: System, bits: Floats | None) -> list[dict[str, Any]]:
    slots = 1 if role(system) == "constant" else system.memory_slots
    words = np.maximum(1, scores.lengths)
    vectors = words if slots is None else np.minimum(slots, words)
    return [
        {
            "system": system.label,
            "slots": slots,
            "range": each.label,
            "num_sentences": len(each.members),
            "length": float(words[each.members].mean()),
            "words_per_vector": float((words / vectors)[each.members].mean()),
            "bits_per_vector": None
            if bits is None
            else float((bits / vectors)[each.members].mean()),
            "bleu": scores.bleu(system.label, each.members),
        }
        for each in scores.ranges
    ]


def _fits(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    y = np.array([point["bleu"].value for point in points])

    curves: dict[str, list[tuple[float, float]]] = {}
    r2: dict[str, float | None] = {}
    for key in ("words_per_vector", "bits_per_vector", "length"):
        if any(point[key] is None for point in points):
            continue
        x = np.array([point[key] for point in points])
        fitted = isotonic_fit(x, y)
        r2[key] = explained(y, fitted)
        if key != "length":
            curves[key] = sorted({(float(a), float(b)) for a, b in zip(x, fitted, strict=True)})

    names = np.array([point["system"] for point in points])
    separate, predicted = np.empty_like(y), np.empty_like(y)
    lengths = np.array([point["length"] for point in points])
    load = np.array([point["words_per_vector"] for point in points])
    for name_of_system in set(names):
        ours = names == name_of_system
        separate[ours] = isotonic_fit(lengths[ours], y[ours])
        predicted[ours] = _predict(load[~ours], y[~ours], load[ours])
    return {
        "num_points": len(points),
        **{f"r2_{key}": value for key, value in r2.items()},
        "curves": curves,
        "r2_left_out": explained(y, predicted),
        "r2_separate": explained(y, separate),
    }


def _predict(x: Floats, y: Floats, at: Floats) -> Floats:
    """Reads the isotonic fit of (x, y) at other places, straight between points on a log axis."""
    places, first = np.unique(x, return_index=True)
    predicted: Floats = np.interp(np.log(at), np.log(places), isotonic_fit(x, y)[first])
    return predicted


def _slots(system: System) -> float:
    return float("inf") if system.memory_slots is None else system.memory_slots
