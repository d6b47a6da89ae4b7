"""Reads parallel text: two line files, one TSV, JSONL or parquet table, or a data set of the hub.

What a line is says `nmt.data.lines`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pyarrow.parquet
from datasets import Dataset
from huggingface_hub.errors import HfHubHTTPError

from nmt.checks import UserError
from nmt.data.lines import decode_lines

Pairs = Iterator[tuple[str, str]]

_ROWS_AT_ONCE = 10_000
_SECONDS_TO_ANSWER = 5.0
_HUB_FORMATS = ("parquet", "json")


@dataclass(frozen=True)
class Languages:
    """The direction, and the columns the two sides have in tables.

    Attributes:
        source: Code of the source language, such as `en`.
        target: Code of the target language.
        columns: Language code to column name (for TSV: to column number from 0); languages that
            are not in it have columns of their own name.
    """

    source: str
    target: str
    columns: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def codes(self) -> tuple[str, str]:
        """Source, then target."""
        return self.source, self.target

    def column(self, language: str) -> str | int:
        """Returns the column of a language."""
        return self.columns.get(language, language)


@dataclass(frozen=True)
class ParallelText:
    """Both sides of a corpus; line k of one is the translation of line k of the other."""

    source: list[str]
    target: list[str]


# Lines


def read_lines(path: str | Path) -> list[str]:
    """Returns `iterate_lines` as a list."""
    return list(iterate_lines(path))


def iterate_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, decompressed if its name ends in `.gz`."""

    def damaged(number: int, error: UnicodeDecodeError) -> None:
        raise UserError(
            f"{path}, line {number} is not valid UTF-8; convert the file to UTF-8 first."
        ) from None

    with _opened(Path(path)) as file:
        yield from decode_lines(file, damaged, name=str(path))


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise UserError(
            f"There is no file {path} (relative paths start at {Path.cwd()}); check the path."
        ) from None
    except (zlib.error, EOFError, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}); get the file again.") from error


# Pairs of lines


def read_parallel(files: Sequence[str | Path], languages: Languages) -> ParallelText:
    """Returns `iterate_parallel` as two lists."""
    found = list(iterate_parallel(files, languages))
    return ParallelText([source for source, _ in found], [target for _, target in found])


def iterate_parallel(files: Sequence[str | Path], languages: Languages) -> Pairs:
    """Yields the pairs of two line files or of one table, a few at a time in memory.

    Two files whose names end in the two language codes (`a.de.gz`, `a.en.gz`) are matched to the
    sides by these; otherwise the first is the source.
    """
    paths = [Path(file) for file in files]
    if len(paths) == 2:
        if [language_of(path) for path in paths] == [languages.target, languages.source]:
            paths.reverse()
        return _side_by_side(paths)
    suffix = f".{language_of(paths[0])}" if len(paths) == 1 else ""
    if suffix not in _READERS:
        raise UserError(
            f"{[str(path) for path in paths]} is no parallel corpus; give two line files "
            f"[source, target] or one file that ends in {', '.join(_READERS)}."
        )
    return _READERS[suffix](paths[0], languages)


def language_of(path: Path) -> str:
    """Returns the last part of a file name without `.gz`: `de` for `train.de.gz`."""
    return path.name.removesuffix(".gz").rpartition(".")[2]


def find_split(directory: Path, stem: str, languages: Languages) -> list[Path] | None:
    """Returns the files of a split: `STEM.en` and `STEM.de`, or `STEM.jsonl` and the like."""
    sides = [_plain_or_gzip(directory / f"{stem}.{code}") for code in languages.codes]
    present = [side for side in sides if side is not None]
    if len(present) == 1:
        missing = next(code for code in languages.codes if code != language_of(present[0]))
        raise UserError(
            f"{present[0]} is there, but {stem}.{missing}[.gz] beside it is not; add it."
        )
    tables = (_plain_or_gzip(directory / f"{stem}{suffix}") for suffix in _READERS)
    return present or next(([table] for table in tables if table is not None), None)


