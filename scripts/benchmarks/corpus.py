"""Time and memory of a large corpus: the first start, the second, an epoch's batches, training.

Text of the built-in grammar is written where there is none yet. Then two processes, one after the
other, do what `train.py` does: read, clean, learn a tokenizer, encode, and make some updates. The
second one finds all of it in the cache. Memory is the peak of the process itself (VmHWM of Linux);
what works on shards runs in forks of it, which end before the training and are not counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.grammar_text import write_corpus

ROOT = Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--pairs", type=int, default=100_000, help="training pairs (default: %(default)s)")
    add("--directory", type=Path, required=True, help="where the text is, or is written")
    add("--updates", type=int, default=50, help="of each start (default: %(default)s)")
    add("options", nargs="*", help="of train.py: model=rnn data.tokenizer.vocab_size=32000 ...")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures both starts, prints them and returns the figures."""
    directory = arguments.directory
    if not (directory / "train.de").exists():
        print(f"writing {arguments.pairs:,} pairs to {directory}", flush=True)
        write_corpus(directory, arguments.pairs)
    with tempfile.TemporaryDirectory(prefix="cache-", dir=directory) as cache:
        starts = {name: _start(Path(cache), arguments) for name in ("first", "second")}
    figures = {"pairs": _num_lines(directory / "train.de"), "starts": starts}
    print_summary(figures)
    return figures


def print_summary(figures: dict[str, Any]) -> None:
    """Prints a line for each step and each peak."""
    starts = figures["starts"].values()
    print(f"{figures['pairs']:,} pairs; first and second start: wall (CPU) seconds, peak MiB")
    for step in next(iter(starts))["seconds"]:
        both = (start["seconds"][step] for start in starts)
        print(f"{step:24}" + "".join(f"{x['wall']:12.1f} ({x['cpu']:.1f})" for x in both))
    for moment in ("prepared", "trained"):
        print(f"{moment:24}" + "".join(f"{start['peak_mib'][moment]:12.0f}" for start in starts))


def _start(cache: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    options = [
        *("data=files", "data.source_lang=en", "data.target_lang=de", "trainer=cpu"),
        f"data.directory={arguments.directory.resolve()}",
        f"data.cache_dir={cache.resolve()}",
        *(f"trainer.max_steps={arguments.updates}", "trainer.limit_val_batches=1"),
        "num_validations=1",
        f"threads={arguments.threads}",
        f"run_dir={cache.resolve()}/run",
        *arguments.options,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.corpus_start", *options],
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'scripts'}"},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    if done.returncode != 0:
        raise ValueError(f"the start ended with status {done.returncode}: see above.")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _num_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
