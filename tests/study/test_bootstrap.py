"""Resamples are what they are called, and their scores are those of sacreBLEU."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.study.statistics import (
    Estimate,
    Resamples,
    bleu_of,
    bleu_statistics,
    brevity_penalty_of,
    chrf_of,
    chrf_statistics,
    draw_resamples,
    length_ratio_of,
)

REFERENCES = [
    "Ein kleines Mädchen läuft über die Wiese.",
    "Der Hund schläft.",
    "Ja.",
    "",
    "Die Frau , die das Buch liest , lacht laut .",
]
HYPOTHESES = [
    "Ein Mädchen läuft über die Wiese.",
    "",
    "Nein.",
    "Etwas",
    "Die Frau, die das Buch liest, lacht lacht laut.",
]


@pytest.mark.parametrize(
    "weights", [(1, 1, 1, 1, 1), (0, 1, 2, 0, 0), (1, 0, 0, 2, 3), *np.eye(5, dtype=int).tolist()]
)
@pytest.mark.parametrize(("language", "tokenizer"), [("de", "13a"), ("zh", "zh")])
def test_scores_of_weighted_sums_are_those_of_sacrebleu(weights, language, tokenizer):
    """A weight is how often a sentence is there."""
    hypotheses, references = (
        np.repeat(texts, weights).tolist() for texts in (HYPOTHESES, REFERENCES)
    )
    metric = BLEU(tokenize=tokenizer, effective_order=True, force=True)
    bleu = metric.corpus_score(hypotheses, [references])
    sums = np.array(weights) @ bleu_statistics(HYPOTHESES, REFERENCES, target_lang=language)
    assert bleu_of(sums) == pytest.approx(bleu.score)
    assert brevity_penalty_of(sums) == pytest.approx(bleu.bp)
    if any(references):
        assert length_ratio_of(sums) == pytest.approx(bleu.sys_len / bleu.ref_len)
    chrf = np.array(weights) @ chrf_statistics(HYPOTHESES, REFERENCES)
    assert chrf_of(chrf) == pytest.approx(CHRF().corpus_score(hypotheses, [references]).score)


def test_sentences_are_drawn_within_their_bucket():
    weights = draw_resamples([0, 0, 0, 2, 2], seeds=[1], num_resamples=50).weights
    assert (weights[:, :3].sum(1) == 3).all()
    assert (weights[:, 3:].sum(1) == 2).all()
    assert len(np.unique(weights, axis=0)) > 10


def test_documents_are_drawn_whole_before_their_sentences():
    documents = ["b", "a", "b", "b"]
    weights = draw_resamples(
        [0, 0, 1, 1], seeds=[1], documents=documents, num_resamples=200
    ).weights
    in_a, in_b = weights[:, 1], weights[:, [0, 2, 3]].sum(1)
    # Two documents are drawn: a and a, a and b, or b and b.
    assert set(zip(in_a, in_b, strict=True)) == {(2, 0), (1, 3), (0, 6)}
    assert weights[:, 0].max() > 2


def test_the_same_seed_draws_the_same_and_another_does_not():
    first, second = (draw_resamples([0] * 9, seeds=[1, 2], num_resamples=5) for _ in range(2))
    other = draw_resamples([0] * 9, seeds=[1, 2], num_resamples=5, seed=7)
    assert (first.weights == second.weights).all()
    assert (first.seed_noise[2] == second.seed_noise[2]).all()
    assert (first.weights != other.weights).any()


def test_a_resample_scores_the_sentences_it_drew_under_each_seed():
    """The score is the sum itself; seeds give 1 and 10 for each sentence."""
    weights = np.array([[1.0, 0, 5], [2, 2, 5], [0, 0, 5]])
    scores = Resamples(weights, {}, np.empty(0)).scores(
        np.array([[[1.0]] * 3, [[10.0]] * 3]),
        members=np.array([0, 1]),
        score=lambda sums: sums[..., 0],
    )
    assert scores[:2].tolist() == [[1, 10], [4, 40]]
    assert np.isnan(scores[2]).all()


def test_the_mean_over_two_seeds_moves_as_written_out():
    """z = 3 and 1, centred 1 and -1; the scale is 2: weights 1/2 + 1/2/sqrt(2) and the rest."""
    noise = {5: np.array([3.0]), 8: np.array([1.0])}
    resamples = Resamples(np.ones((1, 4)), noise, np.array([[-2.0, 9.0]]))
    means = resamples.average_over_seeds(np.array([[10.0, 30.0]]), [5, 8])
    assert means == pytest.approx([20 - 10 / 2**0.5])
    assert resamples.average_over_seeds(np.array([[30.0]]), [8]).tolist() == [30]


@pytest.mark.parametrize("num_seeds", [2, 3, 5])
def test_intervals_over_few_seeds_cover_what_they_say(num_seeds):
    """Where seeds alone vary: 95 % of them hold the mean of the population, 0."""
    seeds = range(num_seeds)
    resamples = draw_resamples([0], seeds=seeds, num_resamples=4000)
    scores = np.random.default_rng(3).standard_normal((4000, num_seeds))
    replicates = [resamples.average_over_seeds(row[None], seeds) for row in scores]
    low, high = np.percentile(replicates, [2.5, 97.5], axis=1)
    assert ((low < 0) & (high > 0)).mean() == pytest.approx(0.95, abs=0.015)


def test_systems_that_share_seeds_are_paired_and_others_are_not():
    """Both systems have the same scores under the same seeds: their difference is 0."""
    scores = np.array([[1.0, 5.0, 12.0]])
    resamples = draw_resamples([0], seeds=[1, 2, 3, 4, 5, 6], num_resamples=4000)

    def means(*seeds):
        return resamples.average_over_seeds(scores, seeds)

    assert np.ptp(means(1, 2, 3)) > 5
    assert (means(1, 2, 3) - means(1, 2, 3)).tolist() == [0] * 4000
    signs = np.sign(means(1, 2, 3) - 6), np.sign(means(4, 5, 6) - 6)
    assert (signs[0] * signs[1]).mean() == pytest.approx(0, abs=0.06)
    signs = np.sign(means(1, 2, 3) - 6), np.sign(means(1, 2, 6) - 6)
    assert (signs[0] * signs[1]).mean() > 0.2


def test_two_systems_that_differ_by_a_constant_have_a_difference_without_spread():
    """Paired: the same sentences and seeds for both."""
    statistics = np.random.default_rng(5).random((3, 20, 1))
    resamples = draw_resamples([0] * 20, seeds=[1, 2, 3], num_resamples=40)

    def mean(shift):
        scores = resamples.scores(
            statistics, members=np.arange(20), score=lambda sums: sums[..., 0] / 20 + shift
        )
        return resamples.average_over_seeds(scores, [1, 2, 3])

    assert np.ptp(mean(0.0)) > 0.01
    assert mean(2.0) - mean(0.0) == pytest.approx(np.full(40, 2.0))


def test_an_interval_holds_the_middle_of_the_known_resamples():
    found = Estimate(50.0, np.array([np.nan, *range(101)])).entry()
    assert found == pytest.approx({"value": 50.0, "low": 2.5, "high": 97.5})
    assert Estimate(np.nan, np.arange(3.0)).entry()["value"] is None
    assert Estimate(1.0, np.array([np.nan])).entry()["low"] is None


def test_the_interval_of_a_score_stays_between_0_and_100():
    found = Estimate(94.0, np.linspace(80, 110, 1000), np.array([98.0, 90.0])).entry()
    assert (found["value"], found["high"]) == (94.0, 100.0)
    assert found["by_seed"] == [98.0, 90.0]
