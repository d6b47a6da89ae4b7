"""Attention between words: sums and means by hand, against the pieces, and what is refused."""

import numpy as np
import pytest
import torch
from models_for_tests import ATTENDING, OPTIONS, tiny_model

from nmt.alignment import reduce_to_words
from nmt.data.batch import collate
from nmt.data.preparation import train_tokenizer
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.models.encoder_decoder import Attention
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

ENGLISH = ["the old man", "a dog sees the man", "old dogs", "the man"]
GERMAN = ["der alte Mann", "ein Hund sieht den Mann", "alte Hunde", "der Mann"]
CHINESE = ["老人 看见 狗。", "狗看见老人。", "老狗"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(train_tokenizer(ENGLISH + GERMAN + CHINESE, vocab_size=400, model_type="bpe"))


def translator_of(name, tokenizer, **languages):
    model = tiny_model(name, vocab_size=tokenizer.vocab_size)
    return Translator(model, tokenizer, GreedySearch(), **languages)


def test_source_pieces_add_up_target_pieces_are_averaged_and_rows_sum_to_one():
    """Three target pieces make two words, three source pieces too; EOS took a share of each row."""
    weights = torch.tensor([[[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.2, 0.4]]])
    first_two = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    last_two = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    words = reduce_to_words(weights, first_two, last_two)
    expected = torch.tensor([[[0.2 / 0.6, 0.4 / 0.6], [0.2 / 0.8, 0.6 / 0.8]]])
    torch.testing.assert_close(words, expected)


def test_a_row_that_lay_on_the_end_of_the_sentence_is_zero():
    one = torch.ones(1, 1)
    assert reduce_to_words(torch.zeros(1, 1, 1), one, one).tolist() == [[[0.0]]]


@pytest.mark.parametrize("name", ATTENDING)
def test_words_without_inner_boundaries_have_the_weights_of_their_pieces(name, tokenizer):
    translator = translator_of(name, tokenizer)
    source, target = "the man", "der Mann"
    source_ids, target_ids = tokenizer.encode(source), tokenizer.encode(target)
    assert tokenizer.piece_words(source_ids) == tokenizer.piece_words(target_ids) == [0, 1]
    batch = collate([{"index": 0, "source_ids": source_ids, "target_ids": target_ids}])
    pieces = translator.model.attention(batch.source, None, batch.target_in).cross.detach()
    pieces = pieces[0].mean(1)[:, :2, :2]
    expected = pieces / pieces.sum(-1, keepdim=True)
    found = translator.attention(source, target)
    np.testing.assert_allclose(found.weights, expected.numpy(), atol=1e-6)
    assert found.source_words == ("the", "man")
    assert found.target_words == ("der", "Mann")


@pytest.mark.parametrize("name", ATTENDING)
def test_every_layer_has_a_row_for_each_target_word_that_sums_to_one(name, tokenizer):
    found = translator_of(name, tokenizer).attention("a dogged  old man", "ein älterer Hund")
    layers = OPTIONS[name].get("decoder_layers", 1)
    assert found.weights.shape == (layers, 3, 4)
    np.testing.assert_allclose(found.weights.sum(-1), 1.0, atol=1e-6)
    assert found.source_words == ("a", "dogged", "old", "man")


@pytest.mark.parametrize("name", ATTENDING)
@pytest.mark.parametrize("batch_tokens", [1, 23, 1000])
def test_batches_do_not_matter_and_the_order_is_kept(name, batch_tokens, tokenizer):
    translator = translator_of(name, tokenizer)
    pairs = list(zip(ENGLISH, GERMAN, strict=True)) * 2
    found = list(translator.attentions(pairs, batch_tokens=batch_tokens))
    for (source, target), attention in zip(pairs, found, strict=True):
        alone = translator.attention(source, target)
        assert attention.source_words == tuple(source.split())
        np.testing.assert_allclose(attention.weights, alone.weights, atol=1e-5)


@pytest.mark.parametrize("name", ATTENDING)
def test_links_of_alternatives_are_asked_for_in_batches_and_do_not_depend_on_them(
    name, tokenizer, monkeypatch
):
    translator = translator_of(name, tokenizer)
    search = BeamSearch(beam_size=5, num_hypotheses=5, max_length=7)
    expected = translator.translate(ENGLISH, search=search, alignment="subword", batch_tokens=2048)
    sizes = []
    attention = translator.model.attention

    def counted(source, source_mask, target_in):
        sizes.append(max(source.numel(), target_in.numel()))
        return attention(source, source_mask, target_in)

    monkeypatch.setattr(translator.model, "attention", counted)
    found = translator.translate(ENGLISH, search=search, alignment="subword", batch_tokens=40)
    assert max(sizes) <= 40 < sum(sizes)
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours.alternatives) > 2
        for one, other in zip(ours.alternatives, theirs.alternatives, strict=True):
            assert (one.text, one.alignment) == (other.text, other.alignment)


def test_only_a_chunk_of_pairs_is_read_at_a_time(tokenizer):
    read = []

    def pairs():
        for number in range(100):
            read.append(number)
            yield "the man", "der Mann"

    next(translator_of("bahdanau", tokenizer).attentions(pairs(), chunk_size=3))
    assert len(read) == 3


def test_characters_take_the_place_of_words_in_chinese(tokenizer):
    translator = translator_of("transformer", tokenizer, source_lang="zh", target_lang="en")
    found = translator.attention("老人 看见 鱼。", "the old man")
    assert found.source_words == tuple("老人看见鱼。")  # 鱼 is three byte pieces
    assert found.target_words == ("the", "old", "man")
    np.testing.assert_allclose(found.weights.sum(-1), 1.0, atol=1e-6)


def test_the_characters_of_a_piece_share_its_weight(tokenizer, monkeypatch):
    translator = translator_of("transformer", tokenizer, source_lang="zh", target_lang="zh")
    text = "老人狗"
    ids = tokenizer.encode(text)
    characters = tokenizer.piece_characters(ids)
    assert {(0, 1), (2,)} <= set(characters)
    weights = torch.arange(1.0, len(ids) + 2).expand(1, 1, 1, len(ids) + 1, -1)
    monkeypatch.setattr(translator.model, "attention", lambda *_: Attention(cross=weights))
    expected = np.zeros(3)
    for weight, places in enumerate(characters, start=1):
        expected[list(places)] += weight / len(places)
    found = translator.attention(text, text).weights[0, 0]
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-6)


def test_a_model_without_attention_is_refused(tokenizer):
    with pytest.raises(ValueError, match="no attention to show"):
        translator_of("rnn", tokenizer).attention("the man", "der Mann")


@pytest.mark.parametrize("name", ATTENDING)
def test_memory_slots_are_refused(name, tokenizer):
    model = tiny_model(name, vocab_size=tokenizer.vocab_size, memory_slots=2)
    translator = Translator(model, tokenizer, GreedySearch())
    with pytest.raises(ValueError, match="attends to 2 memory slots, which are no words"):
        translator.attention("the man", "der Mann")


@pytest.mark.parametrize("pair", [("", "der Mann"), ("the man", "\u3000")])
def test_blank_texts_are_refused(pair, tokenizer):
    with pytest.raises(ValueError, match="is blank"):
        translator_of("bahdanau", tokenizer).attention(*pair)
