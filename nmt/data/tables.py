"""Reads the two sides of a corpus from the rows of a TSV, JSONL or parquet file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from nmt.data.lines import iterate_lines

_ROWS_AT_ONCE = 10_000

Pairs = Iterator[tuple[str, str]]


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
    columns: Mapping[str, str | int]

    @property
    def codes(self) -> tuple[str, str]:
        """Source, then target."""
        return self.source, self.target

    def column(self, language: str) -> str | int:
        """Returns the column of a language."""
        return self.columns.get(language, language)


def text_of(row: Mapping[Any, Any], language: str, languages: Languages, *, where: str) -> str:
    """Returns one side of a row of either shape: `{en, de}` or `{translation: {en, de}}`.

    A missing value (null) is an empty text.

    Raises:
        ValueError: No such column, with a list of those found; or a value that is no text.
    """
    column = languages.column(language)
    for shape in (row, row.get("translation")):
        if isinstance(shape, Mapping) and column in shape:
            return _text(shape[column], f"{where}, column {column!r},")
    raise ValueError(missing_column(column, list(row), where=where))


def _text(value: Any, where: str) -> str:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        raise ValueError(f"{where} holds a {type(value).__name__}, not text; give one sentence.")
    text = "" if value is None else str(value)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{where} holds half a surrogate pair, which is no text; correct it.")
    return text


def missing_column(column: str | int, found: Sequence[str], *, where: str) -> str:
    """Returns the message for a table without the wanted column."""
    return (
        f"{where} has no column {column!r} and no translation with it, but {', '.join(found)}; "
        "set data.source_lang and data.target_lang, or name the columns, for example "
        f"data.columns={{{column}: {found[0] if found else 'name'}}}."
    )


def _read_tsv(path: Path, languages: Languages) -> Pairs:
    """Yields the pairs of `source TAB target` lines; there is no quoting and no header."""
    numbers = dict(zip(languages.codes, (0, 1), strict=True)) | dict(languages.columns)
    columns = [numbers[code] for code in languages.codes]
    for number, line in enumerate(iterate_lines(path), 1):
        fields = line.split("\t")
        for column, code in zip(columns, languages.codes, strict=True):
            if len(fields) < 2 or not isinstance(column, int) or not 0 <= column < len(fields):
                raise ValueError(
                    f"{path}, line {number} has {len(fields)} tab-separated fields and no field "
                    f"{column!r} for {code}; a row is source, TAB, target, or set data.columns."
                )
        yield fields[int(columns[0])], fields[int(columns[1])]


def _read_jsonl(path: Path, languages: Languages) -> Pairs:
    for number, line in enumerate(iterate_lines(path), 1):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where} is not JSON ({error}); give one object a line.") from None
        if not isinstance(row, dict):
            raise ValueError(f"{where} is not a JSON object; give one object a line.")
        yield _both_sides(row, languages, where)


def _read_parquet(path: Path, languages: Languages) -> Pairs:
    if not path.is_file():
        raise ValueError(f"There is no file {path}; check the path.")
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for rows in table.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row in rows.to_pylist():
                    yield _both_sides(row, languages, str(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); get the file again.") from error


def _both_sides(row: Mapping[Any, Any], languages: Languages, where: str) -> tuple[str, str]:
    source, target = (text_of(row, code, languages, where=where) for code in languages.codes)
    return source, target


# Each raises ValueError for a file that does not hold the two sides.
READERS: dict[str, Callable[[Path, Languages], Pairs]] = {
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
