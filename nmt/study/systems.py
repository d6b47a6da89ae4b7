"""Runs become systems: who is the same but for the seed, and who may be compared with whom.

A run is read with everything in its folder, probes included. Runs whose configs differ in their
seed alone are one system. A comparison is some systems on one split, refused where it would compare
what is not comparable, with the translations of all of them ready to be scored on any resample.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from nmt.checks import UserError, dotted
from nmt.evaluation.results import TranslatedSentence, read_objects, read_run
from nmt.study.statistics import SplitScores, bleu_of, score_sentences

# What of a config makes a system. Everything else (seed, folders, threads, device, logging) may
# differ between its runs.
_SECTIONS = (
    *("model", "optimizer", "scheduler", "data", "decoding", "label_smoothing", "trainer"),
    *("num_validations", "callbacks"),
)
_KEPT = {
    "callbacks": {"averaging", "ema", "early_stopping"},
    "trainer": {"max_steps", "max_epochs", "accumulate_grad_batches", "gradient_clip_val"},
}
_IGNORED = {"seed", "_convert_", "cache_dir", "num_workers", "directory", "path", "hub"}
_IGNORED |= {"eval_token_budget", "expected_sizes", "directory_splits"}

PROBES = "probes"  # folder of a run
ROWS = ("joined", "train")  # probes in a file of lines of their own


@dataclass(frozen=True)
class ComparedRun:
    """A finished run: as `Run`, its config by dotted key, and what its probes found."""

    directory: Path
    metrics: Mapping[str, Any]
    splits: Mapping[str, Sequence[TranslatedSentence]]
    model_name: str
    config: Mapping[str, Any]
    probes: Mapping[str, Any]


@dataclass(frozen=True)
class System:
    """Runs that differ in their seed alone, by ascending seed.

    Attributes:
        label: The model's name and what distinguishes it from systems of the same name.
        runs: At least one.
    """

    label: str
    runs: Sequence[ComparedRun]

    @property
    def model_name(self) -> str:
        """The name in the config group of models: "rnn", "bahdanau", ..."""
        return self.runs[0].model_name

    @property
    def config(self) -> Mapping[str, Any]:
        """What the runs share, by dotted key."""
        return self.runs[0].config

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The metrics of the first run."""
        return self.runs[0].metrics

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs."""
        return [_seed(run) for run in self.runs]

    @property
    def memory_slots(self) -> int | None:
        """Vectors that the source is pooled to; None where it is not."""
        return self.config.get("model.memory_slots")

    @property
    def role(self) -> str:
        """Which side of the minimal pair this is: "constant", "attended", or neither: ""."""
        attention = str(self.config.get("model.attention"))
        sides = {"none": "constant", "additive": "attended"}
        return "" if self.memory_slots is not None else sides.get(attention, "")

    def mean(self, key: str) -> float | None:
        """Averages a number of `metrics.json` over the runs; None where one lacks it."""
        values: list[Any] = [run.metrics.get(key) for run in self.runs]
        return None if None in values else float(np.mean(values))


def _seed(run: ComparedRun) -> int:
    return int(run.metrics.get("seed", 0))


@dataclass(frozen=True)
class Comparison:
    """Systems on one split, for the findings to score.

    Attributes:
        systems: In the order of tables.
        scores: The split, then its long companion where all runs have one.
        task: What `results.json` says about the data.
        warnings: What a reader has to know; findings add to it.
    """

    systems: Sequence[System]
    scores: Mapping[str, SplitScores]
    task: Mapping[str, Any]
    warnings: list[str] = field(default_factory=list)

    @property
    def split(self) -> str:
        """The name of the split that is compared on."""
        return next(iter(self.scores))

    @property
    def main(self) -> SplitScores:
        """The scores of that split."""
        return self.scores[self.split]

    @property
    def target_lang(self) -> str:
        """The target language, which decides BLEU's tokenizer."""
        return str(self.task["target_lang"])

    @property
    def shown(self) -> Sequence[System]:
        """The systems for the figures of models: those without memory slots, if any."""
        return [s for s in self.systems if s.memory_slots is None] or self.systems

    def probed(
        self,
        key: str,
        name: str,
        *,
        expected: Sequence[str] | None = None,
        text: Callable[[Any], str] | None = None,
    ) -> dict[str, list[Any]]:
        """Returns what a probe found, by label, then by seed.

        A system has it only if all of its runs do; a warning names those that lack it.

        Args:
            key: Of the probe.
            name: Of it, for people.
            expected: The labels that should have it; None takes all without memory slots.
            text: Returns the text of a row. Rows whose texts differ between runs are left out,
                with a warning: they cannot be compared.
        """
        found: dict[str, list[Any]] = {
            system.label: [run.probes.get(key) for run in system.runs] for system in self.systems
        }
        if expected is None:
            expected = [s.label for s in self.systems if s.memory_slots is None]
        missing = [label for label in expected if not all(found[label])]
        if missing and any(run for runs in found.values() for run in runs):
            names = "; ".join(missing)
            self.warnings.append(f"The probe of {name} is missing in some runs of: {names}.")
        whole = {label: runs for label, runs in found.items() if all(runs)}
        if text and len({tuple(map(text, run)) for runs in whole.values() for run in runs}) > 1:
            self.warnings.append(f"The {name} differ between runs and are left out.")
            return {}
        return whole


