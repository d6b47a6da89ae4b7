"""Callbacks of our own; all others are Lightning's."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar
from torch import Tensor


class LastCheckpoint(pl.Callback):
    """Keeps `last.ckpt`, from which a run continues exactly; the final update included.

    It is written only in `on_train_batch_end` and only between updates: there the loader's
    position, the optimizer and the counters agree.

    Args:
        directory: Where `last.ckpt` goes.
        every_n_updates: How much work a killed run may lose.
    """

    def __init__(self, directory: str, every_n_updates: int = 200) -> None:
        if every_n_updates < 1:
            raise ValueError(
                f"callbacks.last.every_n_updates={every_n_updates}: give a number >= 1."
            )
        self.path = Path(directory) / "last.ckpt"
        self.every_n_updates = every_n_updates
        self._saved_update = 0

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """Saves when this micro-batch completed an update whose turn it is."""
        update = trainer.global_step
        due = update % self.every_n_updates == 0 or update == trainer.max_steps
        if due and update > self._saved_update:
            self._saved_update = update
            trainer.save_checkpoint(self.path)


class ProgressBar(TQDMProgressBar):
    """Lightning's bar without the version number, refreshed about once a second."""

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__(refresh_rate=refresh_rate)

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """Returns what stands behind the bar."""
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return {name: _short(value) for name, value in metrics.items()}


def _short(value: Any) -> Any:
    """Returns a number with four significant digits, for a narrow terminal."""
    if isinstance(value, Tensor):
        value = value.item()
    return f"{value:.4g}" if isinstance(value, float) else value
