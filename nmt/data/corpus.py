"""Loads a parallel corpus: from the hub, from local files, or from the embedded grammar.

Whatever the origin, a split is a `datasets.Dataset` with the columns source and target.

Builds an options class from a part of the configuration, or says which key is wrong.

The text of the embedded grammar as data sets, generated once and then memory-mapped.

Several corpora as the training text of one run: each has a weight and a set to validate on.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pyarrow
from datasets import Dataset

import nmt.grammar
from nmt.checks import UserError
from nmt.data.files import HubOptions, Languages, find_split, load_hub, read_documents
from nmt.data.text import Text, cached, content_key, key_of, lowercased, text_of_files
from nmt.grammar import GrammarPair, swapped
from nmt.grammar.lexicon import lexicon_path

logger = logging.getLogger(__name__)


Options = TypeVar("Options")


def build_options(cls: type[Options], values: Mapping[str, Any], *, where: str) -> Options:
    """Returns `cls(**values)`.

    Args:
        cls: A dataclass; its fields are the keys.
        values: The part of the configuration.
        where: Its name there, such as `data.cleaning`.

    Raises:
        UserError: A key that does not exist (the nearest is named), or one that is missing.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{where} is {values!r}; give it keys and values.")
    assert dataclasses.is_dataclass(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.0)
            raise UserError(f"There is no option {where}.{name}; did you mean {near[0]}?")
    needed = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
    if missing := [name for name in needed if name not in values]:
        raise UserError(f"{where} lacks {', '.join(missing)}; give a value.")
    return cls(**values)


_ROWS_PER_CHUNK = 10_000
_LINKS = pyarrow.list_(pyarrow.list_(pyarrow.int32()))
_SCHEMA = pyarrow.schema(
    {
        "source": pyarrow.string(),
        "target": pyarrow.string(),
        "sure": _LINKS,
        "possible": _LINKS,
        "bits": pyarrow.float64(),
        "num_sentences": pyarrow.int32(),
    }
)


def load_grammar(
    arguments: Mapping[str, Any], languages: Languages, *, cache_dir: Path
) -> dict[str, Dataset]:
    """Returns the splits, generating them where that has not happened yet.

    Columns: source, target, sure and possible (links [source word, target word], disjoint), bits,
    num_sentences.

    Args:
        arguments: Of `nmt.grammar.generate_splits`.
        languages: en-de, or de-en for the same pairs the other way round.
        cache_dir: Where the generated text is kept.

    Raises:
        UserError: Languages that the grammar does not speak, or an impossible argument.
    """
    pair = (languages.source, languages.target)
    if sorted(pair) != ["de", "en"]:
        raise UserError(
            f"The grammar speaks en-de and de-en, not {'-'.join(pair)}; set data.source_lang and "
            "data.target_lang to en and de."
        )
    _check_arguments(arguments)
    english_first = languages.source == "en"

    def make(folder: Path) -> None:
        logger.info("Generating the built-in corpus; this happens once.")
        splits = nmt.grammar.generate_splits(**arguments)
        for number, (name, pairs) in enumerate(splits.items()):
            _write(pairs, folder / f"{number}-{name}.arrow", english_first)

    key = key_of(dict(arguments), pair, _generator_digest())
    folder = cached(cache_dir, f"grammar-{key}", make)
    files = sorted(folder.glob("*.arrow"))
    return {file.stem.split("-", 1)[1]: Dataset.from_file(str(file)) for file in files}


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    known = list(inspect.signature(nmt.grammar.generate_splits).parameters)
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise UserError(f"There is no option data.grammar.{name}; did you mean {near[0]}?")


def _generator_digest() -> str:
    """Digests program and lexicon, so that a change of either makes new text."""
    program = [Path(__file__), *Path(nmt.grammar.__file__).parent.glob("*.py")]
    lexicons = lexicon_path("core").parent.glob("*.yaml")
    digest = hashlib.sha256()
    for file in [*sorted(program), *sorted(lexicons)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _write(pairs: Sequence[GrammarPair], path: Path, english_first: bool) -> None:
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, _SCHEMA) as writer:
        for start in range(0, len(pairs), _ROWS_PER_CHUNK):
            rows = list(pairs[start : start + _ROWS_PER_CHUNK])
            rows = rows if english_first else [swapped(pair) for pair in rows]
            columns = [
                pyarrow.array([getattr(pair, field.name) for pair in rows], type=field.type)
                for field in _SCHEMA  # the fields of a GrammarPair
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=_SCHEMA))


