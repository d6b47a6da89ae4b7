"""One training run: from a composed config to checkpoints in its folder."""

from __future__ import annotations

import fnmatch
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from lightning_fabric.utilities.exceptions import MisconfigurationException
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.profilers import AdvancedProfiler, SimpleProfiler
from pytorch_lightning.strategies.launchers import _MultiProcessingLauncher

from nmt import PAD
from nmt.checkpoint import check_resumable, load_initial_weights
from nmt.checks import UserError
from nmt.data.batch import Batch
from nmt.data.datamodule import TranslationDataModule
from nmt.tokenizer import Tokenizer
from nmt.training.callbacks import LastCheckpoint, ProgressBar, ValidationLines, Validations
from nmt.training.machine import precision_of_run
from nmt.training.module import TranslationModule
from nmt.training.resume import RunRecord, WholeCheckpointIO, checkpoint_to_resume, continue_csv_log
from nmt.training.run_folder import processes_and_nodes, under_torchrun

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


# What a run sets by itself, and what does it instead of the trainer's option.
_RESERVED = {
    "val_check_interval": "num_validations",
    "logger": "the group logger",
    "callbacks": "the group callbacks",
    "plugins": "nothing; our checkpoints need their own",
    "default_root_dir": "hydra.run.dir",
    "overfit_batches": "debug=overfit trainer.limit_train_batches=N",
}


def build_trainer(config: DictConfig) -> pl.Trainer:
    """Builds Lightning's trainer with our callbacks, precision chosen by the device.

    Raises:
        UserError: These options do not go together.
    """
    options = config.trainer
    for name, instead in _RESERVED.items():
        if name in options:
            raise UserError(f"trainer.{name} would be overwritten; use {instead}.")
    options.precision = precision_of_run(config)  # recorded with the run
    fused, clips = config.optimizer.get("fused"), options.gradient_clip_val
    if options.precision == "16-mixed" and fused and clips:
        raise UserError(
            "optimizer.fused=true with trainer.precision=16-mixed: its gradients cannot be "
            "clipped; set optimizer.fused=false, trainer.precision=bf16-mixed or "
            "trainer.gradient_clip_val=null."
        )
    devices, nodes = options.devices, options.num_nodes
    if devices == "auto" and under_torchrun():
        devices, nodes = processes_and_nodes()
    show_bar = options.get("enable_progress_bar", True)
    trainer: pl.Trainer = instantiate(
        options,
        devices=devices,
        num_nodes=nodes,
        callbacks=_callbacks(config, bar=show_bar and sys.stdout.isatty(), lines=show_bar),
        enable_progress_bar=show_bar and sys.stdout.isatty(),
        logger=instantiate(config.logger) if config.get("logger") else False,
        val_check_interval=1,  # `Validations` sets it
        default_root_dir=config.run_dir,
        plugins=[WholeCheckpointIO()],
        profiler=_profiler(options.profiler, config.run_dir),
    )
    if isinstance(trainer.strategy.launcher, _MultiProcessingLauncher):
        raise UserError(
            f"trainer.strategy={options.strategy} starts processes that cannot be resumed or "
            "stopped cleanly; use trainer.strategy=ddp."
        )
    return trainer


def _callbacks(config: DictConfig, *, bar: bool, lines: bool) -> list[pl.Callback]:
    callbacks = [instantiate(callback) for callback in config.callbacks.values() if callback]
    if not bar:
        bars = [callback for callback in callbacks if isinstance(callback, ProgressBar)]
        callbacks = [callback for callback in callbacks if callback not in bars]
        if bars and lines:
            callbacks.append(ValidationLines())
    for callback in callbacks:
        monitor, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
        better = "max" if str(monitor).endswith("_bleu") else "min"
        if str(monitor).startswith("valid_") and mode != better:
            name = type(callback).__name__
            raise UserError(f"mode is {mode!r} in {name}; it must be {better} for {monitor}.")
    # `Validations` decides before all others look, and the one that saves their states comes last.
    callbacks.sort(key=lambda callback: isinstance(callback, LastCheckpoint))
    return [Validations(config.num_validations), *callbacks]


