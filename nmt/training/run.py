"""One training run: from a composed config to checkpoints in its folder."""

from __future__ import annotations

import fnmatch
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from lightning_fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf

from nmt.checkpoint import load_weights_of_run
from nmt.checks import UserError
from nmt.data.batch import Batch
from nmt.data.datamodule import TranslationDataModule
from nmt.training.callbacks import LastCheckpoint, ProgressBar, Validations
from nmt.training.machine import keep_freed_memory, precision_of_run
from nmt.training.module import TranslationModule
from nmt.training.resume import RunRecord, WholeCheckpointIO
from nmt.training.run_folder import checkpoint_to_resume, under_torchrun

logger = logging.getLogger(__name__)


def build_module(config: DictConfig, data: TranslationDataModule) -> TranslationModule:
    """Builds the module from plain values only, so that its checkpoint holds nothing else."""
    groups: Any = {
        name: OmegaConf.to_container(config[name], resolve=True)
        for name in ("model", "decoding", "optimizer", "scheduler")
    }
    return TranslationModule(
        **groups,
        tokenizer=data.tokenizer.model,
        lowercase=config.data.lowercase,
        source_lang=config.data.source_lang,
        target_lang=config.data.target_lang,
        token_budget=config.data.token_budget,
        label_smoothing=config.label_smoothing,
        seed=config.seed,
    )


# Options of Lightning's that do not go together with ours, and what does it instead.
_INSTEAD = {
    "val_check_interval": "num_validations",
    "overfit_batches": "debug=overfit trainer.limit_train_batches=N",
}


def build_trainer(config: DictConfig) -> pl.Trainer:
    """Builds Lightning's trainer with our callbacks, precision chosen by the device.

    Raises:
        UserError: These options do not go together.
    """
    options = config.trainer
    for name in _INSTEAD.keys() & options.keys():
        raise UserError(f"trainer.{name} would be overwritten; use {_INSTEAD[name]}.")
    options.precision = precision_of_run(config)  # recorded with the run
    fused, clips = config.optimizer.get("fused"), options.gradient_clip_val
    if options.precision == "16-mixed" and fused and clips:
        raise UserError(
            "optimizer.fused=true with trainer.precision=16-mixed: its gradients cannot be "
            "clipped; set optimizer.fused=false, trainer.precision=bf16-mixed or "
            "trainer.gradient_clip_val=null."
        )
    devices, nodes = options.devices, options.num_nodes
    if devices == "auto" and under_torchrun():  # as many as it started
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    callbacks = _callbacks(config)
    Path(config.run_dir).mkdir(parents=True, exist_ok=True)
    trainer: pl.Trainer = instantiate(
        options,
        devices=devices,
        num_nodes=nodes,
        callbacks=callbacks,
        enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in callbacks),
        logger=instantiate(config.logger) if config.get("logger") else False,
        val_check_interval=1,  # `Validations` sets it
        default_root_dir=config.run_dir,
        plugins=[WholeCheckpointIO()],
    )
    if trainer.strategy.root_device.type == "cpu":
        keep_freed_memory()
    return trainer


def _callbacks(config: DictConfig) -> list[pl.Callback]:
    callbacks = [instantiate(callback) for callback in config.callbacks.values() if callback]
    for callback in callbacks:
        monitor, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
        better = "max" if str(monitor).endswith("_bleu") else "min"
        if str(monitor).startswith("valid_") and mode != better:
            name = type(callback).__name__
            raise UserError(f"mode is {mode!r} in {name}; it must be {better} for {monitor}.")
    # `Validations` decides before all others look, and the one that saves their states comes last.
    callbacks.sort(key=lambda callback: isinstance(callback, LastCheckpoint))
    return [Validations(config.num_validations), *callbacks]


def fit(
    config: DictConfig, data: TranslationDataModule, module: TranslationModule, trainer: pl.Trainer
) -> Path:
    """Trains a new run, or resumes `config.ckpt_path`, and returns the best checkpoint.

    A new run begins with the weights of `config.init_from`, if that is given.

    Raises:
        UserError: There is no checkpoint to continue from, or the GPU has too little memory.
    """
    checkpoints = Path(config.run_dir) / "checkpoints"
    resume_from = checkpoint_to_resume(config.ckpt_path, config.run_dir)
    trainer.callbacks.insert(0, RunRecord(config, resume_from))  # type: ignore[attr-defined]
    if begin_with := resume_from or config.init_from:
        resume = resume_from is not None
        load_weights_of_run(begin_with, module.model, module.hparams, resume=resume)
    freeze(module.model, config.freeze)
    if config.compile:
        if trainer.strategy.root_device.type == "cpu":
            logger.warning(
                "compile=true makes nothing faster on a CPU, and with PyTorch 2.13 a Transformer "
                "fails there when the lengths change; leave it out."
            )
        module.model.compile(dynamic=True)
    try:
        trainer.fit(module, datamodule=data, ckpt_path=resume_from, weights_only=True)
    except MisconfigurationException as error:  # Lightning's, of options that do not go together
        raise UserError(str(error)) from error
    except torch.OutOfMemoryError as error:
        validating = not module.training  # the trainer has forgotten it by now
        raise UserError(_out_of_memory(module.batch, validating=validating)) from error
    reason = getattr(trainer.early_stopping_callback, "stopping_reason_message", None)
    if reason and trainer.global_step < trainer.max_steps:
        logger.info(
            "Stopped after %d of %d updates: %s", trainer.global_step, trainer.max_steps, reason
        )
    # Its name alone: the folder may have been moved since.
    best = checkpoints / Path(getattr(trainer.checkpoint_callback, "best_model_path", "")).name
    if not best.is_file():
        logger.warning("No validation was run, so there is no best checkpoint: using the last.")
        return checkpoints / "last.ckpt"
    return best


def freeze(model: torch.nn.Module, patterns: Sequence[str] | str | None) -> None:
    """Keeps the weights whose names match a pattern, or one of several, as they are.

    Raises:
        UserError: A pattern matches no weight.
    """
    patterns = [patterns] if isinstance(patterns, str) else patterns or []
    weights = dict(model.named_parameters())
    for pattern in patterns:
        matched = fnmatch.filter(weights, pattern)
        if not matched:
            parts = sorted({name.partition(".")[0] for name in weights})
            raise UserError(
                f"freeze has {pattern!r}, which matches no weight of this model: its parts are "
                f"{', '.join(parts)}, so give for example {parts[0]}*."
            )
        for name in matched:
            weights[name].requires_grad_(False)
    frozen = sum(weight.numel() for weight in weights.values() if not weight.requires_grad)
    if frozen:
        total = sum(weight.numel() for weight in weights.values())
        logger.info("Frozen: %s of %s parameters.", f"{frozen:,}", f"{total:,}")


def _out_of_memory(batch: Batch | None, *, validating: bool) -> str:
    """Returns one sentence that names the newest batch and the option to lower."""
    if batch is None:
        return "the GPU's memory is too small for this model: lower model.width or use another GPU."
    kind, advice = "training", "data.token_budget and raise trainer.accumulate_grad_batches as much"
    if validating:
        kind, advice = "validation", "data.eval_token_budget"
    return (
        f"the GPU's memory is too small for a {kind} batch of {len(batch)} pairs, "
        f"{batch.source.shape[1]} source and {batch.target_out.shape[1]} target tokens long: "
        f"lower {advice}."
    )
