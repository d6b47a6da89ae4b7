"""Cross-attention between words: from the pieces a model reads to what people can look at.

The weight of a source word is the sum over its pieces, that of a target word the mean over its
pieces; EOS is dropped on both sides and the rows are normalised again. Where words are not set
apart by spaces (Chinese, Japanese) characters take their place: a piece of several characters
gives each an equal share of its weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.data.batch import collate
from nmt.data.length_unit import LengthUnit
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer


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
        ValueError: The model has no attention over words, or a text is blank.
    """
    check_attends_to_words(model)
    batches = _batches(pairs, tokenizer, batch_tokens)
    return chain.from_iterable(_attend(model, tokenizer, batch, units) for batch in batches)


def check_attends_to_words(model: EncoderDecoder) -> None:
    """Raises ValueError where the model attends to memory slots instead of words."""
    slots = getattr(model, "memory_slots", None)
    if slots is not None:
        raise ValueError(
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
            raise ValueError(
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
        ValueError: The tokenizer sees another number.
    """
    shares = piece_shares(tokenizer, ids, unit)
    if shares.shape[1] != num_units:
        raise ValueError(
            f"The tokenizer sees {shares.shape[1]} {unit}s in a text of {num_units}: "
            "use one that does not change the text, as training makes by default."
        )
    return shares
