"""A tiny corpus of number words ("two one" -> "zwei eins") and whole training runs on it."""

from __future__ import annotations

import csv
import os
import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import hydra
import pytorch_lightning as pl
from hydra.utils import instantiate
from models_for_tests import OPTIONS
from omegaconf import DictConfig, OmegaConf

from nmt.config import config_directory
from nmt.data.datamodule import TranslationDataModule
from nmt.training.module import TranslationModule
from nmt.training.run import build_module, build_trainer, fit

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf"}
GROUPS = ("data", "model", "optimizer", "scheduler", "decoding", "trainer", "callbacks", "logger")

Pairs = list[tuple[str, str]]


def pairs(count: int, *, seed: int = 1, longest: int = 7) -> Pairs:
    """Returns `count` different pairs of 1 to `longest` words."""
    draw = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < count:
        words = draw.choices(list(WORDS), k=draw.randint(1, longest))
        found[" ".join(words)] = " ".join(WORDS[word] for word in words)
    return list(found.items())


def write_split(folder: Path, split: str, content: Pairs) -> list[str]:
    """Writes one split as two files and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for side, language in enumerate(("en", "de")):
        paths.append(folder / f"{split}.{language}")
        lines = "".join(f"{pair[side]}\n" for pair in content)
        whole = paths[-1].with_suffix(f".{os.getpid()}")  # two ranks write the same file
        whole.write_text(lines, encoding="utf-8", newline="\n")
        whole.replace(paths[-1])
    return [str(path) for path in paths]


def corpus_options(folder: Path, **splits: int | Pairs) -> list[str]:
    """Writes the splits (the pairs, or how many to draw) and returns the options for them."""
    asked = {"train": 61, "valid": 7, "test": 5} | splits
    options = ["data=files", "data.source_lang=en", "data.target_lang=de"]
    for seed, (split, content) in enumerate(asked.items()):
        content = pairs(content, seed=seed) if isinstance(content, int) else content
        options.append(f"data.{split}=[{','.join(write_split(folder, split, content))}]")
    return [
        *options,
        f"data.cache_dir={folder / 'cache'}",
        "data.tokenizer.vocab_size=311",
        "data.token_budget=67",
        "data.eval_token_budget=131",
    ]


def model_options(name: str, **changes: Any) -> list[str]:
    """Returns the options of a tiny model, one layer deep."""
    options = OPTIONS[name] | {key: 1 for key in OPTIONS[name] if key.endswith("layers")} | changes
    values = {key: "null" if value is None else value for key, value in options.items()}
    return [f"model={name}", *(f"model.{key}={value}" for key, value in values.items())]


def trainer_options(run_dir: Path, *, max_steps: int, **changes: Any) -> list[str]:
    """Returns the options of a short run on the CPU that logs every update."""
    values = {"max_steps": max_steps, "log_every_n_steps": 1, "precision": "32-true"} | changes
    return [
        "trainer=cpu",
        "scheduler.warmup=3",
        "num_validations=1",
        "label_smoothing=0.1",
        f"run_dir={run_dir}",
        *(f"trainer.{key}={value}" for key, value in values.items()),
    ]


def compose(*options: str) -> DictConfig:
    """Returns the config that `train.py` would get with these options, but no progress bar."""
    groups = tuple(option for option in options if option.split("=")[0] in GROUPS)
    others = [option for option in options if option not in groups]
    values = OmegaConf.from_dotlist(["model_name=tiny", *others])  # Hydra's choice, in train.py
    return OmegaConf.merge(_composed(groups), values)  # type: ignore[return-value]


@lru_cache
def _composed(groups: tuple[str, ...]) -> DictConfig:
    with hydra.initialize_config_dir(str(config_directory()), version_base="1.3"):
        return hydra.compose("train", overrides=[*groups, "~callbacks.progress"])


@dataclass
class Run:
    """The parts of one run of `train.py`, in this process."""

    config: DictConfig
    data: TranslationDataModule
    module: TranslationModule
    trainer: pl.Trainer

    def fit(self) -> Path:
        """Trains, and returns the best checkpoint."""
        return fit(self.config, self.data, self.module, self.trainer)

    def validate(self) -> dict[str, float]:
        """Returns what one validation gives."""
        self.trainer.validate(self.module, datamodule=self.data, verbose=False)
        return {name: value.item() for name, value in self.trainer.callback_metrics.items()}

    @property
    def log(self) -> list[dict[str, str]]:
        """The rows of metrics.csv."""
        path = Path(self.config.run_dir) / "metrics.csv"
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return Path(self.config.run_dir) / "checkpoints"


def make_run(*options: str, callbacks: tuple[pl.Callback, ...] = (), **replaced: Any) -> Run:
    """Builds a run as `train.py` does; `replaced` are whole nodes of the config."""
    config = compose(*options)
    for key, node in replaced.items():
        OmegaConf.update(config, key, node, merge=False)
    pl.seed_everything(config.seed, verbose=False)
    data = instantiate(config.data)
    data.prepare_data()
    module, trainer = build_module(config, data), build_trainer(config)
    trainer.callbacks[:0] = callbacks
    return Run(config, data, module, trainer)


class Crash(pl.Callback):
    """Ends the run with an error in the first micro-batch after this many updates."""

    def __init__(self, updates: int) -> None:
        self.updates = updates

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        if trainer.global_step == self.updates:
            raise RuntimeError("the power failed")