_OF_FILES = ("train", "valid", "test")


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
        grammar: Arguments of `nmt.grammar.generate_splits`.
        columns: Language code to column name, where columns are not named by language.
        expected_sizes: Split name to the number of pairs that a true copy has.
        lowercase: Lower-case both sides of all splits, references included.
        where: What the options are called in the configuration, in errors.
        needed: Splits that must be there.
    """

    name: str
    source_lang: str
    target_lang: str
    hub: Mapping[str, Any] | None = None
    directory: str | None = None
    directory_splits: Mapping[str, str] = field(default_factory=lambda: {s: s for s in _OF_FILES})
    train: Sequence[str] | str | None = None
    valid: Sequence[str] | str | None = None
    test: Sequence[str] | str | None = None
    grammar: Mapping[str, Any] | None = None
    columns: Mapping[str, str | int] = field(default_factory=dict)
    expected_sizes: Mapping[str, int] = field(default_factory=dict)
    lowercase: bool = False
    where: str = "data"
    needed: Sequence[str] = ("train", "valid", "test")

    def __post_init__(self) -> None:
        """Checks the options; reads nothing.

        Raises:
            UserError: Not exactly one origin, or languages that make no pair.
        """
        for key in ("source_lang", "target_lang"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key):
                raise UserError(
                    f"data.{key} is {getattr(self, key)!r}; give a language code such as en "
                    "(quote a code that YAML reads as a truth value: 'no')."
                )
        if self.source_lang == self.target_lang:
            raise UserError(
                f"data.source_lang and data.target_lang are both {self.source_lang}; "
                "choose two languages."
            )
        self._check_origin()
        if self.hub and not self.directory:
            _hub_options(self)

    def _check_origin(self) -> None:
        where = self.where
        origins = {
            f"{where}.hub or {where}.directory": bool(self.hub or self.directory),
            f"{where}.train, {where}.valid and {where}.test": bool(
                self.train or self.valid or self.test
            ),
            f"{where}.grammar": self.grammar is not None,
        }
        given = [keys for keys, present in origins.items() if present]
        if not given:
            stem = self.directory_splits.get("train", "train")
            alone = where == "data"
            raise UserError(
                f"{f'data={self.name}' if alone else where} needs local files; set "
                f"{where}.directory=DIR to the folder with {stem}.{self.source_lang}[.gz], "
                f"{stem}.{self.target_lang}[.gz] and so on, or {where}.train, {where}.valid and "
                f"{where}.test to files{'; or data.corpora to several corpora' if alone else ''}."
            )
        if len(given) > 1:
            raise UserError(
                f"The corpus {self.name} has more than one origin: {'; '.join(given)}; "
                "keep one and set the others to null."
            )
        if given[0].startswith(f"{where}.train"):
            for split in self.needed:
                if not getattr(self, split):
                    raise UserError(
                        f"{where}.{split} is missing; give {where}.{split}="
                        "[source_file,target_file] or one .tsv, .jsonl or .parquet file."
                    )

    @property
    def languages(self) -> Languages:
        """The direction, as the readers of tables take it."""
        return Languages(self.source_lang, self.target_lang, self.columns)


class Corpus(Mapping[str, Dataset]):
    """The splits of a corpus (train, valid, test, then further tests); each is read when asked for.

    Columns are source and target; the grammar adds sure, possible, bits and num_sentences, and a
    folder document and kind where it says them (see `read_documents`).
    """

    def __init__(self, options: CorpusOptions, *, cache_dir: str | Path) -> None:
        """Looks which splits there are; reads no text that lies in files.

        Args:
            options: What to load.
            cache_dir: Where text is kept that was read or generated.

        Raises:
            UserError: There is nothing at the place named.
        """
        self._options = options
        self._cache_dir = Path(cache_dir)
        self._readers = _readers(options, self._cache_dir)
        self._splits: dict[str, Text] = {}

    def __getitem__(self, name: str) -> Dataset:
        """Returns a split with all its pairs.

        Raises:
            KeyError: There is no such split.
            UserError: Its text is missing, unequal, unreadable, or empty.
        """
        return self.text(name).dataset

    def text(self, name: str) -> Text:
        """Returns a split with its key; raises as `[]` does."""
        if name not in self._splits:
            self._splits[name] = self._read(name)
        return self._splits[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def _read(self, name: str) -> Text:
        text = self._readers[name]()
        size, corpus = len(text.dataset), self._options.name
        if not size:
            raise UserError(f"The {name} split of {corpus} is empty; check its files.")
        logger.info("%s, %s: %s pairs.", corpus, name, f"{size:,}")
        expected = self._options.expected_sizes.get(name, size)
        if size != expected:
            logger.warning(
                "This copy of %s is not the known one: %s has %s pairs, not %s.",
                *(corpus, name, f"{size:,}", f"{expected:,}"),
            )
        if self._options.lowercase:
            return lowercased(text, cache_dir=self._cache_dir)
        return text


Reader = Callable[[], Text]


def _readers(options: CorpusOptions, cache_dir: Path) -> Mapping[str, Reader]:
    """Returns for each split what reads it."""
    if options.directory:
        return _directory_readers(options, Path(options.directory), cache_dir)
    if options.train:
        return {
            split: _reader(getattr(options, split), options.languages, cache_dir)
            for split in _OF_FILES
            if getattr(options, split)
        }
    if options.grammar is not None:
        # Imported where it is used: files and hub sets do not need the generator.

        splits = load_grammar(options.grammar, options.languages, cache_dir=cache_dir)
    else:
        splits = load_hub(_hub_options(options), options.languages, where=options.where)
    return {name: partial(_with_key, dataset) for name, dataset in splits.items()}


def _with_key(dataset: Dataset) -> Text:
    return Text(dataset, content_key(dataset))


def _hub_options(options: CorpusOptions) -> HubOptions:
    return build_options(HubOptions, options.hub or {}, where=f"{options.where}.hub")


def _directory_readers(
    options: CorpusOptions, directory: Path, cache_dir: Path
) -> Mapping[str, Reader]:
    if not directory.is_dir():
        raise UserError(
            f"{options.where}.directory is {directory}, but there is no such folder (relative "
            f"paths start at {Path.cwd()}); give the folder that holds the files of "
            f"{options.name}."
        )
    readers: dict[str, Reader] = {}
    for split, stem in options.directory_splits.items():
        if files := find_split(directory, stem, options.languages):
            readers[split] = partial(
                _read_split, directory, stem, files, options.languages, cache_dir
            )
        elif split in options.needed:
            readers[split] = partial(_refuse_missing, options, split)
    return readers


def _refuse_missing(options: CorpusOptions, split: str) -> NoReturn:
    stem = options.directory_splits[split]
    raise UserError(
        f"{options.directory} has no {stem}.{options.source_lang}[.gz] and "
        f"{stem}.{options.target_lang}[.gz], which are the {split} split of "
        f"{options.name}; add them or set {options.where}.directory_splits.{split}=STEM."
    )


def _read_split(
    directory: Path, stem: str, files: Sequence[Path], languages: Languages, cache_dir: Path
) -> Text:
    text = text_of_files(files, languages, cache_dir=cache_dir)
    dataset = text.dataset
    for name, column in read_documents(directory, stem, len(dataset)).items():
        dataset = dataset.add_column(name, column)
    return Text(dataset, text.key)


def _reader(files: Sequence[str | Path] | str, languages: Languages, cache_dir: Path) -> Reader:
    files = [files] if isinstance(files, str) else files
    return partial(text_of_files, files, languages, cache_dir=cache_dir)


_NEEDED = ("train", "valid")
_LARGEST_WEIGHT = 1000  # an epoch is drawn in memory


@dataclass(frozen=True, kw_only=True)
class MixedCorpus:
    """One entry of `data.corpora`: where the corpus is, as in `CorpusOptions`, and its weight.

    Attributes:
        weight: How often each of its training pairs is seen in an epoch, on average; see
            `WeightedPairs`.
        hub: See `CorpusOptions`.
        directory: As above.
        directory_splits: As above.
        train: As above.
        valid: As above.
        test: As above, but not needed.
        grammar: As above.
        columns: As above.
        expected_sizes: As above.
    """

    weight: float = 1.0
    hub: Mapping[str, Any] | None = None
    directory: str | None = None
    directory_splits: Mapping[str, str] | None = None
    train: Sequence[str] | str | None = None
    valid: Sequence[str] | str | None = None
    test: Sequence[str] | str | None = None
    grammar: Mapping[str, Any] | None = None
    columns: Mapping[str, str | int] | None = None
    expected_sizes: Mapping[str, int] | None = None


def mixed_corpora(
    corpora: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> dict[str, tuple[CorpusOptions, float]]:
    """Returns for each name in `data.corpora` what to load, and its weight.

    Args:
        corpora: For each name the keys of a `MixedCorpus`.
        common: Arguments of `CorpusOptions` that hold where a corpus does not say otherwise.

    Raises:
        UserError: An impossible name, key, weight or origin.
    """
    if not isinstance(corpora, Mapping):
        raise UserError(f"data.corpora is {corpora!r}; give names, and keys and values for each.")
    found = {}
    for name, values in corpora.items():
        where = f"data.corpora.{name}"
        if not re.fullmatch(r"\w[\w-]*", str(name), re.ASCII):
            raise UserError(f"{where}: call it by letters, digits, _ and -, as files are named.")
        entry = asdict(build_options(MixedCorpus, values, where=where))
        weight = entry.pop("weight")
        if type(weight) not in (int, float) or not 0 < weight <= _LARGEST_WEIGHT:
            raise UserError(
                f"{where}.weight is {weight!r}; give a number above 0 and up to "
                f"{_LARGEST_WEIGHT} (2: all pairs twice in an epoch, 0.5: a random half)."
            )
        own = {key: value for key, value in entry.items() if value is not None}
        options = CorpusOptions(name=str(name), where=where, needed=_NEEDED, **{**common, **own})
        found[str(name)] = (options, float(weight))
    return found
