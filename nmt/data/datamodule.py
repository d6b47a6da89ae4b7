"""The data of a run, for Lightning: prepares a corpus once, then serves batches of piece ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from nmt.data.batch import Batch
from nmt.data.cache import content_key
from nmt.data.cleaning import CleaningReport, CleaningRules
from nmt.data.columns import texts
from nmt.data.corpus import Corpus, CorpusOptions
from nmt.data.joining import Concatenation, JoinedPairs, join_test
from nmt.data.language_identification import LanguageCheck, load_identifier
from nmt.data.length_unit import check_unit, count_units, default_unit
from nmt.data.loader import TrainLoader, outlive_signals
from nmt.data.options import build_options
from nmt.data.preparation import CleanedText, TokenizerOptions, clean_text, get_tokenizer, tokenise
from nmt.data.sampler import TokenBatchSampler
from nmt.data.tokenised import TokenisedDataset
from nmt.tokenizer import Tokenizer

_JOINED = "test_joined"


class TranslationDataModule(pl.LightningDataModule):
    """Parallel text of one direction as loaders of `Batch`.

    Attributes:
        corpus: What is loaded, and in which direction.
        length_unit: What source lengths are counted in, `word` or `character`.
    """

    def __init__(
        self,
        *,
        name: str,
        source_lang: str,
        target_lang: str,
        cleaning: Mapping[str, Any],
        tokenizer: Mapping[str, Any],
        token_budget: int,
        eval_token_budget: int,
        num_workers: int,
        cache_dir: str,
        seed: int,
        hub: Mapping[str, Any] | None = None,
        directory: str | None = None,
        directory_splits: Mapping[str, str] | None = None,
        train: Sequence[str] | str | None = None,
        valid: Sequence[str] | str | None = None,
        test: Sequence[str] | str | None = None,
        grammar: Mapping[str, Any] | None = None,
        columns: Mapping[str, str | int] | None = None,
        expected_sizes: Mapping[str, int] | None = None,
        lowercase: bool = False,
        length_unit: str | None = None,
        concatenate: Mapping[str, Any] | None = None,
    ) -> None:
        """Checks the options; reads nothing yet. `conf/data/default.yaml` explains each of them.

        Args:
            name: See `CorpusOptions`, also for the origin and the languages.
            source_lang: As above.
            target_lang: As above.
            cleaning: Rules for training pairs, see `CleaningRules`.
            tokenizer: See `TokenizerOptions`.
            token_budget: Largest rows x max(S, T) of a training batch, in tokens.
            eval_token_budget: The same in evaluation.
            num_workers: Processes that make batches ahead; 0 makes them in this one.
            cache_dir: Folder for everything that is made once.
            seed: Makes the order of the batches, together with the epoch.
            hub: See `CorpusOptions`.
            directory: As above.
            directory_splits: As above.
            train: As above.
            valid: As above.
            test: As above.
            grammar: As above.
            columns: As above.
            expected_sizes: As above.
            lowercase: As above.
            length_unit: What source lengths are counted in; None follows the source language.
            concatenate: Joins pairs into longer ones, see `Concatenation`; None joins none.

        Raises:
            ValueError: An option is impossible.
        """
        super().__init__()
        self.corpus = CorpusOptions(
            name=name,
            source_lang=source_lang,
            target_lang=target_lang,
            hub=hub,
            directory=directory,
            train=train,
            valid=valid,
            test=test,
            grammar=grammar,
            columns=columns or {},
            expected_sizes=expected_sizes or {},
            lowercase=lowercase,
            **({"directory_splits": directory_splits} if directory_splits else {}),
        )
        for key, value in (
            ("token_budget", token_budget),
            ("eval_token_budget", eval_token_budget),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"data.{key} is {value!r}; set it to a positive integer (tokens).")
        if not isinstance(num_workers, int) or num_workers < 0:
            raise ValueError(f"data.num_workers is {num_workers!r}; set it to 0 or more.")
        self._rules = build_options(CleaningRules, cleaning, where="data.cleaning")
        self._tokenizer_options = build_options(TokenizerOptions, tokenizer, where="data.tokenizer")
        self._concatenation = (
            build_options(Concatenation, concatenate, where="data.concatenate")
            if concatenate
            else None
        )
        self._token_budget, self._eval_token_budget = token_budget, eval_token_budget
        self._num_workers = num_workers
        self._cache_dir = Path(cache_dir)
        self._seed = seed
        self.length_unit = check_unit(length_unit) if length_unit else default_unit(source_lang)
        self._tokenised: dict[str, TokenisedDataset] = {}

    # What is made: each once, when first asked for.

    @cached_property
    def _raw(self) -> Corpus:
        return Corpus(self.corpus, cache_dir=self._cache_dir)

    @cached_property
    def _language_check(self) -> LanguageCheck | None:
        if not self._rules.language:
            return None
        languages = (self.corpus.source_lang, self.corpus.target_lang)
        try:
            identifier = load_identifier(self._rules.language, languages=languages)
        except ValueError as error:
            raise ValueError(f"data.cleaning.language: {error}") from error
        return LanguageCheck(identifier, *languages)

    @cached_property
    def _cleaned(self) -> CleanedText:
        language_check = self._language_check  # before any text is read
        return clean_text(
            self._raw["train"],
            self._rules,
            source_unit=self.length_unit,
            target_unit=default_unit(self.corpus.target_lang),
            cache_dir=self._cache_dir,
            language_check=language_check,
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The joint tokenizer of both languages."""
        return get_tokenizer(self._tokenizer_options, self._cleaned, cache_dir=self._cache_dir)

    @cached_property
    def _joined_test(self) -> Dataset:
        assert self._concatenation is not None
        return join_test(self._raw["test"], self._concatenation.test)

    @cached_property
    def _joined_train(self) -> JoinedPairs | None:
        if self._concatenation is None:
            return None
        pairs = self._pairs("train")
        return JoinedPairs(
            pairs.source_lengths,
            pairs.target_lengths,
            sizes=self._concatenation.train,
            seed=self._seed,
        )

    def prepare_data(self) -> None:
        """Loads, cleans, trains the tokenizer and encodes; what is there already is only mapped.

        Raises:
            ValueError: Something that the options name is missing or unusable.
        """
        _ = self._language_check  # a file that is refused is refused before any text is read
        for name in self._names:
            self._text(name)  # all of it is read before work begins on any
        for name in self._names:
            self._pairs(name)

    def setup(self, stage: str | None = None) -> None:
        """Maps what `prepare_data` made, in every process."""
        self.prepare_data()

    def _pairs(self, name: str) -> TokenisedDataset:
        if name not in self._tokenised:
            text = self.split(name)
            key = self._cleaned.key if name == "train" else content_key(text)
            self._tokenised[name] = tokenise(
                text, self.tokenizer, key=key, cache_dir=self._cache_dir
            )
        return self._tokenised[name]

    # What there is to know about the text.

    def split(self, name: str) -> Dataset:
        """Returns the raw text of a split (columns source, target, ...); row k is index k.

        Training text is what cleaning left of it; all others are whole.

        Raises:
            ValueError: There is no such split.
        """
        if name not in self._names:
            raise ValueError(
                f"The corpus {self.corpus.name} has no split {name!r}; "
                f"choose one of {', '.join(self._names)}."
            )
        return self._cleaned.dataset if name == "train" else self._text(name)

    def _text(self, name: str) -> Dataset:
        if name == _JOINED and self._concatenation is not None:
            return self._joined_test
        return self._raw[name]

    @property
    def _names(self) -> list[str]:
        return [*self._raw, *([_JOINED] if self._concatenation else [])]

    @property
    def test_splits(self) -> list[str]:
        """Names of the test sets; the first is the one whose scores are the headline."""
        return [name for name in self._names if name not in ("train", "valid")]

    @property
    def cleaning_report(self) -> CleaningReport:
        """What was removed from the training pairs."""
        return self._cleaned.report

    def source_units(self, name: str) -> list[int]:
        """Returns the length of every source of a split, in `length_unit`."""
        return [count_units(text, self.length_unit) for text in texts(self.split(name), "source")]

    @cached_property
    def longest_train_source_words(self) -> int:
        """The longest training source, in `length_unit`; the joined ones of the first epoch."""
        lengths = self.source_units("train")
        if self._joined_train is None:
            return max(lengths)
        return max(sum(lengths[pair] for pair in group) for group in self._joined_train.groups(0))

    # Loaders.

    def train_dataloader(self) -> TrainLoader:
        """Returns the batches of this rank, which resume within an epoch."""
        pairs, joined = self._pairs("train"), self._joined_train
        lengths = pairs if joined is None else joined
        sampler = TokenBatchSampler(
            lengths.source_lengths,
            lengths.target_lengths,
            token_budget=self._token_budget,
            seed=self._seed,
            groups=None if joined is None else joined.groups,
        )
        return TrainLoader(
            pairs,
            sampler,
            num_workers=self._num_workers,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=True,
        )

    def eval_loader(self, name: str) -> DataLoader[Batch]:
        """Returns every pair of a split once, longest first; ranks get uneven shares."""
        pairs = self._pairs(name)
        sampler = TokenBatchSampler(
            pairs.source_lengths,
            pairs.target_lengths,
            token_budget=self._eval_token_budget,
            shuffle=False,
        )
        return DataLoader(
            pairs,  # type: ignore[arg-type]
            sampler=sampler,
            batch_size=None,
            num_workers=self._num_workers,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator().manual_seed(self._seed),
            worker_init_fn=outlive_signals,
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """Returns the validation pairs."""
        return self.eval_loader("valid")
