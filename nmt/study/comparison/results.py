"""Everything a comparison shows, as one plain dict: what `results.json` holds.

Figures and report are drawn from this dict alone, so that the committed numbers redraw them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checks import UserError
from nmt.study.comparison.bootstrap import BOOTSTRAP_SEED, COVERAGE, NUM_RESAMPLES
from nmt.study.comparison.capacity import slot_results
from nmt.study.comparison.contrasts import differences, falls, in_order, paired_tests, role
from nmt.study.comparison.kind_results import kind_results
from nmt.study.comparison.probe_files import Probes, read_probes
from nmt.study.comparison.probe_results import (
    alignment_results,
    attention_results,
    bits_results,
    corpus_bits,
    flops_per_token,
    joined_results,
    nll_results,
    range_entry,
    train_results,
)
from nmt.study.comparison.split_scores import SplitScores, score_sentences
from nmt.study.comparison.sufficient_statistics import bleu_of
from nmt.study.comparison.systems import (
    System,
    budget_warnings,
    check_comparable,
    find_runs,
    group_systems,
    mean_metric,
)

VERSION = 2


def compare(paths: Sequence[Path], *, split: str = "test") -> dict[str, Any]:
    """Compares the runs in some folders on a split.

    Args:
        paths: Run folders, or folders that hold some.
        split: The split to compare on. Where all runs have `<split>_long` as well, it is measured
            by itself and never mixed with it.

    Raises:
        UserError: if the runs cannot be compared (`check_comparable`), or files are damaged.
    """
    runs = find_runs(paths)
    long = f"{split}_long"
    splits = [split, long] if all(long in run.run.splits for run in runs) else [split]
    check_comparable(runs, splits)
    systems = in_order(group_systems(runs))
    probes = read_probes(systems)
    facts = systems[0].metrics
    target_lang = facts["target_lang"]
    scores = {
        name: score_sentences(
            {s.label: [run.run.splits[name] for run in s.runs] for s in systems},
            target_lang=target_lang,
        )
        for name in splits
    }
    for name, found in scores.items():
        _check_scores(found, systems, name)
    shown, task = shown_systems(systems), _task(systems)
    results = {
        "version": VERSION,
        "split": split,
        "task": task,
        "signatures": {  # all is scored with the n-gram orders there are
            "BLEU": facts[split]["signature"].replace("eff:no", "eff:yes"),
            "chrF": facts[split]["chrf_signature"],
        },
        "bootstrap": {
            "seed": BOOTSTRAP_SEED,
            "resamples": NUM_RESAMPLES,
            "coverage": COVERAGE,
            "documents": scores[split].has_documents,
        },
        "warnings": [*budget_warnings(systems), *probes.notes],
        "systems": [_system(system, probes, is_shown=system in shown) for system in systems],
        "splits": {name: _split(found, facts[name]) for name, found in scores.items()},
        "falls": falls(scores[split], systems, task),
        **_contrasts(scores[split], shown, task),
        "kinds": kind_results(
            {s.label: scores[split].sentences[s.label] for s in shown}, target_lang=target_lang
        ),
        **_probed(scores[split], systems, probes, split),
        "example": _example(scores[split], shown, task["longest_train"]),
    }
    return plain(results)


def plain(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what reading `results.json` gives: floats of six digits, no tuples."""
    return dict(json.loads(json.dumps(_rounded(results), allow_nan=False)))


def shown_systems(systems: Sequence[System]) -> list[System]:
    """Returns the systems for the figures of models: those without memory slots, if any."""
    return [system for system in systems if system.memory_slots is None] or list(systems)


