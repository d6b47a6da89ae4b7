"""The layers of the Transformer: each adds to the residual stream what it read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.attention import (
    CrossAttention,
    SelfAttention,
    add_mask,
    causal_mask,
    dot_product_weights,
)
from nmt.models.cache import KeyValueCache, extend
from nmt.models.encoder_readers import Reader
from nmt.models.options import check_divides, check_dropout, check_size
from nmt.models.positions import Rotation

RMS_NORM_EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """Sizes and rates of a layer, as in `Transformer`.

    Raises:
        ValueError: An option is out of its range.
    """

    width: int
    num_heads: int
    num_kv_heads: int
    feed_forward: int
    dropout: float
    attention_dropout: float

    def __post_init__(self) -> None:
        check_size("width", self.width)
        check_size("num_heads", self.num_heads)
        check_size("num_kv_heads", self.num_kv_heads)
        check_size("feed_forward", self.feed_forward)
        check_divides("num_heads", self.num_heads, "width", self.width)
        check_divides("num_kv_heads", self.num_kv_heads, "num_heads", self.num_heads)
        check_dropout("dropout", self.dropout)
        check_dropout("attention_dropout", self.attention_dropout)


class RMSNorm(nn.Module):
    """x / rms(x) * gamma (Zhang and Sennrich 2019)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalises the last axis."""
        return F.rms_norm(x, self.gamma.shape, self.gamma, eps=RMS_NORM_EPSILON)


def initialise(layers: nn.ModuleList) -> None:
    """Draws the matrices of a stack of layers from N(0, 1 / fan-in), which keeps variances.

    Those that write to the residual stream get 1 / (fan-in x number of layers), so that its
    variance does not grow with depth (Radford et al. 2019, section 2.3).
    """
    for name, module in layers.named_modules():
        if isinstance(module, nn.Linear):
            writes = name.endswith(("output", "down"))
            fan_in = module.in_features * (len(layers) if writes else 1)
            nn.init.normal_(module.weight, std=fan_in**-0.5)


class FeedForward(nn.Module):
    """SwiGLU, down(silu(gate x) * up x) (Shazeer 2020); one matrix holds the rows [gate; up]."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns (..., D) of x (..., D)."""
        gate, up = self.gate_up(x).chunk(2, -1)
        output: Tensor = self.down(F.silu(gate) * up)
        return output


class EncoderLayer(nn.Module):
    """x + SelfAttention(norm x), then x + FeedForward(norm x); pre-norm (Xiong et al. 2020).

    Shapes: x (B, S, D). What self-attention reads, and how, is up to the reader.
    """

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        self.self_attention_norm = RMSNorm(options.width)
        self.self_attention = SelfAttention(
            options.width,
            num_heads=options.num_heads,
            num_kv_heads=options.num_kv_heads,
            dropout=options.attention_dropout,
        )
        self.feed_forward_norm = RMSNorm(options.width)
        self.feed_forward = FeedForward(options.width, options.feed_forward)
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, x: Tensor, rotation: Rotation | None, reader: Reader) -> Tensor:
        """Returns the next residual stream (B, S, D)."""
        query, keys, values = self.self_attention.project(self.self_attention_norm(x), rotation)
        heads = reader.read(query, keys, values, dropout=self.self_attention.dropout_rate)
        x = x + self.dropout(self.self_attention.merge(heads))
        output: Tensor = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return output

    def weights(self, x: Tensor, rotation: Rotation | None, reader: Reader) -> Tensor:
        """Returns the weights (B, H, S, S) that `forward` uses."""
        query, keys, _ = self.self_attention.project(self.self_attention_norm(x), rotation)
        return reader.weights(query, keys)


class DecoderLayer(nn.Module):
    """The encoder's layer with cross-attention to the source between its two halves.

    Shapes: x (N, T, D); memory, keys and values of the source, (N, K, S, d) each;
    memory_mask (N, 1, 1, S) bool or None; bias (H, T, past + T), added to the scores of
    self-attention, or None.
    """

    def __init__(self, options: LayerOptions) -> None:
        super().__init__()
        self.self_attention_norm = RMSNorm(options.width)
        self.self_attention = SelfAttention(
            options.width,
            num_heads=options.num_heads,
            num_kv_heads=options.num_kv_heads,
            dropout=options.attention_dropout,
        )
        self.cross_attention_norm = RMSNorm(options.width)
        self.cross_attention = CrossAttention(
            options.width,
            num_heads=options.num_heads,
            num_kv_heads=options.num_kv_heads,
            dropout=options.attention_dropout,
        )
        self.feed_forward_norm = RMSNorm(options.width)
        self.feed_forward = FeedForward(options.width, options.feed_forward)
        self.dropout = nn.Dropout(options.dropout)

    def forward(
        self,
        x: Tensor,
        rotation: Rotation | None,
        past: KeyValueCache | None,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor | None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, KeyValueCache]:
        """Returns the next residual stream (N, T, D) and the cache with the new positions."""
        x, cache = self._read_target(x, rotation, past, bias)
        query = self.cross_attention.project(self.cross_attention_norm(x))
        x = x + self.dropout(self.cross_attention(query, *memory, mask=memory_mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x))), cache

    def weights(
        self,
        x: Tensor,
        rotation: Rotation | None,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor | None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Returns the weights (N, H, T, T) and (N, H, T, S) that `forward` uses with no past."""
        query, keys, _ = self.self_attention.project(self.self_attention_norm(x), rotation)
        mask = causal_mask(x.shape[1], 0, x.device)
        own = dot_product_weights(query, keys, mask if bias is None else add_mask(bias, mask))
        x, _ = self._read_target(x, rotation, None, bias)
        query = self.cross_attention.project(self.cross_attention_norm(x))
        return own, dot_product_weights(query, memory[0], memory_mask)

    def _read_target(
        self,
        x: Tensor,
        rotation: Rotation | None,
        past: KeyValueCache | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, KeyValueCache]:
        query, keys, values = self.self_attention.project(self.self_attention_norm(x), rotation)
        cache = extend(past, keys, values)
        num_new = x.shape[1]
        # The kernel's own causal mask is right only without a past, and excludes any other.
        causal = past is None and bias is None and num_new > 1
        mask = None if causal else causal_mask(num_new, cache.length - num_new, x.device)
        if bias is not None:
            mask = add_mask(bias, mask)
        attended = self.self_attention(query, cache.keys, cache.values, mask=mask, causal=causal)
        return x + self.dropout(attended), cache
