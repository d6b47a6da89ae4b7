"""What a model looks at: attention between words, links read off it, and their error rate.

Attention is between pieces. The weight of a source word is the sum over its pieces, that of a
target word the mean over its pieces; EOS is dropped on both sides and the rows are normalised
again. Where words are not separated by spaces (Chinese, Japanese), characters take their place: a
piece of several characters gives each an equal share of its weight.

A link joins a target unit to the source unit that it looks at most. Links are scored as in Och and
Ney (2003), "A Systematic Comparison of Various Statistical Alignment Models", section 5: gold links
are sure (S) or possible (P, which contains S), A are the links that were found, and

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|
    AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

with the counts of the whole corpus, not the mean over sentences. All of them are shares, 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.checks import UserError
from nmt.data.batch import answer_in_order, longer_side, teacher_forced
from nmt.models.encoder_decoder import Attention, EncoderDecoder
from nmt.tokenizer import LengthUnit, Tokenizer

Links = tuple[tuple[int, int], ...]  # (source unit, target unit), numbered from 0
Ids = Sequence[int]
Granularity = Literal["word", "subword"]
GRANULARITIES: tuple[Granularity, ...] = ("word", "subword")
START = "<s>"


def attention_links(weights: npt.ArrayLike) -> Links:
    """Links each row of (T', S') to its largest column, the first of equals."""
    return tuple((int(source), row) for row, source in enumerate(np.argmax(weights, axis=-1)))


def gold_links(pairs: Iterable[Sequence[int]]) -> Links:
    """Returns links stored as lists [source word, target word], as in the grammar's columns."""
    return tuple((source, target) for source, target in pairs)


def pharaoh(links: Links) -> str:
    """Returns links as `0-0 2-1`: source-target."""
    return " ".join(f"{source}-{target}" for source, target in links)


@dataclass(frozen=True)
class AlignmentScores:
    """How well links agree with gold links, over a corpus.

    Attributes:
        aer: Alignment error rate, 0 is best.
        precision: Share of the links found that are at least possible.
        recall: Share of the sure links that were found.
        num_sentences: Sentences counted.
    """

    aer: float
    precision: float
    recall: float
    num_sentences: int


def score_alignment(
    found: Sequence[Links], *, sure: Sequence[Links], possible: Sequence[Links]
) -> AlignmentScores:
    """Scores the links of each sentence of a corpus; there must be some, and sure gold links.

    Sure links count as possible whether they are listed there or not.
    """
    num_found, num_sure = sum(map(len, found)), sum(map(len, sure))
    hits_sure = hits_possible = 0
    for links, s, p in zip(found, sure, possible, strict=True):
        hits_sure += len({*links} & {*s})
        hits_possible += len({*links} & {*s, *p})
    return AlignmentScores(
        aer=1 - (hits_sure + hits_possible) / (num_found + num_sure),
        precision=hits_possible / num_found,
        recall=hits_sure / num_sure,
        num_sentences=len(found),
    )


