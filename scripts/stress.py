r"""Kills a training again and again and shows that it ends like one that was left alone.

    python scripts/stress.py --kills 20
    python scripts/stress.py --kills 20 data.num_workers=2 \
        trainer=ddp trainer.accelerator=cpu trainer.devices=2

A small run is trained to its end. The same run is trained again: all its processes are killed
(SIGKILL) at random moments, also while it validates, writes a checkpoint or is between two
micro-batches of an update, and each time it resumes from `last.ckpt`. The two run folders are then
compared bit by bit, except for times. Exit status: 0 when nothing differs, else 1.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor

from nmt.checks import at_least, flag_main

TRAIN = Path(__file__).parents[1] / "train.py"
UPDATES, ACCUMULATE = 120, 3
# Moments to kill at: the kill comes up to so many seconds after a run has reached one.
DELAYS = {
    "anywhere": 3.0,
    "accumulating": 0.005,
    "validating": 0.1,
    "saving": 0.02,
    "starting": 8.0,
    "testing": 0.5,  # the last kill, and no other
}
DEFAULTS = (
    *("data=grammar", "data.grammar.train_size=900", "data.grammar.valid_size=40"),
    *("data.grammar.test_per_bucket=2", "data.token_budget=240", "data.tokenizer.vocab_size=400"),
    *("model=transformer", "model.width=32", "model.num_heads=2", "model.num_kv_heads=1"),
    *("model.feed_forward=48", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("model.dropout=0.1", "scheduler.warmup=10", "optimizer.lr=5e-3"),
    *("trainer=cpu", "threads=1", "trainer.log_every_n_steps=1", "num_validations=12"),
    *("callbacks.last.every_n_updates=7", f"trainer.max_steps={UPDATES}"),
    f"trainer.accumulate_grad_batches={ACCUMULATE}",
)
TIMES = ("seconds", "tokens_per_s")


@flag_main
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (%(default)s)")
    parser.add_argument("--folder", type=Path, help="kept (default: temporary, kept on a fault)")
    parser.add_argument("options", nargs="*", help="options of train.py")
    arguments = parser.parse_args(argv)
    at_least("--kills", arguments.kills)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="nmt-stress-"))
    folder.mkdir(parents=True, exist_ok=True)
    undisturbed, disturbed = (folder.resolve() / name for name in ("undisturbed", "disturbed"))
    finish(undisturbed, arguments.options)
    kills = plan_kills(arguments.kills, updates=UPDATES, seed=arguments.seed)
    num_deaths = train_and_kill(disturbed, arguments.options, kills)
    found = differences(undisturbed, disturbed)
    for part, names in found.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"{part:24}" + (f"DIFFERS: {', '.join(names[:3])}{more}" if names else "same"))
    if any(found.values()):
        print(f"DIFFERENT; both runs are kept in {folder}.")
        return 1
    if arguments.folder is None:
        shutil.rmtree(folder)
    print(f"{num_deaths} kills, nothing differs.")
    return 0


class Kill(NamedTuple):
    """When a run is to be killed: `delay` seconds after a moment at or after an update."""

    kind: str  # a key of `DELAYS`
    update: int
    delay: float


class Phase(NamedTuple):
    """What a run is doing: a key of `DELAYS` or `training`; and how many updates it has made."""

    name: str
    update: int


def plan_kills(count: int, *, updates: int, seed: int) -> list[Kill]:
    """Spreads `count` kills over the run, each kind as often; the last one hits the test."""
    draw = random.Random(seed)
    at = sorted(draw.randrange(updates) for _ in range(count))
    *kinds, last = DELAYS
    drawn = [kinds[number % len(kinds)] for number in range(count - 1)]
    draw.shuffle(drawn)
    return [
        Kill(kind, update, draw.uniform(0, DELAYS[kind]))
        for kind, update in zip([*drawn, last], at, strict=True)
    ]


def finish(run: Path, options: Sequence[str]) -> None:
    """Trains to the end, from `last.ckpt` where there is one."""
    with training(run, options) as process:
        code = process.wait()
    if code != 0:
        log = run.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"train.py ended with status {code}:\n{log[-3000:]}")


def train_and_kill(run: Path, options: Sequence[str], kills: Sequence[Kill]) -> int:
    """Trains to the end with these interruptions; prints and counts those that hit it."""
    num_deaths = 0
    for kill in kills:
        (run / "phase").unlink(missing_ok=True)
        with training(run, options) as process:
            running = wait_for(kill, process, run / "phase")
        if running:
            num_deaths += 1
            hit = read_phase(run / "phase")
            print(
                f"kill {num_deaths}: aimed at {kill.kind}, hit {hit.name}, update {hit.update}",
                flush=True,
            )
    finish(run, options)
    return num_deaths


@contextlib.contextmanager
def training(run: Path, options: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Starts or resumes a training in its own process group; kills at once what is left of it."""
    run.mkdir(parents=True, exist_ok=True)
    last = run / "checkpoints" / "last.ckpt"
    command = [
        *(sys.executable, str(TRAIN), *DEFAULTS, *options),
        f"hydra.run.dir={run}",
        f"data.cache_dir={run.with_name(f'cache-{run.name}')}",
        "+callbacks.phase._target_=scripts.stress.PhaseFile",
        f"+callbacks.phase.path={run / 'phase'}",
        *([f"ckpt_path={last}"] if last.exists() else []),
    ]
    with run.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=run.parent,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(kill: Kill, process: subprocess.Popen[bytes], phase_file: Path) -> bool:
    """Waits for the moment of a kill; returns whether the run is still there."""
    while not _reached(kill, read_phase(phase_file)):
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    time.sleep(kill.delay)
    return process.poll() is None


