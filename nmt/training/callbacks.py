"""Callbacks of our own; all others are Lightning's."""

import signal
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint, TQDMProgressBar
from torch import Tensor

from nmt.training.stopping import Stopped, StopSignals


class LastCheckpoint(Checkpoint):
    """Keeps `last.ckpt`, from which a run continues exactly; the final update included.

    It is written only between updates, where the loader's position, the optimizer and the counters
    agree; and where a validation follows only after it, so that the best score so far is known.
    A signal that asks the run to stop (`nmt.training.stopping`) is granted there as well.

    Args:
        directory: Where `last.ckpt` goes.
        every_n_updates: How much work a killed run may lose.
    """

    def __init__(self, directory: str, every_n_updates: int) -> None:
        super().__init__()
        if every_n_updates < 1:
            raise ValueError(
                f"callbacks.last.every_n_updates={every_n_updates}: give a number >= 1."
            )
        self.path = Path(directory) / "last.ckpt"
        self.every_n_updates = every_n_updates
        self._updates = 0
        self._between_updates = False
        self._due = False
        self._signals = StopSignals()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes up the count, which a resumed run does not begin at 0, and listens to signals."""
        self._updates = trainer.global_step
        self._signals.listen()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """From now on there is nothing to save: a signal since the last save ends the program."""
        self._signals.restore()
        if self._signals.received is not None:
            signal.raise_signal(self._signals.received)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """Saves when this micro-batch completed an update whose turn it is."""
        self._between_updates = trainer.global_step > self._updates
        self._updates = trainer.global_step
        self._due = self._between_updates and (
            self._updates % self.every_n_updates == 0 or _is_final(trainer)
        )
        if self._between_updates and not _validation_follows(trainer):
            self._save_or_stop(trainer, due=self._due)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Saves what waited for the validation, or because the validation ends the run."""
        if self._between_updates:
            self._save_or_stop(trainer, due=self._due or trainer.should_stop)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Says after a second Ctrl-C what is kept and how to go on."""
        self._signals.restore()
        if isinstance(exception, KeyboardInterrupt) and trainer.is_global_zero:
            if self.path.exists():
                advice = f"ckpt_path={self.path} goes on from the last update saved there."
            else:
                advice = f"nothing is saved yet (every {self.every_n_updates} updates)."
            print(f"\nInterrupted after update {trainer.global_step}: {advice}")

    def _save_or_stop(self, trainer: pl.Trainer, *, due: bool) -> None:
        """Saves when it is due, and saves and ends the program when a signal asks for it."""
        told = self._signals.agreed(trainer)
        if due or told:
            self._save(trainer)
        if told:
            if trainer.is_global_zero:
                print(
                    f"\nStopped after update {trainer.global_step}: ckpt_path={self.path} goes on."
                )
            raise Stopped(self._signals.exit_status(trainer))

    def _save(self, trainer: pl.Trainer) -> None:
        self._due = self._between_updates = False
        trainer.save_checkpoint(self.path, weights_only=False)


def _is_final(trainer: pl.Trainer) -> bool:
    last_epoch = trainer.current_epoch + 1 == trainer.max_epochs
    return trainer.global_step == trainer.max_steps or (last_epoch and trainer.is_last_batch)


def _validation_follows(trainer: pl.Trainer) -> bool:
    """Returns whether the batch just done is one of every `val_check_interval` (an int here)."""
    batches = trainer.fit_loop.total_batch_idx + 1
    return trainer.enable_validation and batches % int(trainer.val_check_batch or 1) == 0


class KeptCheckpoints(ModelCheckpoint):
    """Lightning's, under a name of its own, so that it may watch the same score as `best`."""


class ProgressBar(TQDMProgressBar):
    """Lightning's bar for a terminal of 80 columns, refreshed about once a second."""

    BAR_FORMAT = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{remaining}{postfix}]"
    _NAMES = {"tokens_per_s": "tok/s", "valid_bleu": "BLEU"}  # noqa: RUF012 not changed

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__(refresh_rate=refresh_rate)

    def on_train_start(self, trainer: pl.Trainer, *args: Any) -> None:
        """Shows the bar, of a run that goes on within an epoch from where it stopped."""
        super().on_train_start(trainer, *args)
        self.on_train_epoch_start(trainer)  # Lightning leaves it out for an epoch that goes on
        done = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        self.train_progress_bar.initial = done
        # Lightning counts what is left of the budget from the start of the epoch.
        left = (trainer.max_steps - trainer.global_step) * trainer.accumulate_grad_batches
        if done and trainer.max_steps > 0:
            self.train_progress_bar.total = min(trainer.num_training_batches, done + left)

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """Returns what stands behind the bar."""
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return {self._NAMES.get(name, name): _short(value) for name, value in metrics.items()}


def _short(value: Any) -> Any:
    """Returns a number in few characters, for a narrow terminal."""
    if isinstance(value, Tensor):
        value = value.item()
    if not isinstance(value, float):
        return value
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
