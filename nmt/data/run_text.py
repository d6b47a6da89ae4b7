"""The text of a run: training pairs of one corpus or of several, and the sets that are scored.

One corpus of a run as it is used: its training text cleaned, all other text whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from datasets import Dataset, concatenate_datasets

from nmt.checks import UserError
from nmt.data.cleaning import CleaningRules
from nmt.data.corpus import Corpus, CorpusOptions
from nmt.data.joining import join_test
from nmt.data.preparation import CleanedText, clean_text
from nmt.data.sampler import Share
from nmt.data.text import Text, content_key
from nmt.tokenizer import LengthUnit


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
            UserError: It lacks a split that is needed.
        """
        corpus = Corpus(self.options, cache_dir=self.cache_dir)
        for split in self.options.needed:
            if split not in list(corpus):  # `in corpus` would read it
                raise UserError(
                    f"{self.options.where} has no split {split!r} but {', '.join(corpus)}; add it."
                )
        return corpus

    @cached_property
    def cleaned(self) -> CleanedText:
        """The training pairs that are used."""
        return clean_text(
            self.corpus.text("train"),
            self.rules,
            source_unit=self.source_unit,
            target_unit=self.target_unit,
            cache_dir=self.cache_dir,
            name=self.options.name,
        )

    def text(self, split: str) -> Text:
        """Returns a split as it is used."""
        return self.cleaned.text if split == "train" else self.corpus.text(split)


_JOINED = "test_joined"


class RunText:
    """What the splits of a run are called, and their text, each read when first asked for.

    An only corpus has `train`, `valid`, `test` and perhaps further tests. Of several, `train` is
    the training pairs of all, one corpus after the other, and other splits are called after the
    corpus as well: `valid_news`.

    Attributes:
        parts: The corpora by name.
    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        *,
        name: str,
        mixed: bool,
        joined_sizes: Sequence[int] | None,
    ) -> None:
        """Reads nothing yet.

        Args:
            parts: The corpora by name.
            name: What the whole is called.
            mixed: The splits are called after their corpus.
            joined_sizes: See `join_test`, which makes `test_joined`; None makes none.
        """
        self.parts = parts
        self._name, self._mixed, self._joined_sizes = name, mixed, joined_sizes

    def read(self) -> None:
        """Reads all text there is; what else the corpora need is looked at before."""
        for part in self.parts.values():
            for split in part.corpus:
                part.corpus.text(split)

    @cached_property
    def _places(self) -> dict[str, tuple[str, str]]:
        """The corpus and the split of it that a split is: validation sets first."""
        places: dict[str, tuple[str, str]] = {}
        for name, part in self.parts.items():
            for split in part.corpus:
                called = f"{split}_{name}" if self._mixed else split
                if called in places:
                    raise UserError(
                        f"data.corpora.{name} has a split that would be called {called}, as one "
                        "of another corpus is; rename one of the two."
                    )
                if split != "train":
                    places[called] = (name, split)
        if {split for _, split in places.values()} == {"valid"}:
            raise UserError("No corpus of data.corpora has a test set; give one to one of them.")
        return dict(sorted(places.items(), key=lambda place: place[1][1] != "valid"))

    @cached_property
    def _joined_test(self) -> Text:
        assert self._joined_sizes is not None
        dataset = join_test(self.split("test"), self._joined_sizes)
        return Text(dataset, content_key(dataset))

    @property
    def names(self) -> list[str]:
        """Names of all splits.

        Raises:
            UserError: Two have the same, or a split is missing that is needed.
        """
        return ["train", *self._places, *([_JOINED] if self._joined_sizes else [])]

    @property
    def valid_splits(self) -> list[str]:
        """Names of the validation sets."""
        return [name for name, (_, split) in self._places.items() if split == "valid"]

    @property
    def test_splits(self) -> list[str]:
        """Names of the test sets."""
        return [name for name in self.names if name not in ("train", *self.valid_splits)]

    def texts(self, name: str) -> list[Text]:
        """Returns the text of a split; the training text of each corpus.

        Raises:
            UserError: There is no such split.
        """
        if name == "train":
            return [part.cleaned.text for part in self.parts.values()]
        if name not in self.names:
            raise UserError(
                f"The corpus {self._name} has no split {name!r}; "
                f"choose one of {', '.join(self.names)}."
            )
        if name == _JOINED and self._joined_sizes:
            return [self._joined_test]
        corpus, split = self._places[name]
        return [self.parts[corpus].text(split)]

    def split(self, name: str) -> Dataset:
        """Returns the text of a split as one; raises as `texts` does."""
        datasets = [text.dataset for text in self.texts(name)]
        if len(datasets) == 1:
            return datasets[0]
        both = ["source", "target"]
        return concatenate_datasets([dataset.select_columns(both) for dataset in datasets])

    @property
    def train_units(self) -> npt.NDArray[np.int32]:
        """(pairs,) the length of every training source."""
        return np.concatenate([part.cleaned.source_units for part in self.parts.values()])

    @property
    def shares(self) -> list[Share]:
        """How many training pairs each corpus has, and its weight."""
        return [Share(len(part.cleaned.text.dataset), part.weight) for part in self.parts.values()]
