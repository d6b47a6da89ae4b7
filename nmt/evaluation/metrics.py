"""BLEU, chrF and TER by sacreBLEU: raw text in, numbers that its command line confirms out.

Scores are corpus scores over detokenised text with one reference a sentence. Each comes with its
sacreBLEU signature, which is what makes two numbers comparable (Post 2018, "A Call for Clarity in
Reporting BLEU Scores").

The ways in which a translation fails by itself: it repeats, it is empty, it copies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from nmt.evaluation.edit_rate import FastTER

RATES = ("repeated", "empty", "copied")


def failures(source: str, hypothesis: str, *, unit: str = "word") -> tuple[bool, bool, bool]:
    """Says whether a translation repeats a 4-gram, is empty, and equals its source.

    Args:
        source: The input.
        hypothesis: Its translation.
        unit: What a 4-gram is of: "word", or "character" where words have no space between them.
    """
    words = hypothesis.split()
    units = words if unit == "word" else list("".join(words))
    four_grams = [tuple(units[start : start + 4]) for start in range(len(units) - 3)]
    repeated = len(set(four_grams)) < len(four_grams)
    return repeated, not words, bool(words) and words == source.split()


def failure_rates(
    sources: list[str], hypotheses: list[str], members: NDArray[np.intp], *, unit: str
) -> dict[str, float]:
    """Returns the shares of failing translations among some, by the names in `RATES`."""
    marks = np.array([failures(sources[index], hypotheses[index], unit=unit) for index in members])
    return dict(zip(RATES, marks.mean(axis=0).tolist(), strict=True))


_TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
_INSTALL_HINT = {
    "ja-mecab": 'pip install "sacrebleu[ja]"',
    "ko-mecab": 'pip install "sacrebleu[ko]"',
}


@dataclass(frozen=True)
class Scores:
    """The scores of one set of sentences; all three on a scale of 0 to 100 (TER may pass 100).

    Attributes:
        bleu: Corpus BLEU, cased (Papineni et al. 2002); higher is better.
        chrf: Character F-score chrF2, cased (Popovic 2015); higher is better.
        ter: Translation edit rate (Snover et al. 2006); lower is better. Lower-cased, as on
            sacreBLEU's command line: its signature says `case:lc`.
        signature: BLEU's sacreBLEU signature; `chrf_signature`, `ter_signature` likewise.
        num_sentences: Sentences scored, the empty ones included.
        brevity_penalty: BLEU's penalty, below 1 where the hypotheses are too short.
        hypothesis_length: Tokens of BLEU's tokenizer in all hypotheses.
        reference_length: Tokens of BLEU's tokenizer in all references.
        num_empty: Hypotheses of nothing but white space.
    """

    bleu: float
    chrf: float
    ter: float
    signature: str
    chrf_signature: str
    ter_signature: str
    num_sentences: int
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    num_empty: int

    @property
    def length_ratio(self) -> float:
        """Hypothesis length over reference length in tokens; 0 where the references are empty."""
        return self.hypothesis_length / self.reference_length if self.reference_length else 0.0


def bleu_tokenizer(target_lang: str) -> str:
    """Names the sacreBLEU tokenizer for a target language.

    Chinese is scored by character, Japanese and Korean by MeCab words, all else by `13a`; a region
    or script in the code ("zh-CN", "zho_Hans") does not matter.
    """
    return _TOKENIZERS.get(re.split("[-_]", target_lang.lower())[0], "13a")


def check_metrics(target_lang: str) -> None:
    """Makes sure, before a long run, that its translations can be scored at the end.

    Raises:
        ValueError: if the package that splits this language into words is not installed.
    """
    _bleu_metric(bleu_tokenizer(target_lang))


def score(hypotheses: Sequence[str], references: Sequence[str], *, target_lang: str) -> Scores:
    """Scores translations against one reference each, with all three metrics.

    Equals `sacrebleu REFERENCES -i HYPOTHESES -m bleu chrf ter -tok TOKENIZER`; for Chinese and
    Japanese, whose text has no spaces to find words by, TER counts characters
    (`--ter-normalized --ter-asian-support`).

    Args:
        hypotheses: Detokenised translations.
        references: The raw reference of each, in the same order.
        target_lang: Language code that decides the tokenizer.

    Raises:
        ValueError: if the counts differ, there is nothing to score, an element is not a string, or
            the tokenizer's package is missing.
    """
    _check_texts(hypotheses, references)
    bleu_metric = _bleu_metric(bleu_tokenizer(target_lang))
    by_character = bleu_tokenizer(target_lang) in ("zh", "ja-mecab")
    chrf_metric = CHRF()
    ter_metric = FastTER(normalized=by_character, asian_support=by_character)
    bleu_score = bleu_metric.corpus_score(hypotheses, [references])
    return Scores(
        bleu=bleu_score.score,
        chrf=chrf_metric.corpus_score(hypotheses, [references]).score,
        ter=ter_metric.corpus_score(hypotheses, [references]).score,
        signature=str(bleu_metric.get_signature()),
        chrf_signature=str(chrf_metric.get_signature()),
        ter_signature=str(ter_metric.get_signature()),
        num_sentences=len(hypotheses),
        brevity_penalty=bleu_score.bp,
        hypothesis_length=bleu_score.sys_len,
        reference_length=bleu_score.ref_len,
        num_empty=sum(not hypothesis.strip() for hypothesis in hypotheses),
    )


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, target_lang: str) -> float:
    """Computes BLEU alone, the fast way for validation; the same number as `score(...).bleu`.

    Raises:
        ValueError: as `score`.
    """
    return bleu_score(hypotheses, references, target_lang=target_lang).score


def bleu_score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_lang: str,
    effective_order: bool = False,
) -> BLEUScore:
    """Computes BLEU with its parts (penalty, lengths, precisions) for sets of any size.

    Args:
        hypotheses: Detokenised translations.
        references: The raw reference of each.
        target_lang: Language code that decides the tokenizer.
        effective_order: Average over the n-gram orders that the hypotheses have at all. It changes
            the score only where no hypothesis has four tokens, which is 0 without it.

    Raises:
        ValueError: as `score`.
    """
    _check_texts(hypotheses, references)
    metric = _bleu_metric(bleu_tokenizer(target_lang), effective_order)
    return metric.corpus_score(hypotheses, [references])  # type: ignore[no-any-return]


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Computes chrF2 alone; it needs no tokenizer, hence no language.

    Raises:
        ValueError: as `score`.
    """
    _check_texts(hypotheses, references)
    return float(CHRF().corpus_score(hypotheses, [references]).score)


@lru_cache
def _bleu_metric(tokenizer: str, effective_order: bool = False) -> BLEU:
    """Builds the metric once: sacreBLEU remembers tokenised references per metric object.

    `force` only silences the warning about text that looks tokenised; it alters no score.
    """
    try:
        return BLEU(tokenize=tokenizer, effective_order=effective_order, force=True)
    except RuntimeError as error:
        raise ValueError(
            f"BLEU's tokenizer {tokenizer!r} for this target language is not installed: run "
            f"`{_INSTALL_HINT[tokenizer]}`."
        ) from error


def _check_texts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        wrong = [texts] if isinstance(texts, str) else [t for t in texts if not isinstance(t, str)]
        if wrong:
            raise ValueError(
                f"The {name} hold {wrong[0]!r:.60}; pass a list with one string for each sentence."
            )
    if len(hypotheses) != len(references):
        raise ValueError(
            f"There are {len(hypotheses)} hypotheses and {len(references)} references; pass "
            "exactly one reference for each hypothesis."
        )
    if not hypotheses:
        raise ValueError("There are 0 hypotheses to score; pass at least one sentence.")
