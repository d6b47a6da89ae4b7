"""The section of the report on memory slots."""

from __future__ import annotations

from itertools import pairwise

from nmt.study.report.document import (
    FigureReference,
    Results,
    Section,
    Table,
    number,
    with_interval,
)


def slots(results: Results) -> Section | None:
    """How BLEU depends on the load of a memory vector."""
    found = results["slots"]
    if found is None:
        return None
    unit = results["task"]["unit"]
    columns = ["systems", "points", f"{unit}s per vector", "one left out", "bits per vector"]
    columns += ["length", "separate"]
    keys = ["r2_words_per_vector", "r2_left_out", "r2_bits_per_vector", "r2_length", "r2_separate"]
    rows = [
        (fit["family"], str(fit["num_points"]), *(number(fit.get(key), 3) for key in keys))
        for fit in found["fits"]
    ]
    return Section(
        f"Memory slots: {unit}s per vector",
        [
            "The source is pooled into k vectors before attention, with the same parameters for "
            f"every k. A vector then holds input length / k {unit}s (at least one), all of the "
            "input for the systems with one final state. What is pooled are the pieces of the "
            f"tokenizer, so that a {unit} may be divided between two vectors.",
        ],
        [
            FigureReference("slots_by_length", "BLEU by input length for each number of slots k"),
            FigureReference(
                "words_per_vector",
                "Each point is one k and one length range, with its 95 % interval; the line is the "
                "best falling step function of the load through the points with slots of a family",
            ),
        ],
        [
            _slots_table(results),
            Table(columns, rows, "How well one curve fits: R² of non-increasing (isotonic) fits"),
            _halves_table(results),
        ],
        [
            _rises(results),
            "R² is the share of the variance of BLEU between points (one for each k and length "
            "range, unweighted) that the best non-increasing function explains: one function of "
            f"{unit}s per vector for all k; the same where the points of each system are predicted "
            "from the curve through those of all others (below 0: worse than the mean); one of "
            "bits per vector; one of input length for all k, which knows no slots; and a separate "
            "function of length for each system, the most that falling curves could explain. The "
            "systems with one final state are shown but not fitted.",
            f"The load that halves BLEU: {unit}s per vector where the curve of a family has half "
            "of its value at the lowest load, straight between points on a log axis. Not "
            "given where more than 2.5 % of the resamples never fall so far.",
            "What came before: Britz, Guan and Luong (2017), Efficient Attention using a "
            "Fixed-Size Memory Representation, attend to K fixed contexts; Vázquez et al. (2020), "
            "A Systematic Study of Inner-Attention-Based Sentence Representations in Multilingual "
            "Neural Machine Translation, vary an attention bridge and look at sentence length.",
        ],
    )


def _rises(results: Results) -> str:
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
        "The expectation that BLEU rises with the number of slots in every range does not hold "
        f"for the means at {len(falls)} of {len(steps) * len(ranges)} steps ({places}); at "
        f"{sum(clear for *_, clear in falls)} of them the intervals do not overlap."
    )


def _halves_table(results: Results) -> Table:
    halves = results["slots"]["half_load"]
    columns = ["systems", f"{results['task']['unit']}s per vector"]
    rows = [[name, with_interval(half["load"])] for name, half in halves.items()]
    if len(halves) > 1:
        columns.append("times the first")
        rows = [
            [*row, with_interval(h["ratio"])] for row, h in zip(rows, halves.values(), strict=True)
        ]
    return Table(columns, rows, "The load that halves BLEU")


def _slots_table(results: Results) -> Table:
    points = results["slots"]["points"]
    ranges = list(dict.fromkeys(point["range"] for point in points))
    rows = []
    for label in dict.fromkeys(point["system"] for point in points):
        scores = {p["range"]: p["bleu"] for p in points if p["system"] == label}
        rows.append((label, *(with_interval(scores.get(name)) for name in ranges)))
    return Table(("BLEU by input length", *ranges), rows)
