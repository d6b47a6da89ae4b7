"""What is particular to the recurrent models."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from models_for_tests import VOCAB_SIZE, tiny_model
from torch import nn

from nmt.models.recurrent import (
    BidirectionalEncoder,
    RecurrentLinear,
    gru_cell,
    reverse_sentences,
    run_recurrent,
)

LENGTHS = [11, 5, 2]
MASK = torch.arange(11) < torch.tensor(LENGTHS)[:, None]


def test_cell_equals_the_gru_of_torch():
    cell = nn.GRUCell(5, 7)
    x, hidden = torch.randn(3, 5), torch.randn(3, 7)
    input_gates = x @ cell.weight_ih.T + cell.bias_ih
    hidden_gates = hidden @ cell.weight_hh.T + cell.bias_hh
    torch.testing.assert_close(gru_cell(input_gates, hidden_gates, hidden), cell(x, hidden))


def test_sentences_are_reversed_in_front_of_their_fillers():
    x = torch.tensor([[[5], [6], [7], [0], [0]], [[5], [6], [7], [8], [9]]])
    mask = torch.arange(5) < torch.tensor([[3], [5]])
    assert reverse_sentences(x, mask)[..., 0].tolist() == [[7, 6, 5, 0, 0], [9, 8, 7, 6, 5]]
    assert reverse_sentences(x, None)[..., 0].tolist() == [[0, 0, 7, 6, 5], [9, 8, 7, 6, 5]]


def test_encoder_equals_the_bidirectional_gru_of_torch():
    encoder = BidirectionalEncoder(5, hidden=7, layers=2, dropout=0.0)
    gru = nn.GRU(5, 7, num_layers=2, batch_first=True, bidirectional=True)
    for layer in range(2):
        for suffix, cell in [("", encoder.ahead[layer]), ("_reverse", encoder.back[layer])]:
            for name, parameter in cell.named_parameters():
                getattr(gru, name.replace("l0", f"l{layer}") + suffix).data.copy_(parameter)
    x = torch.randn(3, 11, 5)
    memory, final = encoder(x, None)
    expected, last = gru(x)
    torch.testing.assert_close(memory, expected)
    torch.testing.assert_close(final, torch.cat([last[-2], last[-1]], -1))


def test_final_states_are_those_after_the_last_and_the_first_real_token():
    """Also with padding and two layers."""
    encoder = BidirectionalEncoder(5, hidden=7, layers=2, dropout=0.0)
    memory, final = encoder(torch.randn(3, 11, 5), MASK)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(final[row, :7], memory[row, length - 1, :7])
        torch.testing.assert_close(final[row, 7:], memory[row, 0, 7:])


def test_memory_is_zero_at_fillers():
    encoder = BidirectionalEncoder(5, hidden=7, layers=1, dropout=0.0)
    embedded = torch.randn(3, 11, 5).masked_fill(~MASK[..., None], torch.nan)
    memory, final = encoder(embedded, MASK)
    assert not memory[~MASK].any()
    assert final.isfinite().all()


def test_attended_decoder_is_the_gru_over_word_and_context():
    """The loop with its shares taken out equals one fused call on the contexts it found."""
    model = tiny_model("bahdanau")
    source = torch.randint(4, VOCAB_SIZE, (3, 11))
    target_in = torch.randint(4, VOCAB_SIZE, (3, 7))
    state = model.start(source, MASK)
    weights = model.attention(source, MASK, target_in).cross[:, 0, 0]
    contexts = weights @ state.memory
    embedded = model.embedding(target_in)
    states, _ = model.decoder(torch.cat([embedded, contexts], -1), state.hidden[None])
    _, end = model.step(target_in, state)
    torch.testing.assert_close(states[:, -1], end.hidden)
    # the weight of step t is computed from the state before it
    query = model.alignment.query(states[:, 3])
    scores = torch.tanh(query[:, None] + state.keys) @ model.alignment.v
    expected = scores.masked_fill(~MASK, -torch.inf).softmax(-1)
    torch.testing.assert_close(weights[:, 4], expected)


def test_constant_context_is_the_final_state():
    model = tiny_model("rnn")
    source = torch.randint(4, VOCAB_SIZE, (3, 11))
    state = model.start(source, MASK)
    _, final = model.encoder(model.embedding(source), MASK)
    torch.testing.assert_close(state.memory[:, 0], final)
    torch.testing.assert_close(state.hidden, torch.tanh(model.initial(final)))


def test_the_pair_differs_in_the_alignment_model_alone():
    rnn, bahdanau = tiny_model("rnn"), tiny_model("bahdanau")
    shapes = {name: p.shape for name, p in rnn.named_parameters()}
    more = {name: p.shape for name, p in bahdanau.named_parameters()}
    assert more.keys() - shapes.keys() == {
        "alignment.query.weight",
        "alignment.key.weight",
        "alignment.v",
    }
    assert all(more[name] == shape for name, shape in shapes.items())


def test_one_slot_attends_to_the_mean_of_the_memory():
    model = tiny_model("bahdanau", memory_slots=1)
    source = torch.randint(4, VOCAB_SIZE, (3, 11))
    memory, _ = model.encoder(model.embedding(source), MASK)
    state = model.start(source, MASK)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(state.memory[row, 0], memory[row, :length].mean(0))
    weights = model.attention(source, MASK, torch.tensor([[2, 5]] * 3)).cross
    assert torch.equal(weights, torch.ones(3, 1, 1, 2, 1))


def test_cudnn_runs_in_fp32_under_autocast(monkeypatch):
    """On a CPU: what would be called, with the types that autocast leaves between modules."""
    gru, inputs, hidden = nn.GRU(5, 7, batch_first=True), torch.randn(3, 4, 5), torch.randn(1, 3, 7)
    expected, _ = gru(inputs.bfloat16().float(), hidden.bfloat16().float())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
    monkeypatch.setattr(torch, "autocast", lambda device, *, enabled: nullcontext())
    found, _ = run_recurrent(gru, inputs.bfloat16(), hidden.bfloat16())
    assert torch.equal(found, expected)


@pytest.mark.parametrize("reverse", [True, False])
def test_the_target_of_sutskever_starts_from_the_states_after_the_last_token_read(reverse):
    model = tiny_model("sutskever", reverse_source=reverse)
    source = torch.randint(4, VOCAB_SIZE, (3, 11))
    state = model.start(source, MASK)
    for row, length in enumerate(LENGTHS):
        alone = source[row : row + 1, :length]
        _, (hidden, cell) = model.encoder(model.embedding(alone.flip(1) if reverse else alone))
        torch.testing.assert_close(state.hidden[:, row], hidden[:, 0])
        torch.testing.assert_close(state.cell[:, row], cell[:, 0])


@pytest.fixture
def weight():
    return torch.randn(5, 3, dtype=torch.float64, requires_grad=True)


def gradients(linear, weight, inputs):
    """Returns the gradients of weight and inputs after a loop that feeds on itself."""
    x, total = inputs, 0.0
    for _ in range(4):
        y = linear(x)
        total = total + y.square().sum()
        x = torch.tanh(y[:, :3])
    return torch.autograd.grad(total, [weight, inputs], retain_graph=True)


def test_gradients_are_those_of_the_plain_product(weight):
    inputs = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    expected = gradients(lambda x: F.linear(x, weight), weight, inputs)
    found = gradients(RecurrentLinear(weight), weight, inputs)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b)


def test_steps_that_do_not_reach_the_loss_have_no_part_in_the_gradient(weight):
    inputs = torch.randn(2, 7, 3, dtype=torch.float64)
    linear = RecurrentLinear(weight)
    _, used = linear(inputs[0]), linear(inputs[1])
    used.sum().backward()
    torch.testing.assert_close(weight.grad, inputs[1].sum(0).expand(5, 3))
