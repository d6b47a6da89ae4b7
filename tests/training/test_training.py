import logging
import math
from typing import ClassVar

import pytest
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from models_for_tests import MODEL_NAMES
from number_words import (
    compose,
    corpus_options,
    make_run,
    model_options,
    pairs,
    trainer_options,
)
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

from nmt import PAD
from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError
from nmt.data.batch import collate
from nmt.evaluation.metrics import bleu
from nmt.training.callbacks import SameBatches
from nmt.training.run import build_trainer

SGD = {"_target_": "torch.optim.SGD", "lr": 0.125}
CONSTANT = {"_target_": "nmt.training.schedules.Cosine", "updates": 1000, "warmup": 0}
WIDER = {
    "sutskever": ["model.width=32", "model.hidden=48"],
    "rnn": ["model.width=32", "model.decoder_hidden=96", "model.encoder_hidden=32"],
    "bahdanau": ["model.width=32", "model.decoder_hidden=64", "model.encoder_hidden=32"],
    "transformer": ["model.width=64", "model.feed_forward=96"],
}
BATCHES = 8  # of an epoch: the sampler rounds up to a multiple of eight


@pytest.fixture
def options(tmp_path):
    """Makes the options of a run on 61 pairs; its files and its results lie in tmp_path."""

    def make(*more, name="transformer", max_steps=5, splits=None, dropout=0.0, **trainer):
        return [
            *corpus_options(tmp_path / "text", **(splits or {})),
            *model_options(name, dropout=dropout),
            *trainer_options(tmp_path / "run", max_steps=max_steps, **trainer),
            *more,
        ]

    return make


class Watch(pl.Callback):
    """Notes the weights before the first and after every micro-batch."""

    def __init__(self):
        self.weights, self.seen = [], []

    def on_train_start(self, trainer, module):
        self._note(module)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.seen.append(batch.index.tolist())
        self._note(module)

    def _note(self, module):
        self.weights.append({k: v.clone() for k, v in module.model.state_dict().items()})


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def leaves(value):
    """Yields what lies in nested dicts and lists; anything else is a leaf."""
    if type(value) not in (dict, list):
        yield value
        return
    for part in value.values() if isinstance(value, dict) else value:
        yield from leaves(part)


def distance(first, second):
    return math.sqrt(sum(((first[name] - second[name]) ** 2).sum().item() for name in first))


def step_by_hand(run, indices):
    """Returns the weights after one SGD step on the mean loss of all tokens of these pairs."""
    batch = run.data._pairs("train")[indices]
    model = run.module.model.train()
    logits = model(batch.source, batch.source_mask, batch.target_in)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, label_smoothing=0.1
    )
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    named = zip(model.named_parameters(), gradients, strict=True)
    return {name: p.detach() - SGD["lr"] * gradient for (name, p), gradient in named}


# --- The update ---------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [1, 8])
def test_an_update_is_the_mean_over_the_tokens_of_its_micro_batches(options, accumulate):
    """Lengths differ, so a mean of means would be another number."""
    one_pair_each = {"train": [*pairs(7, longest=3), ("one " * 20, "eins " * 20)]}
    watch = Watch()
    run = make_run(
        *options(splits=one_pair_each, max_steps=1, accumulate_grad_batches=accumulate),
        "trainer.gradient_clip_val=null",
        "data.token_budget=1",
        optimizer=SGD,
        scheduler=CONSTANT,
        callbacks=(watch,),
    )
    batches = list(run.data.train_dataloader().sampler)[:accumulate]
    expected = step_by_hand(run, [index for batch in batches for index in batch])
    run.fit()
    assert watch.seen == batches
    for name, weight in watch.weights[-1].items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=1e-6)


def test_clipping_bounds_the_gradient_of_the_mean_loss(options):
    watch = Watch()
    run = make_run(
        *options(max_steps=1, gradient_clip_val=0.25),
        optimizer=SGD,
        scheduler=CONSTANT,
        callbacks=(watch,),
    )
    run.fit()
    step = distance(*watch.weights)
    assert step == pytest.approx(0.25 * SGD["lr"], rel=1e-3)


