"""Information instead of words: a grammar knows how many bits each sentence carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from nmt.checks import UserError
from nmt.study.presentation import (
    Results,
    Section,
    Table,
    add_legend,
    draw_lines,
    number,
    score_figure,
    system_styles,
    with_interval,
)
from nmt.study.statistics import Floats
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.study.measure import TrainedRun

NUM_RANGES = 6


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Takes the bits of every test sentence from the corpus, if it knows them."""
    found = {split: run.column(split, "bits") for split in run.data.test_splits}
    known = {split: bits for split, bits in found.items() if bits is not None}
    return {"bits": known} if known else {}


def corpus_bits(comparison: Comparison) -> Floats | None:
    """Returns the information of each sentence of the split, from any run that knows it.

    Raises:
        UserError: if there are not as many as sentences.
    """
    expected = len(comparison.main.lengths)
    for run in (run for system in comparison.systems for run in system.runs):
        bits = (run.probes.get("bits") or {}).get(comparison.split)
        if bits is None:
            continue
        if len(bits) != expected:
            raise UserError(
                f"{run.directory}/probes/probes.json has bits of {len(bits)} sentences, "
                f"{comparison.split!r} has {expected}; run its probes again."
            )
        return np.array(bits, dtype=np.float64)
    return None


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Scores ranges of information that hold about as many sentences each."""
    bits, scores = corpus_bits(comparison), comparison.main
    if bits is None:
        return {"bits": None}
    order = np.argsort(bits, kind="stable")
    groups = [np.sort(group) for group in np.array_split(order, NUM_RANGES) if len(group)]
    ranges = [
        {
            "low": float(bits[group].min()),
            "high": float(bits[group].max()),
            "mean": float(bits[group].mean()),
            "num_sentences": len(group),
        }
        for group in groups
    ]
    systems = {
        system.label: [scores.bleu(system.label, group).entry() for group in groups]
        for system in comparison.shown
    }
    return {"bits": {"ranges": ranges, "systems": systems}}


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws BLEU against the information in an input."""
    bits = results["bits"]
    figure, axes = score_figure("BLEU by information in the input", 4.4)
    draw_lines(
        axes,
        [each["mean"] for each in bits["ranges"]],
        [(bits["systems"][label], look, label) for label, look in system_styles(results).items()],
        "information (bits), mean of each sixth of the sentences",
    )
    add_legend(figure)
    return {"bleu_by_bits": figure}


def tell(results: Results) -> Iterator[Section]:
    """Tabulates BLEU by bits."""
    found = results["bits"]
    rows = [
        (
            f"{number(each['low'])} to {number(each['high'])}",
            str(each["num_sentences"]),
            *(with_interval(system[place]) for system in found["systems"].values()),
        )
        for place, each in enumerate(found["ranges"])
    ]
    yield Section(
        "Information instead of words",
        [
            "The grammar knows how many bits of information each sentence carries. Each range "
            "holds a sixth of the sentences. Bits grow with words, so this is the view by length "
            "on another axis, not a second piece of evidence."
        ],
        {"bleu_by_bits": "BLEU by bits of information in the input"},
        [Table(("bits", "n", *found["systems"]), rows)],
    )
