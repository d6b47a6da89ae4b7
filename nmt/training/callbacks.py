"""Callbacks of our own; all others are Lightning's.

Callbacks that notice a run which cannot succeed, and say what to look at.

Signals that ask a run to stop, and the death of the process that started it.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint, TQDMProgressBar
from torch import Tensor

from nmt.checks import UserError
from nmt.training.module import TranslationModule

logger = logging.getLogger(__name__)


class StopWhenNotFinite(pl.Callback):
    """Ends a run whose updates are skipped again and again because no gradient is finite.

    A skipped update leaves weights and optimizer as they were, so that every checkpoint of such a
    run is that of its last good update.

    Args:
        in_a_row: So many skipped updates end the run. With 16-mixed a dozen are usual at first.
    """

    def __init__(self, in_a_row: int) -> None:
        super().__init__()
        if in_a_row < 1:
            raise UserError(f"callbacks.finite.in_a_row={in_a_row}: give a number >= 1.")
        self.in_a_row = in_a_row
        self._seen = 0
        self._streak = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes up the count of a resumed run."""
        self._seen = _skipped(pl_module)
        self._updates = trainer.global_step

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """Counts, at the end of an update.

        Raises:
            UserError: Too many updates were skipped.
        """
        if trainer.global_step == self._updates:
            return  # within an update
        self._updates = trainer.global_step
        skipped = _skipped(pl_module)
        self._streak = self._streak + 1 if skipped > self._seen else 0
        self._seen = skipped
        if self._streak >= self.in_a_row:
            raise UserError(
                f"the gradients of {self._streak} updates in a row, {self._updates} the last, were "
                "not finite, so training stopped and the checkpoints of the last good update are "
                "kept: go on from one with a lower optimizer.lr, a longer scheduler.warmup or "
                "trainer.precision=32-true."
            )

    def state_dict(self) -> dict[str, Any]:
        """Returns the length of the streak, for a run that is resumed within it."""
        return {"streak": self._streak}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on within the streak."""
        self._streak = state_dict["streak"]


def _skipped(module: pl.LightningModule) -> int:
    return cast(TranslationModule, module).skipped_updates


class WarnOfZeroBleu(pl.Callback):
    """Warns once when validation BLEU is still 0.0 after a share of the budget.

    Args:
        after: That share.
    """

    def __init__(self, after: float) -> None:
        super().__init__()
        self.after = after
        self._warned = False

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Looks at the score, which every rank has."""
        score = float(trainer.callback_metrics.get("valid_bleu", 100.0))
        early = trainer.global_step < self.after * trainer.max_steps
        if self._warned or early or score >= 0.05 or not trainer.is_global_zero:
            return
        self._warned = True
        logger.warning(
            "Validation BLEU is %.1f after %d of %d updates. Likely causes: line k of one file is "
            "not the translation of line k of the other; source and target languages are swapped; "
            "optimizer.lr=%s or the budget is far too low or high for this corpus; "
            "a tokenizer from another corpus.",
            score,
            trainer.global_step,
            trainer.max_steps,
            pl_module.hparams["optimizer"].get("lr"),
        )


# A batch system's time limit or preemption, Ctrl-C, and what SLURM scripts often ask for.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_WATCH_SECONDS = 5.0


class Stopped(SystemExit):
    """The run was told to stop and has saved where it stands; the program ends."""


class StopSignals:
    """Takes the first signal as a wish, to be granted between two updates; Ctrl-C twice is at once.

    Lightning's own handlers raise, or save, wherever the run stands, and send to other ranks from
    within the handler; in their place this one only notes.

    Attributes:
        received: The first signal that came; None so far.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Takes over from now on; only a main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def restore(self) -> None:
        """Gives the signals back to who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def agreed(self, trainer: pl.Trainer) -> bool:
        """Returns whether any rank was told to stop; every rank must ask at the same place."""
        told = self.received is not None
        return bool(trainer.strategy.reduce_boolean_decision(told, all=False))

    def exit_status(self, trainer: pl.Trainer) -> int:
        """Returns 128 + signal, as shells do; 0 for all ranks but the first.

        Lightning kills the first rank at once when another ends with an error.
        """
        return 128 + (self.received or signal.SIGTERM) if trainer.is_global_zero else 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


def end_with_parent(trainer: pl.Trainer) -> None:
    """Lets a rank that Lightning's launcher started end soon after its first rank has died.

    torchrun and SLURM see to that themselves; Lightning watches the other direction only.
    """
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if not isinstance(environment, LightningEnvironment) or trainer.local_rank == 0:
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class LastCheckpoint(Checkpoint):
    """Keeps `last.ckpt`, from which a run continues exactly; the final update included.

    It is written only between updates, where the loader's position, the optimizer and the counters
    agree; and where a validation follows only after it, so that the best score so far is known.
    A signal that asks the run to stop (`nmt.training.callbacks`) is granted there as well.

    Args:
        directory: Where `last.ckpt` goes.
        every_n_updates: How much work a killed run may lose.
    """

    def __init__(self, directory: str, every_n_updates: int) -> None:
        super().__init__()
        if every_n_updates < 1:
            raise UserError(
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
