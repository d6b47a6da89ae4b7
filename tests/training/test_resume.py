import logging
import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from number_words import Crash, corpus_options, make_run, model_options, trainer_options

from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError
from nmt.training.callbacks import SIGNALS, LastCheckpoint, Stopped
from nmt.training.resume import WholeCheckpointIO
from nmt.training.run_folder import run_directory
from nmt.training.schedules import Cosine

UPDATES = 13  # 26 micro-batches by twos, 8 of them an epoch: 4 updates an epoch
NOT_TIME = ("epoch", "step", "loss", "lr", "valid_loss", "valid_perplexity", "valid_bleu")


SCORES = {3: 1.0, 6: 5.0, 9: 3.0, 12: 2.0}  # update: BLEU; the best is neither first nor last


class Scores(pl.Callback):
    """Gives each validation of a run its score."""

    def on_validation_start(self, trainer, module):
        score = SCORES.get(trainer.global_step, 0.0)
        module._bleu = lambda split, texts: score


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


@pytest.fixture(scope="module")
def build(text):
    def build_run(run_dir, *more, every=100, callbacks=(), max_steps=UPDATES, **trainer):
        return make_run(
            *corpus_options(text),
            *model_options("transformer", dropout=0.3),
            *trainer_options(run_dir, max_steps=max_steps, accumulate_grad_batches=2, **trainer),
            "optimizer.lr=2e-3",
            "num_validations=4",  # after updates 3, 6, 9 and 12
            f"callbacks.last.every_n_updates={every}",
            *more,
            callbacks=(Scores(), *callbacks),
        )

    return build_run


@pytest.fixture(scope="module")
def uninterrupted(build, tmp_path_factory):
    run = build(tmp_path_factory.mktemp("whole"))
    run.fit()
    return run


def rows(run):
    return [{key: row[key] for key in NOT_TIME} for row in run.log]


def state(run, name="last"):
    content = torch.load(run.checkpoints / f"{name}.ckpt", weights_only=True)
    adam = content["optimizer_states"][0]["state"]
    return content["state_dict"] | {f"{i}.{k}": v for i in adam for k, v in adam[i].items()}


@pytest.mark.parametrize(
    ("every", "crash", "workers"),
    [
        pytest.param(5, 7, 0, id="within an epoch"),
        pytest.param(5, 7, 2, id="within an epoch, with workers"),
        pytest.param(4, 6, 0, id="at the end of an epoch"),
        pytest.param(6, 8, 0, id="after a validation"),
        pytest.param(12, 12, 0, id="after a validation at the end of an epoch"),
    ],
)
def test_a_resumed_run_equals_one_that_was_never_interrupted(
    build, uninterrupted, tmp_path, every, crash, workers
):
    """Weights, optimizer, counters, and every row of the log, bit for bit."""
    options = (tmp_path, f"data.num_workers={workers}")
    broken = build(*options, every=every, callbacks=(Crash(crash),))
    with pytest.raises(RuntimeError, match="the power failed"):
        broken.fit()
    resumed = build(*options, "ckpt_path=last", every=every)
    best = resumed.fit()
    assert resumed.trainer.global_step == UPDATES
    assert resumed.module.target_tokens_seen == uninterrupted.module.target_tokens_seen
    assert resumed.module.skipped_updates == 0
    assert rows(resumed) == rows(uninterrupted)
    assert load_checkpoint(best).updates == 6
    for name in ("last", "best"):
        expected, found = state(uninterrupted, name), state(resumed, name)
        assert all(torch.equal(expected[key], found[key]) for key in expected)


def test_sampled_pieces_are_the_same_after_a_resume(build, tmp_path):
    def run(name, *options, **more):
        return build(tmp_path / name, "data.tokenizer.sampling=0.2", *options, every=1, **more)

    whole = run("whole")
    whole.fit()
    with pytest.raises(RuntimeError, match="the power failed"):
        run("cut", callbacks=(Crash(6),)).fit()  # within the second epoch
    resumed = run("cut", "ckpt_path=last")
    resumed.fit()
    assert all(torch.equal(weight, state(resumed)[key]) for key, weight in state(whole).items())


