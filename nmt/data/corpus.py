"""One corpus: parallel text from files, the hub or the embedded grammar, read split by split.

Whatever the origin, a split is a memory-mapped `datasets.Dataset` with the columns source and
target. Its fingerprint says what its text was made from and names all that is made from it.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pyarrow
import xxhash
from datasets import Dataset, concatenate_datasets, disable_progress_bars
from datasets.table import MemoryMappedTable

import nmt.grammar
from nmt import checks
from nmt.checks import UserError
from nmt.data.cache import cached, key_of
from nmt.data.files import (
    HubOptions,
    Languages,
    Pairs,
    find_split,
    iterate_parallel,
    load_hub,
    read_documents,
)

logger = logging.getLogger(__name__)
if sys.stderr is None or not sys.stderr.isatty():
    disable_progress_bars()  # a log file would get one line for each step of a bar

Options = TypeVar("Options")
Columns = Iterator[Sequence[Sequence[Any]]]

SIDES = ("source", "target")
SPLITS = ("train", "valid", "test")
LARGEST_WEIGHT = 1000  # an epoch is drawn in memory
_VERSION = 2  # of the format of cached text
_ROWS_AT_ONCE = 10_000
_TEXT = pyarrow.schema({side: pyarrow.string() for side in SIDES})
_LINKS = pyarrow.list_(pyarrow.list_(pyarrow.int32()))
_GRAMMAR = pyarrow.schema(
    {
        "source": pyarrow.string(),
        "target": pyarrow.string(),
        "sure": _LINKS,
        "possible": _LINKS,
        "bits": pyarrow.float64(),
        "num_sentences": pyarrow.int32(),
    }
)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a corpus is: the keys of `data`, and of an entry of `data.corpora`.

    `conf/data/default.yaml` explains them. Exactly one of `hub` or `directory`, the three files,
    and `grammar` is given; a directory beats the hub.
    """

    hub: Mapping[str, Any] | None = None
    directory: str | None = None
    directory_splits: Mapping[str, str] | None = None
    train: Sequence[str] | str | None = None
    valid: Sequence[str] | str | None = None
    test: Sequence[str] | str | None = None
    grammar: Mapping[str, Any] | None = None
    columns: Mapping[str, str | int] | None = None
    expected_sizes: Mapping[str, int] | None = None
    weight: float = 1.0

    @property
    def stems(self) -> Mapping[str, str]:
        """Split name to the stem of its files in `directory`."""
        return self.directory_splits or {split: split for split in SPLITS}


