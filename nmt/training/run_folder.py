"""Where a run writes: `outputs/<data>-<model>/<time>/`, or where its checkpoint lies.

The processes that torchrun or SLURM start must agree on it. Those of Lightning's own launcher are
told.

What torchrun tells its processes: who they are, and where they meet before they compute.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from nmt.checks import UserError


def under_torchrun() -> bool:
    """Returns whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank_and_ranks() -> tuple[int, int]:
    """Returns the number of this process of torchrun, from 0, and how many there are."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def processes_and_nodes() -> tuple[int, int]:
    """Returns how many processes torchrun started on each node, and on how many nodes."""
    each = int(os.environ["LOCAL_WORLD_SIZE"])
    return each, int(os.environ["WORLD_SIZE"]) // each


class MeetingPoint:
    """Values that torchrun's processes give each other through its store, without computing.

    Args:
        purpose: Keeps the values of one use apart from those of others.
    """

    def __init__(self, purpose: str) -> None:
        import torch.distributed  # only here: it takes seconds

        self._store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            timeout=timedelta(minutes=10),
        )
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._prefix = f"nmt/{purpose}/{attempt}"

    def give(self, value: str) -> None:
        """Leaves a value of this process."""
        self._store.set(f"{self._prefix}/{os.environ['RANK']}", value)

    def take(self, rank: int, *, longest_wait: timedelta = timedelta(minutes=10)) -> str:
        """Waits for the value of a process, and returns it."""
        key = f"{self._prefix}/{rank}"
        self._store.wait([key], longest_wait)
        value: str = self._store.get(key).decode()
        return value


OUTPUTS = Path("outputs")


def run_directory(ckpt_path: str | None, data: str, model: str, time: str) -> str:
    """Returns the folder of a new run, or of the run that `ckpt_path` belongs to.

    Args:
        ckpt_path: None for a new run; `last` for the newest `last.ckpt` of this data and model;
            or the path of a checkpoint, whose run goes on in its own folder.
        data: Name of the data config.
        model: Name of the model config.
        time: What names a new run.

    Raises:
        UserError: There is no such checkpoint.
    """
    runs = OUTPUTS / f"{data}-{model}"
    if ckpt_path is None:
        return _new(runs, time)
    if ckpt_path == "last":
        found = sorted(runs.glob("*/checkpoints/last.ckpt"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise UserError(
                f"ckpt_path=last: there is no last.ckpt below {runs}; train first, or give a path."
            )
        newest = found[-1].parents[1]
        started_last = max(path.parents[1] for path in found)  # a folder's name is its time
        if newest != started_last and newest.name[:1].isdigit() and started_last.name[:1].isdigit():
            raise UserError(
                f"ckpt_path=last: {started_last} was started last, but last.ckpt of {newest} is "
                "newer, as in a copy: give the path of one."
            )
        return str(newest)
    checkpoint = Path(ckpt_path)
    if not checkpoint.is_file():
        fault = "is a directory" if checkpoint.is_dir() else "does not exist"
        raise UserError(f"ckpt_path={ckpt_path} {fault}: give the path of a .ckpt file.")
    if checkpoint.parent.name == "checkpoints":
        return str(checkpoint.parents[1])
    return _new(runs, time)


def make_run_folder(run_dir: str) -> str:
    """Makes a run's folder where there is none; returns its path without symbolic links.

    Lightning follows the links of its paths, and what lies in the folder is named relative to it.

    Raises:
        OSError: It cannot be made.
    """
    Path(run_dir).mkdir(parents=True, exist_ok=True)
    return str(Path(run_dir).resolve())


def _new(runs: Path, time: str) -> str:
    """Returns a folder for a new run, the same in all its processes."""
    if int(os.environ.get("SLURM_NTASKS", "1")) > 1 and "SLURM_PROCID" in os.environ:
        # Also the same after SLURM has put the job back into its queue.
        return str(runs / f"job-{os.environ['SLURM_JOB_ID']}.{os.environ.get('SLURM_STEP_ID', 0)}")
    if not under_torchrun():
        return str(_unused(runs / time))
    meeting_point = MeetingPoint("run_dir")
    if rank_and_ranks()[0] == 0:
        meeting_point.give(str(_unused(runs / time)))
    return meeting_point.take(0)


def _unused(directory: Path) -> Path:
    """Makes `directory`, numbered when another run took it in the same second, and returns it."""
    number, candidate = 1, directory
    while True:
        try:
            candidate.mkdir(parents=True)
        except FileExistsError:
            number += 1
            candidate = directory.with_name(f"{directory.name}_{number}")
        except OSError:
            return candidate  # which `make_run_folder` will complain of
        else:
            return candidate
