"""What all searches promise: limits, forbidden ids, forced prefixes, options."""

import dataclasses
import inspect
import math
from pathlib import Path

import pytest
import torch
import yaml
from models_for_tests import VOCAB_SIZE, tiny_model
from toy_model import A, B, C, ToyModel, sources

from nmt import BOS, EOS, PAD, UNK
from nmt.data.batch import collate_source
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.sampling import Sampling

SEARCHES = [
    GreedySearch(max_length=6),
    BeamSearch(beam_size=3, num_hypotheses=2, max_length=6),
    Sampling(max_length=6, num_hypotheses=2, temperature=3.0),
]
PREFIXES = [(), (A,), (B, B, C), (C, A)]
KEYS = (11, 13, 17, 19)
every_search = pytest.mark.parametrize("search", SEARCHES, ids=lambda s: type(s).__name__)


@every_search
def test_log_prob_is_what_teacher_forcing_gives(search):
    model = ToyModel()
    for key, hypotheses in zip(KEYS, search(model, sources(*KEYS), None), strict=True):
        assert len(hypotheses) == getattr(search, "num_hypotheses", 1)
        for one in hypotheses:
            tokens = (*one.tokens, EOS) if one.finished else one.tokens
            assert one.log_prob == pytest.approx(model.log_prob(key, tokens))
            assert one.score == pytest.approx(one.log_prob / len(tokens))


@every_search
def test_special_and_forbidden_ids_are_never_emitted_and_limits_hold(search):
    class Tempting(ToyModel):
        def log_probs(self, key, prefix):
            logits = super().log_probs(key, prefix).clone()
            logits[[PAD, UNK, BOS, C]] = 9.0
            return logits.log_softmax(-1)

    search = dataclasses.replace(search, min_length=2, max_length=5)
    batch = sources(*range(11, 31))
    for hypotheses in search(Tempting(), batch, None, forbidden_ids=[C]):
        for one in hypotheses:
            assert set(one.tokens) <= {A, B}
            assert 2 <= len(one.tokens) <= 5


@every_search
def test_a_hypothesis_as_long_as_the_limit_may_still_end(search):
    table = {(11, ()): {A: 1.0}, (11, (A,)): {B: 1.0}, (11, (A, B)): {EOS: 1.0}}
    search = dataclasses.replace(search, max_length=2)
    best = search(ToyModel(table), sources(11), None)[0][0]
    assert (best.tokens, best.finished) == ((A, B), True)


@every_search
def test_no_sentences_give_no_answers_and_the_mode_of_the_model_stays(search):
    model = ToyModel().train()
    assert search(model, sources().reshape(0, 2).long(), None) == []
    search(model, sources(11), None)
    assert model.training


@every_search
def test_a_model_that_gives_no_numbers_gives_answers_that_say_so(search):
    class Diverged(ToyModel):
        def log_probs(self, key, prefix):
            return torch.full((7,), math.nan)

    assert math.isnan(search(Diverged(), sources(11), None)[0][0].log_prob)


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        *((GreedySearch, {"max_length": value}) for value in (0, "long")),
        *((GreedySearch, {"max_length_ratio": value}) for value in (0.0, math.nan)),
        *((GreedySearch, {"min_length": value}) for value in (-1, 1025)),
        *((BeamSearch, {"beam_size": value}) for value in (0, 2.5)),
        *((BeamSearch, {"num_hypotheses": value}) for value in (0, 6)),
        *((BeamSearch, {"length_penalty": value}) for value in (math.inf, -1000.0, "long")),
        (BeamSearch, {"patience": 0}),
        *((Sampling, {"temperature": value}) for value in (0.0, math.inf)),
        *((Sampling, {"top_p": value}) for value in (0.0, 1.5)),
        *((Sampling, {name: 0}) for name in ("top_k", "num_hypotheses", "max_length")),
        (Sampling, {"seed": -1}),
    ],
)
def test_impossible_options_are_refused_by_name(kind, option):
    (name,) = option
    with pytest.raises(ValueError, match=rf"^{name} is .*\.$"):
        kind(**option)


@pytest.mark.parametrize("kind", [GreedySearch, BeamSearch, Sampling])
def test_the_config_says_what_the_signature_says(kind):
    name = kind.__module__.rpartition(".")[2]
    path = Path(__file__).parents[2] / "conf" / "decoding" / f"{name}.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert config.pop("_target_") == f"{kind.__module__}.{kind.__name__}"
    parameters = inspect.signature(kind).parameters
    assert config == {key: parameter.default for key, parameter in parameters.items()}


@every_search
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


@every_search
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


@every_search
def test_a_prefix_beyond_the_limit_lifts_it_and_may_hold_forbidden_ids(search):
    prefix = (A, UNK, C, C, A, A, B, A, C)
    (hypotheses,) = search(ToyModel(), sources(11), None, prefixes=[prefix], forbidden_ids=[C])
    assert {hypothesis.tokens for hypothesis in hypotheses} == {prefix}


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


def test_special_ids_are_refused_in_a_prefix():
    for special in (PAD, BOS, EOS):
        with pytest.raises(ValueError, match="leave PAD, BOS and EOS out"):
            GreedySearch()(ToyModel(), sources(11), None, prefixes=[(A, special)])
