"""Where runs write: the processes of torchrun and SLURM agree, and two runs never meet."""

import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from number_words import corpus_options, model_options, trainer_options

from nmt.checks import UserError
from nmt.training.run_folder import run_directory, sole_use

ROOT = Path(__file__).parents[2]


@pytest.fixture
def as_rank(monkeypatch):
    """Lets this process be one of two of torchrun, whose store is here as well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = torch.distributed.TCPStore(
        "127.0.0.1", port, is_master=True, timeout=timedelta(seconds=30), wait_for_workers=False
    )

    def become(rank):
        for name, value in {
            "TORCHELASTIC_RUN_ID": "none",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "WORLD_SIZE": 2,
            "LOCAL_WORLD_SIZE": 2,
            "RANK": rank,
            "LOCAL_RANK": rank,
        }.items():
            monkeypatch.setenv(name, str(value))

    yield become
    del store


def test_the_ranks_of_torchrun_write_into_the_folder_of_the_first(as_rank, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = []
    for rank, clock in ((0, "2001"), (1, "2002")):
        as_rank(rank)
        folders.append(run_directory(None, "toy", "rnn", clock))
    assert folders == ["outputs/toy-rnn/2001"] * 2


def test_the_tasks_of_a_slurm_job_write_into_one_folder_also_after_a_requeue(monkeypatch):
    for name, value in {"NTASKS": "2", "JOB_ID": "17", "STEP_ID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    for rank, clock in (("0", "2001"), ("1", "2002")):
        monkeypatch.setenv("SLURM_PROCID", rank)
        assert run_directory(None, "toy", "rnn", clock) == "outputs/toy-rnn/job-17.0"


def test_an_interactive_shell_of_slurm_makes_a_new_folder_for_each_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in {"NTASKS": "2", "JOB_ID": "7", "PROCID": "0", "JOB_NAME": "bash"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    found = [run_directory(None, "toy", "rnn", "2001") for _ in range(2)]
    assert found == ["outputs/toy-rnn/2001", "outputs/toy-rnn/2001_2"]


def test_a_folder_is_for_one_run(tmp_path):
    with (
        sole_use(str(tmp_path), None, leader=True),
        pytest.raises(UserError, match="another process is training"),
        sole_use(str(tmp_path), None, leader=True),
    ):
        pass
    last = tmp_path / "checkpoints" / "last.ckpt"
    last.parent.mkdir()
    last.touch()
    with (
        pytest.raises(UserError, match="holds a run already"),
        sole_use(str(tmp_path), None, leader=False),
    ):
        pass
    with sole_use(str(tmp_path), last, leader=True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_a_rank_that_dies_ends_the_job_and_leaves_no_process(tmp_path):
    """Two processes of Lightning's own launcher, relative paths, one folder."""
    corpus = corpus_options(tmp_path / "text")
    options = trainer_options(Path("run"), max_steps=100_000)
    command = [
        *(sys.executable, str(ROOT / "train.py"), *corpus, *model_options("rnn"), *options),
        *("hydra.run.dir=run", "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"),
        *("threads=1", "callbacks.last.every_n_updates=1"),
    ]
    process = subprocess.Popen(
        [word for word in command if word not in ("trainer=cpu", "run_dir=run")],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while process.poll() is None and not (tmp_path / "run/checkpoints/last.ckpt").exists():
            time.sleep(0.1)
        children = (
            Path(f"/proc/{process.pid}/task/{process.pid}/children")
            .read_text(encoding="utf-8")
            .split()
        )
        os.kill(int(children[0]), signal.SIGKILL)
        assert process.wait(timeout=60) != 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and _alive(process.pid):
            time.sleep(0.2)
        assert not _alive(process.pid)
    finally:
        if _alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "text"]


def _alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
