"""Where a run writes: `outputs/<data>-<model>/<time>/`, or where its checkpoint lies.

The processes that torchrun or SLURM start agree on it; those of Lightning's own launcher are told.
Two runs never share a folder, one after the other or at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from omegaconf import OmegaConf

from nmt.checks import UserError

if TYPE_CHECKING:
    from nmt.data.datamodule import TranslationDataModule

OUTPUTS = Path("outputs")


def run_directory(ckpt_path: str | None, data: str, model: str, time: str) -> str:
    """Returns the folder of a new run, or of the run that `ckpt_path` belongs to.

    Args:
        ckpt_path: None for a new run; `last` for the newest `last.ckpt` of this data and model;
            or the path of a checkpoint, whose run is resumed in its own folder.
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


@contextmanager
def sole_use(run_dir: str, ckpt_path: str | None, *, leader: bool) -> Iterator[None]:
    """Keeps a run's folder for one run: no other one is in it, and none comes meanwhile.

    Args:
        run_dir: The folder.
        ckpt_path: What the run resumes from; its own checkpoints may be there.
        leader: Whether this is the first process of the run; it holds the lock.

    Raises:
        UserError: The folder holds another run, or one that is being made.
    """
    checkpoints = Path(run_dir) / "checkpoints"
    own = ckpt_path is not None and (
        ckpt_path == "last" or Path(ckpt_path).resolve().parent == checkpoints.resolve()
    )
    if not own and (any(checkpoints.glob("*.ckpt")) or (Path(run_dir) / "metrics.json").exists()):
        raise UserError(
            f"{run_dir} holds a run already: give another hydra.run.dir, or resume that run with "
            f"ckpt_path={checkpoints / 'last.ckpt'}."
        )
    if not leader:
        yield
        return
    lock = FileLock(Path(run_dir) / ".running", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(f"another process is training in {run_dir}: give another one.") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def data_of_run(run_dir: Path) -> TranslationDataModule:
    """Builds the corpus of a run from its config.yaml, which may come from a stranger.

    Raises:
        UserError: It is no corpus of this package; none of its other classes is built.
    """
    from nmt.checkpoint import build  # only here, as torch below

    path = run_dir / "config.yaml"
    options: Any = OmegaConf.to_container(OmegaConf.load(path))  # resolved by train.py
    try:
        data: TranslationDataModule = build(
            options.get("data") or {}, allowed=("nmt.data.datamodule.",)
        )
    except UserError as error:
        raise UserError(f"{path}: data: {error}") from error
    return data


def under_torchrun() -> bool:
    """Returns whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def processes_and_nodes() -> tuple[int, int]:
    """Returns how many processes torchrun started on each node, and on how many nodes."""
    each = int(os.environ["LOCAL_WORLD_SIZE"])
    return each, int(os.environ["WORLD_SIZE"]) // each


def _new(runs: Path, time: str) -> str:
    """Returns a folder for a new run, the same in all its processes."""
    tasks = int(os.environ.get("SLURM_NTASKS", "1"))
    # Lightning does not count an interactive shell as a job either.
    interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    if tasks > 1 and "SLURM_PROCID" in os.environ and not interactive:
        # Also the same after SLURM has put the job back into its queue.
        return str(runs / f"job-{os.environ['SLURM_JOB_ID']}.{os.environ.get('SLURM_STEP_ID', 0)}")
    if not under_torchrun():
        return str(_unused(runs / time))
    return _of_the_first(runs / time)


def _of_the_first(folder: Path) -> str:
    """Returns the folder that the first process of torchrun takes; they meet in its store."""
    import torch.distributed  # only here: it takes seconds

    store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=False,
        timeout=timedelta(minutes=10),
    )
    key = f"nmt/run_dir/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if os.environ["RANK"] == "0":
        store.set(key, str(_unused(folder)))
    found: str = store.get(key).decode()  # waits for it
    return found


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
