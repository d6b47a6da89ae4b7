"""The end of a run, and `evaluate` on its checkpoint: the same numbers, whoever computes them."""

import contextlib
import json
import shutil
from pathlib import Path

import hydra
import pytest
from number_words import WORDS, corpus_options, make_run, model_options, trainer_options
from omegaconf import OmegaConf

from nmt.cli.evaluate import main, write_results
from nmt.config import config_directory


@pytest.fixture(scope="module")
def best(tmp_path_factory):
    """The best checkpoint of a finished run of one update that counts lengths in characters."""
    folder = tmp_path_factory.mktemp("run")
    run = make_run(
        *corpus_options(tmp_path_factory.mktemp("text")),
        *model_options("rnn"),
        *trainer_options(folder, max_steps=1),
        "data.length_unit=character",
        "decoding=greedy",
    )
    path = run.fit()
    OmegaConf.save(run.config, folder / "config.yaml", resolve=True)
    run.module.seconds = 0.0  # what so short a run may take when rounded
    write_results(run.config, run.data, run.module, path)
    return path


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def evaluate(*options):
    with hydra.initialize_config_dir(str(config_directory()), version_base="1.3"):
        main.__wrapped__(hydra.compose("evaluate", overrides=list(options)))


def test_a_run_tells_what_it_took(best):
    found = metrics(best.parents[1])
    assert (found["updates"], found["skipped_updates"]) == (1, 0)
    assert found["target_tokens_seen"] > 0
    assert found["device"].startswith("cpu, ")
    assert found["best_checkpoint"] == "checkpoints/best.ckpt"
    assert found["longest_train_source_words"] <= 7 * max(map(len, WORDS))


def test_evaluate_gives_the_scores_and_translations_of_the_run(best, tmp_path):
    run = best.parents[1]
    same_batches = ("batch_tokens=131", "device=cpu")  # so that the last digits agree
    evaluate(f"checkpoint={best}", "split=all", f"output={tmp_path}", *same_batches)
    for split in ("test", "valid"):
        assert metrics(tmp_path)[split] == metrics(run)[split]
        name = f"{split}.jsonl"  # the lengths in it are in characters for both
        assert (tmp_path / name).read_bytes() == (run / name).read_bytes()


def test_a_moved_run_needs_no_training_data(best, tmp_path):
    run = best.parents[1]
    data = OmegaConf.load(run / "config.yaml").data
    moved = shutil.copytree(run, tmp_path / "moved")
    with contextlib.ExitStack() as stack:
        for path in (*data.train, data.cache_dir, run):
            hidden = Path(path).with_name(f"hidden-{Path(path).name}")
            stack.callback(Path(path).rename(hidden).rename, path)
        stack.callback(shutil.rmtree, data.cache_dir)  # a new one, for the text of the test set
        evaluate(f"checkpoint={moved}/checkpoints/best.ckpt", f"output={tmp_path}", "device=cpu")
    assert metrics(tmp_path)["test"]["bleu"] == metrics(run)["test"]["bleu"]


def test_evaluate_scores_a_pair_of_files(best, tmp_path):
    for name, line in (("a.en", "one two\n"), ("a.de", "eins zwei\n")):
        (tmp_path / name).write_text(line, encoding="utf-8")
    files = (f"source={tmp_path}/a.en", f"reference={tmp_path}/a.de")
    evaluate(f"checkpoint={best}", *files, f"output={tmp_path}", "device=cpu")
    assert metrics(tmp_path)["files"]["num_sentences"] == 1
    assert json.loads((tmp_path / "files.jsonl").read_text(encoding="utf-8"))["source_words"] == 2


def test_evaluate_takes_several_references_and_counts_what_the_limit_ended(best, tmp_path, caplog):
    for name, line in (("a.en", "one\ntwo\n"), ("a.de", "eins\nzwei\n"), ("b.de", "ein\nzwo\n")):
        (tmp_path / name).write_text(line, encoding="utf-8")
    files = f"source={tmp_path}/a.en", f"reference=[{tmp_path}/a.de,{tmp_path}/b.de]"
    cut = ("decoding=greedy", "decoding.max_length=1", "metrics=[bleu,chrf,ter]")
    evaluate(f"checkpoint={best}", *files, f"output={tmp_path}/out", "device=cpu", *cut)
    found = metrics(tmp_path / "out")["files"]
    assert "nrefs:2" in found["signature"]
    assert found["unfinished"] == 2
    assert found["ter"] > 0
    assert "2 of 2 translations of files ended at the length limit" in caplog.text
    (tmp_path / "b.de").write_text("eins\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.en has 2 lines but .*b\.de has 1"):
        evaluate(f"checkpoint={best}", *files, "device=cpu")


@pytest.mark.parametrize(
    ("source", "reference", "line", "message"),
    [("a.de", "a.en", "one\n", "translates en-de, so swap"), ("b", "c", "", r"b has no lines")],
)
def test_evaluate_refuses_files_it_cannot_score(best, tmp_path, source, reference, line, message):
    for name in (source, reference):
        (tmp_path / name).write_text(line, encoding="utf-8")
    files = (f"source={tmp_path / source}", f"reference={tmp_path / reference}")
    with pytest.raises(ValueError, match=message):
        evaluate(f"checkpoint={best}", *files, "device=cpu")


def test_evaluate_refuses_the_other_direction(best):
    with pytest.raises(ValueError, match=r"translates en-de: set data\.source_lang=en"):
        evaluate(f"checkpoint={best}", "data=grammar", "data.source_lang=de", "data.target_lang=en")