def read_documents(
    directory: Path, stem: str, num_pairs: int, languages: Languages
) -> dict[str, list[Any]]:
    """Reads what files beside the text say about each pair of a split, where there are such files.

    `STEM.documents.tsv[.gz]` names the document of each pair: the column `document`.
    `STEM.es-en.links[.gz]` has gold links of some words in Pharaoh's format (`0-0 2-1`, words from
    0, Spanish first): the column `links`, source first.
    """

    def lines(name: str) -> list[str]:
        path = directory / f"{stem}.{name}"
        path = path if path.is_file() else Path(f"{path}.gz")
        found = list(read_lines(path)) if path.is_file() else []
        if found and len(found) != num_pairs:
            raise UserError(f"{path} has {len(found)} lines for the {num_pairs} pairs of {stem}.")
        return found

    columns: dict[str, list[Any]] = {}
    if documents := lines("documents.tsv"):
        columns["document"] = documents
    for codes in (languages.codes, languages.codes[::-1]):
        step = 1 if codes == languages.codes else -1
        if found := lines(f"{'-'.join(codes)}.links"):
            links = [[[int(n) for n in pair.split("-")] for pair in row.split()] for row in found]
            columns["links"] = [[pair[::step] for pair in row] for row in links]
    return columns


def _plain_or_gzip(path: Path) -> Path | None:
    return next((p for p in (path, Path(f"{path}.gz")) if p.is_file()), None)


def _side_by_side(paths: Sequence[Path]) -> Pairs:
    counts = [0, 0]
    for source, target in zip_longest(*map(iterate_lines, paths)):
        counts[0] += source is not None
        counts[1] += target is not None
        if counts[0] == counts[1]:
            yield source, target
    if counts[0] != counts[1]:
        raise UserError(
            f"{paths[0]} has {counts[0]} lines but {paths[1]} has {counts[1]}; parallel files "
            "need one translation per line."
        )


# Tables


def _read_tsv(path: Path, languages: Languages) -> Pairs:
    """Yields the pairs of `source TAB target` lines; there is no quoting and no header."""
    columns = [languages.columns.get(code, place) for place, code in enumerate(languages.codes)]
    for number, line in enumerate(iterate_lines(path), 1):
        fields = line.split("\t")
        if len(fields) > 2 and not languages.columns:  # a score or an id would be a source
            raise UserError(
                f"{path}, line {number} has {len(fields)} tab-separated fields; say which two are "
                f"text, counted from 0, for example data.columns={{{languages.source}: 1, "
                f"{languages.target}: 2}}."
            )
        for column, code in zip(columns, languages.codes, strict=True):
            if len(fields) < 2 or not isinstance(column, int) or not 0 <= column < len(fields):
                raise UserError(
                    f"{path}, line {number} has {len(fields)} tab-separated fields and no field "
                    f"{column!r} for {code}; a row is source, TAB, target, or set data.columns."
                )
        yield fields[int(columns[0])], fields[int(columns[1])]


def _read_jsonl(path: Path, languages: Languages) -> Pairs:
    for number, line in enumerate(iterate_lines(path), 1):
        where = f"{path}, line {number}"
        try:
            row = dict(json.loads(line))
        except (TypeError, ValueError) as error:
            raise UserError(f"{where} is no JSON object ({error}); give one a line.") from None
        yield _both_sides(row, languages, where)


