"""Several processes from outside: torchrun and SLURM agree on a folder, and share a translation."""

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
from number_words import corpus_options, make_run, model_options, trainer_options

from nmt.cli.translate import main
from nmt.training.run_folder import MeetingPoint, run_directory

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
        Path(folders[-1]).mkdir(parents=True, exist_ok=True)
    assert folders == ["outputs/toy-rnn/2001"] * 2


def test_the_tasks_of_a_slurm_job_write_into_one_folder_also_after_a_requeue(monkeypatch):
    for name, value in {"NTASKS": "2", "JOB_ID": "17", "STEP_ID": "0"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    for rank, clock in (("0", "2001"), ("1", "2002")):
        monkeypatch.setenv("SLURM_PROCID", rank)
        assert run_directory(None, "toy", "rnn", clock) == "outputs/toy-rnn/job-17.0"


def test_values_are_taken_from_the_rank_that_gave_them(as_rank):
    as_rank(1)
    MeetingPoint("test").give("one")
    as_rank(0)
    MeetingPoint("test").give("zero")
    assert [MeetingPoint("test").take(rank) for rank in (0, 1)] == ["zero", "one"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    run = make_run(
        *corpus_options(folder / "text"),
        *model_options("rnn"),
        *trainer_options(folder / "run", max_steps=2),
    )
    return str(run.fit())


@pytest.mark.parametrize(("lines", "name"), [(7, "out"), (1, "out"), (7, "0.out")])
def test_two_ranks_translate_each_line_once_in_order(
    as_rank, checkpoint, tmp_path, caplog, lines, name
):
    """(case 66) The second rank first: what it wrote is not seen before the first joins it."""
    words = ["one", "two", "three", "", "five", "four", "one two"]
    text = "\ufeff" + "\r\n".join(words[:lines])
    (tmp_path / "in").write_text(text, encoding="utf-8", newline="")
    options = [checkpoint, "--input", str(tmp_path / "in"), "--num-hypotheses", "2"]
    options += ["--max-source-length", "1"]
    assert main([*options, "--beam-size", "2", "--output", str(tmp_path / "alone")]) == 0
    warned = caplog.messages[:]
    assert [message.split(" has")[0] for message in warned] == ["line 7"][: lines // 7]
    caplog.clear()
    for rank in (1, 0):
        assert not (tmp_path / name).exists()
        as_rank(rank)
        assert main([*options, "--beam-size", "2", "--output", str(tmp_path / name)]) == 0
    assert sorted(caplog.messages) == sorted(warned)
    assert (tmp_path / name).read_bytes() == (tmp_path / "alone").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["alone", "in", name])


def test_several_ranks_cannot_share_standard_input(as_rank, checkpoint, capsys):
    as_rank(0)
    assert main([checkpoint]) == 1
    assert "give --input FILE and --output FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("in", "in", "in is read from too: write to another file."),
        ("in", "model.ckpt", "model.ckpt is read from too: write to another file."),
        ("in", "folder", "folder is a directory: give the name of a file."),
        ("none", "out", "none cannot be opened: No such file or directory."),
    ],
)
def test_a_rank_refuses_files_before_it_translates(
    as_rank, checkpoint, tmp_path, monkeypatch, capsys, source, target, message
):
    monkeypatch.chdir(tmp_path)
    Path("model.ckpt").symlink_to(checkpoint)
    Path("in").write_text("one\n", encoding="utf-8")
    Path("folder").mkdir()
    before = sorted(tmp_path.iterdir())
    as_rank(0)
    assert main(["model.ckpt", "--input", source, "--output", target]) == 1
    assert capsys.readouterr().err == f"error: {message}\n"
    assert sorted(tmp_path.iterdir()) == before


def test_a_rank_that_dies_ends_the_job_and_leaves_no_process(tmp_path):
    """(cases 67, 69) Two processes of Lightning's own launcher, relative paths, one folder."""
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


def test_the_last_run_is_refused_where_copies_have_changed_the_times(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seconds, name in enumerate(("2026-01-01_00-00-01", "2026-01-01_00-00-02")):
        last = Path("outputs/toy-rnn", name, "checkpoints", "last.ckpt")
        last.parent.mkdir(parents=True)
        last.touch()
        os.utime(last, (seconds, seconds))
    assert run_directory("last", "toy", "rnn", "now") == "outputs/toy-rnn/2026-01-01_00-00-02"
    Path("outputs/toy-rnn/2026-01-01_00-00-01/checkpoints/last.ckpt").touch()
    with pytest.raises(ValueError, match=r"00-02 was started last, but last\.ckpt of .*00-01 is"):
        run_directory("last", "toy", "rnn", "now")
