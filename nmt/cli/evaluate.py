"""Scores a checkpoint on a corpus or a pair of files; behind `scripts/evaluate.py`.

Translates and scores the splits of a corpus; what `train` and `evaluate` share.

The end of a run: translate with the best checkpoint, write the run folder, print.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

import nmt
from nmt.config import check_config, hydra_main
from nmt.data.datamodule import TranslationDataModule
from nmt.evaluation.figures import plot_bleu_by_length
from nmt.evaluation.results import (
    SplitResult,
    TranslatedSentence,
    print_examples,
    print_facts,
    print_paths,
    print_scores,
    score_split,
    write_metrics,
    write_translations,
)
from nmt.tokenizer import LengthUnit, count_units
from nmt.training.module import TranslationModule
from nmt.translator import Translator

if TYPE_CHECKING:
    from datasets import Dataset

    from nmt.tokenizer import LengthUnit
    from nmt.translator import Translator

logger = logging.getLogger(__name__)


def assess_split(
    translator: Translator, name: str, split: Dataset, *, unit: LengthUnit, batch_tokens: int
) -> SplitResult:
    """Translates every source of a split and scores the translations against its references.

    Args:
        translator: The model and its search.
        name: Name of the split.
        split: Columns source and target, raw text; perhaps document and kind.
        unit: What source lengths are counted in, "word" or "character".
        batch_tokens: Most source tokens in a batch.
    """
    translations = translator.translate(split["source"][:], batch_tokens=batch_tokens)
    origins = split.select_columns([c for c in ("document", "kind") if c in split.column_names])
    facts = list(origins) if origins.column_names else [{}] * len(split)
    sentences: Sequence[TranslatedSentence] = [
        TranslatedSentence(
            index=index,
            source=translation.source,
            reference=reference,
            hypothesis=translation.text,
            score=translation.score,
            source_words=count_units(translation.source, unit),
            **fact,
        )
        for index, (translation, reference, fact) in enumerate(
            zip(translations, split["target"][:], facts, strict=True)
        )
    ]
    return score_split(name, sentences, target_lang=translator.target_lang, unit=unit)


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


@hydra_main("evaluate")
def main(config: DictConfig) -> None:
    """Translates the split, prints its scores, and writes them where asked."""
    check_config(config)
    import torch
    from rich.console import Console

    from nmt.checkpoint import build
    from nmt.evaluation.figures import plot_bleu_by_length
    from nmt.evaluation.metrics import check_metrics
    from nmt.evaluation.results import (
        print_examples,
        print_paths,
        print_scores,
        write_metrics,
        write_translations,
    )
    from nmt.translator import Translator

    if config.output is not None:  # before the work: it may be no place to write to
        Path(config.output).mkdir(parents=True, exist_ok=True)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    translator = Translator.from_checkpoint(config.checkpoint, device=config.device)
    if config.decoding is not None:
        decoding: Any = OmegaConf.to_container(config.decoding, resolve=True)
        translator.search = build(decoding, allowed=("nmt.decoding.",))
    check_metrics(translator.target_lang)
    splits, unit = _splits(config, translator)
    _warn_of_capitals(splits, translator)
    results = [
        assess_split(translator, name, split, unit=unit, batch_tokens=config.batch_tokens)
        for name, split in splits.items()
    ]
    console = Console()
    print_scores(console, results)
    print_examples(console, results[0].sentences)
    if config.output is None:
        return
    output = Path(config.output)
    metrics = {result.name: result.metrics() for result in results} | {
        "checkpoint": str(config.checkpoint),
        "search": repr(translator.search),
    }
    written = [write_translations(output, result) for result in results]
    written.append(write_metrics(output, metrics))
    curves = {result.name: result.buckets for result in results}
    written.append(plot_bleu_by_length(curves, output / "bleu_by_length.png", unit=unit))
    print_paths(console, written)


def _warn_of_capitals(splits: dict[str, Dataset], translator: Translator) -> None:
    if translator.tokenizer.lowercase:
        names = [
            name
            for name, split in splits.items()
            if any(reference != reference.lower() for reference in split["target"][:])
        ]
        if names:
            logger.warning(
                "The model was trained on lower-cased text, but the references of %s have "
                "capitals and are scored as they are: lower-case them to compare with its run.",
                ", ".join(names),
            )


def _splits(config: DictConfig, translator: Translator) -> tuple[dict[str, Dataset], LengthUnit]:
    """Returns what is to be translated, by name, and what its source lengths are counted in."""
    from datasets import Dataset
    from hydra.utils import instantiate

    from nmt.data.files import Languages, language_of, read_parallel
    from nmt.study.probes.trained_run import data_of_run
    from nmt.tokenizer import default_unit

    languages = (translator.source_lang, translator.target_lang)
    if config.source is not None or config.reference is not None:
        if config.source is None or config.reference is None or config.data is not None:
            raise ValueError(
                f"source={config.source} reference={config.reference}: give both files and no data."
            )
        files = [config.source, config.reference]
        if [language_of(Path(file)) for file in files] == [*reversed(languages)]:
            raise ValueError(
                f"source={config.source} reference={config.reference}: checkpoint "
                f"{config.checkpoint} translates {'-'.join(languages)}, so swap the two."
            )
        text = read_parallel(files, Languages(*languages, {}))
        if not text.source:
            raise ValueError(f"source={config.source} has no lines; give a file with sentences.")
        dataset = Dataset.from_dict({"source": text.source, "target": text.target})
        return {"files": dataset}, default_unit(translator.source_lang)
    folder = Path(config.checkpoint).resolve().parents[1]
    if config.data is None and not (folder / "config.yaml").is_file():
        raise ValueError(
            f"checkpoint {config.checkpoint} does not lie in a run folder with a config.yaml: give "
            "data=NAME, or source=FILE reference=FILE."
        )
    data = data_of_run(folder) if config.data is None else instantiate(config.data)
    if (data.source_lang, data.target_lang) != languages:
        raise ValueError(
            f"checkpoint {config.checkpoint} translates {'-'.join(languages)}: set "
            f"data.source_lang={languages[0]} data.target_lang={languages[1]}."
        )
    names = [*data.test_splits, *data.valid_splits] if config.split == "all" else [config.split]
    return {name: data.split(name) for name in names}, data.length_unit
