"""What a step may choose from: normalisation, forbidden and forced ids."""

import math

import torch

from nmt import BOS, EOS, PAD, UNK
from nmt.decoding.search import Constraints


def log_probs(logits, *, forbidden=(), prefix=(), min_length=0):
    """Of the first token of one sentence."""
    constraints = Constraints(
        min_length, torch.tensor([9]), forbidden_ids=forbidden, prefixes=[prefix]
    )
    return constraints.log_probs(torch.tensor([[logits]]), torch.tensor([0]), 0)[0]


def test_forbidden_tokens_have_their_share_of_the_probability_however_large():
    logits = [-1.0] * 4 + [500.0, 0.0, -1.0]
    found = log_probs(logits, forbidden=[4])
    assert found[5:].tolist() == [-500.0, -501.0]
    assert found[[PAD, UNK, BOS, 4]].tolist() == [-math.inf] * 4
    assert found[EOS].isfinite()
    assert not log_probs(logits, min_length=1)[EOS].isfinite()


def test_a_forced_token_is_the_only_choice_even_a_forbidden_one():
    logits = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = log_probs(logits, forbidden=[4], prefix=[4])
    assert found.isfinite().nonzero().flatten().tolist() == [4]
    assert found[4] == torch.tensor(logits).log_softmax(-1)[4]
