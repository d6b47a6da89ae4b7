"""Translates text with a trained model.

    translator = Translator.from_checkpoint("outputs/.../checkpoints/best.ckpt")
    for translation in translator.translate(["A man is running.", "It is raining."]):
        print(translation.text, translation.score)
    (translation,) = translator.translate(["It is raining."], prefixes=["Es"], alignment="word")
    print(translation.alternatives[0].alignment)
    (score,) = translator.score([("It is raining.", "Es regnet.")])
    print(score.log_prob, score.perplexity)
    print(translator.attention("It is raining.", "Es regnet.").weights.shape)

Texts are read in chunks. Those of a chunk that are of similar length make a batch; answers come in
the order of the texts. A translator may be used by several threads at once, and pickled for other
processes. A forked process computes with one thread: those of its parent do not exist in it.
"""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat, zip_longest
from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F

from nmt import checks
from nmt.alignment import (
    GRANULARITIES,
    Granularity,
    Links,
    Units,
    WordAttention,
    align,
    device_of,
    teacher_forced,
    word_attentions,
)
from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError
from nmt.data.batch import collate_source
from nmt.decoding.sampling import Sampling
from nmt.decoding.search import Hypothesis, Search
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.special_tokens import BOS, EOS, PAD
from nmt.tokenizer import Tokenizer, default_unit

logger = logging.getLogger(__name__)

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_NOT_A_NUMBER = (
    "The model's output is not a number: the checkpoint is damaged or its training diverged, use "
    "another one."
)
ScoredPair = tuple[str, str | Sequence[int]]


@dataclass(frozen=True)
class ScoredText:
    """One translation of a sentence.

    Attributes:
        text: The translation, without a line break.
        tokens: Its ids, without special ids.
        score: What the search ranks by, `log_prob / length ** length_penalty`.
        log_prob: Natural logarithm of the model's probability.
        finished: False where the length limit ended it.
        alignment: Links between words or pieces (see `nmt.alignment`); None unless requested.
    """

    text: str
    tokens: tuple[int, ...]
    score: float
    log_prob: float
    finished: bool
    alignment: Links | None = None


BLANK = ScoredText(text="", tokens=(), score=0.0, log_prob=0.0, finished=True)
Alternatives = tuple[ScoredText, ...]


@dataclass(frozen=True)
class Translation:
    """The translations of one sentence.

    Attributes:
        source: The sentence as given.
        alternatives: At least one, best first.
    """

    source: str
    alternatives: Alternatives

    @property
    def text(self) -> str:
        """The best translation."""
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
        return self.alternatives[0].score


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
    """Returns exp(-log_prob / num_tokens), infinite where no float is as large."""
    mean = -log_prob / num_tokens
    return math.exp(mean) if mean < 700 else math.inf


