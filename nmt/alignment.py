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
from itertools import chain
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.checks import UserError
from nmt.data.batch import batches_by_length, teacher_forced
from nmt.models.encoder_decoder import EncoderDecoder
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
    """Scores the links of a corpus.

    Args:
        found: The links of each sentence.
        sure: Its sure gold links.
        possible: Its possible gold links; sure ones count as possible whether listed here or not.

    Raises:
        UserError: There is no link or no sure gold link.
    """
    num_found, num_sure = sum(map(len, found)), sum(map(len, sure))
    if not num_found or not num_sure:
        raise UserError(
            f"There are {num_found} links and {num_sure} sure gold links in {len(found)} "
            "sentences; pass at least one of each."
        )
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


@dataclass(frozen=True)
class Units:
    """What the axes of an attention matrix count: words or characters, on either side."""

    source: LengthUnit
    target: LengthUnit


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


def word_attentions(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Iterable[tuple[str, str]],
    *,
    units: Units,
    batch_tokens: int,
) -> Iterator[WordAttention]:
    """Iterates over the word attention of each pair, in order, holding one batch at a time.

    Args:
        model: In eval mode.
        tokenizer: The model's.
        pairs: Source and given translation; neighbours make a batch.
        units: What a word is, on either side.
        batch_tokens: Most tokens of a side in a batch, padding and EOS included; a longer pair is
            a batch of its own.

    Raises:
        UserError: The model has no attention over words, or a text is blank.
    """
    check_attends_to_words(model)
    read = (
        (_Side.of(tokenizer, source, units.source), _Side.of(tokenizer, target, units.target))
        for source, target in pairs
    )
    return chain.from_iterable(_attend(model, batch) for batch in _batches(read, batch_tokens))


def align(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[Ids, Ids]],
    *,
    granularity: Granularity,
    units: Units,
    batch_tokens: int,
) -> Iterator[Links]:
    """Iterates over the links of each pair, by the mean over all layers and heads.

    Args:
        model: In eval mode.
        tokenizer: The model's.
        pairs: Ids of source (at least one) and translation, without special ids. An empty
            translation has no links.
        granularity: Links between words or between pieces.
        units: What a word is, on either side.
        batch_tokens: Most tokens of a side in a batch, as in `word_attentions`.

    Raises:
        UserError: The model has no attention over words.
    """
    check_attends_to_words(model)
    found: dict[int, Links] = {}
    lengths = [max(len(source), len(target)) for source, target in pairs]
    for rows in batches_by_length(lengths, batch_tokens):
        batch = [pairs[row] for row in rows]
        means = _cross(model, batch, over=(1, 2))  # (B, T, S)
        for row, weights, (source, target) in zip(rows, means, batch, strict=True):
            pieces = weights[None, : len(target), : len(source)]
            if granularity == "word" and target:
                pieces = reduce_to_words(
                    pieces,
                    piece_shares(tokenizer, target, units.target),
                    piece_shares(tokenizer, source, units.source),
                )
            found[row] = attention_links(pieces[0].numpy())
    return (found[row] for row in range(len(pairs)))


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


@torch.inference_mode()
def attention_maps(
    model: EncoderDecoder, tokenizer: Tokenizer, source: str, target: str, *, units: Units
) -> dict[str, AttentionMap]:
    """Returns the maps of one pair by name: cross, and encoder-self and decoder-self if any.

    The weights of the decoder's self-attention are those that predict each target word: its
    columns are what had been written then, BOS first.

    Raises:
        UserError: The model has no attention over words, or a text is blank.
    """
    check_attends_to_words(model)
    sources = _Side.of(tokenizer, source, units.source)
    targets = _Side.of(tokenizer, target, units.target)
    batch = teacher_forced([(sources.ids, targets.ids)], model.device)
    found = model.attention(batch.source, batch.source_mask, batch.target_in)
    of_start = torch.eye(1, 1 + len(targets.words), dtype=torch.float64)
    shares = torch.cat([of_start, F.pad(targets.shares, (1, 0))])
    written = _Side((START, *targets.words), targets.ids, shares)
    maps = {"cross": _map(found.cross, targets, sources)}
    if found.encoder_self is not None:
        maps["encoder-self"] = _map(found.encoder_self, sources, sources)
    if found.decoder_self is not None:
        maps["decoder-self"] = _map(found.decoder_self, targets, written)
    return maps


