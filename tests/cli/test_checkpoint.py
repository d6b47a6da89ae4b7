"""One file is all that loading needs; what is wrong with a file is said in one sentence."""

import inspect
import os
import subprocess
import sys

import pytest
import pytorch_lightning as pl
import torch
from models_for_tests import MODEL_NAMES, OPTIONS, TARGETS, tiny_model

from nmt.checkpoint import (
    FORMAT_VERSION,
    HYPER_PARAMETERS,
    build,
    load_checkpoint,
    load_weights_of_run,
)
from nmt.data.preparation import train_tokenizer
from nmt.decoding.beam import BeamSearch
from nmt.tokenizer import Tokenizer
from nmt.training.module import TranslationModule


@pytest.fixture(scope="module")
def tokenizer_bytes():
    words = ("ein Hund", "zwei Katzen", "drei Enten im Garten", "a dog", "two cats", "three ducks")
    return train_tokenizer([f"{a} {b}" for a in words for b in words], vocab_size=300)


def hyper_parameters(tokenizer_bytes, name="rnn"):
    return {
        "model": {"_target_": TARGETS[name], **OPTIONS[name]},
        "tokenizer": tokenizer_bytes,
        "lowercase": False,
        "source_lang": "en",
        "target_lang": "de",
        "decoding": {"_target_": "nmt.decoding.beam.BeamSearch", "beam_size": 3},
        "optimizer": {"_target_": "torch.optim.AdamW", "lr": 0.01},
        "scheduler": {"_target_": "nmt.training.schedules.InverseSquareRoot", "warmup": 5},
        "token_budget": 101,
        "label_smoothing": 0.1,
        "seed": 3,
    }


