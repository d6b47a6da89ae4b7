"""The Transformer: pre-norm with RMSNorm, SwiGLU, rotary positions and grouped-query attention.

`nmt.models.attention` has the attention, `nmt.models.positions` the positions. Two options have a
file of their own and can be skipped: `encoder_attention` (an encoder that reads less than
everything) and `distance_bias` (positions as a bias).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.checks import at_least, divides, positive, share
from nmt.models.attention import (
    Attend,
    CrossAttention,
    SelfAttention,
    causal_mask,
    dot_product_attention,
)
from nmt.models.distance_bias import bias_of_encoder_and_decoder
from nmt.models.encoder_attention import EncoderAttention
from nmt.models.encoder_decoder import Attention, Dropout, EncoderDecoder, State, TiedEmbedding
from nmt.models.memory import pool_into_slots, without_empty_rows
from nmt.models.positions import Positions, Rotation

CACHE_BLOCK = 32  # positions of room that a cache gets when it grows
RMS_NORM_EPSILON = 1e-6


class Transformer(EncoderDecoder):
    """Vaswani et al. 2017, with the layers of today.

    Args:
        vocab_size: V, of the joint vocabulary.
        width: D.
        num_heads: H; D / H is the width of a head.
        num_kv_heads: K, of all attention; divides H. Ainslie et al. 2023 group the heads of the
            decoder only, whose cache shrinks; here those of the encoder are grouped as well.
        feed_forward: hidden width of the SwiGLU.
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        dropout: on the embeddings and on the output of every sublayer.
        attention_dropout: on the attention weights.
        positions: "rope" (rotates in self-attention), "sinusoidal" or "learned" (added to the
            embeddings), "alibi" or "relative" (added to the scores of self-attention), "none".
        max_positions: of "learned"; the others have no limit.
        memory_slots: how many segments the memory is pooled into before attention; null: all of it.
        position_factor: what the tables of "learned" and "relative" are multiplied by. Adam moves
            every number by about the learning rate, so that a table used as it is (1) learns
            slowly; and weight decay, which spares other tables, shrinks it.
        encoder_attention: and the rest: see `EncoderAttention`.

    Files from before an option existed lack it: the defaults are what they were trained with.

    Raises:
        UserError: An option is out of its range.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        width: int,
        num_heads: int,
        num_kv_heads: int,
        feed_forward: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        attention_dropout: float,
        positions: str,
        max_positions: int,
        memory_slots: int | None,
        position_factor: float = 1.0,
        encoder_attention: str = "full",
        attention_window: int = 16,
        global_tokens: int = 1,
        random_blocks: int = 1,
        random_features: int = 64,
    ) -> None:
        super().__init__()
        at_least("vocab_size", vocab_size)
        at_least("width", width)
        at_least("num_heads", num_heads)
        at_least("num_kv_heads", num_kv_heads)
        at_least("feed_forward", feed_forward)
        at_least("encoder_layers", encoder_layers)
        at_least("decoder_layers", decoder_layers)
        at_least("max_positions", max_positions)
        if memory_slots is not None:
            at_least("memory_slots", memory_slots)
        divides("num_heads", num_heads, "width", width)
        divides("num_kv_heads", num_kv_heads, "num_heads", num_heads)
        share("dropout", dropout)
        share("attention_dropout", attention_dropout)
        positive("position_factor", position_factor)
        self.memory_slots = memory_slots
        self.position_factor = position_factor
        self.embedding = TiedEmbedding(vocab_size, width)
        self.positions = Positions(
            positions,
            width=width,
            head_width=width // num_heads,
            max_positions=max_positions,
            factor=position_factor,
        )
        self.encoder_bias, self.decoder_bias = bias_of_encoder_and_decoder(
            positions, num_heads=num_heads, factor=position_factor
        )
        self.encoder_attention = EncoderAttention(
            encoder_attention,
            num_layers=encoder_layers,
            head_width=width // num_heads,
            window=attention_window,
            global_tokens=global_tokens,
            random_blocks=random_blocks,
            random_features=random_features,
            positions=positions,
            dropout=attention_dropout,
        )
        self.dropout = Dropout(dropout)
        sizes = LayerSizes(width, num_heads, num_kv_heads, feed_forward, dropout, attention_dropout)
        encoder = nn.ModuleList(EncoderLayer(sizes) for _ in range(encoder_layers))
        decoder = nn.ModuleList(DecoderLayer(sizes) for _ in range(decoder_layers))
        _initialise(encoder)
        _initialise(decoder)
        self.encoder_layers = cast("Sequence[EncoderLayer]", encoder)
        self.encoder_norm = RMSNorm(width)
        self.decoder_layers = cast("Sequence[DecoderLayer]", decoder)
        self.decoder_norm = RMSNorm(width)

    def start(self, source: Tensor, source_mask: Tensor | None) -> TransformerState:
        """Reads the source once (see `EncoderDecoder`)."""
        mask = without_empty_rows(source_mask)
        x, rotation = self._embed(source, 0)
        attends = self.encoder_attention.of_layers(x, mask, self.encoder_bias)
        for layer, attend in zip(self.encoder_layers, attends, strict=True):
            x = layer(x, rotation, attend)
        memory = self.encoder_norm(x)
        if mask is not None:  # 0 x NaN is NaN: a weight of 0 alone does not keep fillers out
            memory = memory.masked_fill(~mask.unsqueeze(-1), 0.0)
        if self.memory_slots is not None:
            memory, mask = pool_into_slots(memory, mask, num_slots=self.memory_slots)
        return TransformerState(
            past=(None,) * len(self.decoder_layers),
            memory=tuple(
                layer.cross_attention.project_memory(memory) for layer in self.decoder_layers
            ),
            memory_mask=None if mask is None else mask[:, None, None],
        )

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Reads one or more target tokens (see `EncoderDecoder`)."""
        x, rotation = self._embed(tokens, state.num_past)
        to_target = self._causal_attention(tokens, state.num_past)
        to_source = partial(dot_product_attention, mask=state.memory_mask)
        past = []
        for layer, cache, memory in zip(self.decoder_layers, state.past, state.memory, strict=True):
            x, cache = layer(x, rotation, cache, memory, to_target=to_target, to_source=to_source)
            past.append(cache)
        logits = self.embedding.logits(self.decoder_norm(x))
        return logits, replace(state, past=tuple(past))

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> Attention:
        """Returns the weights of all layers and heads (see `EncoderDecoder`).

        A weight is what a head reads of a position whose value is a unit vector. With
        `memory_slots`, S is the number of slots in `cross`.
        """
        modules: dict[str, list[nn.Module]] = {
            "encoder_self": [layer.self_attention for layer in self.encoder_layers],
            "decoder_self": [layer.self_attention for layer in self.decoder_layers],
            "cross": [layer.cross_attention for layer in self.decoder_layers],
        }
        weights: dict[nn.Module, Tensor] = {}

        def note(module: nn.Module, inputs: Any, _: Tensor) -> None:
            query, keys, values, attend = inputs
            units = torch.eye(keys.shape[2], dtype=values.dtype, device=values.device)
            weights[module] = attend(query, keys, units.expand(*keys.shape[:2], -1, -1))

        hooks = [module.register_forward_hook(note) for kind in modules.values() for module in kind]
        try:
            self.step(target_in, self.start(source, source_mask))
        finally:
            for hook in hooks:
                hook.remove()
        return Attention(
            **{
                kind: torch.stack([weights[module] for module in found], 1)
                for kind, found in modules.items()
            }
        )

    def without_decay(self) -> Iterator[nn.Parameter]:
        """Yields vectors, and tables of positions that have a factor."""
        yield from super().without_decay()
        if self.position_factor != 1:
            for tables in (self.positions, self.encoder_bias, self.decoder_bias):
                yield from () if tables is None else tables.parameters()

    def _embed(self, tokens: Tensor, num_past: int) -> tuple[Tensor, Rotation | None]:
        x, rotation = self.positions(self.embedding(tokens), num_past)
        return self.dropout(x), rotation

    def _causal_attention(self, tokens: Tensor, num_past: int) -> Attend:
        """Returns how new tokens (N, T) read themselves and the past."""
        num_new, device = tokens.shape[1], tokens.device
        if self.decoder_bias is not None:
            bias = self.decoder_bias.causal(num_new, num_past, device)
            return partial(dot_product_attention, mask=bias)
        if num_past == 0:  # the kernel's own causal mask is right only without a past
            return partial(dot_product_attention, causal=True)
        return partial(dot_product_attention, mask=causal_mask(num_new, num_past, device))


@dataclass(frozen=True)
class TransformerState(State):
    """Keys and values of every decoder layer.

    Attributes:
        past: of the target tokens read so far; None before the first.
        memory: of the source, (N / copies, K, S, d) each.
        memory_mask: (N / copies, 1, 1, S) bool, true where there is a token, or None.
        copies: neighbouring rows that translate one sentence and share its memory.
    """

    past: tuple[KeyValueCache | None, ...]
    memory: tuple[tuple[Tensor, Tensor], ...]
    memory_mask: Tensor | None
    copies: int = 1

    @property
    def num_past(self) -> int:
        """How many target tokens were read."""
        return self.past[0].length if self.past[0] is not None else 0

    def select(self, rows: Tensor) -> Self:
        """Repeats or drops sentences (see `State`); the memory of neighbours is kept once."""
        sentences = rows // self.copies
        kept, counts = torch.unique_consecutive(sentences, return_counts=True)
        copies = len(rows) // max(1, len(kept))
        if bool((counts != copies).any()):
            kept, copies = sentences, 1
        memory = tuple((k.index_select(0, kept), v.index_select(0, kept)) for k, v in self.memory)
        mask = None if self.memory_mask is None else self.memory_mask.index_select(0, kept)
        return replace(self.reorder(rows), memory=memory, memory_mask=mask, copies=copies)

    def reorder(self, rows: Tensor) -> Self:
        """Permutes rows of the same sentence (see `State`)."""
        past = tuple(None if cache is None else cache.index_select(rows) for cache in self.past)
        return replace(self, past=past)


@dataclass(frozen=True)
class LayerSizes:
    """Sizes and rates of a layer, as in `Transformer`."""

    width: int
    num_heads: int
    num_kv_heads: int
    feed_forward: int
    dropout: float
    attention_dropout: float


class EncoderLayer(nn.Module):
    """x + SelfAttention(norm x), then x + FeedForward(norm x); pre-norm (Xiong et al. 2020)."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        heads = {"num_heads": sizes.num_heads, "num_kv_heads": sizes.num_kv_heads}
        self.self_attention_norm = RMSNorm(sizes.width)
        self.self_attention = SelfAttention(sizes.width, **heads, dropout=sizes.attention_dropout)
        self.feed_forward_norm = RMSNorm(sizes.width)
        self.feed_forward = FeedForward(sizes.width, sizes.feed_forward)
        self.dropout = Dropout(sizes.dropout)

    def forward(self, x: Tensor, rotation: Rotation | None, attend: Attend) -> Tensor:
        """Returns the next residual stream (B, S, D) of x (B, S, D)."""
        query, keys, values = self.self_attention.project(self.self_attention_norm(x), rotation)
        x = x + self.dropout(self.self_attention(query, keys, values, attend))
        output: Tensor = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return output


