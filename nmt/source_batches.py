"""Prepares text for a model: pairs lines, cuts long sources, groups those of similar length."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

logger = logging.getLogger(__name__)


def paired(sources: Iterable[str], others: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Yields the sources with what belongs to them, as they come.

    Args:
        sources: One text each.
        others: As many.
        name: What they are, in the plural.

    Raises:
        ValueError: One of the two ends before the other.
    """
    for line, (source, other) in enumerate(zip_longest(sources, others), 1):
        if source is None or other is None:
            short, long = (name, "sources") if other is None else ("sources", name)
            raise ValueError(f"There are only {line - 1} {short}, but more {long}: give as many.")
        yield source, other


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Groups sentences of similar length, longest first; leaves out those of length 0.

    Args:
        lengths: Source tokens of each sentence without EOS.
        batch_tokens: Most tokens in a batch, EOS and padding included, unless one sentence
            alone has more.

    Yields:
        Indices into `lengths`.
    """
    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
    first = 0
    while first < len(order):
        num_rows = max(1, batch_tokens // (lengths[order[first]] + 1))
        yield order[first : first + num_rows]
        first += num_rows


def cut_source(source: list[int], line: int, max_source_length: int) -> None:
    """Shortens a source to its limit and says so."""
    if len(source) > max_source_length:
        logger.warning(
            "line %d has %d source tokens, more than the limit of %d: only the first %d are "
            "translated; raise max_source_length to translate all of it",
            line,
            len(source),
            max_source_length,
            max_source_length,
        )
        del source[max_source_length:]
