import io
import logging
import multiprocessing
import pickle
import random
from concurrent.futures import ProcessPoolExecutor

import pytest
import sentencepiece

from nmt import BOS, EOS, PAD, UNK
from nmt.tokenizer import MAX_LINE_BYTES, Tokenizer, train_tokenizer

NOUNS = ("cat", "dog", "house", "river", "ship", "tower", "garden")
VERBS = ("sees", "finds", "leaves", "paints", "follows")
LINES = [f"the {a} {verb} the {b} today" for a in NOUNS for b in NOUNS for verb in VERBS]


def trained_elsewhere(**options):
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=buffer,
        vocab_size=307,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
        **options,
    )
    return buffer.getvalue()


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(train_tokenizer(LINES, vocab_size=331))


def test_text_survives_encoding_and_decoding(tokenizer):
    text = "The cat sees 3 rivers, doesn't it? Mädchen läuft. ½ ﬁ 漢字 🚢"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_accents_soft_hyphens_and_invisible_characters_do_not_change_the_pieces(tokenizer):
    assert tokenizer.encode("Ma\u0308dchen") == tokenizer.encode("Mädchen")
    assert tokenizer.encode("the tow\u00ader") == tokenizer.encode("the tower")
    for blank in ("\u200b", "\ufeff", "\x01 \u00ad", "\u3000"):
        assert tokenizer.encode(blank) == []
    assert tokenizer.decode(tokenizer.encode("a\u200bb")) == "a\u200bb"


def test_tags_stay_one_piece():
    tokenizer = Tokenizer(
        train_tokenizer(LINES, vocab_size=331, user_defined_symbols=["<2de>", "<BT>"])
    )
    assert "<2de>" in tokenizer.pieces(tokenizer.encode("<2de> the cat"))
    assert tokenizer.decode(tokenizer.encode("<BT> the cat")) == "<BT> the cat"
    assert tokenizer.piece_words(tokenizer.encode("<2de> the"))[-1] == 1


def test_a_model_with_the_mark_behind_words_is_refused():
    ids = {"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS}
    Tokenizer(trained_elsewhere(**ids))
    with pytest.raises(ValueError, match="word mark at the end"):
        Tokenizer(trained_elsewhere(**ids, treat_whitespace_as_suffix=True))


def test_encoding_adds_no_special_tokens_and_is_the_same_every_time(tokenizer):
    first = tokenizer.encode("the ship follows the tower")
    assert first == tokenizer.encode("the ship follows the tower")
    assert not {PAD, UNK, BOS, EOS} & set(first)
    assert tokenizer.encode_batch(["the ship follows the tower", ""]) == [first, []]


def test_same_lines_give_the_same_bytes(tokenizer):
    again = Tokenizer(train_tokenizer(LINES, vocab_size=331))
    assert again.model == tokenizer.model
    assert again.sha256 == tokenizer.sha256


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_vocabulary_is_smaller_where_the_text_yields_no_more(model_type, caplog):
    with caplog.at_level(logging.INFO):
        model = train_tokenizer(LINES, vocab_size=8000, model_type=model_type)
    size = Tokenizer(model).vocab_size
    assert 260 < size < 8000
    assert f"{size} pieces" in caplog.text
    assert "8000 requested" in caplog.text


def test_too_small_a_vocabulary_is_refused_with_the_smallest_possible_one():
    with pytest.raises(ValueError, match=r"vocab_size is 10\b.*vocab_size=(\d+) or more") as caught:
        train_tokenizer(LINES, vocab_size=10)
    smallest = int(str(caught.value).split("vocab_size=")[1].split()[0])
    letters = set("".join(LINES)) - {" "} | {"▁"}
    assert smallest == 4 + 256 + len(letters)
    assert Tokenizer(train_tokenizer(LINES, vocab_size=smallest)).vocab_size == smallest


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": 3}, "unk=2 .*bos=3 .*eos=1"),
        ({"pad_id": 3, "unk_id": 0, "bos_id": 1, "eos_id": 2}, "pad=3 .*unk=0 .*bos=1 .*eos=2"),
        ({"unk_id": 1, "bos_id": 2, "eos_id": 3, "pad_id": -1}, "pad=-1"),
    ],
)
def test_other_special_ids_are_refused_by_name(ids, message):
    if ids["pad_id"] == -1:
        ids = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    with pytest.raises(ValueError, match=message):
        Tokenizer(trained_elsewhere(**ids))


def test_other_files_are_refused():
    with pytest.raises(ValueError, match="not a SentencePiece model"):
        Tokenizer(b"something else")


