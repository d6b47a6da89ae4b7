"""Scores a checkpoint on a corpus or a pair of files; behind `scripts/evaluate.py`."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from nmt.config import check_config, hydra_main

if TYPE_CHECKING:
    from datasets import Dataset

    from nmt.data.length_unit import LengthUnit
    from nmt.translator import Translator

logger = logging.getLogger(__name__)


@hydra_main("evaluate")
def main(config: DictConfig) -> None:
    """Translates the split, prints its scores, and writes them where asked."""
    check_config(config)
    import torch
    from rich.console import Console

    from nmt.checkpoint import build
    from nmt.cli.assess import assess_split
    from nmt.evaluation.metrics import check_metrics
    from nmt.evaluation.run_results import write_metrics, write_translations
    from nmt.evaluation.summary import print_examples, print_paths, print_scores
    from nmt.figures.bleu_by_length import plot_bleu_by_length
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


def _warn_of_capitals(splits: "dict[str, Dataset]", translator: "Translator") -> None:
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


def _splits(
    config: DictConfig, translator: "Translator"
) -> "tuple[dict[str, Dataset], LengthUnit]":
    """Returns what is to be translated, by name, and what its source lengths are counted in."""
    from datasets import Dataset
    from hydra.utils import instantiate

    from nmt.data.files import language_of, read_parallel
    from nmt.data.length_unit import default_unit
    from nmt.data.tables import Languages
    from nmt.probes.trained_run import data_of_run

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
