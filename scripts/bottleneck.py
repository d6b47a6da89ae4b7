"""The bottleneck experiment: trains the models under one budget, measures and compares them.

    python scripts/bottleneck.py                                   # built-in corpus, one seed
    python scripts/bottleneck.py --seeds 1,2,3 --slots 1,2,4,8 --updates 2400 --rnn-budgets 2,4
    python scripts/bottleneck.py --experiment multi30k_joined --split test_joined data.directory=DIR
    python scripts/bottleneck.py --jobs 2 --set transformer optimizer.lr=4e-3 threads=1

Further arguments are options of train.py, the same for every run. Each run has its own folder
below OUTPUT/runs; a finished one is kept, an interrupted one continues from its last.ckpt, so the
same command can be given again until all is done, with more seeds or models too. The comparison
is written to OUTPUT/report.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.checks import UserError

if __name__ == "bottleneck":  # pandas, which looks for a library of this name beside the script
    raise ImportError("scripts/bottleneck.py is a program, not the library bottleneck")

from nmt.checks import flag_main
from nmt.cli.compare import main as compare
from nmt.config import config_directory

TRAIN = Path(__file__).resolve().parents[1] / "train.py"
PROBE = Path(__file__).resolve().with_name("probe.py")
MODELS = ("rnn", "bahdanau", "transformer")


@dataclass(frozen=True)
class PlannedRun:
    """A training that belongs to the experiment.

    Attributes:
        name: Of its folder.
        options: Of train.py.
    """

    name: str
    options: tuple[str, ...]


@flag_main
def main(argv: Sequence[str] | None) -> int:
    """Runs what is not done yet; returns the exit status."""
    parser = _parser()
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
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; at least one training has to run")
    if unknown := {model for model, _ in options.set} - {*MODELS, *options.models}:
        parser.error(f"--set {min(unknown)}: no such model; one of {', '.join(MODELS)}")
    for model in options.models:
        file = config_directory() / f"model/{model}.yaml"
        if not file.is_file():
            parser.error(f"--models {model}: there is no {file}")
    runs = options.output / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    if not _same_options(options):
        raise UserError(
            f"{options.output} holds runs made with other options (see its options.json): give "
            "another --output."
        )
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    return _run(options, runs)


def _run(options: argparse.Namespace, runs: Path) -> int:
    plan = list(_plan(options))
    programs = _Programs()

    def finish(numbered: tuple[int, PlannedRun]) -> int:
        number, run = numbered
        log = runs / f"{run.name}.log" if options.jobs > 1 else None
        if not programs.stopped:
            print(f"bottleneck: run {number} of {len(plan)}: {run.name}", file=sys.stderr)
        return _finish(programs, runs / run.name, run.options, log)

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            status = max(pool.map(finish, enumerate(plan, 1)), key=abs)
        except (SystemExit, KeyboardInterrupt):
            programs.stop()
            raise
    if status:
        return status
    report = str(options.output / "report")
    folders = [str(runs / run.name) for run in plan]
    return compare([*folders, "--split", options.split, "--output", report])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bottleneck",
        description=__doc__,
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
    add("--experiment", metavar="NAME", help="of conf/experiment, for each model")
    add("--split", default="test", metavar="NAME", help="test set of the comparison")
    add("--output", type=Path, default=Path("outputs/bottleneck"), metavar="DIR")
    add("options", nargs="*", metavar="OPTION", help="options of train.py for every run")
    return parser


def _numbers(text: str) -> list[int]:
    return list(dict.fromkeys(int(part) for part in text.split(",")))


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def _plan(options: argparse.Namespace) -> Iterator[PlannedRun]:
    """Yields all runs of the first seed, then those of the second, and so on."""
    updates = [] if options.updates is None else [f"trainer.max_steps={options.updates}"]
    for seed in options.seeds:
        for model in options.models:
            own = [option for name, option in options.set if name == model]
            always = (*_chosen(options, model), f"seed={seed}", *options.options, *own)
            base = (*always, *updates)
            yield PlannedRun(f"{model}-seed{seed}", base)
            if model in options.slot_models:
                for slots in options.slots:
                    yield PlannedRun(
                        f"{model}-slots{slots}-seed{seed}", (*base, f"model.memory_slots={slots}")
                    )
            if model == "rnn":
                for factor in options.rnn_budgets:
                    longer = f"trainer.max_steps={factor * options.updates}"
                    yield PlannedRun(f"rnn-budget{factor}-seed{seed}", (*always, longer))


def _chosen(options: argparse.Namespace, model: str) -> tuple[str, ...]:
    experiment = (f"experiment={options.experiment}",) if options.experiment else ()
    return (*experiment, f"model={model}")


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
                    _say_what_failed(arguments, status, log)
        return status

    def stop(self) -> None:
        """Stops all; a training writes a checkpoint to go on from."""
        with self._lock:
            self.stopped = True
            for program in self._running:
                program.terminate()


def _say_what_failed(arguments: Sequence[str], status: int, log: Path | None) -> None:
    shown = "" if log is None else f"; its output is in {log}"
    command = " ".join(arguments)
    print(f"bottleneck: error: {command} ended with {status}{shown}.", file=sys.stderr)


def _finish(programs: _Programs, folder: Path, options: Sequence[str], log: Path | None) -> int:
    """Trains, or goes on, and measures what was not measured. Returns the exit status."""
    finished = folder / "metrics.json"
    if not finished.is_file():
        last = folder / "checkpoints" / "last.ckpt"
        resume = [f"ckpt_path='{last}'"] if last.is_file() else [f"hydra.run.dir='{folder}'"]
        if status := programs.call([str(TRAIN), *options, *resume], log):
            return status
        if not finished.is_file():
            return int(not programs.stopped)
    if (folder / "probes" / "probes.json").is_file():
        return 0
    threads = [f"--{option}" for option in options if option.startswith("threads=")]
    return programs.call([str(PROBE), str(folder), *threads], log)


def _exit_on_sigterm(number: int, _: object) -> None:
    sys.exit(128 + number)


def _same_options(options: argparse.Namespace) -> bool:
    """Says whether the runs here were made with these options; notes those of new models."""
    path = options.output / "options.json"
    noted: dict[str, Any] = {}
    if path.is_file():
        noted = {
            model: own
            for model, own in json.loads(path.read_text(encoding="utf-8")).items()
            if any(path.parent.glob(f"runs/{model}-*/checkpoints/*.ckpt"))
        }
    shared = [options.experiment, options.updates, *options.options]
    chosen = {
        model: [*shared, *(option for name, option in options.set if name == model)]
        for model in options.models
    }
    if any(noted.get(model, own) != own for model, own in chosen.items()):
        return False
    path.write_text(json.dumps(noted | chosen, indent=2) + "\n", encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
