"""The Translator: order, blank and long sentences, batches, what it refuses."""

import logging
import math

import pytest
import torch
from toy_model import ToyModel

from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.special_tokens import EOS
from nmt.translator import Translator, batches_by_length

WORDS = {"one": 4, "two": 5, "three": 6}


class WordTokenizer:
    """One id a word; forgets white space."""

    forbidden_ids = (0, 1, 2)

    def encode_batch(self, texts):
        return [[WORDS[word] for word in text.split()] for text in texts]

    def decode(self, ids):
        names = {token: word for word, token in WORDS.items()}
        return " ".join(names[token] for token in ids)


class CopyModel(ToyModel):
    """Repeats the source; keeps what shapes it was given."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def start(self, source, source_mask):
        self.shapes.append(tuple(source.shape))
        self.sources = [tuple(row[: row.index(EOS)]) for row in source.tolist()]
        state = super().start(source, source_mask)
        return type(state)(torch.arange(len(source)), state.prefixes)

    def log_probs(self, key, prefix):
        logits = torch.zeros(7)
        logits[(*self.sources[key], EOS)[min(len(prefix), len(self.sources[key]))]] = 9.0
        return logits.log_softmax(-1)


@pytest.fixture
def model():
    return CopyModel()


@pytest.fixture
def translator(model):
    return Translator(model, WordTokenizer(), GreedySearch())


def texts_of(translations):
    return [translation.text for translation in translations]


def test_translations_come_in_the_order_of_the_texts(translator):
    texts = ["one", "three two one", "two two", "one", "", "three " * 11 + "one"]
    translations = translator.translate(texts)
    assert texts_of(translations) == texts
    assert [translation.source for translation in translations] == texts


@pytest.mark.parametrize("options", [{"batch_tokens": 1}, {"chunk_size": 1}, {"chunk_size": 3}])
def test_batches_and_chunks_do_not_matter(translator, options):
    """(case 82)."""
    texts = [" ".join(["one", "two", "three"][: 1 + i % 3] * (1 + i % 5)) for i in range(40)]
    assert list(translator.stream(texts, **options)) == translator.translate(texts)
    assert texts_of(translator.translate(texts)) == texts


@pytest.mark.parametrize("blank", ["", "   ", "\u3000", "\t", "\u00a0\u2003"])
def test_a_blank_text_stays_blank_and_the_model_is_not_asked(translator, model, blank):
    """(case 90)."""
    (translation,) = translator.translate([blank])
    assert (translation.text, translation.score) == ("", 0.0)
    assert model.shapes == []
    assert texts_of(translator.translate(["one", blank, "two"])) == ["one", "", "two"]


def test_no_texts_give_no_translations(translator):
    assert translator.translate([]) == []


def test_only_a_chunk_is_read_ahead(translator):
    read = []

    def texts():
        for i in range(1000):
            read.append(i)
            yield "one"

    next(translator.stream(texts(), chunk_size=7))
    assert len(read) == 7


def test_batches_hold_similar_lengths_and_no_more_tokens_than_asked(translator, model):
    translator.translate(["one", "two two two", "one one", "three three three"], batch_tokens=8)
    assert model.shapes == [(2, 4), (2, 3)]
    assert list(batches_by_length([100, 0, 2], 8)) == [[0], [2]]


def test_a_long_text_is_cut_with_a_warning_that_names_line_and_limit(translator, caplog):
    """(case 92)."""
    texts = ["one two", "three " * 3000, "two one"]
    with caplog.at_level(logging.WARNING):
        cut = translator.translate(texts, max_source_length=31)
    assert texts_of(cut) == ["one two", " ".join(["three"] * 31), "two one"]
    (message,) = caplog.messages
    assert "line 2 has 3000 source tokens" in message
    assert "limit of 31" in message


def test_a_text_as_long_as_the_limit_is_whole(translator, caplog):
    with caplog.at_level(logging.WARNING):
        (whole,) = translator.translate(["three " * 31], max_source_length=31)
    assert len(whole.text.split()) == 31
    assert caplog.messages == []


def test_lines_are_counted_over_all_chunks(translator, caplog):
    texts = ["one"] * 6 + ["two two two"]
    list(translator.stream(texts, chunk_size=2, max_source_length=2))
    assert "line 7 " in caplog.text
    list(translator.stream(texts, chunk_size=2, max_source_length=2, first_line=101))
    assert "line 107 " in caplog.text


def test_alternatives_come_best_first(translator):
    search = BeamSearch(beam_size=3, num_hypotheses=3)
    (translation,) = translator.translate(["one two"], search=search)
    scores = [alternative.score for alternative in translation.alternatives]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert translation.text == "one two"
    assert translation.score == scores[0] < 0


def test_a_single_string_is_refused(translator):
    with pytest.raises(ValueError, match="texts is one string; give a list"):
        translator.translate("one two")
    with pytest.raises(ValueError, match="prefixes is one string; give a list"):
        translator.translate(["one two"], prefixes="one")


@pytest.mark.parametrize("option", ["batch_tokens", "max_source_length", "chunk_size"])
def test_impossible_options_are_refused_at_the_call(translator, option):
    with pytest.raises(ValueError, match=f"{option} is 0"):
        translator.stream(["one"], **{option: 0})


def test_a_model_that_gives_no_numbers_is_named(model):
    model.log_probs = lambda key, prefix: torch.full((7,), math.nan)
    for search in (GreedySearch(), BeamSearch()):
        with pytest.raises(ValueError, match="not a number"):
            Translator(model, WordTokenizer(), search).translate(["one"])


def test_the_model_is_put_into_eval_mode(model):
    Translator(model.train(), WordTokenizer(), GreedySearch())
    assert not model.training
