"""Callbacks that notice a run which cannot succeed, and say what to look at."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytorch_lightning as pl

from nmt.training.translation_module import TranslationModule

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
            raise ValueError(f"callbacks.finite.in_a_row={in_a_row}: give a number >= 1.")
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
            ValueError: Too many updates were skipped.
        """
        if trainer.global_step == self._updates:
            return  # within an update
        self._updates = trainer.global_step
        skipped = _skipped(pl_module)
        self._streak = self._streak + 1 if skipped > self._seen else 0
        self._seen = skipped
        if self._streak >= self.in_a_row:
            raise ValueError(
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