@pytest.fixture
def content(tokenizer_bytes):
    """The plain values of a valid checkpoint of the RNN, for a test to spoil."""
    config = hyper_parameters(tokenizer_bytes)
    model = tiny_model("rnn", vocab_size=Tokenizer(tokenizer_bytes).vocab_size)
    return {
        "format_version": FORMAT_VERSION,
        "global_step": 19,
        "hyper_parameters": config,
        "state_dict": {f"model.{name}": tensor for name, tensor in model.state_dict().items()},
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.ckpt"


def refusal(path, content=None):
    """Returns the one sentence that loading ends with."""
    if content is not None:
        torch.save(content, path)
    with pytest.raises(ValueError, match=r"\A[^\n]+\.\Z") as error:
        load_checkpoint(path)
    return str(error.value)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_what_lightning_writes_is_loaded_without_any_other_file(tokenizer_bytes, path, name):
    module = TranslationModule(**hyper_parameters(tokenizer_bytes, name))
    trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    module.trainer = trainer
    trainer.strategy.connect(module)
    trainer.save_checkpoint(path)

    checkpoint = load_checkpoint(str(path))

    source = torch.tensor([[5, 7, 11, 3]])
    target_in = torch.tensor([[2, 13, 6]])
    with torch.no_grad():
        expected = module.model.eval()(source, None, target_in)
        torch.testing.assert_close(checkpoint.model(source, None, target_in), expected)
    assert not checkpoint.model.training
    assert checkpoint.tokenizer.model == tokenizer_bytes
    assert checkpoint.search == BeamSearch(beam_size=3)
    assert (checkpoint.source_lang, checkpoint.target_lang) == ("en", "de")
    assert checkpoint.updates == 0
    assert checkpoint.config["token_budget"] == 101


def test_hyper_parameters_are_the_arguments_of_the_module():
    arguments = list(inspect.signature(TranslationModule).parameters)
    assert sorted(HYPER_PARAMETERS) == sorted(arguments)


class Planted:
    """A pickle of this runs a command when it is read without care."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_code_in_a_file_is_refused_and_not_run(content, path, tmp_path):
    content["extra"] = Planted(f"touch {tmp_path}/ran")
    assert "none of its code was run" in refusal(path, content)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_is_cut_short_is_refused(content, path, share):
    torch.save(content, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert "cut short" in refusal(path)


def test_a_checkpoint_with_changed_bytes_is_refused(content, path):
    torch.save(content, path)
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 40] = bytes(byte ^ 255 for byte in whole[middle : middle + 40])
    path.write_bytes(whole)
    assert "has another checksum" in refusal(path)


def test_what_is_no_checkpoint_is_refused(path, tmp_path):
    assert "does not exist" in refusal(path)
    assert "is a directory: give the path of a .ckpt file." in refusal(tmp_path)
    path.write_text("Ein Hund rennt.\n" * 100, encoding="utf-8")
    assert "no checkpoint" in refusal(path)
    assert "holds a list" in refusal(path, [1, 2])
    assert "lacks 'format_version', lacks 'global_step'" in refusal(path, {"weights": {}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "has format_version 2"),
        ({"state_dict": []}, "holds a list as 'state_dict'"),
        ({"hyper_parameters": {}}, "lacks 'model'"),
        ({}, "has no optimizer to resume with"),
    ],
)
def test_training_does_not_go_on_from_what_could_not_be_loaded(content, path, change, message):
    states = {"optimizer_states": []} if change else {}
    torch.save(content | states | change, path)
    with pytest.raises(ValueError, match=message):
        load_weights_of_run(path, tiny_model("rnn"), content["hyper_parameters"], resume=True)


def test_a_weight_that_does_not_fit_is_named(content, path):
    weights = content["state_dict"]
    first, second = sorted(weights)[:2]
    weights["model.renamed"] = weights.pop(first)
    weights[second] = torch.zeros(2, 3, 5)
    message = refusal(path, content)
    for named in (first.removeprefix("model."), "renamed", second.removeprefix("model.")):
        assert named in message
    assert "[2, 3, 5]" in message


def test_a_renamed_hyper_parameter_is_named(content, path):
    content["hyper_parameters"]["renamed"] = content["hyper_parameters"].pop("seed")
    assert "has the unexpected 'renamed', lacks 'seed'" in refusal(path, content)


@pytest.mark.parametrize(
    ("entry", "name", "value"),
    [
        (None, "hyper_parameters", [3]),
        (None, "state_dict", 5),
        ("hyper_parameters", "tokenizer", "text"),
        ("hyper_parameters", "model", 7),
        ("hyper_parameters", "decoding", "beam"),
        ("state_dict", "model.readout.bias", 11),
    ],
)
def test_an_entry_of_another_type_is_named(content, path, entry, name, value):
    (content if entry is None else content[entry])[name] = value
    message = refusal(path, content)
    assert type(value).__name__ in message
    assert name.removeprefix("model.") in message


def test_a_file_from_before_lowercase_was_stored_translates_text_as_it_is(content, path):
    del content["hyper_parameters"]["lowercase"]
    torch.save(content, path)
    checkpoint = load_checkpoint(path)
    assert checkpoint.config["lowercase"] is False
    assert checkpoint.tokenizer.lowercase is False


@pytest.mark.parametrize(
    ("group", "target"),
    [
        ("model", "os.system"),
        ("model", "nmt.training.schedules.Cosine"),
        ("model", "nmt.models.transformer.torch"),
        ("model", "nmt.models.transformer.Tensor"),
        ("model", "nmt.decoding.beam.BeamSearch"),
        ("model", "nmt.models.missing.Model"),
        ("decoding", "builtins.eval"),
        ("decoding", "nmt.models.transformer.Transformer"),
        ("decoding", None),
    ],
)
def test_a_target_outside_its_package_is_refused(content, path, group, target):
    content["hyper_parameters"][group]["_target_"] = target
    message = refusal(path, content)
    assert f"_target_ {target!r}" in message


def test_build_names_an_argument_that_does_not_exist():
    with pytest.raises(ValueError, match="beam_sise"):
        build({"_target_": "nmt.decoding.beam.BeamSearch", "beam_sise": 3})


def test_a_device_that_is_not_there_is_refused(content, path):
    torch.save(content, path)
    with pytest.raises(ValueError, match="device 'toaster' cannot be used"):
        load_checkpoint(path, device="toaster")


def test_loading_needs_no_training_framework():
    code = (
        "import sys, nmt.checkpoint\n"
        "heavy = {'pytorch_lightning', 'hydra', 'omegaconf', 'datasets'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
