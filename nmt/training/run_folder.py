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
        UserError: There is no last checkpoint.
    """
    runs = OUTPUTS / f"{data}-{model}"
    if ckpt_path == "last":
        found = sorted(runs.glob("*/checkpoints/last.ckpt"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise UserError(
                f"ckpt_path=last: there is no last.ckpt below {runs}; train first, or give a path."
            )
        return str(found[-1].parents[1])
    if ckpt_path is not None and Path(ckpt_path).parent.name == "checkpoints":
        return str(Path(ckpt_path).parents[1])
    return _new(runs, time)


def checkpoint_to_resume(ckpt_path: str | None, run_dir: str) -> Path | None:
    """Returns the file that `ckpt_path` means, None for a new run.

    Raises:
        UserError: There is no such file.
    """
    if ckpt_path is None:
        return None
    path = Path(run_dir, "checkpoints", "last.ckpt") if ckpt_path == "last" else Path(ckpt_path)
    if not path.is_file():
        fault = "is a directory" if path.is_dir() else "does not exist"
        raise UserError(f"ckpt_path={ckpt_path}: {path} {fault}; give the path of a .ckpt file.")
    return path


@contextmanager
def sole_use(run_dir: str, resume_from: Path | None, *, leader: bool) -> Iterator[None]:
    """Keeps a run's folder for one run: no other one is in it, and none comes meanwhile.

    Args:
        run_dir: The folder.
        resume_from: The checkpoint of the run, if it is resumed; it may lie there.
        leader: Whether this is the first process of the run; it holds the lock.

    Raises:
        UserError: The folder holds another run, or one that is being made.
    """
    checkpoints = Path(run_dir) / "checkpoints"
    own = resume_from is not None and resume_from.resolve().parent == checkpoints.resolve()
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

    options: Any = OmegaConf.to_container(OmegaConf.load(run_dir / "config.yaml"))  # resolved
    data: TranslationDataModule = build(
        options.get("data") or {}, allowed=("nmt.data.datamodule.",)
    )
    return data


def under_torchrun() -> bool:
    """Returns whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


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
    directory.parent.mkdir(parents=True, exist_ok=True)
    number, candidate = 1, directory
    while True:
        try:
            candidate.mkdir()
        except FileExistsError:
            number += 1
            candidate = directory.with_name(f"{directory.name}_{number}")
        else:
            return candidate
