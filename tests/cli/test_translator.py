"""The Translator: order, blank and long sentences, batches, what it refuses."""

import logging
import math
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from checkpoints import write_checkpoint
from models_for_tests import MODEL_NAMES
from toy_model import A, B, C, ToyModel

from nmt import EOS
from nmt.data.preparation import train_tokenizer
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.sampling import Sampling
from nmt.translator import Translator

WORDS = {"one": 4, "two": 5, "three": 6}


class WordTokenizer:
    """One id a word; forgets white space."""

    forbidden_ids = (0, 1, 2)

    def encode(self, text):
        return [WORDS[word] for word in text.split()]

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


@pytest.mark.parametrize("options", [{}, {"batch_tokens": 1}, {"chunk_size": 1}, {"chunk_size": 3}])
def test_translations_come_in_order_whatever_the_batches_and_chunks(translator, options):
    texts = [" ".join(["one", "two", "three"][: i % 4] * (1 + i % 5)) for i in range(40)]
    translations = list(translator.stream(texts, **options))
    assert texts_of(translations) == [translation.source for translation in translations] == texts


@pytest.mark.parametrize("blank", ["", "   ", "\u3000", "\t", "\u00a0\u2003"])
def test_a_blank_text_stays_blank_and_the_model_is_not_asked(translator, model, blank):
    (translation,) = translator.translate([blank])
    assert (translation.text, translation.score) == ("", 0.0)
    assert model.shapes == []
    assert texts_of(translator.translate(["one", blank, "two"])) == ["one", "", "two"]


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


def test_a_long_text_is_cut_with_a_warning_that_names_line_and_limit(translator, caplog):
    texts = ["one two", "three " * 31, "two one", "three " * 3000]
    with caplog.at_level(logging.WARNING):
        cut = list(translator.stream(texts, max_source_length=31, chunk_size=2))
    assert texts_of(cut) == ["one two", texts[1].strip(), "two one", texts[1].strip()]
    (message,) = caplog.messages
    assert "line 4 has 3000 source tokens, more than the limit of 31" in message


def test_a_text_is_named_once_however_it_is_spelt():
    table = {(0, ()): {A: 0.5, B: 0.3, C: 0.2}, **{(0, (t,)): {EOS: 1.0} for t in (A, B, C)}}
    tokenizer = WordTokenizer()
    tokenizer.decode = lambda ids: {A: "one", B: "one", C: "two"}[ids[0]]
    tokenizer.encode = lambda text: [0][: len(text)]
    translator = Translator(ToyModel(table), tokenizer, BeamSearch(beam_size=3, num_hypotheses=3))
    (found,) = translator.translate(["?"])
    assert [(one.text, one.tokens) for one in found.alternatives] == [("one", (A,)), ("two", (C,))]
    (drawn,) = translator.translate(["?"], search=Sampling(num_hypotheses=9, seed=1))
    assert len(drawn.alternatives) == 9


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


FORKED = """
import multiprocessing, sys
import torch
from nmt.translator import Translator

torch.set_num_threads(2)
translator = Translator.from_checkpoint(sys.argv[1])
x = torch.randn(600, 600)
x @ x  # starts the threads, which a fork does not copy
expected = translator.translate(["one two"] * 50)[0].text
def work(_):
    x @ x
    return translator.translate(["one two"] * 50)[0].text
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map_async(work, range(2)).get(60) == [expected] * 2
"""


def test_a_forked_process_translates(tmp_path):
    """The threads of its parent, which PyTorch would wait for, do not exist in it."""
    path = write_checkpoint(tmp_path / "model.ckpt", train_tokenizer(["one two"], vocab_size=270))
    subprocess.run(
        [sys.executable, "-c", FORKED, path],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "2"},
        check=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_weights_in_bf16_give_nearly_the_same_scores_and_translations(name, tmp_path):
    tokenizer = train_tokenizer(["one two three"], vocab_size=270)
    path = write_checkpoint(tmp_path / "model.ckpt", tokenizer, name)
    texts = ["one two three"[: 1 + n % 13] + " one" * (n % 5) for n in range(40)]
    exact, half = (Translator.from_checkpoint(path, precision=kind) for kind in ("fp32", "bf16"))
    assert {weight.dtype for weight in half.model.parameters()} == {torch.bfloat16}
    expected = texts_of(exact.translate(texts))
    same = map(str.__eq__, texts_of(half.translate(texts)), expected)
    assert sum(same) >= 30
    pairs = list(zip(texts, expected, strict=True))
    for one, other in zip(half.score(pairs), exact.score(pairs), strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=0.1)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_threads_share_a_translator_and_processes_get_a_copy(name, tmp_path):
    tokenizer = train_tokenizer(["one two three"], vocab_size=270)
    path = write_checkpoint(tmp_path / "model.ckpt", tokenizer, name)
    texts = ["one two three"[: 1 + n % 13] + " one" * (n % 5) for n in range(40)]
    expected = texts_of(Translator.from_checkpoint(path).translate(texts, batch_tokens=50))
    translator = pickle.loads(pickle.dumps(Translator.from_checkpoint(path)))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: translator.translate([text])[0].text, texts))
    assert found == expected
    assert len(set(found)) > 1
