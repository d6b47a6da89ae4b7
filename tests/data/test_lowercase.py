"""A model trained on lower-cased text gets lower-cased text, whichever way it is asked."""

import io
import json
import pickle
import sys
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
from nmt.cli.translate import main as translate_main
from nmt.config import config_directory
from nmt.demo.app import answers, load_models
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


def test_prefixes_and_given_translations_are_lowercased(translator):
    prefixed = translator.translate(TEXTS, prefixes=TEXTS[::-1])
    assert prefixed == [
        type(found)(source, found.alternatives)
        for source, found in zip(
            TEXTS, translator.translate(LOWERED, prefixes=LOWERED[::-1]), strict=True
        )
    ]
    pairs = zip(TEXTS, TEXTS[::-1], strict=True)
    lowered = zip(LOWERED, LOWERED[::-1], strict=True)
    assert translator.score(pairs) == translator.score(lowered)


def test_attention_and_alignments_are_those_of_the_lowercased_text(translator):
    found = translator.attention(TEXTS[0], TEXTS[1])
    expected = translator.attention(LOWERED[0], LOWERED[1])
    assert (found.weights == expected.weights).all()
    assert found.source_words == tuple(TEXTS[0].split())
    links = [t.alternatives[0].alignment for t in translator.translate(TEXTS, alignment="word")]
    of_lowered = translator.translate(LOWERED, alignment="word")
    assert links == [t.alternatives[0].alignment for t in of_lowered]


def test_it_is_said_once_and_only_where_something_changes(translator, caplog):
    translator.translate(LOWERED)
    assert caplog.messages == []
    for _ in range(3):
        translator.translate(TEXTS)
    assert caplog.messages == [TOLD]


def test_the_program_lowercases(checkpoint, monkeypatch, capfd, caplog):
    found = []
    for lines in (TEXTS, LOWERED):
        data = "".join(f"{line}\n" for line in lines).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert translate_main([str(checkpoint)]) == 0
        found.append(capfd.readouterr())
    assert found[0].out == found[1].out
    assert [text for text in caplog.messages if "lower-cased" in text] == [TOLD]


def test_the_demo_lowercases(checkpoint):
    models = load_models([str(checkpoint)])
    (found,) = answers(models, TEXTS[0], beam_size=2)
    (expected,) = answers(models, LOWERED[0], beam_size=2)
    assert found.alternatives == expected.alternatives
    assert found.attention.source_words == tuple(TEXTS[0].split())


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
    from nmt.export.engine import ExportedTranslator
    from nmt.export.folder import export_checkpoint

    export_checkpoint(checkpoint, tmp_path / "new")
    exported = ExportedTranslator.from_folder(tmp_path / "new", threads=1)
    assert texts_of(exported.translate(TEXTS)) == texts_of(exported.translate(LOWERED))
    assert caplog.messages == [TOLD]
    readme = (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    assert "text = text.lower()" in readme


def test_the_readme_of_a_cased_export_does_not_lowercase(cased_checkpoint, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs pip install 'nmt[export]'")
    from nmt.export.folder import export_checkpoint, read_folder

    folder = tmp_path / "new"
    export_checkpoint(cased_checkpoint, folder)
    assert "lower()" not in (folder / "README.md").read_text(encoding="utf-8")
    description = json.loads((folder / "nmt.json").read_text(encoding="utf-8"))
    del description["lowercase"]  # as in folders from before it was stored
    (folder / "nmt.json").write_text(json.dumps(description), encoding="utf-8")
    assert read_folder(folder).tokenizer.lowercase is False


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


def test_a_run_on_lowercased_data_says_so_in_its_checkpoint(run):
    assert load_checkpoint(run).tokenizer.lowercase


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
