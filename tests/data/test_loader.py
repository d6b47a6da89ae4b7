import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from nmt.data.batch import collate
from nmt.data.loader import TrainLoader
from nmt.data.sampler import TokenBatchSampler

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning",
    "ignore:.*isinstance.treespec, LeafSpec.* is deprecated",
    "ignore:.*LeafSpec.* is deprecated:FutureWarning",
)

BATCHES_PER_EPOCH = 8
EPOCHS = 3
WORKERS = [(0, False), (2, False), (2, True)]


class Pairs:
    """61 pairs of 2 to 9 tokens that answer a list of numbers with a batch."""

    lengths = tuple(2 + (7 * i) % 8 for i in range(61))

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, indices):
        rows = [[11] * (self.lengths[i] - 1) for i in indices]
        return collate(
            [
                {"index": i, "source_ids": row, "target_ids": row}
                for i, row in zip(indices, rows, strict=True)
            ]
        )


def make_loader(workers=(0, False), *, budget=60, seed=1):
    sampler = TokenBatchSampler(Pairs.lengths, Pairs.lengths, token_budget=budget, seed=seed)
    number, persistent = workers
    return TrainLoader(Pairs(), sampler, num_workers=number, persistent_workers=persistent)


def evaluation_loader():
    sampler = TokenBatchSampler(Pairs.lengths, Pairs.lengths, token_budget=60, shuffle=False)
    return DataLoader(Pairs(), sampler=sampler, batch_size=None)


class Recorder(pl.LightningModule):
    """Learns nothing and writes down which pairs it was given in which step."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen.append(tuple(batch.index.tolist()))
        return self.weight * batch.num_target_tokens

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class EvaluatedRecorder(Recorder):
    def validation_step(self, batch, batch_idx):
        self.seen.append(tuple(batch.index.tolist()))
        return batch.index

    test_step = predict_step = validation_step


class SaveAt(pl.Callback):
    """Saves a checkpoint in `on_train_batch_end`, where `last.ckpt` is written."""

    def __init__(self, directory, steps):
        self.directory = directory
        self.steps = steps

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step in self.steps:
            trainer.save_checkpoint(self.directory / f"{trainer.global_step}.ckpt")


def make_trainer(**options):
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        **options,
    )


def fit(loader, *, resume_from=None, **options):
    module = Recorder()
    make_trainer(**options).fit(module, loader, ckpt_path=resume_from)
    return module.seen


def indices(loader):
    return [tuple(batch.index.tolist()) for batch in loader]


@pytest.mark.parametrize("workers", WORKERS)
def test_resumed_run_sees_what_the_uninterrupted_run_would_have_seen(tmp_path, workers):
    """In the middle, at the end and at the start of an epoch; in the first and later."""
    steps = [3, 8, 9, 13, 16]
    total = EPOCHS * BATCHES_PER_EPOCH
    whole = fit(
        make_loader(workers), max_steps=total, max_epochs=-1, callbacks=[SaveAt(tmp_path, steps)]
    )
    assert len(whole) == total
    for step in steps:
        checkpoint = tmp_path / f"{step}.ckpt"
        resumed = fit(make_loader(workers), max_steps=total, max_epochs=-1, resume_from=checkpoint)
        assert resumed == whole[step:], f"resumed after step {step}"


def test_run_stopped_by_its_last_update_can_be_prolonged(tmp_path):
    whole = fit(make_loader(), max_epochs=2)
    fit(make_loader(), max_steps=11, callbacks=[SaveAt(tmp_path, [11])])
    assert fit(make_loader(), max_epochs=2, resume_from=tmp_path / "11.ckpt") == whole[11:]


def test_resuming_holds_when_epochs_are_cut_short(tmp_path):
    options = {"max_epochs": 3, "limit_train_batches": 5}
    steps = [2, 5, 7]
    whole = fit(make_loader(), callbacks=[SaveAt(tmp_path, steps)], **options)
    for step in steps:
        resumed = fit(make_loader(), resume_from=tmp_path / f"{step}.ckpt", **options)
        assert resumed == whole[step:]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_lightning_fits_validates_tests_and_predicts(precision):
    trainer = make_trainer(max_epochs=1, precision=precision)
    module = EvaluatedRecorder()
    trainer.fit(module, make_loader(), evaluation_loader())
    for run in (trainer.validate, trainer.test, trainer.predict):
        module.seen = []
        run(module, dataloaders=evaluation_loader())
        assert sorted(index for batch in module.seen for index in batch) == list(range(61))


def test_state_counts_what_was_handed_out_not_what_was_prefetched():
    loader = make_loader((2, False))
    loader.sampler.set_epoch(4)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    assert loader.state_dict() == {
        "epoch": 4,
        "batches": 3,
        "fingerprint": loader.sampler.fingerprint,
    }


def test_plain_loop_goes_on_where_it_stopped_and_then_starts_afresh():
    stopped, resumed, whole = make_loader(), make_loader(), make_loader()
    stopped.sampler.set_epoch(2)
    iterator = iter(stopped)
    for _ in range(5):
        next(iterator)
    resumed.load_state_dict(stopped.state_dict())
    assert resumed.state_dict() == stopped.state_dict()
    whole.sampler.set_epoch(2)
    epoch_2 = indices(whole)
    assert indices(resumed) == epoch_2[5:]
    resumed.sampler.set_epoch(3)
    whole.sampler.set_epoch(3)
    assert indices(resumed) == indices(whole) != epoch_2


def test_iterator_takes_the_epoch_set_after_it_was_made():
    early, late = make_loader(), make_loader()
    iterator = iter(early)
    early.sampler.set_epoch(2)
    late.sampler.set_epoch(2)
    assert indices(iterator) == indices(late)


@pytest.mark.parametrize("change", [{"budget": 61}, {"seed": 2}])
def test_state_of_other_batches_is_refused(change):
    with pytest.raises(ValueError, match="batch 0 of epoch 0 of other batches"):
        make_loader().load_state_dict(make_loader(**change).state_dict())


def test_iterating_leaves_the_global_random_state_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    indices(make_loader((2, False)))
    assert torch.equal(torch.get_rng_state(), before)
