"""What test_ddp.py checks, run by one process or by each of two: python ddp_program.py FOLDER.

Every part is a function of a folder and the number of ranks; what it returns is compared. Each
of the models is trained in one: DDP complains about a parameter without a gradient.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from number_words import Pairs, Run, corpus_options, make_run, model_options, trainer_options

SGD = {"_target_": "torch.optim.SGD", "lr": 0.125}
CONSTANT = {"_target_": "nmt.training.schedules.Cosine", "updates": 1000, "warmup": 0}
SIZES = (1, 5, 7)  # of the validation set; 1 leaves the second rank without a sentence


class Indices(pl.Callback):
    """Notes which pairs this process trained on, epoch by epoch."""

    def __init__(self) -> None:
        self.epochs: list[list[int]] = []

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.epochs.append([])

    def on_train_batch_start(self, *args: Any) -> None:
        self.epochs[-1] += args[2].index.tolist()


class NanOnLastRank(pl.Callback):
    """Spoils a gradient of the last process in the second update, before the ranks average."""

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        def spoil(gradient: torch.Tensor) -> torch.Tensor:
            last = trainer.global_rank == trainer.world_size - 1
            return gradient * math.nan if last and trainer.global_step == 1 else gradient

        next(module.model.parameters()).register_hook(spoil)


def build(folder: Path, part: str, ranks: int, *more: str, **keywords: Any) -> Run:
    """Builds a run that reads and writes below `folder`."""
    splits = {key: keywords.pop(key) for key in ("train", "valid") if key in keywords}
    name = keywords.pop("name", "transformer")
    callbacks = keywords.pop("callbacks", ())
    nodes = {key: keywords.pop(key) for key in ("optimizer", "scheduler") if key in keywords}
    trainer = {"devices": ranks, "strategy": "ddp" if ranks > 1 else "auto"} | keywords
    return make_run(
        *corpus_options(folder / f"text-{part}", **splits),
        *model_options(name),
        *trainer_options(folder / part, **trainer),
        *more,
        callbacks=callbacks,
        **nodes,
    )


def train_with_sgd(folder: Path, ranks: int) -> dict[str, Any]:
    """Two updates of eight batches each, whoever computes them; then a validation."""
    seen = Indices()
    run = build(
        folder,
        "sgd",
        ranks,
        "data.token_budget=17",
        max_steps=2,
        gradient_clip_val="null",
        accumulate_grad_batches=8 // ranks,
        optimizer=SGD,
        scheduler=CONSTANT,
        callbacks=(seen,),
        train=[(f"{w} " * n, f"{v} " * n) for n, (w, v) in enumerate(MANY, start=1)],
    )
    best = run.fit()
    return {
        "weights": run.module.model.state_dict(),
        "tokens": run.module.target_tokens_seen,
        "seen": seen.epochs,
        "best": best.name,
        "best_score": run.trainer.checkpoint_callback.best_model_score,
        "files": sorted(p.name for p in (folder / "sgd").rglob("*") if p.is_file()),
        "metrics": dict(run.trainer.callback_metrics),
    }


MANY = [("one", "eins"), ("two", "zwei"), ("three", "drei"), ("four", "vier")] * 5


def validate(folder: Path, ranks: int) -> list[dict[str, float]]:
    """Validation sets of few sentences, a batch each, with a search that finds half of them."""
    found = []
    for size in SIZES:
        text: Pairs = [(f"{w} " * (n + 4), f"{v} " * (n + 4)) for n, (w, v) in enumerate(MANY)]
        text[1::2] = [(source, source) for source, _ in text[1::2]]
        run = build(
            folder,
            f"valid{size}",
            ranks,
            "data.eval_token_budget=1",
            max_steps=1,
            valid=text[-size:],
        )
        run.module.validation_search = copy_the_source
        found.append(run.validate() | {"batches": len(run.data.eval_loader("valid"))})
    return found


def copy_the_source(model: Any, source: Any, source_mask: Any, *, forbidden_ids: Any) -> Any:
    """A search whose BLEU is neither 0 nor 100."""
    from nmt.decoding.search import Hypothesis

    return [[Hypothesis(tuple(row[:-1].tolist()), 0.0, 0.0, True)] for row in source]


def few_pairs(folder: Path, ranks: int) -> dict[str, Any]:
    """Three epochs of 13 pairs, with a budget that makes odd numbers of batches."""
    seen = Indices()
    run = build(
        folder,
        "few",
        ranks,
        "data.token_budget=1",
        name="rnn",
        max_steps=100,
        max_epochs=3,
        train=13,
        callbacks=(seen,),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run.fit()
    return {
        "seen": seen.epochs,
        "length": len(run.data.train_dataloader()),
        "updates": run.trainer.global_step,
        "warned": any("repetitions" in str(warning.message) for warning in caught),
    }


def skip_on_all_ranks(folder: Path, ranks: int) -> dict[str, Any]:
    """The gradient of one rank is not a number in the second of three updates."""
    run = build(folder, "nan", ranks, name="bahdanau", max_steps=3, callbacks=(NanOnLastRank(),))
    run.fit()
    return {"skipped": run.module.skipped_updates, "weights": run.module.model.state_dict()}


PARTS = (train_with_sgd, validate, few_pairs, skip_on_all_ranks)


def main() -> None:
    torch.set_num_threads(1)
    folder, ranks = Path(sys.argv[1]), int(os.environ["WORLD_SIZE"])
    results = {part.__name__: part(folder, ranks) for part in PARTS}
    torch.save(results, folder / f"rank{os.environ['LOCAL_RANK']}.pt")


if __name__ == "__main__":
    main()
