"""The bottleneck experiment as a user starts it, on a tiny corpus."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from number_words import corpus_options

from nmt.study import plan

SCRIPT = Path(__file__).parents[2] / "scripts" / "bottleneck.py"


@pytest.fixture(scope="module")
def bottleneck():
    spec = importlib.util.spec_from_file_location("bottleneck_experiment", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def planned(*arguments):
    return {run.name: run.options for run in plan.planned_runs(plan.parse(arguments))}


def test_the_plan_has_every_model_seed_and_variant_once():
    found = planned(*["--seeds", "1,2", "--slots", "1,4", "--rnn-budgets", "2", "--updates", "50"])
    assert len(found) == 2 * (3 + 2 + 1)
    assert found["bahdanau-slots4-seed2"] == (
        "model=bahdanau", "seed=2", "trainer.max_steps=50", "model.memory_slots=4",
    )  # fmt: skip
    assert found["rnn-budget2-seed1"] == ("model=rnn", "seed=1", "trainer.max_steps=100")


def test_a_model_gets_options_of_its_own_in_all_its_runs():
    found = planned(
        *["--set", "rnn", "optimizer.lr=1e-3", "--rnn-budgets", "2", "--updates", "5", "threads=1"],
    )
    assert found["bahdanau-seed1"] == (
        "model=bahdanau", "seed=1", "threads=1", "trainer.max_steps=5",
    )  # fmt: skip
    assert found["rnn-budget2-seed1"] == (
        "model=rnn", "seed=1", "threads=1", "optimizer.lr=1e-3", "trainer.max_steps=10",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "rn", "optimizer.lr=1e-3"], "--set rn: no such model; one of rnn,"),
        (["--models", "rnn", "--slots", "1,2"], "--slots are of --slot-models, none of which"),
        (["--models", "bahdanau", "--rnn-budgets", "2"], "the rnn, which is not among --models"),
        (["--rnn-budgets", "1,2"], "--rnn-budgets 1 is the rnn itself"),
        (["--models", "rnn,foo"], "--models foo: there is no "),
        (["--models", "rnn,foo", "--experiment", "bible"], "--models foo: there is no "),
        (["seed=3"], "belong to the plan"),
        (["model=rnn"], "belong to the plan"),
        (["--set", "rnn", "hydra.run.dir=x"], "belong to the plan"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_the_first_run(
    bottleneck, options, said, tmp_path, capsys
):
    with pytest.raises(SystemExit):
        bottleneck.main([*options, "--updates", "9", "--output", str(tmp_path / "out")])
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_seed_named_twice_is_planned_once():
    assert len(planned("--seeds", "1,1", "--models", "rnn,rnn")) == 1


def test_an_experiment_has_one_file_and_the_model_is_chosen_in_it():
    found = planned("--experiment", "bible", "--models", "rnn,bahdanau")
    assert found["rnn-seed1"] == ("experiment=bible", "model=rnn", "seed=1")


def test_one_command_trains_compares_and_keeps_what_is_finished(bottleneck, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    arguments = [
        *("--models", "rnn,bahdanau", "--updates", "2", "--jobs", "2"),
        *("--output", str(tmp_path / "out"), "--set", "rnn", "optimizer.lr=1e-3"),
        *corpus_options(tmp_path / "text"),
        *("trainer=cpu", "num_validations=1", "threads=1", "decoding.max_length=9"),
    ]
    assert bottleneck.main(arguments) == 0
    results = json.loads((tmp_path / "out/report/results.json").read_text(encoding="utf-8"))
    assert {"rnn", "bahdanau"} <= set(json.dumps(results).split('"'))
    assert "Training rnn" in (tmp_path / "out/runs/rnn-seed1.log").read_text(encoding="utf-8")
    trained = tmp_path / "out/runs/rnn-seed1/metrics.json"
    before = trained.stat().st_mtime_ns
    monkeypatch.setattr(plan.subprocess, "Popen", None)  # trains nothing any more
    assert bottleneck.main(arguments) == 0
    assert trained.stat().st_mtime_ns == before
    assert bottleneck.main([*arguments, "label_smoothing=0.2"]) == 1
    later = ["--models", "transformer", *arguments[2:], "--set", "transformer", "optimizer.lr=1e-4"]
    parse = plan.parse
    assert plan.same_options(parse(later))
    assert not plan.same_options(parse([*arguments, "threads=2"]))


def test_an_experiment_that_is_told_to_stop_stops_its_training(bottleneck, tmp_path, monkeypatch):
    program = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    monkeypatch.setattr(bottleneck, "TRAIN", tmp_path / "train.py")
    before = signal.getsignal(signal.SIGTERM)
    start = time.monotonic()
    try:
        with pytest.raises(SystemExit) as stopped:
            bottleneck.main(["--output", str(tmp_path / "out")])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped.value.code == 143
    assert time.monotonic() - start < 30


def test_the_first_run_that_fails_is_named_and_ends_the_others(
    bottleneck, tmp_path, monkeypatch, capsys
):
    program = "import sys; print('no memory'); sys.exit(7)"
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    monkeypatch.setattr(bottleneck, "TRAIN", tmp_path / "train.py")
    assert bottleneck.main(["--output", str(tmp_path / "out"), "--jobs", "2"]) == 7
    log = tmp_path / "out/runs/rnn-seed1.log"
    said = capsys.readouterr().err
    assert "ended with 7; its output is in" in said
    assert log.read_text(encoding="utf-8") == "no memory\n"
    assert not (tmp_path / "out/report").exists()


def test_pandas_does_not_take_the_script_for_a_library():
    code = "import pandas, sys; assert 'bottleneck' not in sys.modules"
    script = [sys.executable, "-W", "error", "-c", code]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parent)}  # as for a program in scripts/
    done = subprocess.run(script, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
