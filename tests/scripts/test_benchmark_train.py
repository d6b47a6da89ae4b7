"""The training benchmark: what it counts adds up, and it says what it was asked to say."""

import argparse
import json

import pytest
from number_words import corpus_options, model_options

from nmt.data.batch import collate
from scripts.benchmarks import train


def arguments_of(*words):
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    return argparse.Namespace(**vars(parser.parse_args(words)), threads=1)


def test_each_second_belongs_to_the_innermost_stage():
    now = [0.0]

    def spend(seconds):
        now[0] += seconds

    watch = train.Stopwatch(lambda: now[0])
    fetch = "[_TrainingEpochLoop].train_dataloader_next"
    with watch.profile(fetch):
        spend(128)
    with watch.profile("[Strategy]SingleDeviceStrategy.batch_to_device"):
        spend(1)
    with watch.profile("[LightningModule]TranslationModule.optimizer_step"):
        spend(2)
        with watch.profile("[Strategy]SingleDeviceStrategy.training_step"):
            spend(4)
        with watch.profile("[Strategy]SingleDeviceStrategy.backward"):
            spend(8)
            with watch.profile("[Callback]Any.on_after_backward"):
                spend(16)
        spend(32)
    spend(64)
    watch.start(fetch)  # an update counts when the next one begins
    assert watch.laps[:-1] == [{"data": 129, "forward": 4, "backward": 24, "step": 34, "rest": 64}]


def test_padding_is_the_share_of_fillers_on_both_sides():
    examples = [
        {"index": 0, "source_ids": [5, 5, 5], "target_ids": [5]},
        {"index": 1, "source_ids": [5], "target_ids": [5]},
    ]
    # Source 2 rows of 4 with 4 + 2 tokens, target 2 rows of 2 without fillers.
    assert train.padding_of([collate(examples)]) == 1 - 10 / 12


def test_training_is_measured_in_a_process_of_its_own(tmp_path, capsys):
    words = "--models rnn --updates 1 --rounds 1 --busy 1 +optimizer.fused=true"
    arguments = arguments_of(
        *words.split(),
        *corpus_options(tmp_path / "text"),
        *model_options("rnn")[1:],
        "data.num_workers=1",
    )
    (found,) = train.run(arguments)
    json.dumps(found)
    assert (found["model"], found["against"], found["ratio"]) == ("rnn", "", 1)
    assert sum(found["time"].values()) == pytest.approx(1)
    assert min(found["time"].values()) > 0
    assert found["share_of_matmul"] == pytest.approx(
        found["target_tokens_per_second"]
        * found["flops_per_target_token"]
        / found["matmul_flops_per_second"]
    )
    assert 100 < found["peak_mib"] < 4000
    assert found["busy_to_idle"] > 0
    assert "rnn" in capsys.readouterr().out


def test_a_side_is_compared_within_each_round():
    def rounds(*rates):
        seconds = dict.fromkeys(train.STAGES, 1.0) | {"forward": 6.0}
        return [
            {"target_tokens_per_second": rate, "matmul_flops_per_second": 2.0 * rate,
             "seconds": seconds, "flops_per_target_token": 0.5}
            for rate in rates
        ]  # fmt: skip

    mine = rounds(20, 3, 40)
    found = train.summary(mine, mine, rounds(10, 1, 10))
    assert (found["target_tokens_per_second"], found["ratio"]) == (20, 3)
    assert found["share_of_matmul"] == 0.25
    assert found["time"] == dict.fromkeys(train.STAGES, 0.1) | {"forward": 0.6}


def test_a_corpus_of_too_few_batches_is_refused(tmp_path):
    options = ("trainer=cpu", *corpus_options(tmp_path / "text"))
    with pytest.raises(ValueError, match=r"has \d+ batches but a round takes 1003"):
        train.prepare(train.Setting(options, "cpu", threads=1, updates=1000))
