"""Every sentence lies in exactly one length bucket, and each bucket's score is its own."""

import pytest

from nmt.evaluation.by_length import Bucket, bleu_by_length, join_small, sort_by_length, trim_empty
from nmt.evaluation.metrics import bleu, chrf, score

RIGHT = "Der alte Hund bellt laut im Garten."
WRONG = "Wir gehen morgen früh einfach wieder weg!"


def counts(lengths, **options):
    texts = [RIGHT] * len(lengths)
    buckets = bleu_by_length(texts, texts, lengths, target_lang="de", **options)
    return {bucket.label: bucket.num_sentences for bucket in buckets}


def test_lengths_on_the_edges_fall_to_the_lower_bucket():
    lengths = [1, 9, 10, 11, 19, 20, 21, 500]
    assert counts(lengths, edges=(10, 20)) == {"1-10": 3, "11-20": 3, "21+": 2}


@pytest.mark.parametrize("edges", [(10, 20, 30), (1,), (3, 7, 50)])
def test_every_length_falls_into_exactly_one_bucket(edges):
    lengths = list(range(1, 97))
    buckets = bleu_by_length([RIGHT] * 96, [RIGHT] * 96, lengths, target_lang="de", edges=edges)
    assert sum(bucket.num_sentences for bucket in buckets) == 96
    for length in lengths:
        assert sum(b.low <= length and (b.high is None or length <= b.high) for b in buckets) == 1
    assert [bucket.num_sentences for bucket in buckets[:-1]] == [
        bucket.high - bucket.low + 1 for bucket in buckets[:-1]
    ]


def test_an_empty_source_is_counted_in_the_first_bucket_which_then_starts_at_0():
    assert counts([0, 5, 11], edges=(10,)) == {"0-10": 2, "11+": 1}
    assert counts([5, 11], edges=(10,)) == {"1-10": 1, "11+": 1}


def test_the_default_buckets_are_tens_up_to_an_open_one_past_80():
    labels = list(counts([5]))
    assert labels == [f"{low}-{low + 9}" for low in range(1, 81, 10)] + ["81+"]


def test_a_bucket_is_scored_on_its_own_sentences_only():
    hypotheses = [RIGHT, WRONG, RIGHT]
    references = [RIGHT, RIGHT, RIGHT]
    low, high = bleu_by_length(hypotheses, references, [7, 13, 5], target_lang="de", edges=(10,))
    assert (low.num_sentences, low.bleu) == (2, pytest.approx(100))
    assert high.num_sentences == 1
    assert high.bleu == pytest.approx(bleu([WRONG], [RIGHT], target_lang="de"))
    assert high.chrf == pytest.approx(chrf([WRONG], [RIGHT]))


def test_one_bucket_with_everything_has_the_corpus_score():
    hypotheses, references = [RIGHT, WRONG, "Ja."], [RIGHT, RIGHT, "Nein, danke sehr."]
    whole = score(hypotheses, references, target_lang="de")
    bucket = bleu_by_length(hypotheses, references, [3, 5, 7], target_lang="de")[0]
    assert bucket.bleu == whole.bleu
    assert bucket.chrf == whole.chrf
    assert bucket.brevity_penalty == whole.brevity_penalty
    assert bucket.length_ratio == whole.length_ratio


def test_a_bucket_without_four_grams_is_scored_on_the_orders_it_has():
    """Plain BLEU calls a right two-word answer 0."""
    texts = ["Ja", "Nein danke"]
    assert bleu(texts, texts, target_lang="de") == 0.0
    bucket = bleu_by_length(texts, texts, [1, 2], target_lang="de")[0]
    assert bucket.bleu == pytest.approx(100)


def test_empty_buckets_have_no_score_and_are_dropped_at_the_ends_only():
    texts = [RIGHT] * 2
    buckets = bleu_by_length(texts, texts, [15, 35], target_lang="de")
    assert buckets[2] == Bucket(21, 30)
    assert [bucket.label for bucket in trim_empty(buckets)] == ["11-20", "21-30", "31-40"]


def test_small_ranges_are_joined_to_the_next_and_the_last_to_the_one_before():
    lengths = [5, 15, 16, 35, 36, 37, 45]
    joined = join_small(sort_by_length(lengths), 3)
    assert [(bucket.label, indices) for bucket, indices in joined] == [
        ("1-20", [0, 1, 2]),
        ("31-50", [3, 4, 5, 6]),
    ]
    assert [bucket.label for bucket, _ in join_small(sort_by_length(lengths), 9)] == ["1-50"]
    assert [bucket.num_sentences for bucket, _ in join_small(sort_by_length(lengths), 1)] == [
        1, 2, 3, 1,
    ]  # fmt: skip
