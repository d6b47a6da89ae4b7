"""Runs that cannot succeed end, or are warned of, in one sentence."""

import logging
import math

import pytest
import pytorch_lightning as pl
import torch
from number_words import corpus_options, make_run, model_options, trainer_options


class Spoil(pl.Callback):
    """Makes a gradient of these updates (counted from 0) infinite."""

    def __init__(self, updates):
        self.updates = updates

    def on_after_backward(self, trainer, module):
        if trainer.global_step in self.updates:
            next(module.model.parameters()).grad[0, 0] = math.inf


class FailIn(pl.Callback):
    """Has too little memory in the second batch of training, or the first of validation."""

    def __init__(self, stage):
        self.stage = stage

    def _fail(self):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\n...")

    def on_before_backward(self, trainer, module, loss):
        if self.stage == "training" and trainer.global_step == 1:
            self._fail()

    def on_validation_batch_end(self, *args):
        if self.stage == "validation":
            self._fail()


@pytest.fixture
def build(tmp_path):
    def build_run(*more, callbacks=(), **trainer):
        return make_run(
            *corpus_options(tmp_path / "text"),
            *model_options("transformer"),
            *trainer_options(tmp_path / "run", **({"max_steps": 9} | trainer)),
            *more,
            callbacks=callbacks,
        )

    return build_run


def test_too_many_skipped_updates_in_a_row_end_the_run(build):
    """Updates 2 and 3 are no row of three; 5, 6 and 7 are. The weights are those of update 4."""
    options = ("callbacks.finite.in_a_row=3", "callbacks.last.every_n_updates=2")
    run = build(*options, callbacks=(Spoil({1, 2, 4, 5, 6}),), accumulate_grad_batches=2)
    with pytest.raises(
        ValueError, match=r"\Athe gradients of 3 updates in a row, 7 the last, .*\."
    ):
        run.fit()
    assert run.trainer.global_step == 7
    last = torch.load(run.checkpoints / "last.ckpt", weights_only=True)
    assert last["counters"]["skipped_updates"] == 4  # of update 6
    for name, weight in run.module.state_dict().items():
        assert torch.equal(last["state_dict"][name], weight)


@pytest.mark.parametrize(("score", "warned"), [(0.04, [6]), (0.3, [])])
def test_a_bleu_of_zero_after_a_third_of_the_budget_is_warned_of_once(build, caplog, score, warned):
    class Scores(pl.Callback):
        def on_validation_start(self, trainer, module):
            module._bleu = lambda split, texts: score

    run = build("num_validations=4", callbacks=(Scores(),), max_steps=12)  # after 3, 6, 9, 12
    with caplog.at_level(logging.WARNING):
        run.fit()
    texts = [text for text in caplog.messages if "Validation BLEU is 0.0" in text]
    assert [int(text.split("after ")[1].split()[0]) for text in texts] == warned
    assert all("is not the translation of" in text for text in texts)


@pytest.mark.parametrize(
    ("stage", "option"), [("training", "data.token_budget"), ("validation", "eval_token_budget")]
)
def test_too_little_memory_names_the_batch_and_the_option(build, stage, option):
    run = build(callbacks=(FailIn(stage),))
    with pytest.raises(ValueError, match=rf"\A[^\n]*{stage} batch of \d+ pairs.*\.\Z") as error:
        run.fit()
    assert f"lower {option}" in str(error.value).replace("data.eval", "eval")
