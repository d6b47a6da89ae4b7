"""How good are the translations of inputs of each length? The headline of the experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from nmt.study.presentation import (
    Results,
    Section,
    Table,
    add_legend,
    draw_ranges,
    number,
    score_figure,
    system_styles,
    with_interval,
)
from nmt.study.systems import Comparison


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Scores every system on every split, in all and by length, and picks an example."""
    facts = comparison.systems[0].metrics
    splits = {
        name: {
            "num_sentences": len(scores.lengths),
            "sha256": facts[name]["sha256"],
            "systems": {
                label: {
                    "overall": scores.summary(label, scores.everything),
                    "buckets": scores.table(label),
                }
                for label in scores.sentences
            },
        }
        for name, scores in comparison.scores.items()
    }
    return {"splits": splits, "example": _example(comparison)}


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws BLEU and chrF against input length."""
    return {
        "bleu_by_length": draw_by_length(results, "bleu", "BLEU"),
        "chrf_by_length": draw_by_length(results, "chrf", "chrF"),
    }


def draw_by_length(results: Results, metric: str, name: str) -> Figure:
    """Draws a metric against source length, one line with its band for each system.

    The split and its long companion (dotted) share the axis, but not a line.
    """
    figure, axes = score_figure(f"{name} by input length")
    curves = [
        (
            split["systems"][label]["buckets"],
            replace(style, dashes=dashes),
            label if dashes == "-" else "",
        )
        for split, dashes in zip(results["splits"].values(), "-:", strict=False)
        for label, style in system_styles(results).items()
    ]
    draw_ranges(axes, results, curves, metric, name)
    add_legend(figure)
    return figure


def tell(results: Results) -> Iterator[Section]:
    """Says what the headline shows, and shows one long input; all scores come at the end."""
    split, main = results["split"], results["splits"][results["split"]]
    after = [f"{name}: {signature}." for name, signature in results["signatures"].items()]
    if len(results["splits"]) > 1:
        other = next(name for name in results["splits"] if name != split)
        after.append(f"The dotted lines are {other!r}: longer inputs, scored separately.")
    yield Section(
        "BLEU by input length",
        before=[
            f"{main['num_sentences']:,} sentences of {split!r} (SHA-256 {main['sha256'][:12]}). "
            "Each line is the mean over seeds of corpus BLEU in each range of input length in "
            f"{results['task']['unit']}s. Each range is scored alone, with the n-gram orders that "
            "its translations have (effective order), so the ranges do not average to the overall "
            "score.",
            *_intervals(results),
        ],
        figures={"bleu_by_length": "BLEU by input length with 95 % bands"},
        after=after,
    )
    yield _tell_example(results)
    yield _tell_all_ranges(results)


def _intervals(results: Results) -> Iterator[str]:
    """Says what the intervals cover and what they do not."""
    bootstrap, systems = results["bootstrap"], results["systems"]
    drawn = "documents, then sentences" if bootstrap["documents"] else "sentences of each range"
    several = any(len(system["seeds"]) > 1 for system in systems)
    one = [system["label"] for system in systems if len(system["seeds"]) == 1]
    yield (
        f"The intervals hold {100 * bootstrap['coverage']:.0f} % of {bootstrap['resamples']:,} "
        f"resamples, the same for all systems (random seed {bootstrap['seed']}). A resample draws "
        f"{drawn}."
    )
    if several and bootstrap.get("seeds") == "t":
        yield (
            "It moves the mean over n seeds as Student's t with n − 1 degrees of freedom does, so "
            "intervals over few seeds cover at least what they say; over 2 seeds they are wide. "
            "Systems are paired by seed where both have it."
        )
    elif several:
        yield (
            "It draws seeds as well, with replacement. Such intervals are too narrow: where only "
            "seeds vary, they cover 47 % (2 seeds), 75 % (3) or 84 % (5) instead of 95 %."
        )
    if one:
        names = "" if len(one) == len(systems) else f" ({'; '.join(one)})"
        yield (
            f"With one seed{names}, an interval shows how other test sentences would change the "
            "score, not how another training would."
        )
    if results["split"] == "test_joined":
        yield (
            "Each test sentence occurs once for each number of sentences joined. "
            f"{'Tests' if bootstrap['documents'] else 'Intervals and tests'} treat inputs as "
            "independent, so what is said of all of them is too certain."
        )
    elif bootstrap["documents"]:
        yield "The paired tests treat sentences as independent, although documents hold several."


def _example(comparison: Comparison) -> dict[str, Any]:
    """Picks the longest input within the lengths of training; the longest of all if none is."""
    scores, longest = comparison.main, comparison.task["longest_train"]
    lengths = scores.lengths
    within = [place for place, length in enumerate(lengths) if length <= longest]
    place = max(within or range(len(lengths)), key=lambda index: (lengths[index], -index))
    chosen = scores.texts[place]
    return {
        "index": chosen.index,
        "source_words": chosen.source_words,
        "source": chosen.source,
        "reference": chosen.reference,
        "hypotheses": {
            system.label: scores.sentences[system.label][0][place].hypothesis
            for system in comparison.shown
        },
    }


def _tell_example(results: Results) -> Section:
    found, longest = results["example"], results["task"]["longest_train"]
    within = f" that is no longer than the longest training input ({longest})"
    rows = [("source", found["source"]), ("reference", found["reference"])]
    rows += [(label, text or "(empty)") for label, text in found["hypotheses"].items()]
    return Section(
        "One long input",
        [
            f"The longest input of {results['split']!r}"
            f"{within if found['source_words'] <= longest else ''}: {found['source_words']} "
            f"{results['task']['unit']}s. The translations are those of the lowest seed."
        ],
        tables=[Table(("", "text"), rows, is_numeric=False)],
    )


def _tell_all_ranges(results: Results) -> Section:
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
            "All values are means over seeds. The length ratio is the number of tokens in the "
            "translations over the number in the references. A repeated 4-gram is a sequence of "
            "four words (characters in Chinese and Japanese) that occurs twice in one translation. "
            "A copied translation equals its source."
        ],
        figures={"chrf_by_length": "chrF by input length with 95 % bands"},
        tables=tables,
        is_appendix=True,
    )