@dataclass(frozen=True, eq=False)
class WordAttention:
    """What a model looks at while it writes a given translation.

    Attributes:
        source_words: S' words with their punctuation (characters, for Chinese and Japanese).
        target_words: T' of them.
        weights: (L, T', S') float32, the mean over the heads of each decoder layer. Rows sum to
            1, but for a row whose whole weight lay on EOS: it is 0.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of all layers and heads of one kind of attention.

    Attributes:
        rows: R words that look, in order.
        columns: C words that are looked at.
        weights: (L, H, R, C) float32; rows sum to 1, but for one whose weight lay on EOS: it is 0.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True)
class AttentionReader:
    """Reads what a model in eval mode looks at, teacher-forced, in words.

    Its methods raise `UserError` where the model has no attention over words, and for blank texts.
    """

    model: EncoderDecoder
    tokenizer: Tokenizer
    source_unit: LengthUnit  # what a word is
    target_unit: LengthUnit

    def attentions(
        self, pairs: Iterable[tuple[str, str]], *, batch_tokens: int, chunk_size: int
    ) -> Iterator[WordAttention]:
        """Yields the word attention of each source and given translation, in order.

        As in `answer_in_order`; the attention of a chunk is in memory at once.
        """
        return answer_in_order(
            (self._sides(*pair) for pair in pairs),
            lambda sides: max(len(side.ids) for side in sides),
            self._attend,
            batch_tokens=batch_tokens,
            chunk_size=chunk_size,
        )

    def links(
        self, pairs: Iterable[tuple[Ids, Ids]], granularity: Granularity, *, batch_tokens: int
    ) -> Iterator[Links]:
        """Yields the links of each pair, in order, by the mean over all layers and heads.

        A pair is the ids of a source (at least one) and of its translation, without special ids.
        An empty translation has no links.
        """
        answer = partial(self._link, granularity)
        return answer_in_order(pairs, longer_side, answer, batch_tokens=batch_tokens)

    def maps(self, source: str, target: str) -> dict[str, AttentionMap]:
        """Returns the maps of one pair by name: cross, and encoder-self and decoder-self if any.

        The weights of the decoder's self-attention are those that predict each target word: its
        columns are what had been written then, BOS first.
        """
        sources, targets = self._sides(source, target)
        of_start = torch.eye(1, 1 + len(targets.words), dtype=torch.float64)
        shares = torch.cat([of_start, F.pad(targets.shares, (1, 0))])
        written = _Side((START, *targets.words), targets.ids, shares)
        found = self._attention([(sources.ids, targets.ids)])
        kinds = {
            "cross": (found.cross, targets, sources),
            "encoder-self": (found.encoder_self, sources, sources),
            "decoder-self": (found.decoder_self, targets, written),
        }
        return {
            kind: AttentionMap(rows.words, columns.words, _in_words(weights[0], rows, columns))
            for kind, (weights, rows, columns) in kinds.items()
            if weights is not None
        }

    def _sides(self, source: str, target: str) -> tuple[_Side, _Side]:
        return self._side(source, self.source_unit), self._side(target, self.target_unit)

    def _side(self, text: str, unit: LengthUnit) -> _Side:
        words, ids = text.split(), self.tokenizer.encode(text)
        if unit == "character":
            words = list("".join(words))
        if not ids:
            raise UserError(f"The text {text!r} is blank: give a sentence to show attention for.")
        shares = piece_shares(self.tokenizer, ids, unit)
        if shares.shape[1] != len(words):
            raise UserError(
                f"The tokenizer sees {shares.shape[1]} {unit}s in a text of {len(words)}: "
                "use one that does not change the text, as training makes by default."
            )
        return _Side(tuple(words), ids, shares)

    def _attend(self, pairs: Sequence[tuple[_Side, _Side]]) -> Iterator[WordAttention]:
        found = self._attention([(source.ids, target.ids) for source, target in pairs])
        means = found.cross.mean(2).cpu()
        for (source, target), weights in zip(pairs, means, strict=True):
            yield WordAttention(source.words, target.words, _in_words(weights, target, source))

    def _link(self, granularity: Granularity, pairs: Sequence[tuple[Ids, Ids]]) -> Iterator[Links]:
        means = self._attention(pairs).cross.mean((1, 2)).cpu()
        for (source, target), mean in zip(pairs, means, strict=True):
            weights = mean[: len(target), : len(source)].double()
            if granularity == "word" and target:
                target_shares = piece_shares(self.tokenizer, target, self.target_unit)
                source_shares = piece_shares(self.tokenizer, source, self.source_unit)
                weights = reduce_to_words(weights, target_shares, source_shares)
            yield attention_links(weights.numpy())

    @torch.inference_mode()
    def _attention(self, pairs: Sequence[tuple[Ids, Ids]]) -> Attention:
        slots = getattr(self.model, "memory_slots", None)
        if slots is not None:
            raise UserError(
                f"The model attends to {slots} memory slots, which are no words: use one with "
                "memory_slots=null."
            )
        batch = teacher_forced(pairs, self.model.device)
        return self.model.attention(batch.source, batch.source_mask, batch.target_in)


@dataclass(frozen=True)
class _Side:
    """A text: its words, the ids of its pieces, (pieces, words) the share of each in each."""

    words: tuple[str, ...]
    ids: Ids
    shares: Tensor


def _in_words(weights: Tensor, rows: _Side, columns: _Side) -> npt.NDArray[np.float32]:
    """Reduces weights (..., T, S) between pieces; what follows the last piece is EOS."""
    pieces = weights[..., : len(rows.shares), : len(columns.shares)].double().cpu()
    return reduce_to_words(pieces, rows.shares, columns.shares).float().numpy()


def reduce_to_words(weights: Tensor, target_shares: Tensor, source_shares: Tensor) -> Tensor:
    """Adds source pieces, averages target pieces, and normalises the rows.

    Target pieces are added as well: what a mean divides by cancels when rows are normalised.

    Args:
        weights: (..., T, S) between pieces, EOS left out.
        target_shares: (T, T'), how much of each target piece belongs to each word; rows sum to 1.
        source_shares: (S, S'), the same for the source.

    Returns:
        (..., T', S').
    """
    words = target_shares.T @ weights @ source_shares
    return words / words.sum(-1, keepdim=True).clamp(min=1e-30)


def piece_shares(tokenizer: Tokenizer, ids: Ids, unit: LengthUnit) -> Tensor:
    """Returns (pieces, units): how much of each piece belongs to each word or character."""
    members = (
        [(word,) for word in tokenizer.piece_words(ids)]
        if unit == "word"
        else tokenizer.piece_characters(ids)
    )
    num_units = 1 + max(max(places) for places in members)
    shares = torch.zeros(len(ids), num_units, dtype=torch.float64)
    for piece, places in enumerate(members):
        shares[piece, list(places)] = 1 / len(places)
    return shares
