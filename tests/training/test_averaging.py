"""Averages of weights: of files, and while training."""

import subprocess
import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from number_words import Crash, corpus_options, make_run, model_options, trainer_options

from nmt.checkpoint import average_checkpoints, load_checkpoint

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    text = tmp_path_factory.mktemp("text")

    def build_run(run_dir, *more, callbacks=(), max_steps=6):
        return make_run(
            *corpus_options(text),
            *model_options("rnn"),
            *trainer_options(run_dir, max_steps=max_steps),
            "optimizer.lr=2e-2",
            "num_validations=6",
            *more,
            callbacks=callbacks,
        )

    return build_run


@pytest.fixture(scope="module")
def kept(build, tmp_path_factory):
    """The checkpoints of the last three of six validations, oldest first."""
    run = build(
        tmp_path_factory.mktemp("run"), "callbacks=averaging", "callbacks.kept.save_top_k=3"
    )
    run.fit()
    paths = sorted(run.checkpoints.glob("update_*.ckpt"))
    assert [path.name for path in paths] == ["update_4.ckpt", "update_5.ckpt", "update_6.ckpt"]
    assert {path.name for path in run.checkpoints.iterdir()} > {"best.ckpt", "last.ckpt"}
    return paths


def weights(path):
    return torch.load(path, weights_only=True)["state_dict"]


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_the_average_is_the_mean_of_each_weight(kept):
    average = average_checkpoints(kept)["state_dict"]
    each = [weights(path) for path in kept]
    for name, weight in average.items():
        expected = torch.stack([one[name] for one in each]).double().mean(0).float()
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=0)
    assert not same(average, each[-1])


def test_one_file_is_its_own_average_and_the_order_does_not_matter(kept):
    assert same(average_checkpoints(kept[:1])["state_dict"], weights(kept[0]))
    forwards, backwards = average_checkpoints(kept), average_checkpoints(kept[::-1])
    assert same(forwards["state_dict"], backwards["state_dict"])


def test_the_script_writes_a_file_that_loads_like_any_other(kept, tmp_path):
    script = ROOT / "scripts" / "average_checkpoints.py"
    output = tmp_path / "averaged.ckpt"
    done = subprocess.run(
        [sys.executable, script, *kept, "--output", output],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = load_checkpoint(output)
    assert loaded.updates == 6
    assert same(weights(output), average_checkpoints(kept)["state_dict"])
    assert [path.name for path in tmp_path.iterdir()] == ["averaged.ckpt"]


@pytest.mark.parametrize(
    ("name", "value"), [("model", {"_target_": "other"}), ("tokenizer", b"other")]
)
def test_checkpoints_of_another_model_or_tokenizer_are_refused(kept, tmp_path, name, value):
    content = torch.load(kept[0], weights_only=True)
    content["hyper_parameters"][name] = value
    torch.save(content, tmp_path / "update_7.ckpt")
    with pytest.raises(ValueError, match=rf"has another {name} than the first one"):
        average_checkpoints([kept[1], tmp_path / "update_7.ckpt"])


def test_the_best_can_be_kept_by_the_score_that_chooses_best(build, tmp_path):
    options = ("callbacks=averaging", "callbacks.kept.monitor=valid_bleu")
    run = build(tmp_path, *options, "callbacks.kept.save_top_k=2", max_steps=3)
    run.fit()
    assert len(list(run.checkpoints.glob("update_*.ckpt"))) == 2


# --- A moving average of the weights while training ----------------------------------------

EMA = ("callbacks=ema", "callbacks.ema.decay=0.5", "callbacks.last.every_n_updates=2")


class Validated(pl.Callback):
    """Notes the weights that the newest validation used."""

    def on_validation_batch_start(self, trainer, module, *args):
        self.weights = {name: weight.clone() for name, weight in module.state_dict().items()}


def test_the_moving_average_is_what_is_validated_saved_and_loaded(build, tmp_path):
    validated = Validated()
    run = build(tmp_path, *EMA, "num_validations=1", callbacks=(validated,))
    best = run.fit()
    content = torch.load(best, weights_only=True)
    assert same(content["state_dict"], validated.weights)
    assert not same(content["state_dict"], content["current_model_state"])
    loaded = load_checkpoint(best).model.state_dict()
    assert same(loaded, {k.removeprefix("model."): w for k, w in validated.weights.items()})


def test_a_resumed_run_with_a_moving_average_equals_an_uninterrupted_one(build, tmp_path):
    whole = build(tmp_path / "whole", *EMA)
    whole.fit()
    with pytest.raises(RuntimeError, match="the power failed"):
        build(tmp_path / "parts", *EMA, callbacks=(Crash(5),)).fit()
    resumed = build(tmp_path / "parts", *EMA, "ckpt_path=last")
    resumed.fit()
    for key in ("state_dict", "current_model_state", "averaging_state"):
        first, second = (
            torch.load(run.checkpoints / "last.ckpt", weights_only=True)[key]
            for run in (whole, resumed)
        )
        assert same(first, second)
