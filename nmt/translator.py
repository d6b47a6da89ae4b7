"""Translates text with a trained model.

translator = Translator.from_checkpoint("outputs/.../checkpoints/best.ckpt")
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)
(score,) = translator.score([("It is raining.", "Es regnet.")])
print(score.log_prob, score.perplexity)
print(translator.attention("It is raining.", "Es regnet.").weights.shape)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Self

import torch

from nmt.checkpoint import load_checkpoint
from nmt.data.batch import collate, collate_source
from nmt.data.length_unit import default_unit
from nmt.decoding.hypothesis import Hypothesis, Search, check_at_least
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.scoring import TranslationScore, score_batch
from nmt.source_batches import batches_by_length, cut_source
from nmt.tokenizer import Tokenizer
from nmt.translation import BLANK, ScoredText, Translation
from nmt.word_attention import Units, WordAttention, word_attentions

__all__ = [
    "ScoredText",
    "Translation",
    "TranslationScore",
    "Translator",
    "WordAttention",
    "batches_by_length",
]


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

    def score(
        self, pairs: Iterable[tuple[str, str | Sequence[int]]], *, batch_tokens: int = 4096
    ) -> list[TranslationScore]:
        """Scores translations that are given (teacher forcing), in the order of the pairs.

        Nothing is cut, and a blank source is asked for like any other: the model reads its EOS.

        Args:
            pairs: Source, and translation as text or as ids without special ids
                (`ScoredText.tokens`; a search may have spelt its text in other pieces than the
                tokenizer does).
            batch_tokens: Most tokens of a side in a batch, padding and EOS included; a longer
                pair is a batch of its own.

        Raises:
            ValueError: An element of `pairs` is no pair, `batch_tokens` is below 1, or the model's
                output is not a number.
        """
        check_at_least("batch_tokens", batch_tokens, 1)
        pairs = list(pairs)
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise ValueError("pairs must hold (source, translation) pairs; give a list of them.")
        sources = self.tokenizer.encode_batch([source for source, _ in pairs])
        targets = [
            self.tokenizer.encode(target) if isinstance(target, str) else list(target)
            for _, target in pairs
        ]
        scores: dict[int, TranslationScore] = {}
        lengths = [max(len(s), len(t), 1) for s, t in zip(sources, targets, strict=True)]
        for rows in batches_by_length(lengths, batch_tokens):
            batch = collate(
                [{"index": i, "source_ids": sources[i], "target_ids": targets[i]} for i in rows]
            )
            scores.update(zip(rows, score_batch(self.model, batch.to(self._device)), strict=True))
        return [scores[i] for i in range(len(pairs))]

    def attention(self, source: str, target: str) -> WordAttention:
        """Returns which source words the model looks at for each word of a given translation.

        See `nmt.word_attention`; for many pairs use `attentions`.

        Raises:
            ValueError: The model has no attention, or attends to memory slots, which are no
                words; or a text is blank.
        """
        (attention,) = self.attentions([(source, target)])
        return attention

    def attentions(
        self, pairs: Iterable[tuple[str, str]], *, batch_tokens: int = 1024
    ) -> Iterator[WordAttention]:
        """Yields `attention` of each pair, in order, and keeps none of them.

        Args:
            pairs: Source and translation. Neighbours make a batch: sort them by length for speed.
            batch_tokens: As in `score`.

        Raises:
            ValueError: As `attention`.
        """
        check_at_least("batch_tokens", batch_tokens, 1)
        units = Units(default_unit(self.source_lang), default_unit(self.target_lang))
        return word_attentions(
            self.model, self.tokenizer, pairs, units=units, batch_tokens=batch_tokens
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
                cut_source(source, line, max_source_length)
            alternatives: list[tuple[ScoredText, ...]] = [(BLANK,)] * len(chunk)
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
