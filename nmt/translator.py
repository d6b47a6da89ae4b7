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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Self

import torch

from nmt import BOS, EOS, PAD, checks
from nmt.alignment import GRANULARITIES, AttentionReader, Granularity, Links, WordAttention
from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError
from nmt.data.batch import answer_in_order, collate_source, longer_side
from nmt.decoding.sampling import Sampling
from nmt.decoding.search import Hypothesis, Search
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.scoring import NOT_A_NUMBER, TranslationScore, score_batch
from nmt.tokenizer import Tokenizer, default_unit

logger = logging.getLogger(__name__)

ScoredPair = tuple[str, str | Sequence[int]]  # a source, and a translation as text or as ids
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class ScoredText(Hypothesis):
    """One translation of a sentence: what the search found, as text.

    Attributes:
        text: The translation, without a line break.
        alignment: Links between words or pieces (see `nmt.alignment`); None unless requested.
    """

    text: str
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


@dataclass(frozen=True)
class Sentence:
    """What is to be translated."""

    line: int
    text: str
    ids: list[int]  # without EOS; none where it is blank
    prefix: str  # what the translation begins with, or blank


class SentenceTranslator(ABC):
    """Text in, text out: how lines become batches and answers, whatever translates a batch.

    The result for a sentence does not depend on the sentences around it. A blank sentence (nothing
    visible) has a blank translation with score 0; the model is not asked.

    Attributes:
        tokenizer: The tokenizer the model was trained with.
        search: What `translate` uses unless told otherwise.
        source_lang: Language code.
        target_lang: Language code.
        reader: Reads attention; None where prefixes and alignments are not to be had.
    """

    reader: AttentionReader | None = None

    def __init__(
        self, tokenizer: Tokenizer, search: Search, *, source_lang: str, target_lang: str
    ) -> None:
        self.tokenizer = tokenizer
        self.search = search
        self.source_lang = source_lang
        self.target_lang = target_lang

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

        Raises:
            UserError: An option is out of range, `texts` or `prefixes` is a single string, there
                are more or fewer prefixes than texts, the model has no attention to align with, or
                its output is not a number.
        """
        checks.at_least("batch_tokens", batch_tokens)
        checks.at_least("max_source_length", max_source_length)
        checks.at_least("chunk_size", chunk_size)
        if alignment is not None:
            checks.one_of("alignment", alignment, GRANULARITIES)
        for name, given in (("texts", texts), ("prefixes", prefixes)):
            if isinstance(given, str):
                raise UserError(f"{name} is one string; give a list of them, one a sentence.")
        pairs = zip(texts, repeat("")) if prefixes is None else paired(texts, prefixes, "prefixes")
        reader, search = self.reader, search or self.search
        if reader is None and (prefixes is not None or alignment is not None):
            raise UserError("An exported model takes no prefix and aligns nothing: leave them out.")
        blank = ScoredText((), 0.0, 0.0, True, "", None if alignment is None else ())

        def answer(batch: list[Sentence]) -> Iterator[Translation]:
            asked = [sentence for sentence in batch if sentence.ids]
            hypotheses = self._hypotheses(asked, search) if asked else []
            found = [self._as_texts(own, search) for own in hypotheses]
            if alignment is not None and reader is not None:
                pairs = [
                    (sentence.ids, one.tokens)
                    for sentence, own in zip(asked, found, strict=True)
                    for one in own
                ]
                links = reader.links(pairs, alignment, batch_tokens=batch_tokens)
                found = [tuple(replace(one, alignment=next(links)) for one in own) for own in found]
            answers = iter(found)
            for sentence in batch:
                yield Translation(sentence.text, next(answers) if sentence.ids else (blank,))

        return answer_in_order(
            self._sentences(pairs, max_source_length),
            lambda sentence: len(sentence.ids),
            answer,
            batch_tokens=batch_tokens,
            chunk_size=chunk_size,
        )

    def _sentences(
        self, pairs: Iterable[tuple[str, str]], max_source_length: int
    ) -> Iterator[Sentence]:
        """Reads texts and prefixes; cuts a text that is longer than its limit, and says so."""
        for line, (text, prefix) in enumerate(pairs, 1):
            ids = self.tokenizer.encode(text)
            if len(ids) > max_source_length:
                logger.warning(
                    "line %d has %d source tokens, more than the limit of %d: what is beyond it is "
                    "not translated; raise max_source_length to translate all of it",
                    line,
                    len(ids),
                    max_source_length,
                )
            yield Sentence(line, text, ids[:max_source_length], prefix)

    def _as_texts(self, hypotheses: Sequence[Hypothesis], search: Search) -> tuple[ScoredText, ...]:
        """Returns hypotheses as text, best first.

        A search may find one text in several pieces ("hungrig", "er"): only the best is kept,
        unless each hypothesis is a draw of its own.
        """
        texts: dict[str | int, ScoredText] = {}
        for number, one in enumerate(hypotheses):
            if math.isnan(one.log_prob):
                raise UserError(NOT_A_NUMBER)
            text = self.tokenizer.decode(one.tokens)
            key = number if isinstance(search, Sampling) else text
            texts.setdefault(key, ScoredText(**vars(one), text=text))
        return tuple(texts.values())

    @abstractmethod
    def _hypotheses(self, batch: Sequence[Sentence], search: Search) -> list[list[Hypothesis]]:
        """Translates a batch, in which no sentence is blank."""


class Translator(SentenceTranslator):
    """A model, its tokenizer and a search.

    The model is put into eval mode, and translates on its device. Its languages say whether words
    or characters are aligned.
    """

    reader: AttentionReader

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        search: Search,
        *,
        source_lang: str = "",
        target_lang: str = "",
    ) -> None:
        super().__init__(tokenizer, search, source_lang=source_lang, target_lang=target_lang)
        self.model = model.eval()
        self.reader = AttentionReader(
            self.model, tokenizer, default_unit(source_lang), default_unit(target_lang)
        )
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
            UserError: An id cannot be part of a translation, an option is out of range, or the
                model's output is not a number.
        """
        checks.at_least("batch_tokens", batch_tokens)
        checks.at_least("chunk_size", chunk_size)
        return answer_in_order(
            ((self.tokenizer.encode(source), self._target_ids(target)) for source, target in pairs),
            longer_side,
            functools.partial(score_batch, self.model),
            batch_tokens=batch_tokens,
            chunk_size=chunk_size,
        )

    def attention(self, source: str, target: str) -> WordAttention:
        """Returns which source words the model looks at for each word of a given translation.

        Raises:
            UserError: The model has no attention over words, or a text is blank.
        """
        (attention,) = self.attentions([(source, target)])
        return attention

    def attentions(
        self, pairs: Iterable[tuple[str, str]], *, batch_tokens: int = 1024, chunk_size: int = 64
    ) -> Iterator[WordAttention]:
        """Yields `attention` of each pair, in order, and keeps that of one chunk.

        Args:
            pairs: Source and translation.
            batch_tokens: As in `stream_scores`.
            chunk_size: Pairs read ahead and sorted by length.
        """
        checks.at_least("batch_tokens", batch_tokens)
        checks.at_least("chunk_size", chunk_size)
        return self.reader.attentions(pairs, batch_tokens=batch_tokens, chunk_size=chunk_size)

    def _hypotheses(self, batch: Sequence[Sentence], search: Search) -> list[list[Hypothesis]]:
        source, source_mask = collate_source([sentence.ids for sentence in batch])
        prefixes = [self.tokenizer.encode(sentence.prefix) for sentence in batch]
        return search(
            self.model,
            source.to(self.model.device),
            None if source_mask is None else source_mask.to(self.model.device),
            forbidden_ids=self.tokenizer.forbidden_ids,
            prefixes=prefixes if any(prefixes) else None,
        )

    def _target_ids(self, target: str | Sequence[int]) -> Sequence[int]:
        if isinstance(target, str):
            return self.tokenizer.encode(target)
        for token in target:
            if token in (PAD, BOS, EOS) or not 0 <= token < self.tokenizer.vocab_size:
                raise UserError(
                    f"a translation holds the id {token}: give ids from 0 to "
                    f"{self.tokenizer.vocab_size - 1}, without PAD, BOS and EOS "
                    f"({PAD}, {BOS}, {EOS})."
                )
        return target


def paired(sources: Iterable[str], others: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Yields the sources with what belongs to them, as they come; `name` is what that is.

    Raises:
        UserError: One of the two ends before the other.
    """
    for line, (source, other) in enumerate(zip_longest(sources, others), 1):
        if source is None or other is None:
            short, long = (name, "sources") if other is None else ("sources", name)
            raise UserError(f"There are only {line - 1} {short}, but more {long}: give as many.")
        yield source, other


@functools.cache  # once is enough
def _prepare_for_forks() -> None:
    """Lets a forked process compute with one thread: it would wait for those of its parent."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))
