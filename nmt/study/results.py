"""Everything a comparison found, as one plain dict: what `results.json` holds.

Figures and report are drawn from this dict alone, so that the committed numbers redraw them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checks import UserError
from nmt.evaluation.results import read_objects
from nmt.study.findings import FINDINGS
from nmt.study.statistics import BOOTSTRAP_SEED, COVERAGE, NUM_RESAMPLES
from nmt.study.systems import read_comparison

VERSION = 2


def compare(paths: Sequence[Path], *, split: str = "test") -> dict[str, Any]:
    """Compares the runs in some folders on a split.

    Args:
        paths: Run folders, or folders that hold some.
        split: The split to compare on. Where all runs have `<split>_long` as well, it is measured
            by itself and never mixed with it.

    Raises:
        UserError: if the runs cannot be compared, or files are damaged.
    """
    comparison = read_comparison(paths, split=split)
    facts = comparison.systems[0].metrics[split]
    results: dict[str, Any] = {
        "version": VERSION,
        "split": split,
        "task": comparison.task,
        "signatures": {  # all is scored with the n-gram orders there are
            "BLEU": facts["signature"].replace("eff:no", "eff:yes"),
            "chrF": facts["chrf_signature"],
        },
        "bootstrap": {
            "seed": BOOTSTRAP_SEED,
            "resamples": NUM_RESAMPLES,
            "coverage": COVERAGE,
            "seeds": "t",  # in older files seeds were resampled
            "documents": comparison.main.has_documents,
        },
        "warnings": comparison.warnings,
    }
    for finding in FINDINGS:
        results |= finding.score(comparison)
    return plain(results)


def plain(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what reading `results.json` gives: floats of six digits, no tuples."""
    return dict(json.loads(json.dumps(_rounded(results), allow_nan=False)))


def write_results(path: Path, results: Mapping[str, Any]) -> Path:
    """Writes `results.json`, on one line, and returns its path."""
    text = json.dumps(results, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
    return path


def read_results(path: Path) -> dict[str, Any]:
    """Reads `results.json`.

    Raises:
        UserError: if it is missing, damaged, or of another version.
    """
    (results,) = read_objects(path, "name a results.json or compare the runs again")
    if results.get("version") != VERSION:
        raise UserError(
            f"{path} has version {results.get('version')!r}, not {VERSION}; name a results.json "
            "that this program wrote or compare the runs again."
        )
    return results


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(round(value)) if 1e5 < abs(value) < 1e15 else float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    return value
