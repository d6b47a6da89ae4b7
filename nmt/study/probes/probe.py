"""Measures a finished run and keeps the results in its folder, `RUN/probes/`.

joined.jsonl   translations of joined inputs, see `nmt.study.probes.joined`
train.jsonl    translations of training inputs, see `nmt.study.probes.training_sample`
probes.json    the numbers: version, checkpoint_sha256, flops_per_target_token, nll, bits, and, for
               a model with attention over words, alignment and attention
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.checks import UserError
from nmt.study.probes.attention import probe_attention
from nmt.study.probes.cost import probe_cost
from nmt.study.probes.joined import probe_joined
from nmt.study.probes.likelihood import probe_likelihood
from nmt.study.probes.trained_run import CHECKPOINT, TrainedRun, has_column, load_run
from nmt.study.probes.training_sample import probe_training

logger = logging.getLogger(__name__)


VERSION = 1
FOLDER = "probes"
FILES = ("joined.jsonl", "train.jsonl", "probes.json")


def probe_run(directory: str | Path, *, force: bool = False, device: str = "cpu") -> Path:
    """Measures a run, unless that was done with the same best checkpoint.

    The folder appears whole or not at all.

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
    checkpoint, folder = directory / CHECKPOINT, directory / FOLDER
    if not checkpoint.is_file():
        raise UserError(f"{directory} has no {CHECKPOINT}: name the folder of a finished run.")
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    if not force and _is_of(folder, digest):
        logger.info("%s: kept", folder)
        return folder
    temporary = directory / f".{FOLDER}.{os.getpid()}"
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


def _is_of(folder: Path, digest: str) -> bool:
    """Says whether the results are whole, of this format, and of the checkpoint of this digest."""
    if not all((folder / name).is_file() for name in FILES):
        return False
    try:
        found = json.loads((folder / "probes.json").read_text(encoding="utf-8"))
    except ValueError:
        return False
    return (found.get("version"), found.get("checkpoint_sha256")) == (VERSION, digest)


def _measure(run: TrainedRun, folder: Path, digest: str) -> None:
    data = run.data
    logger.info("joined inputs")
    _write_lines(folder / "joined.jsonl", probe_joined(run))
    logger.info("training inputs")
    _write_lines(folder / "train.jsonl", map(asdict, probe_training(run)))
    logger.info("probability of the references")
    scored = (run.headline_split, "test_joined")  # of lengths as in training
    nll = {name: probe_likelihood(run, name) for name in data.test_splits if name in scored}
    bits = {
        name: data.split(name)["bits"][:]
        for name in data.test_splits
        if has_column(data.split(name), "bits")
    }
    logger.info("attention")
    attention = probe_attention(run)
    logger.info("cost of training")
    numbers = {
        "version": VERSION,
        "checkpoint_sha256": digest,
        "flops_per_target_token": probe_cost(run),
        "nll": nll,
        **({"bits": bits} if bits else {}),
        **attention,
    }
    text = json.dumps(numbers, ensure_ascii=False, allow_nan=False)
    (folder / "probes.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
