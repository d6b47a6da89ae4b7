import pytest
import torch
from number_words import Crash, corpus_options, make_run, model_options, trainer_options

from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError

OTHER_DOMAIN = [("five five", "fünf Mal fünf"), ("one two", "eins Mal zwei")] * 9


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    def build_run(run_dir, *more, model="transformer", max_steps=3, callbacks=(), **splits):
        return make_run(
            *corpus_options(tmp_path_factory.mktemp("text"), **splits),
            *model_options(model),
            *trainer_options(run_dir, max_steps=max_steps),
            *more,
            callbacks=callbacks,
        )

    return build_run


@pytest.fixture(scope="module")
def trained(build, tmp_path_factory):
    run = build(tmp_path_factory.mktemp("first"))
    run.fit()
    return run.checkpoints / "last.ckpt"


def weights(path):
    return load_checkpoint(path).model.state_dict()


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_a_new_run_begins_with_weights_and_tokenizer_of_a_checkpoint(build, trained, tmp_path):
    run = build(tmp_path, f"init_from={trained}", "optimizer.lr=1e-30", train=OTHER_DOMAIN)
    run.fit()
    last = load_checkpoint(run.checkpoints / "last.ckpt")
    assert last.tokenizer.model == load_checkpoint(trained).tokenizer.model
    assert last.updates == 3  # counted from 0, with a schedule of its own
    assert not changed(weights(trained), last.model.state_dict())  # at a rate of almost 0


@pytest.mark.parametrize("patterns", ['["embedding*","*encoder*"]', "'*e[mn][bc]*e[dr]*'"])
def test_frozen_weights_stay_and_the_others_move(build, trained, tmp_path, patterns):
    run = build(tmp_path, f"init_from={trained}", f"freeze={patterns}")
    run.fit()
    moved = changed(weights(trained), weights(run.checkpoints / "last.ckpt"))
    assert moved
    assert not {name for name in moved if "encoder" in name or name.startswith("embedding")}


def test_a_fine_tuning_run_resumes_from_its_own_checkpoint(build, trained, tmp_path):
    options = (f"init_from={trained}", 'freeze=["embedding*"]')
    whole = build(tmp_path / "whole", *options, max_steps=4)
    whole.fit()
    with pytest.raises(RuntimeError, match="power"):
        build(
            tmp_path / "cut",
            *options,
            "callbacks.last.every_n_updates=2",
            callbacks=(Crash(2),),
            max_steps=4,
        ).fit()
    last = tmp_path / "cut" / "checkpoints" / "last.ckpt"
    resumed = build(tmp_path / "cut", *options, f"ckpt_path={last}", max_steps=4)
    resumed.fit()
    assert not changed(
        weights(whole.checkpoints / "last.ckpt"), weights(resumed.checkpoints / "last.ckpt")
    )


@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ("model.feed_forward=23", "is of another model: give model.feed_forward="),
        ("data.lowercase=true", "give data.lowercase=False"),
        ("freeze=[decode]", "'decode', which matches no weight of this model: its parts are"),
    ],
)
def test_what_does_not_fit_the_checkpoint_is_refused(build, trained, tmp_path, option, refusal):
    with pytest.raises(UserError, match=refusal):
        build(tmp_path, f"init_from={trained}", option).fit()


def test_the_checkpoint_of_another_class_is_refused(build, trained, tmp_path):
    with pytest.raises(UserError, match="is of another model: give the model= and the options"):
        build(tmp_path, f"init_from={trained}", model="rnn").fit()
