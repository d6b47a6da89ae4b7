"""Alignment error rate by hand, and links from attention weights."""

import pytest

from nmt.alignment import attention_links, gold_links, score_alignment

A, B, C, D = (0, 0), (1, 1), (2, 1), (3, 3)


def links(*sentences):
    return [tuple(sentence) for sentence in sentences]


def test_each_target_word_is_linked_to_the_source_word_it_looks_at_most():
    weights = [[0.1, 0.7, 0.2], [0.5, 0.1, 0.4], [0.2, 0.4, 0.4]]
    assert attention_links(weights) == ((1, 0), (0, 1), (1, 2))  # the first of equals


def test_gold_links_come_from_lists():
    assert gold_links([[0, 1], [2, 3]]) == ((0, 1), (2, 3))


def test_scores_equal_those_by_hand():
    """A has 4 links, 3 of them possible, 2 sure, of 3 sure ones."""
    scores = score_alignment(
        links({A, B}, {A, D}), sure=links({A}, {A, B}), possible=links({B}, ())
    )
    assert scores.precision == pytest.approx(3 / 4)
    assert scores.recall == pytest.approx(2 / 3)
    assert scores.aer == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert scores.num_sentences == 2


def test_sure_links_count_as_possible_whether_listed_twice_or_not():
    found, sure = links({A, B}), links({A, C})
    disjoint = score_alignment(found, sure=sure, possible=links({B}))
    assert disjoint == score_alignment(found, sure=sure, possible=links({A, B, C}))


def test_counts_are_those_of_the_corpus_not_means_over_sentences():
    sure = links({A}, {A, B, C})
    scores = score_alignment(links({A}, {D}), sure=sure, possible=links((), ()))
    assert scores.recall == pytest.approx(1 / 4)  # the mean over sentences is 1 / 2
