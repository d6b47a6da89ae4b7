"""What the experiment finds out, in the order of its report.

A finding is a file here and a line in `FINDINGS`. Of four functions it has those that it needs: it
measures a trained run (where test translations are not enough), scores a comparison of runs, draws,
and tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from nmt.study.findings import (
    alignment,
    by_length,
    contrasts,
    cost,
    information,
    joined,
    likelihood,
    memory_slots,
    training_inputs,
)
from nmt.study.presentation import Results, Section
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.study.measure import TrainedRun


def _nothing(_: object) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Finding:
    """What a file of this folder does.

    Attributes:
        entries: Of `results.json`; a comparison where all are empty has nothing to draw or tell.
        score: Returns these entries.
        tell: Returns the sections of the report, from `results.json` alone.
        draw: Draws the figures, by the names of their files, from `results.json` alone.
        measure: Measures a run; what it returns is kept in `RUN/probes/`.
    """

    entries: tuple[str, ...]
    score: Callable[[Comparison], Mapping[str, Any]]
    tell: Callable[[Results], Iterable[Section]]
    draw: Callable[[Results], Mapping[str, Figure]] = _nothing
    measure: Callable[[TrainedRun], Mapping[str, Any]] = _nothing

    def is_in(self, results: Results) -> bool:
        """Says whether a comparison has found anything of this."""
        return any(results.get(entry) for entry in self.entries)


FINDINGS = (
    Finding(("splits",), by_length.score, by_length.tell, by_length.draw),
    Finding(("systems",), cost.score, cost.tell, measure=cost.measure),
    Finding(("differences",), contrasts.score, contrasts.tell),
    Finding(("joined",), joined.score, joined.tell, joined.draw, joined.measure),
    Finding(("slots",), memory_slots.score, memory_slots.tell, memory_slots.draw),
    Finding(
        ("train",),
        training_inputs.score,
        training_inputs.tell,
        training_inputs.draw,
        training_inputs.measure,
    ),
    Finding(("nll",), likelihood.score, likelihood.tell, likelihood.draw, likelihood.measure),
    Finding(("bits",), information.score, information.tell, information.draw, information.measure),
    Finding(
        ("alignment", "attention", "linked_phrases"),
        alignment.score,
        alignment.tell,
        alignment.draw,
        alignment.measure,
    ),
)
