"""Sentences as they come: read in chunks, cut, put into batches, answered in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat

from nmt.decoding.hypothesis import Hypothesis, check_at_least
from nmt.source_batches import batches_by_length, cut_source, paired
from nmt.tokenizer import Tokenizer
from nmt.translation import BLANK, Links, ScoredText, Translation


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How sentences are read and put together; see `nmt.translator.Translator.stream`.

    Raises:
        ValueError: An option is out of range.
    """

    batch_tokens: int
    max_source_length: int
    chunk_size: int
    first_line: int

    def __post_init__(self) -> None:
        check_at_least("batch_tokens", self.batch_tokens, 1)
        check_at_least("max_source_length", self.max_source_length, 1)
        check_at_least("chunk_size", self.chunk_size, 1)


@dataclass(frozen=True)
class Sentence:
    """What is to be translated.

    Attributes:
        line: Its number.
        ids: Its tokens without EOS, at least one.
        prefix: What its translation begins with, or blank.
    """

    line: int
    ids: list[int]
    prefix: str


Alternatives = tuple[ScoredText, ...]
Translate = Callable[[Sequence[Sentence]], Iterable[Alternatives]]


def translate_stream(
    texts: Iterable[str],
    tokenizer: Tokenizer,
    translate: Translate,
    options: StreamOptions,
    *,
    prefixes: Iterable[str] | None = None,
    blank: ScoredText = BLANK,
) -> Iterator[Translation]:
    """Translates texts as they come, in order, holding no more than a chunk of them.

    Args:
        texts: One sentence each.
        tokenizer: Makes ids of them.
        translate: Returns the alternatives of each sentence of a batch, longest first.
        options: Sizes, and the number of the first text.
        prefixes: As many as texts.
        blank: The translation of a blank text, for which `translate` is not asked.

    Raises:
        ValueError: `texts` or `prefixes` is a single string, or there are more or fewer prefixes
            than texts.
    """
    for name, given in (("texts", texts), ("prefixes", prefixes)):
        if isinstance(given, str):
            raise ValueError(f"{name} is one string; give a list of them, one a sentence.")
    lines = zip(texts, repeat("")) if prefixes is None else paired(texts, prefixes, "prefixes")
    return _stream(iter(lines), tokenizer, translate, options, (blank,))


def _stream(
    lines: Iterator[tuple[str, str]],
    tokenizer: Tokenizer,
    translate: Translate,
    options: StreamOptions,
    blank: Alternatives,
) -> Iterator[Translation]:
    first_line = options.first_line
    while chunk := list(islice(lines, options.chunk_size)):
        texts = [text for text, _ in chunk]
        encoded = zip(tokenizer.encode_batch(texts), chunk, strict=True)
        sentences = [
            Sentence(line, ids, prefix)
            for line, (ids, (_, prefix)) in enumerate(encoded, first_line)
        ]
        for sentence in sentences:
            cut_source(sentence.ids, sentence.line, options.max_source_length)
        alternatives = [blank] * len(chunk)
        lengths = [len(sentence.ids) for sentence in sentences]
        for rows in batches_by_length(lengths, options.batch_tokens):
            found = translate([sentences[row] for row in rows])
            for row, of_row in zip(rows, found, strict=True):
                alternatives[row] = of_row
        yield from map(Translation, texts, alternatives)
        first_line += len(chunk)


def scored_text(
    hypothesis: Hypothesis, tokenizer: Tokenizer, alignment: Links | None = None
) -> ScoredText:
    """Returns a hypothesis as text.

    Raises:
        ValueError: Its probability is not a number.
    """
    if math.isnan(hypothesis.log_prob):
        raise ValueError(
            "The model's output is not a number: the checkpoint is damaged or its training "
            "diverged, use another one."
        )
    return ScoredText(
        text=tokenizer.decode(hypothesis.tokens),
        tokens=hypothesis.tokens,
        score=hypothesis.score,
        log_prob=hypothesis.log_prob,
        finished=hypothesis.finished,
        alignment=alignment,
    )
