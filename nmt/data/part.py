"""One corpus of a run as it is used: its training text cleaned, all other text whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nmt.data.cleaning import CleaningRules
from nmt.data.corpus import Corpus, CorpusOptions
from nmt.data.language_identification import LanguageCheck, load_identifier
from nmt.data.length_unit import LengthUnit
from nmt.data.preparation import CleanedText, clean_text
from nmt.data.text import Text


@dataclass(frozen=True, kw_only=True)
class Part:
    """A corpus, read and cleaned when first asked for.

    Attributes:
        options: What corpus it is.
        weight: How often each training pair is seen in an epoch, on average.
        rules: What is removed from the training pairs.
        source_unit: What the length of a source is counted in.
        target_unit: What the length of a target is counted in.
        cache_dir: Where everything is kept that is made once.
    """

    options: CorpusOptions
    weight: float
    rules: CleaningRules
    source_unit: LengthUnit
    target_unit: LengthUnit
    cache_dir: Path

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus as it is.

        Raises:
            ValueError: It lacks a split that is needed.
        """
        corpus = Corpus(self.options, cache_dir=self.cache_dir)
        for split in self.options.needed:
            if split not in list(corpus):  # `in corpus` would read it
                raise ValueError(
                    f"{self.options.where} has no split {split!r} but {', '.join(corpus)}; add it."
                )
        return corpus

    @cached_property
    def language_check(self) -> LanguageCheck | None:
        """What the rule `language` needs; None where it is off.

        Raises:
            ValueError: The model file is missing, damaged or of other languages.
        """
        if not self.rules.language:
            return None
        languages = (self.options.source_lang, self.options.target_lang)
        try:
            identifier = load_identifier(self.rules.language, languages=languages)
        except ValueError as error:
            raise ValueError(f"data.cleaning.language: {error}") from error
        return LanguageCheck(identifier, *languages)

    @cached_property
    def cleaned(self) -> CleanedText:
        """The training pairs that are used."""
        return clean_text(
            self.corpus.text("train"),
            self.rules,
            source_unit=self.source_unit,
            target_unit=self.target_unit,
            language_check=self.language_check,
            cache_dir=self.cache_dir,
            name=self.options.name,
        )

    def text(self, split: str) -> Text:
        """Returns a split as it is used."""
        return self.cleaned.text if split == "train" else self.corpus.text(split)
