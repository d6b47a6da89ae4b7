"""The encoder's mechanisms: each against its equation, and what holds for all of them."""

import numpy as np
import pytest
import reference
import torch
import torch.nn.functional as F
from models_for_tests import VOCAB_SIZE, tiny_model
from torch.nn.attention.flex_attention import create_mask

from nmt.models.attention import dot_product_attention
from nmt.models.distance_bias import DistanceBias
from nmt.models.encoder_attention import (
    ENCODER_ATTENTIONS,
    LINEAR,
    SPARSE,
    EncoderAttention,
    attend_in_blocks,
    block_mask,
    block_window,
    hash_of,
    local_chunks,
    orthogonal_gaussian,
    random_blocks,
    sliding_window,
)

LENGTHS = [23, 11, 2]
REAL = torch.arange(23) < torch.tensor(LENGTHS)[:, None]


def attention(kind, **options):
    sizes = {"window": 3, "global_tokens": 1, "random_blocks": 1, "random_features": 5}
    return EncoderAttention(kind, **{"num_layers": 2, "head_width": 6, **sizes, **options})


def heads(num_kv_heads=2, length=23):
    keys, values = torch.randn(2, 3, num_kv_heads, length, 6).unbind()
    return torch.randn(3, 4, length, 6), keys, values


def picture(pattern, size, **options):
    positions = torch.arange(size)
    seen = pattern(positions.unsqueeze(1), positions, **options)
    return ["".join(".x"[cell] for cell in row) for row in seen.int().tolist()]


def test_a_sliding_window_by_hand():
    assert picture(sliding_window, 6, window=1, global_tokens=1) == [
        "xxxxxx",
        "xxx...",
        "xxxx..",
        "x.xxx.",
        "x..xxx",
        "x...xx",
    ]


def test_local_chunks_by_hand():
    assert picture(local_chunks, 6, window=2) == [
        "xx....",
        "xx....",
        "xxxx..",
        "xxxx..",
        "..xxxx",
        "..xxxx",
    ]


def test_blocks_by_hand():
    assert picture(block_window, 7, window=2, global_tokens=1) == [
        "xxxxxxx",
        "xxxx...",
        "xxxxxx.",
        "xxxxxx.",
        "x.xxxxx",
        "x.xxxxx",
        "x...xxx",
    ]


def test_random_blocks_are_those_with_the_largest_hash():
    chosen = random_blocks(torch.tensor([9, 5, 1]), 9, count=2, seed=3)
    for sentence, num_blocks in enumerate([9, 5, 1]):
        for query in range(9):
            far = [key for key in range(num_blocks) if abs(query - key) > 1]
            far.sort(key=lambda key: -hash_of(3, torch.tensor(query), torch.tensor(key)).item())
            assert chosen[sentence, query].nonzero().flatten().tolist() == sorted(far[:2])


