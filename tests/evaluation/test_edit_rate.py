"""The fast TER counts the edits that sacreBLEU counts."""

import random

import pytest
from sacrebleu.metrics.lib_ter import translation_edit_rate
from sacrebleu.metrics.ter import TER

from nmt.evaluation import edit_rate
from nmt.evaluation.edit_rate import FastTER, count_edits


@pytest.fixture
def generator():
    return random.Random(13)


def garbled(words, generator):
    """Move two blocks, replace some words, and cut the end."""
    words = list(words)
    for _ in range(2):
        start = generator.randrange(len(words))
        block = words[start : start + 3]
        del words[start : start + 3]
        target = generator.randrange(len(words) + 1)
        words[target:target] = block
    words = [word if generator.random() < 0.9 else "x" for word in words]
    return words[: generator.randrange(len(words) // 2, len(words) + 1)]


@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits"),
    [
        ("a b c d", "a b c d", 0),
        ("c d a b", "a b c d", 1),  # one block moved
        ("a x c", "a b c", 1),  # one substitution
        ("a c", "a b c", 1),  # one insertion
        ("a b b c", "a b c", 1),  # one deletion
        ("d e a b x", "a b c d e", 2),  # one shift, one substitution
        ("", "a b c", 3),
        ("a b", "", 2),
        ("", "", 0),
    ],
)
def test_edits_counted_by_hand(hypothesis, reference, edits):
    assert count_edits(hypothesis.split(), reference.split()) == edits


@pytest.mark.parametrize("vocabulary", [2, 3, 11, 97])
def test_edits_equal_those_of_sacrebleu(generator, vocabulary):
    for _ in range(25):
        reference = [
            str(generator.randrange(vocabulary)) for _ in range(generator.randrange(3, 23))
        ]
        other = [str(generator.randrange(vocabulary)) for _ in range(generator.randrange(23))]
        for hypothesis in (garbled(reference, generator), other):
            expected, _ = translation_edit_rate(hypothesis, reference)
            assert count_edits(hypothesis, reference) == expected, (hypothesis, reference)


def test_edits_equal_those_of_sacrebleu_past_its_limit_on_candidates(generator, monkeypatch):
    reference = [str(generator.randrange(2)) for _ in range(37)]
    hypothesis = generator.sample(reference, k=37)
    edits = count_edits(hypothesis, reference)
    assert edits == translation_edit_rate(hypothesis, reference)[0]
    monkeypatch.setattr(edit_rate, "MAX_SHIFT_CANDIDATES", 10**9)
    assert count_edits(hypothesis, reference) < edits


def test_edits_equal_those_of_sacrebleu_past_its_limits_on_distance(generator):
    """A block moved by 53 words lies outside its search for shifts and its band."""
    reference = [str(generator.randrange(17)) for _ in range(59)]
    hypothesis = reference[53:] + reference[:53]
    assert count_edits(hypothesis, reference) == translation_edit_rate(hypothesis, reference)[0]


def test_corpus_score_and_signature_are_those_of_sacrebleu():
    hypotheses = ["Heute geht der Mann nach Hause .", "", "ein Hund"]
    references = ["Der Mann geht heute nach Hause .", "Er schläft .", ""]
    ours, theirs = FastTER(), TER()
    assert ours.corpus_score(hypotheses, [references]).score == pytest.approx(
        theirs.corpus_score(hypotheses, [references]).score
    )
    assert str(ours.get_signature()) == str(theirs.get_signature())
