"""Loads a parallel corpus: from the hub, from local files, or from the embedded grammar.

Whatever the origin, the result is a `datasets.Dataset` a split, with the columns source and target.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset

from nmt.data.files import Languages, find_split, read_parallel
from nmt.data.hub import HubOptions, load_hub
from nmt.data.options import build_options

logger = logging.getLogger(__name__)

Splits = dict[str, Dataset]
REQUIRED = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """What corpus to load, in which direction; has exactly one origin.

    Attributes:
        name: What the corpus is called in logs and directories.
        source_lang: Language code of the source, such as `en`.
        target_lang: Language code of the target.
        hub: Arguments of `HubOptions`, where the set is on the hub.
        directory: Folder with a local copy of the set; it beats `hub`.
        directory_splits: Split name to the stem of its files in `directory`.
        train: `[source_file, target_file]` or `[table]` (TSV, JSONL, parquet) for any corpus.
        valid: The same for validation.
        test: The same for the test set.
        grammar: Arguments of `nmt.data.grammar.generate_splits`.
        columns: Language code to column name, where columns are not named by language.
        expected_sizes: Split name to the number of pairs that a true copy has.
        lowercase: Lower-case both sides of all splits, references included.
    """

    name: str
    source_lang: str
    target_lang: str
    hub: Mapping[str, Any] | None = None
    directory: str | None = None
    directory_splits: Mapping[str, str] = field(default_factory=lambda: {s: s for s in REQUIRED})
    train: Sequence[str] | str | None = None
    valid: Sequence[str] | str | None = None
    test: Sequence[str] | str | None = None
    grammar: Mapping[str, Any] | None = None
    columns: Mapping[str, str | int] = field(default_factory=dict)
    expected_sizes: Mapping[str, int] = field(default_factory=dict)
    lowercase: bool = False

    def __post_init__(self) -> None:
        """Checks the options; reads nothing.

        Raises:
            ValueError: Not exactly one origin, or languages that make no pair.
        """
        for key in ("source_lang", "target_lang"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key):
                raise ValueError(
                    f"data.{key} is {getattr(self, key)!r}; give a language code such as en "
                    "(quote a code that YAML reads as a truth value: 'no')."
                )
        if self.source_lang == self.target_lang:
            raise ValueError(
                f"data.source_lang and data.target_lang are both {self.source_lang}; "
                "choose two languages."
            )
        self._check_origin()
        if self.hub and not self.directory:
            _hub_options(self)

    def _check_origin(self) -> None:
        origins = {
            "data.hub or data.directory": bool(self.hub or self.directory),
            "data.train, data.valid and data.test": bool(self.train or self.valid or self.test),
            "data.grammar": self.grammar is not None,
        }
        given = [keys for keys, present in origins.items() if present]
        if not given:
            stem = self.directory_splits.get("train", "train")
            raise ValueError(
                f"data={self.name} needs local files; set data.directory=DIR to the folder with "
                f"{stem}.{self.source_lang}[.gz], {stem}.{self.target_lang}[.gz] and so on, or "
                "data.train, data.valid and data.test to files."
            )
        if len(given) > 1:
            raise ValueError(
                f"The corpus {self.name} has more than one origin: {'; '.join(given)}; "
                "keep one and set the others to null."
            )
        if given[0].startswith("data.train"):
            for split in REQUIRED:
                if not getattr(self, split):
                    raise ValueError(
                        f"data.{split} is missing; give data.{split}=[source_file,target_file] "
                        "or one .tsv, .jsonl or .parquet file."
                    )

    @property
    def languages(self) -> Languages:
        """The direction, as the readers of tables take it."""
        return Languages(self.source_lang, self.target_lang, self.columns)


def load_corpus(options: CorpusOptions, *, cache_dir: str | Path) -> Splits:
    """Returns every split (train, valid, test, then further tests) with all its pairs.

    Columns are source and target; the grammar adds sure, possible, bits and num_sentences.

    Args:
        options: What to load.
        cache_dir: Where generated text is kept.

    Raises:
        ValueError: Something is missing, unequal, unreadable, or empty.
    """
    splits = _load(options, Path(cache_dir))
    for name, dataset in splits.items():
        if not len(dataset):
            raise ValueError(f"The {name} split of {options.name} is empty; check its files.")
    if options.lowercase:
        splits = {name: _lowercased(dataset) for name, dataset in splits.items()}
    sizes = {name: len(dataset) for name, dataset in splits.items()}
    logger.info("%s: %s pairs.", options.name, _listed(sizes))
    _compare_sizes(options, sizes)
    return splits


def _load(options: CorpusOptions, cache_dir: Path) -> Splits:
    if options.directory:
        return _load_directory(options, Path(options.directory))
    if options.train:
        files = {split: getattr(options, split) for split in REQUIRED}
        return {
            split: _dataset([paths] if isinstance(paths, str) else paths, options.languages)
            for split, paths in files.items()
        }
    if options.grammar is not None:
        # Imported where it is used: files and hub sets do not need the generator.
        from nmt.data.generated import load_grammar

        return load_grammar(options.grammar, options.languages, cache_dir=cache_dir)
    return load_hub(_hub_options(options), options.languages)


def _hub_options(options: CorpusOptions) -> HubOptions:
    return build_options(HubOptions, options.hub or {}, where="data.hub")


def _load_directory(options: CorpusOptions, directory: Path) -> Splits:
    if not directory.is_dir():
        raise ValueError(
            f"data.directory is {directory}, but there is no such folder (relative paths start at "
            f"{Path.cwd()}); give the folder that holds the files of {options.name}."
        )
    splits = {}
    for split, stem in options.directory_splits.items():
        if files := find_split(directory, stem, options.languages):
            splits[split] = _dataset(files, options.languages)
        elif split in REQUIRED:
            raise ValueError(
                f"{directory} has no {stem}.{options.source_lang}[.gz] and "
                f"{stem}.{options.target_lang}[.gz], which are the {split} split of "
                f"{options.name}; add them or set data.directory_splits.{split}=STEM."
            )
    return splits


def _dataset(files: Sequence[str | Path], languages: Languages) -> Dataset:
    text = read_parallel(files, languages)
    return Dataset.from_dict({"source": text.source, "target": text.target})


def _lowercased(dataset: Dataset) -> Dataset:
    columns = dataset[:]
    for side in ("source", "target"):
        columns[side] = [text.lower() for text in columns[side]]
    return Dataset.from_dict(columns, features=dataset.features)


def _compare_sizes(options: CorpusOptions, sizes: Mapping[str, int]) -> None:
    expected = {
        name: options.expected_sizes[name] for name in sizes if name in options.expected_sizes
    }
    wrong = {name: size for name, size in expected.items() if size != sizes[name]}
    if wrong:
        logger.warning(
            "This copy of %s is not the known one: expected %s pairs, found %s.",
            options.name,
            _listed(wrong),
            _listed({name: sizes[name] for name in wrong}),
        )


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items())
