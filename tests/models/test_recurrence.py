import pytest
import torch
import torch.nn.functional as F

from nmt.models.recurrent import RecurrentLinear


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


def test_a_second_backward_pass_counts_the_steps_once_more(weight):
    inputs = torch.randn(7, 3, dtype=torch.float64)
    linear = RecurrentLinear(weight)
    loss = linear(linear(inputs)[:, :3]).sum()
    for _ in range(2):
        loss.backward(retain_graph=True)
    [once] = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(weight.grad, 2 * once)


def test_steps_that_do_not_reach_the_loss_have_no_part_in_the_gradient(weight):
    inputs = torch.randn(2, 7, 3, dtype=torch.float64)
    linear = RecurrentLinear(weight)
    _, used = linear(inputs[0]), linear(inputs[1])
    used.sum().backward()
    torch.testing.assert_close(weight.grad, inputs[1].sum(0).expand(5, 3))
