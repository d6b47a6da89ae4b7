"""The embedded corpus: lengths, splits, determinism, links, information, lexicon."""

import hashlib
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.grammar import VERSION, Grammar, GrammarPair, generate_splits, swapped
from nmt.grammar.lexicon import load_lexicon
from nmt.grammar.splits import LONG_TEST_BUCKETS, TEST_BUCKETS
from nmt.grammar.tokens import Draw, Table, links

SMALL = {"train_size": 307, "valid_size": 31, "test_per_bucket": 5}


def words(sentence: str) -> int:
    return len(sentence.split())


@pytest.fixture(scope="module")
def splits() -> dict[str, list[GrammarPair]]:
    return generate_splits(seed=3, **SMALL)


@pytest.fixture(scope="module")
def samples() -> list[GrammarPair]:
    generator = random.Random(5)
    grammar = Grammar()
    return [grammar.pair(generator.randint(3, 40), generator) for _ in range(1000)]


@settings(max_examples=150, deadline=None)
@given(
    length=st.integers(3, 80),
    seed=st.integers(0, 2**32),
    lexicon=st.sampled_from(["core", "full"]),
)
def test_length_is_met_within_two_words_and_every_word_is_linked(length, seed, lexicon):
    pair = Grammar(lexicon=lexicon).pair(length, random.Random(seed))
    assert abs(words(pair.source) - length) <= 2
    assert words(pair.source) >= 3
    assert 1 <= pair.num_sentences <= 3
    assert not set(pair.sure) & set(pair.possible)
    linked = pair.sure + pair.possible
    assert {source for source, _ in linked} == set(range(words(pair.source)))
    assert {target for _, target in linked} == set(range(words(pair.target)))


def test_links_are_sure_and_possible_by_key():
    english = [("does", -1), ("not", 2), ("call", 1), ("him", 3)]
    german = [("ruft", 1), ("ihn", 3), ("nicht", 2), ("an", 1), ("ja", 0)]
    sure, possible = links(english, german)
    assert sure == ((1, 2), (2, 0), (2, 3), (3, 1))
    assert possible == ((0, 0), (0, 3))


def test_swapping_turns_the_links_round():
    pair = GrammarPair("a b", "x y z", ((0, 2), (1, 0)), ((1, 1),), 1.5, 1)
    assert swapped(pair) == GrammarPair("x y z", "a b", ((0, 1), (2, 0)), ((1, 1),), 1.5, 1)
    assert swapped(swapped(pair)) == pair


def test_text_is_cased_and_punctuated(samples):
    for pair in samples:
        for side in (pair.source, pair.target):
            assert side == " ".join(side.split())
            assert not re.search(r"[,.?]{2}|\s[,.?]|,[.?]", side)
            parts = re.split(r"(?<=[.?]) ", side)
            assert len(parts) == pair.num_sentences
            for part in parts:
                assert part[0].isupper()
                assert part[-1] in ".?"


def test_choices_count_their_information():
    draw = Draw(random.Random(7), load_lexicon("core"))
    table = Table({"a": 1.0, "b": 1.0, "c": 2.0})
    for _ in range(20):
        draw.restart()
        item = draw.pick(table)
        assert draw.bits == pytest.approx(1.0 if item == "c" else 2.0)
    draw.restart()
    draw.integer(3, 10)
    assert draw.bits == pytest.approx(3.0)


def test_frequent_words_come_first_in_the_lexicon(samples):
    running = " ".join(pair.source for pair in samples)
    assert running.count(" dog") > 2 * running.count(" bear") > 0


def test_splits_have_the_sizes_and_lengths_asked_for(splits):
    assert {name: len(pairs) for name, pairs in splits.items()} == {
        "train": 307,
        "valid": 31,
        "test": 25,
        "test_long": 15,
    }
    for name in ("train", "valid"):
        assert all(3 <= words(pair.source) <= 50 for pair in splits[name])
    for name, buckets in (("test", TEST_BUCKETS), ("test_long", LONG_TEST_BUCKETS)):
        for number, (low, high) in enumerate(buckets):
            bucket = splits[name][5 * number : 5 * number + 5]
            assert all(low <= words(pair.source) <= high for pair in bucket)


def test_short_heavy_makes_half_of_the_training_pairs_short(splits):
    short = sum(words(pair.source) <= 10 for pair in splits["train"])
    assert short == 154  # of 307


def test_no_sentence_is_in_two_splits_and_no_pair_twice(splits):
    owner = {}
    for name, pairs in splits.items():
        sources = [pair.source for pair in pairs]
        assert len(set(sources)) == len(sources)
        for sentence in re.split(r"(?<=[.?]) ", " ".join(sources)):
            assert owner.setdefault(sentence, name) == name


def test_splits_depend_on_the_seed_alone(splits):
    assert generate_splits(seed=3, **SMALL) == splits
    assert generate_splits(seed=4, **SMALL)["train"] != splits["train"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_distribution": "normal"}, "length_distribution is 'normal'"),
        ({"train_size": -1}, "train_size is -1"),
        ({"lexicon": "huge"}, "no lexicon 'huge': choose one of core, full"),
    ],
)
def test_impossible_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        generate_splits(**options)


def lemmas(name: str) -> list[tuple[str, str, str]]:
    lexicon = load_lexicon(name)
    nouns = [noun for listed in lexicon.nouns.values() for noun in listed]
    adverbs = [adverb for listed in lexicon.adverbs.values() for adverb in listed]
    verbs = [verb for listed in lexicon.verbs.by_frame.values() for verb in listed]
    return [
        *(("noun", noun.english[0], noun.singular[0]) for noun in nouns),
        *(("adjective", word.english, word.german) for word in lexicon.adjectives),
        *(("adverb", " ".join(word.english), " ".join(word.german)) for word in adverbs),
        *{("verb", " ".join((word.base, *word.particles)), word.infinitive) for word in verbs},
    ]


@pytest.mark.parametrize(("name", "least", "most"), [("core", 190, 230), ("full", 400, 600)])
def test_lexicon_translates_each_lemma_in_one_way(name, least, most):
    entries = lemmas(name)
    assert least <= len(entries) <= most
    for side in (1, 2):
        seen = [entry[side] for entry in entries]
        assert sorted({word for word in seen if seen.count(word) > 1}) == []


def test_no_verb_looks_the_same_in_present_and_past():
    look_alike = "beat bet cast cost cut hit hurt let put read set shut"
    for name in ("core", "full"):
        assert not set(look_alike.split()) & {
            english for kind, english, _ in lemmas(name) if kind == "verb"
        }


def test_changed_text_has_a_new_version():
    """If this fails on purpose, raise `nmt.grammar.VERSION`: cached corpora are then rebuilt."""
    splits = generate_splits(train_size=300, valid_size=40, test_per_bucket=5)
    pairs = [(p.source, p.target, p.sure, p.possible) for found in splits.values() for p in found]
    digest = hashlib.sha256(repr(pairs).encode()).hexdigest()[:16]
    assert (VERSION, digest) == (1, "990de3a4589541cf")
