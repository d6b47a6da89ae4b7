"""Every attention of a model between words, head by head: what `scripts/plot_attention.py` draws.

Words as in `nmt.word_attention`. The weights of the decoder's self-attention are those used to
predict each target word: the columns are what had been written then, BOS first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.data.batch import collate
from nmt.data.length_unit import LengthUnit
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer
from nmt.word_attention import (
    Units,
    check_attends_to_words,
    checked_shares,
    reduce_to_words,
    split_units,
)

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
        ValueError: The model has no attention over words, or a text is blank.
    """
    check_attends_to_words(model)
    source_ids, target_ids = tokenizer.encode(source), tokenizer.encode(target)
    for name, ids in (("source", source_ids), ("target", target_ids)):
        if not ids:
            raise ValueError(f"The {name} is blank: give a sentence.")
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