def read_comparison(paths: Sequence[Path], *, split: str) -> Comparison:
    """Reads the runs in some folders, to be compared on a split.

    Args:
        paths: Run folders, or folders that hold some.
        split: Where all runs have `<split>_long` as well, it is scored by itself too.

    Raises:
        UserError: if the runs cannot be compared, or files are damaged.
    """
    runs = find_runs(paths)
    long = f"{split}_long"
    splits = [split, long] if all(long in run.splits for run in runs) else [split]
    check_comparable(runs, splits)
    systems = in_order(group_systems(runs))
    scores = {}
    for name in splits:
        scores[name] = score_sentences(
            {s.label: [run.splits[name] for run in s.runs] for s in systems},
            seeds={system.label: system.seeds for system in systems},
            target_lang=systems[0].metrics["target_lang"],
        )
        _check_scores(scores[name], systems, name)
    return Comparison(systems, scores, _task(systems), budget_warnings(systems))


def find_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """Reads run folders, and all runs inside of other folders.

    Raises:
        UserError: if a folder holds no run, or a run is damaged.
    """
    directories = []
    for path in paths:
        found = sorted(file.parent for file in path.rglob("metrics.json"))
        if not found:
            raise UserError(f"{path} holds no metrics.json; name a folder of finished runs.")
        # A folder within a run, such as an evaluation's output, belongs to the run.
        directories += [folder for folder in found if not set(folder.parents) & set(found)]
    unique = {directory.resolve(): directory for directory in directories}
    return [_read(directory) for directory in unique.values()]


def group_systems(runs: Sequence[ComparedRun]) -> list[System]:
    """Puts runs that differ in their seed alone together, in the order of their first runs.

    Raises:
        UserError: if two runs of one system have the same seed.
    """
    groups: dict[str, list[ComparedRun]] = {}
    for run in runs:
        groups.setdefault(config_key(run.model_name, run.config), []).append(run)
    systems = [sorted(group, key=_seed) for group in groups.values()]
    for first, second in (pair for group in systems for pair in pairwise(group)):
        if _seed(first) == _seed(second):
            raise UserError(
                f"{first.directory} and {second.directory} are the same system with the same "
                f"seed {_seed(first)}; name only one of them."
            )
    labels = _labels([group[0] for group in systems])
    return [System(label, group) for label, group in zip(labels, systems, strict=True)]


def config_key(model_name: str, config: Mapping[str, Any]) -> str:
    """Returns a text that is the same for equal options; an absent one equals null."""
    known = sorted((key, repr(value)) for key, value in config.items() if value is not None)
    return repr((model_name, known))


def in_order(systems: Sequence[System]) -> list[System]:
    """Orders systems: one constant context, attention, others, then memory slots from few on.

    Of those that are alike in this, the one with the fewest updates comes first.
    """
    places = {"constant": 0, "attended": 1, "": 2}

    def place(system: System) -> tuple[bool, int, str, int, float]:
        slots, updates = system.memory_slots or 0, system.mean("updates") or 0
        name = system.model_name if slots else ""
        return slots > 0, places[system.role], name, slots, updates

    return sorted(systems, key=place)


def primary_pair(systems: Sequence[System]) -> tuple[System, System] | None:
    """Returns (constant context, attention), the first two trained with as many updates."""
    for constant, attended in product(systems, systems):
        one_budget = constant.mean("updates") == attended.mean("updates")
        if (constant.role, attended.role) == ("constant", "attended") and one_budget:
            return constant, attended
    return None


def check_comparable(runs: Sequence[ComparedRun], splits: Sequence[str]) -> None:
    """Makes sure that all runs translated the same sentences and are scored alike.

    Raises:
        UserError: if a split is missing in a run, or two runs differ in languages, unit of
            length, test set, or BLEU's tokenizer.
    """
    for run, split in product(runs, splits):
        if split not in run.splits:
            raise UserError(
                f"{run.directory} has no split {split!r}, only {', '.join(run.splits)}; "
                "choose another with --split or evaluate the run on it."
            )
    first, *others = runs
    ours = _comparable_facts(first, splits)
    for run in others:
        theirs = _comparable_facts(run, splits)
        for what, value in ours.items():
            if value != theirs[what]:
                raise UserError(
                    f"{first.directory} and {run.directory} cannot be compared: {what} is "
                    f"{value!s:.40} in one and {theirs[what]!s:.40} in the other; compare runs "
                    "where it is the same."
                )


def budget_warnings(systems: Sequence[System]) -> list[str]:
    """Names the differences in training budget, which a comparison must not pass over."""
    warnings = []
    for key, what, tolerance in (
        ("updates", "numbers of updates", 0.0),
        ("target_tokens_seen", "numbers of target tokens", 0.01),
        ("longest_train_source_words", "lengths of the longest input", 0.1),
    ):
        means = {system.label: system.mean(key) for system in systems}
        known = {label: budget for label, budget in means.items() if budget is not None}
        if known and max(known.values()) > (1 + tolerance) * min(known.values()):
            parts = "; ".join(f"{label} {budget:,.0f}" for label, budget in known.items())
            warnings.append(f"The systems were trained on different {what}: {parts}.")
    return warnings


