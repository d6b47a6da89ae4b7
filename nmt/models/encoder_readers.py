"""How one layer of an encoder reads one batch: by a dense mask, by blocks, or at linear cost."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.models.attention import dot_product_attention, dot_product_weights
from nmt.models.linear_attention import (
    elu_features,
    linear_attention,
    linear_weights,
    positive_random_features,
)


class Reader(ABC):
    """How one layer reads one batch; query (B, H, S, d), keys and values (B, K, S, d)."""

    @abstractmethod
    def read(self, query: Tensor, keys: Tensor, values: Tensor, *, dropout: float) -> Tensor:
        """Returns what each position reads, (B, H, S, d)."""

    @abstractmethod
    def weights(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns the weights (B, H, S, S) that `read` uses."""


@dataclass(frozen=True)
class MaskedReader(Reader):
    """Softmax over what a dense mask lets through.

    Attributes:
        mask: bool, or numbers added to the scores; broadcast to (B, H, S, S); or None.
    """

    mask: Tensor | None

    def read(self, query: Tensor, keys: Tensor, values: Tensor, *, dropout: float) -> Tensor:
        """See `Reader`."""
        return dot_product_attention(query, keys, values, mask=self.mask, dropout=dropout)

    def weights(self, query: Tensor, keys: Tensor) -> Tensor:
        """See `Reader`."""
        return dot_product_weights(query, keys, self.mask)


@dataclass(frozen=True)
class BlockReader(Reader):
    """The same, skipping the blocks of the score matrix that a pattern leaves empty.

    Attributes:
        blocks: the `BlockMask` of flex attention.
        bias: (H, 2S - 1), by distance, or None.
        dense: makes the mask, for the weights and for dropout, which flex attention lacks.
    """

    blocks: Any
    bias: Tensor | None
    dense: Callable[[], Tensor]

    def read(self, query: Tensor, keys: Tensor, values: Tensor, *, dropout: float) -> Tensor:
        """See `Reader`."""
        if dropout > 0:
            return MaskedReader(self.dense()).read(query, keys, values, dropout=dropout)
        heads: Tensor = _flex_attention(query.is_cuda)(
            query,
            keys,
            values,
            score_mod=None if self.bias is None else _adding(self.bias),
            block_mask=self.blocks,
            enable_gqa=query.shape[1] != keys.shape[1],
        )
        return heads

    def weights(self, query: Tensor, keys: Tensor) -> Tensor:
        """See `Reader`."""
        return dot_product_weights(query, keys, self.dense())


@dataclass(frozen=True)
class LinearReader(Reader):
    """Attention of linear cost, in fp32.

    Attributes:
        mask: (B, 1, S, 1) bool, or None.
        projection: (F, d), of the positive random features; None: elu(x) + 1.
    """

    mask: Tensor | None
    projection: Tensor | None

    def read(self, query: Tensor, keys: Tensor, values: Tensor, *, dropout: float) -> Tensor:
        """See `Reader`; `dropout` must be 0."""
        assert dropout == 0
        with torch.autocast(query.device.type, enabled=False):
            heads = linear_attention(*self._features(query, keys), values)
        return heads.to(values.dtype)

    def weights(self, query: Tensor, keys: Tensor) -> Tensor:
        """See `Reader`."""
        return linear_weights(*self._features(query, keys))

    def _features(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        query, keys = query.float(), keys.float()
        if self.projection is None:
            query, keys = elu_features(query), elu_features(keys)
        else:
            scale, projection = query.shape[-1] ** -0.25, self.projection.float()
            query = positive_random_features(query * scale, projection, axes=(-1,))
            keys = positive_random_features(keys * scale, projection, axes=(-2, -1), mask=self.mask)
        return query, keys if self.mask is None else keys * self.mask


@functools.cache
def _flex_attention(compiled: bool) -> Any:
    """Returns flex attention; only compiled it skips blocks. Imported late: it takes a second."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True) if compiled else flex_attention


def _adding(bias: Tensor) -> Any:
    level = bias.shape[1] // 2
    return lambda score, b, h, i, j: score + bias[h, j - i + level]
