"""Links between a source and its translation, read off the attention.

Each unit of the translation is linked to the unit of the source that it looks at most, by the
mean over all heads and decoder layers of the cross-attention that predicts it. Units are words
(characters, for Chinese and Japanese) or the subword pieces of the tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from nmt.data.batch import collate
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer
from nmt.translation import Links
from nmt.word_attention import Units, check_attends_to_words, piece_shares, reduce_to_words

Granularity = Literal["word", "subword"]
GRANULARITIES: tuple[Granularity, ...] = ("word", "subword")


def check_granularity(granularity: str) -> None:
    """Raises ValueError unless it is one of `GRANULARITIES`."""
    if granularity not in GRANULARITIES:
        raise ValueError(
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
        ValueError: The model has no attention over words.
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
