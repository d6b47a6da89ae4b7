"""The searches with all models, untrained but opinionated."""

import pytest
import torch
from models_for_tests import VOCAB_SIZE

from nmt import BOS, EOS, UNK
from nmt.data.batch import collate_source
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.sampling import Sampling

LIMITS = {"max_length": 9}


@pytest.fixture
def opinionated(model):
    """Far from uniform, so that hypotheses differ and no two are equally probable."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if parameter.dim() > 1 else 1.0)
    return model


@pytest.fixture
def sources():
    return [torch.randint(4, VOCAB_SIZE, (1 + i % 11,)).tolist() for i in range(40)]


def search_in_batches(search, model, sources, batch_size):
    answers = []
    for first in range(0, len(sources), batch_size):
        source, source_mask = collate_source(sources[first : first + batch_size])
        answers += search(model, source, source_mask)
    return answers


def tokens_of(answers):
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in answers]


def test_a_beam_of_one_is_greedy_search(opinionated, sources):
    greedy = search_in_batches(GreedySearch(**LIMITS), opinionated, sources, 40)
    beam = search_in_batches(BeamSearch(beam_size=1, **LIMITS), opinionated, sources, 40)
    assert tokens_of(beam) == tokens_of(greedy)
    for (one,), (other,) in zip(beam, greedy, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.finished == other.finished


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(**LIMITS),
        BeamSearch(beam_size=4, num_hypotheses=4, **LIMITS),
        Sampling(num_hypotheses=3, **LIMITS),
    ],
    ids=["greedy", "beam", "sampling"],
)
def test_the_unknown_piece_is_never_emitted_however_probable(
    opinionated, sources, search, monkeypatch
):
    step = opinionated.step

    def unknown_is_most_probable(tokens, state):
        logits, state = step(tokens, state)
        logits[..., UNK] = logits.amax(-1) + 2.0
        return logits, state

    monkeypatch.setattr(opinionated, "step", unknown_is_most_probable)
    for hypotheses in search_in_batches(search, opinionated, sources, 7):
        for hypothesis in hypotheses:
            assert UNK not in hypothesis.tokens
            length = len(hypothesis.tokens) + hypothesis.finished
            assert hypothesis.log_prob < -2.0 * length  # what UNK would have got is not shared out


@pytest.mark.parametrize("beam_size", [1, 4])
def test_neighbours_do_not_matter(opinionated, sources, beam_size):
    search = BeamSearch(beam_size=beam_size, num_hypotheses=beam_size, **LIMITS)
    alone = tokens_of(search_in_batches(search, opinionated, sources, 1))
    assert len(set(map(tuple, alone))) > 10
    for batch_size in (7, 40):
        assert tokens_of(search_in_batches(search, opinionated, sources, batch_size)) == alone
    order = torch.randperm(40).tolist()
    shuffled = search_in_batches(search, opinionated, [sources[i] for i in order], 7)
    assert tokens_of(shuffled) == [alone[i] for i in order]


@torch.no_grad()
def test_log_prob_is_what_teacher_forcing_gives(opinionated, sources):
    search = BeamSearch(beam_size=5, num_hypotheses=5, **LIMITS)
    answers = search_in_batches(search, opinionated, sources[:7], 7)
    for source, hypotheses in zip(sources, answers, strict=False):
        for hypothesis in hypotheses:
            target = [*hypothesis.tokens, EOS] if hypothesis.finished else [*hypothesis.tokens]
            logits = opinionated(*collate_source([source]), torch.tensor([[BOS, *target[:-1]]]))
            log_probs = logits[0].log_softmax(-1)[range(len(target)), target]
            assert hypothesis.log_prob == pytest.approx(float(log_probs.sum()), abs=1e-3)
