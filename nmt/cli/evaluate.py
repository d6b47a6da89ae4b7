"""Translates and scores: the end of a run, and the program behind `scripts/evaluate.py`.

`write_results` fills the folder of a run that has just been trained. `main` scores a checkpoint on
the corpus of its run, on another corpus, or on plain files with one or more references. What takes
seconds to import waits until the options have been checked.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from rich.console import Console

import nmt
from nmt.checks import UserError
from nmt.config import check_config, hydra_main
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
from nmt.tokenizer import LengthUnit, count_units, default_unit

if TYPE_CHECKING:
    import torch
    from datasets import Dataset

    from nmt.data.datamodule import TranslationDataModule
    from nmt.training.module import TranslationModule
    from nmt.translator import Translator

logger = logging.getLogger(__name__)

LIBRARIES = ("torch", "pytorch-lightning", "sentencepiece", "datasets", "sacrebleu")


@hydra_main("evaluate")
def main(config: DictConfig) -> None:
    """Translates the split, prints its scores, and writes them where asked."""
    check_config(config)
    import torch

    from nmt.checkpoint import build
    from nmt.evaluation.metrics import check_metrics
    from nmt.translator import Translator

    if config.output is not None:  # before the work: it may be no place to write to
        Path(config.output).mkdir(parents=True, exist_ok=True)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    translator = Translator.from_checkpoint(config.checkpoint, device=config.device)
    if config.decoding is not None:
        decoding: Any = OmegaConf.to_container(config.decoding, resolve=True)
        translator.search = build(decoding, allowed=("nmt.decoding.",))
    check_metrics(translator.target_lang, config.metrics)
    splits, unit = _splits(config, translator)
    _warn_of_capitals(splits, translator)
    results = assess(
        translator, splits, unit=unit, batch_tokens=config.batch_tokens, metrics=config.metrics
    )
    console = _print_results(results)
    if config.output is not None:
        facts = {"checkpoint": str(config.checkpoint), "search": repr(translator.search)}
        print_paths(console, _write(Path(config.output), results, facts, drawn=list(splits)))


def write_results(
    config: DictConfig, data: TranslationDataModule, module: TranslationModule, best: Path
) -> None:
    """Evaluates the best checkpoint on the validation and test splits; writes and prints it all."""
    from nmt.translator import Translator

    device = module.trainer.strategy.root_device  # `module.device` is the CPU after `fit`
    results = assess(
        Translator.from_checkpoint(best, device=str(device)),
        {name: data.split(name) for name in [*data.test_splits, *data.valid_splits]},
        unit=data.length_unit,
        batch_tokens=config.data.eval_token_budget,
        metrics=config.metrics,
    )
    run = Path(config.run_dir)
    facts = _facts(config, data, module, device, best.relative_to(run))
    paths = _write(
        run,
        results,
        facts,
        drawn=data.test_splits,
        longest_train=data.longest_train_source_words,
        title=f"{run.parent.name}: BLEU by source length",
    )
    paths += [path for path in (run / "config.yaml", run / "metrics.csv", best) if path.exists()]
    console = _print_results(results)
    _print_training(console, facts)
    print_paths(console, paths)


def assess(
    translator: Translator,
    splits: Mapping[str, Dataset],
    *,
    unit: LengthUnit,
    batch_tokens: int,
    metrics: Sequence[str],
) -> list[SplitResult]:
    """Translates every source of each split and scores the translations against its references.

    Args:
        translator: The model and its search.
        splits: By name; columns source and target, raw text; perhaps document and
            more_references.
        unit: What source lengths are counted in.
        batch_tokens: Most source tokens in a batch.
        metrics: As for `nmt.evaluation.metrics.score`.
    """
    results = []
    for name, split in splits.items():
        sentences = _translated(translator, split, unit=unit, batch_tokens=batch_tokens)
        result = score_split(
            name, sentences, target_lang=translator.target_lang, unit=unit, metrics=metrics
        )
        results.append(result)
        if result.num_unfinished:
            logger.warning(
                "%d of %d translations of %s ended at the length limit before the model ended "
                "them: raise decoding.max_length or decoding.max_length_ratio.",
                result.num_unfinished,
                len(sentences),
                name,
            )
    return results


def _translated(
    translator: Translator, split: Dataset, *, unit: LengthUnit, batch_tokens: int
) -> list[TranslatedSentence]:
    translations = translator.translate(split["source"][:], batch_tokens=batch_tokens)
    known = [c for c in ("document", "more_references") if c in split.column_names]
    facts = list(split.select_columns(known)) if known else [{}] * len(split)
    return [
        TranslatedSentence(
            index=index,
            source=translation.source,
            reference=reference,
            hypothesis=translation.text,
            score=translation.score,
            source_words=count_units(translation.source, unit),
            finished=translation.alternatives[0].finished,
            **fact,
        )
        for index, (translation, reference, fact) in enumerate(
            zip(translations, split["target"][:], facts, strict=True)
        )
    ]


def _write(
    folder: Path,
    results: Sequence[SplitResult],
    facts: Mapping[str, Any],
    *,
    drawn: Sequence[str],
    longest_train: int | None = None,
    title: str = "",
) -> list[Path]:
    """Writes translations, metrics and the figure of some splits, and returns their paths."""
    from nmt.evaluation.figures import draw_bleu_by_length, save_as

    figure = draw_bleu_by_length(
        {result.name: result.buckets for result in results if result.name in drawn},
        unit=results[0].unit,
        longest_train=longest_train,
        title=title,
    )
    return [
        *(write_translations(folder, result) for result in results),
        write_metrics(folder, {**{result.name: result.metrics() for result in results}, **facts}),
        save_as(figure, folder / "bleu_by_length.png"),
    ]


def _facts(
    config: DictConfig,
    data: TranslationDataModule,
    module: TranslationModule,
    device: torch.device,
    best: Path,
) -> dict[str, Any]:
    """Returns the keys of metrics.json that are no scores."""
    import torch

    parameters = module.model.num_parameters()
    if device.type == "cuda":
        device_name = torch.cuda.get_device_name(device)
    else:
        device_name = f"{device.type}, {torch.get_num_threads()} threads"
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
        "device": device_name,
        "versions": {name: version(name) for name in LIBRARIES}
        | {"nmt": nmt.__version__, "python": platform.python_version()},
    }


def _print_results(results: Sequence[SplitResult]) -> Console:
    console = Console()
    print_scores(console, results)
    print_examples(console, results[0].sentences)
    return console


def _print_training(console: Console, facts: Mapping[str, Any]) -> None:
    embedding = facts["num_parameters"]["embedding"]
    other = facts["num_parameters"]["total"] - embedding
    tokens, seconds = facts["target_tokens_seen"], facts["seconds"]
    rate = tokens / max(0.1, seconds)  # a run of one update may take 0.0 s
    print_facts(
        console,
        [
            ("parameters", f"{embedding:,} embedding + {other:,} other"),
            ("updates", f"{facts['updates']:,} ({facts['skipped_updates']} skipped)"),
            ("target tokens", f"{tokens:,} in {seconds:,.0f} s, {rate:,.0f} a second"),
            ("longest input", f"{facts['longest_train_source_words']} {facts['length_unit']}s"),
        ],
    )


def _splits(config: DictConfig, translator: Translator) -> tuple[dict[str, Dataset], LengthUnit]:
    """Returns what is to be translated, by name, and what its source lengths are counted in."""
    from hydra.utils import instantiate

    from nmt.training.run_folder import data_of_run

    languages = (translator.source_lang, translator.target_lang)
    if config.source is not None or config.reference is not None:
        return {"files": _files(config, languages)}, default_unit(translator.source_lang)
    folder = Path(config.checkpoint).resolve().parents[1]
    if config.data is None and not (folder / "config.yaml").is_file():
        raise UserError(
            f"checkpoint {config.checkpoint} does not lie in a run folder with a config.yaml: give "
            "data=NAME, or source=FILE reference=FILE."
        )
    data = data_of_run(folder) if config.data is None else instantiate(config.data)
    if (data.source_lang, data.target_lang) != languages:
        raise UserError(
            f"checkpoint {config.checkpoint} translates {'-'.join(languages)}: set "
            f"data.source_lang={languages[0]} data.target_lang={languages[1]}."
        )
    names = [*data.test_splits, *data.valid_splits] if config.split == "all" else [config.split]
    return {name: data.split(name) for name in names}, data.length_unit


def _files(config: DictConfig, languages: tuple[str, str]) -> Dataset:
    """Reads a file of sources and one or more files of references."""
    from datasets import Dataset

    from nmt.data.files import Languages, language_of, read_parallel

    several = isinstance(config.reference, ListConfig)
    references = list(config.reference) if several else [config.reference]
    if config.source is None or None in references or not references or config.data is not None:
        raise UserError(
            f"source={config.source} reference={config.reference}: give both files and no data."
        )
    sides = [language_of(Path(file)) for file in (config.source, references[0])]
    if sides == [*reversed(languages)]:
        raise UserError(
            f"source={config.source} reference={references[0]}: checkpoint "
            f"{config.checkpoint} translates {'-'.join(languages)}, so swap the two."
        )
    codes = Languages(*languages, {})
    texts = [read_parallel([config.source, reference], codes) for reference in references]
    if not texts[0].source:
        raise UserError(f"source={config.source} has no lines; give a file with sentences.")
    columns: dict[str, Any] = {"source": texts[0].source, "target": texts[0].target}
    if len(texts) > 1:
        columns["more_references"] = list(zip(*(text.target for text in texts[1:]), strict=True))
    return Dataset.from_dict(columns)


def _warn_of_capitals(splits: Mapping[str, Dataset], translator: Translator) -> None:
    for name, split in splits.items():
        if translator.tokenizer.lowercase and any(t != t.lower() for t in split["target"][:]):
            logger.warning(
                "The model was trained on lower-cased text, but references of %s have capitals and "
                "are scored as they are: lower-case them to compare with its run.",
                name,
            )
