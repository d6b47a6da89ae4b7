"""Does length cost one system more than another? The difference of differences and its tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from nmt.study.presentation import Results, Section, Table, main_split, number, with_interval
from nmt.study.statistics import (
    NUM_TRIALS,
    Estimate,
    Members,
    Ranges,
    SplitScores,
    chrf_of,
    holm,
    paired_test,
)
from nmt.study.systems import Comparison, System, primary_pair

# End of the protocol's range of long inputs, 41-50.
LONGEST_CONTRASTED = 50
# A baseline with less than this share of the other's BLEU on short inputs, where no bottleneck
# should show, may just be under-trained.
TRAINED_SHARE = 0.8
T_QUANTILES = (12.706, 4.303, 3.182, 2.776)  # 97.5 %, of 1 to 4 degrees of freedom


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Contrasts every pair of the shown systems; the fall with length is of all systems."""
    scores, systems = comparison.main, comparison.shown
    ends = compared_ranges(scores.contrasted_ranges, comparison.task)
    falls = {s.label: _fall(scores, s, ends) for s in comparison.systems} if ends else {}
    if len(systems) == 1:
        return {"falls": falls, "differences": [], "tests": None}
    primary = primary_pair(systems)
    differences = [
        {
            "baseline": baseline.label,
            "system": system.label,
            "primary": (baseline, system) == primary,
            "overall": _gap(scores, baseline, system, scores.everything).entry(),
            **(_contrast(scores, baseline, system, ends) if ends else {}),
            "regression": _regression(scores, baseline.label, system.label),
        }
        for baseline, system in _pairs(systems, primary)
    ]
    tests = _paired_tests(comparison, primary[0] if primary else systems[0])
    return {"falls": falls, "differences": differences, "tests": tests}


def compared_ranges(ranges: Ranges, task: Mapping[str, Any]) -> Ranges | None:
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
    within = [r for r in longer if r[0].high is not None and r[0].high <= most] or longer
    return (short, within[-1]) if within else None


def _pairs(
    systems: Sequence[System], primary: tuple[System, System] | None
) -> Iterator[tuple[System, System]]:
    """Yields every pair as (baseline, system); the primary pair comes first."""
    if primary:
        yield primary
    for a, b in combinations(systems, 2):
        if primary not in ((a, b), (b, a)):
            yield (b, a) if b.role == "constant" and a.role != "constant" else (a, b)


def _gap(scores: SplitScores, baseline: System, system: System, members: Members) -> Estimate:
    return scores.bleu(system.label, members).minus(scores.bleu(baseline.label, members))


def _fall(scores: SplitScores, system: System, ends: Ranges) -> dict[str, Any]:
    """Returns BLEU on long inputs minus BLEU on short ones."""
    short, long = (scores.bleu(system.label, members) for _, members in ends)
    return {
        "short_range": ends[0][0].label,
        "long_range": ends[1][0].label,
        "short": short.entry(),
        "long": long.entry(),
        **long.minus(short).entry(),
    }


def _contrast(
    scores: SplitScores, baseline: System, system: System, ends: Ranges
) -> dict[str, Any]:
    short, long = (_gap(scores, baseline, system, members) for _, members in ends)
    first, last = (bucket.label for bucket, _ in ends)
    by_range = {
        bucket.label: _gap(scores, baseline, system, members).minus(short).entry()
        for bucket, members in scores.ranges
        if bucket.label != first
    }
    return {
        "short": {"range": first, **short.entry()},
        "long": {"range": last, **long.entry()},
        "difference_of_differences": long.minus(short).entry(),
        "by_range": [{"range": label, **entry} for label, entry in by_range.items()],
    }


def _regression(scores: SplitScores, baseline: str, system: str) -> dict[str, Any]:
    """Fits sentence chrF = a + b length/10 + c system + d length/10 system, by least squares."""
    means = [chrf_of(scores.chrf_counts[label]).mean(0) for label in (baseline, system)]
    design = np.vander(scores.lengths / 10, 2)
    (slope, _), (intercept, other) = np.linalg.lstsq(design, np.stack(means, axis=1))[0]
    return {
        "intercept": float(intercept),
        "length_per_10": float(slope),
        "system": float(other - intercept),
        "interaction": scores.chrf_slope(system).minus(scores.chrf_slope(baseline)).entry(),
    }


