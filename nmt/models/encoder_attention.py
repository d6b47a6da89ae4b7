"""How an encoder reads its own positions: all of them, a sparse pattern, or at linear cost.

`EncoderAttention` holds the choice; for each batch it makes a `Reader` for every layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nmt.models.attention import add_mask
from nmt.models.attention_patterns import block_window, local_chunks, random_blocks, sliding_window
from nmt.models.distance_bias import spread
from nmt.models.encoder_readers import BlockReader, LinearReader, MaskedReader, Reader
from nmt.models.linear_attention import orthogonal_gaussian
from nmt.models.options import check_choice, check_size

SPARSE = ("sliding_window", "bigbird", "local")
LINEAR = ("linear", "performer")
ENCODER_ATTENTIONS = ("full", *SPARSE, *LINEAR)

Pattern = Callable[[Tensor, Tensor, Tensor], Tensor]  # (sentence, query, key) -> bool


class EncoderAttention(nn.Module):
    """The choice of a mechanism.

    Args:
        kind: one of `ENCODER_ATTENTIONS`.
        num_layers: of the encoder; random parts are drawn for each, with its number as the seed.
        head_width: d.
        window: tokens seen to each side by sliding_window; the size of a chunk (local) or of a
            block (bigbird).
        global_tokens: how many first tokens see all and are seen by all (not local).
        random_blocks: further blocks that each block of bigbird sees.
        random_features: F, of performer.

    Raises:
        ValueError: An option is out of its range.
    """

    projections: Tensor | None

    def __init__(
        self,
        kind: str,
        *,
        num_layers: int,
        head_width: int,
        window: int,
        global_tokens: int,
        random_blocks: int,
        random_features: int,
    ) -> None:
        super().__init__()
        check_choice("encoder_attention", kind, ENCODER_ATTENTIONS)
        check_size("attention_window", window)
        check_size("global_tokens", global_tokens, least=0)
        check_size("random_blocks", random_blocks, least=0)
        check_size("random_features", random_features)
        self.kind = kind
        self.num_layers = num_layers
        self.window = window
        self.global_tokens = global_tokens
        self.random_blocks = random_blocks
        drawn = None
        if kind == "performer":
            layers = range(num_layers)
            drawn = [orthogonal_gaussian(random_features, head_width, seed=n) for n in layers]
        # In the checkpoint: what another machine would draw could differ in the last digit.
        self.register_buffer("projections", None if drawn is None else torch.stack(drawn))

    def readers(self, x: Tensor, mask: Tensor | None, bias: Tensor | None) -> Sequence[Reader]:
        """Returns the reader of every layer for one batch.

        Args:
            x: (B, S, D), of which shape and device count.
            mask: (B, S) bool without an empty row, or None.
            bias: (H, 2S - 1), by distance, or None.
        """
        if self.kind in LINEAR:
            over_keys = None if mask is None else mask[:, None, :, None]
            if self.projections is None:
                return [LinearReader(over_keys, None)] * self.num_layers
            return [LinearReader(over_keys, projection) for projection in self.projections]
        if self.kind in SPARSE:
            seeds = range(self.num_layers) if self.kind == "bigbird" else [0]
            sparse = [_sparse_reader(self.visible(x, mask, seed), x, bias) for seed in seeds]
            return sparse * (self.num_layers // len(sparse))
        seen = None if mask is None else mask[:, None, None]
        return [MaskedReader(_with_bias(seen, bias, x.shape[1]))] * self.num_layers

    def visible(self, x: Tensor, mask: Tensor | None, layer: int) -> Pattern:
        """Returns which positions of a batch see which under a sparse pattern; as `readers`."""
        pattern = self._bigbird(x, mask, layer) if self.kind == "bigbird" else self._pattern()
        if mask is None:
            return pattern
        # A filler sees itself: no softmax is over nothing, whatever a kernel makes of that.
        return lambda b, i, j: pattern(b, i, j) & (mask[b, j] | (i == j))

    def _pattern(self) -> Pattern:
        if self.kind == "local":
            return lambda _, i, j: local_chunks(i, j, window=self.window)
        return lambda _, i, j: sliding_window(
            i, j, window=self.window, global_tokens=self.global_tokens
        )

    def _bigbird(self, x: Tensor, mask: Tensor | None, layer: int) -> Pattern:
        size, length = self.window, x.shape[1]
        lengths = torch.full((1,), length, device=x.device) if mask is None else mask.sum(1)
        chosen = random_blocks(
            -(-lengths // size), -(-length // size), count=self.random_blocks, seed=layer
        ).expand(x.shape[0], -1, -1)
        return lambda b, i, j: (
            block_window(i, j, window=size, global_tokens=self.global_tokens)
            | chosen[b, i // size, j // size]
        )


def _sparse_reader(sees: Pattern, x: Tensor, bias: Tensor | None) -> Reader:
    def dense() -> Tensor:
        mask = _with_bias(dense_mask(sees, x).unsqueeze(1), bias, x.shape[1])
        assert mask is not None
        return mask

    return BlockReader(block_mask(sees, x), bias, dense) if x.is_cuda else MaskedReader(dense())


def dense_mask(sees: Pattern, x: Tensor) -> Tensor:
    """Returns the mask of a pattern for a batch x (B, S, D), (B, S, S) bool."""
    num_sentences, length, _ = x.shape
    sentences = torch.arange(num_sentences, device=x.device).view(-1, 1, 1)
    positions = torch.arange(length, device=x.device)
    mask = sees(sentences, positions.unsqueeze(1), positions)
    return mask.expand(num_sentences, length, length)


def block_mask(sees: Pattern, x: Tensor) -> Any:
    """Returns the `BlockMask` of a pattern for a batch x (B, S, D)."""
    from torch.nn.attention.flex_attention import create_block_mask

    num_sentences, length, _ = x.shape
    return create_block_mask(
        lambda b, h, i, j: sees(b, i, j), num_sentences, None, length, length, device=x.device
    )


def _with_bias(seen: Tensor | None, bias: Tensor | None, length: int) -> Tensor | None:
    """Returns one mask (B, 1 or H, 1 or S, S): bool without a bias, else numbers to be added."""
    if bias is None:
        return seen
    return add_mask(spread(bias, length, length), seen)
