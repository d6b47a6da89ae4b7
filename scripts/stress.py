r"""Kills a training again and again and shows that it ends as one that was left alone.

    python scripts/stress.py --kills 20
    python scripts/stress.py --kills 20 data.num_workers=2 \
        trainer=ddp trainer.accelerator=cpu trainer.devices=2

A small run is trained to its end. The same run is trained again, all its processes are killed
(SIGKILL) at random moments, also while validating, while writing a checkpoint and between the
micro-batches of an update, and it is resumed from `last.ckpt` each time. What both leave is then
compared bit by bit, times apart. Exit status: 0 when nothing differs, else 1.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from survival.end_state import differences
from survival.kills import Kill, kill_at, killed_in_the_end, plan_kills, start
from survival.phase import Phase

TRAIN = Path(__file__).parents[1] / "train.py"
UPDATES, ACCUMULATE = 120, 3
KINDS = ("anywhere", "accumulating", "validating", "saving", "starting")
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
Death = tuple[Kill, Phase]


class Stress:
    """One run that is left alone and one that is killed, in a folder.

    Args:
        folder: Where everything is written.
        options: Of train.py, besides `DEFAULTS`.
    """

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.folder = folder
        self._options = options

    def undisturbed(self) -> Path:
        """Trains to the end; returns the folder of the run."""
        run = self.folder / "undisturbed"
        self._finish(run)
        return run

    def disturbed(self, kills: Sequence[Kill]) -> tuple[Path, list[Death]]:
        """Trains to the end with these interruptions; returns the folder and what they hit."""
        run, deaths = self.folder / "disturbed", []
        for kill in kills:
            (run / "phase").unlink(missing_ok=True)
            with killed_in_the_end(self._start(run)) as process:
                phase = kill_at(process, kill, run / "phase")
            if phase is not None:
                deaths.append((kill, phase))
                print(f"kill {len(deaths)}: {phase.name}, update {phase.update}", flush=True)
        self._finish(run)
        return run, deaths

    def _finish(self, run: Path) -> None:
        with killed_in_the_end(self._start(run)) as process:
            code = process.wait()
        if code != 0:
            log = (self.folder / f"{run.name}.log").read_text(encoding="utf-8", errors="replace")
            raise ValueError(f"train.py ended with status {code}:\n{log[-3000:]}")

    def _start(self, run: Path) -> subprocess.Popen[bytes]:
        run.mkdir(parents=True, exist_ok=True)
        last = run / "checkpoints" / "last.ckpt"
        command = [
            *(sys.executable, str(TRAIN), *DEFAULTS, *self._options),
            f"hydra.run.dir={run}",
            f"data.cache_dir={self.folder / f'cache-{run.name}'}",
            "+callbacks.phase._target_=survival.phase.PhaseFile",
            f"+callbacks.phase.path={run / 'phase'}",
            *([f"ckpt_path={last}"] if last.exists() else []),
        ]
        return start(command, folder=self.folder, log=self.folder / f"{run.name}.log")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (%(default)s)")
    parser.add_argument("--folder", type=Path, help="kept (default: temporary, kept on a fault)")
    parser.add_argument("options", nargs="*", help="options of train.py")
    arguments = parser.parse_args(argv)
    if arguments.kills < 1:
        parser.error(f"--kills is {arguments.kills}: give a number >= 1")
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="nmt-stress-"))
    folder.mkdir(parents=True, exist_ok=True)
    stress = Stress(folder.resolve(), arguments.options)
    kills = plan_kills(arguments.kills, updates=UPDATES, kinds=KINDS, seed=arguments.seed)
    undisturbed = stress.undisturbed()
    disturbed, deaths = stress.disturbed(kills)
    found = differences(undisturbed, disturbed)
    _print(deaths, found)
    if any(found.values()):
        print(f"DIFFERENT; both runs are kept in {folder}.")
        return 1
    if arguments.folder is None:
        shutil.rmtree(folder)
    print(f"{len(deaths)} kills, nothing differs.")
    return 0


def _print(deaths: Sequence[Death], found: dict[str, list[str]]) -> None:
    """Prints what each kill hit, and whether each part of the end state is the same."""
    console = Console()
    table = Table("kill", "aimed at", "hit while", "after update")
    for number, (kill, phase) in enumerate(deaths, 1):
        table.add_row(str(number), kill.kind, phase.name, str(phase.update))
    console.print(table)
    table = Table("end state", "same")
    for part, names in found.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        table.add_row(part, f"no: {', '.join(names[:3])}{more}" if names else "yes")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
