"""Prepares sources for a model: cuts those that are too long, groups those of similar length."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

logger = logging.getLogger(__name__)


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
