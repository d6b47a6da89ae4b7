"""What the experiment finds out, in the order of its report.

A finding is a file here and a line in `FINDINGS`. It has four functions: it measures a trained run
(where test translations are not enough), scores a comparison of runs, draws, and tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from matplotlib.figure import Figure

from nmt.study.findings import (
    alignment,
    by_length,
    contrasts,
    cost,
    information,
    joined,
    kinds,
    likelihood,
    linked_phrases,
    memory_slots,
    training_inputs,
)
from nmt.study.presentation import Results, Section
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.study.measure import TrainedRun


class Finding(Protocol):
    """A file of this folder."""

    def measure(self, run: TrainedRun) -> Mapping[str, Any]:
        """Measures a run; the entries are kept in `RUN/probes/`."""

    def score(self, comparison: Comparison) -> Mapping[str, Any]:
        """Returns this finding's entries of `results.json`."""

    def draw(self, results: Results) -> Mapping[str, Figure]:
        """Draws the figures, by the names of their files, from `results.json` alone."""

    def tell(self, results: Results) -> Sequence[Section]:
        """Returns the sections of the report, from `results.json` alone."""


FINDINGS: tuple[Finding, ...] = (
    by_length,
    cost,
    contrasts,
    kinds,
    joined,
    memory_slots,
    training_inputs,
    likelihood,
    information,
    alignment,
    linked_phrases,
)
