"""Teacher-forced scores: by hand, against the searches, whatever the batches."""

import math

import pytest
import torch
from models_for_tests import MODEL_NAMES, tiny_model
from test_translator import WordTokenizer
from toy_model import A, B, ToyModel

from nmt import BOS, EOS, PAD, UNK
from nmt.data.preparation import train_tokenizer
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.scoring import TranslationScore
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

SENTENCES = [
    "one",
    "two three",
    "three two one",
    "one one two two three three",
    "three one three one two",
]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(train_tokenizer(SENTENCES, vocab_size=272))


@pytest.fixture(params=MODEL_NAMES)
def translator(request, tokenizer):
    """Each of the models, untrained but far from certain."""
    model = tiny_model(request.param, vocab_size=tokenizer.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.4 if parameter.dim() > 1 else 1.0)
    return Translator(model, tokenizer, GreedySearch(max_length=7))


class Teacher(ToyModel):
    """A toy model that reads all target tokens at once."""

    def step(self, tokens, state):
        steps = []
        for token in tokens.unbind(1):
            logits, state = super().step(token[:, None], state)
            steps.append(logits)
        return torch.cat(steps, 1), state


def test_the_score_is_the_product_of_the_probabilities_of_the_tokens():
    table = {
        (4, ()): {A: 0.5, B: 0.5},
        (4, (A,)): {B: 0.25, EOS: 0.75},
        (4, (A, B)): {EOS: 1.0},
    }
    translator = Translator(Teacher(table), WordTokenizer(), GreedySearch())
    (score,) = translator.score([("one", "one two")])
    assert score.tokens == (A, B, EOS)
    assert score.token_log_probs == pytest.approx([math.log(0.5), math.log(0.25), 0.0])
    assert score.log_prob == pytest.approx(math.log(0.125))
    assert score.perplexity == pytest.approx(2.0)


def test_a_translation_scores_as_its_search_said(translator):
    search = BeamSearch(beam_size=300, num_hypotheses=40, max_length=5, length_penalty=0.0)
    translations = translator.translate(SENTENCES, search=search)
    found = [(t.source, hypothesis) for t in translations for hypothesis in t.alternatives]
    assert {hypothesis.finished for _, hypothesis in found} == {True, False}
    scores = translator.score([(source, hypothesis.tokens) for source, hypothesis in found])
    for score, (_, hypothesis) in zip(scores, found, strict=True):
        assert score.tokens == (*hypothesis.tokens, EOS)
        end = 0.0 if hypothesis.finished else score.token_log_probs[-1]
        assert score.log_prob - end == pytest.approx(hypothesis.log_prob, abs=1e-3)


@pytest.mark.parametrize("options", [{"batch_tokens": 1}, {"batch_tokens": 17}, {"chunk_size": 3}])
def test_scores_come_in_order_whatever_the_batches_and_chunks(translator, tokenizer, options):
    pairs = [(source, target) for source in SENTENCES for target in SENTENCES]
    expected = translator.score(pairs)
    assert [score.tokens[:-1] for score in expected] == [
        tuple(tokenizer.encode(t)) for _, t in pairs
    ]
    for score, other in zip(translator.stream_scores(pairs, **options), expected, strict=True):
        assert score.tokens == other.tokens
        assert score.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("ids", [[7, PAD, 8], [BOS, 7], [7, EOS], [7, -1], [7, 9999]])
def test_ids_that_cannot_be_part_of_a_translation_are_refused(translator, ids):
    last = translator.tokenizer.vocab_size - 1
    wrong = next(token for token in ids if token != 7)
    with pytest.raises(
        ValueError, match=f"holds the id {wrong}: give ids from 0 to {last}, without"
    ):
        translator.score([("one", ids)])
    assert translator.score([("one", [7, UNK, last])])[0].tokens == (7, UNK, last, EOS)


def test_blank_texts_have_a_score(translator):
    blank, target, source = translator.score([("", ""), ("one", " "), ("", "one")])
    assert blank.tokens == target.tokens == (EOS,)
    assert len(source.token_log_probs) > 1
    assert all(score.log_prob < 0 for score in (blank, target, source))


def test_a_model_that_gives_no_numbers_is_named(translator):
    with torch.no_grad():
        next(translator.model.parameters()).fill_(math.nan)
    with pytest.raises(ValueError, match="not a number"):
        translator.score([("one", "two")])


def test_a_perplexity_beyond_all_numbers_is_infinite():
    assert TranslationScore((EOS,), (-1e4,)).perplexity == math.inf
