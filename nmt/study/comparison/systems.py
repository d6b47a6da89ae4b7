"""Which runs are the same system under another seed, and whether systems may be compared at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from nmt.checks import UserError
from nmt.evaluation.results import Run, read_run

# What of a config makes a system. Everything else (seed, folders, threads, device, logging) may
# differ between its runs.
_SECTIONS = (
    *("model", "optimizer", "scheduler", "data", "decoding", "label_smoothing", "trainer"),
    *("num_validations", "callbacks"),
)
_CALLBACKS = ("averaging", "ema", "early_stopping")
_TRAINER_KEYS = ("max_steps", "max_epochs", "accumulate_grad_batches", "gradient_clip_val")
_SLOTS = "model.memory_slots"
_IGNORED = {"seed", "_convert_", "cache_dir", "num_workers", "directory", "path", "hub"}
_IGNORED |= {"eval_token_budget", "expected_sizes", "directory_splits"}


@dataclass(frozen=True)
class ComparedRun:
    """A finished run: its results, its config with dotted keys, and what tells it apart."""

    run: Run
    config: Mapping[str, Any]
    model_name: str

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return int(self.run.metrics.get("seed", 0))

    @property
    def directory(self) -> Path:
        """The run folder."""
        return self.run.directory


@dataclass(frozen=True)
class System:
    """Runs that differ in their seed alone, by ascending seed.

    Attributes:
        label: The model's name and what tells it from systems of the same name.
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
        return self.runs[0].run.metrics

    @property
    def memory_slots(self) -> int | None:
        """Vectors that the source is pooled to; None where it is not."""
        return self.config.get(_SLOTS)


def find_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """Reads run folders, and all runs inside of other folders.

    Raises:
        UserError: if a folder holds no run, or a run is damaged.
    """
    directories = []
    for path in paths:
        found = sorted(file.parent for file in path.rglob("metrics.json"))
        if not found:
            raise UserError(
                f"{path} holds no metrics.json; name the folder of a finished run or of several."
            )
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
    systems = [sorted(group, key=lambda run: run.seed) for group in groups.values()]
    for group in systems:
        for first, second in pairwise(group):
            if first.seed == second.seed:
                raise UserError(
                    f"{first.directory} and {second.directory} are the same system with the same "
                    f"seed {first.seed}; name only one of them."
                )
    labels = _labels([group[0] for group in systems])
    return [System(label, group) for label, group in zip(labels, systems, strict=True)]


def config_key(model_name: str, config: Mapping[str, Any]) -> str:
    """Returns a text that is the same for equal options; an absent one equals null."""
    known = sorted((key, repr(value)) for key, value in config.items() if value is not None)
    return repr((model_name, known))


def check_comparable(runs: Sequence[ComparedRun], splits: Sequence[str]) -> None:
    """Makes sure that all runs translated the same sentences and are scored alike.

    Raises:
        UserError: if a split is missing in a run, or two runs differ in languages, unit of
            length, test set, or BLEU's tokenizer.
    """
    for run in runs:
        for split in splits:
            if split not in run.run.splits:
                there = ", ".join(run.run.splits) or "none"
                raise UserError(
                    f"{run.directory} has no split {split!r}, only {there}; "
                    "choose another with --split or evaluate the run on it."
                )
    first = runs[0]
    for run in runs[1:]:
        for what, of in _comparable_facts(splits).items():
            ours, theirs = of(first), of(run)
            if ours != theirs:
                raise UserError(
                    f"{first.directory} and {run.directory} cannot be compared: {what} is "
                    f"{ours!s:.40} in one and {theirs!s:.40} in the other; compare runs where it "
                    "is the same."
                )


def budget_warnings(systems: Sequence[System]) -> list[str]:
    """Names the differences in training budget, which a comparison must not pass over."""
    warnings = []
    for key, what, tolerance in (
        ("updates", "numbers of updates", 0.0),
        ("target_tokens_seen", "numbers of target tokens", 0.01),
        ("longest_train_source_words", "lengths of the longest input", 0.1),
    ):
        budgets = {system.label: mean_metric(system, key) for system in systems}
        known = [budget for budget in budgets.values() if budget is not None]
        if known and max(known) > (1 + tolerance) * min(known):
            parts = (f"{label} {b:,.0f}" for label, b in budgets.items() if b is not None)
            warnings.append(
                f"The systems were trained on different {what}: " + "; ".join(parts) + "."
            )
    return warnings


def mean_metric(system: System, key: str) -> float | None:
    """Averages a number of `metrics.json` over the runs of a system; None where one lacks it."""
    values = [run.run.metrics.get(key) for run in system.runs]
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _read(directory: Path) -> ComparedRun:
    run = read_run(directory)
    if "target_lang" not in run.metrics:
        raise UserError(
            f"{directory}/metrics.json names no target_lang; name the folder of a training run."
        )
    path = directory / "config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    name = run.metrics.get("model_name") or config.get("model_name") or directory.resolve().name
    kept = {key: config[key] for key in _SECTIONS if key in config}
    trainer = kept.get("trainer") or {}
    kept["trainer"] = {key: trainer[key] for key in _TRAINER_KEYS if key in trainer}
    callbacks = kept.get("callbacks") or {}
    kept["callbacks"] = {key: callbacks[key] for key in _CALLBACKS if key in callbacks}
    return ComparedRun(run=run, config=_flatten(kept), model_name=str(name))


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key in _IGNORED:
            continue
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _labels(runs: Sequence[ComparedRun]) -> list[str]:
    labels = []
    for run in runs:
        namesakes = [other for other in runs if other.model_name == run.model_name]
        keys = _telling_keys([other.config for other in namesakes])
        options = {key: run.config.get(key) for key in keys}
        parts = [f"{_short_name(k)}={_text(v)}" for k, v in options.items() if v is not None]
        labels.append(", ".join([run.model_name, *parts]))
    return labels


def _telling_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys whose values differ, of keys with the same values only the first."""
    columns: dict[str, str] = {}
    for key in dict.fromkeys(key for config in configs for key in config):
        values = [_text(config.get(key)) for config in configs]
        if len(set(values)) > 1:
            columns.setdefault(repr(values), key)
    return list(columns.values())


def _short_name(key: str) -> str:
    return key.removesuffix("._target_").split(".")[-1]


def _text(value: Any) -> str:
    return str(value).split(".")[-1] if str(value).startswith(("nmt.", "torch.")) else str(value)


def _comparable_facts(splits: Sequence[str]) -> dict[str, Any]:
    def test_set(split: str) -> Any:
        return lambda run: run.run.metrics[split]["sha256"]

    def tokenizer(run: ComparedRun) -> str:
        signature = str(run.run.metrics[splits[0]]["signature"])
        return next(part for part in signature.split("|") if part.startswith("tok:"))

    return {
        "the source language": lambda run: run.run.metrics.get("source_lang"),
        "the target language": lambda run: run.run.metrics.get("target_lang"),
        "the unit of source length": lambda run: run.run.metrics.get("length_unit"),
        "BLEU's tokenizer": tokenizer,
        **{f"the test set {split!r} (sha256)": test_set(split) for split in splits},
    }
