"""What a user mistypes ends as one line before anything heavy is imported or any data is read."""

import importlib.util
import logging
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import nmt.cli.train  # registers the resolver that conf/train.yaml uses
from nmt.checks import UserError
from nmt.config import check_config, config_directory, hydra_main


@pytest.fixture
def restored_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def run(monkeypatch, capsys, tmp_path, restored_logging):
    """Runs a program under Hydra in an empty folder; returns its config or its error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)

    def call(*overrides, job=check_config, config_name="train"):
        seen = []

        @hydra_main(config_name)
        def program(config):
            job(config)
            seen.append(config)

        monkeypatch.setattr(sys, "argv", ["train.py", *overrides])
        try:
            program()
        except SystemExit as stop:
            status = stop.code
            error = capsys.readouterr().err
            assert (status, error.count("\n")) == (1, 1), error
            return error.removeprefix("error: ")
        return seen[0] if len(seen) == 1 else seen

    return call


@pytest.fixture(scope="module")
def composed():
    """The config of `python train.py decoding=beam`, which has the most options."""
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return compose("train", overrides=["decoding=beam"])


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("trainer.max_epoch=3", "did you mean trainer.max_epochs?"),
        ("modle=rnn", "did you mean model?"),
        ("lr=0.1", "did you mean optimizer.lr?"),
        ("qqqqqqqq=1", "Could not override 'qqqqqqqq'"),
        ("model.attention_dim=8", "Key 'attention_dim' is not in struct"),
        ("model=transformr", "did you mean model=transformer?"),
        ("experiment=nonsense", "multi30k_joined\n"),  # what there is, and no guess
        ("model", "cannot read 'model': write key=value"),
        ("model=rnn,bahdanau", "add --multirun"),
        ("seed=${nope}", "Interpolation key 'nope' not found"),
        ("data.name=???", "data.name has no value; give data.name=VALUE"),
        ("model.dropout=1.5", "model: dropout is 1.5; it must be "),
        ("ckpt_path=last", "ckpt_path=last: there is no last.ckpt"),
    ],
)
def test_a_typing_error_is_one_line_with_the_nearest_option(run, tmp_path, typed, expected):
    assert expected in run(typed)
    assert not list(tmp_path.glob("outputs/*/*"))


IMPOSSIBLE = {
    "seed": [-1, None],
    "label_smoothing": [1, math.nan],
    "num_validations": [0],
    "trainer.precision": ["bf16-true", "64-true"],
    "threads": [0],
    "model.dropout": [1.5, "abc"],
    "model.encoder_layers": [0],
    "model.width": [True],
    "model.num_heads": [3],
    "decoding.beam_size": [0, -1],
    "optimizer.lr": ["abc", -1],
    "scheduler.warmup": [-1, "abc"],
    "trainer.max_steps": [0, None],
    "trainer.accumulate_grad_batches": [0],
    "trainer.log_every_n_steps": [0],
}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option in IMPOSSIBLE for value in IMPOSSIBLE[option]]
)
def test_an_impossible_value_is_refused_with_option_and_value(composed, option, value):
    config = composed.copy()
    OmegaConf.update(config, option, value)
    group, _, name = option.rpartition(".")
    named = rf"{re.escape(option)}\b.*{re.escape(repr(value))}"
    among_others = rf"{group}: .*'{name}': {re.escape(repr(value))}"
    with pytest.raises(UserError, match=rf"\A({named}|{among_others})[^\n]*\Z"):
        check_config(config)


def test_an_error_does_not_remove_the_folder_of_a_program_that_writes_where_it_is(run, tmp_path):
    message = run("checkpoint=x", "decoding=beam", "decoding.beam_size=0", config_name="evaluate")
    assert message.startswith("decoding: beam_size is 0")
    assert tmp_path.is_dir()


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("model.foo", 3, r"model: .*\.Transformer got an unexpected keyword argument 'foo'"),
        ("model._target_", "os.getcwd", "model: _target_ 'os.getcwd' is not allowed"),
        ("optimizer._target_", "nmt.tokenizer.Tokenizer", "_target_ 'nmt.* not allowed"),
        ("optimizer.betas", [0.9, 2], "optimizer: Invalid beta parameter at index 1: 2"),
    ],
)
def test_a_group_that_cannot_be_built_is_refused(composed, option, value, expected):
    config = composed.copy()
    OmegaConf.update(config, option, value, force_add=True)
    with pytest.raises(ValueError, match=expected):
        check_config(config)


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="the extra is installed")
def test_a_language_that_could_not_be_scored_is_refused(composed):
    config = composed.copy()
    config.data.target_lang = "ja"
    with pytest.raises(ValueError, match=r"sacrebleu\[ja\]"):
        check_config(config)


PATHS = ["a=b", "a,b", "a (1)", "a#1", "ä/數據", "C:\\x", "it's", "a b"]


@pytest.mark.parametrize("path", PATHS)
def test_any_path_can_be_given_in_quotes_and_the_message_says_so(run, path):
    found = run(f"data.directory={path}", job=lambda config: None)
    if isinstance(found, str):
        assert "quote the value" in found
        found = run(f'data.directory="{path}"', job=lambda config: None)
    assert found.data.directory == path


def test_a_sweep_runs_every_job(run):
    configs = run("-m", "seed=1,2", job=lambda config: None)
    assert [config.seed for config in configs] == [1, 2]


def test_the_other_jobs_of_a_sweep_run_after_one_that_failed(run):
    done = []

    def job(config):
        check_config(config)
        done.append(config.seed)

    with pytest.raises(AssertionError):  # a line for each failed job
        run("-m", "seed=-1,2,-3", job=job)
    assert done == [2]


def test_a_folder_that_cannot_be_made_is_one_line(run, tmp_path):
    (tmp_path / "file").touch()
    for folder in ("file/run", "/proc/run"):
        assert folder in run(f"hydra.run.dir={folder}")


def test_a_file_that_cannot_be_written_is_one_line(run, tmp_path):
    message = run(job=lambda config: (tmp_path / "none" / "file").write_text("", encoding="utf-8"))
    assert message.startswith(f"{tmp_path}/none/file: No such file or directory")


def test_a_bug_keeps_its_traceback(run):
    def job(config):
        raise ValueError("from a library")

    with pytest.raises(ValueError, match="from a library"):
        run(job=job)


def test_the_environment_of_a_job_is_the_users(run):
    seen = []
    run(job=lambda config: seen.append(os.environ.get("HYDRA_FULL_ERROR")))
    assert seen == [None]
    assert "HYDRA_FULL_ERROR" not in os.environ


def test_full_errors_are_shown_on_request(run, monkeypatch):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="seed is -1"):
        run("seed=-1")


@pytest.mark.parametrize(
    ("typed", "imported"),
    [("modle=rnn", ""), ("seed=-1", ""), ("model.dropout=1.5", "torch")],
)
def test_an_error_does_not_wait_for_heavy_imports(tmp_path, typed, imported):
    """The training program gives up within seconds because it has imported little."""
    code = (
        "import sys\n"
        "from nmt.cli.train import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert stop.code == 1\n"
        "print(*({'torch', 'pytorch_lightning', 'datasets', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, typed],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(nmt.cli.train.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == imported
