"""Beam search against brute force on a toy language, and its promises."""

import itertools
import math

import pytest
from toy_model import A, B, C, ToyModel, sources

from nmt import EOS
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch

PENALTIES = [-1.0, 0.0, 0.6, 1.0, 2.0]


def brute_force(model, key, *, penalty, max_length, min_length):
    """All (score, tokens), best first."""
    answers = []
    for length in range(min_length, max_length + 1):
        for tokens in itertools.product([A, B, C], repeat=length):
            log_prob = model.log_prob(key, (*tokens, EOS))
            answers.append((log_prob / (length + 1) ** penalty, tokens))
    return sorted(answers, reverse=True)


def without_early_stop(model, key, *, beam_size, penalty, max_length):
    """The definition of the search, hypothesis by hypothesis, always to the limit."""
    live, finished = [()], []
    for length in range(1, max_length + 2):
        extended = [(*prefix, token) for prefix in live for token in (EOS, A, B, C)]
        extended.sort(key=lambda tokens: model.log_prob(key, tokens), reverse=True)
        kept = extended[:beam_size]
        finished += [
            (model.log_prob(key, tokens) / length**penalty, tokens[:-1])
            for tokens in kept
            if tokens[-1] == EOS
        ]
        live = [tokens for tokens in kept if tokens[-1] != EOS]
    return sorted(finished, reverse=True)


def same(hypotheses, expected):
    assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
    assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected])


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("min_length", [0, 3])
def test_a_beam_that_holds_everything_finds_the_best_of_all_sequences(penalty, min_length):
    model, keys, limits = ToyModel(), [11, 13, 17], {"max_length": 5, "min_length": min_length}
    search = BeamSearch(beam_size=1000, num_hypotheses=7, length_penalty=penalty, **limits)
    for key, hypotheses in zip(keys, search(model, sources(*keys), None), strict=True):
        same(hypotheses, brute_force(model, key, penalty=penalty, **limits)[:7])
        assert all(hypothesis.finished for hypothesis in hypotheses)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_stopping_early_changes_nothing(penalty, beam_size):
    model, keys = ToyModel(), range(20, 31)
    search = BeamSearch(beam_size=beam_size, num_hypotheses=2, length_penalty=penalty, max_length=7)
    for key, hypotheses in zip(keys, search(model, sources(*keys), None), strict=True):
        expected = without_early_stop(
            model, key, beam_size=beam_size, penalty=penalty, max_length=7
        )
        same([h for h in hypotheses if h.finished], expected[:2])


def test_it_does_stop_early():
    certain = {(11, ()): {A: 1.0}, (11, (A,)): {EOS: 0.9, B: 0.1}}
    model = ToyModel(certain)
    BeamSearch(beam_size=2, length_penalty=0.0, max_length=200)(model, sources(11), None)
    assert model.rows_read == 1 + 2


@pytest.mark.parametrize("penalty", PENALTIES)
def test_length_counts_eos_and_decides_between_equally_probable_answers(penalty):
    """A and B B have the same probability, 1/2."""
    table = {
        (11, ()): {A: 0.5, B: 0.5},
        (11, (A,)): {EOS: 1.0},
        (11, (B,)): {B: 1.0},
        (11, (B, B)): {EOS: 1.0},
    }
    search = BeamSearch(beam_size=3, num_hypotheses=2, length_penalty=penalty, max_length=4)
    (hypotheses,) = search(ToyModel(table), sources(11), None)
    scores = {h.tokens: h.score for h in hypotheses}
    assert scores[(A,)] == pytest.approx(math.log(0.5) / 2**penalty)
    assert scores[(B, B)] == pytest.approx(math.log(0.5) / 3**penalty)
    if penalty:
        assert hypotheses[0].tokens == ((B, B) if penalty > 0 else (A,))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("limits", [{"max_length": 3}, {"max_length": 9, "min_length": 4}])
def test_a_beam_of_one_is_greedy_search(penalty, limits):
    model, batch = ToyModel(), sources(*range(100, 300))
    greedy = GreedySearch(**limits)(model, batch, None)
    beam = BeamSearch(beam_size=1, length_penalty=penalty, **limits)(model, batch, None)
    assert [[h.tokens for h in hs] for hs in beam] == [[h.tokens for h in hs] for hs in greedy]
    assert [hs[0].log_prob for hs in beam] == [hs[0].log_prob for hs in greedy]
    assert [hs[0].finished for hs in beam] == [hs[0].finished for hs in greedy]
    assert len({hs[0].finished for hs in beam}) == 2
    if penalty == 1.0:
        assert beam == greedy


def test_hypotheses_are_different_and_best_first():
    search = BeamSearch(beam_size=7, num_hypotheses=7, max_length=3, length_penalty=0.0)
    for hypotheses in search(ToyModel(), sources(*range(11, 31)), None):
        assert len({h.tokens for h in hypotheses}) == 7
        for finished in (True, False):
            scores = [h.score for h in hypotheses if h.finished == finished]
            assert scores == sorted(scores, reverse=True)


def test_a_hypothesis_cut_at_the_limit_is_returned_only_where_none_finished():
    table = {
        (11, ()): {A: 1.0},
        (11, (A,)): {A: 0.9, EOS: 0.1},
        (11, (A, A)): {A: 1.0},
    }
    hypotheses = BeamSearch(beam_size=2, num_hypotheses=2, max_length=2)(
        ToyModel(table), sources(11), None
    )[0]
    assert [(h.tokens, h.finished) for h in hypotheses] == [((A,), True), ((A, A), False)]
    assert hypotheses[1].log_prob == pytest.approx(math.log(0.9))


def test_an_empty_translation_can_win_without_a_minimum_length():
    table = {(11, ()): {EOS: 0.6, A: 0.4}, (11, (A,)): {EOS: 1.0}}
    model, batch = ToyModel(table), sources(11)
    (empty,) = BeamSearch(length_penalty=0.0)(model, batch, None)[0]
    (word,) = BeamSearch(length_penalty=0.0, min_length=1)(model, batch, None)[0]
    assert (empty.tokens, word.tokens) == ((), (A,))


def test_half_precision_logits_are_normalised_in_single_precision():
    class Half(ToyModel):
        def step(self, tokens, state):
            logits, state = super().step(tokens, state)
            return logits.bfloat16() + 100, state

    (hypothesis,) = BeamSearch(max_length=5)(Half(), sources(11), None)[0]
    assert hypothesis.log_prob < -1e-3


def test_patience_ends_a_search_when_enough_hypotheses_have_ended():
    table = {(11, ()): {EOS: 0.4, A: 0.6}}
    table |= {(11, (A,) * n): {A: 0.9, EOS: 0.1} for n in range(1, 9)}
    read = []
    for patience in (0.5, 1, None):
        model = ToyModel(table)
        search = BeamSearch(beam_size=2, max_length=7, patience=patience)
        search(model, sources(11), None)
        read.append(model.rows_read)
    assert read[:2] == [1, 1 + 2]
    assert read[2] > 3
