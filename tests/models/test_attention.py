"""Attention against NumPy, its masks, its cache and its memory slots."""

from functools import partial

import numpy as np
import pytest
import reference
import torch

from nmt.models.attention import (
    CrossAttention,
    SelfAttention,
    add_mask,
    additive_attention,
    causal_mask,
    dot_product_attention,
    dot_product_weights,
    masked_softmax,
)
from nmt.models.memory import pool_into_slots, without_empty_rows
from nmt.models.positions import Rotation, rotary_table
from nmt.models.transformer import CACHE_BLOCK, KeyValueCache

LENGTHS = torch.tensor([[9], [2], [5]])
MASK = torch.arange(9) < LENGTHS  # (3, 9)


def test_causal_mask_by_hand():
    assert causal_mask(3, 2, torch.device("cpu")).int().tolist() == [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
    assert causal_mask(1, 5, torch.device("cpu")) is None


def test_masked_softmax_is_exactly_zero_on_fillers_and_finite_without_any_token():
    scores = torch.tensor([[0.0, 0.0, 90.0], [1.0, 2.0, 3.0]], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
    assert weights[0].tolist() == [0.5, 0.5, 0.0]
    assert weights.isfinite().all()
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_without_any_real_entry_has_weights_that_sum_to_one_in_every_type(dtype):
    query, keys = torch.randn(2, 1, 2, 4, 6).to(dtype).unbind()
    mask = add_mask(torch.zeros(2, 4, 4), torch.tensor([False, True, True, True])[:, None])
    output = dot_product_attention(query, keys, torch.ones_like(keys), mask=mask)
    torch.testing.assert_close(output, torch.ones_like(output))


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_and_written_out_weights_equal_the_equation(num_kv_heads, causal):
    query = torch.randn(3, 8, 9, 6)
    keys, values = torch.randn(2, 3, num_kv_heads, 9, 6).unbind()
    mask = causal_mask(9, 0, query.device) if causal else MASK[:, None, None]
    fused = dot_product_attention(query, keys, values, mask=None if causal else mask, causal=causal)
    weights = dot_product_weights(query, keys, mask)
    assert not weights.masked_select(~mask).any()
    seen = mask.expand(3, 1, 9, 9).numpy()
    for b in range(3):
        for h in range(8):
            k = h // (8 // num_kv_heads)
            expected = reference.scaled_dot_product_attention(
                *(x.numpy() for x in (query[b, h], keys[b, k], values[b, k])), seen[b, 0]
            )
            for output in (fused[b, h], weights[b, h] @ values[b, k]):
                np.testing.assert_allclose(output, expected, atol=1e-5)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_self_attention_equals_rotary_multi_head_attention(num_kv_heads):
    module = SelfAttention(24, num_heads=4, num_kv_heads=num_kv_heads, dropout=0.0)
    x = torch.randn(2, 5, 24)
    rotation = Rotation(*rotary_table(5, 6).chunk(2, -1))
    query, keys, values = module.project(x, rotation)
    output = module(query, keys, values, partial(dot_product_attention, causal=True))
    rows = [24, 6 * num_kv_heads, 6 * num_kv_heads]
    matrices = module.query_key_value.weight.detach().split(rows)
    weights = dict(zip(["query", "key", "value"], (m.numpy() for m in matrices), strict=True))
    weights["output"] = module.output.weight.detach().numpy()
    for b in range(2):
        expected = reference.multi_head_attention(
            x[b].numpy(),
            x[b].numpy(),
            weights,
            num_heads=4,
            num_kv_heads=num_kv_heads,
            mask=np.tril(np.ones((5, 5), dtype=bool)),
            rotary=True,
        )
        np.testing.assert_allclose(output[b].detach(), expected, atol=1e-5)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_cross_attention_equals_multi_head_attention(num_kv_heads):
    module = CrossAttention(24, num_heads=4, num_kv_heads=num_kv_heads, dropout=0.0)
    x, memory = torch.randn(3, 5, 24), torch.randn(3, 9, 24)
    keys, values = module.project_memory(memory)
    attend = partial(dot_product_attention, mask=MASK[:, None, None])
    output = module(module.project(x), keys, values, attend)
    key, value = module.key_value.weight.detach().chunk(2)
    weights = {
        "query": module.query.weight.detach().numpy(),
        "key": key.numpy(),
        "value": value.numpy(),
        "output": module.output.weight.detach().numpy(),
    }
    for b in range(3):
        expected = reference.multi_head_attention(
            x[b].numpy(),
            memory[b].numpy(),
            weights,
            num_heads=4,
            num_kv_heads=num_kv_heads,
            mask=np.broadcast_to(MASK[b].numpy(), (5, 9)),
        )
        np.testing.assert_allclose(output[b].detach(), expected, atol=1e-5)


def test_additive_attention_equals_the_equation():
    states, annotations = torch.randn(3, 7), torch.randn(3, 9, 5)
    w, u, v = torch.randn(11, 7), torch.randn(11, 5), torch.randn(11)
    weights = additive_attention(states @ w.T, annotations @ u.T, v, MASK)
    for b in range(3):
        expected = reference.additive_attention(
            *(x.numpy() for x in (states[b], annotations[b], w, u, v, MASK[b]))
        )
        np.testing.assert_allclose(weights[b], expected, atol=1e-5)
    assert not weights[~MASK].any()


def test_cache_holds_what_was_appended_and_grows_by_blocks():
    keys, values = torch.randn(2, 3, 2, CACHE_BLOCK + 7, 5).unbind()
    cache, capacities = KeyValueCache(keys[:, :, :1], values[:, :, :1], 1), [1]
    for t in range(1, keys.shape[2]):
        cache = cache.append(keys[:, :, t : t + 1], values[:, :, t : t + 1])
        assert torch.equal(cache.keys, keys[:, :, : t + 1])
        assert torch.equal(cache.values, values[:, :, : t + 1])
        capacities.append(cache.keys_buffer.shape[2])
    assert len(set(capacities)) == 3  # the first token, and two blocks
    rows = torch.tensor([2, 0, 0])
    chosen = cache.index_select(rows)
    assert torch.equal(chosen.keys, keys[rows])
    assert torch.equal(chosen.values, values[rows])
    assert chosen.length == cache.length


def test_slots_are_means_of_contiguous_segments():
    memory = torch.tensor([1.0, 2, 3, 4, 5, 6, 7]).view(1, 7, 1).repeat(4, 1, 1)
    mask = torch.arange(7) < torch.tensor([[7], [6], [2], [3]])
    pooled, slot_mask = pool_into_slots(memory, mask, num_slots=3)
    # 7 tokens in 3 slots: floor(3 j / 7) = 0 0 0 1 1 2 2
    assert pooled[0, :, 0].tolist() == [2.0, 4.5, 6.5]
    assert pooled[1, :, 0].tolist() == [1.5, 3.5, 5.5]
    assert pooled[2, :2, 0].tolist() == [1.0, 2.0]
    assert pooled[3, :, 0].tolist() == [1.0, 2.0, 3.0]
    assert slot_mask.tolist() == [[True] * 3, [True] * 3, [True, True, False], [True] * 3]


def test_slots_without_padding_need_no_mask():
    memory = torch.randn(2, 7, 5)
    pooled, slot_mask = pool_into_slots(memory, None, num_slots=1)
    torch.testing.assert_close(pooled[:, 0], memory.mean(1))
    assert slot_mask is None
    same, _ = pool_into_slots(memory, None, num_slots=11)
    torch.testing.assert_close(same, memory)


def test_a_sentence_without_tokens_shows_its_first_filler():
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert without_empty_rows(mask).tolist() == [[True, True, False], [True, False, False]]
    assert not mask[1].any()
    assert without_empty_rows(None) is None
