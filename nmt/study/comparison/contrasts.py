"""Two systems against each other: differences by length, paired tests, a regression on length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from nmt.study.comparison.significance import NUM_TRIALS, holm, paired_test
from nmt.study.comparison.split_scores import Gap, LengthRange, Members, SplitScores
from nmt.study.comparison.sufficient_statistics import chrf_of
from nmt.study.comparison.systems import System, mean_metric

# End of the protocol's range of long inputs, 41-50.
LONGEST_CONTRASTED = 50


def role(system: System) -> str:
    """Says which side of the minimal pair a system is: "constant", "attended", or neither: ""."""
    if system.memory_slots is not None:
        return ""
    attention = system.config.get("model.attention")
    by_name = {"rnn": "constant", "bahdanau": "attended"}.get(system.model_name, "")
    return {"none": "constant", "additive": "attended"}.get(str(attention), by_name)


def in_order(systems: Sequence[System]) -> list[System]:
    """Orders systems: one constant context, attention, others, then memory slots from few on.

    Of those that are alike in this, the one with the fewest updates comes first.
    """
    places = {"constant": 0, "attended": 1, "": 2}

    def place(system: System) -> tuple[bool, int, str, int, float]:
        slots, updates = system.memory_slots or 0, mean_metric(system, "updates") or 0
        return slots > 0, places[role(system)], system.model_name if slots else "", slots, updates

    return sorted(systems, key=place)


def baseline_of(systems: Sequence[System]) -> System:
    """Returns the baseline of the primary pair, or the first of all."""
    pair = primary_pair(systems)
    return pair[0] if pair else systems[0]


def primary_pair(systems: Sequence[System]) -> tuple[System, System] | None:
    """Returns (constant context, attention), the first two trained with as many updates."""
    for constant in systems:
        for attended in systems:
            if (role(constant), role(attended)) == ("constant", "attended") and mean_metric(
                constant, "updates"
            ) == mean_metric(attended, "updates"):
                return constant, attended
    return None


def compared_ranges(
    ranges: Sequence[LengthRange], task: Mapping[str, Any]
) -> tuple[LengthRange, LengthRange] | None:
    """Returns the short and the long range to contrast; None where there is only one.

    The short one is the first. The long one is 41-50, or the longest below it that lies within
    the lengths of training; where training joined inputs, the longest within training. If none
    but the first lies within, it is the last.

    Args:
        ranges: Those that hold sentences.
        task: `longest_train` and `most_joined` of the compared runs.
    """
    longest = task["longest_train"]
    most = longest if task["most_joined"] else min(longest, LONGEST_CONTRASTED)
    short, *longer = ranges
    within = [r for r in longer if r.high is not None and r.high <= most] or longer
    return (short, within[-1]) if within else None


def differences(
    scores: SplitScores, systems: Sequence[System], task: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Contrasts every pair on short and long inputs; the primary pair comes first."""
    primary = primary_pair(systems)
    pairs = [primary] if primary else []
    labels = [(a.label, b.label) for a, b in pairs]
    for a, b in combinations(systems, 2):
        if (a.label, b.label) not in labels and (b.label, a.label) not in labels:
            pairs.append((b, a) if role(b) == "constant" and role(a) != "constant" else (a, b))
    ranges = compared_ranges(scores.ranges, task)
    return [
        {
            "baseline": baseline.label,
            "system": system.label,
            "primary": (baseline, system) == primary,
            "overall": _gap(scores, baseline.label, system.label, scores.everything).entry(),
            **(_contrast(scores, baseline.label, system.label, ranges) if ranges else {}),
            "regression": _regression(scores, baseline.label, system.label),
        }
        for baseline, system in pairs
    ]


def falls(
    scores: SplitScores, systems: Sequence[System], task: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns BLEU on long inputs minus BLEU on short ones of each system."""
    ranges = compared_ranges(scores.ranges, task)
    if ranges is None:
        return {}
    found = {}
    for system in systems:
        short, long = (scores.bleu(system.label, each.members) for each in ranges)
        found[system.label] = {
            "short_range": ranges[0].label,
            "long_range": ranges[1].label,
            **long.minus(short).entry(),
        }
    return found


def paired_tests(
    scores: SplitScores, systems: Sequence[System], *, target_lang: str
) -> dict[str, Any]:
    """Tests every system against the baseline, on the split and each range, Holm-corrected.

    One seed each, the lowest that both have: the test exchanges translations of a sentence, so
    each sentence may come once only. What seeds change is for the bootstrap to say.
    """
    baseline = baseline_of(systems)
    parts = [("all", scores.everything), *((r.label, r.members) for r in scores.ranges)]
    tests = [
        _test(scores, (baseline, system), members, target_lang=target_lang)
        | {"system": system.label, "range": label}
        for system in systems
        if system is not baseline
        for label, members in parts
    ]
    corrected = holm([test["p_value"] for test in tests])
    return {
        "baseline": baseline.label,
        "num_trials": NUM_TRIALS,
        "results": [{**test, "p_holm": p} for test, p in zip(tests, corrected, strict=True)],
    }


def _gap(scores: SplitScores, baseline: str, system: str, members: Members) -> Gap:
    return scores.bleu(system, members).minus(scores.bleu(baseline, members))


def _contrast(
    scores: SplitScores, baseline: str, system: str, ranges: tuple[LengthRange, LengthRange]
) -> dict[str, Any]:
    short, long = (each.label for each in ranges)
    gaps = {each.label: _gap(scores, baseline, system, each.members) for each in scores.ranges}
    beyond_short = {label: gap.minus(gaps[short]).entry() for label, gap in gaps.items()}
    return {
        "short": {"range": short, **gaps[short].entry()},
        "long": {"range": long, **gaps[long].entry()},
        "difference_of_differences": beyond_short[long],
        "by_range": [
            {"range": label, **entry} for label, entry in beyond_short.items() if label != short
        ],
    }


def _regression(scores: SplitScores, baseline: str, system: str) -> dict[str, Any]:
    """Fits sentence chrF = a + b length/10 + c system + d length/10 system, by least squares."""
    tens = scores.lengths / 10
    means = [chrf_of(scores.chrf_counts[label]).mean(0) for label in (baseline, system)]
    is_system = np.repeat([0.0, 1.0], len(tens))
    both = np.tile(tens, 2)
    design = np.stack([np.ones_like(both), both, is_system, both * is_system], axis=1)
    coefficients = np.linalg.lstsq(design, np.concatenate(means), rcond=None)[0].tolist()
    names = ("intercept", "length_per_10", "system")
    return {
        **dict(zip(names, coefficients, strict=False)),
        "interaction": scores.chrf_slope(system).minus(scores.chrf_slope(baseline)).entry(),
    }


def _test(
    scores: SplitScores, pair: tuple[System, System], members: Members, *, target_lang: str
) -> dict[str, Any]:
    seeds = [[run.seed for run in system.runs] for system in pair]
    common = sorted(set(seeds[0]) & set(seeds[1]))
    places = [known.index(common[0]) if common else 0 for known in seeds]
    rows = [
        scores.sentences[system.label][place] for system, place in zip(pair, places, strict=True)
    ]
    ours, theirs = ([side[index].hypothesis for index in members] for side in rows)
    references = [rows[0][index].reference for index in members]
    result = paired_test(ours, theirs, references, target_lang=target_lang, num_trials=NUM_TRIALS)
    return {
        "seeds": [known[place] for known, place in zip(seeds, places, strict=True)],
        "num_sentences": len(members),
        "baseline_bleu": result.baseline_bleu,
        "bleu": result.bleu,
        "p_value": result.p_value,
    }
