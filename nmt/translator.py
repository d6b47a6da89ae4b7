"""Translates text with a trained model.

translator = Translator.from_checkpoint("outputs/.../checkpoints/best.ckpt")
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)
(translation,) = translator.translate(["It is raining."], prefixes=["Es"], alignment="word")
print(translation.alternatives[0].alignment)
(score,) = translator.score([("It is raining.", "Es regnet.")])
print(score.log_prob, score.perplexity)
print(translator.attention("It is raining.", "Es regnet.").weights.shape)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Self

import torch

from nmt.alignments import Granularity, align, check_granularity
from nmt.checkpoint import load_checkpoint
from nmt.data.batch import collate_source
from nmt.data.length_unit import default_unit
from nmt.decoding.hypothesis import Hypothesis, Search, check_at_least
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.scoring import ScoredPair, TranslationScore, stream_scores
from nmt.sentence_stream import Sentence, StreamOptions, scored_text, translate_stream
from nmt.source_batches import batches_by_length
from nmt.tokenizer import Tokenizer
from nmt.translation import BLANK, Links, ScoredText, Translation
from nmt.word_attention import Units, WordAttention, word_attentions

__all__ = [
    "ScoredText",
    "Translation",
    "TranslationScore",
    "Translator",
    "WordAttention",
]

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


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
    def from_checkpoint(
        cls, path: str | Path, *, device: str = "cpu", precision: str = "fp32"
    ) -> Self:
        """Loads a checkpoint; the file alone is enough.

        Args:
            path: A `.ckpt` file written by training.
            device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`: a GPU if there is one.
            precision: `fp32`, `bf16` or `fp16`, the type of weights and activations;
                probabilities are fp32 in any case.

        Raises:
            ValueError: No usable checkpoint, no such device or no such precision.
        """
        if precision not in PRECISIONS:
            raise ValueError(
                f"precision is {precision!r}, but it must be one of {', '.join(PRECISIONS)}."
            )
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        checkpoint = load_checkpoint(path, device=device)
        return cls(
            checkpoint.model.to(PRECISIONS[precision]),
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
        prefixes: Iterable[str] | None = None,
        alignment: Granularity | None = None,
    ) -> list[Translation]:
        """Translates all texts; options as in `stream`."""
        return list(
            self.stream(
                texts,
                search=search,
                batch_tokens=batch_tokens,
                max_source_length=max_source_length,
                prefixes=prefixes,
                alignment=alignment,
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
        prefixes: Iterable[str] | None = None,
        alignment: Granularity | None = None,
        first_line: int = 1,
    ) -> Iterator[Translation]:
        """Translates texts as they come, in order, holding no more than a chunk of them.

        Args:
            texts: One sentence each.
            search: Instead of the translator's own.
            batch_tokens: Most source tokens in a batch, padding and EOS included; a longer
                sentence is a batch of its own. For alignment, of either side.
            max_source_length: Source tokens (pieces) above which a text is cut, with a warning.
            chunk_size: Texts read ahead and sorted by length; 1 answers each text at once.
            prefixes: As many as texts: what each translation begins with, blank where nothing is
                given. The pieces of the prefix are kept, so a word may go on after it. A blank
                text stays blank.
            alignment: Links of which units each translation has: `word`, `subword` or None.
            first_line: The number of the first text, for the warnings.

        Raises:
            ValueError: An option is out of range, `texts` or `prefixes` is a single string, there
                are more or fewer prefixes than texts, the model has no attention to align with, or
                its output is not a number.
        """
        if alignment is not None:
            check_granularity(alignment)
        options = StreamOptions(
            batch_tokens=batch_tokens,
            max_source_length=max_source_length,
            chunk_size=chunk_size,
            first_line=first_line,
        )

        def translate(batch: Sequence[Sentence]) -> Iterator[tuple[ScoredText, ...]]:
            found = self._search(batch, search or self.search)
            links = self._align(batch, found, alignment, batch_tokens)
            for hypotheses, of_each in zip(found, links, strict=True):
                yield tuple(map(self._scored_text, hypotheses, of_each))

        blank = BLANK if alignment is None else replace(BLANK, alignment=())
        return translate_stream(
            texts, self.tokenizer, translate, options, prefixes=prefixes, blank=blank
        )

    def score(
        self, pairs: Iterable[ScoredPair], *, batch_tokens: int = 4096
    ) -> list[TranslationScore]:
        """Scores translations that are given (teacher forcing); options as in `stream_scores`."""
        return list(self.stream_scores(pairs, batch_tokens=batch_tokens))

    def stream_scores(
        self, pairs: Iterable[ScoredPair], *, batch_tokens: int = 4096, chunk_size: int = 2048
    ) -> Iterator[TranslationScore]:
        """Scores translations as they come, in order, holding no more than a chunk of them.

        Nothing is cut, and a blank source is asked for like any other: the model reads its EOS.

        Args:
            pairs: Source, and translation as text or as ids without special ids
                (`ScoredText.tokens`; a search may have spelt its text in other pieces than the
                tokenizer does).
            batch_tokens: Most tokens of a side in a batch, padding and EOS included; a longer
                pair is a batch of its own.
            chunk_size: Pairs read ahead and sorted by length.

        Raises:
            ValueError: An element of `pairs` is no pair, an id cannot be part of a translation, an
                option is out of range, or the model's output is not a number.
        """
        check_at_least("batch_tokens", batch_tokens, 1)
        check_at_least("chunk_size", chunk_size, 1)
        return stream_scores(
            self.model, self.tokenizer, pairs, batch_tokens=batch_tokens, chunk_size=chunk_size
        )

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
        return word_attentions(
            self.model, self.tokenizer, pairs, units=self._units, batch_tokens=batch_tokens
        )

    @property
    def _units(self) -> Units:
        return Units(default_unit(self.source_lang), default_unit(self.target_lang))

    def _search(self, batch: Sequence[Sentence], search: Search) -> list[list[Hypothesis]]:
        source, source_mask = collate_source([sentence.ids for sentence in batch])
        source = source.to(self._device)
        source_mask = None if source_mask is None else source_mask.to(self._device)
        prefixes = self.tokenizer.encode_batch([sentence.prefix for sentence in batch])
        return search(
            self.model,
            source,
            source_mask,
            forbidden_ids=self.tokenizer.forbidden_ids,
            prefixes=prefixes if any(prefixes) else None,
        )

    def _align(
        self,
        batch: Sequence[Sentence],
        found: Sequence[Sequence[Hypothesis]],
        granularity: Granularity | None,
        batch_tokens: int,
    ) -> list[list[Links | None]]:
        """Returns the links of the hypotheses of each sentence, None where none are asked for."""
        if granularity is None:
            return [[None] * len(hypotheses) for hypotheses in found]
        pairs = [
            (sentence.ids, hypothesis.tokens)
            for sentence, hypotheses in zip(batch, found, strict=True)
            for hypothesis in hypotheses
        ]
        of_pair: dict[int, Links] = {}
        lengths = [max(len(source), len(target)) for source, target in pairs]
        for rows in batches_by_length(lengths, batch_tokens):
            links = align(
                self.model,
                self.tokenizer,
                [pairs[row] for row in rows],
                granularity=granularity,
                units=self._units,
            )
            of_pair.update(zip(rows, links, strict=True))
        in_order = (of_pair[row] for row in range(len(pairs)))
        return [list(islice(in_order, len(hypotheses))) for hypotheses in found]

    def _scored_text(self, hypothesis: Hypothesis, alignment: Links | None) -> ScoredText:
        return scored_text(hypothesis, self.tokenizer, alignment)
