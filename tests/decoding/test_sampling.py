"""Sampling: the distribution it draws from, the seed of each sentence, its filters."""

from collections import Counter

import pytest
from toy_model import A, B, C, ToyModel, sources

from nmt import EOS
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.sampling import Sampling

ONE_STEP = {(11, ()): {A: 0.5, B: 0.3, C: 0.15, EOS: 0.05}} | {
    (11, (token,)): {EOS: 1.0} for token in (A, B, C)
}


def shares(search, num_samples=2000):
    """How often each first token is drawn."""
    (hypotheses,) = search(ToyModel(ONE_STEP), sources(11), None)
    assert len(hypotheses) == num_samples
    counts = Counter(hypothesis.tokens for hypothesis in hypotheses)
    return {tokens: count / num_samples for tokens, count in counts.items()}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {A: 0.5, B: 0.3, C: 0.15}),
        ({"top_k": 2}, {A: 0.625, B: 0.375}),
        ({"top_p": 0.7}, {A: 0.625, B: 0.375}),
        ({"top_k": 3, "top_p": 0.6}, {A: 0.625, B: 0.375}),
        ({"top_p": 0.01}, {A: 1.0}),
        ({"top_k": 1}, {A: 1.0}),
        ({"temperature": 0.5}, {A: 0.25 / 0.365, B: 0.09 / 0.365, C: 0.0225 / 0.365}),
        ({"temperature": 1e-4}, {A: 1.0}),
        ({"temperature": 1e-320}, {A: 1.0}),
        ({"temperature": 1e300}, {A: 0.25, B: 0.25, C: 0.25}),
    ],
)
def test_tokens_come_as_often_as_they_are_probable(options, expected):
    found = shares(Sampling(num_hypotheses=2000, **options))
    for token in (A, B, C):
        assert found.get((token,), 0.0) == pytest.approx(expected.get(token, 0.0), abs=0.04)


def test_log_prob_and_score_are_those_of_the_model_whatever_the_temperature():
    model = ToyModel()
    search = Sampling(temperature=3.0, num_hypotheses=5, max_length=4)
    (hypotheses,) = search(model, sources(11), None)
    for h in hypotheses:
        tokens = (*h.tokens, EOS) if h.finished else h.tokens
        assert h.log_prob == pytest.approx(model.log_prob(11, tokens))
        assert h.score == pytest.approx(h.log_prob / len(tokens))
    ranks = [(not h.finished, -h.score) for h in hypotheses]
    assert ranks == sorted(ranks)


def test_one_token_to_draw_from_is_greedy_search():
    model, batch = ToyModel(), sources(*range(11, 31))
    drawn = Sampling(top_k=1, max_length=6)(model, batch, None)
    best = GreedySearch(max_length=6)(model, batch, None)
    assert [hs[0].tokens for hs in drawn] == [hs[0].tokens for hs in best]
    assert [hs[0].score for hs in drawn] == pytest.approx([hs[0].score for hs in best])


def test_the_seed_decides():
    model, batch = ToyModel(), sources(*range(11, 41))
    first = Sampling(seed=1, max_length=6)(model, batch, None)
    assert Sampling(seed=1, max_length=6)(model, batch, None) == first
    assert Sampling(seed=2, max_length=6)(model, batch, None) != first
