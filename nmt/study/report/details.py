"""The sections with tests, the regression, kinds of input, and all length ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nmt.study.figures.length import kind_name
from nmt.study.report.document import (
    FigureReference,
    Results,
    Section,
    Table,
    number,
    shown_labels,
    with_interval,
)


def paired_tests(results: Results) -> Section | None:
    """The tests against the baseline, and the regression."""
    tests = results["tests"]
    if tests is None:
        return None
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
        f"Against {tests['baseline']}: paired approximate randomisation of sacreBLEU, "
        f"{tests['num_trials']:,} trials, two-sided, corrected for all {len(rows)} tests (Holm). "
        f"One seed of each system (seed {', '.join(map(str, seeds))}), since the test exchanges "
        "translations and each sentence may come once only: it says whether these two trained "
        "models differ, the intervals above whether systems of several seeds do."
    )
    return Section("Paired tests", [before], tables=[Table(columns, rows)])


def regression(results: Results) -> Section | None:
    """Sentence chrF on length and model: the second view."""
    if not results["differences"]:
        return None
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
        "BLEU of ranges is not additive, so a second view: least squares of sentence chrF (mean "
        f"over seeds) on length in tens of {unit}s, system, and both. The interaction is above 0 "
        f"where the system loses less chrF than the baseline for every ten {unit}s of input."
    )
    return Section("Regression of sentence chrF on length", [before], tables=[Table(columns, rows)])


def kinds(results: Results) -> Section | None:
    """Inputs of one sentence and of several apart, and where those of each length are from."""
    if results["kinds"] is None:
        return None
    labels = shown_labels(results)
    tables = []
    for kind, content in results["kinds"].items():
        rows = [
            (
                source["range"],
                f"{source['num_sentences']:,}",
                *(with_interval(content["systems"][label][place]["bleu"]) for label in labels),
            )
            for place, source in enumerate(content["sources"])
        ]
        name = kind_name(kind)
        tables.append(Table(("range", "n", *labels), rows, f"BLEU, inputs of {name}"))
        sources = [(each["range"], _sources(each)) for each in content["sources"]]
        caption = f"Sources, inputs of {name}"
        tables.append(Table(("range", "sentences from"), sources, caption, is_numeric=False))
    return Section(
        "One sentence or several",
        [
            "Long inputs of real text are often several sentences: another kind of text, not "
            "only more of it. So both kinds are shown apart, with what the inputs of each length "
            "are from."
        ],
        figures=[FigureReference("bleu_by_kind", "BLEU by input length, for each kind of input")],
        tables=tables,
    )


def _sources(entry: Mapping[str, Any]) -> str:
    named = ", ".join(f"{name} {count:,}" for name, count in entry["largest"].items())
    others = entry["num_others"]
    more = f", {others} other collection{'' if others == 1 else 's'}" if others else ""
    return named + more


def per_range(results: Results) -> Section:
    """All scores and rates of all ranges, a table for each split and system."""
    columns = ["range", "n", "BLEU", "chrF", "length ratio", "brevity pen."]
    columns += ["repeated 4-gram", "empty", "copied"]
    tables = []
    for split, content in results["splits"].items():
        for label, system in content["systems"].items():
            rows = [
                (
                    bucket.get("range", "all"),
                    f"{bucket['num_sentences']:,}",
                    with_interval(bucket["bleu"]),
                    with_interval(bucket["chrf"]),
                    number(bucket["length_ratio"], 2),
                    number(bucket["brevity_penalty"], 2),
                    *(f"{100 * bucket[key]:.1f} %" for key in ("repeated", "empty", "copied")),
                )
                for bucket in [*system["buckets"], system["overall"]]
            ]
            tables.append(Table(columns, rows, f"{label}, {split}"))
    return Section(
        "All ranges",
        [
            "Length ratio is tokens of the translations over tokens of the references. A repeated "
            "4-gram is four words (in Chinese and Japanese characters) that occur twice in one "
            "translation; copied means equal to the source. Means over seeds."
        ],
        figures=[FigureReference("chrf_by_length", "chrF by input length with 95 % bands")],
        tables=tables,
    )


def _p_value(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"