class Signal(pl.Callback):
    """Sends this process a signal in the first of the two micro-batches of an update."""

    def __init__(self, number, updates):
        self.number, self.updates = number, updates

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step == self.updates and batch_idx % 2 == 0:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("number", "after", "stopped"),
    [
        pytest.param(signal.SIGTERM, 4, 5, id="SIGTERM"),
        pytest.param(signal.SIGINT, 5, 6, id="Ctrl-C, with a validation after the update"),
    ],
)
def test_a_signal_saves_after_the_update_and_the_run_goes_on_exactly(
    build, uninterrupted, tmp_path, number, after, stopped
):
    handlers = [signal.getsignal(number) for number in SIGNALS]
    told = build(tmp_path, callbacks=(Signal(number, after),))
    with pytest.raises(Stopped) as end:
        told.fit()
    assert end.value.code == 128 + number
    assert load_checkpoint(told.checkpoints / "last.ckpt").updates == stopped
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    resumed = build(tmp_path, "ckpt_path=last")
    resumed.fit()
    assert rows(resumed) == rows(uninterrupted)
    expected, found = state(uninterrupted), state(resumed)
    assert all(torch.equal(expected[key], found[key]) for key in expected)


def test_last_is_written_between_updates_only(build, tmp_path, monkeypatch):
    """Also right after resuming, where the number of updates is still that of the checkpoint."""
    saved = []
    save = LastCheckpoint._save

    def spy(self, trainer):
        saved.append((trainer.global_step, trainer.fit_loop.total_batch_idx + 1))
        save(self, trainer)

    monkeypatch.setattr(LastCheckpoint, "_save", spy)
    build(tmp_path, every=2, max_steps=6).fit()
    build(tmp_path, "ckpt_path=last", every=2, max_steps=9).fit()
    assert saved == [(updates, 2 * updates) for updates in (2, 4, 6, 8, 9)]


def test_a_finished_run_goes_on_to_a_later_end(build, tmp_path):
    """The schedule and the validations are those of the new length; the log has no gap."""
    build(tmp_path, max_steps=6).fit()
    longer = build(tmp_path, "ckpt_path=last", max_steps=10)
    assert longer.config.num_validations == 4  # after 2, 5, 8 and 10 updates now
    longer.fit()
    rates = {int(row["step"]): float(row["lr"]) for row in longer.log if row["lr"]}
    assert list(rates) == list(range(1, 11))
    schedule = Cosine(updates=10, warmup=3)
    for update in range(8, 11):  # the rate of update 7 was set by the checkpoint
        assert rates[update] == pytest.approx(2e-3 * schedule(update - 1))
    validated = [int(row["step"]) for row in longer.log if row["valid_bleu"]]
    assert validated == [2, 3, 4, 6, 8, 10]


def test_resuming_a_finished_run_changes_nothing(build, tmp_path):
    first = build(tmp_path, max_steps=3)
    best = first.fit()
    log = (tmp_path / "metrics.csv").read_bytes()
    assert build(tmp_path, "ckpt_path=last", max_steps=3).fit() == best
    assert (tmp_path / "metrics.csv").read_bytes() == log


def test_a_run_that_was_moved_has_its_best_checkpoint_and_score(build, tmp_path):
    build(tmp_path / "before", max_steps=3).fit()
    (tmp_path / "before").rename(tmp_path / "after")
    moved = build(tmp_path / "after", "ckpt_path=last", max_steps=3)
    best = moved.fit()
    assert best == tmp_path / "after" / "checkpoints" / "best.ckpt"
    callback = moved.trainer.checkpoint_callback
    assert callback.best_model_path == str(best)
    assert callback.best_model_score == SCORES[3]


def test_a_changed_option_of_the_optimizer_holds_from_the_next_update(build, tmp_path, caplog):
    build(tmp_path, max_steps=6).fit()
    options = ("optimizer.lr=4e-3", "optimizer.weight_decay=0.5", "optimizer.betas=[0.8,0.9]")
    with caplog.at_level(logging.INFO):
        changed = build(tmp_path, *options, "ckpt_path=last", max_steps=8)
        changed.fit()
    assert "optimizer.lr=0.004 instead of 0.002" in caplog.text
    rates = [float(row["lr"]) for row in changed.log if row["lr"]]
    assert rates[6] == pytest.approx(4e-3 * Cosine(updates=6, warmup=3)(6))
    assert rates[7] == pytest.approx(4e-3 * Cosine(updates=8, warmup=3)(7))
    groups = changed.trainer.optimizers[0].param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0]
    assert all(group["betas"] == [0.8, 0.9] for group in groups)


def test_every_changed_option_of_a_resumed_run_is_said(build, tmp_path, caplog):
    build(tmp_path, max_steps=2).fit()
    caplog.clear()
    changed = build(tmp_path, "label_smoothing=0.2", "ckpt_path=last", max_steps=3)
    with caplog.at_level(logging.INFO):
        changed.fit()
    said = [message for message in caplog.messages if message.startswith("Resuming with")]
    assert "Resuming with label_smoothing=0.2 instead of 0.1." in said
    assert "Resuming with trainer.max_steps=3 instead of 2." in said
    assert not any("ckpt_path" in message for message in said)