class Translator:
    """A model, its tokenizer and a search: text in, text out.

    The result for a sentence does not depend on the sentences around it. A blank sentence (nothing
    visible) has a blank translation with score 0; the model is not asked.

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
        self._device = device_of(model)
        _prepare_for_forks()

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
        checks.one_of("precision", precision, tuple(PRECISIONS))
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
            checks.one_of("alignment", alignment, GRANULARITIES)
        of_call = search or self.search

        def translate(batch: Sequence[Sentence]) -> Iterator[Alternatives]:
            found = self._search(batch, of_call)
            links = self._align(batch, found, alignment, batch_tokens)
            for hypotheses, of_each in zip(found, links, strict=True):
                drawn = isinstance(of_call, Sampling)
                yield scored_texts(hypotheses, self.tokenizer, of_each, repeats=drawn)

        return translate_stream(
            texts,
            self.tokenizer,
            translate,
            batch_tokens=batch_tokens,
            max_source_length=max_source_length,
            chunk_size=chunk_size,
            first_line=first_line,
            prefixes=prefixes,
            blank=BLANK if alignment is None else replace(BLANK, alignment=()),
        )

    def score(
        self, pairs: Iterable[ScoredPair], *, batch_tokens: int = 4096
    ) -> list[TranslationScore]:
        """Scores given translations (teacher forcing); options as in `stream_scores`."""
        return list(self.stream_scores(pairs, batch_tokens=batch_tokens))

    def stream_scores(
        self, pairs: Iterable[ScoredPair], *, batch_tokens: int = 4096, chunk_size: int = 2048
    ) -> Iterator[TranslationScore]:
        """Scores translations as they come, in order, holding no more than a chunk of them.

        Nothing is cut, and a blank source is scored like any other: the model reads its EOS.

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
        checks.at_least("batch_tokens", batch_tokens)
        checks.at_least("chunk_size", chunk_size)
        return self._stream_scores(iter(pairs), batch_tokens, chunk_size)

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
        """
        checks.at_least("batch_tokens", batch_tokens)
        return word_attentions(
            self.model, self.tokenizer, pairs, units=self.units, batch_tokens=batch_tokens
        )

    @property
    def units(self) -> Units:
        """What a word is in either language."""
        return Units(default_unit(self.source_lang), default_unit(self.target_lang))

    def _search(self, batch: Sequence[Sentence], search: Search) -> list[list[Hypothesis]]:
        source, source_mask = collate_source([sentence.ids for sentence in batch])
        prefixes = self.tokenizer.encode_batch([sentence.prefix for sentence in batch])
        return search(
            self.model,
            source.to(self._device),
            None if source_mask is None else source_mask.to(self._device),
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
        """Returns the links of the hypotheses of each sentence, None where none are requested."""
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
                units=self.units,
            )
            of_pair.update(zip(rows, links, strict=True))
        in_order = (of_pair[row] for row in range(len(pairs)))
        return [list(islice(in_order, len(hypotheses))) for hypotheses in found]

    def _stream_scores(
        self, pairs: Iterator[ScoredPair], batch_tokens: int, chunk_size: int
    ) -> Iterator[TranslationScore]:
        while chunk := list(islice(pairs, chunk_size)):
            if any(isinstance(pair, str) or len(pair) != 2 for pair in chunk):
                raise UserError("pairs must hold (source, translation) pairs; give a list of them.")
            sources = self.tokenizer.encode_batch([source for source, _ in chunk])
            ids = list(zip(sources, (self._ids(target) for _, target in chunk), strict=True))
            scores: dict[int, TranslationScore] = {}
            lengths = [max(len(source), len(target), 1) for source, target in ids]
            for rows in batches_by_length(lengths, batch_tokens):
                scores.update(zip(rows, self._score([ids[row] for row in rows]), strict=True))
            yield from (scores[row] for row in range(len(chunk)))

    def _ids(self, target: str | Sequence[int]) -> Sequence[int]:
        if isinstance(target, str):
            return self.tokenizer.encode(target)
        vocab_size = self.tokenizer.vocab_size
        for token in target:
            if token in (PAD, BOS, EOS) or not 0 <= token < vocab_size:
                raise UserError(
                    f"a translation holds the id {token}: give ids from 0 to {vocab_size - 1}, "
                    f"without PAD, BOS and EOS ({PAD}, {BOS}, {EOS})."
                )
        return target

    @torch.inference_mode()
    def _score(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[TranslationScore]:
        batch = teacher_forced(pairs, self.model)
        logits = self.model(batch.source, batch.source_mask, batch.target_in)  # (B, T, V)
        losses = F.cross_entropy(
            logits.flatten(0, 1).float(), batch.target_out.flatten(), reduction="none"
        ).view_as(batch.target_out)
        if bool(losses.isnan().any()):
            raise UserError(_NOT_A_NUMBER)
        lengths = (batch.target_out != PAD).sum(-1).tolist()
        rows = zip(batch.target_out.tolist(), (-losses).tolist(), lengths, strict=True)
        return [
            TranslationScore(tuple(tokens[:length]), tuple(log_probs[:length]))
            for tokens, log_probs, length in rows
        ]


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


def translate_stream(
    texts: Iterable[str],
    tokenizer: Tokenizer,
    translate: Callable[[Sequence[Sentence]], Iterable[Alternatives]],
    *,
    batch_tokens: int,
    max_source_length: int,
    chunk_size: int,
    first_line: int,
    prefixes: Iterable[str] | None = None,
    blank: ScoredText = BLANK,
) -> Iterator[Translation]:
    """Translates texts as they come, whatever translates a batch; as `Translator.stream`.

    Args:
        texts: One sentence each.
        tokenizer: Makes ids of them.
        translate: Returns the alternatives of each sentence of a batch, longest first.
        batch_tokens: As in `Translator.stream`, as the options below.
        max_source_length: See there.
        chunk_size: See there.
        first_line: See there.
        prefixes: As many as texts.
        blank: The translation of a blank text, for which `translate` is not asked.
    """
    checks.at_least("batch_tokens", batch_tokens)
    checks.at_least("max_source_length", max_source_length)
    checks.at_least("chunk_size", chunk_size)
    for name, given in (("texts", texts), ("prefixes", prefixes)):
        if isinstance(given, str):
            raise UserError(f"{name} is one string; give a list of them, one a sentence.")
    lines = zip(texts, repeat("")) if prefixes is None else paired(texts, prefixes, "prefixes")

    def chunk_by_chunk(line: int) -> Iterator[Translation]:
        while chunk := list(islice(lines, chunk_size)):
            encoded = tokenizer.encode_batch([text for text, _ in chunk])
            sentences = [
                Sentence(number, _cut(ids, number, max_source_length), prefix)
                for number, (ids, (_, prefix)) in enumerate(zip(encoded, chunk, strict=True), line)
            ]
            alternatives: list[Alternatives] = [(blank,)] * len(chunk)
            lengths = [len(sentence.ids) for sentence in sentences]
            for rows in batches_by_length(lengths, batch_tokens):
                found = translate([sentences[row] for row in rows])
                for row, of_row in zip(rows, found, strict=True):
                    alternatives[row] = of_row
            for (text, _), of_text in zip(chunk, alternatives, strict=True):
                yield Translation(text, of_text)
            line += len(chunk)

    return chunk_by_chunk(first_line)


def scored_texts(
    hypotheses: Sequence[Hypothesis],
    tokenizer: Tokenizer,
    links: Sequence[Links | None] | None = None,
    *,
    repeats: bool = False,
) -> Alternatives:
    """Returns hypotheses as text, best first.

    A search may find one text in several pieces ("hungrig", "er"): only the best is kept, unless
    `repeats` says that each hypothesis is a draw of its own.

    Raises:
        UserError: A probability is not a number.
    """
    texts: list[ScoredText] = []
    for hypothesis, of_it in zip(hypotheses, links or [None] * len(hypotheses), strict=True):
        if math.isnan(hypothesis.log_prob):
            raise UserError(_NOT_A_NUMBER)
        text = tokenizer.decode(hypothesis.tokens)
        if repeats or all(text != other.text for other in texts):
            texts.append(
                ScoredText(
                    text=text,
                    tokens=hypothesis.tokens,
                    score=hypothesis.score,
                    log_prob=hypothesis.log_prob,
                    finished=hypothesis.finished,
                    alignment=of_it,
                )
            )
    return tuple(texts)


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


def _cut(source: list[int], line: int, max_source_length: int) -> list[int]:
    """Returns the beginning of a source that is longer than its limit, and says so."""
    if len(source) > max_source_length:
        logger.warning(
            "line %d has %d source tokens, more than the limit of %d: only the first %d are "
            "translated; raise max_source_length to translate all of it",
            line,
            len(source),
            max_source_length,
            max_source_length,
        )
    return source[:max_source_length]


@functools.cache  # once is enough
def _prepare_for_forks() -> None:
    """Lets a forked process compute with one thread: it would wait for those of its parent."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))
