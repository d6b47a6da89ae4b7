"""The plan of the bottleneck experiment: which runs belong to it, and one command that does it all.

Each run has its own folder below OUTPUT/runs. A finished one is kept, an interrupted one resumes
from its last.ckpt, so the same command can be given again until all is done, with more seeds or
models too. Every run is measured, and the comparison is written to OUTPUT/report.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config import config_directory

MODELS = ("rnn", "bahdanau", "transformer")


class PlannedRun(NamedTuple):
    """A training that belongs to the experiment: the name of its folder, options of train.py."""

    name: str
    options: tuple[str, ...]


def parse(argv: Sequence[str] | None, *, description: str | None = None) -> argparse.Namespace:
    """Reads the command line; what would do nothing is refused before the first run."""
    parser = _parser(description)
    options = parser.parse_intermixed_args(argv)  # options of train.py may stand anywhere
    every_option = [*options.options, *(option for _, option in options.set)]
    if any(option.startswith(("seed=", "model=", "hydra.")) for option in every_option):
        parser.error("seed, model and folders belong to the plan: use --seeds, --models, --output")
    if options.rnn_budgets and options.updates is None:
        parser.error("--rnn-budgets are multiples of --updates, which is missing")
    if options.slots and not set(options.slot_models) & set(options.models):
        parser.error("--slots are of --slot-models, none of which is among --models")
    if options.rnn_budgets and "rnn" not in options.models:
        parser.error("--rnn-budgets are of the rnn, which is not among --models")
    if 1 in options.rnn_budgets:
        parser.error("--rnn-budgets 1 is the rnn itself: leave it out")
    if unknown := {model for model, _ in options.set} - {*MODELS, *options.models}:
        parser.error(f"--set {min(unknown)}: no such model; one of {', '.join(MODELS)}")
    for model in options.models:
        for choice in _choice(options, model):
            file = config_directory() / f"{choice.replace('=', '/')}.yaml"
            if not file.is_file():
                parser.error(f"--models {model}: there is no {file}")
    return options


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bottleneck",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--seeds", type=_numbers, default=[1], metavar="N,...", help="seeds of the trainings")
    add("--models", type=_names, default=list(MODELS), metavar="NAME,...", help="models to train")
    add("--slots", type=_numbers, default=[], metavar="K,...", help="memory slots of the models "
        "with attention")  # fmt: skip
    add("--slot-models", type=_names, default=["bahdanau"], metavar="NAME,...",
        help="models that get memory slots (default: bahdanau)")  # fmt: skip
    add("--rnn-budgets", type=_numbers, default=[], metavar="F,...",
        help="further budgets of the rnn, in multiples of the others'")  # fmt: skip
    add("--updates", type=int, metavar="N", help="budget of a run (default: as train.py)")
    add("--jobs", type=int, default=1, metavar="N", help="trainings side by side, each with its "
        "output in OUTPUT/runs/NAME.log; add threads=... to share the cores")  # fmt: skip
    add("--set", nargs=2, action="append", default=[], metavar=("MODEL", "OPTION"),
        help="an option of train.py for all runs of one model; may be repeated")  # fmt: skip
    add("--experiment", metavar="NAME", help="take conf/experiment/NAME.yaml")
    add("--split", default="test", metavar="NAME", help="test set of the comparison")
    add("--output", type=Path, default=Path("outputs/bottleneck"), metavar="DIR")
    add("options", nargs="*", metavar="OPTION", help="options of train.py for every run")
    return parser


def _numbers(text: str) -> list[int]:
    return list(dict.fromkeys(int(part) for part in text.split(",")))


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def planned_runs(options: argparse.Namespace) -> Iterator[PlannedRun]:
    """Yields all runs of the first seed, then those of the second, and so on."""
    updates = [] if options.updates is None else [f"trainer.max_steps={options.updates}"]
    for seed, model in product(options.seeds, options.models):
        own = [option for name, option in options.set if name == model]
        always = (*_choice(options, model), f"seed={seed}", *options.options, *own)
        base = (*always, *updates)
        yield PlannedRun(f"{model}-seed{seed}", base)
        for slots in options.slots if model in options.slot_models else ():
            name = f"{model}-slots{slots}-seed{seed}"
            yield PlannedRun(name, (*base, f"model.memory_slots={slots}"))
        for factor in options.rnn_budgets if model == "rnn" else ():
            longer = f"trainer.max_steps={factor * options.updates}"
            yield PlannedRun(f"rnn-budget{factor}-seed{seed}", (*always, longer))


def _choice(options: argparse.Namespace, model: str) -> list[str]:
    """Returns the options of train.py that choose the experiment, if any, and the model."""
    experiment = [f"experiment={options.experiment}"] if options.experiment else []
    return [*experiment, f"model={model}"]


def finish_runs(options: argparse.Namespace, *, train: Path, probe: Path) -> tuple[int, list[Path]]:
    """Trains and measures what is not done yet.

    Args:
        options: As `parse` returns them.
        train: The program that trains.
        probe: The program that measures.

    Returns:
        The exit status, and the folders of all runs.
    """
    runs, plan, programs = options.output / "runs", list(planned_runs(options)), _Programs()
    runs.mkdir(parents=True, exist_ok=True)

    def finish(numbered: tuple[int, PlannedRun]) -> int:
        place, run = numbered
        log = runs / f"{run.name}.log" if options.jobs > 1 else None
        if not programs.stopped:
            print(f"bottleneck: run {place} of {len(plan)}: {run.name}", file=sys.stderr)
        folder = runs / run.name
        metrics, last = folder / "metrics.json", folder / "checkpoints" / "last.ckpt"
        if not metrics.is_file():
            place_of_run = f"ckpt_path='{last}'" if last.is_file() else f"hydra.run.dir='{folder}'"
            if status := programs.call([str(train), *run.options, place_of_run], log):
                return status
            if not metrics.is_file():
                return int(not programs.stopped)
        if (folder / "probes" / "probes.json").is_file():
            return 0
        threads = [f"--{option}" for option in run.options if option.startswith("threads=")]
        return programs.call([str(probe), str(folder), *threads], log)

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            status = max(pool.map(finish, enumerate(plan, 1)), key=abs)
        except (SystemExit, KeyboardInterrupt):
            programs.stop()
            raise
    return status, [runs / run.name for run in plan]


def same_options(options: argparse.Namespace) -> bool:
    """Says whether the runs here were made with these options; notes those of new models."""
    path = options.output / "options.json"
    noted: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    noted = {
        model: own
        for model, own in noted.items()
        if any(path.parent.glob(f"runs/{model}-*/checkpoints/*.ckpt"))
    }
    shared = [options.experiment, options.updates, *options.options]
    chosen = {
        model: [*shared, *(option for name, option in options.set if name == model)]
        for model in options.models
    }
    if any(noted.get(model, own) != own for model, own in chosen.items()):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(noted | chosen, indent=2) + "\n", encoding="utf-8")
    return True


class _Programs:
    """Starts programs, from several threads; once one has failed or all are stopped, no more."""

    def __init__(self) -> None:
        self.stopped = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def call(self, arguments: Sequence[str], log: Path | None) -> int:
        """Returns the exit status, 0 for what is not started any more."""
        with contextlib.ExitStack() as stack:
            file = None if log is None else stack.enter_context(log.open("ab"))
            with self._lock:
                if self.stopped:
                    return 0
                program = subprocess.Popen([sys.executable, *arguments], stdout=file, stderr=file)
                self._running.add(program)
            status = program.wait()
            with self._lock:
                self._running.remove(program)
                if status and not self.stopped:
                    self.stopped = True
                    shown = "" if log is None else f"; its output is in {log}"
                    failed = f"{' '.join(arguments)} ended with {status}{shown}"
                    print(f"bottleneck: error: {failed}.", file=sys.stderr)
        return status

    def stop(self) -> None:
        """Stops all; a training writes a checkpoint to resume from."""
        with self._lock:
            self.stopped = True
            for program in self._running:
                program.terminate()
