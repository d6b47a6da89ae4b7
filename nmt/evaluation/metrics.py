"""BLEU, chrF and, if requested, TER: sacreBLEU's numbers on raw text, with their signatures.

Scores are corpus scores over detokenised text. The signature is what makes two numbers comparable
(Post 2018, "A Call for Clarity in Reporting BLEU Scores"). The last part counts translations that
fail visibly: they repeat themselves, are empty, or copy their source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.checks import UserError

METRICS = ("bleu", "chrf", "ter")
_TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}


@dataclass(frozen=True)
class Scores:
    """The scores of one set of sentences, on a scale of 0 to 100 (TER may exceed 100).

    Attributes:
        bleu: Corpus BLEU, cased (Papineni et al. 2002); higher is better.
        chrf: Character F-score chrF2, cased (Popovic 2015); higher is better.
        ter: Translation edit rate (Snover et al. 2006), lower-cased as on sacreBLEU's command
            line; lower is better. None unless requested.
        signature: BLEU's sacreBLEU signature; `chrf_signature`, `ter_signature` likewise.
        brevity_penalty: BLEU's penalty, below 1 where the hypotheses are too short.
        length_ratio: Tokens of all hypotheses over those of the references; 0 if those are empty.
        num_empty: Hypotheses of nothing but white space.
    """

    bleu: float
    chrf: float
    ter: float | None
    signature: str
    num_sentences: int
    chrf_signature: str
    ter_signature: str | None
    brevity_penalty: float
    length_ratio: float
    num_empty: int


def score(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    target_lang: str,
    metrics: Sequence[str] = ("bleu", "chrf"),
) -> Scores:
    """Scores translations: `sacrebleu REFERENCES -i HYPOTHESES -m bleu chrf -tok TOKENIZER`.

    Args:
        hypotheses: Detokenised translations.
        *references: The raw reference of each, in the same order; several sets of them count as
            alternatives.
        target_lang: Language code that decides the tokenizer.
        metrics: BLEU and chrF are always computed, TER where it is in here. It takes far longer.
            In Chinese and Japanese, whose words have no spaces between them, TER counts characters
            (`--ter-normalized --ter-asian-support`).
    """
    bleu_metric, chrf_metric = _bleu_metric(bleu_tokenizer(target_lang), False), CHRF()
    of_bleu = bleu_score(hypotheses, *references, target_lang=target_lang)
    ter = ter_signature = None
    if "ter" in metrics:
        by_character = bleu_tokenizer(target_lang) in ("zh", "ja-mecab")
        ter_metric = TER(normalized=by_character, asian_support=by_character)
        ter = ter_metric.corpus_score(hypotheses, list(references)).score
        ter_signature = str(ter_metric.get_signature())
    return Scores(
        bleu=of_bleu.score,
        chrf=chrf_metric.corpus_score(hypotheses, list(references)).score,
        ter=ter,
        signature=str(bleu_metric.get_signature()),
        chrf_signature=str(chrf_metric.get_signature()),
        ter_signature=ter_signature,
        num_sentences=len(hypotheses),
        brevity_penalty=of_bleu.bp,
        length_ratio=float(of_bleu.ratio),
        num_empty=sum(not hypothesis.strip() for hypothesis in hypotheses),
    )


def bleu(hypotheses: Sequence[str], *references: Sequence[str], target_lang: str) -> float:
    """Computes BLEU alone, the fast way for validation; the same number as `score(...).bleu`."""
    return bleu_score(hypotheses, *references, target_lang=target_lang).score


def bleu_score(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    target_lang: str,
    effective_order: bool = False,
) -> BLEUScore:
    """Computes BLEU with its parts (penalty, lengths, precisions) for sets of any size.

    Args:
        hypotheses: Detokenised translations.
        *references: As for `score`.
        target_lang: Language code that decides the tokenizer.
        effective_order: Average over the n-gram orders that the hypotheses have at all. It changes
            the score only where no hypothesis has four tokens, which is 0 without it.

    Raises:
        UserError: There is nothing to score, or the counts differ: sacreBLEU cuts to the shorter.
    """
    for texts in references:
        if len(texts) != len(hypotheses) or not hypotheses or isinstance(texts, str):
            raise UserError(
                f"There are {len(hypotheses)} hypotheses and {len(texts)} references; pass a list "
                "with exactly one reference for each hypothesis, and at least one."
            )
    metric = _bleu_metric(bleu_tokenizer(target_lang), effective_order)
    return metric.corpus_score(hypotheses, list(references))  # type: ignore[no-any-return]


def chrf(hypotheses: Sequence[str], *references: Sequence[str]) -> float:
    """Computes chrF2 alone; it needs no tokenizer, hence no language."""
    return float(CHRF().corpus_score(hypotheses, list(references)).score)


def bleu_tokenizer(target_lang: str) -> str:
    """Names the sacreBLEU tokenizer for a target language.

    Chinese is scored by character, Japanese and Korean by MeCab words, all else by `13a`; a region
    or script in the code ("zh-CN", "zho_Hans") does not matter.
    """
    return _TOKENIZERS.get(re.split("[-_]", target_lang.lower())[0], "13a")


def check_metrics(target_lang: str, metrics: Sequence[str] = ("bleu", "chrf")) -> None:
    """Makes sure, before a long run, that its translations can be scored at the end.

    Raises:
        UserError: There is no such metric, or the package that splits this language into words is
            not installed.
    """
    if unknown := sorted(set(metrics) - set(METRICS)):
        raise UserError(f"metrics has {unknown[0]!r}; choose from {', '.join(METRICS)}.")
    _bleu_metric(bleu_tokenizer(target_lang), False)


@lru_cache
def _bleu_metric(tokenizer: str, effective_order: bool) -> BLEU:
    """Builds the metric once: sacreBLEU remembers tokenised references per metric object.

    `force` only silences the warning about text that looks tokenised; it alters no score.
    """
    try:
        return BLEU(tokenize=tokenizer, effective_order=effective_order, force=True)
    except RuntimeError as error:
        raise UserError(
            f"BLEU's tokenizer {tokenizer!r} for this target language is not installed: run "
            f'`pip install "sacrebleu[{tokenizer[:2]}]"`.'
        ) from error


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
    sources: Sequence[str], hypotheses: Sequence[str], *, unit: str
) -> dict[str, float]:
    """Returns the shares of translations that fail in the ways of `failures`."""
    marks = [failures(*pair, unit=unit) for pair in zip(sources, hypotheses, strict=True)]
    shares = np.mean(marks, axis=0).tolist()
    return dict(zip(("repeated", "empty", "copied"), shares, strict=True))
