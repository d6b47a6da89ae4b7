"""Translates text with a trained model.

translator = Translator.from_checkpoint("outputs/.../checkpoints/best.ckpt")
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)
(translation,) = translator.translate(["It is raining."], prefixes=["Es"], alignment="word")
print(translation.alternatives[0].alignment)
(score,) = translator.score([("It is raining.", "Es regnet.")])
print(score.log_prob, score.perplexity)
print(translator.attention("It is raining.", "Es regnet.").weights.shape)

What a translator answers: a sentence and its translations.

Prepares text for a model: pairs lines, cuts long sources, groups those of similar length.

Teacher forcing: how probable a model finds a translation that is given to it.

Sentences as they come: read in chunks, cut, put into batches, answered in order.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat, zip_longest
from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F

from nmt.alignment import (
    Granularity,
    Links,
    Units,
    WordAttention,
    align,
    check_granularity,
    word_attentions,
)
from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError, at_least
from nmt.data.batch import Batch, collate, collate_source
from nmt.decoding.search import Hypothesis, Search
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.special_tokens import BOS, EOS, PAD
from nmt.tokenizer import Tokenizer, default_unit

logger = logging.getLogger(__name__)


"""Pairs (source unit, target unit), numbered from 0."""


@dataclass(frozen=True)
class ScoredText:
    """One translation of a sentence.

    Attributes:
        text: The translation, without a line break.
        tokens: Its ids, without special ids.
        score: What the search ranks by, `log_prob / length ** length_penalty`.
        log_prob: Natural logarithm of the model's probability.
        finished: False where the length limit ended it.
        alignment: Links between words or pieces (see `nmt.alignment`); None unless asked for.
    """

    text: str
    tokens: tuple[int, ...]
    score: float
    log_prob: float
    finished: bool
    alignment: Links | None = None


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


BLANK = ScoredText(text="", tokens=(), score=0.0, log_prob=0.0, finished=True)


def paired(sources: Iterable[str], others: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Yields the sources with what belongs to them, as they come.

    Args:
        sources: One text each.
        others: As many.
        name: What they are, in the plural.

    Raises:
        UserError: One of the two ends before the other.
    """
    for line, (source, other) in enumerate(zip_longest(sources, others), 1):
        if source is None or other is None:
            short, long = (name, "sources") if other is None else ("sources", name)
            raise UserError(f"There are only {line - 1} {short}, but more {long}: give as many.")
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


ScoredPair = tuple[str, str | Sequence[int]]


@dataclass(frozen=True)
class TranslationScore:
    """The probability of one given translation.

    Attributes:
        tokens: Its ids, EOS last.
        token_log_probs: Natural logarithm of p(token | source, the tokens before), one for each.
    """

    tokens: tuple[int, ...]
    token_log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        """Natural logarithm of p(tokens | source): the sum over all of them."""
        return math.fsum(self.token_log_probs)

    @property
    def perplexity(self) -> float:
        """The exponential of the mean negative log-probability of a token, EOS counted."""
        return perplexity(self.log_prob, len(self.tokens))


def perplexity(log_prob: float, num_tokens: int) -> float:
    """Returns exp(-log_prob / num_tokens), infinite where that is beyond all numbers."""
    mean = -log_prob / num_tokens
    return math.exp(mean) if mean < 700 else math.inf


