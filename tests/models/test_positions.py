"""Rotary, sinusoidal and learned positions."""

import numpy as np
import pytest
import reference
import torch
from models_for_tests import tiny_model

from nmt.models.positions import (
    TABLE_BLOCK,
    GrowingTable,
    LearnedPositions,
    Positions,
    Rotation,
    rotary_table,
    rotate,
    sinusoidal_table,
)

HEAD_WIDTH = 6


def rotation(first, num_rows):
    return Rotation(*rotary_table(first + num_rows, HEAD_WIDTH)[first:].chunk(2, -1))


def test_rotation_equals_the_block_matrices_of_the_paper():
    x = torch.randn(2, 3, 5, HEAD_WIDTH)
    rotated = rotate(x, rotation(4, 5))
    for sentence in range(2):
        for head in range(3):
            expected = reference.rope(x[sentence, head].double().numpy(), first_position=4)
            np.testing.assert_allclose(rotated[sentence, head], expected, atol=1e-5)


def test_half_precision_is_rotated_by_fp32_angles():
    x = torch.randn(3, HEAD_WIDTH, dtype=torch.bfloat16)
    rotated = rotate(x, rotation(3_000, 3))
    assert rotated.dtype == torch.bfloat16
    expected = reference.rope(x.double().numpy(), first_position=3_000)
    np.testing.assert_allclose(rotated.float(), expected, atol=0.03)


def test_tables_stay_fp32_when_the_model_is_cast():
    model = tiny_model("transformer").bfloat16()
    model(torch.tensor([[5, 7, 3]]), None, torch.tensor([[2, 6]]))
    _, turn = model.positions(torch.zeros(1, 3, 24, dtype=torch.bfloat16), 0)
    assert turn.cos.dtype == turn.signed_sin.dtype == torch.float32


def test_a_grown_table_has_the_same_rows():
    table = GrowingTable(rotary_table, HEAD_WIDTH)
    before = table.rows(2, 3, torch.device("cpu")).clone()
    table.rows(TABLE_BLOCK, 5, torch.device("cpu"))
    assert torch.equal(table.rows(2, 3, torch.device("cpu")), before)


def test_a_table_made_in_inference_mode_serves_training():
    model = tiny_model("transformer")
    inputs = torch.tensor([[5, 7, 3]]), None, torch.tensor([[2, 6]])
    with torch.inference_mode():
        model(*inputs)
    model(*inputs).sum().backward()


def test_sinusoids_are_sines_then_cosines():
    table = sinusoidal_table(3, 4)
    expected = [[np.sin(p), np.sin(p / 100), np.cos(p), np.cos(p / 100)] for p in range(3)]
    np.testing.assert_allclose(table, expected, atol=1e-6)


def test_added_positions_continue_after_the_past():
    for kind in ["sinusoidal", "learned"]:
        positions = Positions(kind, width=4, head_width=2, max_positions=11)
        x = torch.zeros(1, 7, 4)
        whole, _ = positions(x, 0)
        end, _ = positions(x[:, :2], 5)
        torch.testing.assert_close(end, whole[:, 5:])


def test_learned_positions_end_with_a_plain_message():
    positions = LearnedPositions(5, 4)
    assert positions.rows(2, 3).shape == (3, 4)
    with pytest.raises(ValueError, match="has 6 tokens, but max_positions is 5"):
        positions.rows(2, 4)
