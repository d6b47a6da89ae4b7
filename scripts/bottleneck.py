"""The bottleneck experiment: trains the models under one budget, measures and compares them.

    python scripts/bottleneck.py                                   # built-in corpus, one seed
    python scripts/bottleneck.py --seeds 1,2,3 --slots 1,2,4,8 --updates 2400 --rnn-budgets 2,4
    python scripts/bottleneck.py --experiment multi30k_joined --split test_joined data.directory=DIR

Further arguments are options of train.py, the same for every run. Each run has its own folder
below OUTPUT/runs; a finished one is kept, an interrupted one continues from its last.ckpt, so the
same command can be given again until all is done. The comparison is written to OUTPUT/report.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "bottleneck":  # pandas, which looks for a library of this name beside the script
    raise ImportError("scripts/bottleneck.py is a program, not the library bottleneck")

from nmt.cli.compare import main as compare
from nmt.cli.probe import main as probe

TRAIN = Path(__file__).resolve().parents[1] / "train.py"
MODELS = ("rnn", "bahdanau", "transformer")


@dataclass(frozen=True)
class PlannedRun:
    """A training that belongs to the experiment.

    Attributes:
        name: Of its folder.
        options: Of train.py, beside those of the whole experiment.
    """

    name: str
    options: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is not done yet; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if any(option.startswith(("seed=", "model=", "hydra.")) for option in options.options):
        parser.error("seed, model and folders belong to the plan: use --seeds, --models, --output")
    if options.rnn_budgets and options.updates is None:
        parser.error("--rnn-budgets are multiples of --updates, which is missing")
    runs = options.output / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    if not _same_options(
        options.output / "options.json", [options.experiment, options.updates, *options.options]
    ):
        print(
            f"bottleneck: error: {options.output} holds runs made with other options (see its "
            "options.json): give another --output.",
            file=sys.stderr,
        )
        return 1
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    try:
        return _run(options, runs)
    except KeyboardInterrupt:
        return 128 + 2


def _run(options: argparse.Namespace, runs: Path) -> int:
    plan = list(_plan(options))
    for number, run in enumerate(plan, 1):
        print(f"bottleneck: run {number} of {len(plan)}: {run.name}", file=sys.stderr, flush=True)
        if status := _train(runs / run.name, [*run.options, *options.options]):
            return status
    folders = [str(runs / run.name) for run in plan]
    if status := probe(folders):
        return status
    report = str(options.output / "report")
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
    add("--experiment", metavar="NAME", help="take conf/experiment/NAME_MODEL.yaml for each model")
    add("--split", default="test", metavar="NAME", help="test set of the comparison")
    add("--output", type=Path, default=Path("outputs/bottleneck"), metavar="DIR")
    add("options", nargs="*", metavar="OPTION", help="options of train.py for every run")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return text.split(",")


def _plan(options: argparse.Namespace) -> Iterator[PlannedRun]:
    """Yields all runs of the first seed, then those of the second, and so on."""
    updates = [] if options.updates is None else [f"trainer.max_steps={options.updates}"]
    for seed in options.seeds:
        for model in options.models:
            chosen = (
                f"experiment={options.experiment}_{model}" if options.experiment else
                f"model={model}"
            )  # fmt: skip
            base = (chosen, f"seed={seed}", *updates)
            yield PlannedRun(f"{model}-seed{seed}", base)
            if model in options.slot_models:
                for slots in options.slots:
                    yield PlannedRun(
                        f"{model}-slots{slots}-seed{seed}", (*base, f"model.memory_slots={slots}")
                    )
            if model == "rnn":
                for factor in options.rnn_budgets:
                    longer = f"trainer.max_steps={factor * options.updates}"
                    yield PlannedRun(
                        f"rnn-budget{factor}-seed{seed}", (chosen, f"seed={seed}", longer)
                    )


def _train(folder: Path, options: Sequence[str]) -> int:
    """Trains, or goes on; does nothing where the run is finished. Returns the exit status."""
    if (folder / "metrics.json").is_file():
        return 0
    last = folder / "checkpoints" / "last.ckpt"
    resume = [f"ckpt_path='{last}'"] if last.is_file() else [f"hydra.run.dir='{folder}'"]
    with subprocess.Popen([sys.executable, str(TRAIN), *options, *resume]) as training:
        try:
            status = training.wait()
        except SystemExit:
            training.terminate()  # which writes a checkpoint to go on from
            raise
    return status or int(not (folder / "metrics.json").is_file())


def _exit_on_sigterm(number: int, _: object) -> None:
    sys.exit(128 + number)


def _same_options(path: Path, options: Sequence[str | int | None]) -> bool:
    """Says whether the runs here were made with these options; notes them for the first ones."""
    if path.is_file() and any(path.parent.glob("runs/*/checkpoints/*.ckpt")):
        return bool(json.loads(path.read_text(encoding="utf-8")) == list(options))
    path.write_text(json.dumps(list(options)) + "\n", encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