def _reached(kill: Kill, phase: Phase) -> bool:
    if kill.kind == "starting":
        return True
    there = phase.name == kill.kind or (kill.kind == "anywhere" and phase.name != "starting")
    return there and phase.update >= kill.update


def read_phase(path: Path) -> Phase:
    """Returns the newest entry of a `PhaseFile`; `starting` where there is none yet."""
    words = path.read_text(encoding="ascii").split() if path.exists() else []
    return Phase(words[0], int(words[1])) if words else Phase("starting", 0)


class PhaseFile(pl.Callback):
    """Writes what rank 0 is doing to a file that outlives it; costs microseconds."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Opens the file."""
        if trainer.is_global_zero:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT)

    def _write(self, trainer: pl.Trainer, name: str) -> None:
        if self._file is not None:
            os.pwrite(self._file, f"{name} {trainer.global_step}".ljust(40).encode("ascii"), 0)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Distinguishes the first micro-batch of an update from those whose gradients add up."""
        within = batch_idx % trainer.accumulate_grad_batches
        self._write(trainer, "accumulating" if within else "training")

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """A validation begins."""
        self._write(trainer, "validating")

    def on_save_checkpoint(self, trainer: pl.Trainer, *args: Any) -> None:
        """A checkpoint is collected, and then written."""
        self._write(trainer, "saving")

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Training is over."""
        self._write(trainer, "testing")


def differences(first: Path, second: Path) -> dict[str, list[str]]:
    """Returns for each part of two run folders the names of the values that differ."""
    ours, theirs = _contents(first), _contents(second)
    found = {}
    for part in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(part, {}), theirs.get(part, {})
        names = sorted(mine.keys() | other.keys())
        found[part] = [name for name in names if mine.get(name) != other.get(name)]
    return found


def _contents(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns for each part of a run folder its values by dotted name."""
    found: dict[str, Any] = {}
    for name in ("last.ckpt", "best.ckpt"):
        path = folder / "checkpoints" / name
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        found |= {f"{name}: {key}": value for key, value in checkpoint.items()}
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        found["metrics.csv"] = list(csv.DictReader(file))
    found["metrics.json"] = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    found["translations"] = {
        path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.jsonl")
    }
    place = str(folder.resolve())
    return {part: dict(_leaves(value, "", place)) for part, value in found.items()}


def _leaves(value: Any, name: str, folder: str) -> Iterator[tuple[str, Any]]:
    """Yields dotted name and bits of all that is no dict or list, but for times; paths relative.

    Of a dict or list it yields the length, so that an empty one counts. `repr` distinguishes 1 from
    1.0 and True, and 0.0 from -0.0.
    """
    if isinstance(value, Mapping):
        items = [(str(key).removeprefix(folder), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(key), inner) for key, inner in enumerate(value)]
    elif isinstance(value, Tensor):
        yield name, (value.dtype, value.shape, value.numpy().tobytes())
        return
    else:
        yield name, repr(value).replace(folder, "")
        return
    yield name, len(items)
    for key, inner in items:
        if key not in TIMES:
            yield from _leaves(inner, f"{name}.{key}" if name else key, folder)


if __name__ == "__main__":
    sys.exit(main())
