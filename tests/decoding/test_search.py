"""What all searches promise: limits, forbidden ids, forced prefixes, no role of neighbours."""

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
from nmt.decoding.search import Constraints, Hypothesis

SEARCHES = [
    GreedySearch(max_length=6),
    BeamSearch(beam_size=3, num_hypotheses=2, max_length=6),
    Sampling(max_length=6, num_hypotheses=2, temperature=3.0),
]
PREFIXES = [(), (A,), (B, B, C), (C, A)]
KEYS = (11, 13, 17, 19)
ALWAYS_A = {(11, (A,) * length): {A: 0.75, EOS: 0.25} for length in range(300)}
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


@every_search
def test_neighbours_and_order_do_not_matter(search, model):
    with torch.no_grad():  # far from uniform: hypotheses differ and no two are equally probable
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.dim() > 1 else 1.0)
    rows = [torch.randint(4, VOCAB_SIZE, (1 + i % 11,)).tolist() for i in range(40)]

    def tokens(order, batch_size):
        found = []
        for first in range(0, 40, batch_size):
            batch = collate_source([rows[i] for i in order[first : first + batch_size]])
            found += [tuple(h.tokens for h in hypotheses) for hypotheses in search(model, *batch)]
        return found

    alone = tokens(range(40), 1)
    assert len(set(alone)) > 10
    assert tokens(range(40), 40) == alone
    order = torch.randperm(40).tolist()
    assert tokens(order, 7) == [alone[i] for i in order]


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


def log_probs(logits, *, forbidden=(), prefix=(), min_length=0):
    """Of the first token of one sentence."""
    constraints = Constraints(min_length, torch.tensor([9]), forbidden, [prefix])
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
