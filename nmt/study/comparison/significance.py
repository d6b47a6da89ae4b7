"""Is a difference more than chance? Paired tests of sacreBLEU, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from nmt.evaluation.metrics import bleu_tokenizer

NUM_TRIALS = 10_000


@dataclass(frozen=True)
class TestResult:
    """One paired test: BLEU of both sides on the same sentences and the chance to see their gap."""

    __test__ = False  # no test case, whatever pytest makes of the name

    baseline_bleu: float
    bleu: float
    p_value: float


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects p-values for having tested more than once (Holm 1979).

    The smallest of m is multiplied by m, the next by m - 1 and so on; none falls below the one
    before it, none exceeds 1. Rejecting those below a level keeps the chance of any false
    rejection below it.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def paired_test(
    baseline: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_lang: str,
    num_trials: int = NUM_TRIALS,
) -> TestResult:
    """Tests a difference in corpus BLEU by paired approximate randomisation.

    Riezler and Maxwell (2005): if the systems were alike, exchanging their translations of random
    sentences would make gaps as large as the one seen. sacreBLEU counts only larger gaps, which
    makes p far too small where hardly any sentence differs; with m different ones no p can be
    below 2^(1 - m), the chance of the gap seen itself or its mirror image.

    Args:
        baseline: Translations of one system.
        hypotheses: Translations of the other, of the same sentences.
        references: The raw reference of each.
        target_lang: Language code that decides BLEU's tokenizer.
        num_trials: Random exchanges.
    """
    metric = BLEU(tokenize=bleu_tokenizer(target_lang), effective_order=True, force=True)
    test = PairedTest(
        [("baseline", baseline), ("system", hypotheses)],
        {"BLEU": metric},
        [references],
        test_type="ar",
        n_samples=num_trials,
    )
    _, scores = test()
    first, second = cast(list[Result], scores["BLEU"])
    num_different = sum(a != b for a, b in zip(baseline, hypotheses, strict=True))
    smallest = min(1.0, 2.0 ** (1 - num_different))
    return TestResult(first.score, second.score, max(smallest, cast(float, second.p_value)))