def _read_parquet(path: Path, languages: Languages) -> Pairs:
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for rows in table.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row in rows.to_pylist():
                    yield _both_sides(row, languages, str(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read ({error}); get the file again.") from error


_READERS: dict[str, Callable[[Path, Languages], Pairs]] = {
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}


def _both_sides(row: Mapping[Any, Any], languages: Languages, where: str) -> tuple[str, str]:
    """Returns the texts of a row of either shape: `{en, de}` or `{translation: {en, de}}`."""
    found = []
    for code in languages.codes:
        column = languages.column(code)
        shapes = [s for s in (row, row.get("translation")) if isinstance(s, Mapping)]
        holder = next((shape for shape in shapes if column in shape), None)
        if holder is None:
            raise UserError(_missing_column(column, list(row), where))
        found.append(_text(holder[column], f"{where}, column {column!r},"))
    return found[0], found[1]


def _text(value: Any, where: str) -> str:
    """Returns the value as text; a missing one (null) is empty."""
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        raise UserError(f"{where} holds a {type(value).__name__}, not text; give one sentence.")
    text = "" if value is None else str(value)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise UserError(f"{where} holds half a surrogate pair, which is no text; correct it.")
    return text


def _missing_column(column: str | int, found: Sequence[str], where: str) -> str:
    return (
        f"{where} has no column {column!r} and no translation with it, but {', '.join(found)}; "
        "set data.source_lang and data.target_lang, or name the columns, for example "
        f"data.columns={{{column}: {found[0] if found else 'name'}}}."
    )


# The hub


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """Where a data set is on the hub.

    Attributes:
        path: `owner/name`, or a local folder of parquet or JSON files.
        revision: Commit hash, tag or branch; ignored for a local folder.
        splits: Our split name to theirs, or to a slice such as `train[:-2000]`.
        config: Their configuration (subset) name, None if there is one only.
    """

    path: str
    revision: str
    splits: Mapping[str, str]
    config: str | None = None


def load_hub(options: HubOptions, languages: Languages, *, where: str) -> dict[str, Dataset]:
    """Returns the splits with columns source and target; missing values are empty texts.

    Data sets are plain parquet or JSON; code of a data set is never run. `where` is what the
    options of the corpus are called in the configuration.
    """
    local = Path(options.path).is_dir()
    revision = None if local else options.revision
    if not local and not huggingface_hub.constants.HF_HUB_OFFLINE:
        _check_that_hub_answers(options, where)
    return {
        name: _select_sides(
            _load_split(options, expression, revision=revision, where=where),
            languages,
            where=f"{options.path} ({name})",
        )
        for name, expression in options.splits.items()
    }


def _select_sides(dataset: Dataset, languages: Languages, *, where: str) -> Dataset:
    found = dataset.column_names
    dataset = dataset.flatten()
    names = []
    for language in languages.codes:
        column = languages.column(language)
        shapes = [name for name in (column, f"translation.{column}") if name in dataset.features]
        if not shapes:
            raise UserError(_missing_column(column, found, where))
        names.append(shapes[0])
    dataset = dataset.select_columns(names)
    dataset = dataset.rename_columns(dict(zip(names, ("source", "target"), strict=True)))
    if any(dataset.data.column(side).null_count for side in ("source", "target")):
        dataset = dataset.map(lambda row: {side: text or "" for side, text in row.items()})
    return dataset


def _check_that_hub_answers(options: HubOptions, where: str) -> None:
    """Asks once, since `datasets` retries for minutes."""
    try:
        huggingface_hub.HfApi().dataset_info(
            options.path, revision=options.revision, timeout=_SECONDS_TO_ANSWER
        )
    except HfHubHTTPError as error:
        raise UserError(
            f"The hub refuses the data set {options.path} at revision {options.revision} "
            f"({_first_line(error)}); check {where}.hub.path and {where}.hub.revision."
        ) from error
    except Exception as error:  # which one depends on the HTTP library and the proxy
        raise UserError(_unreachable(options, _first_line(error), where)) from error


def _load_split(
    options: HubOptions, expression: str, *, revision: str | None, where: str
) -> Dataset:
    try:
        builder = datasets.load_dataset_builder(options.path, options.config, revision=revision)
        if builder.name not in _HUB_FORMATS:
            raise ValueError(f"its files are {builder.name}")
        return datasets.load_dataset(
            options.path, options.config, revision=revision, split=expression
        )
    except ConnectionError as error:
        raise UserError(_unreachable(options, _first_line(error), where)) from error
    except (RuntimeError, ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        raise UserError(
            f"The data set {options.path} (config {options.config}, split {expression}) cannot be "
            f"loaded: {_first_line(error)}; only parquet and JSON data without code are read."
        ) from error


def _unreachable(options: HubOptions, reason: str, where: str) -> str:
    return (
        f"The data set {options.path} cannot be fetched from the hub ({reason}); give a local copy "
        f"with {where}.directory=DIR, use data=files or data=grammar, or set HF_HUB_OFFLINE=1 if "
        "it was downloaded before."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


# Rows of a data set


def texts(dataset: Dataset, side: str) -> Iterator[str]:
    """Yields the text of one column, `source` or `target`, in order; row by row is far slower."""
    for rows in dataset.select_columns([side]).iter(batch_size=_ROWS_AT_ONCE):
        yield from rows[side]


def pairs(dataset: Dataset) -> Pairs:
    """Yields (source, target) in order."""
    for rows in dataset.select_columns(["source", "target"]).iter(batch_size=_ROWS_AT_ONCE):
        yield from zip(rows["source"], rows["target"], strict=True)