def write_results(path: Path, results: Mapping[str, Any]) -> Path:
    """Writes `results.json` and returns its path."""
    text = json.dumps(results, ensure_ascii=False, indent=1, sort_keys=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
    return path


def read_results(path: Path) -> dict[str, Any]:
    """Reads `results.json`.

    Raises:
        UserError: if it is missing, damaged, or of another version.
    """
    try:
        results = dict(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; name a results.json.") from error
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); compare the runs again.") from error
    if results.get("version") != VERSION:
        raise UserError(
            f"{path} has version {results.get('version')!r}, not {VERSION}; name a results.json "
            "that this program wrote or compare the runs again."
        )
    return results


def _check_scores(scores: SplitScores, systems: Sequence[System], split: str) -> None:
    """Makes sure that translations score what `metrics.json` says."""
    for system in systems:
        counts = scores.bleu_counts[system.label].sum(1)
        for run, sums in zip(system.runs, counts, strict=True):
            ours, theirs = float(bleu_of(sums)), run.run.metrics[split]["bleu"]
            # Without any 4-gram, effective order makes the two differ by design.
            if sums[-1] > 0 and abs(ours - theirs) > 0.01:
                raise UserError(
                    f"{run.directory / split}.jsonl scores {ours:.2f} BLEU, metrics.json says "
                    f"{theirs:.2f}; evaluate the run again."
                )


def _contrasts(
    scores: SplitScores, systems: Sequence[System], task: Mapping[str, Any]
) -> dict[str, Any]:
    if len(systems) < 2:
        return {"differences": [], "tests": None}
    return {
        "differences": differences(scores, systems, task),
        "tests": paired_tests(scores, systems, target_lang=task["target_lang"]),
    }


def _probed(
    scores: SplitScores, systems: Sequence[System], probes: Probes, split: str
) -> dict[str, Any]:
    target_lang = systems[0].metrics["target_lang"]
    bits = corpus_bits(probes, split, len(scores.lengths))
    labels = [system.label for system in shown_systems(systems)]
    joined = joined_results(probes, target_lang=target_lang)
    train, nll = train_results(probes, target_lang=target_lang), nll_results(probes, split)
    return {
        # Figures draw the shown systems: without any of them there is none.
        "joined": joined
        if joined and any(label in joined["systems"] for label in labels)
        else None,
        "train": train if train and any(label in train for label in labels) else None,
        "slots": slot_results(scores, systems, bits),
        "nll": nll if nll and any(label in nll for label in labels) else None,
        "bits": bits_results(scores, labels, bits),
        "alignment": alignment_results(probes),
        "attention": attention_results(probes),
    }


def _task(systems: Sequence[System]) -> dict[str, Any]:
    facts = systems[0].metrics
    longest = {run.run.metrics["longest_train_source_words"] for s in systems for run in s.runs}
    return {
        "data": systems[0].config.get("data.name"),
        "source_lang": facts["source_lang"],
        "target_lang": facts["target_lang"],
        "unit": facts["length_unit"],
        "longest_train": max(longest),
        "most_joined": _most_joined(systems[0].config),
    }


def _most_joined(config: Mapping[str, Any]) -> dict[str, int] | None:
    """Returns the most pairs that were joined to one input in training and in `test_joined`."""
    sizes = {part: config.get(f"data.concatenate.{part}") for part in ("train", "test")}
    return {part: max(each) for part, each in sizes.items() if each} or None


def _system(system: System, probes: Probes, *, is_shown: bool) -> dict[str, Any]:
    parameters = system.metrics.get("num_parameters") or {}
    total, embedding = parameters.get("total"), parameters.get("embedding")
    return {
        "label": system.label,
        "model_name": system.model_name,
        "role": role(system),
        "memory_slots": system.memory_slots,
        "shown": is_shown,
        "seeds": [run.seed for run in system.runs],
        "runs": [run.directory.name for run in system.runs],
        "embedding_parameters": embedding,
        "other_parameters": None if total is None else total - embedding,
        "updates": mean_metric(system, "updates"),
        "target_tokens": mean_metric(system, "target_tokens_seen"),
        "seconds": mean_metric(system, "seconds"),
        "flops_per_target_token": flops_per_token(probes, system.label),
        "device": system.metrics.get("device"),
        # Without that of the data: paths are of the machine that trained.
        "config": {k: v for k, v in system.config.items() if not k.startswith("data.")},
    }


def _split(scores: SplitScores, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "num_sentences": len(scores.lengths),
        "sha256": entry["sha256"],
        "systems": {
            label: {
                "overall": scores.summary(label, scores.everything),
                "buckets": [range_entry(scores, label, each) for each in scores.ranges],
            }
            for label in scores.sentences
        },
    }


def _example(scores: SplitScores, systems: Sequence[System], longest_train: int) -> dict[str, Any]:
    """Picks the longest input within the lengths of training (of several, the first).

    Where all are longer, the longest of all.
    """
    lengths = scores.lengths
    within = [i for i, length in enumerate(lengths) if length <= longest_train]
    place = max(within or range(len(lengths)), key=lambda index: (lengths[index], -index))
    chosen = scores.texts[place]
    return {
        "index": chosen.index,
        "source_words": chosen.source_words,
        "source": chosen.source,
        "reference": chosen.reference,
        "hypotheses": {s.label: scores.sentences[s.label][0][place].hypothesis for s in systems},
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(round(value)) if 1e5 < abs(value) < 1e15 else float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    return value
