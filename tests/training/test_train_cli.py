"""`python train.py` as a user calls it: from another folder, on files, and once more to resume."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from number_words import pairs, write_split

from nmt.checkpoint import load_checkpoint

REPOSITORY = Path(__file__).parents[2]
OPTIONS = [
    "model=transformer",
    "data=files",
    "data.source_lang=en",
    "data.target_lang=de",
    *(f"data.{split}=[text/{split}.en,text/{split}.de]" for split in ("train", "valid", "test")),
    "data.tokenizer.vocab_size=311",
    "data.token_budget=67",
    *("model.width=24", "model.feed_forward=19", "model.encoder_layers=1"),
    *("model.decoder_layers=1", "model.num_heads=4", "model.num_kv_heads=2"),
    "decoding=greedy",
    "trainer=cpu",
    "trainer.log_every_n_steps=1",
    "scheduler.warmup=2",
    "num_validations=2",
    "threads=1",
]


def start_training(folder, *options, run=subprocess.run, **keywords):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "OMP_NUM_THREADS": "1"
    }
    return run(
        [sys.executable, str(REPOSITORY / "train.py"), *options, *OPTIONS],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **keywords,
    )


def train(folder, *options):
    done = start_training(folder, *options)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A start directory with the corpus in text/, where a run was made and then continued.

    The outputs are on another disk, as it were.
    """
    folder = tmp_path_factory.mktemp("start")
    for seed, (split, count) in enumerate({"train": 61, "valid": 7, "test": 5}.items()):
        write_split(folder / "text", split, pairs(count, seed=seed))
    (folder / "elsewhere").mkdir()
    (folder / "outputs").symlink_to("elsewhere")
    train(folder, "trainer.max_steps=4")
    train(folder, "trainer.max_steps=6", "ckpt_path=last", "hydra.job.chdir=true")
    return folder


@pytest.fixture(scope="module")
def run(start):
    """The one run folder."""
    (folder,) = (start / "elsewhere" / "files-transformer").iterdir()
    return folder


def test_a_run_writes_its_folder_and_its_cache_below_the_start_directory(start, run):
    """Also with hydra.job.chdir, and a resumed run writes to the same folder."""
    assert sorted(path.name for path in start.iterdir()) == ["data", "elsewhere", "outputs", "text"]
    assert [path.name for path in (start / "data").iterdir()] == ["cache"]
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert found >= {"config.yaml", "metrics.csv", "checkpoints/best.ckpt", "checkpoints/last.ckpt"}
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}


def test_names_are_free_of_signs_that_a_shell_or_hydra_reads(start, run):
    for path in run.rglob("*"):
        assert not set("=:, ") & set(str(path.relative_to(start)))


def test_the_config_is_saved_resolved(run):
    text = (run / "config.yaml").read_text(encoding="utf-8")
    assert "${" not in text
    config = yaml.safe_load(text)
    assert config["trainer"]["max_steps"] == config["scheduler"]["updates"] == 6
    assert config["run_dir"] == str(run)


def test_the_log_of_both_parts_has_no_gap(run):
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows if row["loss"]] == [1, 2, 3, 4, 5, 6]
    assert [int(row["step"]) for row in rows if row["valid_bleu"]] == [2, 4, 6]


def test_both_checkpoints_load_from_their_file_alone(run):
    assert load_checkpoint(run / "checkpoints" / "last.ckpt").updates == 6
    best = load_checkpoint(run / "checkpoints" / "best.ckpt")
    assert best.updates in (2, 4, 6)
    assert (best.source_lang, best.target_lang) == ("en", "de")


def test_nothing_to_continue_from_is_one_line(tmp_path):
    done = start_training(tmp_path, "ckpt_path=last")
    assert done.returncode == 1
    assert done.stderr == (
        "error: ckpt_path=last: there is no last.ckpt below outputs/files-transformer; "
        "train first, or give a path.\n"
    )


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_run_that_is_told_to_stop_says_how_to_go_on(start, tmp_path, sent, status):
    folder = tmp_path / "run"
    options = (f"hydra.run.dir={folder}", "trainer.max_steps=100000", "data.num_workers=1")
    process = start_training(start, *options, run=subprocess.Popen, start_new_session=True)
    log, last = folder / "metrics.csv", folder / "checkpoints" / "last.ckpt"
    while process.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.1)
    os.killpg(process.pid, sent)  # to the worker as well, as terminals and batch systems do
    output, errors = process.communicate(timeout=90)
    assert process.returncode == status, errors
    stopped = int(re.search(rf"Stopped after update (\d+): ckpt_path={last} resumes", output)[1])
    assert load_checkpoint(last).updates == stopped >= 1
    with log.open(encoding="utf-8", newline="") as file:
        assert int(list(csv.DictReader(file))[-1]["step"]) == stopped


def test_a_sweep_on_several_devices_is_refused(tmp_path):
    """Lightning's launcher would start it again in each process."""
    options = ["-m", "seed=1,2", "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]
    done = start_training(tmp_path, *options)
    assert done.returncode == 1
    assert "-m on 2 devices" in done.stderr
