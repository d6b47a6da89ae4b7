"""What a step may choose from: the largest of a row, normalisation, forbidden and forced ids."""

import math

import pytest
import torch

from nmt.decoding.search import NextTokens, largest
from nmt.special_tokens import PAD


@pytest.mark.parametrize("width", [7, 64, 65, 320, 351, 1003])
@pytest.mark.parametrize("count", [1, 5])
def test_the_largest_entries_are_those_of_topk(width, count):
    x = torch.randn(11, width)
    x[3, -1] = 9.0
    values, places = largest(x, count)
    expected, at = x.topk(count, -1)
    assert torch.equal(values, expected)
    assert torch.equal(places, at)


def test_a_row_with_fewer_finite_entries_than_asked_for_gives_them_first():
    x = torch.full((1, 1000), -math.inf)
    x[0, [3, 4, 999]] = torch.tensor([1.0, 3.0, 2.0])
    values, places = largest(x, 4)
    assert places[0, :3].tolist() == [4, 999, 3]
    assert values[0, 3] == -math.inf


def test_the_best_tokens_are_normalised_over_all_tokens_the_forbidden_included():
    probabilities = torch.tensor([[0.1, 0.2, 0.4, 0.3]])
    shift = torch.tensor([[300.0]])
    log_probs, ids = NextTokens(probabilities.log() + shift, torch.tensor([2])).best(2)
    assert ids.tolist() == [[3, 1]]
    assert log_probs.exp() == pytest.approx(torch.tensor([[0.3, 0.2]]), rel=1e-4)


def test_a_forbidden_token_that_is_far_more_probable_does_not_overflow():
    logits = torch.tensor([[500.0, 0.0, -1.0]])
    log_probs, ids = NextTokens(logits, torch.tensor([0])).best(1)
    assert (log_probs.item(), ids.item()) == (-500.0, 1)


def test_the_best_of_a_large_vocabulary_are_those_of_a_full_sort():
    logits, forbidden = 5 * torch.randn(13, 997), [0, 1, 2, 500]
    allowed = [token for token in range(997) if token not in forbidden]
    every, order = logits.double().log_softmax(-1)[:, allowed].sort(-1, descending=True)
    log_probs, ids = NextTokens(logits, torch.tensor(forbidden)).best(5)
    torch.testing.assert_close(log_probs, every[:, :5].float())
    assert torch.equal(ids, torch.tensor(allowed)[order[:, :5]])


def test_a_forced_token_is_the_only_choice_of_its_row_even_a_forbidden_one():
    logits, forced = torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 2), torch.tensor([PAD, 1])
    of_one = float(torch.tensor([1.0, 2.0, 3.0, 4.0]).log_softmax(-1)[1])
    log_probs, ids = NextTokens(logits, torch.tensor([1]), forced).best(2)
    assert (ids[0].tolist(), ids[1, 0].item()) == ([3, 2], 1)
    assert log_probs[1].tolist() == pytest.approx([of_one, -math.inf], rel=1e-5)
    every = NextTokens(logits, torch.tensor([1]), forced).log_probs()
    assert every[1].isfinite().tolist() == [False, True, False, False]
    assert every[1, 1].item() == pytest.approx(of_one, rel=1e-5)
