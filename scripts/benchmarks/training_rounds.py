"""Rounds of training as `train.py` trains, measured."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

from benchmarks.isolated import status_mib
from benchmarks.stopwatch import STAGES, Stopwatch, TimedLoader, clock_of
from benchmarks.timing import rate_of
from nmt.config import config_directory
from nmt.data.batch import Batch
from nmt.data.datamodule import TranslationDataModule
from nmt.study.probes.cost import count_training_flops
from nmt.training.run import build_module, build_trainer

WARM_UP = 2  # updates before those that count
_PEAK_SIZE = 8192  # of the square product that shows a GPU's rate
_WITHOUT = ("best", "last", "zero_bleu", "progress")  # callbacks that validate, save or draw


def composed(options: Sequence[str]) -> DictConfig:
    """Returns the config of `train.py` with these options, without validation and checkpoints."""
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return compose(
            "train",
            overrides=[
                *options,
                *(f"~callbacks.{name}" for name in _WITHOUT),
                "+trainer.enable_progress_bar=false",
                "trainer.limit_val_batches=0",
                "num_validations=1",
                "run_dir=.",
            ],
        )


@dataclass(frozen=True)
class RoundOptions:
    """How a side is trained and timed.

    Attributes:
        options: Of train.py.
        device: cpu or cuda.
        threads: Of torch.
        updates: In a round, those to warm up not counted.
    """

    options: tuple[str, ...]
    device: str
    threads: int
    updates: int


class Training:
    """The real path: module, loader and trainer as `train.py` builds them."""

    def __init__(self, options: RoundOptions) -> None:
        self._options = options
        max_steps = WARM_UP + options.updates + 1  # the last one is not followed by another
        self._config = composed([*options.options, f"trainer.max_steps={max_steps}"])
        self._data: TranslationDataModule = instantiate(self._config.data)
        self._data.prepare_data()
        torch.manual_seed(self._config.seed)
        self._module = build_module(self._config, self._data)
        self.facts = self._count()
        if self._config.compile:
            self._module.model.compile(dynamic=True)

    def _count(self) -> dict[str, Any]:
        """Returns what does not depend on the clock."""
        loader = iter(self._data.train_dataloader())
        batches = [next(loader) for _ in range(WARM_UP + self._options.updates)][WARM_UP:]
        tokens = sum(batch.num_target_tokens for batch in batches)
        return {
            "parameters": self._module.model.num_parameters().total,
            "vocab_size": self._module.tokenizer.vocab_size,
            "padding": padding_of(batches),
            "flops_per_target_token": count_training_flops(self._module.model, batches) / tokens,
        }

    def round(self, *, waits: bool) -> dict[str, Any]:
        """Makes the same updates as every round; returns seconds by stage, and rates.

        Args:
            waits: See `clock_of`.
        """
        matmul = self._matmul_rate()
        with tempfile.TemporaryDirectory(prefix="nmt-train-") as folder:
            self._config.run_dir = folder
            trainer = build_trainer(self._config)
            stopwatch = Stopwatch(clock_of(self._options.device, waits=waits))
            trainer.profiler = stopwatch  # type: ignore[attr-defined]
            if self._options.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            trainer.fit(self._module, TimedLoader(self._data.train_dataloader(), stopwatch))
        laps, batches = stopwatch.laps[WARM_UP:], stopwatch.batches[WARM_UP:-1]
        seconds = {stage: sum(lap[stage] for lap in laps) for stage in STAGES}
        tokens = sum(batch.num_target_tokens for batch in batches)
        return {
            "target_tokens_per_second": tokens / sum(seconds.values()),
            "seconds": seconds,
            "matmul_flops_per_second": matmul,
            "peak_mib": self._peak_mib(),
        }

    def _matmul_rate(self) -> float:
        """Operations a second of `torch.mm`: of the feed-forward's size; on a GPU its best."""
        rows, width = int(self._config.data.token_budget), int(self._config.model.width)
        sizes, dtype = (rows, width, 4 * width), torch.float32
        if self._options.device == "cuda":
            sizes, dtype = (_PEAK_SIZE,) * 3, torch.bfloat16
        x = torch.randn(*sizes[:2], device=self._options.device, dtype=dtype)
        weight = torch.randn(*sizes[1:], device=self._options.device, dtype=dtype)
        operations: int = 2 * sizes[0] * sizes[1] * sizes[2]

        def work() -> int:
            torch.mm(x, weight)
            return operations

        clock = clock_of(self._options.device, waits=True)
        work()
        return rate_of(work, 0.2, clock)

    def _peak_mib(self) -> float:
        if self._options.device == "cuda":
            return torch.cuda.max_memory_allocated() / 2**20
        return status_mib("VmHWM")


def padding_of(batches: Sequence[Batch]) -> float:
    """Returns the share of fillers in the source and target of these batches."""
    real = sum(
        batch.num_target_tokens
        + (batch.source.numel() if batch.source_mask is None else int(batch.source_mask.sum()))
        for batch in batches
    )
    return 1 - real / sum(batch.source.numel() + batch.target_in.numel() for batch in batches)


def prepare(options: Sequence[str], *, updates: int) -> None:
    """Makes tokenizer and caches, which would count as memory of training else.

    Raises:
        ValueError: The corpus has too few batches for a round.
    """
    config = composed(options)
    Path(config.data.cache_dir).mkdir(parents=True, exist_ok=True)
    data: TranslationDataModule = instantiate(config.data)
    data.prepare_data()
    batches, needed = len(data.train_dataloader()), WARM_UP + updates + 1
    if batches < needed:
        raise ValueError(
            f"an epoch has {batches} batches but a round takes {needed}: give fewer --updates, a "
            "lower data.token_budget or more data."
        )
