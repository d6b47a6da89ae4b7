import resource
import sys
from types import SimpleNamespace

import pytest
import torch
from hydra import compose, initialize_config_dir

from nmt.config import config_directory
from nmt.training import machine
from nmt.training.run import build_trainer


def config(tmp_path, *options):
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return compose("train", overrides=["trainer=cpu", f"run_dir={tmp_path}", *options])


def timed(monkeypatch, seconds):
    """Makes a machine of four threads on which a round takes so long, by number of threads."""
    now, used = [0.0], [4]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: used[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: used.__setitem__(0, number))
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now[0])

    def run_once():
        now[0] += seconds[used[0]]
        return seconds[used[0]]

    monkeypatch.setattr(machine, "_time_small_products", run_once)
    return now, used


def test_an_idle_machine_gives_all_threads(tmp_path, monkeypatch):
    _, used = timed(monkeypatch, {1: 0.002, 4: 0.001})
    assert machine.threads_of_run(config(tmp_path)) == 4
    assert used == [4]


def test_a_busy_machine_gives_one_thread_soon(tmp_path, monkeypatch, caplog):
    now, used = timed(monkeypatch, {1: 0.002, 4: 0.3})
    with caplog.at_level("INFO"):
        assert machine.threads_of_run(config(tmp_path)) == 1
    assert used == [1]
    assert now[0] < machine.PATIENCE + 0.5
    assert "1 thread instead of 4" in caplog.text


def test_what_is_said_or_was_chosen_before_is_kept(tmp_path, monkeypatch):
    timed(monkeypatch, {1: 0.002, 4: 0.001})
    assert machine.threads_of_run(config(tmp_path, "threads=3")) == 3
    (tmp_path / "config.yaml").write_text("threads: 1\n", encoding="utf-8")
    assert machine.threads_of_run(config(tmp_path, "ckpt_path=last.ckpt")) == 1
    (tmp_path / "config.yaml").write_text("threads: 64\n", encoding="utf-8")
    assert machine.threads_of_run(config(tmp_path, "ckpt_path=last.ckpt")) == 4


def test_several_processes_and_a_set_environment_are_left_alone(tmp_path, monkeypatch):
    timed(monkeypatch, {1: 0.002, 4: 0.001})
    assert machine.threads_of_run(config(tmp_path, "trainer.devices=2")) is None
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert machine.threads_of_run(config(tmp_path)) is None


@pytest.mark.parametrize(
    ("features", "expected"),
    [({"amx_bf16": True}, "bf16-mixed"), ({"avx512_bf16": True}, "bf16-mixed"), ({}, "32-true")],
)
def test_auto_is_bf16_where_the_cpu_multiplies_it(tmp_path, monkeypatch, features, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features)
    assert machine.precision_of_run(config(tmp_path)) == expected
    assert machine.precision_of_run(config(tmp_path, "trainer.precision=32-true")) == "32-true"


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [("bf16-mixed", "bf16-mixed"), ("32-true", "32-true"), ("auto", "32-true")],
)
def test_a_resumed_run_keeps_its_precision(tmp_path, monkeypatch, recorded, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    (tmp_path / "config.yaml").write_text(f"trainer: {{precision: {recorded}}}\n", encoding="utf-8")
    assert machine.precision_of_run(config(tmp_path, "ckpt_path=last.ckpt")) == expected


def test_the_precision_is_recorded_whoever_builds_the_trainer(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    chosen = config(tmp_path, "model_name=any")
    assert build_trainer(chosen).precision == chosen.trainer.precision == "bf16-mixed"


def test_a_run_says_once_that_its_threads_wait_for_a_busy_core(monkeypatch, caplog):
    now, used = timed(monkeypatch, {})
    trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")))
    callback = machine.WarnOfCollapse(factor=5.0, batches=3)

    def train(*seconds):
        caplog.clear()
        for one in seconds:
            callback.on_train_batch_start()
            now[0] += one
            callback.on_train_batch_end(trainer, None)
        return caplog.text

    used[0] = 1
    assert not train(1, 1, 1, 60, 60, 60)
    callback, used[0] = machine.WarnOfCollapse(factor=5.0, batches=3), 4
    assert not train(1, 1, 1, 60, 1, 4, 4, 4, 1)
    assert "7 times as long" in train(7, 7, 7)
    assert not train(60, 60, 60)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is told to keep memory")
def test_large_blocks_that_were_freed_are_used_again_without_page_faults():
    def page_faults_of_a_large_block():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(16_000_000)  # 64 MB: 15,625 pages of 4 KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    machine.keep_freed_memory()
    page_faults_of_a_large_block()
    assert page_faults_of_a_large_block() < 1000
