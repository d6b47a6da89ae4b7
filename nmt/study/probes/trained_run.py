"""A finished run as the probes need it: its best model, its corpus, and a few shorthands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset
from omegaconf import DictConfig, OmegaConf

from nmt.checkpoint import build
from nmt.checks import UserError
from nmt.data.datamodule import TranslationDataModule
from nmt.data.files import pairs
from nmt.tokenizer import count_units, default_unit
from nmt.translator import Translator

CHECKPOINT = Path("checkpoints", "best.ckpt")


@dataclass(frozen=True)
class TrainedRun:
    """A run whose training has ended.

    Attributes:
        translator: The best checkpoint, with the search of the run.
        data: The corpus of the run.
        batch_tokens: Most tokens of a side in a batch.
        joined_sizes: How many pairs a training input may have, equally likely.
    """

    translator: Translator
    data: TranslationDataModule
    batch_tokens: int
    joined_sizes: Sequence[int]

    @property
    def headline_split(self) -> str:
        """Name of the test set that is measured: `test`, or the first of several corpora."""
        return self.data.test_splits[0]

    def translate(self, sources: Sequence[str]) -> list[str]:
        """Returns the best translation of each source."""
        found = self.translator.translate(sources, batch_tokens=self.batch_tokens)
        return [translation.text for translation in found]

    def length(self, source: str) -> int:
        """Returns the length of a source in the unit of the corpus."""
        return count_units(source, self.data.length_unit)

    def pairs(self, split: str) -> list[tuple[str, str]]:
        """Returns source and target of every pair of a split."""
        return list(pairs(self.data.split(split)))

    def join_sources(self, sources: Sequence[str]) -> str:
        """Returns several sources as one, with a space between them.

        None in Chinese or Japanese, unless training joins pairs, which it does by a space.
        """
        return _join(sources, self.data.source_lang, as_in_training=max(self.joined_sizes) > 1)

    def join_targets(self, targets: Sequence[str]) -> str:
        """Returns several targets, or translations, as one."""
        return _join(targets, self.data.target_lang, as_in_training=max(self.joined_sizes) > 1)


def load_run(directory: Path, *, device: str) -> TrainedRun:
    """Loads the best checkpoint of a run and what its config says about the corpus.

    Raises:
        UserError: The folder lacks its config or checkpoint, or they cannot be used.
    """
    path = directory / "config.yaml"
    if not path.is_file():
        raise UserError(f"{directory} has no config.yaml: name the folder of a finished run.")
    config = OmegaConf.load(path)
    assert isinstance(config, DictConfig)
    concatenate = config.data.get("concatenate")
    return TrainedRun(
        translator=Translator.from_checkpoint(directory / CHECKPOINT, device=device),
        data=data_of_run(directory),
        batch_tokens=config.data.eval_token_budget,
        joined_sizes=[1] if not concatenate else list(concatenate.train),
    )


def data_of_run(directory: Path) -> TranslationDataModule:
    """Builds the corpus of a run from its config.yaml, which may come from a stranger.

    Raises:
        UserError: It is no corpus of this package; none of its other classes is built.
    """
    node = OmegaConf.select(OmegaConf.load(directory / "config.yaml"), "data")
    if not isinstance(node, DictConfig):
        raise UserError(f"{directory}/config.yaml has no `data`: name the folder of a run.")
    options: Any = OmegaConf.to_container(node)  # not resolved: train.py has done that
    try:
        data: TranslationDataModule = build(options, allowed=("nmt.data.datamodule.",))
    except ValueError as error:
        raise UserError(f"{directory}/config.yaml: data: {error}") from error
    return data


def has_column(dataset: Dataset, name: str) -> bool:
    """Says whether a split has this column; only the grammar knows bits and gold links."""
    return name in dataset.column_names


def _join(sentences: Sequence[str], language: str, *, as_in_training: bool) -> str:
    """Joins by a space, as `data.concatenate` does; or by nothing where a language has none."""
    without_space = default_unit(language) == "character" and not as_in_training
    return ("" if without_space else " ").join(sentences)
