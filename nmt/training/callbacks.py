"""Callbacks of our own: when a run validates, saves and stops, and what it says meanwhile.

Read `LastCheckpoint` first: a run is saved, and a signal obeyed, only between updates.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint, TQDMProgressBar

from nmt.checks import UserError, at_least
from nmt.training.module import TranslationModule

logger = logging.getLogger(__name__)


class LastCheckpoint(Checkpoint):
    """Keeps `last.ckpt`, from which a run continues exactly; the final update included.

    It is written only between updates, where the loader's position, the optimizer and the counters
    agree; and where a validation follows only after it, so that the best score so far is known.
    A signal that asks the run to stop is granted there as well.

    Args:
        directory: Where `last.ckpt` goes.
        every_n_updates: How much work a killed run may lose.
    """

    def __init__(self, directory: str, every_n_updates: int) -> None:
        super().__init__()
        at_least("callbacks.last.every_n_updates", every_n_updates)
        self.path = Path(directory) / "last.ckpt"
        self.every_n_updates = every_n_updates
        self._updates = 0
        self._between_updates = False
        self._due = False
        self._signals = StopSignals()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes up the count, which a resumed run does not begin at 0, and listens to signals."""
        self._updates = trainer.global_step
        self._signals.listen(cast(TranslationModule, pl_module))

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
            self._save_or_stop(trainer, pl_module, due=self._due)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Saves what waited for the validation, or because the validation ends the run."""
        if self._between_updates:
            self._save_or_stop(trainer, pl_module, due=self._due or trainer.should_stop)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Gives the signals back."""
        self._signals.restore()

    def _save_or_stop(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *, due: bool
    ) -> None:
        """Saves when it is due, and saves and ends the program when a signal asks for it."""
        told = cast(TranslationModule, pl_module).stop_agreed
        if trainer.world_size == 1:  # it may have come since the update
            told = self._signals.received is not None
        if due or told:
            self._save(trainer)
        if told:
            if trainer.is_global_zero:
                with suppress(OSError):  # the terminal may be gone
                    print(
                        f"\nStopped after update {trainer.global_step}: "
                        f"ckpt_path={self.path} resumes."
                    )
            # Lightning kills the first rank at once when another ends with an error.
            number = self._signals.received or signal.SIGTERM
            raise Stopped(128 + number if trainer.is_global_zero else 0)

    def _save(self, trainer: pl.Trainer) -> None:
        self._due = self._between_updates = False
        trainer.save_checkpoint(self.path, weights_only=False)


def _is_final(trainer: pl.Trainer) -> bool:
    last_epoch = trainer.current_epoch + 1 == trainer.max_epochs
    return trainer.global_step == trainer.max_steps or (last_epoch and trainer.is_last_batch)


def _validation_follows(trainer: pl.Trainer) -> bool:
    """Returns whether the batch just done is one that `Validations` chose."""
    batches = trainer.fit_loop.total_batch_idx + 1
    return trainer.enable_validation and batches % int(trainer.val_check_batch or 1) == 0


# A batch system's time limit or preemption, Ctrl-C, a closed terminal, and what SLURM scripts often
# ask for; Windows lacks the last two.
SIGNALS = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1")
    if hasattr(signal, name)
]
_WATCH_SECONDS = 5.0


class Stopped(SystemExit):
    """The run was told to stop and has saved where it stands; the program ends."""


class StopSignals:
    """Takes the first signal as a wish, granted between two updates; a second Ctrl-C ends at once.

    Lightning's own handlers raise, or save, wherever the run stands, and send to other ranks from
    within the handler; in their place this one only notes.

    Attributes:
        received: The first signal that came; None so far.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def listen(self, module: TranslationModule) -> None:
        """Takes over from now on; only a main thread can."""
        self._module = module
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                    self._before[number] = signal.signal(number, self._note)

    def restore(self) -> None:
        """Gives the signals back to who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
            self._module.stop_asked = True  # the ranks hear of it in their next update
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


