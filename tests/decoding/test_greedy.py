"""Greedy search: what it chooses, when it ends, what it refuses."""

import math

import pytest
import torch
from toy_model import A, B, C, ToyModel, sources

from nmt import EOS, PAD
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.search import Hypothesis

ALWAYS_A = {(11, (A,) * length): {A: 0.75, EOS: 0.25} for length in range(300)}


def test_it_takes_the_most_probable_token_until_eos():
    table = {
        (11, ()): {A: 0.4, B: 0.6},
        (11, (B,)): {C: 0.5, EOS: 0.3, A: 0.2},
        (11, (B, C)): {EOS: 0.9, A: 0.1},
    }
    (hypotheses,) = GreedySearch()(ToyModel(table), sources(11), None)
    log_prob = math.log(0.6 * 0.5 * 0.9)
    assert hypotheses == [
        Hypothesis((B, C), pytest.approx(log_prob / 3), pytest.approx(log_prob), finished=True)
    ]


@pytest.mark.parametrize("max_length", [1, 2, 5, 100_000])
def test_an_endless_translation_has_as_many_tokens_as_the_limit(max_length):
    search = GreedySearch(max_length=max_length, max_length_ratio=7.0)
    (hypothesis,) = search(ToyModel(ALWAYS_A), sources(11), None)[0]
    length = min(max_length, 2 * 7 + 10)
    assert hypothesis.tokens == (A,) * length
    assert not hypothesis.finished
    assert hypothesis.log_prob == pytest.approx(length * math.log(0.75))
    assert hypothesis.score == pytest.approx(math.log(0.75))


def test_the_limit_depends_on_the_sentence_alone():
    source = torch.tensor([[11, EOS, PAD, PAD, PAD], [11, 12, 12, 12, EOS]])
    search = GreedySearch(max_length_ratio=1.5)
    (short,), (long,) = search(ToyModel(ALWAYS_A), source, source != PAD)
    (alone,) = search(ToyModel(ALWAYS_A), source[:1, :2], None)[0]
    assert len(short.tokens) == len(alone.tokens) == 3 + 10
    assert len(long.tokens) == 8 + 10


def test_minimum_length_postpones_eos():
    ends_at_once = {(11, (A,) * length): {A: 0.1, EOS: 0.9} for length in range(9)}
    (hypothesis,) = GreedySearch(min_length=3)(ToyModel(ends_at_once), sources(11), None)[0]
    assert hypothesis.tokens == (A, A, A)
    assert hypothesis.finished


def test_minimum_length_lifts_the_limit_of_a_short_sentence():
    search = GreedySearch(min_length=50, max_length_ratio=1.0)
    (hypothesis,) = search(ToyModel(ALWAYS_A), sources(11), None)[0]
    assert len(hypothesis.tokens) == 50


def test_finished_sentences_leave_the_batch():
    """One sentence needs ten steps, seven others two: fewer than 8 x 10 rows are read."""
    table = {(11, (A,) * n): {A: 0.9, EOS: 0.1} for n in range(9)} | {(11, (A,) * 9): {EOS: 1.0}}
    for key in range(20, 27):
        table |= {(key, ()): {B: 1.0}, (key, (B,)): {EOS: 1.0}}
    model = ToyModel(table)
    answers = GreedySearch()(model, sources(20, 21, 11, 22, 23, 24, 25, 26), None)
    assert [hypotheses[0].tokens for hypotheses in answers] == [
        (A,) * 9 if key == 11 else (B,) for key in (20, 21, 11, 22, 23, 24, 25, 26)
    ]
    assert model.rows_read == 8 * 2 + 1 * 8


def test_a_sentence_that_waits_in_the_batch_does_not_change():
    """One of eight is done first, too few to be dropped: it must stay as it is."""
    table = {(11, ()): {EOS: 1.0}}
    for key in range(20, 27):
        table |= {(key, (B,) * n): {B: 1.0} for n in range(5)} | {(key, (B,) * 5): {EOS: 1.0}}
    answers = GreedySearch()(ToyModel(table), sources(11, *range(20, 27)), None)
    assert answers[0] == [Hypothesis((), 0.0, 0.0, finished=True)]
