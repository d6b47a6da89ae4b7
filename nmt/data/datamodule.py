"""The data of a run, for Lightning: prepares its text once, then serves batches of piece ids."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytorch_lightning as pl
import torch
from datasets import Dataset, concatenate_datasets
from torch.utils.data import DataLoader

from nmt import checks
from nmt.checks import UserError
from nmt.data.batch import Batch
from nmt.data.cleaning import CleanedText, CleaningReport, CleaningRules, clean_text, digests_of
from nmt.data.corpus import SIDES, SPLITS, Corpus, Origin, build_options
from nmt.data.files import texts
from nmt.data.joining import Concatenation, JoinedPairs, join_test
from nmt.data.loader import TrainLoader, outlive_signals
from nmt.data.preparation import (
    Sampling,
    TokenisedDataset,
    TokenizerOptions,
    get_tokenizer,
    tokenise,
)
from nmt.data.sampler import Share, TokenBatchSampler
from nmt.tokenizer import Tokenizer, check_unit, count_units, default_unit

logger = logging.getLogger(__name__)

_JOINED = "test_joined"
_MOST_SEEN = 0.01  # of the test pairs may stand in training without a warning


class TranslationDataModule(pl.LightningDataModule):
    """Parallel text of one direction as loaders of `Batch`.

    An only corpus has the splits `train`, `valid`, `test` and perhaps further tests. Of several,
    `train` is the training pairs of all, one corpus after the other, and the other splits are
    called after their corpus: `valid_news`. Everything is read and made when first asked for.

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
        lowercase: bool = False,
        length_unit: str | None = None,
        concatenate: Mapping[str, Any] | None = None,
        corpora: Mapping[str, Mapping[str, Any]] | None = None,
        **origin: Any,
    ) -> None:
        """Checks the options; reads nothing yet. `conf/data/default.yaml` explains each of them.

        Args:
            name: What the corpus is called in logs.
            source_lang: Language code of the sources, such as `en`.
            target_lang: Language code of the targets.
            cleaning: Rules for training pairs, see `CleaningRules`.
            tokenizer: See `TokenizerOptions`.
            token_budget: Largest rows x max(S, T) of a training batch, in tokens.
            eval_token_budget: The same in evaluation.
            num_workers: Processes that make batches ahead; 0 makes them in this one.
            cache_dir: Folder for everything that is made once.
            seed: Makes the order of the batches, together with the epoch.
            lowercase: Lower-case both sides of all splits, references included.
            length_unit: What source lengths are counted in; None follows the source language.
            concatenate: Joins pairs into longer ones, see `Concatenation`; None joins none.
            corpora: Several corpora by name, each with the keys of an `Origin`; None has one.
            origin: Where the one corpus is, see `Origin`.
        """
        super().__init__()
        checks.at_least("data.token_budget", token_budget)
        checks.at_least("data.eval_token_budget", eval_token_budget)
        checks.at_least("data.num_workers", num_workers, 0)
        _check_languages(source_lang, target_lang)
        if not cleaning.get("language", True):  # an old run's config has it, off
            cleaning = {key: value for key, value in cleaning.items() if key != "language"}
        self.name, self.source_lang, self.target_lang = name, source_lang, target_lang
        self.length_unit = check_unit(length_unit) if length_unit else default_unit(source_lang)
        self._rules = build_options(CleaningRules, cleaning, where="data.cleaning")
        self._tokenizer_options = build_options(TokenizerOptions, tokenizer, where="data.tokenizer")
        self._concatenation = None
        if concatenate:
            self._concatenation = build_options(
                Concatenation, concatenate, where="data.concatenate"
            )
        self._token_budget, self._eval_token_budget = token_budget, eval_token_budget
        self._num_workers, self._seed = num_workers, seed
        self._cache_dir = Path(cache_dir)
        self._mixed = corpora is not None
        if corpora is None:
            origins = {name: build_options(Origin, origin, where="data")}
        else:
            origins = _mixed_origins(corpora, origin, concatenate)
        self._corpora = {
            part: Corpus(
                part,
                (source_lang, target_lang),
                origins[part],
                cache_dir=self._cache_dir,
                lowercase=lowercase,
                where=f"data.corpora.{part}" if self._mixed else "data",
                needed=SPLITS[:2] if self._mixed else SPLITS,
            )
            for part in origins
        }
        self._cleaned: dict[str, CleanedText] = {}
        self._tokenised: dict[str, TokenisedDataset] = {}

    def prepare_data(self) -> None:
        """Loads, cleans, trains the tokenizer and encodes; what is there already is only mapped."""
        for corpus in self._corpora.values():  # all is read before work begins on any
            for split in corpus.splits:
                corpus.split(split)
        for name in self._names:
            self._pairs(name)
        _ = self.seen_in_training

    def setup(self, stage: str | None = None) -> None:
        """Maps what `prepare_data` made, in every process."""
        self.prepare_data()

    # The text

    def split(self, name: str) -> Dataset:
        """Returns the raw text of a split (columns source, target, ...); row k is index k.

        Training text is what cleaning left of it, one corpus after the other; all others are whole.
        """
        found = self._texts(name)
        if len(found) == 1:
            return found[0]
        return concatenate_datasets([dataset.select_columns([*SIDES]) for dataset in found])

    @property
    def valid_splits(self) -> list[str]:
        """Names of the validation sets: `valid`, or `valid_<corpus>` for each corpus of several."""
        return [name for name, (_, split) in self._places.items() if split == "valid"]

    @property
    def test_splits(self) -> list[str]:
        """Names of the test sets; the first is the one whose scores are the headline."""
        return [name for name in self._names if name not in ("train", *self.valid_splits)]

    @property
    def cleaning_reports(self) -> dict[str, CleaningReport]:
        """What was removed from the training pairs, by the name of the corpus."""
        return {name: self._train(name).report for name in self._corpora}

    def source_units(self, name: str) -> list[int]:
        """Returns the length of every source of a split, in `length_unit`."""
        if name == "train":
            lengths: list[int] = self._train_units.tolist()
            return lengths
        return [count_units(text, self.length_unit) for text in texts(self.split(name), "source")]

    @cached_property
    def longest_train_source_words(self) -> int:
        """The longest training source, in `length_unit`; the joined ones of the first epoch."""
        if self._joined_train is None:
            return int(self._train_units.max())
        return int(self._joined_train.groups(0).sums(self._train_units).max())

    @cached_property
    def seen_in_training(self) -> dict[str, int]:
        """How many pairs of each test set stand in the training text; a warning says many."""
        train = np.concatenate([self._train(name).digests for name in self._corpora])
        found = {}
        for name in self.test_splits:
            if name == _JOINED:
                continue
            digests = digests_of(self.split(name))
            found[name] = seen = int(np.isin(digests, train).sum())
            if seen > _MOST_SEEN * len(digests):
                logger.warning(
                    "%s of %s pairs of %s stand in the training text too: its scores say too much.",
                    *(f"{seen:,}", f"{len(digests):,}", name),
                )
        return found

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The joint tokenizer of both languages and all corpora."""
        return get_tokenizer(
            self._tokenizer_options,
            self._texts("train"),
            [corpus.weight for corpus in self._corpora.values()],
            cache_dir=self._cache_dir,
        )

    @cached_property
    def _places(self) -> dict[str, tuple[Corpus, str]]:
        """What each split but training is, validation sets first: a corpus and a split of it."""
        places: dict[str, tuple[Corpus, str]] = {}
        for part, corpus in self._corpora.items():
            for split in corpus.splits:
                called = f"{split}_{part}" if self._mixed else split
                if called in places:
                    raise UserError(
                        f"data.corpora.{part} has a split that would be called {called}, as one "
                        "of another corpus is; rename one of the two."
                    )
                if split != "train":
                    places[called] = (corpus, split)
        if {split for _, split in places.values()} == {"valid"}:
            raise UserError("No corpus of data.corpora has a test set; give one to one of them.")
        return dict(sorted(places.items(), key=lambda place: place[1][1] != "valid"))

    @property
    def _names(self) -> list[str]:
        return ["train", *self._places, *([_JOINED] if self._concatenation else [])]

    def _texts(self, name: str) -> list[Dataset]:
        """Returns the text of a split; of training one for each corpus."""
        if name == "train":
            return [self._train(part).dataset for part in self._corpora]
        if name == _JOINED and self._concatenation:
            return [join_test(self.split("test"), self._concatenation.test)]
        if name not in self._places:
            raise UserError(
                f"The corpus {self.name} has no split {name!r}; "
                f"choose one of {', '.join(self._names)}."
            )
        corpus, split = self._places[name]
        return [corpus.split(split)]

    def _train(self, part: str) -> CleanedText:
        if part not in self._cleaned:
            self._cleaned[part] = clean_text(
                self._corpora[part].split("train"),
                self._rules,
                source_unit=self.length_unit,
                target_unit=default_unit(self.target_lang),
                cache_dir=self._cache_dir,
                name=part,
            )
        return self._cleaned[part]

    @property
    def _train_units(self) -> npt.NDArray[np.int32]:
        return np.concatenate([self._train(part).source_units for part in self._corpora])

    # The batches

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        """Does not wait for the copy; Lightning would."""
        return batch.to(device, non_blocking=True)

    def train_dataloader(self) -> TrainLoader:
        """Returns the batches of this rank, which resume within an epoch."""
        pairs, joined = self._pairs("train"), self._joined_train
        lengths = pairs if joined is None else joined
        shares = [
            Share(len(self._train(part).dataset), corpus.weight)
            for part, corpus in self._corpora.items()
        ]
        sampler = TokenBatchSampler(
            lengths.source_lengths,
            lengths.target_lengths,
            token_budget=self._token_budget,
            seed=self._seed,
            groups=None if joined is None else joined.groups,
            shares=shares if self._mixed else None,
            accumulate=self.trainer.accumulate_grad_batches if self.trainer else 1,
        )
        return TrainLoader(
            pairs,
            sampler,
            num_workers=self._num_workers,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=True,
        )

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        """Returns the pairs of each validation set, in the order of `valid_splits`.

        The longest come first, which fails early for want of memory; but where the trainer takes
        some batches only, these are of all lengths.
        """
        part = self.trainer is not None and self.trainer.limit_val_batches != 1.0
        return [self.eval_loader(name, spread=part) for name in self.valid_splits]

    def eval_loader(self, name: str, *, spread: bool = False) -> DataLoader[Batch]:
        """Returns each pair of a split once, longest first or `spread`; ranks get uneven shares."""
        pairs = self._pairs(name)
        sampler = TokenBatchSampler(
            pairs.source_lengths,
            pairs.target_lengths,
            token_budget=self._eval_token_budget,
            shuffle=False,
            spread=spread,
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

    def _pairs(self, name: str) -> TokenisedDataset:
        if name not in self._tokenised:
            files = [
                file
                for text in self._texts(name)
                for file in tokenise(text, self.tokenizer, cache_dir=self._cache_dir)
            ]
            sampling = None
            alpha = self._tokenizer_options.sampling
            if name == "train" and alpha is not None:
                sampling = Sampling(self.tokenizer, alpha, self._seed)
            self._tokenised[name] = TokenisedDataset(files, sampling)
        return self._tokenised[name]


def _check_languages(source_lang: Any, target_lang: Any) -> None:
    for key, value in (("source_lang", source_lang), ("target_lang", target_lang)):
        if not isinstance(value, str) or not value:
            raise UserError(
                f"data.{key} is {value!r}; give a language code such as en (quote a code that YAML "
                "reads as a truth value: 'no')."
            )
    if source_lang == target_lang:
        raise UserError(
            f"data.source_lang and data.target_lang are both {source_lang}; choose two languages."
        )


def _mixed_origins(
    corpora: Mapping[str, Mapping[str, Any]],
    origin: Mapping[str, Any],
    concatenate: Mapping[str, Any] | None,
) -> dict[str, Origin]:
    """Returns the origin of each of `data.corpora`; keys beside them hold where it has none."""
    if not isinstance(corpora, Mapping) or not corpora:
        raise UserError(
            f"data.corpora is {corpora!r}; give each corpus a name and its text, such as "
            "data.corpora={news:{train:[a.en,a.de],valid:[b.en,b.de],test:[c.en,c.de],weight:2}}."
        )
    if concatenate:
        raise UserError(
            "data.concatenate joins pairs of one corpus, not of data.corpora; set it to null."
        )
    common = {key: value for key, value in origin.items() if value is not None}
    for key in common.keys() - {"directory_splits", "columns", "expected_sizes"}:
        raise UserError(
            f"data.{key} and data.corpora are both given; move data.{key} into an entry of "
            "data.corpora, or set one of the two to null."
        )
    found = {}
    for name, values in corpora.items():
        where = f"data.corpora.{name}"
        if not re.fullmatch(r"\w[\w-]*", str(name), re.ASCII):
            raise UserError(f"{where}: call it by letters, digits, _ and -, as files are named.")
        own = {key: value for key, value in values.items() if value is not None}
        found[str(name)] = build_options(Origin, common | own, where=where)
    return found
