"""Training speed of several processes against one, by train.py itself with the same updates.

One process adds up the micro-batches that several share out, so that both make the same updates
of the same global batches. They take turns, round by round; each starts anew.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from nmt.checks import at_least

TRAIN = Path(__file__).parents[2] / "train.py"
LOG_EVERY = 5  # updates


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    parser.add_argument("--processes", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--updates", type=int, default=60, help="of each run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (%(default)s)")
    parser.add_argument("--accelerator", default="cpu", help="or gpu (default: %(default)s)")
    parser.add_argument("options", nargs="*", help="of train.py: model=rnn data=multi30k ...")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures both sides, prints them and returns the figures."""
    at_least("processes", arguments.processes, 2)
    sides = (1, arguments.processes)
    rates: dict[int, list[float]] = {devices: [] for devices in sides}
    with tempfile.TemporaryDirectory(prefix="nmt-ddp-") as folder:
        for number in range(arguments.rounds):
            for devices in sides:
                rates[devices].append(
                    _rate(Path(folder, f"{number}-{devices}"), devices, arguments)
                )
    ratios = [several / one for one, several in zip(*rates.values(), strict=True)]
    speed_up = statistics.median(ratios)
    figures = {
        "target_tokens_per_second": {str(n): statistics.median(r) for n, r in rates.items()},
        "speed_up_of_each_round": ratios,
        "speed_up": speed_up,
        "waiting": max(0.0, 1 - speed_up / arguments.processes),
    }
    for devices in sides:
        print(f"{devices} process(es) {statistics.median(rates[devices]):12,.0f} target tokens/s")
    print(
        f"speed-up {speed_up:.2f}, median of {arguments.rounds} paired rounds ({min(ratios):.2f} "
        f"to {max(ratios):.2f}); {figures['waiting']:.0%} of the processes' time is lost waiting "
        "for each other, the network or the memory"
    )
    return figures


def _rate(folder: Path, devices: int, arguments: argparse.Namespace) -> float:
    """Trains once; returns target tokens a second, the first logged interval left out."""
    command = [
        *(
            sys.executable,
            str(TRAIN),
            "trainer=ddp",
            f"trainer.accelerator={arguments.accelerator}",
        ),
        *(f"trainer.devices={devices}", "trainer.strategy=auto" if devices == 1 else ""),
        f"trainer.accumulate_grad_batches={arguments.processes // devices}",
        *(f"trainer.max_steps={arguments.updates}", f"trainer.log_every_n_steps={LOG_EVERY}"),
        *("num_validations=1", "trainer.limit_val_batches=1", f"threads={arguments.threads}"),
        *("+trainer.enable_progress_bar=false", "~callbacks.progress", "decoding=greedy"),
        "decoding.max_length=1",  # what is translated after training is not measured
        f"hydra.run.dir={folder}",
        *arguments.options,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads)}
    done = subprocess.run(
        [word for word in command if word], env=environment, capture_output=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise ValueError(f"train.py ended with status {done.returncode}: {done.stderr[-2000:]}")
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = [float(row["tokens_per_s"]) for row in csv.DictReader(file) if row["tokens_per_s"]]
    if len(rows) < 2:
        raise ValueError(
            f"--updates {arguments.updates} is too few: give at least {2 * LOG_EVERY}."
        )
    return statistics.median(rows[1:])
