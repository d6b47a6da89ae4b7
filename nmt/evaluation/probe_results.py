"""What the probes of runs found (RUN/probes/), averaged over seeds for a comparison.

A probe that no run has leaves its part of the results None; one that only some have is named.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.evaluation.contrasts import role
from nmt.evaluation.run_results import TranslatedSentence
from nmt.evaluation.split_scores import LengthRange, SplitScores, measured_entry, score_sentences
from nmt.evaluation.systems import System

NUM_HEAT_MAPS = 3
NUM_BIT_RANGES = 6


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
        ValueError: if a file is damaged.
    """
    values = {s.label: [_read_values(run.directory) for run in s.runs] for s in systems}
    expected = [s.label for s in systems if s.memory_slots is None]
    attending = [s.label for s in systems if s.memory_slots is None and role(s) != "constant"]
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


def joined_results(probes: Probes, *, target_lang: str) -> dict[str, Any] | None:
    """Scores inputs joined into one and the same sentences translated alone, by number joined."""
    if not probes.joined:
        return None
    first = next(iter(probes.joined.values()))[0]
    numbers = np.array([row["num_joined"] for row in first])
    words = np.array([row["source_words"] for row in first])
    sizes = sorted(set(numbers.tolist()))
    groups = [np.flatnonzero(numbers == size) for size in sizes]
    systems = {}
    for label, runs in probes.joined.items():
        texts = {kind: [_joined_rows(rows, kind) for rows in runs] for kind in ("joined", "alone")}
        scores = score_sentences(texts, target_lang=target_lang, strata=numbers.tolist())
        systems[label] = {
            kind: [measured_entry(scores.bleu(kind, members)) for members in groups]
            for kind in texts
        }
    return {
        "groups": [
            {"num_joined": size, "source_words": float(words[g].mean()), "num_groups": len(g)}
            for size, g in zip(sizes, groups, strict=True)
        ],
        "systems": systems,
    }


def train_results(probes: Probes, *, target_lang: str) -> dict[str, Any] | None:
    """Scores translations of training sentences by length."""
    if not probes.train:
        return None
    scores = score_sentences(probes.train, target_lang=target_lang)
    return {
        label: {
            "num_sentences": len(scores.lengths),
            "buckets": [range_entry(scores, label, each) for each in scores.ranges],
        }
        for label in probes.train
    }


def range_entry(scores: SplitScores, label: str, each: LengthRange) -> dict[str, Any]:
    """Returns the scores of a system in one length range, as plain values."""
    return {
        "range": each.label,
        "low": each.low,
        "high": each.high,
        **scores.summary(label, each.members),
    }


def nll_results(probes: Probes, split: str) -> dict[str, Any] | None:
    """Averages the negative log-likelihood of target tokens by input length and position."""
    found: dict[str, Any] = {}
    for label, runs in probes.values.items():
        tables = [(run.get("nll") or {}).get(split, []) for run in runs]
        if all(tables):
            found[label] = _nll_ranges(tables)
    return found or None


def corpus_bits(probes: Probes, split: str, num_sentences: int) -> list[float] | None:
    """Returns the information of each test sentence in bits, where any run knows it.

    Raises:
        ValueError: if there are not as many as sentences.
    """
    for label, runs in probes.values.items():
        for run in runs:
            bits = (run.get("bits") or {}).get(split)
            if bits is None:
                continue
            if len(bits) != num_sentences:
                raise ValueError(
                    f"probes.json of {label} has bits of {len(bits)} sentences, {split!r} has "
                    f"{num_sentences}; run its probes again."
                )
            return [float(value) for value in bits]
    return None


def bits_results(
    scores: SplitScores, labels: Sequence[str], bits: Sequence[float] | None
) -> dict[str, Any] | None:
    """Scores ranges of information that hold about as many sentences each."""
    if bits is None:
        return None
    order = np.argsort(np.array(bits), kind="stable")
    groups = [np.sort(group) for group in np.array_split(order, NUM_BIT_RANGES) if len(group)]
    values = np.array(bits)
    return {
        "ranges": [
            {
                "low": float(values[group].min()),
                "high": float(values[group].max()),
                "mean": float(values[group].mean()),
                "num_sentences": len(group),
            }
            for group in groups
        ],
        "systems": {
            label: [measured_entry(scores.bleu(label, group)) for group in groups]
            for label in labels
        },
    }


def alignment_results(probes: Probes) -> dict[str, Any] | None:
    """Averages the alignment error rate, precision and recall over seeds."""
    found = {}
    for label, runs in probes.values.items():
        rows = [run["alignment"] for run in runs if run.get("alignment")]
        if rows:
            keys = ("aer", "precision", "recall")
            found[label] = {key: float(np.mean([row[key] for row in rows])) for key in keys} | {
                "layers": sorted({row["layer"] for row in rows}),
                "by_seed": [row["aer"] for row in rows],
                "num_sentences": rows[0]["num_sentences"],
            }
    return found or None


def attention_results(probes: Probes, split: str) -> list[dict[str, Any]] | None:
    """Picks the first sentences that all systems with attention weights share, one seed each."""
    maps: dict[str, dict[int, Mapping[str, Any]]] = {}
    for label, runs in probes.values.items():
        entries = [e for e in runs[0].get("attention") or () if e["split"] == split]
        if entries:
            maps[label] = {entry["index"]: entry for entry in entries}
    if not maps:
        return None
    shared = sorted(set.intersection(*(set(entries) for entries in maps.values())))
    return [
        {
            "index": index,
            "systems": {
                label: {
                    "source_words": entries[index]["source_words"],
                    "target_words": entries[index]["target_words"],
                    "weights": [[round(w, 3) for w in row] for row in entries[index]["weights"]],
                }
                for label, entries in maps.items()
            },
        }
        for index in shared[:NUM_HEAT_MAPS]
    ] or None


def flops_per_token(probes: Probes, label: str) -> float | None:
    """Returns the floating-point operations of a target token, where a run counted them."""
    counted = [run.get("flops_per_target_token") for run in probes.values[label]]
    return next((float(flops) for flops in counted if flops is not None), None)


def _joined_rows(rows: Sequence[Mapping[str, Any]], kind: str) -> list[TranslatedSentence]:
    return [
        TranslatedSentence(
            index=index,
            source="",
            reference=row["reference"],
            hypothesis=row[kind],
            score=0.0,
            source_words=row["source_words"],
        )
        for index, row in enumerate(rows)
    ]


def _nll_ranges(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Adds up the tables of several runs, matched by length range and position."""
    sums: dict[tuple[int, int | None], dict[tuple[int, int | None], list[float]]] = {}
    for row in (row for table in tables for row in table):
        positions = sums.setdefault((row["low"], row["high"]), {})
        for place in row["positions"]:
            total = positions.setdefault((place["low"], place["high"]), [0.0, 0.0])
            total[0] += place["nll"]
            total[1] += place["tokens"]
    return [
        {
            "low": low,
            "high": high,
            "positions": [
                {"low": start, "high": end, "nll": nll / tokens, "tokens": int(tokens)}
                for (start, end), (nll, tokens) in positions.items()
                if tokens
            ],
        }
        for (low, high), positions in sums.items()
    ]


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
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}); run the probes again.") from error


def _read_rows(directory: Path, name: str) -> list[dict[str, Any]]:
    path = directory / "probes" / f"{name}.jsonl"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="\n") as lines:
        try:
            return [dict(json.loads(line)) for line in lines]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}); run the probes again.") from error