def test_an_update_without_tokens_or_with_a_nan_is_skipped_and_counted(options):
    """Four updates: good, all padding, not a number, good."""
    good = [{"index": i, "source_ids": [5, 7], "target_ids": [7, 5, 9]} for i in range(3)]
    batches = [collate(good) for _ in range(4)]
    object.__setattr__(batches[1], "target_out", torch.full_like(batches[1].target_out, PAD))
    object.__setattr__(batches[1], "num_target_tokens", 0)

    class Spoil(pl.Callback):
        def on_after_backward(self, trainer, module):
            if trainer.global_step == 2:
                next(module.model.parameters()).grad[0, 0] = math.nan

    watch = Watch()
    run = make_run(*options(max_steps=4), callbacks=(watch, Spoil()))
    run.data.train_dataloader = lambda: DataLoader(batches, batch_size=None)
    run.fit()
    before, first, padding, nan, last = watch.weights
    assert not same(before, first)
    assert same(first, padding)  # momentum did not move them either
    assert same(padding, nan)
    assert not same(nan, last)
    assert all(weight.isfinite().all() for weight in last.values())
    assert run.module.skipped_updates == 2
    assert run.module.target_tokens_seen == 3 * 12
    state = run.trainer.optimizers[0].state
    assert all(entry["step"] == 2 for entry in state.values())
    saved = torch.load(run.checkpoints / "last.ckpt", weights_only=True)
    assert saved["counters"]["skipped_updates"] == 2


# --- Counting updates ---------------------------------------------------------------------


def test_the_rate_follows_updates_and_peaks_at_the_last_of_the_warmup(options):
    run = make_run(*options(max_steps=7, accumulate_grad_batches=2), "optimizer.lr=0.01")
    run.fit()
    rates = {int(row["step"]): float(row["lr"]) for row in run.log if row["lr"]}
    assert list(rates) == [1, 2, 3, 4, 5, 6, 7]
    assert [rates[1], rates[2], rates[3]] == pytest.approx([0.01 / 3, 0.02 / 3, 0.01])
    assert max(rates, key=rates.get) == 3
    assert rates[7] == pytest.approx(0.02 * 0.01)  # final_fraction


def test_the_last_micro_batches_of_an_epoch_make_an_update(options, caplog):
    """5 batches by twos are 3 updates, fewer than the budget: the last is validated."""
    run = make_run(
        *options(max_steps=100, max_epochs=1, accumulate_grad_batches=2, limit_train_batches=5)
    )
    with caplog.at_level(logging.WARNING):
        best = run.fit()
    assert run.trainer.global_step == 3
    assert [row["step"] for row in run.log if row["loss"]] == ["1", "2", "3"]
    assert best == run.checkpoints / "best.ckpt"
    assert load_checkpoint(best).updates == 3
    assert "The run ends after 3 updates" in caplog.text


def test_a_run_validates_as_often_as_asked_and_at_its_end(options, caplog):
    run = make_run(*options(max_steps=10), "num_validations=4", "scheduler.warmup=20")
    with caplog.at_level(logging.WARNING):
        run.fit()
    assert [row["step"] for row in run.log if row["valid_bleu"]] == ["2", "5", "8", "10"]
    assert "before its schedule does: scheduler.warmup=20" in caplog.text


def test_overfitting_sees_the_same_batches_in_each_epoch(options):
    class Seen(pl.Callback):
        epochs: ClassVar = {}

        def on_train_batch_start(self, trainer, module, batch, index):
            self.epochs.setdefault(trainer.current_epoch, []).append(batch.index.tolist())

    options = options(max_steps=6, limit_train_batches=2)
    make_run(*options, callbacks=(SameBatches(), Seen())).fit()
    assert Seen.epochs[0] == Seen.epochs[1] == Seen.epochs[2]


@pytest.mark.parametrize(
    ("option", "value", "instead"),
    [
        ("val_check_interval", 1, "num_validations"),
        ("overfit_batches", 2, "debug=overfit"),
    ],
)
def test_trainer_options_that_could_not_be_obeyed_are_refused(options, option, value, instead):
    config = compose(*options())
    OmegaConf.update(config, f"trainer.{option}", value, force_add=True)
    with pytest.raises(UserError, match=instead):
        build_trainer(config)


def test_every_target_token_is_counted_once_an_epoch(options):
    run = make_run(*options(max_steps=2 * BATCHES))
    run.fit()
    tokens = sum(run.data._pairs("train").target_lengths)
    assert run.module.target_tokens_seen == 2 * tokens
    assert run.module.seconds > 0


# --- Validation ---------------------------------------------------------------------------


def test_validation_does_not_depend_on_how_it_is_batched(options):
    found = [
        make_run(*options(f"data.eval_token_budget={budget}", splits={"valid": 17})).validate()
        for budget in (1, 67, 10_000)
    ]
    for other in found[1:]:
        assert other["valid_loss"] == pytest.approx(found[0]["valid_loss"], rel=1e-6)
        assert other["valid_perplexity"] == pytest.approx(found[0]["valid_perplexity"], rel=1e-5)
        assert other["valid_bleu"] == found[0]["valid_bleu"]


