"""Tests find what is there and are corrected for their number."""

import pytest

from nmt.study.statistics import holm, paired_test

NUMBERS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


def test_holm_multiplies_by_the_number_of_tests_left_and_keeps_the_order():
    """Sorted: .01 x 4, .02 x 3, .03 x 2, .5 x 1; the third would fall below the second."""
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([0.4, 0.6]) == pytest.approx([0.8, 0.8])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.fixture
def references():
    return [" ".join(NUMBERS[i:] + NUMBERS[:i]) for i in range(10)]


def test_systems_that_are_alike_do_not_differ(references):
    found = paired_test(references, references, references, target_lang="de", num_trials=100)
    assert found["baseline_bleu"] == found["bleu"] == pytest.approx(100)
    assert found["p_value"] == 1.0


def test_three_different_sentences_are_too_few_for_a_small_p_value(references):
    """Of the 8 ways to exchange three sentences, two have the gap seen or its mirror image."""
    worse = [text.replace("vier fünf", "fünf vier") for text in references[:3]]
    found = paired_test(
        [*worse, *references[3:]], references, references, target_lang="de", num_trials=200
    )
    assert found["p_value"] >= 2 / 8


def test_a_system_that_is_worse_everywhere_differs(references):
    worse = [text.replace("vier fünf", "fünf vier") for text in references]
    found = paired_test(worse, references, references, target_lang="de", num_trials=200)
    assert found["baseline_bleu"] < found["bleu"]
    assert found["p_value"] < 0.05