def _comparable_facts(run: ComparedRun, splits: Sequence[str]) -> dict[str, Any]:
    metrics = run.metrics
    signature = str(metrics[splits[0]]["signature"]).split("|")
    return {
        "the source language": metrics.get("source_lang"),
        "the target language": metrics.get("target_lang"),
        "the unit of source length": metrics.get("length_unit"),
        "BLEU's tokenizer": next(part for part in signature if part.startswith("tok:")),
        **{f"the test set {split!r} (sha256)": metrics[split]["sha256"] for split in splits},
    }


def _check_scores(scores: SplitScores, systems: Sequence[System], split: str) -> None:
    """Makes sure that translations score what `metrics.json` says."""
    for system in systems:
        counts = scores.bleu_counts[system.label].sum(1)
        for run, sums in zip(system.runs, counts, strict=True):
            ours, theirs = float(bleu_of(sums)), run.metrics[split]["bleu"]
            # Without any 4-gram, effective order makes the two differ by design.
            if sums[-1] > 0 and abs(ours - theirs) > 0.01:
                raise UserError(
                    f"{run.directory / split}.jsonl scores {ours:.2f} BLEU, metrics.json says "
                    f"{theirs:.2f}; evaluate the run again."
                )


def _task(systems: Sequence[System]) -> dict[str, Any]:
    facts, config = systems[0].metrics, systems[0].config
    joined = {part: config.get(f"data.concatenate.{part}") for part in ("train", "test")}
    return {
        "data": config.get("data.name"),
        "generated": any(key.startswith("data.grammar.") for key in config),
        "source_lang": facts["source_lang"],
        "target_lang": facts["target_lang"],
        "unit": facts["length_unit"],
        "longest_train": max(
            r.metrics["longest_train_source_words"] for s in systems for r in s.runs
        ),
        # The most pairs that were joined to one input in training and in `test_joined`.
        "most_joined": {part: max(sizes) for part, sizes in joined.items() if sizes} or None,
    }


def _read(directory: Path) -> ComparedRun:
    run = read_run(directory)
    if "target_lang" not in run.metrics:  # as in what scripts/evaluate.py writes
        raise UserError(f"{directory} is no training run; name the folder of one.")
    path = directory / "config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    name = run.metrics.get("model_name") or config.get("model_name") or directory.resolve().name
    sections = {key: config[key] for key in _SECTIONS if key in config}
    for section, keys in _KEPT.items():
        options = sections.get(section) or {}
        sections[section] = {key: value for key, value in options.items() if key in keys}
    options = {
        key: value
        for key, value in dotted(sections).items()
        if not _IGNORED.intersection(key.split("."))
    }
    return ComparedRun(
        **vars(run), model_name=str(name), config=options, probes=_read_probes(directory)
    )


def _read_probes(directory: Path) -> dict[str, Any]:
    """Reads what `nmt.study.measure` wrote; {} where it wrote nothing.

    Raises:
        UserError: if a file is damaged, or was made with another checkpoint than the best one.
    """
    found: dict[str, Any] = {}
    for name in ("probes.json", *(f"{row}.jsonl" for row in ROWS)):
        path = directory / PROBES / name
        if path.is_file():
            values = read_objects(path, "run the probes again")
            found |= values[0] if path.suffix == ".json" else {path.stem: values}
    digest, checkpoint = found.get("checkpoint_sha256"), directory / "checkpoints" / "best.ckpt"
    is_known = digest and checkpoint.is_file()
    if is_known and hashlib.sha256(checkpoint.read_bytes()).hexdigest() != digest:
        raise UserError(
            f"{directory / PROBES} was made with another checkpoint than its best.ckpt; run "
            f"`python scripts/probe.py {directory}` again."
        )
    return found


def _labels(runs: Sequence[ComparedRun]) -> list[str]:
    """Names each run by its model and the options that distinguish it from its namesakes."""
    labels = []
    for run in runs:
        namesakes = [other.config for other in runs if other.model_name == run.model_name]
        options = {key: run.config.get(key) for key in _distinguishing_keys(namesakes)}
        parts = [
            f"{key.removesuffix('._target_').split('.')[-1]}={_text(value)}"
            for key, value in options.items()
            if value is not None
        ]
        labels.append(", ".join([run.model_name, *parts]))
    return labels


def _distinguishing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys whose values differ, of keys with the same values only the first."""
    columns: dict[tuple[str, ...], str] = {}
    for key in dict.fromkeys(key for config in configs for key in config):
        values = tuple(_text(config.get(key)) for config in configs)
        if len(set(values)) > 1:
            columns.setdefault(values, key)
    return list(columns.values())


def _text(value: Any) -> str:
    return str(value).split(".")[-1] if str(value).startswith(("nmt.", "torch.")) else str(value)
