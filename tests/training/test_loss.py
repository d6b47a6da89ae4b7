import math

import pytest
import torch
import torch.nn.functional as F

from nmt import PAD
from nmt.training.module import summed_cross_entropy

B, T, V = 3, 5, 11


@pytest.fixture
def logits():
    return torch.randn(B, T, V, requires_grad=True)


@pytest.fixture
def target():
    """Rows of 5, 2 and 3 tokens."""
    target = torch.randint(4, V, (B, T))
    target[1, 2:] = PAD
    target[2, 3:] = PAD
    return target


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_sum_of_the_formula_over_real_tokens(logits, target, smoothing):
    log_probs = logits.log_softmax(-1)
    expected = 0.0
    for row, length in enumerate((5, 2, 3)):
        for t in range(length):
            label, everywhere = log_probs[row, t, target[row, t]], log_probs[row, t].sum() / V
            expected -= ((1 - smoothing) * label + smoothing * everywhere).item()
    loss = summed_cross_entropy(logits.clone(), target, smoothing=smoothing)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_loss_over_tokens_is_the_mean_of_torch(logits, target):
    mean = F.cross_entropy(logits.transpose(1, 2), target, ignore_index=PAD, label_smoothing=0.1)
    assert (
        summed_cross_entropy(logits.clone(), target, smoothing=0.1) / 10
    ).item() == pytest.approx(mean.item(), rel=1e-6)


def test_fifty_columns_of_padding_change_neither_loss_nor_gradient(logits, target):
    loss = summed_cross_entropy(logits.clone(), target, smoothing=0.1)
    (gradient,) = torch.autograd.grad(loss, logits)
    wide = torch.cat([logits, torch.randn(B, 50, V)], dim=1).detach().requires_grad_()
    filler = torch.full((B, 50), PAD)
    wide_loss = summed_cross_entropy(wide, torch.cat([target, filler], dim=1), smoothing=0.1)
    (wide_gradient,) = torch.autograd.grad(wide_loss, wide)
    torch.testing.assert_close(wide_loss, loss)
    torch.testing.assert_close(wide_gradient[:, :T], gradient)
    assert (wide_gradient[:, T:] == 0).all()


def test_the_loss_of_a_batch_is_the_sum_of_the_losses_of_its_rows(logits, target):
    rows = sum(summed_cross_entropy(logits[[i]], target[[i]], smoothing=0.1) for i in range(B))
    torch.testing.assert_close(summed_cross_entropy(logits.clone(), target, smoothing=0.1), rows)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equal_logits_cost_the_logarithm_of_the_vocabulary(target, smoothing):
    loss = summed_cross_entropy(torch.zeros(B, T, V), target, smoothing=smoothing)
    assert loss.item() == pytest.approx(10 * math.log(V), rel=1e-6)


def test_a_batch_of_nothing_but_padding_costs_nothing(logits):
    loss = summed_cross_entropy(logits.clone(), torch.full((B, T), PAD), smoothing=0.1)
    loss.backward()
    assert loss.item() == 0
    assert (logits.grad == 0).all()


def test_half_precision_logits_are_summed_in_single_precision(logits, target):
    half = logits.detach().bfloat16()
    loss = summed_cross_entropy(half, target, smoothing=0.1)
    assert loss.dtype == torch.float32
    assert loss == summed_cross_entropy(half.float(), target, smoothing=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_that_of_torch(logits, target, smoothing, dtype):
    given = logits.detach().to(dtype).requires_grad_()
    expected = F.cross_entropy(
        given.flatten(0, 1).float(),
        target.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )
    loss = summed_cross_entropy(given, target, smoothing=smoothing)
    (ours,) = torch.autograd.grad(3 * loss, given)
    (theirs,) = torch.autograd.grad(3 * expected, given)
    assert ours.dtype == dtype
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours, theirs)


def test_a_graph_that_was_gone_through_is_not_used_again_with_what_is_left_of_it(logits, target):
    loss = summed_cross_entropy(logits.clone(), target)
    loss.backward(retain_graph=True)
    with pytest.raises(AttributeError, match="exp_"):
        loss.backward()
