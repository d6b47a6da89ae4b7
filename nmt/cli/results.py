"""The end of a run: translate with the best checkpoint, write the run folder, print."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

import nmt
from nmt.cli.assess import assess_split
from nmt.data.datamodule import TranslationDataModule
from nmt.evaluation.run_results import SplitResult, write_metrics, write_translations
from nmt.evaluation.summary import print_examples, print_facts, print_paths, print_scores
from nmt.figures.bleu_by_length import plot_bleu_by_length
from nmt.training.translation_module import TranslationModule
from nmt.translator import Translator

LIBRARIES = ("torch", "pytorch-lightning", "sentencepiece", "datasets", "sacrebleu")


def write_results(
    config: DictConfig, data: TranslationDataModule, module: TranslationModule, best: Path
) -> None:
    """Evaluates the best checkpoint on the validation and test splits; writes and prints it all."""
    device = module.trainer.strategy.root_device  # `module.device` is the CPU after `fit`
    translator = Translator.from_checkpoint(best, device=str(device))
    results = [
        assess_split(
            translator,
            name,
            data.split(name),
            unit=data.length_unit,
            batch_tokens=config.data.eval_token_budget,
        )
        for name in [*data.test_splits, *data.valid_splits]
    ]
    run = Path(config.run_dir)
    metrics = {result.name: result.metrics() for result in results} | _facts(
        config, data, module, device, best.relative_to(run)
    )
    paths = [
        *(write_translations(run, result) for result in results),
        write_metrics(run, metrics),
        plot_bleu_by_length(
            {r.name: r.buckets for r in results if r.name not in data.valid_splits},
            run / "bleu_by_length.png",
            unit=data.length_unit,
            longest_train=data.longest_train_source_words,
            title=f"{run.parent.name}: BLEU by source length",
        ),
    ]
    paths += [path for path in (run / "config.yaml", run / "metrics.csv", best) if path.exists()]
    _print(metrics, results, paths)


def _facts(
    config: DictConfig,
    data: TranslationDataModule,
    module: TranslationModule,
    device: torch.device,
    best: Path,
) -> dict[str, Any]:
    """Returns the keys of metrics.json that are no scores."""
    parameters = module.model.num_parameters()
    return {
        "model_name": config.model_name,
        "num_parameters": {"total": parameters.total, "embedding": parameters.embedding},
        "updates": module.trainer.global_step,
        "skipped_updates": module.skipped_updates,
        "target_tokens_seen": module.target_tokens_seen,
        "seconds": round(module.seconds, 1),
        "longest_train_source_words": data.longest_train_source_words,
        "length_unit": data.length_unit,
        "tokenizer_sha256": module.tokenizer.sha256,
        "source_lang": config.data.source_lang,
        "target_lang": config.data.target_lang,
        "seed": config.seed,
        "decoding": OmegaConf.to_container(config.decoding, resolve=True),
        "best_checkpoint": str(best),
        "device": _device_name(device),
        "versions": {name: version(name) for name in LIBRARIES}
        | {"nmt": nmt.__version__, "python": platform.python_version()},
    }


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


def _print(metrics: dict[str, Any], results: Sequence[SplitResult], paths: Sequence[Path]) -> None:
    console = Console()
    print_scores(console, results)
    print_examples(console, results[0].sentences)
    embedding = metrics["num_parameters"]["embedding"]
    other = metrics["num_parameters"]["total"] - embedding
    tokens, seconds = metrics["target_tokens_seen"], metrics["seconds"]
    rate = tokens / max(0.1, seconds)  # a run of one update may take 0.0 s
    print_facts(
        console,
        [
            ("parameters", f"{embedding:,} embedding + {other:,} other"),
            ("updates", f"{metrics['updates']:,} ({metrics['skipped_updates']} skipped)"),
            ("target tokens", f"{tokens:,} in {seconds:,.0f} s, {rate:,.0f} a second"),
            ("longest input", f"{metrics['longest_train_source_words']} {metrics['length_unit']}s"),
        ],
    )
    print_paths(console, paths)
