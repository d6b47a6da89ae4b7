"""Continuing a run where its checkpoint stands: its log, its best score, its options.

How checkpoints reach the disk: whole, or not at all.
"""

from __future__ import annotations

import csv
import io
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins import TorchCheckpointIO
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only

from nmt.checks import UserError, dotted

logger = logging.getLogger(__name__)


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes beside the old checkpoint and then takes its place, within one file system.

    A process that is killed, or a disk that is full, leaves the old one as it was; Lightning's own
    way goes through the system's temporary folder, from where it may have to be copied. What a
    killed process had written so far is overwritten by the next one.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Saves a checkpoint.

        Raises:
            UserError: It cannot be written.
        """
        path = Path(path)
        temporary = path.with_name(f".{path.name}.partial")
        content = io.BytesIO()  # torch.save would hide why it cannot write to a file
        torch.save(checkpoint, content)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content.getbuffer())
                file.flush()
                os.fsync(file.fileno())  # before the old one goes: the power may fail
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise UserError(
                f"checkpoint {path} cannot be written ({error.strerror or error}): make room or "
                "correct the permissions, then resume with the last.ckpt beside it."
            ) from error


class MetricsFile(Logger):
    """The learning curve as `metrics.csv`; a resumed run continues the file.

    Args:
        directory: Where the file goes.
    """

    def __init__(self, directory: str) -> None:
        super().__init__()
        self.path = Path(directory) / "metrics.csv"
        self._columns: list[str] = []

    @property
    def name(self) -> str:
        """Lightning asks for it."""
        return "csv"

    @property
    def version(self) -> str:
        """Lightning asks for it."""
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Lightning asks for it; `config.yaml` has them."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Adds a row; the file is written anew when the row has another column."""
        row = {**metrics, "step": step}
        if row.keys() <= set(self._columns):
            with self.path.open("a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, self._columns).writerow(row)
        else:
            self._write([*self._rows(), row])

    @rank_zero_only
    def keep(self, updates: int) -> None:
        """Removes the rows of later updates, which will be made again."""
        if rows := [row for row in self._rows() if int(row["step"]) <= updates]:
            self._write(rows)
        else:
            self.path.unlink(missing_ok=True)

    def _rows(self) -> list[dict[str, Any]]:
        """Returns the rows so far; one that a crash cut short is left out."""
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_text(encoding="utf-8").rpartition("\n")
        return list(csv.DictReader(io.StringIO(whole)))

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._columns = sorted({name for row in rows for name in row})
        temporary = self.path.with_name(".metrics.csv.partial")
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(self.path)


class RunRecord(pl.Callback):
    """Writes `config.yaml` when training begins, and cuts `metrics.csv` back to the checkpoint.

    A resume that is refused changes no file.

    Args:
        config: All options of the run.
        resume_from: Its checkpoint; beside the folder of that are the options it had before.
    """

    def __init__(self, config: DictConfig, resume_from: Path | None) -> None:
        super().__init__()
        self._config = config
        self._before = None if resume_from is None else resume_from.parent.parent / "config.yaml"

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Everything is restored: from here on the run is that of these options."""
        if trainer.is_global_zero:
            if self._before is not None and self._before.is_file():
                _say_what_changed(OmegaConf.load(self._before), self._config)
            OmegaConf.save(self._config, f"{self._config.run_dir}/config.yaml", resolve=True)
            for log in trainer.loggers:
                if isinstance(log, MetricsFile):
                    log.keep(trainer.global_step)


def _say_what_changed(before: Any, now: Any) -> None:
    old, new = (dotted(OmegaConf.to_container(options, resolve=True)) for options in (before, now))
    for key in sorted(new.keys() | old.keys()):
        if old.get(key) != new.get(key) and key not in ("ckpt_path", "run_dir"):
            logger.info("Resuming with %s=%s instead of %s.", key, new.get(key), old.get(key))


def follow_the_folder(states: Mapping[str, Any], trainer: pl.Trainer) -> None:
    """Lets the best checkpoint so far be known where it lies now, also in a folder that was moved.

    Args:
        states: Of the callbacks, as in the checkpoint; changed in place.
        trainer: With the callbacks of this run.
    """
    for callback in trainer.checkpoint_callbacks:
        state = states.get(callback.state_key)
        if not isinstance(callback, ModelCheckpoint) or state is None:
            continue
        callback.current_score = state["current_score"]  # Lightning saves but does not restore it
        folder = Path(str(callback.dirpath))
        if not Path(_in(folder, state["best_model_path"])).is_file():
            continue  # the run goes on elsewhere, without the best checkpoint so far
        state["dirpath"] = str(callback.dirpath)
        for key in ("best_model_path", "kth_best_model_path", "last_model_path"):
            state[key] = _in(folder, state[key])
        state["best_k_models"] = {_in(folder, p): s for p, s in state["best_k_models"].items()}


def _in(folder: Path, path: str) -> str:
    return str(folder / Path(path).name) if path else path


def follow_the_options(checkpoint: Mapping[str, Any], optimizer: Mapping[str, Any]) -> None:
    """Puts the options of the optimizer in place of those in the checkpoint.

    Args:
        checkpoint: As loaded; changed in place. Of its groups of parameters only the first, the
            matrices, has weight decay.
        optimizer: The options of this run, as `conf/optimizer` names them.
    """
    [state], [schedule] = checkpoint["optimizer_states"], checkpoint["lr_schedulers"]
    before = checkpoint["hyper_parameters"]["optimizer"]
    changed = {key: value for key, value in optimizer.items() if value != before.get(key)}
    if "lr" in changed:
        ratio = changed.pop("lr") / before["lr"]
        schedule["base_lrs"] = [rate * ratio for rate in schedule["base_lrs"]]
        for group in state["param_groups"]:
            group["lr"] *= ratio
    for number, group in enumerate(state["param_groups"]):
        group.update({k: v for k, v in changed.items() if k != "weight_decay" or number == 0})
