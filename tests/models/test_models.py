"""What holds for every model of `conf/model`: pytest tests/models --model NAME for one of them.

It holds for the optional parts of the Transformer too, under a name with options.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from models_for_tests import MODEL_NAMES, VOCAB_SIZE, configuration, tiny_model

from nmt import PAD
from nmt.checkpoint import build
from nmt.checks import UserError
from nmt.models.encoder_attention import SPARSE
from nmt.models.encoder_decoder import Dropout
from nmt.models.positions import POSITIONS

LENGTHS = [11, 5, 2]
THREE_HEADS = {"num_heads": 3, "num_kv_heads": 3}
VARIANTS = [
    *(f"transformer positions={kind}" for kind in POSITIONS[1:]),
    *(f"transformer encoder_attention={kind}" for kind in ("linear", "performer")),
    *(f"transformer encoder_attention={kind} positions=relative" for kind in SPARSE),
]


@pytest.fixture
def mask():
    return torch.arange(11) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture
def source(mask):
    return torch.randint(4, VOCAB_SIZE, (3, 11)).masked_fill(~mask, PAD)


@pytest.fixture
def target_in():
    return torch.randint(4, VOCAB_SIZE, (3, 7))


@pytest.fixture
def attending(model, source, mask, target_in):
    """The model and its weights; only models that have some to show."""
    try:
        return model, model.attention(source, mask, target_in)
    except UserError:
        pytest.skip("has no attention to show")


@pytest.fixture
def slotted(model_name, attending):
    """Makes the model with so many memory slots; only models that have that option."""
    if "memory_slots" not in configuration(model_name):
        pytest.skip("has no option memory_slots")
    return lambda slots: tiny_model(model_name, memory_slots=slots)


def run(model, tokens, state, chunks):
    """Feeds `tokens` in chunks of these lengths; returns all logits and the last state."""
    logits = []
    for chunk in tokens.split(chunks, dim=1):
        chunk_logits, state = model.step(chunk, state)
        logits.append(chunk_logits)
    return torch.cat(logits, 1), state


def assert_near(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("chunks", [[1] * 37, [3, 4], [1, 4, 2]], ids=str)
def test_steps_equal_the_full_forward_pass(model, source, mask, chunks):
    """37 are more than a block of the cache."""
    target_in = torch.randint(4, VOCAB_SIZE, (3, sum(chunks)))
    with torch.inference_mode():
        logits, _ = run(model, target_in, model.start(source, mask), chunks)
        assert_near(logits, model(source, mask, target_in))


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0, 2, 2], [2]], ids=str)
@pytest.mark.parametrize("num_past", [0, 3])
def test_select_repeats_and_drops_sentences(model, source, mask, target_in, rows, num_past):
    expected = model(source, mask, target_in)[rows]
    state = model.start(source, mask)
    if num_past:
        _, state = model.step(target_in[:, :num_past], state)
    state = state.select(torch.tensor(rows))
    logits, _ = run(model, target_in[rows, num_past:], state, [1] * (7 - num_past))
    assert_near(logits, expected[:, num_past:])


def test_reorder_permutes_rows_of_one_sentence(model, source, mask, target_in):
    beams = torch.tensor([0, 0, 1, 1, 2, 2])
    rows = torch.tensor([1, 0, 3, 3, 4, 5])
    prefixes, following = torch.randint(4, VOCAB_SIZE, (6, 4)), target_in[beams, :3]
    _, state = run(model, prefixes, model.start(source, mask).select(beams), [1, 1, 2])
    logits, _ = run(model, following, state.reorder(rows), [1, 2])
    whole = torch.cat([prefixes[rows], following], 1)
    assert_near(logits, model(source[beams], mask[beams], whole)[:, 4:])


def test_reorder_before_the_first_step_changes_nothing(model, source, mask, target_in):
    state = model.start(source, mask).select(torch.tensor([0, 0])).reorder(torch.tensor([1, 0]))
    logits, _ = model.step(target_in[[0, 0]], state)
    assert_near(logits[0], logits[1])


def test_fillers_of_the_source_move_nothing(model, source, mask, target_in):
    other = torch.where(mask, source, 17)
    assert torch.equal(model(source, mask, target_in), model(other, mask, target_in))


def test_a_sentence_is_translated_the_same_alone(model, source, mask, target_in):
    logits = model(source, mask, target_in)
    for row, length in enumerate(LENGTHS):
        alone = model(source[row : row + 1, :length], None, target_in[row : row + 1])
        assert_near(logits[row : row + 1], alone)


def test_padding_wider_than_the_longest_sentence_is_fine(model, source, mask, target_in):
    wider = model(F.pad(source, (0, 5), value=PAD), F.pad(mask, (0, 5)), target_in)
    assert_near(wider, model(source, mask, target_in))


def test_a_later_target_token_moves_no_earlier_logit(model, source, mask, target_in):
    logits = model(source, mask, target_in)
    for t in range(1, 7):
        changed = target_in.clone()
        changed[:, t:] = 4 + (changed[:, t:] + 1) % (VOCAB_SIZE - 4)
        moved = model(source, mask, changed)
        assert torch.equal(moved[:, :t], logits[:, :t])
        assert not torch.allclose(moved[:, t], logits[:, t], atol=1e-4)


def test_every_source_token_counts(model, source, mask, target_in):
    logits = model(source, mask, target_in)
    for row, length in enumerate(LENGTHS):
        for position in range(length):
            changed = source.clone()
            changed[row, position] = 4 + (changed[row, position] + 1) % (VOCAB_SIZE - 4)
            moved = model(changed, mask, target_in)
            assert not torch.equal(moved[row], logits[row])


@pytest.mark.parametrize("order", [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]], ids=str)
def test_the_order_of_rows_does_not_matter(model, source, mask, target_in, order):
    logits = model(source, mask, target_in)
    assert_near(model(source[order], mask[order], target_in[order]), logits[order])


@pytest.mark.parametrize("option", ["dropout", "attention_dropout"])
def test_dropout_acts_in_training_only(model_name, option, source, mask, target_in):
    if option not in configuration(model_name):
        pytest.skip(f"has no option {option}")
    try:
        model = tiny_model(model_name, **{option: 0.5})
    except UserError:
        pytest.skip("writes down no weights")
    inputs = source, mask, target_in
    quiet = model(*inputs)
    assert not torch.allclose(model.train()(*inputs), quiet)
    assert torch.equal(model.eval()(*inputs), quiet)


def test_training_without_dropout_equals_evaluation(model, source, mask, target_in):
    expected = model(source, mask, target_in)
    assert_near(model.train()(source, mask, target_in), expected)


@pytest.mark.parametrize("padded", [True, False])
def test_every_parameter_gets_a_gradient(model, padded, source, mask, target_in):
    model.train()
    model(source, mask if padded else None, target_in).log_softmax(-1)[..., 5].sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


def test_a_sentence_without_tokens_disturbs_nobody(model, source, mask, target_in):
    expected = model(source, mask, target_in)
    source = torch.cat([source, torch.full((1, 11), PAD)])
    mask = torch.cat([mask, torch.zeros(1, 11, dtype=torch.bool)])
    logits = model(source, mask, torch.cat([target_in, target_in[:1]]))
    assert_near(logits[:3], expected)
    assert logits.isfinite().all()
    logits.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("garbage", [torch.nan, 1e30])
@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_garbage_in_padded_memory_disturbs_nobody(name, garbage, source, mask, target_in):
    model = tiny_model(name)
    expected = model(source, mask, target_in)
    if name == "transformer":
        last = model.encoder_norm
        last.register_forward_hook(
            lambda _, __, output: output.masked_fill(~mask.unsqueeze(-1), garbage)
        )
    else:
        with torch.no_grad():
            model.embedding.table.weight[PAD] = garbage
    logits = model(source, mask, target_in)
    assert torch.equal(logits[..., PAD + 1 :], expected[..., PAD + 1 :])


@pytest.mark.parametrize("whole", [True, False], ids=["all bf16", "autocast"])
def test_bf16_trains(model, whole, source, mask, target_in):
    """With a sentence without tokens in the batch."""
    model = model.train().bfloat16() if whole else model.train()
    mask[2] = False
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # steps of one size for any model
    losses = []
    for _ in range(20):
        with torch.autocast("cpu", torch.bfloat16, enabled=not whole):
            logits = model(source, mask, target_in)
        loss = F.cross_entropy(logits.float().flatten(0, 1), target_in.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0] - 0.1
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=not whole):
        logits, _ = run(model, target_in, model.start(source, mask), [1, 4, 2])
    assert logits.isfinite().all()


def test_the_first_loss_is_about_that_of_guessing(model, source, mask, target_in):
    loss = F.cross_entropy(model(source, mask, target_in).flatten(0, 1), source[:, :7].flatten())
    assert abs(loss.item() - math.log(VOCAB_SIZE)) < 1.0, "the first logits are too large"


def test_attention_rows_sum_to_one_over_real_tokens(attending, source, mask, target_in):
    model, attention = attending
    for kind in [attention.cross, attention.encoder_self, attention.decoder_self]:
        if kind is not None:
            assert_near(kind.sum(-1), torch.ones(kind.shape[:-1]))
    for row, length in enumerate(LENGTHS):
        assert not attention.cross[row, ..., length:].any()
        alone = model.attention(source[row : row + 1, :length], None, target_in[row : row + 1])
        assert_near(attention.cross[row, ..., :length], alone.cross[0])


def test_attention_has_the_shapes_of_the_interface(source, mask, target_in):
    attention = tiny_model("transformer").attention(source, mask, target_in)
    assert attention.cross.shape == (3, 2, 4, 7, 11)
    assert attention.encoder_self.shape == (3, 3, 4, 11, 11)
    assert attention.decoder_self.shape == (3, 2, 4, 7, 7)
    assert not attention.decoder_self.triu(1).any()
    attention = tiny_model("bahdanau").attention(source, mask, target_in)
    assert attention.cross.shape == (3, 1, 1, 7, 11)
    assert attention.encoder_self is attention.decoder_self is None


@pytest.mark.parametrize("name", ["rnn", "sutskever"])
def test_a_model_without_attention_says_so(name, source, mask, target_in):
    with pytest.raises(UserError, match="no attention"):
        tiny_model(name).attention(source, mask, target_in)


def test_attention_is_that_of_the_hot_path(source, mask, target_in):
    """Values read by the written-out weights equal what the fused kernel gave to the output."""
    model = tiny_model("transformer")
    read = {}
    for number, layer in enumerate(model.decoder_layers):
        layer.cross_attention.output.register_forward_pre_hook(
            lambda _, inputs, number=number: read.__setitem__(number, inputs[0])
        )
    state = model.start(source, mask)
    model.step(target_in, state)
    fused = dict(read)
    weights = model.attention(source, mask, target_in).cross
    for number, (_, values) in enumerate(state.memory):
        heads = weights[:, number] @ values.repeat_interleave(2, dim=1)
        assert_near(fused[number], heads.transpose(1, 2).flatten(2))


def test_fused_kernels_get_no_mask_where_none_is_needed(monkeypatch, source, mask, target_in):
    fused, calls = F.scaled_dot_product_attention, []

    def spy(*args, attn_mask, is_causal, **options):
        calls.append((attn_mask is not None, is_causal))
        return fused(*args, attn_mask=attn_mask, is_causal=is_causal, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    model = tiny_model("transformer")
    model(source, None, target_in)
    plain, causal, masked = (False, False), (False, True), (True, False)
    assert calls == [plain] * 3 + [causal, plain] * 2
    calls.clear()
    model(source, mask, target_in)
    assert calls == [masked] * 3 + [causal, masked] * 2
    calls.clear()
    run(model, target_in, model.start(source, None), [1, 6])
    assert calls == [plain] * 3 + [plain, plain] * 2 + [masked, plain] * 2


def test_as_many_slots_as_tokens_change_nothing(model, slotted, source, mask, target_in):
    pooled = slotted(11)
    pooled.load_state_dict(model.state_dict())
    assert_near(pooled(source, mask, target_in), model(source, mask, target_in))
    assert_near(pooled(source, None, target_in), model(source, None, target_in))


def test_slots_do_not_depend_on_padding(slotted, source, mask, target_in):
    model = slotted(3)
    logits = model(source, mask, target_in)
    for row, length in enumerate(LENGTHS):
        alone = model(source[row : row + 1, :length], None, target_in[row : row + 1])
        assert_near(logits[row : row + 1], alone)
    assert model.attention(source, mask, target_in).cross.shape[-1] == 3


@pytest.mark.parametrize("vocab_size", [500, 4_000, 16_000])
def test_sizes_of_the_compared_models_agree_within_five_percent(vocab_size):
    totals = {}
    for name in MODEL_NAMES:
        counts = shipped(name, vocab_size).num_parameters()
        assert counts.embedding == vocab_size * 128
        totals[name] = counts.total
    assert max(totals.values()) / min(totals.values()) < 1.05, totals


def shipped(name, vocab_size):
    """The model of a configuration file, without memory for its weights."""
    with torch.device("meta"):
        return build(configuration(name), vocab_size=vocab_size)


def test_presets_have_the_sizes_of_the_paper():
    # 65M and 213M with 37,000 pieces: Vaswani et al. 2017, table 3
    assert 60e6 < shipped("transformer_base", 37_000).num_parameters().total < 66e6
    assert 205e6 < shipped("transformer_big", 37_000).num_parameters().total < 220e6


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transformer", {"num_heads": 5}, "num_heads is 5; it must divide width, which is 24"),
        ("transformer", {"num_kv_heads": 3}, "num_kv_heads is 3; it must divide num_heads"),
        ("transformer", {"dropout": 1.5}, r"dropout is 1.5; it must be a number in \[0, 1\)"),
        ("transformer", {"attention_dropout": -0.1}, "attention_dropout is -0.1"),
        ("transformer", {"encoder_layers": 0}, "encoder_layers is 0; .* at least 1"),
        ("transformer", {"decoder_layers": True}, "decoder_layers is True"),
        ("transformer", {"positions": "xpos"}, "positions is 'xpos'; .* rope, sinusoidal"),
        ("transformer", {"width": 28}, "width / num_heads is odd"),
        ("transformer", {"width": 9, **THREE_HEADS, "positions": "sinusoidal"}, "width is odd"),
        ("transformer", {"encoder_attention": "lsh"}, "encoder_attention is 'lsh'; .* full, slid"),
        ("transformer", {"attention_window": 0}, "attention_window is 0"),
        ("transformer", {"global_tokens": -1}, "global_tokens is -1; .* at least 0"),
        ("transformer", {"random_blocks": 0.5}, "random_blocks is 0.5"),
        ("transformer", {"random_features": 0}, "random_features is 0"),
        ("transformer", {"encoder_attention": "linear", "positions": "alibi"}, "positions=alibi"),
        ("transformer", {"encoder_attention": "performer", "attention_dropout": 0.1}, "=0.1"),
        ("transformer", {"position_factor": 0}, "position_factor is 0; it must be a positive"),
        ("transformer", {"memory_slots": 0}, "memory_slots is 0"),
        ("bahdanau", {"attention_dim": None}, "attention_dim is None"),
        ("bahdanau", {"attention": "dot"}, "attention is 'dot'; .* none, additive"),
        ("bahdanau", {"memory_slots": -1}, "memory_slots is -1"),
        ("rnn", {"attention_dim": 5}, "attention_dim is 5; it must be null when attention is none"),
        ("rnn", {"memory_slots": 5}, "memory_slots is 5; it must be null when attention is none"),
        ("rnn", {"dropout": 1}, "dropout is 1"),
        ("rnn", {"vocab_size": 0}, "vocab_size is 0"),
        ("sutskever", {"layers": 0}, "layers is 0"),
        ("sutskever", {"reverse_source": "no"}, "reverse_source is 'no'; it must be true or false"),
    ],
)
def test_impossible_options_are_refused(name, options, message):
    with pytest.raises(UserError, match=message):
        tiny_model(name, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_zeroes_its_share_and_keeps_the_mean(dtype):
    layer, x = Dropout(0.25), torch.ones(401, 103, dtype=dtype, requires_grad=True)
    y = layer.train()(x)
    assert set(y.unique().tolist()) == {0, torch.tensor(4 / 3, dtype=dtype).item()}
    assert (y == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert (y != layer(x)).any()
    y.sum().backward()
    assert torch.equal(x.grad, y)
    assert torch.equal(layer.eval()(x), x)