def test_long_and_reserved_lines_are_skipped_and_counted(caplog):
    long = "tower " * (MAX_LINE_BYTES // 6 + 1)
    train_tokenizer([*LINES, long, "the ▅ cat", "the▁cat\0", "tower " * 1000], vocab_size=331)
    assert f"without 2 of {len(LINES) + 4} lines" in caplog.text


def test_only_unusable_lines_are_explained():
    with pytest.raises(ValueError, match="no text to learn from: 3 lines were skipped"):
        train_tokenizer(["x" * (MAX_LINE_BYTES + 1)] * 3 + [" "], vocab_size=331)


@pytest.mark.parametrize(
    "text", ["a▁b", "a\0b", "a\ud800b", "▅", "\t", "\u2047", "a\u0085b\u2028c"]
)
def test_encoding_never_fails(tokenizer, text):
    assert UNK not in tokenizer.encode(text)
    assert "\0" not in tokenizer.decode(tokenizer.encode(text))


def test_text_ends_at_the_end_of_sentence(tokenizer):
    cat, dog = tokenizer.encode("cat"), tokenizer.encode("dog")
    assert tokenizer.decode([BOS, *cat, EOS, *dog, PAD]) == "cat"


def test_forbidden_ids_are_fillers_and_line_breaks(tokenizer):
    pieces = tokenizer.pieces(tokenizer.forbidden_ids)
    assert pieces == ["<pad>", "<unk>", "<s>", "<0x00>", "<0x0A>", "<0x0D>"]


def test_decoded_text_has_no_line_break_whatever_the_ids(tokenizer):
    every_id = list(range(4, tokenizer.vocab_size))
    text = tokenizer.decode(every_id)
    assert text.splitlines() == [text]
    assert "\0" not in text


def test_pieces_know_their_word(tokenizer):
    text = "the cat\u00a0sees  Zürich, 漢字 today"
    ids = tokenizer.encode(text)
    words = tokenizer.piece_words(ids)
    assert len(words) == len(ids)
    spelt = [
        tokenizer.decode([token for token, word in zip(ids, words, strict=True) if word == number])
        for number in range(max(words) + 1)
    ]
    assert spelt == text.split()


def test_a_lone_word_mark_begins_no_word_of_its_own(tokenizer):
    cat = tokenizer.encode("cat")
    mark = next(k for k in range(tokenizer.vocab_size) if tokenizer.pieces([k]) == ["▁"])
    words = tokenizer.piece_words([mark, *cat, mark, *cat, mark])
    assert words == [0] * (1 + len(cat)) + [1] * (2 + len(cat))


def test_works_in_a_spawned_process(tokenizer):
    assert pickle.loads(pickle.dumps(tokenizer)).sha256 == tokenizer.sha256
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(tokenizer.encode, ("the cat",)) == tokenizer.encode("the cat")


@pytest.fixture(scope="module")
def bpe():
    symbols = ["<2de>"]
    return Tokenizer(
        train_tokenizer(LINES, vocab_size=331, model_type="bpe", user_defined_symbols=symbols)
    )


def draws(tokenizer):
    usual = tokenizer.encode(LINES[0])
    return [tokenizer.sample(usual, alpha=0.2, draw=random.Random(seed)) for seed in range(20)]


@pytest.mark.parametrize("kind", ["tokenizer", "bpe"])
def test_sampled_pieces_are_other_cuts_of_the_same_text_and_the_same_in_every_process(
    request, kind
):
    tokenizer = request.getfixturevalue(kind)
    drawn = draws(tokenizer)
    assert {tokenizer.decode(ids) for ids in drawn} == {LINES[0]}
    assert len(set(map(tuple, drawn))) > 5
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(draws, tokenizer).result() == drawn


def test_merges_without_dropout_are_the_encoding_and_with_all_left_out_the_characters(bpe):
    draw = random.Random(1)
    text = "".join(draw.choices("theriv üsn漢", k=3000))
    for word in (*LINES[0].split(), *text.split()):
        assert bpe.merge(word) == bpe.encode(word)
    assert bpe.pieces(bpe.merge("ship", 1.0, draw)) == ["▁", *"ship"]


def test_a_tag_stays_one_piece_under_bpe_dropout(bpe):
    drawn = bpe.sample(bpe.encode("<2de> ship"), alpha=0.9, draw=random.Random(1))
    assert bpe.pieces(drawn)[:2] == ["▁", "<2de>"]
    assert len(drawn) > 3


def test_a_cut_is_drawn_as_often_as_its_probability_says(tokenizer):
    cuts, weights = tokenizer.cuts("river", 0.5)
    draw = random.Random(1)
    drawn = [tuple(tokenizer.sample(cuts[0], alpha=0.5, draw=draw)) for _ in range(2000)]
    share = weights[0] / weights[-1]
    assert drawn.count(tuple(cuts[0])) / 2000 == pytest.approx(share, abs=0.05)
