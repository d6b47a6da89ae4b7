"""Translates and scores the splits of a corpus; what `train` and `evaluate` share."""

from __future__ import annotations

from collections.abc import Sequence

from datasets import Dataset

from nmt.data.length_unit import LengthUnit, count_units
from nmt.evaluation.run_results import SplitResult, TranslatedSentence, score_split
from nmt.translator import Translator


def assess_split(
    translator: Translator, name: str, split: Dataset, *, unit: LengthUnit, batch_tokens: int
) -> SplitResult:
    """Translates every source of a split and scores the translations against its references.

    Args:
        translator: The model and its search.
        name: Name of the split.
        split: Columns source and target, raw text; perhaps document and kind.
        unit: What source lengths are counted in, "word" or "character".
        batch_tokens: Most source tokens in a batch.
    """
    translations = translator.translate(split["source"][:], batch_tokens=batch_tokens)
    origins = split.select_columns([c for c in ("document", "kind") if c in split.column_names])
    facts = list(origins) if origins.column_names else [{}] * len(split)
    sentences: Sequence[TranslatedSentence] = [
        TranslatedSentence(
            index=index,
            source=translation.source,
            reference=reference,
            hypothesis=translation.text,
            score=translation.score,
            source_words=count_units(translation.source, unit),
            **fact,
        )
        for index, (translation, reference, fact) in enumerate(
            zip(translations, split["target"][:], facts, strict=True)
        )
    ]
    return score_split(name, sentences, target_lang=translator.target_lang, unit=unit)
