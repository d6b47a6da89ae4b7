"""Measures a finished run beyond its test translations, and keeps the results in `RUN/probes/`.

    joined.jsonl, train.jsonl   translations of joined inputs and of training inputs
    probes.json                 all else: version, checkpoint_sha256, and what the findings add

What is measured is in `nmt.study.findings`. The folder appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from nmt.checks import UserError
from nmt.data.datamodule import TranslationDataModule
from nmt.data.files import pairs
from nmt.evaluation.results import read_objects
from nmt.study.findings import FINDINGS
from nmt.study.systems import PROBES, ROWS
from nmt.tokenizer import count_units, default_unit
from nmt.training.run_folder import data_of_run
from nmt.translator import Translator

logger = logging.getLogger(__name__)

VERSION = 1
CHECKPOINT = Path("checkpoints", "best.ckpt")
FILES = ("probes.json", *(f"{name}.jsonl" for name in ROWS))


@dataclass(frozen=True)
class TrainedRun:
    """A finished run as the findings need it: its best model, its corpus, and shorthands.

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

    def pairs(self, split: str) -> list[tuple[str, str]]:
        """Returns source and target of every pair of a split."""
        return list(pairs(self.data.split(split)))

    def column(self, split: str, name: str) -> list[Any] | None:
        """Returns what a corpus says of each pair; None where it does not, as most about bits."""
        dataset = self.data.split(split)
        return list(dataset[name]) if name in dataset.column_names else None

    def length(self, source: str) -> int:
        """Returns the length of a source in the unit of the corpus."""
        return count_units(source, self.data.length_unit)

    def translate(self, sources: Sequence[str]) -> list[str]:
        """Returns the best translation of each source."""
        found = self.translator.translate(sources, batch_tokens=self.batch_tokens)
        return [translation.text for translation in found]

    def join_sources(self, sources: Sequence[str]) -> str:
        """Returns several sources as one, joined as in training.

        Where training joins none, by a space, or by nothing in Chinese and Japanese.
        """
        return self._join(sources, self.data.source_lang)

    def join_targets(self, targets: Sequence[str]) -> str:
        """Returns several targets, or translations, as one."""
        return self._join(targets, self.data.target_lang)

    def _join(self, texts: Sequence[str], language: str) -> str:
        has_spaces = max(self.joined_sizes) > 1 or default_unit(language) != "character"
        return (" " if has_spaces else "").join(texts)


def probe_run(directory: str | Path, *, force: bool = False, device: str = "cpu") -> Path:
    """Measures a run, unless that was done with the same best checkpoint.

    Args:
        directory: Folder of a finished run, with `config.yaml` and `checkpoints/best.ckpt`.
        force: Measures again what is there already.
        device: `cpu`, `cuda`, ..., or `auto`.

    Returns:
        The folder of the results.

    Raises:
        UserError: This is no finished run, or its checkpoint or corpus cannot be used.
    """
    directory = Path(directory)
    checkpoint, folder = directory / CHECKPOINT, directory / PROBES
    if not checkpoint.is_file():
        raise UserError(f"{directory} has no {CHECKPOINT}: name the folder of a finished run.")
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    if not force and _is_of(folder, digest):
        logger.info("%s: kept", folder)
        return folder
    temporary = directory / f".{PROBES}.{os.getpid()}"
    temporary.mkdir()
    try:
        _measure(load_run(directory, device=device), temporary, digest)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    logger.info("%s: written", folder)
    return folder


def load_run(directory: Path, *, device: str) -> TrainedRun:
    """Loads the best checkpoint of a run and what its config says about the corpus.

    Raises:
        OSError: The folder has no config.
        UserError: Its config or checkpoint cannot be used.
    """
    config = OmegaConf.load(directory / "config.yaml")
    assert isinstance(config, DictConfig)
    concatenate = config.data.get("concatenate")
    return TrainedRun(
        translator=Translator.from_checkpoint(directory / CHECKPOINT, device=device),
        data=data_of_run(directory),
        batch_tokens=config.data.eval_token_budget,
        joined_sizes=[1] if not concatenate else list(concatenate.train),
    )


def _is_of(folder: Path, digest: str) -> bool:
    """Says whether the results are whole, of this format, and of the checkpoint of this digest."""
    if not all((folder / name).is_file() for name in FILES):
        return False
    try:
        (found,) = read_objects(folder / "probes.json", "measure the run again")
    except UserError:
        return False
    return (found.get("version"), found.get("checkpoint_sha256")) == (VERSION, digest)


def _measure(run: TrainedRun, folder: Path, digest: str) -> None:
    found: dict[str, Any] = {"version": VERSION, "checkpoint_sha256": digest}
    for finding in FINDINGS:
        measured = finding.measure(run)
        found |= measured
        if measured:
            logger.info("measured: %s", ", ".join(measured))
    for name in ROWS:
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in found.pop(name))
    text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    (folder / "probes.json").write_text(text + "\n", encoding="utf-8", newline="\n")
