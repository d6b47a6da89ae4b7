import numpy as np
import pytest
from number_words import WORDS

from nmt.data.joining import JoinedPairs
from nmt.tokenizer import Tokenizer, train_tokenizer


@pytest.fixture
def lengths():
    random = np.random.default_rng(1)
    return random.integers(2, 7, size=211), random.integers(2, 7, size=211)


@pytest.fixture
def joined(lengths):
    return JoinedPairs(*lengths, sizes=[1, 2, 4], seed=1)


def test_every_pair_is_in_one_group_of_an_epoch(joined):
    for epoch in range(3):
        members = [pair for group in joined.groups(epoch) for pair in group]
        assert sorted(members) == list(range(211))


def test_the_lengths_are_those_of_the_joined_texts_in_every_epoch(joined, lengths):
    source, target = lengths
    for epoch in range(3):
        groups = joined.groups(epoch)
        for of_group, of_pair in ((joined.source_lengths, source), (joined.target_lengths, target)):
            # the pieces of all, and one EOS
            assert of_group.tolist() == [sum(of_pair[g] - 1) + 1 for g in groups]


def test_the_pairs_of_a_group_change_from_epoch_to_epoch(joined):
    first, second = joined.groups(0), joined.groups(1)
    assert [len(group) for group in first] == [len(group) for group in second]
    moved = sum(a != b for a, b in zip(first, second, strict=True))
    assert moved > 0.8 * len(first)
    assert list(joined.groups(1)) == list(second)


def test_sizes_are_equally_likely(joined):
    sizes = [len(group) for group in list(joined.groups(0))[:-1]]  # the last one takes what is left
    assert set(sizes) == {1, 2, 4}
    assert all(len(sizes) / 5 < sizes.count(size) < len(sizes) / 2 for size in (1, 2, 4))


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_joined_pieces_are_the_pieces_of_the_joined_text(model_type):
    lines = [f"{a} {b}, {a}." for a in WORDS for b in WORDS]
    tokenizer = Tokenizer(train_tokenizer(lines, vocab_size=290, model_type=model_type))
    a, b = "two three, two.", "five (unseen) one."
    assert tokenizer.encode(a) + tokenizer.encode(b) == tokenizer.encode(f"{a} {b}")