class DecoderLayer(nn.Module):
    """The encoder's layer with cross-attention to the source between its two halves."""

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__()
        heads = {"num_heads": sizes.num_heads, "num_kv_heads": sizes.num_kv_heads}
        self.self_attention_norm = RMSNorm(sizes.width)
        self.self_attention = SelfAttention(sizes.width, **heads, dropout=sizes.attention_dropout)
        self.cross_attention_norm = RMSNorm(sizes.width)
        self.cross_attention = CrossAttention(sizes.width, **heads, dropout=sizes.attention_dropout)
        self.feed_forward_norm = RMSNorm(sizes.width)
        self.feed_forward = FeedForward(sizes.width, sizes.feed_forward)
        self.dropout = Dropout(sizes.dropout)

    def forward(
        self,
        x: Tensor,
        rotation: Rotation | None,
        past: KeyValueCache | None,
        memory: tuple[Tensor, Tensor],
        *,
        to_target: Attend,
        to_source: Attend,
    ) -> tuple[Tensor, KeyValueCache]:
        """Returns the next residual stream (N, T, D), and the cache with the new positions too."""
        query, keys, values = self.self_attention.project(self.self_attention_norm(x), rotation)
        # the first ones are kept as they are, without a copy
        past = past.append(keys, values) if past else KeyValueCache(keys, values, keys.shape[2])
        x = x + self.dropout(self.self_attention(query, past.keys, past.values, to_target))
        query = self.cross_attention.project(self.cross_attention_norm(x))
        x = x + self.dropout(self.cross_attention(query, *memory, to_source))
        output: Tensor = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return output, past