def test_random_blocks_differ_by_seed_and_hit_every_block():
    chosen = [random_blocks(torch.tensor([40]), 40, count=1, seed=seed)[0] for seed in range(30)]
    hits = torch.stack(chosen).sum((0, 1))  # 1,200 choices of 40 blocks: 30 each on average
    assert not torch.equal(chosen[0], chosen[1])
    assert hits.min() > 8
    assert hits.max() < 70


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("masked", [True, False])
def test_sparse_attention_equals_dense_attention_under_the_mask_of_numpy(kind, masked):
    query, keys, values = heads()
    mask = REAL if masked else None
    attends = attention(kind).of_layers(torch.zeros(3, 23, 24), mask, None)
    for layer, attend in enumerate(attends):
        output = attend(query, keys, values)
        for sentence, length in enumerate(LENGTHS if masked else [23] * 3):
            seen = reference.sparse_mask(kind, length, window=3, global_tokens=1, seed=layer)
            for head in range(4):
                expected = reference.scaled_dot_product_attention(
                    *(x[sentence, head, :length].numpy() for x in (query,)),
                    *(x[sentence, head // 2, :length].numpy() for x in (keys, values)),
                    seen,
                )
                np.testing.assert_allclose(output[sentence, head, :length], expected, atol=1e-5)


@pytest.mark.parametrize("kind", LINEAR)
def test_linear_attention_equals_the_ratio_of_kernels(kind):
    query, keys, values = heads()
    mechanism = attention(kind)
    for layer, attend in enumerate(mechanism.of_layers(torch.zeros(3, 23, 24), REAL, None)):
        output = attend(query, keys, values)
        for sentence, length in enumerate(LENGTHS):
            for head in range(4):
                expected = reference.kernel_attention(
                    query[sentence, head].double().numpy(),
                    keys[sentence, head // 2, :length].double().numpy(),
                    values[sentence, head // 2, :length].double().numpy(),
                    projection=mechanism.projections[layer].double().numpy()
                    if kind == "performer"
                    else None,
                )
                np.testing.assert_allclose(output[sentence, head], expected, atol=2e-4)


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_features_that_all_round_to_zero_give_the_mean_of_the_real_values(size):
    _, _, values = heads()
    attend, _ = attention("linear").of_layers(torch.zeros(3, 23, 24), REAL, None)
    far = torch.full((3, 4, 23, 6), -size)
    output = attend(far, far[:, :2], values)
    for sentence, length in enumerate(LENGTHS):
        expected = values[sentence, :, :length].mean(1).repeat_interleave(2, 0).unsqueeze(1)
        torch.testing.assert_close(output[sentence], expected.expand(4, 23, 6))


def test_more_random_features_come_nearer_to_the_softmax():
    query, keys, values = heads(length=11)
    x, exact = torch.zeros(3, 11, 24), dot_product_attention(query, keys, values)
    errors = []
    for count in [6, 96, 1536]:
        attend = attention("performer", random_features=count).of_layers(x, None, None)[0]
        errors.append((attend(query, keys, values) - exact).square().mean())
    assert errors[0] > errors[1] > errors[2]
    assert errors[0] > 4 * errors[2]


def test_random_directions_are_orthogonal_within_a_group_and_gaussian_in_length():
    drawn = orthogonal_gaussian(600, 6, seed=1)
    unit = F.normalize(drawn, dim=1).view(100, 6, 6)
    torch.testing.assert_close(unit @ unit.mT, torch.eye(6).expand(100, 6, 6))
    assert abs(drawn.square().sum(1).mean() - 6) < 0.5
    assert drawn.mean(0).abs().max() < 0.2
    assert torch.equal(drawn, orthogonal_gaussian(600, 6, seed=1))
    assert not torch.equal(drawn, orthogonal_gaussian(600, 6, seed=2))


@pytest.mark.parametrize("kind", SPARSE)
def test_a_gpu_evaluates_the_same_pattern(kind):
    x, mechanism = torch.zeros(3, 23, 24), attention(kind)
    for layer, dense in enumerate(mechanism.of_layers(x, REAL, None)):
        sees = mechanism.visible(x, REAL, layer)
        mask = create_mask(lambda b, h, i, j, sees=sees: sees(b, i, j), 3, None, 23, 23, "cpu")
        assert torch.equal(mask, dense.keywords["mask"])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_under_a_block_mask_and_a_bias_equals_the_dense_mask():
    """What a GPU runs, uncompiled; on a CPU it has no backward pass."""
    query, keys, values = heads()
    x, mechanism = torch.zeros(3, 23, 24), attention("bigbird")
    bias = DistanceBias("relative", num_heads=4, bidirectional=True)
    dense = mechanism.of_layers(x, REAL, bias)[1]
    options = {
        "blocks": block_mask(mechanism.visible(x, REAL, 1), x),
        "bias": bias(-22, 23, x.device).detach(),
        "dense": lambda: dense.keywords["mask"],
    }
    units = torch.eye(23).expand(3, 2, 23, 23)
    with torch.no_grad():
        for read in (values, units):
            output = attend_in_blocks(query, keys, read, **options)
            torch.testing.assert_close(output, dense(query, keys, read), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ENCODER_ATTENTIONS)
def test_what_is_read_of_unit_vectors_are_the_weights(kind):
    query, keys, values = heads()
    for attend in attention(kind).of_layers(torch.zeros(3, 23, 24), REAL, None):
        weights = attend(query, keys, torch.eye(23).expand(3, 2, 23, 23))
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 23))
        expected = weights @ values.repeat_interleave(2, dim=1)
        output = attend(query, keys, values)
        torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
        assert not weights[1, :, :11, 11:].any()


def test_a_window_over_everything_is_full_attention():
    source, target_in = torch.randint(4, VOCAB_SIZE, (3, 30)).split([23, 7], dim=1)
    inputs = source, REAL, target_in
    full = tiny_model("transformer")
    for kind in SPARSE:
        wide = tiny_model("transformer", encoder_attention=kind, attention_window=23)
        wide.load_state_dict(full.state_dict())
        torch.testing.assert_close(wide(*inputs), full(*inputs), atol=2e-5, rtol=1e-5)
