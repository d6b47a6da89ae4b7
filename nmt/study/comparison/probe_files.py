"""Reads what the probes of runs wrote (RUN/probes/)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.checks import UserError
from nmt.evaluation.results import TranslatedSentence
from nmt.study.comparison.systems import System


@dataclass(frozen=True)
class Probes:
    """The probes of all runs, by the label of a system, then by seed; absent ones are left out.

    Attributes:
        joined: Rows of `joined.jsonl`.
        train: Rows of `train.jsonl`.
        values: `probes.json`, {} where there is none.
        notes: What only some of the runs have.
    """

    joined: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
    train: Mapping[str, Sequence[Sequence[TranslatedSentence]]]
    values: Mapping[str, Sequence[Mapping[str, Any]]]
    notes: Sequence[str]


def read_probes(systems: Sequence[System]) -> Probes:
    """Reads what there is; a system has a probe only if all of its runs have it.

    Raises:
        UserError: if a file is damaged, or the probes of a run are not of its best checkpoint.
    """
    values = {s.label: [_read_values(run.directory) for run in s.runs] for s in systems}
    expected = [s.label for s in systems if s.memory_slots is None]
    attending = [label for label in expected if any("attention" in run for run in values[label])]
    joined = {s.label: [_read_rows(run.directory, "joined") for run in s.runs] for s in systems}
    train = {s.label: [_read_rows(run.directory, "train") for run in s.runs] for s in systems}
    notes = [
        _partial("joined inputs", joined, expected),
        _partial("training sentences", train, expected),
    ]
    for key, name, labels in (
        ("nll", "likelihood by position", expected),
        ("alignment", "alignment", attending),
        ("attention", "attention weights", attending),
    ):
        rows = {label: [found.get(key) for found in runs] for label, runs in values.items()}
        notes.append(_partial(name, rows, labels))
    sentences = {
        label: [[TranslatedSentence(**row) for row in rows] for rows in runs]
        for label, runs in _complete(train).items()
    }
    joined_kept, joined_note = _same_texts(
        _complete(joined), "joined inputs", lambda row: row["reference"]
    )
    train_kept, train_note = _same_texts(sentences, "training sentences", lambda row: row.source)
    notes += [joined_note, train_note]
    return Probes(
        joined=joined_kept,
        train=train_kept,
        values=values,
        notes=[note for note in notes if note],
    )


def _check_current(directory: Path, digest: str | None) -> None:
    """Makes sure, where the checkpoint is still there, that it is the one that was probed."""
    checkpoint = directory / "checkpoints" / "best.ckpt"
    if not digest or not checkpoint.is_file():
        return
    if hashlib.sha256(checkpoint.read_bytes()).hexdigest() != digest:
        raise UserError(
            f"{directory}/probes was made with another checkpoint than its best.ckpt; run "
            f"`python scripts/probe.py {directory}` again."
        )


def _complete(rows: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Keeps the systems all of whose runs have a probe."""
    return {label: list(runs) for label, runs in rows.items() if all(runs)}


def _partial(name: str, rows: Mapping[str, Sequence[Any]], expected: Sequence[str]) -> str:
    """Names the systems that should have a probe and lack it, if any run has it at all."""
    missing = [label for label in expected if not all(rows[label])]
    if not missing or not any(run for runs in rows.values() for run in runs):
        return ""
    return f"The probe of {name} is missing in some runs of: {'; '.join(missing)}."


def _same_texts(
    rows: Mapping[str, list[Any]], name: str, text: Callable[[Any], str]
) -> tuple[dict[str, list[Any]], str]:
    """Drops a probe whose texts differ between runs, for then nothing is comparable."""
    kinds = {tuple(text(row) for row in run) for runs in rows.values() for run in runs}
    if len(kinds) > 1:
        return {}, f"The {name} differ between runs and are left out."
    return dict(rows), ""


def _read_values(directory: Path) -> dict[str, Any]:
    path = directory / "probes" / "probes.json"
    if not path.is_file():
        return {}
    try:
        values = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); run the probes again.") from error
    _check_current(directory, values.get("checkpoint_sha256"))
    return values


def _read_rows(directory: Path, name: str) -> list[dict[str, Any]]:
    path = directory / "probes" / f"{name}.jsonl"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="\n") as lines:
        try:
            return [dict(json.loads(line)) for line in lines]
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} is damaged ({error}); run the probes again.") from error
