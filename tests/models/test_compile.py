"""`compile: true` changes how a step is run, and nothing of what is saved."""

import pytest
import torch
from models_for_tests import tiny_model
from number_words import corpus_options, make_run, model_options, trainer_options

from nmt.checkpoint import load_checkpoint
from nmt.translator import Translator

# What the tracer of torch 2.13 itself does to tensors.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@pytest.fixture
def traced(monkeypatch):
    """Lets torch.compile trace the model, but not call a compiler, which takes minutes."""
    real, calls = torch.compile, []

    def without_compiler(function, **options):
        calls.append(options)
        return real(function, backend="eager", **options)

    monkeypatch.setattr(torch, "compile", without_compiler)
    yield calls
    torch.compiler.reset()


@pytest.fixture
def run(tmp_path):
    """Makes a run on 61 pairs of the model soonest traced; another can go on from the first."""

    def make(name, *, compiled, max_steps, resume=False):
        folder = tmp_path / name
        return make_run(
            *corpus_options(tmp_path / "text"),
            *model_options("rnn"),
            *trainer_options(folder, max_steps=max_steps),
            f"compile={str(compiled).lower()}",
            *([f"ckpt_path={folder / 'checkpoints' / 'last.ckpt'}"] if resume else []),
        )

    return make


def test_plain_and_compiled_runs_save_the_same_and_go_on_from_each_other(run, traced, caplog):
    run("plain", compiled=False, max_steps=2).fit()
    run("mixed", compiled=False, max_steps=1).fit()
    assert not traced
    assert "compile=true" not in caplog.text
    run("mixed", compiled=True, max_steps=2, resume=True).fit()
    assert len(traced) == 1
    assert "compile=true makes nothing faster on a CPU" in caplog.text
    plain, mixed = (
        load_checkpoint(run(name, compiled=False, max_steps=2).checkpoints / "last.ckpt")
        for name in ("plain", "mixed")
    )
    assert mixed.model.state_dict().keys() == plain.model.state_dict().keys()
    for name, weight in plain.model.state_dict().items():
        torch.testing.assert_close(mixed.model.state_dict()[name], weight, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_of_a_compiled_run_translates_without_a_compiler(run, traced, monkeypatch):
    best = run("compiled", compiled=True, max_steps=1).fit()
    count = len(traced)
    monkeypatch.setenv("PATH", "")
    assert len(list(Translator.from_checkpoint(best).translate(["one two", ""]))) == 2
    assert len(traced) == count


def test_a_transformer_is_one_graph_whatever_the_lengths():
    model = tiny_model("transformer", encoder_layers=1, decoder_layers=1)
    compiled = torch.compile(model, dynamic=True, fullgraph=True, backend="eager")
    for length in (11, 9, 13):
        inputs = torch.full((3, length), 5), None, torch.full((3, length - 2), 7)
        torch.testing.assert_close(compiled(*inputs), model(*inputs))
