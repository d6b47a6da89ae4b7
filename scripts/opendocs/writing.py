"""Writes the corpus, and what one should know of it."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nmt.evaluation.length import DEFAULT_EDGES
from opendocs.filters import Pair
from opendocs.packages import Package
from opendocs.sources import Source
from opendocs.splitting import Splits, bucket

_EVALUATION = ("valid", "test")


def write_corpus(splits: Splits, folder: Path) -> None:
    """Writes `{train,valid,test}.{en,de}.gz` and `{valid,test}.documents.tsv.gz`.

    Line k of the latter tells of line k of the text: document, source, and `sentence` or `multi`
    (several sentences on a side).
    """
    for name, pairs in _parts(splits).items():
        _write(folder / f"{name}.en.gz", (pair.english for pair in pairs))
        _write(folder / f"{name}.de.gz", (pair.german for pair in pairs))
        if name in _EVALUATION:
            rows = (f"{pair.document}\t{pair.source}\t{_kind(pair)}" for pair in pairs)
            _write(folder / f"{name}.documents.tsv.gz", rows)


def readme(
    splits: Splits,
    *,
    sources: Sequence[Source],
    packages: Mapping[str, Sequence[Package]],
    removed: Mapping[str, int],
) -> str:
    """Returns the text of README.md.

    Args:
        splits: The corpus.
        sources: What it was made of.
        packages: The packages used, by name of their source.
        removed: Texts left out, by reason.
    """
    return _TEMPLATE.format(
        sources=_table(
            ("source", "what", "licence"), [(s.name, s.title, s.licence) for s in sources]
        ),
        packages="\n".join(
            f"* {name}: " + ", ".join(f"{package.name} {package.version}" for package in used)
            for name, used in packages.items()
        ),
        counts=_table(*_counts(splits)),
        lengths=_table(*_lengths(splits)),
        by_source=_table(*_by_source(splits, sources)),
        removed=_table(("left out", "pairs"), [(k, f"{v:,}") for k, v in removed.items()]),
    )


def _parts(splits: Splits) -> dict[str, list[Pair]]:
    """Returns the pairs by name of the split."""
    return {"train": splits.train, "valid": splits.valid, "test": splits.test}


def _kind(pair: Pair) -> str:
    """Returns how a pair is marked."""
    return "sentence" if pair.is_sentence else "multi"


def _write(path: Path, lines: Iterable[str]) -> None:
    """Writes lines; the same lines make the same bytes."""
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content, mtime=0))


def _counts(splits: Splits) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Returns the table of sizes."""
    rows: list[Sequence[str]] = []
    for name, pairs in _parts(splits).items():
        documents = {(pair.source, pair.document) for pair in pairs}
        words = [sum(len(side.split()) for side in sides) for sides in _sides(pairs)]
        multi = sum(_kind(pair) == "multi" for pair in pairs)
        figures = (len(pairs), len(documents), *words, len(pairs) - multi, multi)
        rows.append((name, *(f"{figure:,}" for figure in figures)))
    head = ("split", "pairs", "documents", "English words", "German words", "sentence", "multi")
    return head, rows


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Returns both sides."""
    return [pair.english for pair in pairs], [pair.german for pair in pairs]


def _lengths(splits: Splits) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Returns the table of pairs by length."""
    lows = [1, *(edge + 1 for edge in DEFAULT_EDGES)]
    labels = [f"{low}-{high}" for low, high in zip(lows, DEFAULT_EDGES, strict=False)]
    rows: list[Sequence[str]] = []
    for name, pairs in _parts(splits).items():
        for kind in ("sentence", "multi"):
            numbers = Counter(bucket(pair.words) for pair in pairs if _kind(pair) == kind)
            rows.append((f"{name}, {kind}", *(f"{numbers[k]:,}" for k in range(len(lows)))))
    return ("split", *labels, f"{lows[-1]}+"), rows


def _by_source(
    splits: Splits, sources: Sequence[Source]
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Returns the table of pairs by source."""
    parts = _parts(splits)
    numbers = {name: Counter(pair.source for pair in pairs) for name, pairs in parts.items()}
    rows: list[Sequence[str]] = [
        (source.name, *(f"{numbers[name][source.name]:,}" for name in parts)) for source in sources
    ]
    return ("source", *parts), rows


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


_TEMPLATE = """# opendocs: English-German from free-software documentation

Made by `scripts/prepare_opendocs.py` of published Debian or Ubuntu packages: manuals and help whose
two language versions have the same structure, and message catalogues. Plain text, UTF-8, one pair
a line, untokenised, true case: `{{train,valid,test}}.{{en,de}}.gz`. Line k of
`{{valid,test}}.documents.tsv.gz` tells of pair k: document, source, `sentence` or `multi` (a side
has several sentences, by simple rules).

## Sources

{sources}

The licences are the projects' usual terms; the packages' own statements are in `copyright/`. Read
them before you pass on text or what was trained on it.

{packages}

## Counts

{counts}

Pairs by English words:

{lengths}

Pairs by source:

{by_source}

## How it was made

Blocks (paragraphs, headings, list items, table cells) are paired where two files, or two sections
of the same id, have the same sequence of elements. Messages with plural forms are left out. Half of
the training paragraphs are split into sentences where both sides have equally many. Validation and
test hold documents that are not in the training data, equally many pairs of each length as far as
there are, and no pair of which a side, a sentence or most 5-word sequences occur in the training
data.

{removed}
"""
