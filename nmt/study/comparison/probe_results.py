"""What the probes of runs found, averaged over seeds for a comparison.

A probe that no run has leaves its part of the results None; one that only some have is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nmt.checks import UserError
from nmt.evaluation.results import TranslatedSentence
from nmt.study.comparison.probe_files import Probes
from nmt.study.comparison.split_scores import LengthRange, SplitScores, score_sentences

NUM_BIT_RANGES = 6


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
        measured = {kind: [scores.bleu(kind, members) for members in groups] for kind in texts}
        systems[label] = {
            **{kind: [each.entry() for each in found] for kind, found in measured.items()},
            "difference": [
                long.minus(short).entry()
                for long, short in zip(measured["joined"], measured["alone"], strict=True)
            ],
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
        UserError: if there are not as many as sentences.
    """
    for label, runs in probes.values.items():
        for run in runs:
            bits = (run.get("bits") or {}).get(split)
            if bits is None:
                continue
            if len(bits) != num_sentences:
                raise UserError(
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
            label: [scores.bleu(label, group).entry() for group in groups] for label in labels
        },
    }


def alignment_results(probes: Probes) -> dict[str, Any] | None:
    """Averages the alignment error rate, precision and recall over seeds."""
    found = {}
    for label, runs in probes.values.items():
        rows = [run["alignment"] for run in runs if run.get("alignment")]
        if len(rows) == len(runs):
            keys = ("aer", "precision", "recall")
            found[label] = {key: float(np.mean([row[key] for row in rows])) for key in keys} | {
                "layers": sorted({row["layer"] for row in rows}),
                "by_seed": [row["aer"] for row in rows],
                "num_sentences": rows[0]["num_sentences"],
            }
    return found or None


def attention_results(probes: Probes) -> list[dict[str, Any]] | None:
    """Picks the sentences that all systems with attention weights share, one seed each."""
    maps = {
        label: {(entry["split"], entry["index"]): entry for entry in runs[0]["attention"]}
        for label, runs in probes.values.items()
        if runs[0].get("attention")
    }
    shared = sorted(set.intersection(*map(set, maps.values()))) if maps else []
    return [
        {
            "split": key[0],
            "index": key[1],
            "systems": {label: _heat_map(entries[key]) for label, entries in maps.items()},
        }
        for key in shared
    ] or None


def _heat_map(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source_words": entry["source_words"],
        "target_words": entry["target_words"],
        "weights": [[round(weight, 3) for weight in row] for row in entry["weights"]],
    }


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