class Corpus:
    """The splits of one origin; each is read when it is first asked for.

    Columns are source and target; the grammar adds sure, possible, bits and num_sentences, and a
    folder document and links where it says them (see `read_documents`).

    Attributes:
        name: What the corpus is called in logs.
        weight: How often each training pair is seen in an epoch, on average.
    """

    def __init__(
        self,
        name: str,
        languages: tuple[str, str],
        origin: Origin,
        *,
        cache_dir: Path,
        lowercase: bool = False,
        where: str = "data",
        needed: Sequence[str] = SPLITS,
    ) -> None:
        """Checks the origin; reads nothing yet.

        Args:
            name: What the corpus is called.
            languages: Source, then target.
            origin: Where the text is.
            cache_dir: Where text is kept that was read or generated.
            lowercase: Lower-case both sides of all splits, references included.
            where: What the origin is called in the configuration, for errors.
            needed: Splits that must be there.
        """
        self.name = name
        self.weight = float(origin.weight)
        self._origin, self._where, self._needed = origin, where, needed
        self._languages = Languages(*languages, origin.columns or {})
        self._lowercase, self._cache_dir = lowercase, cache_dir
        self._read: dict[str, Dataset] = {}
        self._check_origin()

    def _check_origin(self) -> None:
        where, origin = self._where, self._origin
        source, target = self._languages.codes
        checks.positive(f"{where}.weight", origin.weight, most=LARGEST_WEIGHT)
        given = {
            f"{where}.hub or {where}.directory": bool(origin.hub or origin.directory),
            f"{where}.train, valid and test": bool(origin.train or origin.valid or origin.test),
            f"{where}.grammar": origin.grammar is not None,
        }
        origins = [keys for keys, present in given.items() if present]
        if not origins:
            stem = origin.stems.get("train", "train")
            raise UserError(
                f"{f'data={self.name}' if where == 'data' else where} needs local files; set "
                f"{where}.directory=DIR to the folder with {stem}.{source}[.gz], "
                f"{stem}.{target}[.gz] and so on, or {where}.train, {where}.valid and "
                f"{where}.test to files."
            )
        if len(origins) > 1:
            raise UserError(
                f"The corpus {self.name} has more than one origin: {'; '.join(origins)}; "
                "keep one and set the others to null."
            )
        if origin.hub and not origin.directory:
            build_options(HubOptions, origin.hub, where=f"{where}.hub")
        if origin.train or origin.valid or origin.test:
            for split in self._needed:
                if not getattr(origin, split):
                    raise UserError(
                        f"{where}.{split} is missing; give {where}.{split}="
                        "[source_file,target_file] or one .tsv, .jsonl or .parquet file."
                    )

    @property
    def splits(self) -> list[str]:
        """Names of the splits: train, valid, test, then further tests."""
        for split in self._needed:
            if split not in self._readers:
                raise UserError(
                    f"{self._where} has no split {split!r} but {', '.join(self._readers)}; add it."
                )
        return list(self._readers)

    def split(self, name: str) -> Dataset:
        """Returns all pairs of a split."""
        if name not in self._read:
            self._read[name] = self._checked(name, self._readers[name]())
        return self._read[name]

    def _checked(self, name: str, dataset: Dataset) -> Dataset:
        size = len(dataset)
        if not size:
            raise UserError(f"The {name} split of {self.name} is empty; check its files.")
        logger.info("%s, %s: %s pairs.", self.name, name, f"{size:,}")
        expected = (self._origin.expected_sizes or {}).get(name, size)
        if size != expected:
            logger.warning(
                "This copy of %s is not the known one: %s has %s pairs, not %s.",
                *(self.name, name, f"{size:,}", f"{expected:,}"),
            )
        return lowercased(dataset, cache_dir=self._cache_dir) if self._lowercase else dataset

    @cached_property
    def _readers(self) -> dict[str, Callable[[], Dataset]]:
        """What reads each split."""
        origin = self._origin
        if origin.directory:
            return self._directory_readers(Path(origin.directory))
        if origin.train:
            files = {split: getattr(origin, split) for split in SPLITS if getattr(origin, split)}
            return {split: partial(self._files, given) for split, given in files.items()}
        if origin.grammar is not None:
            found = load_grammar(origin.grammar, self._languages.codes, cache_dir=self._cache_dir)
        else:
            options = build_options(HubOptions, origin.hub or {}, where=f"{self._where}.hub")
            found = load_hub(options, self._languages, where=self._where)
        return {name: partial(found.__getitem__, name) for name in found}

    def _directory_readers(self, directory: Path) -> dict[str, Callable[[], Dataset]]:
        if not directory.is_dir():
            raise UserError(
                f"{self._where}.directory is {directory}, but there is no such folder (relative "
                f"paths start at {Path.cwd()}); give the folder that holds the files of "
                f"{self.name}."
            )
        readers: dict[str, Callable[[], Dataset]] = {}
        for split, stem in self._origin.stems.items():
            if files := find_split(directory, stem, self._languages):
                readers[split] = partial(self._files, files, documents=(directory, stem))
            elif split in self._needed:
                readers[split] = partial(self._refuse_missing, split, stem)
        return readers

    def _files(
        self, files: Sequence[str | Path] | str, documents: tuple[Path, str] | None = None
    ) -> Dataset:
        files = [files] if isinstance(files, str) else files
        dataset = text_of_files(files, self._languages, cache_dir=self._cache_dir)
        if documents is not None:
            for name, column in read_documents(*documents, len(dataset), self._languages).items():
                dataset = dataset.add_column(name, column)
        return dataset

    def _refuse_missing(self, split: str, stem: str) -> NoReturn:
        source, target = self._languages.codes
        raise UserError(
            f"{self._origin.directory} has no {stem}.{source}[.gz] and {stem}.{target}[.gz], which "
            f"are the {split} split of {self.name}; add them or set "
            f"{self._where}.directory_splits.{split}=STEM."
        )


def build_options(cls: Callable[..., Options], values: Any, *, where: str) -> Options:
    """Returns `cls(**values)`; `where` is what the values are called in the config.

    Raises:
        UserError: A key is missing or unknown.
    """
    try:
        inspect.signature(cls).bind(**values)
    except TypeError as error:
        known = ", ".join(inspect.signature(cls).parameters)
        raise UserError(f"{where} is {values!r}: {error}; its keys are {known}.") from None
    return cls(**values)


