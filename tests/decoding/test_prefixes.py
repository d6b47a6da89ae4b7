"""Forced prefixes: every search begins with them, whatever their lengths."""

import math

import pytest
import torch
from models_for_tests import VOCAB_SIZE, tiny_model
from toy_model import A, B, C, ToyModel, sources

from nmt.data.batch import collate_source
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.sampling import Sampling
from nmt.special_tokens import BOS, EOS, PAD, UNK

SEARCHES = [
    GreedySearch(max_length=6),
    BeamSearch(beam_size=3, num_hypotheses=2, max_length=6),
    Sampling(max_length=6, num_hypotheses=2),
]
PREFIXES = [(), (A,), (B, B, C), (C, A)]
KEYS = (11, 13, 17, 19)


@pytest.mark.parametrize("search", SEARCHES)
def test_prefixes_of_any_lengths_are_kept_and_do_not_disturb_their_neighbours(search):
    model = ToyModel()
    together = search(model, sources(*KEYS), None, prefixes=PREFIXES)
    for key, prefix, hypotheses in zip(KEYS, PREFIXES, together, strict=True):
        (alone,) = search(model, sources(key), None, prefixes=[prefix])
        assert hypotheses == alone
        for hypothesis in hypotheses:
            assert hypothesis.tokens[: len(prefix)] == prefix
            tokens = (*hypothesis.tokens, EOS) if hypothesis.finished else hypothesis.tokens
            assert hypothesis.log_prob == pytest.approx(model.log_prob(key, tokens))


@pytest.mark.parametrize("search", SEARCHES)
def test_no_prefix_is_an_empty_prefix(search):
    model, batch = ToyModel(), sources(*KEYS)
    assert search(model, batch, None, prefixes=[()] * 4) == search(model, batch, None)


def test_a_beam_finds_the_best_of_what_begins_with_the_prefix():
    model = ToyModel()
    search = BeamSearch(beam_size=1000, max_length=4)
    (hypotheses,) = search(model, sources(11), None, prefixes=[(B, A)])
    endings = [()] + [(x,) for x in (A, B, C)] + [(x, y) for x in (A, B, C) for y in (A, B, C)]
    scores = {
        (B, A, *ending): model.log_prob(11, (B, A, *ending, EOS)) / (len(ending) + 3)
        for ending in endings
    }
    assert hypotheses[0].tokens == max(scores, key=scores.__getitem__)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_prefix_beyond_the_limit_lifts_it_and_may_hold_forbidden_ids(search):
    prefix = (A, UNK, C, C, A, A, B, A, C)
    (hypotheses,) = search(ToyModel(), sources(11), None, prefixes=[prefix], forbidden_ids=[C])
    assert {hypothesis.tokens for hypothesis in hypotheses} == {prefix}


@pytest.mark.parametrize("search", SEARCHES)
def test_impossible_prefixes_are_refused(search):
    with pytest.raises(ValueError, match="1 prefixes for 2 sentences"):
        search(ToyModel(), sources(11, 13), None, prefixes=[(A,)])
    for special in (PAD, BOS, EOS):
        with pytest.raises(ValueError, match=f"special id {special}"):
            search(ToyModel(), sources(11), None, prefixes=[(A, special)])


def test_the_greedy_translation_is_found_again_from_its_own_beginning():
    model = tiny_model("transformer")
    rows = [torch.randint(4, VOCAB_SIZE, (3 + i,)).tolist() for i in range(5)]
    source, mask = collate_source(rows)
    for search in (GreedySearch(max_length=9), BeamSearch(beam_size=1, max_length=9)):
        free = search(model, source, mask)
        prefixes = [hypotheses[0].tokens[: 2 * i] for i, hypotheses in enumerate(free)]
        forced = search(model, source, mask, prefixes=prefixes)
        for (one,), (other,) in zip(free, forced, strict=True):
            assert one.tokens == other.tokens
            assert math.isclose(one.log_prob, other.log_prob, abs_tol=1e-4)
