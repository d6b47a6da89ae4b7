"""Translates text with a trained model.

translator = Translator.from_checkpoint("outputs/.../checkpoints/best.ckpt")
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import torch

from nmt.checkpoint import load_checkpoint
from nmt.data.batch import collate_source
from nmt.decoding.hypothesis import Hypothesis, Search, check_at_least
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredText:
    """One translation of a sentence.

    Attributes:
        text: The translation, without a line break.
        tokens: Its ids, without special ids.
        score: What the search ranks by, `log_prob / length ** length_penalty`.
        log_prob: Natural logarithm of the model's probability.
        finished: False where the length limit ended it.
    """

    text: str
    tokens: tuple[int, ...]
    score: float
    log_prob: float
    finished: bool


@dataclass(frozen=True)
class Translation:
    """The translations of one sentence.

    Attributes:
        source: The sentence as given.
        alternatives: At least one, best first.
    """

    source: str
    alternatives: tuple[ScoredText, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
        return self.alternatives[0].score


_BLANK = ScoredText(text="", tokens=(), score=0.0, log_prob=0.0, finished=True)


class Translator:
    """A model, its tokenizer and a search: text in, text out.

    The result for a sentence does not depend on the sentences around it. A blank sentence (nothing
    but white space) has a blank translation with score 0; the model is not asked.

    Args:
        model: Put into eval mode; translation happens on its device.
        tokenizer: The tokenizer the model was trained with.
        search: What `translate` uses unless told otherwise.
        source_lang: Language code, for the record.
        target_lang: Language code, for the record.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        search: Search,
        *,
        source_lang: str = "",
        target_lang: str = "",
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.search = search
        self.source_lang = source_lang
        self.target_lang = target_lang
        self._device = next((p.device for p in model.parameters()), torch.device("cpu"))

    @classmethod
    def from_checkpoint(cls, path: str | Path, *, device: str = "cpu") -> Self:
        """Loads a checkpoint; the file alone is enough.

        Args:
            path: A `.ckpt` file written by training.
            device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`: a GPU if there is one.

        Raises:
            ValueError: No usable checkpoint, or no such device.
        """
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        checkpoint = load_checkpoint(path, device=device)
        return cls(
            checkpoint.model,
            checkpoint.tokenizer,
            checkpoint.search,
            source_lang=checkpoint.source_lang,
            target_lang=checkpoint.target_lang,
        )

    def translate(
        self,
        texts: Iterable[str],
        *,
        search: Search | None = None,
        batch_tokens: int = 4096,
        max_source_length: int = 1024,
    ) -> list[Translation]:
        """Translates all texts; options as in `stream`."""
        return list(
            self.stream(
                texts,
                search=search,
                batch_tokens=batch_tokens,
                max_source_length=max_source_length,
            )
        )

    def stream(
        self,
        texts: Iterable[str],
        *,
        search: Search | None = None,
        batch_tokens: int = 4096,
        max_source_length: int = 1024,
        chunk_size: int = 2048,
    ) -> Iterator[Translation]:
        """Translates texts as they come, in order, holding no more than a chunk of them.

        Args:
            texts: One sentence each.
            search: Instead of the translator's own.
            batch_tokens: Most source tokens in a batch, padding and EOS included; a longer
                sentence is a batch of its own.
            max_source_length: Source tokens (pieces) above which a text is cut, with a warning.
            chunk_size: Texts read ahead and sorted by length; 1 answers each text at once.

        Raises:
            ValueError: An option is out of range, `texts` is a single string, or the model's
                output is not a number.
        """
        check_at_least("batch_tokens", batch_tokens, 1)
        check_at_least("max_source_length", max_source_length, 1)
        check_at_least("chunk_size", chunk_size, 1)
        if isinstance(texts, str):
            raise ValueError("texts is one string; give a list of sentences, such as [text].")
        return self._stream(
            iter(texts), search or self.search, batch_tokens, max_source_length, chunk_size
        )

    def _stream(
        self,
        texts: Iterator[str],
        search: Search,
        batch_tokens: int,
        max_source_length: int,
        chunk_size: int,
    ) -> Iterator[Translation]:
        first_line = 1
        while chunk := list(islice(texts, chunk_size)):
            sources = self.tokenizer.encode_batch(chunk)
            for line, source in enumerate(sources, first_line):
                _cut(source, line, max_source_length)
            alternatives: list[tuple[ScoredText, ...]] = [(_BLANK,)] * len(chunk)
            for batch in batches_by_length([len(s) for s in sources], batch_tokens):
                found = self._search([sources[i] for i in batch], search)
                for i, hypotheses in zip(batch, found, strict=True):
                    alternatives[i] = tuple(map(self._scored_text, hypotheses))
            yield from map(Translation, chunk, alternatives)
            first_line += len(chunk)

    def _search(self, sources: Sequence[list[int]], search: Search) -> list[list[Hypothesis]]:
        source, source_mask = collate_source(sources)
        source = source.to(self._device)
        source_mask = None if source_mask is None else source_mask.to(self._device)
        return search(self.model, source, source_mask, forbidden_ids=self.tokenizer.forbidden_ids)

    def _scored_text(self, hypothesis: Hypothesis) -> ScoredText:
        if math.isnan(hypothesis.log_prob):
            raise ValueError(
                "The model's output is not a number: the checkpoint is damaged or its training "
                "diverged, use another one."
            )
        return ScoredText(
            text=self.tokenizer.decode(hypothesis.tokens),
            tokens=hypothesis.tokens,
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            finished=hypothesis.finished,
        )


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


def _cut(source: list[int], line: int, max_source_length: int) -> None:
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