def text_of_files(files: Sequence[str | Path], languages: Languages, *, cache_dir: Path) -> Dataset:
    """Returns the pairs of two line files or of one table, see `iterate_parallel`."""
    pairs = iterate_parallel(files, languages)  # refuses what is no corpus
    paths = [Path(file) for file in files]
    columns = [languages.column(code) for code in languages.codes]
    digests = [_digest(path) for path in paths]
    key = key_of(_VERSION, digests, [path.name for path in paths], languages.codes, columns)
    return _written(cache_dir, f"text-{key}", _TEXT, lambda: _columns(pairs))


def lowercased(dataset: Dataset, *, cache_dir: Path) -> Dataset:
    """Returns the same with both sides in lower case; other columns are kept."""

    def pairs() -> Pairs:
        for rows in dataset.select_columns([*SIDES]).iter(batch_size=_ROWS_AT_ONCE):
            for source, target in zip(rows["source"], rows["target"], strict=True):
                yield source.lower(), target.lower()

    key = key_of(_VERSION, "lowercase", dataset._fingerprint)
    lower = _written(cache_dir, f"text-{key}", _TEXT, lambda: _columns(pairs()))
    others = dataset.remove_columns([*SIDES])
    return concatenate_datasets([lower, others], axis=1) if others.column_names else lower


def load_grammar(
    arguments: Mapping[str, Any], languages: tuple[str, str], *, cache_dir: Path
) -> dict[str, Dataset]:
    """Returns the splits of the embedded corpus, generating them where that has not happened yet.

    Columns: source, target, sure and possible (links [source word, target word], disjoint), bits,
    num_sentences.

    Args:
        arguments: Of `nmt.grammar.generate_splits`.
        languages: en-de, or de-en for the same pairs the other way round.
        cache_dir: Where the generated text is kept.
    """
    if sorted(languages) != ["de", "en"]:
        raise UserError(
            f"The grammar speaks en-de and de-en, not {'-'.join(languages)}; set data.source_lang "
            "and data.target_lang to en and de."
        )

    def make(folder: Path) -> None:
        logger.info("Generating the built-in corpus; this happens once.")
        splits = build_options(nmt.grammar.generate_splits, arguments, where="data.grammar")
        for number, (name, pairs) in enumerate(splits.items()):
            if languages == ("de", "en"):
                pairs = [nmt.grammar.swapped(pair) for pair in pairs]
            rows = (tuple(getattr(pair, field.name) for field in _GRAMMAR) for pair in pairs)
            _write(folder / f"{number}-{name}.arrow", _GRAMMAR, _columns(rows))

    def load(folder: Path) -> dict[str, Dataset]:
        files = sorted(folder.glob("*.arrow"))
        return {file.stem.split("-", 1)[1]: read_arrow(file) for file in files}

    key = key_of(_VERSION, dict(arguments), languages, nmt.grammar.VERSION, _lexicon_digests())
    return cached(cache_dir, f"grammar-{key}", make, load)


def _lexicon_digests() -> list[str]:
    folder = nmt.grammar.lexicon_path("core").parent
    return [_digest(path) for path in sorted(folder.glob("*.yaml"))]


def read_arrow(path: Path) -> Dataset:
    """Maps a file of a cache folder, whose name is a key of the content."""
    fingerprint = key_of(path.parent.name, path.name)
    return Dataset(MemoryMappedTable.from_file(str(path)), fingerprint=fingerprint)


def _written(
    cache_dir: Path, name: str, schema: pyarrow.Schema, columns: Callable[[], Columns]
) -> Dataset:
    """Returns a cached data set, a few rows of which are in memory while it is written."""

    def make(folder: Path) -> None:
        _write(folder / "text.arrow", schema, columns())

    return cached(cache_dir, name, make, lambda folder: read_arrow(folder / "text.arrow"))


def _columns(rows: Iterator[tuple[Any, ...]]) -> Columns:
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):
        yield list(zip(*chunk, strict=True))


def _write(path: Path, schema: pyarrow.Schema, chunks: Columns) -> None:
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, schema) as writer:
        for columns in chunks:
            arrays = [
                pyarrow.array(c, field.type) for c, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))


def _digest(path: Path) -> str:
    """Returns a digest of the bytes of a file; a missing one is for its reader to complain of."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