def stream_scores(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Iterable[ScoredPair],
    *,
    batch_tokens: int,
    chunk_size: int,
) -> Iterator[TranslationScore]:
    """Yields the score of each pair, in order, holding no more than a chunk of them.

    Args:
        model: In eval mode.
        tokenizer: The model's.
        pairs: As `nmt.translator.Translator.score` takes them.
        batch_tokens: Most tokens of a side in a batch, padding and EOS included; a longer pair is
            a batch of its own.
        chunk_size: Pairs read ahead and sorted by length.

    Raises:
        UserError: An element of `pairs` is no pair, an id cannot be part of a translation, or the
            model's output is not a number.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    pairs = iter(pairs)
    while chunk := list(islice(pairs, chunk_size)):
        if any(isinstance(pair, str) or len(pair) != 2 for pair in chunk):
            raise UserError("pairs must hold (source, translation) pairs; give a list of them.")
        sources = tokenizer.encode_batch([source for source, _ in chunk])
        targets = [
            tokenizer.encode(target)
            if isinstance(target, str)
            else _checked_ids(target, tokenizer.vocab_size)
            for _, target in chunk
        ]
        scores: dict[int, TranslationScore] = {}
        lengths = [max(len(s), len(t), 1) for s, t in zip(sources, targets, strict=True)]
        for rows in batches_by_length(lengths, batch_tokens):
            batch = collate(
                [{"index": i, "source_ids": sources[i], "target_ids": targets[i]} for i in rows]
            )
            scores.update(zip(rows, score_batch(model, batch.to(device)), strict=True))
        yield from (scores[i] for i in range(len(chunk)))


def _checked_ids(ids: Sequence[int], vocab_size: int) -> list[int]:
    for token in ids:
        if token in (PAD, BOS, EOS) or not 0 <= token < vocab_size:
            raise UserError(
                f"a translation holds the id {token}: give ids from 0 to {vocab_size - 1}, without "
                f"PAD, BOS and EOS ({PAD}, {BOS}, {EOS})."
            )
    return list(ids)


@torch.inference_mode()
def score_batch(model: EncoderDecoder, batch: Batch) -> list[TranslationScore]:
    """Returns the score of each pair of a batch, in its order.

    Raises:
        UserError: The model's output is not a number.
    """
    logits = model(batch.source, batch.source_mask, batch.target_in)  # (B, T, V)
    losses = F.cross_entropy(
        logits.flatten(0, 1).float(), batch.target_out.flatten(), reduction="none"
    ).view_as(batch.target_out)
    if bool(losses.isnan().any()):
        raise UserError(
            "The model's output is not a number: the checkpoint is damaged or its training "
            "diverged, use another one."
        )
    lengths = (batch.target_out != PAD).sum(-1).tolist()
    rows = zip(batch.target_out.tolist(), (-losses).tolist(), lengths, strict=True)
    return [
        TranslationScore(tuple(tokens[:length]), tuple(log_probs[:length]))
        for tokens, log_probs, length in rows
    ]


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How sentences are read and put together; see `nmt.translator.Translator.stream`.

    Raises:
        UserError: An option is out of range.
    """

    batch_tokens: int
    max_source_length: int
    chunk_size: int
    first_line: int

    def __post_init__(self) -> None:
        at_least("batch_tokens", self.batch_tokens, 1)
        at_least("max_source_length", self.max_source_length, 1)
        at_least("chunk_size", self.chunk_size, 1)


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
        UserError: `texts` or `prefixes` is a single string, or there are more or fewer prefixes
            than texts.
    """
    for name, given in (("texts", texts), ("prefixes", prefixes)):
        if isinstance(given, str):
            raise UserError(f"{name} is one string; give a list of them, one a sentence.")
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
        UserError: Its probability is not a number.
    """
    if math.isnan(hypothesis.log_prob):
        raise UserError(
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
            UserError: No usable checkpoint, no such device or no such precision.
        """
        if precision not in PRECISIONS:
            raise UserError(
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
            UserError: An option is out of range, `texts` or `prefixes` is a single string, there
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
            UserError: An element of `pairs` is no pair, an id cannot be part of a translation, an
                option is out of range, or the model's output is not a number.
        """
        at_least("batch_tokens", batch_tokens, 1)
        at_least("chunk_size", chunk_size, 1)
        return stream_scores(
            self.model, self.tokenizer, pairs, batch_tokens=batch_tokens, chunk_size=chunk_size
        )

    def attention(self, source: str, target: str) -> WordAttention:
        """Returns which source words the model looks at for each word of a given translation.

        See `nmt.alignment`; for many pairs use `attentions`.

        Raises:
            UserError: The model has no attention, or attends to memory slots, which are no
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
            UserError: As `attention`.
        """
        at_least("batch_tokens", batch_tokens, 1)
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
