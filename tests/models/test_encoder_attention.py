"""The encoder's mechanisms: each against its equation, and what holds for all of them."""

import math

import numpy as np
import pytest
import reference
import torch
import torch.nn.functional as F
from models_for_tests import VOCAB_SIZE, tiny_model
from torch.nn.attention.flex_attention import create_mask

from nmt.models.distance_bias import DistanceBias
from nmt.models.encoder_attention import (
    ENCODER_ATTENTIONS,
    LINEAR,
    SPARSE,
    BlockReader,
    EncoderAttention,
    MaskedReader,
    block_mask,
    block_window,
    hash_of,
    local_chunks,
    orthogonal_gaussian,
    random_blocks,
    sliding_window,
)
from nmt.models.positions import BIASES, POSITIONS

LENGTHS = [23, 11, 2]
REAL = torch.arange(23) < torch.tensor(LENGTHS)[:, None]
SIZES = {"attention_window": 3, "random_features": 7}
PAIRS = [
    (kind, positions)
    for kind in ENCODER_ATTENTIONS
    for positions in POSITIONS
    if not (kind in LINEAR and positions in BIASES)
]


@pytest.fixture
def inputs():
    source = torch.randint(4, VOCAB_SIZE, (3, 23)).masked_fill(~REAL, 0)
    return source, REAL, torch.randint(4, VOCAB_SIZE, (3, 7))


@pytest.fixture(params=PAIRS, ids="-".join)
def any_model(request):
    kind, positions = request.param
    return tiny_model("transformer", encoder_attention=kind, positions=positions, **SIZES)


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
    readers = attention(kind).readers(torch.zeros(3, 23, 24), mask, None)
    for layer, reader in enumerate(readers):
        output = reader.read(query, keys, values, dropout=0.0)
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
    for layer, reader in enumerate(mechanism.readers(torch.zeros(3, 23, 24), REAL, None)):
        output = reader.read(query, keys, values, dropout=0.0)
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
    reader, _ = attention("linear").readers(torch.zeros(3, 23, 24), REAL, None)
    far = torch.full((3, 4, 23, 6), -size)
    output = reader.read(far, far[:, :2], values, dropout=0.0)
    for sentence, length in enumerate(LENGTHS):
        expected = values[sentence, :, :length].mean(1).repeat_interleave(2, 0).unsqueeze(1)
        torch.testing.assert_close(output[sentence], expected.expand(4, 23, 6))
    assert reader.weights(far, far[:, :2]).isfinite().all()


def test_more_random_features_come_nearer_to_the_softmax():
    query, keys, values = heads(length=11)
    x, exact = torch.zeros(3, 11, 24), MaskedReader(None).read(query, keys, values, dropout=0.0)
    errors = []
    for count in [6, 96, 1536]:
        reader = attention("performer", random_features=count).readers(x, None, None)[0]
        errors.append((reader.read(query, keys, values, dropout=0.0) - exact).square().mean())
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
    for layer, dense in enumerate(mechanism.readers(x, REAL, None)):
        sees = mechanism.visible(x, REAL, layer)
        mask = create_mask(lambda b, h, i, j, sees=sees: sees(b, i, j), 3, None, 23, 23, "cpu")
        assert torch.equal(mask, dense.mask)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_under_a_block_mask_and_a_bias_equals_the_dense_mask():
    """What a GPU runs, uncompiled; on a CPU it has no backward pass."""
    query, keys, values = heads()
    x, mechanism = torch.zeros(3, 23, 24), attention("bigbird")
    bias = DistanceBias("relative", num_heads=4, bidirectional=True)
    dense = mechanism.readers(x, REAL, bias)[1]
    by_distance = bias(-22, 23, x.device).detach()
    sees = block_mask(mechanism.visible(x, REAL, 1), x)
    blocks = BlockReader(sees, by_distance, lambda: dense.mask)
    with torch.no_grad():
        output = blocks.read(query, keys, values, dropout=0.0)
    expected = dense.read(query, keys, values, dropout=0.0)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(blocks.weights(query, keys), dense.weights(query, keys))


@pytest.mark.parametrize("kind", ENCODER_ATTENTIONS)
def test_weights_are_those_that_are_used(kind):
    query, keys, values = heads()
    for reader in attention(kind).readers(torch.zeros(3, 23, 24), REAL, None):
        weights = reader.weights(query, keys)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 23))
        expected = weights @ values.repeat_interleave(2, dim=1)
        output = reader.read(query, keys, values, dropout=0.0)
        torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
        assert not weights[1, :, :11, 11:].any()


def test_neighbours_in_a_batch_and_fillers_change_nothing(any_model, inputs):
    source, mask, target_in = inputs
    logits = any_model(source, mask, target_in)
    assert torch.equal(any_model(source.masked_fill(~mask, 17), mask, target_in), logits)
    for row, length in enumerate(LENGTHS):
        alone = any_model(source[row : row + 1, :length], None, target_in[row : row + 1])
        torch.testing.assert_close(logits[row : row + 1], alone, atol=2e-5, rtol=1e-5)


def test_the_decoder_is_causal_and_its_steps_equal_teacher_forcing(any_model, inputs):
    source, mask, target_in = inputs
    logits = any_model(source, mask, target_in)
    changed = target_in.clone()
    changed[:, 3:] = 4
    assert torch.equal(any_model(source, mask, changed)[:, :3], logits[:, :3])
    state, steps = any_model.start(source, mask), []
    for chunk in target_in.split([1, 1, 3, 1, 1], dim=1):
        step, state = any_model.step(chunk, state)
        steps.append(step)
    torch.testing.assert_close(torch.cat(steps, 1), logits, atol=2e-5, rtol=1e-5)


def test_it_trains_and_its_weights_rebuild_it(any_model, inputs):
    before = any_model(*inputs).detach()
    any_model.train()
    logits = any_model(*inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), inputs[2].flatten())
    loss.backward()
    assert all(p.grad.isfinite().all() for p in any_model.parameters())
    torch.optim.SGD(any_model.parameters(), lr=0.1).step()
    any_model.eval()
    after = any_model(*inputs)
    assert F.cross_entropy(after.flatten(0, 1), inputs[2].flatten()) < loss
    kind, positions = any_model.encoder_attention.kind, any_model.positions.kind
    again = tiny_model("transformer", encoder_attention=kind, positions=positions, **SIZES)
    again.load_state_dict(any_model.state_dict())
    assert torch.equal(again(*inputs), after)
    assert not torch.equal(before, after)


@pytest.mark.parametrize("kind", ENCODER_ATTENTIONS)
def test_attention_dropout_and_half_precision_work(kind, inputs):
    rate = 0.0 if kind in LINEAR else 0.5
    model = tiny_model("transformer", encoder_attention=kind, attention_dropout=rate, **SIZES)
    model.train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = F.cross_entropy(model(*inputs).float().flatten(0, 1), inputs[2].flatten())
    loss.backward()
    assert math.isfinite(loss.item())
    whole = tiny_model("transformer", encoder_attention=kind, positions="none", **SIZES).bfloat16()
    assert whole(*inputs).isfinite().all()


def test_a_window_over_everything_is_full_attention(inputs):
    full = tiny_model("transformer")
    for kind in SPARSE:
        wide = tiny_model("transformer", encoder_attention=kind, attention_window=23)
        wide.load_state_dict(full.state_dict())
        torch.testing.assert_close(wide(*inputs), full(*inputs), atol=2e-5, rtol=1e-5)
