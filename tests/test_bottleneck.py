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

SCRIPT = Path(__file__).parents[1] / "scripts" / "bottleneck.py"


@pytest.fixture(scope="module")
def bottleneck():
    spec = importlib.util.spec_from_file_location("bottleneck_experiment", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def planned(bottleneck, *arguments):
    return {
        run.name: run.options
        for run in bottleneck._plan(bottleneck._parser().parse_args(arguments))
    }


def test_the_plan_has_every_model_seed_and_variant_once(bottleneck):
    plan = planned(
        bottleneck, *["--seeds", "1,2", "--slots", "1,4", "--rnn-budgets", "2", "--updates", "50"]
    )
    assert len(plan) == 2 * (3 + 2 + 1)
    assert plan["bahdanau-slots4-seed2"] == (
        "model=bahdanau", "seed=2", "trainer.max_steps=50", "model.memory_slots=4",
    )  # fmt: skip
    assert plan["rnn-budget2-seed1"] == ("model=rnn", "seed=1", "trainer.max_steps=100")


def test_an_experiment_names_the_file_of_each_model(bottleneck):
    plan = planned(bottleneck, "--experiment", "multi30k_joined", "--models", "rnn,bahdanau")
    assert plan["rnn-seed1"] == ("experiment=multi30k_joined_rnn", "seed=1")


@pytest.mark.parametrize("option", ["seed=3", "model=rnn", "hydra.run.dir=x"])
def test_what_belongs_to_the_plan_is_refused_as_an_option(bottleneck, option, tmp_path, capsys):
    with pytest.raises(SystemExit):
        bottleneck.main(["--output", str(tmp_path), option])
    assert "belong to the plan" in capsys.readouterr().err


def test_one_command_trains_compares_and_keeps_what_is_finished(bottleneck, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    arguments = [
        *("--models", "rnn,bahdanau", "--updates", "2", "--output", str(tmp_path / "out")),
        *corpus_options(tmp_path / "text"),
        *("trainer=cpu", "num_validations=1", "threads=1", "decoding.max_length=9"),
    ]
    assert bottleneck.main(arguments) == 0
    results = json.loads((tmp_path / "out/report/results.json").read_text(encoding="utf-8"))
    assert {"rnn", "bahdanau"} <= set(json.dumps(results).split('"'))
    trained = tmp_path / "out/runs/rnn-seed1/metrics.json"
    before = trained.stat().st_mtime_ns
    monkeypatch.setattr(bottleneck.subprocess, "Popen", None)  # trains nothing any more
    assert bottleneck.main(arguments) == 0
    assert trained.stat().st_mtime_ns == before
    assert bottleneck.main([*arguments, "label_smoothing=0.2"]) == 1


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


def test_pandas_does_not_take_the_script_for_a_library():
    code = "import pandas, sys; assert 'bottleneck' not in sys.modules"
    script = [sys.executable, "-W", "error", "-c", code]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parent)}  # as for a program in scripts/
    done = subprocess.run(script, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
