"""Word alignment against gold links: alignment error rate, precision, recall.

Och and Ney (2003), "A Systematic Comparison of Various Statistical Alignment Models", section 5:
gold links are sure (S) or possible (P, which contains S), A are the links that were found, and

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|
    AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

with the counts of the whole corpus, not the mean over sentences. All of them are shares, 0 to 1.

Cross-attention between words: from the pieces a model reads to what people can look at.

The weight of a source word is the sum over its pieces, that of a target word the mean over its
pieces; EOS is dropped on both sides and the rows are normalised again. Where words are not set
apart by spaces (Chinese, Japanese) characters take their place: a piece of several characters
gives each an equal share of its weight.

Links between a source and its translation, read off the attention.

Each unit of the translation is linked to the unit of the source that it looks at most, by the
mean over all heads and decoder layers of the cross-attention that predicts it. Units are words
(characters, for Chinese and Japanese) or the subword pieces of the tokenizer.

Every attention of a model between words, head by head: what `scripts/plot_attention.py` draws.

Words as in `nmt.alignment`. The weights of the decoder's self-attention are those used to
predict each target word: the columns are what had been written then, BOS first.
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
from nmt.data.batch import collate
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import LengthUnit, Tokenizer

LinkSet = frozenset[tuple[int, int]]
Links = tuple[tuple[int, int], ...]


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


def attention_links(weights: npt.ArrayLike) -> LinkSet:
    """Links each target word to the source word it looks at most, the first of equals.

    Args:
        weights: (T', S'), one row for each target word.

    Returns:
        Pairs (source word, target word), numbered from 0.
    """
    return frozenset((int(source), row) for row, source in enumerate(np.argmax(weights, axis=-1)))


def gold_links(pairs: Iterable[Sequence[int]]) -> LinkSet:
    """Returns links stored as lists [source word, target word], as in the grammar's columns."""
    return frozenset((source, target) for source, target in pairs)


def score_alignment(
    found: Sequence[LinkSet], *, sure: Sequence[LinkSet], possible: Sequence[LinkSet]
) -> AlignmentScores:
    """Scores the links of a corpus.

    Args:
        found: The links of each sentence, pairs (source word, target word).
        sure: Its sure gold links.
        possible: Its possible gold links; sure ones count as possible whether listed here or not.

    Raises:
        UserError: The numbers of sentences differ, or there is no link or no sure gold link.
    """
    if not len(found) == len(sure) == len(possible):
        raise UserError(
            f"There are links for {len(found)} sentences, sure gold links for {len(sure)} and "
            f"possible ones for {len(possible)}; pass one set of each for every sentence."
        )
    num_found, num_sure = sum(map(len, found)), sum(map(len, sure))
    if not num_found or not num_sure:
        raise UserError(
            f"There are {num_found} links and {num_sure} sure gold links in {len(found)} "
            "sentences; pass at least one of each."
        )
    hits_sure = sum(len(a & s) for a, s in zip(found, sure, strict=True))
    hits_possible = sum(len(a & (s | p)) for a, s, p in zip(found, sure, possible, strict=True))
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
    batches = _batches(pairs, tokenizer, batch_tokens)
    return chain.from_iterable(_attend(model, tokenizer, batch, units) for batch in batches)


def check_attends_to_words(model: EncoderDecoder) -> None:
    """Raises UserError where the model attends to memory slots instead of words."""
    slots = getattr(model, "memory_slots", None)
    if slots is not None:
        raise UserError(
            f"The model attends to {slots} memory slots, which are no words: use one with "
            "memory_slots=null."
        )


@dataclass(frozen=True)
class _Pair:
    texts: tuple[str, str]
    ids: tuple[list[int], list[int]]


def _batches(
    pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer, batch_tokens: int
) -> Iterator[list[_Pair]]:
    batch: list[_Pair] = []
    longest = 0
    for texts in pairs:
        pair = _Pair(texts, (tokenizer.encode(texts[0]), tokenizer.encode(texts[1])))
        if not all(pair.ids):
            raise UserError(
                f"The pair {texts!r} has a blank side, which no attention can be shown for: "
                "leave it out."
            )
        length = 1 + max(map(len, pair.ids))
        longest = max(longest, length)
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, longest = [], length
        batch.append(pair)
    if batch:
        yield batch


@torch.inference_mode()
def _attend(
    model: EncoderDecoder, tokenizer: Tokenizer, pairs: Sequence[_Pair], units: Units
) -> list[WordAttention]:
    device = next(model.parameters()).device
    batch = collate(
        [
            {"index": i, "source_ids": pair.ids[0], "target_ids": pair.ids[1]}
            for i, pair in enumerate(pairs)
        ]
    ).to(device)
    weights = model.attention(batch.source, batch.source_mask, batch.target_in).cross
    weights = weights.mean(2).double().cpu()  # (B, L, T, S)
    found = []
    for pair, pieces in zip(pairs, weights, strict=True):
        source, target = pair.ids
        source_words = split_units(pair.texts[0], units.source)
        target_words = split_units(pair.texts[1], units.target)
        words = reduce_to_words(
            pieces[:, : len(target), : len(source)],
            checked_shares(tokenizer, target, units.target, len(target_words)),
            checked_shares(tokenizer, source, units.source, len(source_words)),
        )
        found.append(WordAttention(source_words, target_words, words.float().numpy()))
    return found


def split_units(text: str, unit: LengthUnit) -> tuple[str, ...]:
    """Returns the words of a text, or its characters that are no white space."""
    words = text.split()
    return tuple(words) if unit == "word" else tuple("".join(words))


