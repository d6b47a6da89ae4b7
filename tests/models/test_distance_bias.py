"""ALiBi and the bucketed relative bias."""

import pytest
import reference
import torch
from models_for_tests import VOCAB_SIZE, tiny_model

from nmt.models.attention import add_mask, causal_mask, dot_product_attention, dot_product_weights
from nmt.models.distance_bias import DistanceBias, alibi_slopes, distance_bucket, spread

CPU = torch.device("cpu")


def test_slopes_are_the_geometric_sequence_of_the_paper():
    assert alibi_slopes(8).tolist() == [2.0**-power for power in range(1, 9)]
    assert alibi_slopes(4).tolist() == [1 / 4, 1 / 16, 1 / 64, 1 / 256]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_equal_those_of_numpy(bidirectional):
    distance = torch.arange(-300, 300)
    expected = [
        reference.relative_bucket(d, bidirectional=bidirectional) for d in distance.tolist()
    ]
    assert distance_bucket(distance, bidirectional=bidirectional).tolist() == expected
    assert set(expected) == set(range(32)) - ({16} if bidirectional else set())


def test_alibi_by_hand():
    encoder = DistanceBias("alibi", num_heads=2, bidirectional=True)
    bias = spread(encoder(-2, 3, CPU), 3, 3)  # slopes 1/16 and 1/256, swapped ahead
    assert (-bias[0] * 256).tolist() == [[0, 1, 2], [16, 0, 1], [32, 16, 0]]
    assert (-bias[1] * 256).tolist() == [[0, 16, 32], [1, 0, 16], [2, 1, 0]]
    decoder = DistanceBias("alibi", num_heads=2, bidirectional=False)
    bias = decoder.causal(2, 2, CPU)
    assert (-bias[0] * 16)[0, :3].tolist() == [2, 1, 0]
    assert (-bias[0] * 16)[1].tolist() == [3, 2, 1, 0]
    assert bias[0, 0, 3] == torch.finfo(torch.float32).min


@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_a_trained_bias_is_looked_up_by_bucket(factor):
    bias = DistanceBias("relative", num_heads=3, bidirectional=True, factor=factor)
    pairs = spread(bias(-199, 200, CPU), 200, 200)
    for i, j in [(0, 0), (7, 3), (3, 7), (0, 199), (199, 0)]:
        bucket = reference.relative_bucket(j - i, bidirectional=True)
        assert torch.equal(pairs[:, i, j], factor * bias.table[:, bucket])


@pytest.mark.parametrize("positions", ["learned", "relative"])
def test_a_factor_makes_tables_of_positions_small_and_leaves_the_function(positions):
    models = []
    for factor in (1.0, 8.0):
        torch.manual_seed(3)
        models.append(tiny_model("transformer", positions=positions, position_factor=factor))
    inputs = torch.randint(4, VOCAB_SIZE, (2, 11)), None, torch.randint(4, VOCAB_SIZE, (2, 7))
    torch.testing.assert_close(models[0](*inputs), models[1](*inputs), atol=1e-5, rtol=1e-5)
    plain, divided = ([p for p in m.parameters() if p.shape[-1] == 32] for m in models)
    if positions == "learned":
        plain, divided = ([m.positions.learned.table.weight] for m in models)
    for table, small in zip(plain, divided, strict=True):
        torch.testing.assert_close(small * 8, table)
        assert any(small is spared for spared in models[1].without_decay())
        assert not any(table is spared for spared in models[0].without_decay())


def test_a_bias_is_added_in_double_precision_too():
    model = tiny_model("transformer", positions="alibi").double()
    inputs = torch.randint(4, VOCAB_SIZE, (2, 11)), None, torch.randint(4, VOCAB_SIZE, (2, 7))
    assert model(*inputs).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_bias_is_added_before_the_softmax(dtype):
    query, keys, values = torch.randn(3, 2, 4, 5, 6).to(dtype).unbind()
    mask = add_mask(torch.randn(4, 5, 5), causal_mask(5, 0, CPU))
    scores = query.float() @ keys.float().mT / 6**0.5 + mask
    output = dot_product_attention(query, keys, values, mask=mask).float()
    near = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.05, "rtol": 0.05}
    torch.testing.assert_close(output, scores.softmax(-1) @ values.float(), **near)
    weights = dot_product_weights(query, keys, mask)
    assert not weights.triu(1).any()
