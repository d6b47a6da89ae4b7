"""One start of a training on a large corpus, measured; a program that `corpus` runs twice.

Prints seconds and MiB as JSON, in its last line.
"""

# ruff: noqa: E402 (the imports are measured)

import time

_BEGIN = time.monotonic()

import json
import os
import sys

import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate

from benchmarks.isolated import status_mib
from nmt.config import config_directory
from nmt.data.datamodule import TranslationDataModule
from nmt.training.run import build_module, build_trainer, fit


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of its forks that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Clock:
    """Notes for each step its wall time, and its CPU time, which other programs hardly change."""

    def __init__(self, begin: float) -> None:
        self.seconds: dict[str, dict[str, float]] = {}
        self._last = {"wall": begin, "cpu": 0.0}

    def note(self, step: str) -> None:
        """Says which step has just ended."""
        now = {"wall": time.monotonic(), "cpu": cpu_seconds()}
        self.seconds[step] = {kind: now[kind] - self._last[kind] for kind in now}
        self._last = now


def main() -> None:
    """Starts with the options on the command line."""
    clock = Clock(_BEGIN)
    clock.note("import")
    with hydra.initialize_config_dir(str(config_directory()), version_base="1.3"):
        quiet = ["~callbacks.progress", "+trainer.enable_progress_bar=false", "model_name=model"]
        config = hydra.compose("train", overrides=[*sys.argv[1:], *quiet])
    torch.set_num_threads(config.threads)
    pl.seed_everything(config.seed, verbose=False)
    data: TranslationDataModule = instantiate(config.data)
    clock.note("options")
    data.split("train")
    clock.note("read and clean")
    _ = data.tokenizer
    clock.note("tokenizer")
    data.prepare_data()
    clock.note("other splits, encode")
    memory = {"prepared": status_mib("VmHWM")}
    loader = data.train_dataloader()
    next(iter(loader.sampler))
    clock.note("batches of an epoch")
    trainer, module = build_trainer(config), build_module(config, data)
    fit(config, data, module, trainer)
    clock.note("updates")
    memory["trained"] = status_mib("VmHWM")
    print(json.dumps({"seconds": clock.seconds, "peak_mib": memory}))


if __name__ == "__main__":
    main()