class RMSNorm(nn.Module):
    """x / rms(x) * gamma (Zhang and Sennrich 2019)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalises the last axis."""
        return F.rms_norm(x, self.gamma.shape, self.gamma, eps=RMS_NORM_EPSILON)


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


def _initialise(layers: nn.ModuleList) -> None:
    """Draws the matrices of a stack of layers from N(0, 1 / fan-in), which keeps variances.

    Those that write to the residual stream get 1 / (fan-in x number of layers), so that its
    variance does not grow with depth (Radford et al. 2019, section 2.3).
    """
    for name, module in layers.named_modules():
        if isinstance(module, nn.Linear):
            writes = name.endswith(("output", "down"))
            fan_in = module.in_features * (len(layers) if writes else 1)
            nn.init.normal_(module.weight, std=fan_in**-0.5)


@dataclass(frozen=True)
class KeyValueCache:
    """Keys and values of the target positions read so far, in buffers that grow by blocks.

    Attributes:
        keys_buffer: (N, K, capacity, d), filled up to `length`.
        values_buffer: the same.
        length: positions read.
    """

    keys_buffer: Tensor
    values_buffer: Tensor
    length: int

    @property
    def keys(self) -> Tensor:
        """The keys read so far, (N, K, length, d)."""
        return self.keys_buffer[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """The values read so far, (N, K, length, d)."""
        return self.values_buffer[:, :, : self.length]

    def append(self, keys: Tensor, values: Tensor) -> KeyValueCache:
        """Adds new positions (N, K, T, d); writes in place where there is room."""
        length = self.length + keys.shape[2]
        keys_buffer, values_buffer = self.keys_buffer, self.values_buffer
        if length > keys_buffer.shape[2]:
            missing = length + CACHE_BLOCK - self.length
            keys_buffer = F.pad(self.keys, (0, 0, 0, missing))
            values_buffer = F.pad(self.values, (0, 0, 0, missing))
        keys_buffer[:, :, self.length : length] = keys
        values_buffer[:, :, self.length : length] = values
        return KeyValueCache(keys_buffer, values_buffer, length)

    def index_select(self, rows: Tensor) -> KeyValueCache:
        """Row i of the result is row `rows[i]` of this cache."""
        return KeyValueCache(
            self.keys_buffer.index_select(0, rows),
            self.values_buffer.index_select(0, rows),
            self.length,
        )