def _paired_tests(comparison: Comparison, baseline: System) -> dict[str, Any]:
    """Tests every system against the baseline, on the split and each range, Holm-corrected.

    One seed each, the lowest that both have: the test exchanges translations of a sentence, so
    each sentence may come once only. What seeds change is for the intervals to say.
    """
    scores = comparison.main
    parts = [("all", scores.everything)]
    parts += [(bucket.label, members) for bucket, members in scores.ranges]
    tests = [
        {**_test(comparison, baseline, system, members), "system": system.label, "range": label}
        for system in comparison.shown
        if system is not baseline
        for label, members in parts
    ]
    corrected = holm([test["p_value"] for test in tests])
    return {
        "baseline": baseline.label,
        "num_trials": NUM_TRIALS,
        "results": [{**test, "p_holm": p} for test, p in zip(tests, corrected, strict=True)],
    }


def _test(
    comparison: Comparison, baseline: System, system: System, members: Members
) -> dict[str, Any]:
    common = set(baseline.seeds) & set(system.seeds)
    seeds = [min(common or each.seeds) for each in (baseline, system)]
    first, second = (
        comparison.main.sentences[each.label][each.seeds.index(seed)]
        for each, seed in zip((baseline, system), seeds, strict=True)
    )
    result = paired_test(
        [first[place].hypothesis for place in members],
        [second[place].hypothesis for place in members],
        [first[place].reference for place in members],
        target_lang=comparison.target_lang,
        num_trials=NUM_TRIALS,
    )
    return {"seeds": seeds, "num_sentences": len(members), **result}


def tell(results: Results) -> Iterator[Section]:
    """Tells the primary statistic, then tests and the regression."""
    yield primary_statistic(results)
    yield _tell_tests(results)
    yield _tell_regression(results)


def primary_statistic(results: Results) -> Section:
    """Tells the difference of differences of the minimal pair, and of all others as secondary."""
    found = [entry for entry in results["differences"] if "long" in entry]
    primary = next((entry for entry in found if entry["primary"]), None)
    if primary:
        before = _tell_primary(results, primary)
    elif any(entry["primary"] for entry in results["differences"]):
        before = ["All inputs lie in one range of lengths: there is no difference of differences."]
    else:
        before = [
            "There is no primary statistic: the minimal pair (one constant context and attention, "
            "trained for the same number of updates) is not among these runs."
        ]
    title = "What length costs: the difference of differences"
    if not found:
        return Section(title, before)
    names = [f"{entry['system']} − {entry['baseline']}" for entry in found]
    short, long = found[0]["short"]["range"], found[0]["long"]["range"]
    columns = ["contrast", "", "short", "long", "long minus short", "all"]
    rows = [
        [
            name,
            "primary" if entry["primary"] else "secondary",
            *map(with_interval, (entry["short"], entry["long"])),
            *map(with_interval, (entry["difference_of_differences"], entry["overall"])),
        ]
        for name, entry in zip(names, found, strict=True)
    ]
    if results["bootstrap"].get("seeds") != "t":
        before.append(
            "The last column of the first table is the t interval of long minus short over the "
            "seeds that both systems have. Where it is the wider one, it is the one to believe."
        )
        columns.append("seeds alone")
        rows = [[*row, _over_seeds(results, e)] for row, e in zip(rows, found, strict=True)]
    caption = f"Differences in BLEU at {short} (short) and {long} (long), 95 % intervals"
    ranges = [each["range"] for each in found[0]["by_range"]]
    by_range = [
        (name, *map(with_interval, entry["by_range"]))
        for name, entry in zip(names, found, strict=True)
    ]
    beyond = f"The difference in BLEU in every range minus that at {short}"
    tables = [Table(columns, rows, caption), Table(("contrast", *ranges), by_range, beyond)]
    return Section(title, before, tables=tables)


def _over_seeds(results: Results, entry: Mapping[str, Any]) -> str:
    """Returns the t interval of long minus short over common seeds, for files that have none."""
    seeds = {system["label"]: system["seeds"] for system in results["systems"]}
    pair = (entry["system"], entry["baseline"])
    common = [seed for seed in seeds[pair[0]] if seed in seeds[pair[1]]]
    if len(common) < 2:
        return "–"
    falls = []
    for label in pair:
        short, long = scores_at_ends(results, label)
        places = [seeds[label].index(seed) for seed in common]
        falls.append(np.subtract(long["by_seed"], short["by_seed"])[places])
    gaps = falls[0] - falls[1]
    mean, half = gaps.mean(), gaps.std(ddof=1) / len(common) ** 0.5 * T_QUANTILES[len(common) - 2]
    return with_interval({"value": mean, "low": mean - half, "high": mean + half})