def test_a_log_that_a_crash_cut_short_is_continued(build, tmp_path):
    build(tmp_path, max_steps=3).fit()
    log = tmp_path / "metrics.csv"
    whole = log.read_bytes()
    log.write_bytes(whole + b"1")  # of 12.5,0.1,...
    longer = build(tmp_path, "ckpt_path=last", max_steps=4)
    longer.fit()
    assert [int(row["step"]) for row in longer.log if row["lr"]] == [1, 2, 3, 4]


def test_a_refused_resume_changes_no_file(build, tmp_path):
    run = build(tmp_path, max_steps=5)
    run.fit()
    files = ("config.yaml", "metrics.csv", "checkpoints/last.ckpt", "checkpoints/best.ckpt")
    before = [(tmp_path / name).read_bytes() for name in files]
    with pytest.raises(ValueError, match="resume with the data"):
        build(tmp_path, "data.tokenizer.model_type=bpe", "ckpt_path=last").fit()
    assert [(tmp_path / name).read_bytes() for name in files] == before


def test_a_signal_after_the_last_save_ends_the_program(tmp_path):
    told = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
    try:
        last = LastCheckpoint(str(tmp_path), every_n_updates=1)
        last._signals.listen(SimpleNamespace(stop_asked=False))
        os.kill(os.getpid(), signal.SIGUSR1)
        assert told == []  # noted, to be granted between two updates
        last.on_train_end(None, None)
        assert told == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ("model.feed_forward=23", "of another model: give model.feed_forward="),
        ("model.positions=sinusoidal", "of another model: give model.positions=rope"),  # no weights
    ],
)
def test_the_checkpoint_of_another_model_is_refused(
    build, uninterrupted, tmp_path, option, refusal
):
    path = uninterrupted.checkpoints / "last.ckpt"
    with pytest.raises(UserError, match=refusal):
        build(tmp_path, option, f"ckpt_path={path}").fit()


@contextmanager
def full_disk():
    """Lets no file grow beyond 4,000 bytes, as a disk without more room would.

    Also no log that standard output goes to: only for the length of a call.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(tmp_path):
    for name in ("last.ckpt", "best.ckpt"):
        WholeCheckpointIO().save_checkpoint({"update": 1}, tmp_path / name)
    for name in ("last.ckpt", "best.ckpt"):
        with pytest.raises(ValueError, match=r"\A[^\n]+\.\Z") as error, full_disk():
            WholeCheckpointIO().save_checkpoint({"w": torch.zeros(5_000)}, tmp_path / name)
        assert f"{tmp_path / name} cannot be written (File too large)" in str(error.value)
        assert torch.load(tmp_path / name, weights_only=True) == {"update": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.ckpt", "last.ckpt"]


def test_what_a_killed_process_left_of_a_checkpoint_does_not_pile_up(tmp_path):
    (tmp_path / ".last.ckpt.partial").write_bytes(b"half")
    WholeCheckpointIO().save_checkpoint({"update": 1}, tmp_path / "last.ckpt")
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_missing_checkpoint_is_named(build, tmp_path):
    for path in ("last", str(tmp_path / "gone.ckpt")):
        with pytest.raises(ValueError, match=f"ckpt_path={path}.*does not exist"):
            build(tmp_path, f"ckpt_path={path}").fit()


# --- Where a run writes -------------------------------------------------------------------


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """A start directory with two runs that have a last.ckpt; the newer one sorts first."""
    monkeypatch.chdir(tmp_path)
    for age, time in enumerate(("2001", "2002")):
        folder = tmp_path / "outputs" / "toy-rnn" / time / "checkpoints"
        folder.mkdir(parents=True)
        (folder / "last.ckpt").touch()
        os.utime(folder / "last.ckpt", (1000 - age, 1000 - age))
    return Path("outputs/toy-rnn")


def test_a_resumed_run_continues_in_its_own_folder(outputs):
    assert run_directory("last", "toy", "rnn", "2003") == str(outputs / "2001")
    path = str(outputs / "2002" / "checkpoints" / "last.ckpt")
    assert run_directory(path, "other", "rnn", "2003") == str(outputs / "2002")


def test_a_new_run_never_writes_into_the_folder_of_another(outputs):
    assert run_directory(None, "toy", "rnn", "2002") == str(outputs / "2002_2")
    assert run_directory("some.ckpt", "toy", "rnn", "2003") == str(outputs / "2003")