def _profiler(chosen: Any, run_dir: str) -> Any:
    """Returns Lightning's profiler by name with its report in the run folder."""
    named = {"simple": SimpleProfiler, "advanced": AdvancedProfiler}
    return named[chosen](dirpath=run_dir, filename="profile") if chosen in named else chosen


def fit(
    config: DictConfig, data: TranslationDataModule, module: TranslationModule, trainer: pl.Trainer
) -> Path:
    """Trains a new run, or resumes `config.ckpt_path`, and returns the best checkpoint.

    A new run begins with the weights of `config.init_from`, if that is given.

    Raises:
        UserError: There is no checkpoint to continue from, no batch to make an update of, or too
            little memory on the GPU.
    """
    checkpoints = Path(config.run_dir) / "checkpoints"
    resume_from = checkpoint_to_resume(config.ckpt_path, checkpoints)
    trainer.callbacks.insert(0, RunRecord(config, resume_from))  # type: ignore[attr-defined]
    if resume_from is not None:
        updates = check_resumable(
            resume_from,
            model=module.model,
            options=module.hparams["model"],
            tokenizer=module.tokenizer.model,
            languages=(config.data.source_lang, config.data.target_lang),
        )
        if updates > trainer.max_steps > 0:
            raise UserError(
                f"{resume_from} has made {updates} updates and trainer.max_steps is "
                f"{trainer.max_steps}: give as many or more."
            )
        continue_csv_log(trainer, updates)
    elif config.init_from is not None:
        load_initial_weights(
            config.init_from,
            model=module.model,
            options=module.hparams["model"],
            tokenizer=module.tokenizer.model,
            lowercase=config.data.lowercase,
        )
        logger.info("Starting from the weights of %s.", config.init_from)
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
        raise UserError(
            out_of_memory(module.batch, module.tokenizer, validating=validating)
        ) from error
    if module.target_tokens_seen == 0:
        raise UserError(
            f"the run made 0 updates in {trainer.current_epoch} epochs: give it training data."
        )
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
        UserError: A pattern matches no weight, or all weights are matched.
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
    total = sum(weight.numel() for weight in weights.values())
    if frozen == total:
        raise UserError(f"freeze={list(patterns)} leaves nothing to train: freeze less.")
    if frozen:
        logger.info("Frozen: %s of %s parameters.", f"{frozen:,}", f"{total:,}")


_SHOWN = 60  # characters of a sentence


def out_of_memory(batch: Batch | None, tokenizer: Tokenizer, *, validating: bool) -> str:
    """Returns one sentence that names the batch, its longest pair and the option to lower.

    Args:
        batch: The newest one; None before the first.
        tokenizer: Of its ids.
        validating: Whether it is one of validation.
    """
    if batch is None:
        return "the GPU's memory is too small for this model: lower model.width or use another GPU."
    option = "data.eval_token_budget" if validating else "data.token_budget"
    more = "" if validating else " (and raise trainer.accumulate_grad_batches as much)"
    source, target = batch.source.cpu(), batch.target_out.cpu()
    lengths = (source != PAD).sum(1), (target != PAD).sum(1)
    longest = int((lengths[0] + lengths[1]).argmax())
    texts = [tokenizer.decode(side[longest].tolist())[:_SHOWN] for side in (source, target)]
    kind = "validation" if validating else "training"
    return (
        f"the GPU's memory is too small for a {kind} batch of {len(batch)} pairs, "
        f"{source.shape[1]} source and {target.shape[1]} target tokens long (the longest pair, "
        f"number {int(batch.index[longest])}: {texts[0]!r} = {texts[1]!r}): lower {option}{more}."
    )
