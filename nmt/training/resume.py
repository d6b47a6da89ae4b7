"""Continuing a run where its checkpoint stands: its log, its best score, its options.

How checkpoints reach the disk: whole, or not at all.
"""

from __future__ import annotations

import csv
import io
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins import TorchCheckpointIO
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(checkpoint, temporary)
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            last = path.with_name("last.ckpt")
            advice = f", then go on with ckpt_path={last}, which is whole" if last.exists() else ""
            raise UserError(
                f"checkpoint {path} cannot be written ({error.strerror or error}): "
                f"make room or correct the permissions{advice}."
            ) from error


def _write(checkpoint: dict[str, Any], path: Path) -> None:
    """Writes a file and waits until a power failure cannot lose it; only then may it be renamed."""
    content = io.BytesIO()  # torch.save would hide why it cannot write to a file
    torch.save(checkpoint, content)
    with path.open("wb") as file:
        file.write(content.getbuffer())
        file.flush()
        os.fsync(file.fileno())


def checkpoint_to_resume(ckpt_path: str | None, checkpoints: Path) -> Path | None:
    """Returns the file that `ckpt_path` means, None for a new run.

    Raises:
        UserError: There is no such file.
    """
    if ckpt_path is None:
        return None
    path = checkpoints / "last.ckpt" if ckpt_path == "last" else Path(ckpt_path)
    if not path.is_file():
        raise UserError(
            f"ckpt_path={ckpt_path} means {path}, which does not exist or is a directory: give the "
            "path of a .ckpt."
        )
    return path


def continue_csv_log(trainer: pl.Trainer, updates: int) -> None:
    """Keeps the rows of metrics.csv of so many updates; the logger would delete them all.

    The file as it was stays beside it until training goes on (see `RunRecord`).
    """
    if not trainer.is_global_zero:
        return
    for csv_logger in _csv_loggers(trainer):
        log, before = _log_files(csv_logger)
        if log.exists() and not before.exists():  # else an earlier attempt came no further
            os.replace(log, before)
        for row in _read_rows(before):
            if int(row["step"]) <= updates:
                csv_logger.log_metrics(row, step=int(row["step"]))
        csv_logger.save()


class RunRecord(pl.Callback):
    """Writes `config.yaml` when training begins; a resume that is refused changes no file.

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
            for _, before in map(_log_files, _csv_loggers(trainer)):
                before.unlink(missing_ok=True)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Puts the log back that was to be continued."""
        if trainer.is_global_zero:
            for log, before in map(_log_files, _csv_loggers(trainer)):
                if before.exists():
                    os.replace(before, log)


def _say_what_changed(before: Any, now: Any) -> None:
    """Says all but the options of the optimizer, which are in the checkpoint too."""
    old, new = (dotted(OmegaConf.to_container(options, resolve=True)) for options in (before, now))
    for key in sorted(new.keys() | old.keys()):
        expected = key in ("ckpt_path", "run_dir") or key.startswith("optimizer.")
        if old.get(key) != new.get(key) and not expected:
            logger.info("Resuming with %s=%s instead of %s.", key, new.get(key), old.get(key))


def _csv_loggers(trainer: pl.Trainer) -> list[CSVLogger]:
    return [logger for logger in trainer.loggers if isinstance(logger, CSVLogger)]


def _log_files(csv_logger: CSVLogger) -> tuple[Path, Path]:
    """Returns metrics.csv, and where it is kept while another is written."""
    log = Path(csv_logger.log_dir) / "metrics.csv"
    return log, log.with_name("metrics.csv.before")


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows without their empty cells; one that a crash cut short is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        logger.warning("%s: its last row was cut short, and is left out.", path)
    return [{k: v for k, v in row.items() if v} for row in csv.DictReader(io.StringIO(whole))]


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
    """Puts the options of the optimizer in place of those in the checkpoint, and says which.

    Args:
        checkpoint: As loaded; changed in place. Of its groups of parameters only the first, the
            matrices, has weight decay.
        optimizer: The options of this run, as `conf/optimizer` names them.

    Raises:
        UserError: It is another kind of optimizer.
    """
    [state], [schedule] = checkpoint["optimizer_states"], checkpoint["lr_schedulers"]
    before = checkpoint["hyper_parameters"]["optimizer"]
    if before["_target_"] != optimizer["_target_"]:
        raise UserError(
            f"optimizer._target_ is {optimizer['_target_']} and that of the checkpoint "
            f"{before['_target_']}: resume with the optimizer of the run, or start a new one."
        )
    changed = {key: value for key, value in optimizer.items() if value != before.get(key)}
    for key, value in changed.items():
        logger.info("Resuming with optimizer.%s=%s instead of %s.", key, value, before.get(key))
    if "lr" in changed:
        ratio = changed.pop("lr") / before["lr"]
        schedule["base_lrs"] = [rate * ratio for rate in schedule["base_lrs"]]
        for group in state["param_groups"]:
            group["lr"] *= ratio
    for number, group in enumerate(state["param_groups"]):
        group.update({k: v for k, v in changed.items() if k != "weight_decay" or number == 0})