def test_perplexity_is_of_the_unsmoothed_loss_and_starts_near_the_vocabulary(options):
    run = make_run(*options("label_smoothing=0.1"))
    found = run.validate()
    batch = run.data._pairs("valid")[range(7)]
    with torch.no_grad():
        logits = run.module.model(batch.source, batch.source_mask, batch.target_in)
    nll = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
    assert found["valid_loss"] == pytest.approx(nll.item(), rel=1e-5)
    assert found["valid_perplexity"] == pytest.approx(nll.exp().item(), rel=1e-4)
    size = run.data.tokenizer.vocab_size
    assert size / 3 < found["valid_perplexity"] < size * 3


def test_a_hopeless_model_has_infinite_perplexity_and_raises_nothing(options):
    run = make_run(*options())
    with torch.no_grad():
        for parameter in run.module.model.parameters():
            parameter.mul_(1e3)
    assert run.validate()["valid_perplexity"] == math.inf


def test_validation_leaves_no_trace_in_training(options):
    weights = []
    for validations in (1, 5):
        run = make_run(*options(f"num_validations={validations}", dropout=0.3))
        run.fit()
        weights.append(run.module.state_dict())
        assert run.module.training
    assert same(*weights)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_eight_pairs_are_learnt_by_heart(options, name):
    eight = [(s, " ".join(reversed(t.split()))) for s, t in pairs(8, longest=5)]
    run = make_run(
        *options(name=name, max_steps=110, splits={"train": eight, "valid": eight}),
        *WIDER[name],
        "label_smoothing=0",
        "optimizer.lr=0.01",
        "scheduler.warmup=10",
        "decoding=greedy",
    )
    batch = run.data._pairs("train")[range(8)]
    run.data.train_dataloader = lambda: DataLoader([batch], batch_size=None)
    best = load_checkpoint(run.fit())
    found = best.search(best.model, batch.source, batch.source_mask)
    texts = [best.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
    assert texts == [target for _, target in eight]
    assert float(run.log[-1]["valid_bleu"]) == pytest.approx(100)


# --- Checkpoints --------------------------------------------------------------------------


class Scripted(pl.Callback):
    """Gives the validations of a run these BLEU scores."""

    def __init__(self, *scores):
        self.scores = iter(scores)

    def on_validation_start(self, trainer, module):
        score = next(self.scores)
        module._bleu = lambda split, texts: score


def test_the_first_of_the_best_checkpoints_is_kept_and_nan_never_wins(options):
    """The files lie flat, without =, : or / in their names."""
    scores = Scripted(1.0, 5.0, 5.0, math.nan, 3.0)
    run = make_run(*options("num_validations=5"), callbacks=(scores,))
    best = run.fit()
    assert best == run.checkpoints / "best.ckpt"
    assert load_checkpoint(best).updates == 2
    assert load_checkpoint(run.checkpoints / "last.ckpt").updates == 5
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["best.ckpt", "last.ckpt"]


def test_early_stopping_keeps_the_update_it_stopped_at_and_says_why(options, caplog):
    run = make_run(
        *options("callbacks=early_stopping", "num_validations=9", max_steps=9),
        "callbacks.early_stopping.patience=2",
        callbacks=(Scripted(3.0, 4.0, 2.0, 1.0, 9.0),),
    )
    with caplog.at_level(logging.INFO, logger="nmt"):
        assert load_checkpoint(run.fit()).updates == 2
    assert load_checkpoint(run.checkpoints / "last.ckpt").updates == 4
    assert "Stopped after 4 of 9 updates: Monitored metric valid_bleu did not" in caplog.text


def test_the_best_checkpoint_scores_what_was_logged(options):
    run = make_run(*options(max_steps=30, splits={"valid": 13}), "optimizer.lr=0.02")
    best = load_checkpoint(run.fit())
    batch = run.data._pairs("valid")[range(13)]
    found = run.module.validation_search(
        best.model,
        batch.source,
        batch.source_mask,
        forbidden_ids=best.tokenizer.forbidden_ids,
    )
    texts = [best.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
    score = bleu(texts, run.data.split("valid")["target"][:], target_lang="de")
    assert score == float(run.log[-1]["valid_bleu"])


def test_saved_options_are_plain_and_resolved(options):
    run = make_run(*options(max_steps=3))
    saved = torch.load(run.fit(), weights_only=True)
    hyper_parameters = saved["hyper_parameters"]
    assert hyper_parameters["scheduler"]["updates"] == 3  # ${trainer.max_steps} in the yaml
    for value in leaves(hyper_parameters):
        assert type(value) in (str, bytes, int, float, bool, type(None))
        assert not isinstance(value, str) or "${" not in value


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_mixed_precision_follows_full_precision(name, tmp_path):
    losses = []
    for precision in ("32-true", "bf16-mixed"):
        run = make_run(
            *corpus_options(tmp_path / "text"),
            *model_options(name),
            *trainer_options(tmp_path / precision, max_steps=4, precision=precision),
        )
        run.fit()
        losses.append([float(row["loss"]) for row in run.log if row["loss"]])
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[1] != losses[0]
