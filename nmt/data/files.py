"""Reads parallel text from local files: two line files, or one TSV, JSONL or parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from nmt.data.lines import iterate_lines, read_lines
from nmt.data.tables import READERS, Languages, Pairs


@dataclass(frozen=True)
class ParallelText:
    """Both sides of a corpus; line k of one is the translation of line k of the other."""

    source: list[str]
    target: list[str]


def read_parallel(files: Sequence[str | Path], languages: Languages) -> ParallelText:
    """Returns `iterate_parallel` as two lists."""
    found = list(iterate_parallel(files, languages))
    return ParallelText([source for source, _ in found], [target for _, target in found])


def iterate_parallel(files: Sequence[str | Path], languages: Languages) -> Pairs:
    """Yields the pairs of two line files or of one table, a few at a time in memory.

    Two files whose names end in the two language codes (`a.de.gz`, `a.en.gz`) are told apart by
    these; otherwise the first is the source.

    Raises:
        ValueError: Unequal numbers of lines, or a file that does not hold the two sides.
    """
    paths = [Path(file) for file in files]
    if len(paths) == 2:
        if [language_of(path) for path in paths] == [languages.target, languages.source]:
            paths.reverse()
        return _side_by_side(paths)
    if len(paths) != 1 or table_suffix(paths[0]) not in READERS:
        raise ValueError(
            f"{[str(path) for path in paths]} is no parallel corpus; give two line files "
            f"[source, target] or one file that ends in {', '.join(READERS)}."
        )
    return READERS[table_suffix(paths[0])](paths[0], languages)


def find_split(directory: Path, stem: str, languages: Languages) -> list[Path] | None:
    """Returns the files of a split, `STEM.en` and `STEM.de` or `STEM.jsonl` and the like, or None.

    Raises:
        ValueError: One of the two sides is missing.
    """
    sides = [_plain_or_gzip(directory / f"{stem}.{code}") for code in languages.codes]
    present = [side for side in sides if side is not None]
    if len(present) == 2:
        return present
    if present:
        missing = next(code for code in languages.codes if code != language_of(present[0]))
        raise ValueError(
            f"{present[0]} is there, but {stem}.{missing}[.gz] beside it is not; add it."
        )
    for suffix in READERS:
        if table := _plain_or_gzip(directory / f"{stem}{suffix}"):
            return [table]
    return None


def read_documents(directory: Path, stem: str, num_pairs: int) -> dict[str, list[str]]:
    """Reads what `STEM.documents.tsv[.gz]`, if there is one, says about each pair of a split.

    Its columns, without a header: the document, its collection, and the kind of text (one sentence
    or several).

    Returns:
        The columns `document`, which is collection/document, and `kind`; none without the file.

    Raises:
        ValueError: It has not one line of three columns for each pair.
    """
    path = _plain_or_gzip(directory / f"{stem}.documents.tsv")
    if path is None:
        return {}
    rows = [line.split("\t") for line in read_lines(path)]
    if len(rows) != num_pairs or any(len(row) != 3 for row in rows):
        raise ValueError(
            f"{path} has {len(rows)} lines for the {num_pairs} pairs of {stem}, or one without "
            "three columns (document, collection, kind); make it anew, or remove it."
        )
    return {"document": [f"{row[1]}/{row[0]}" for row in rows], "kind": [row[2] for row in rows]}


def language_of(path: Path) -> str:
    """Returns the last part of a file name without `.gz`: `de` for `train.de.gz`."""
    return path.name.removesuffix(".gz").rpartition(".")[2]


def table_suffix(path: Path) -> str:
    """Returns the suffix of a file name without `.gz`: `.tsv` for `pairs.tsv.gz`."""
    return "." + language_of(path)


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
        raise ValueError(
            f"{paths[0]} has {counts[0]} lines but {paths[1]} has {counts[1]}; parallel files "
            "need one translation per line."
        )