class Validations(pl.Callback):
    """Chooses the updates after which a run validates: evenly spaced, the last at its end.

    Lightning knows one interval only, which need not divide the budget.

    Args:
        number: How many; fewer when the run has fewer updates.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Warns of a run that ends before its schedule has reached its peak, or its end."""
        self._updates = trainer.global_step
        budget = trainer.max_steps
        self._due = {round(k * budget / self.number) for k in range(1, self.number + 1)}
        updates = int(min(budget, trainer.estimated_stepping_batches))
        warmup = int(pl_module.hparams["scheduler"].get("warmup", 0))
        if trainer.is_global_zero and (warmup >= updates or updates < budget):
            logger.warning(
                "The run ends after %d updates, before its schedule does: scheduler.warmup=%d, "
                "trainer.max_steps=%d, trainer.max_epochs=%s.",
                *(updates, warmup, budget, trainer.max_epochs),
            )

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """Sets the interval to a divisor of this batch's number, or to one that is none."""
        updated = trainer.global_step > self._updates
        self._updates = trainer.global_step
        batches = trainer.fit_loop.total_batch_idx + 1
        due = updated and (self._updates in self._due or _is_final(trainer))
        trainer.val_check_batch = batches if due else batches + 1


class SameBatches(pl.Callback):
    """Trains on the batches of the first epoch in every epoch, to see whether a model overfits."""

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes back the epoch that Lightning has told the sampler."""
        cast(Any, trainer.train_dataloader).sampler.set_epoch(0)


class KeptCheckpoints(ModelCheckpoint):
    """Lightning's, under a name of its own, so that it may watch the same score as `best`."""


class StopWhenNotFinite(pl.Callback):
    """Ends a run whose updates are skipped again and again because no gradient is finite.

    A skipped update leaves weights and optimizer as they were, so that every checkpoint of such a
    run is that of its last good update.

    Args:
        in_a_row: Skipped updates that end the run. With 16-mixed a dozen are usual at first.
    """

    def __init__(self, in_a_row: int) -> None:
        super().__init__()
        at_least("callbacks.finite.in_a_row", in_a_row)
        self.in_a_row = in_a_row

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """Looks at the count of the module.

        Raises:
            UserError: Too many updates were skipped.
        """
        streak = cast(TranslationModule, pl_module).skipped_in_a_row
        if streak >= self.in_a_row:
            raise UserError(
                f"the gradients of {streak} updates in a row, {trainer.global_step} the last, were "
                "not finite, so training stopped and the checkpoints of the last good update are "
                "kept: resume from one with a lower optimizer.lr, a longer scheduler.warmup or "
                "trainer.precision=32-true."
            )


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


class ProgressBar(TQDMProgressBar):
    """Lightning's bar for a terminal of 80 columns; elsewhere one line for each validation."""

    BAR_FORMAT = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{remaining}{postfix}]"

    def __init__(self, refresh_rate: int = 10) -> None:
        super().__init__(refresh_rate=refresh_rate if sys.stdout.isatty() else 0)

    def on_train_start(self, trainer: pl.Trainer, *args: Any) -> None:
        """Shows the bar, which Lightning leaves out for an epoch that is resumed."""
        super().on_train_start(trainer, *args)
        self.on_train_epoch_start(trainer)

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """Returns what stands behind the bar, under short names."""
        names = {"tokens_per_s": "tok/s", "valid_bleu": "BLEU"}
        metrics = super().get_metrics(trainer, pl_module)
        return {names.get(name, name): value for name, value in metrics.items()}

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Prints update, scores and speed; a reader that has gone is no reason to stop."""
        super().on_validation_end(trainer, pl_module)
        if self.refresh_rate == 0 and trainer.is_global_zero:
            scores = [f"{name} {value:.4g}" for name, value in trainer.callback_metrics.items()]
            with suppress(OSError):
                print(
                    f"update {trainer.global_step} of {trainer.max_steps}: {', '.join(scores)}",
                    flush=True,
                )