def check_attends_to_words(model: EncoderDecoder) -> None:
    """Raises UserError where the model attends to memory slots instead of words."""
    slots = getattr(model, "memory_slots", None)
    if slots is not None:
        raise UserError(
            f"The model attends to {slots} memory slots, which are no words: use one with "
            "memory_slots=null."
        )


def split_units(text: str, unit: LengthUnit) -> tuple[str, ...]:
    """Returns the words of a text, or its characters that are no white space."""
    words = text.split()
    return tuple(words) if unit == "word" else tuple("".join(words))


def reduce_to_words(weights: Tensor, target_shares: Tensor, source_shares: Tensor) -> Tensor:
    """Adds source pieces, averages target pieces, and normalises the rows.

    Target pieces are added as well: what a mean divides by cancels when rows are normalised.

    Args:
        weights: (L, T, S) between pieces, EOS left out.
        target_shares: (T, T'), how much of each target piece belongs to each word; rows sum to 1.
        source_shares: (S, S'), the same for the source.

    Returns:
        (L, T', S').
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


@dataclass(frozen=True)
class _Side:
    """A text: its words, the ids of its pieces, (pieces, words) the share of each in each."""

    words: tuple[str, ...]
    ids: Ids
    shares: Tensor

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str, unit: LengthUnit) -> _Side:
        words, ids = split_units(text, unit), tokenizer.encode(text)
        if not ids:
            raise UserError(f"The text {text!r} is blank: give a sentence to show attention for.")
        shares = piece_shares(tokenizer, ids, unit)
        if shares.shape[1] != len(words):
            raise UserError(
                f"The tokenizer sees {shares.shape[1]} {unit}s in a text of {len(words)}: "
                "use one that does not change the text, as training makes by default."
            )
        return cls(words, ids, shares)


def _batches(
    pairs: Iterable[tuple[_Side, _Side]], batch_tokens: int
) -> Iterator[list[tuple[_Side, _Side]]]:
    batch: list[tuple[_Side, _Side]] = []
    longest = 0
    for pair in pairs:
        length = 1 + max(len(side.ids) for side in pair)
        longest = max(longest, length)
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, longest = [], length
        batch.append(pair)
    if batch:
        yield batch


def _attend(model: EncoderDecoder, pairs: Sequence[tuple[_Side, _Side]]) -> Iterator[WordAttention]:
    ids = [(source.ids, target.ids) for source, target in pairs]
    means = _cross(model, ids, over=(2,))  # (B, L, T, S)
    for (source, target), weights in zip(pairs, means, strict=True):
        pieces = weights[:, : len(target.ids), : len(source.ids)]
        words = reduce_to_words(pieces, target.shares, source.shares)
        yield WordAttention(source.words, target.words, words.float().numpy())


@torch.inference_mode()
def _cross(
    model: EncoderDecoder, pairs: Sequence[tuple[Ids, Ids]], *, over: tuple[int, ...]
) -> Tensor:
    """Returns the cross-attention (B, L, H, T, S) of a batch, its mean over some dimensions."""
    batch = teacher_forced(pairs, model.device)
    weights = model.attention(batch.source, batch.source_mask, batch.target_in).cross
    return weights.mean(over).double().cpu()


def _map(weights: Tensor, rows: _Side, columns: _Side) -> AttentionMap:
    """Reduces weights (1, L, H, ...) between pieces; what follows the last piece is EOS."""
    pieces = weights[0, :, :, : len(rows.shares), : len(columns.shares)].double().cpu()
    words = reduce_to_words(pieces, rows.shares, columns.shares)
    return AttentionMap(rows.words, columns.words, words.float().numpy())
