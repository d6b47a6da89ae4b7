"""The attention maps of every layer and head, by hand and as pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from models_for_tests import OPTIONS, tiny_model

from nmt.alignment import AttentionReader
from nmt.cli.plot_attention import main
from nmt.data.batch import collate
from nmt.data.preparation import train_tokenizer
from nmt.evaluation.figures import draw_attention
from nmt.tokenizer import Tokenizer

SOURCE, TARGET = "the old man", "ein älterer Hund"


@pytest.fixture(scope="module")
def tokenizer():
    text = ["the old man", "the man", "a dog", "der alte Mann", "ein Hund"]
    return Tokenizer(train_tokenizer(text, vocab_size=400, model_type="bpe"))


def maps_of(name, tokenizer, source=SOURCE, target=TARGET):
    model = tiny_model(name, vocab_size=tokenizer.vocab_size)
    reader = AttentionReader(model, tokenizer, "word", "word")
    return reader, reader.maps(source, target)


def test_a_transformer_has_three_maps_of_its_layers_and_heads_with_rows_that_sum_to_one(tokenizer):
    _, maps = maps_of("transformer", tokenizer)
    heads = OPTIONS["transformer"]["num_heads"]
    shapes = {name: found.weights.shape for name, found in maps.items()}
    assert shapes == {
        "cross": (2, heads, 3, 3),
        "encoder-self": (3, heads, 3, 3),
        "decoder-self": (2, heads, 3, 4),
    }
    for found in maps.values():
        np.testing.assert_allclose(found.weights.sum(-1), 1.0, atol=1e-6)
    assert maps["cross"].rows == tuple(TARGET.split())
    assert maps["cross"].columns == maps["encoder-self"].rows == tuple(SOURCE.split())
    assert maps["decoder-self"].columns == ("<s>", *TARGET.split())


def test_no_target_word_looks_at_what_is_not_written_yet(tokenizer):
    """A later piece of a word may look at an earlier one of it, never at the next word."""
    weights = maps_of("transformer", tokenizer)[1]["decoder-self"].weights
    assert np.triu(weights, k=2).max() == 0.0
    assert weights[..., 0].min() > 0.0


def test_pieces_that_are_words_keep_their_weights(tokenizer):
    source, target = "the man", "ein Hund"
    reader, maps = maps_of("transformer", tokenizer, source, target)
    ids = [tokenizer.encode(text) for text in (source, target)]
    assert list(map(len, ids)) == [2, 2]
    batch = collate([{"index": 0, "source_ids": ids[0], "target_ids": ids[1]}])
    with torch.inference_mode():
        found = reader.model.attention(batch.source, None, batch.target_in)
    for name, pieces in (
        ("cross", found.cross[0, :, :, :2, :2]),
        ("encoder-self", found.encoder_self[0, :, :, :2, :2]),
        ("decoder-self", found.decoder_self[0, :, :, :2, :3]),
    ):
        expected = pieces / pieces.sum(-1, keepdim=True)
        np.testing.assert_allclose(maps[name].weights, expected.numpy(), atol=1e-6)


def test_bahdanau_has_cross_attention_only_and_it_is_that_of_the_words(tokenizer):
    reader, maps = maps_of("bahdanau", tokenizer)
    assert list(maps) == ["cross"]
    (expected,) = reader.attentions([(SOURCE, TARGET)], batch_tokens=99, chunk_size=1)
    np.testing.assert_allclose(maps["cross"].weights[:, 0], expected.weights, atol=1e-6)


def test_a_figure_has_a_panel_for_each_matrix_with_its_words_and_one_scale():
    weights = np.arange(2 * 3 * 2 * 4).reshape(2, 3, 2, 4) / 48
    figure = draw_attention(
        weights,
        rows=["grün", "ß"],
        columns=list("abcd"),
        names=[["a1", "a2", "a3"], ["b1", "b2", "b3"]],
        title="who looks where",
    )
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_xlabel() for axes in panels] == ["a1", "a2", "a3", "b1", "b2", "b3"]
    for axes, expected in zip(panels, weights.reshape(6, 2, 4), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), expected)
        assert axes.images[0].get_clim() == (0, 1)
        assert [label.get_text() for label in axes.get_yticklabels()] == ["grün", "ß"]
        assert [label.get_text() for label in axes.get_xticklabels()] == list("abcd")


def test_the_program_draws_what_there_is_and_names_the_files(tokenizer, tmp_path, capsys):
    checkpoint = str(write_checkpoint(tmp_path / "best.ckpt", tokenizer.model))
    arguments = [checkpoint, "--source", SOURCE, "--output", str(tmp_path / "plots")]
    assert main([*arguments, "--target", TARGET]) == 0
    expected = [
        str(tmp_path / "plots" / f"attention-{kind}.{ending}")
        for kind in ("cross", "encoder-self", "decoder-self")
        for ending in ("png", "svg")
    ]
    assert capsys.readouterr().out.splitlines() == expected
    assert all(Path(path).stat().st_size > 1000 for path in expected)
    # Without a target: the model's own translation, here of one layer.
    assert main([*arguments, "--kind", "cross", "--layer", "2", "--heads"]) == 0
    assert main([*arguments, "--kind", "cross", "--layer", "3", "--target", TARGET]) == 1
    assert capsys.readouterr().err == "error: layer is 3; it must be a number from 1 to 2.\n"


def test_the_program_warns_of_characters_without_a_font(tokenizer, tmp_path, capsys):
    checkpoint = str(write_checkpoint(tmp_path / "best.ckpt", tokenizer.model, "bahdanau"))
    arguments = [checkpoint, "--source", SOURCE, "--target", "\U000f0001", "--output"]
    assert main([*arguments, str(tmp_path)]) == 0
    assert capsys.readouterr().err.startswith("warning: No installed font shows")


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_name_of_a_file_writes_that_file(tokenizer, tmp_path, capsys, ending):
    checkpoint = str(write_checkpoint(tmp_path / "best.ckpt", tokenizer.model))
    path = tmp_path / "new" / f"cross.{ending}"
    assert main([checkpoint, "--source", SOURCE, "--output", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(path)]
    assert [file.name for file in path.parent.iterdir()] == [path.name]
