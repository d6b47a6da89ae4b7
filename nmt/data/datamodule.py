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

from nmt.checks import UserError
from nmt.data.batch import Batch
from nmt.data.cleaning import CleaningReport, CleaningRules
from nmt.data.corpus import CorpusOptions, build_options, mixed_corpora
from nmt.data.files import texts
from nmt.data.joining import Concatenation, JoinedPairs
from nmt.data.loader import TrainLoader, outlive_signals
from nmt.data.preparation import TokenisedDataset, TokenizerOptions, get_tokenizer, tokenise
from nmt.data.run_text import Part, RunText
from nmt.data.sampler import TokenBatchSampler
from nmt.tokenizer import Tokenizer, check_unit, count_units, default_unit


class TranslationDataModule(pl.LightningDataModule):
    """Parallel text of one direction as loaders of `Batch`.

    Attributes:
        name: What the corpus is called.
        source_lang: Language code of the sources.
        target_lang: Language code of the targets.
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
        corpora: Mapping[str, Mapping[str, Any]] | None = None,
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
            corpora: Several corpora instead of one, by name, see `MixedCorpus`.

        Raises:
            UserError: An option is impossible.
        """
        super().__init__()
        shared = {
            "directory_splits": directory_splits,
            "columns": columns,
            "expected_sizes": expected_sizes,
        }
        common: dict[str, Any] = {
            "source_lang": source_lang,
            "target_lang": target_lang,
            "lowercase": lowercase,
            **{key: value for key, value in shared.items() if value is not None},
        }
        origin: dict[str, Any] = {
            "hub": hub,
            "directory": directory,
            "train": train,
            "valid": valid,
            "test": test,
            "grammar": grammar,
        }
        if corpora is None:
            options = {name: (CorpusOptions(name=name, **common, **origin), 1.0)}
        else:
            _check_mixture(corpora, origin, concatenate)
            options = mixed_corpora(corpora, common)
        self._mixed = corpora is not None
        self.name, self.source_lang, self.target_lang = name, source_lang, target_lang
        for key, value in (
            ("token_budget", token_budget),
            ("eval_token_budget", eval_token_budget),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"data.{key} is {value!r}; set it to a positive integer (tokens).")
        if not isinstance(num_workers, int) or num_workers < 0:
            raise UserError(f"data.num_workers is {num_workers!r}; set it to 0 or more.")
        if not cleaning.get("language", True):  # configs of runs from before have it, off
            cleaning = {key: value for key, value in cleaning.items() if key != "language"}
        rules = build_options(CleaningRules, cleaning, where="data.cleaning")
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
        self._text = RunText(
            {
                part: Part(
                    options=corpus,
                    weight=weight,
                    rules=rules,
                    source_unit=self.length_unit,
                    target_unit=default_unit(target_lang),
                    cache_dir=self._cache_dir,
                )
                for part, (corpus, weight) in options.items()
            },
            name=name,
            mixed=self._mixed,
            joined_sizes=self._concatenation.test if self._concatenation else None,
        )
        self._tokenised: dict[str, TokenisedDataset] = {}

    # What is made: each once, when first asked for.

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The joint tokenizer of both languages and all corpora."""
        return get_tokenizer(
            self._tokenizer_options,
            self._text.texts("train"),
            [share.weight for share in self._text.shares],
            cache_dir=self._cache_dir,
        )

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
            UserError: Something that the options name is missing or unusable.
        """
        self._text.read()  # all of it before work begins on any
        for name in self._text.names:
            self._pairs(name)

    def setup(self, stage: str | None = None) -> None:
        """Maps what `prepare_data` made, in every process."""
        self.prepare_data()

    def _pairs(self, name: str) -> TokenisedDataset:
        if name not in self._tokenised:
            files = [
                file
                for text in self._text.texts(name)
                for file in tokenise(text, self.tokenizer, cache_dir=self._cache_dir)
            ]
            self._tokenised[name] = TokenisedDataset(files)
        return self._tokenised[name]

    # What there is to know about the text.

    def split(self, name: str) -> Dataset:
        """Returns the raw text of a split (columns source, target, ...); row k is index k.

        Training text is what cleaning left of it, one corpus after the other; all others are whole.

        Raises:
            UserError: There is no such split.
        """
        return self._text.split(name)

    @property
    def valid_splits(self) -> list[str]:
        """Names of the validation sets: `valid`, or `valid_<corpus>` for each corpus of several."""
        return self._text.valid_splits

    @property
    def test_splits(self) -> list[str]:
        """Names of the test sets; the first is the one whose scores are the headline."""
        return self._text.test_splits

    @property
    def cleaning_reports(self) -> dict[str, CleaningReport]:
        """What was removed from the training pairs, by the name of the corpus."""
        return {name: part.cleaned.report for name, part in self._text.parts.items()}

    def source_units(self, name: str) -> list[int]:
        """Returns the length of every source of a split, in `length_unit`."""
        if name == "train":
            lengths: list[int] = self._text.train_units.tolist()
            return lengths
        return [count_units(text, self.length_unit) for text in texts(self.split(name), "source")]

    @cached_property
    def longest_train_source_words(self) -> int:
        """The longest training source, in `length_unit`; the joined ones of the first epoch."""
        lengths = self._text.train_units
        if self._joined_train is None:
            return int(lengths.max())
        return int(self._joined_train.groups(0).sums(lengths).max())

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
            shares=self._text.shares if self._mixed else None,
            accumulate=self.trainer.accumulate_grad_batches if self.trainer else 1,
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

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        """Returns the pairs of each validation set, in the order of `valid_splits`."""
        return [self.eval_loader(name) for name in self.valid_splits]


def _check_mixture(
    corpora: Mapping[str, Any], origin: Mapping[str, Any], concatenate: Mapping[str, Any] | None
) -> None:
    if not corpora:
        raise UserError(
            "data.corpora is empty; give each corpus a name and its text, such as data.corpora="
            "{news:{train:[a.en,a.de],valid:[b.en,b.de],test:[c.en,c.de],weight:2}}."
        )
    for key, value in origin.items():
        if value is not None:
            raise UserError(
                f"data.{key} and data.corpora are both given; move data.{key} into an entry of "
                "data.corpora, or set one of the two to null."
            )
    if concatenate:
        raise UserError(
            "data.concatenate joins pairs of one corpus, not of data.corpora; set it to null."
        )
