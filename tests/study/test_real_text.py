"""Findings that only a corpus of running text with linked phrases has."""

from types import SimpleNamespace

import numpy as np

from nmt.alignment import WordAttention
from nmt.study.findings import alignment
from nmt.study.findings.alignment import hits, precision
from nmt.study.findings.joined import LONGEST_RUNNING, neighbours
from nmt.study.statistics import Estimate


def test_neighbours_are_joined_within_a_passage_and_alone():
    documents = ["Gen 1:1"] * 5 + ["Gen 2:1"] * 2
    groups = neighbours(documents, [10] * 7)
    assert groups == [*([i] for i in (0, 1, 2, 3, 5, 6)), [0, 1], [2, 3], [5, 6], [0, 1, 2]]


def test_a_group_is_no_longer_than_the_limit():
    long = LONGEST_RUNNING - 10
    assert neighbours(["a"] * 4, [long, long, 10, 10]) == [[1], [2], [1, 2]]
    assert neighbours(["a", "b"], [1, 1]) == []


def test_a_hit_is_a_preferred_word_in_the_linked_phrase():
    weights = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7], [0.4, 0.3, 0.2, 0.1]])
    links = [(0, 0), (1, 0), (0, 1), (3, 2)]  # target 0 has words 0 and 1, 1 has 0, 2 has 3
    # Uniform: 2/4 + 1/4 + 1/4. Diagonal of 3 over 4 words: 0, 2, 3.
    assert hits(weights, links) == [3, 1, 1.0, 2, 4]
    assert precision(np.array([[4, 1, 0, 0, 0], [0, 0, 0, 0, 0]])).tolist() == [0.25, 0]


def test_links_beyond_a_cut_sentence_do_not_count():
    assert hits(np.ones((1, 1)), [(0, 0), (5, 0), (0, 7)]) == [1, 1, 1.0, 1, 1]


def test_the_share_of_a_score_of_nothing_has_no_value():
    half, none = (Estimate(x, np.full(3, x)) for x in (10.0, 0.0))
    assert half.over(Estimate(20.0, np.full(3, 20.0))).entry() == {
        "value": 0.5,
        "low": 0.5,
        "high": 0.5,
    }
    assert half.over(none).entry() == {"value": None, "low": None, "high": None}


def test_a_test_set_with_linked_phrases_is_measured_and_shown():
    words = WordAttention(("a", "b"), ("c",), np.array([[[0.2, 0.8]]], np.float32))
    run = SimpleNamespace(
        headline_split="test",
        data=SimpleNamespace(test_splits=["test", "kjv"], source_units=lambda split: [12, 25]),
        batch_tokens=100,
        pairs=lambda split: [("a b", "c")] * 2,
        column=lambda split, name: [[[1, 0]]] * 2 if (split, name) == ("kjv", "links") else None,
        translator=SimpleNamespace(
            attention=lambda *pair: words, attentions=lambda pairs, batch_tokens: [words] * 2
        ),
    )
    found = alignment.measure(run)
    assert [(row["split"], row["links"]) for row in found["attention"]] == [("kjv", [[1, 0]])] * 2
    assert found["linked_phrases"] == {
        "split": "kjv",
        "layer": 0,
        "num_links": 1,
        "precision": 1,
        "recall": 1,
        "uniform": 0.5,
        "diagonal": 1,
    }