def reduce_to_words(weights: Tensor, target_shares: Tensor, source_shares: Tensor) -> Tensor:
    """Adds source pieces, averages target pieces, and normalises the rows.

    Target pieces are added as well: what a mean divides by falls out when rows are normalised.

    Args:
        weights: (L, T, S) between pieces, EOS left out.
        target_shares: (T, T'), how much of each target piece belongs to each word; rows sum to 1.
        source_shares: (S, S'), the same for the source.

    Returns:
        (L, T', S').
    """
    words = target_shares.T @ weights @ source_shares
    return words / words.sum(-1, keepdim=True).clamp(min=1e-30)


def piece_shares(tokenizer: Tokenizer, ids: Sequence[int], unit: LengthUnit) -> Tensor:
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


def checked_shares(
    tokenizer: Tokenizer, ids: Sequence[int], unit: LengthUnit, num_units: int
) -> Tensor:
    """Returns `piece_shares` of a text that is known to have so many units.

    Raises:
        UserError: The tokenizer sees another number.
    """
    shares = piece_shares(tokenizer, ids, unit)
    if shares.shape[1] != num_units:
        raise UserError(
            f"The tokenizer sees {shares.shape[1]} {unit}s in a text of {num_units}: "
            "use one that does not change the text, as training makes by default."
        )
    return shares


Granularity = Literal["word", "subword"]
GRANULARITIES: tuple[Granularity, ...] = ("word", "subword")


def check_granularity(granularity: str) -> None:
    """Raises UserError unless it is one of `GRANULARITIES`."""
    if granularity not in GRANULARITIES:
        raise UserError(
            f"alignment is {granularity!r}, but it must be {' or '.join(GRANULARITIES)}."
        )


@torch.inference_mode()
def align(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    granularity: Granularity,
    units: Units,
) -> list[Links]:
    """Returns the links of each pair, in order; none for an empty translation.

    Args:
        model: In eval mode.
        tokenizer: The model's.
        pairs: Ids of source (at least one) and translation, without special ids; one batch.
        granularity: Links between words or between pieces.
        units: What a word is, on either side.

    Raises:
        UserError: The model has no attention over words.
    """
    check_attends_to_words(model)
    device = next(model.parameters()).device
    examples = [
        {"index": i, "source_ids": list(source), "target_ids": list(target)}
        for i, (source, target) in enumerate(pairs)
    ]
    batch = collate(examples).to(device)
    cross = model.attention(batch.source, batch.source_mask, batch.target_in).cross
    weights = cross.mean((1, 2)).double().cpu()  # (B, T, S)
    found = []
    for pieces, (source, target) in zip(weights, pairs, strict=True):
        pieces = pieces[None, : len(target), : len(source)]
        if granularity == "word" and target:
            pieces = reduce_to_words(
                pieces,
                piece_shares(tokenizer, target, units.target),
                piece_shares(tokenizer, source, units.source),
            )
        found.append(_links(pieces[0]))
    return found


def _links(weights: Tensor) -> Links:
    """Links each row of (T', S') to its largest column, the first of equals."""
    return tuple((source, row) for row, source in enumerate(weights.argmax(-1).tolist()))


START = "<s>"


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

    Args:
        model: In eval mode.
        tokenizer: The model's.
        source: A sentence.
        target: A translation of it, the model's own or another.
        units: What a word is, on either side.

    Raises:
        UserError: The model has no attention over words, or a text is blank.
    """
    check_attends_to_words(model)
    source_ids, target_ids = tokenizer.encode(source), tokenizer.encode(target)
    for name, ids in (("source", source_ids), ("target", target_ids)):
        if not ids:
            raise UserError(f"The {name} is blank: give a sentence.")
    device = next(model.parameters()).device
    batch = collate([{"index": 0, "source_ids": source_ids, "target_ids": target_ids}]).to(device)
    found = model.attention(batch.source, batch.source_mask, batch.target_in)
    sources = _side(tokenizer, source, source_ids, units.source)
    targets = _side(tokenizer, target, target_ids, units.target)
    of_start = torch.eye(1, 1 + len(targets.words))
    shares = torch.cat([of_start, F.pad(targets.shares, (1, 0))])
    written = _Side((START, *targets.words), shares)
    maps = {"cross": _map(found.cross, targets, sources)}
    if found.encoder_self is not None:
        maps["encoder-self"] = _map(found.encoder_self, sources, sources)
    if found.decoder_self is not None:
        maps["decoder-self"] = _map(found.decoder_self, targets, written)
    return maps


@dataclass(frozen=True)
class _Side:
    """The words of a text, and (pieces, words) how much of each piece belongs to each."""

    words: tuple[str, ...]
    shares: Tensor


def _side(tokenizer: Tokenizer, text: str, ids: list[int], unit: LengthUnit) -> _Side:
    words = split_units(text, unit)
    return _Side(words, checked_shares(tokenizer, ids, unit, len(words)))


def _map(weights: Tensor, rows: _Side, columns: _Side) -> AttentionMap:
    """Reduces weights (1, L, H, ...) between pieces; what follows the last piece is EOS."""
    pieces = weights[0, :, :, : len(rows.shares), : len(columns.shares)].double().cpu()
    words = reduce_to_words(pieces, rows.shares.double(), columns.shares.double())
    return AttentionMap(rows.words, columns.words, words.float().numpy())


def pharaoh(links: Links) -> str:
    """Returns links as `0-0 2-1`: source-target, in the order of the target."""
    return " ".join(f"{source}-{target}" for source, target in links)