def _tell_primary(results: Results, primary: Mapping[str, Any]) -> list[str]:
    value, baseline = primary["difference_of_differences"], primary["baseline"]
    long, short = primary["long"]["range"], primary["short"]["range"]
    pair = f"{primary['system']} − {baseline}"
    texts = [
        f"Primary statistic: ({pair} at {long}) − ({pair} at {short}) = {with_interval(value)} "
        "BLEU."
    ]
    if value["low"] is not None and value["low"] <= 0 <= value["high"]:
        texts.append(
            "The expectation fails: the interval includes 0, so these runs do not show that the "
            "gap between the two changes with input length."
        )
    elif value["high"] is not None and value["high"] < 0:
        texts.append(
            "The expectation fails: the gap is smaller on long inputs than on short ones, which is "
            "the opposite of what a bottleneck would do."
        )
    joined = results["task"]["most_joined"] or {}
    if results["split"] == "test_joined" and joined.get("test", 1) > joined.get("train", 1):
        texts.append(
            f"Training joined at most {joined.get('train', 1)} sentences, the test set up to "
            f"{joined['test']}: the longest inputs are also of a new kind."
        )
    constants = {s["label"]: s for s in results["systems"] if s["role"] == "constant"}
    ends = {label: scores_at_ends(results, label) for label in constants}
    others = [
        f"{label} ({number(constants[label]['updates'], 0)} updates) has "
        f"{with_interval(at_short)} at {short} and {with_interval(at_long)} at {long}"
        for label, (at_short, at_long) in ends.items()
        if label != baseline
    ]
    if others:
        texts.append(f"Other systems with one constant context: {'; '.join(others)}.")
    theirs = scores_at_ends(results, primary["system"])[0]["value"]
    if ends[baseline][0]["value"] < TRAINED_SHARE * theirs:
        texts.append(
            f"At {short}, where no bottleneck should show, {baseline} has "
            f"{number(ends[baseline][0]['value'])} BLEU and {primary['system']} has "
            f"{number(theirs)}. So part of its loss on long inputs may come from too little "
            "training instead of a bottleneck."
        )
        learnt = [
            f"{label}, which has learnt short inputs ({number(at_short['value'])} BLEU), has "
            f"{number(at_long['value'])} at {long}"
            for label, (at_short, at_long) in ends.items()
            if at_short["value"] >= TRAINED_SHARE * theirs
        ]
        texts.append(f"But {'; '.join(learnt)}." if learnt else "Under-training is not excluded.")
    return texts


def scores_at_ends(results: Results, label: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the BLEU of a system on short and on long inputs, with intervals."""
    fall = results["falls"][label]
    if "short" in fall:
        return fall["short"], fall["long"]
    table = {b["range"]: b["bleu"] for b in main_split(results)[label]["buckets"]}  # older files
    return table[fall["short_range"]], table[fall["long_range"]]


def _tell_tests(results: Results) -> Section:
    tests = results["tests"]
    columns = ("system", "range", "n", "baseline", "BLEU", "p", "p (Holm)")
    rows = [
        (
            test["system"],
            test["range"],
            f"{test['num_sentences']:,}",
            number(test["baseline_bleu"]),
            number(test["bleu"]),
            _p_value(test["p_value"]),
            _p_value(test["p_holm"]),
        )
        for test in tests["results"]
    ]
    seeds = sorted({seed for test in tests["results"] for seed in test["seeds"]})
    before = (
        f"Each system is tested against {tests['baseline']} by paired approximate randomisation "
        f"({tests['num_trials']:,} trials, two-sided), corrected for all {len(rows)} tests (Holm). "
        f"A test takes one seed of each system (seed {', '.join(map(str, seeds))}): it says "
        "whether these two trained models differ. Whether systems of several seeds differ, the "
        "intervals above say."
    )
    return Section("Paired tests", [before], tables=[Table(columns, rows)])


def _p_value(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _tell_regression(results: Results) -> Section:
    unit = results["task"]["unit"]
    columns = ("contrast", "intercept", f"per 10 {unit}s", "system", "interaction")
    rows = [
        (
            f"{entry['system']} − {entry['baseline']}",
            number(entry["regression"]["intercept"]),
            number(entry["regression"]["length_per_10"], 2),
            number(entry["regression"]["system"]),
            with_interval(entry["regression"]["interaction"]),
        )
        for entry in results["differences"]
    ]
    before = (
        "BLEU of ranges is not additive, so here is a second view: least squares of sentence chrF "
        f"(mean over seeds) on length in tens of {unit}s, on the system, and on both together. The "
        "interaction is above 0 where the system loses less chrF than the baseline with every ten "
        f"{unit}s of input."
    )
    return Section("Regression of sentence chrF on length", [before], tables=[Table(columns, rows)])
