"""Two processes on the CPU, launched once; every test looks at what they left."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import ddp_program
import pytest
import torch

TESTS = Path(__file__).parents[1]
LIMIT = 240  # seconds; a hang is a failure, not a wait


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The results of both processes."""
    folder = tmp_path_factory.mktemp("ddp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(2):
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": str(rank),
            "NODE_RANK": "0",
        }
        with (folder / f"rank{rank}.txt").open("w", encoding="utf-8") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(TESTS / "ddp_program.py"), str(folder)],
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
    try:
        codes = [process.wait(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    logs = [(folder / f"rank{rank}.txt").read_text(encoding="utf-8") for rank in range(2)]
    assert codes == [0, 0], "\n\n".join(log[-3000:] for log in logs)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Returns what this process alone gets for a part of the program."""
    folder = tmp_path_factory.mktemp("one")
    return lambda part: getattr(ddp_program, part)(folder, 1)


def flat(lists):
    return [item for inner in lists for item in inner]


def test_two_ranks_make_the_updates_of_one_process(ranks, one):
    alone = one("train_with_sgd")
    for rank in ranks:
        for name, weight in alone["weights"].items():
            torch.testing.assert_close(
                rank["train_with_sgd"]["weights"][name], weight, rtol=0, atol=1e-6
            )
        assert rank["train_with_sgd"]["tokens"] == alone["tokens"]


def test_both_ranks_hold_the_same_weights_to_the_last_bit(ranks):
    for part in ("train_with_sgd", "skip_on_all_ranks"):
        first, second = (rank[part]["weights"] for rank in ranks)
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_ranks_share_the_pairs_of_an_epoch(ranks):
    first, second = (rank["train_with_sgd"]["seen"][0] for rank in ranks)
    assert not set(first) & set(second)
    assert sorted(first + second) == list(range(len(ddp_program.MANY)))


def test_validation_is_that_of_one_process_to_the_last_digit(ranks, one):
    """1, 5 and 7 sentences: uneven shares, and an empty one."""
    alone = one("validate")
    assert [found["batches"] for found in alone] == [1, 5, 7]
    assert [[found["batches"] for found in rank["validate"]] for rank in ranks] == [
        [1, 3, 4],
        [1, 2, 3],
    ]
    for rank in ranks:
        for found, expected in zip(rank["validate"], alone, strict=True):
            for name in ("valid_loss", "valid_perplexity", "valid_bleu"):
                assert found[name] == expected[name]
    assert all(0 < found["valid_bleu"] < 100 for found in alone[1:])


def test_an_odd_number_of_batches_ends_every_epoch_on_both_ranks(ranks):
    few = [rank["few_pairs"] for rank in ranks]
    assert few[0]["length"] == few[1]["length"]
    for epoch in zip(few[0]["seen"], few[1]["seen"], strict=True):
        assert set(flat(epoch)) == set(range(13))
    assert [rank["updates"] for rank in few] == [3 * few[0]["length"]] * 2
    assert all(rank["warned"] for rank in few)


def test_the_ranks_see_another_order_in_each_epoch(ranks):
    first, second, third = ranks[0]["few_pairs"]["seen"]
    assert first != second != third != first


def test_there_is_one_set_of_files_and_one_best(ranks):
    for rank in ranks:
        result = rank["train_with_sgd"]
        assert result["files"] == ["best.ckpt", "config.yaml", "last.ckpt", "metrics.csv"]
        assert result["best"] == "best.ckpt"
        assert result["best_score"] == result["metrics"]["valid_bleu"]
    for name in ("loss", "valid_loss", "valid_bleu"):
        assert len({rank["train_with_sgd"]["metrics"][name].item() for rank in ranks}) == 1


def test_a_nan_of_one_rank_is_skipped_and_counted_by_both(ranks):
    for rank in ranks:
        assert rank["skip_on_all_ranks"]["skipped"] == 1
        assert all(w.isfinite().all() for w in rank["skip_on_all_ranks"]["weights"].values())
