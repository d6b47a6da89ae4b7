"""Parallel text as Arrow files: written once, a few rows at a time, and memory-mapped from then on.

However large a corpus is, little of it is in memory. Names of results are digests of content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow
import xxhash
from datasets import Dataset, concatenate_datasets

from nmt.data.cache import cached, key_of
from nmt.data.files import iterate_parallel
from nmt.data.tables import Languages, Pairs

_VERSION = 1  # of the format
_ROWS_AT_ONCE = 10_000
_BYTES_AT_ONCE = 2**20
_SIDES = ("source", "target")
_SCHEMA = pyarrow.schema({side: pyarrow.string() for side in _SIDES})


@dataclass(frozen=True)
class Text:
    """Parallel text with the columns source, target and perhaps others.

    Attributes:
        dataset: The text.
        key: A digest of source and target, or of what they were read from.
    """

    dataset: Dataset
    key: str


def text_of_files(files: Sequence[str | Path], languages: Languages, *, cache_dir: Path) -> Text:
    """Returns the pairs of two line files or of one table, see `iterate_parallel`.

    Raises:
        ValueError: The files cannot be read, or do not hold both sides.
    """
    pairs = iterate_parallel(files, languages)  # refuses what is no corpus
    columns = [languages.column(code) for code in (languages.source, languages.target)]
    names = [Path(file).name for file in files]
    sides = (languages.source, languages.target)
    key = key_of(_VERSION, [_digest(Path(file)) for file in files], names, sides, columns)

    def make(folder: Path) -> None:
        _write(_tables(pairs), folder / "text.arrow", _SCHEMA)

    return _cached_text(cache_dir, key, make)


def lowercased(text: Text, *, cache_dir: Path) -> Text:
    """Returns the same with both sides in lower case; other columns are kept."""
    sides = text.dataset.select_columns([*_SIDES])

    def pairs() -> Pairs:
        for rows in sides.iter(batch_size=_ROWS_AT_ONCE):
            for source, target in zip(rows["source"], rows["target"], strict=True):
                yield source.lower(), target.lower()

    def make(folder: Path) -> None:
        _write(_tables(pairs()), folder / "text.arrow", _SCHEMA)

    lower = _cached_text(cache_dir, key_of(_VERSION, "lowercase", text.key), make)
    others = text.dataset.remove_columns([*_SIDES])  # which the key does not cover
    if not others.column_names:
        return lower
    return Text(concatenate_datasets([lower.dataset, others], axis=1), lower.key)


def content_key(dataset: Dataset) -> str:
    """Returns a digest of the texts in the columns source and target, wherever they lie."""
    digests = [xxhash.xxh3_128() for _ in range(4)]
    for table in dataset.select_columns([*_SIDES]).with_format("arrow").iter(_ROWS_AT_ONCE):
        for number, side in enumerate(_SIDES):
            for chunk in table[side].cast(pyarrow.large_binary()).chunks:
                _, offsets, content = chunk.buffers()
                starts = np.frombuffer(offsets, np.int64)[chunk.offset :][: len(chunk) + 1]
                digests[number].update(memoryview(content or b"")[starts[0] : starts[-1]])
                digests[2 + number].update(np.diff(starts).tobytes())
    return key_of([digest.hexdigest() for digest in digests])


def _digest(path: Path) -> str:
    """Returns a digest of the bytes of a file; a missing one is for its reader to complain of."""
    digest = xxhash.xxh3_128()
    if path.is_file():
        with path.open("rb") as file:
            while block := file.read(_BYTES_AT_ONCE):
                digest.update(block)
    return digest.hexdigest()


def _tables(pairs: Pairs) -> Iterator[pyarrow.Table]:
    while rows := list(islice(pairs, _ROWS_AT_ONCE)):
        columns = [pyarrow.array(column, "string") for column in zip(*rows, strict=True)]
        yield pyarrow.Table.from_arrays(columns, schema=_SCHEMA)


def _write(tables: Iterator[pyarrow.Table], path: Path, schema: pyarrow.Schema) -> None:
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, schema) as writer:
        for table in tables:
            writer.write_table(table)


def _cached_text(cache_dir: Path, key: str, make: Callable[[Path], None]) -> Text:
    folder = cached(cache_dir, f"text-{key}", make)
    return Text(Dataset.from_file(str(folder / "text.arrow")), key)
