"""What a training process is doing, in a file that outlives it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

_WIDTH = 40


@dataclass(frozen=True)
class Phase:
    """A moment of a run.

    Attributes:
        name: starting, training, accumulating, validating, saving or testing.
        update: Updates done.
    """

    name: str
    update: int


def read_phase(path: Path) -> Phase:
    """Returns the newest entry of the file; `starting` where there is none yet."""
    words = path.read_text(encoding="ascii").split() if path.exists() else []
    return Phase(words[0], int(words[1])) if words else Phase("starting", 0)


class PhaseFile(pl.Callback):
    """Writes the phase of rank 0 at every turn; costs microseconds."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Opens the file."""
        if trainer.is_global_zero:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT)

    def _write(self, trainer: pl.Trainer, name: str) -> None:
        if self._file is not None:
            text = f"{name} {trainer.global_step}".ljust(_WIDTH)
            os.pwrite(self._file, text.encode("ascii"), 0)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Tells the first micro-batch of an update from the others, whose gradients add up."""
        within = batch_idx % trainer.accumulate_grad_batches
        self._write(trainer, "accumulating" if within else "training")

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """A validation begins."""
        self._write(trainer, "validating")

    def on_save_checkpoint(self, trainer: pl.Trainer, *args: Any) -> None:
        """A checkpoint is collected, and then written."""
        self._write(trainer, "saving")

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Training is over."""
        self._write(trainer, "testing")
