"""A model trained on lower-cased text gets lower-cased text, whichever way it is asked."""

import json
import pickle
from pathlib import Path

import hydra
import pytest
import torch
from checkpoints import write_checkpoint
from number_words import corpus_options, make_run, model_options, pairs, trainer_options
from omegaconf import OmegaConf

from nmt.checkpoint import average_checkpoints, load_checkpoint
from nmt.cli.evaluate import main as evaluate_main
from nmt.cli.evaluate import write_results
from nmt.config import config_directory
from nmt.tokenizer import Tokenizer, train_tokenizer
from nmt.translator import Translator

TEXTS = ["Zwei HUNDE spielen im Schnee.", "ÄRGER und Öl", "ein Mann."]
LOWERED = [text.lower() for text in TEXTS]
TOLD = "this model was trained on lower-cased text; the input is lower-cased"


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([*TEXTS * 9, *LOWERED * 9], vocab_size=330)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, tokenizer):
    return write_checkpoint(tmp_path_factory.mktemp("run") / "a.ckpt", tokenizer, lowercase=True)


@pytest.fixture(scope="module")
def cased_checkpoint(tmp_path_factory, tokenizer):
    return write_checkpoint(tmp_path_factory.mktemp("run") / "a.ckpt", tokenizer)


@pytest.fixture
def translator(checkpoint):
    return Translator.from_checkpoint(checkpoint)


def texts_of(translations):
    return [translation.text for translation in translations]


def test_capitals_matter_where_the_model_knows_them(cased_checkpoint, caplog):
    """Without which the other tests here would show nothing."""
    translator = Translator.from_checkpoint(cased_checkpoint)
    assert texts_of(translator.translate(TEXTS)) != texts_of(translator.translate(LOWERED))
    assert caplog.messages == []


def test_sources_are_lowercased_and_reported_as_given(translator):
    found = translator.translate(TEXTS)
    assert texts_of(found) == texts_of(translator.translate(LOWERED))
    assert [translation.source for translation in found] == TEXTS


def test_it_is_said_once_and_only_where_something_changes(translator, caplog):
    translator.translate(LOWERED)
    assert caplog.messages == []
    for _ in range(3):
        translator.translate(TEXTS)
    assert caplog.messages == [TOLD]


def test_a_copy_in_another_process_lowercases_too(tokenizer):
    copy = pickle.loads(pickle.dumps(Tokenizer(tokenizer, lowercase=True)))
    assert copy.encode(TEXTS[0]) == Tokenizer(tokenizer).encode(LOWERED[0])


def test_an_average_keeps_it_and_refuses_to_mix(checkpoint, cased_checkpoint, tmp_path):
    path = tmp_path / "average.ckpt"
    torch.save(average_checkpoints([checkpoint]), path)
    assert load_checkpoint(path).tokenizer.lowercase
    with pytest.raises(ValueError, match="has another lowercase"):
        average_checkpoints([checkpoint, cased_checkpoint])


def test_an_export_lowercases_with_and_without_this_package(checkpoint, tmp_path, caplog):
    pytest.importorskip("ctranslate2", reason="needs pip install 'nmt[export]'")
    from nmt.export.conversion import export_checkpoint
    from nmt.export.engine import ExportedTranslator

    export_checkpoint(checkpoint, tmp_path / "new")
    exported = ExportedTranslator.from_folder(tmp_path / "new", threads=1)
    assert texts_of(exported.translate(TEXTS)) == texts_of(exported.translate(LOWERED))
    assert caplog.messages == [TOLD]
    readme = (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    assert "text = text.lower()" in readme


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of one update on a corpus with capitals that was lower-cased."""
    shouted = {
        split: [(source.upper(), target.title()) for source, target in pairs(count, seed=count)]
        for split, count in (("train", 61), ("valid", 7), ("test", 5))
    }
    run = make_run(
        *corpus_options(tmp_path_factory.mktemp("text"), **shouted),
        *model_options("transformer"),
        *trainer_options(tmp_path_factory.mktemp("run"), max_steps=1),
        *("data.lowercase=true", "decoding=greedy"),
    )
    best = run.fit()
    OmegaConf.save(run.config, best.parents[1] / "config.yaml", resolve=True)
    run.module.seconds = 0.0  # what so short a run may take when rounded
    write_results(run.config, run.data, run.module, best)
    return best


def evaluate(*options):
    with hydra.initialize_config_dir(str(config_directory()), version_base="1.3"):
        evaluate_main.__wrapped__(hydra.compose("evaluate", overrides=list(options)))


def evaluated(folder: Path, name: str) -> list[dict]:
    text = (folder / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def test_evaluate_on_the_corpus_of_the_run_gives_what_the_run_gave(run, tmp_path, caplog):
    evaluate(f"checkpoint={run}", f"output={tmp_path}", "batch_tokens=131", "device=cpu")
    assert evaluated(tmp_path, "test") == evaluated(run.parents[1], "test")
    assert not any("lower-case" in message for message in caplog.messages)


def test_evaluate_lowercases_given_sources_and_leaves_references(run, tmp_path, caplog):
    found = {}
    for case in (str.upper, str.lower):
        (tmp_path / "a.en").write_text(case("one two\nfive\n"), encoding="utf-8")
        (tmp_path / "a.de").write_text(case("eins zwei\nfünf\n"), encoding="utf-8")
        files = (f"source={tmp_path}/a.en", f"reference={tmp_path}/a.de", f"output={tmp_path}")
        evaluate(f"checkpoint={run}", *files, "device=cpu")
        found[case] = evaluated(tmp_path, "files")
    for upper, lower in zip(*found.values(), strict=True):
        assert upper["hypothesis"] == lower["hypothesis"]
        assert upper["reference"] == lower["reference"].upper()
    told = [message for message in caplog.messages if "lower-case" in message]
    assert len(told) == 2
    assert "references of files have capitals" in told[0]
    assert told[1] == TOLD
