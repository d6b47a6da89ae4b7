"""The Transformer: pre-norm with RMSNorm, SwiGLU, rotary positions and grouped-query attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

import torch
from torch import Tensor, nn

from nmt.models.cache import KeyValueCache
from nmt.models.distance_bias import DistanceBias, spread
from nmt.models.embedding import TiedEmbedding
from nmt.models.encoder_attention import LINEAR, EncoderAttention
from nmt.models.encoder_decoder import Attention, EncoderDecoder, State
from nmt.models.encoder_readers import Reader
from nmt.models.memory import pool_into_slots, without_empty_rows
from nmt.models.options import check_size
from nmt.models.positions import BIASES, Positions, Rotation
from nmt.models.transformer_layers import (
    DecoderLayer,
    EncoderLayer,
    LayerOptions,
    RMSNorm,
    initialise,
)


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


class Transformer(EncoderDecoder):
    """Vaswani et al. 2017, with the layers of today.

    Args:
        vocab_size: V, of the joint vocabulary.
        width: D.
        num_heads: H; D / H is the width of a head.
        num_kv_heads: K, of self- and cross-attention (Ainslie et al. 2023); divides H.
        feed_forward: hidden width of the SwiGLU.
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        dropout: on the embeddings and on the output of every sublayer.
        attention_dropout: on the attention weights.
        positions: "rope" (rotates in self-attention), "sinusoidal" or "learned" (added to the
            embeddings), "alibi" or "relative" (added to the scores of self-attention), "none".
        max_positions: of "learned"; the others have no limit.
        memory_slots: how many segments the memory is pooled into before attention; null: all of it.
        encoder_attention: and the rest: see `EncoderAttention`. Files from before these options
            existed lack them, hence the defaults.

    Raises:
        ValueError: An option is out of its range.
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
        encoder_attention: str = "full",
        attention_window: int = 16,
        global_tokens: int = 1,
        random_blocks: int = 1,
        random_features: int = 64,
    ) -> None:
        super().__init__()
        check_size("vocab_size", vocab_size)
        check_size("encoder_layers", encoder_layers)
        check_size("decoder_layers", decoder_layers)
        check_size("max_positions", max_positions)
        if memory_slots is not None:
            check_size("memory_slots", memory_slots)
        options = LayerOptions(
            width=width,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            feed_forward=feed_forward,
            dropout=dropout,
            attention_dropout=attention_dropout,
        )
        self.memory_slots = memory_slots
        self.embedding = TiedEmbedding(vocab_size, width)
        self.positions = Positions(
            positions, width=width, head_width=width // num_heads, max_positions=max_positions
        )
        self.encoder_bias: DistanceBias | None = None
        self.decoder_bias: DistanceBias | None = None
        if positions in BIASES:
            self.encoder_bias = DistanceBias(positions, num_heads=num_heads, bidirectional=True)
            self.decoder_bias = DistanceBias(positions, num_heads=num_heads, bidirectional=False)
        self.encoder_attention = EncoderAttention(
            encoder_attention,
            num_layers=encoder_layers,
            head_width=width // num_heads,
            window=attention_window,
            global_tokens=global_tokens,
            random_blocks=random_blocks,
            random_features=random_features,
        )
        if encoder_attention in LINEAR:
            _check_linear(encoder_attention, positions=positions, dropout=attention_dropout)
        self.dropout = nn.Dropout(dropout)
        encoder = nn.ModuleList(EncoderLayer(options) for _ in range(encoder_layers))
        decoder = nn.ModuleList(DecoderLayer(options) for _ in range(decoder_layers))
        initialise(encoder)
        initialise(decoder)
        self.encoder_layers = cast("Sequence[EncoderLayer]", encoder)
        self.encoder_norm = RMSNorm(width)
        self.decoder_layers = cast("Sequence[DecoderLayer]", decoder)
        self.decoder_norm = RMSNorm(width)

    def start(self, source: Tensor, source_mask: Tensor | None) -> TransformerState:
        """Reads the source once (see `EncoderDecoder`)."""
        mask = without_empty_rows(source_mask)
        x, rotation = self._embed(source, 0)
        for layer, reader in zip(self.encoder_layers, self._readers(x, mask), strict=True):
            x = layer(x, rotation, reader)
        return self._remember(self.encoder_norm(x), mask)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Reads one or more target tokens (see `EncoderDecoder`)."""
        x, rotation = self._embed(tokens, state.num_past)
        bias = self._target_bias(tokens, state.num_past)
        caches = []
        for layer, past, memory in zip(self.decoder_layers, state.past, state.memory, strict=True):
            x, cache = layer(x, rotation, past, memory, state.memory_mask, bias)
            caches.append(cache)
        logits = self.embedding.logits(self.decoder_norm(x))
        return logits, replace(state, past=tuple(caches))

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> Attention:
        """Returns the weights of all layers and heads (see `EncoderDecoder`).

        They are computed by a softmax written out; with `memory_slots`, S is the number of slots
        in `cross`.
        """
        mask = without_empty_rows(source_mask)
        encoder_self, decoder_self, cross = [], [], []
        x, rotation = self._embed(source, 0)
        for layer, reader in zip(self.encoder_layers, self._readers(x, mask), strict=True):
            encoder_self.append(layer.weights(x, rotation, reader))
            x = layer(x, rotation, reader)
        state = self._remember(self.encoder_norm(x), mask)
        x, rotation = self._embed(target_in, 0)
        bias = self._target_bias(target_in, 0)
        for decoder_layer, memory in zip(self.decoder_layers, state.memory, strict=True):
            own, of_source = decoder_layer.weights(x, rotation, memory, state.memory_mask, bias)
            decoder_self.append(own)
            cross.append(of_source)
            x, _ = decoder_layer(x, rotation, None, memory, state.memory_mask, bias)
        return Attention(
            cross=torch.stack(cross, 1),
            encoder_self=torch.stack(encoder_self, 1),
            decoder_self=torch.stack(decoder_self, 1),
        )

    def _embed(self, tokens: Tensor, num_past: int) -> tuple[Tensor, Rotation | None]:
        x, rotation = self.positions(self.embedding(tokens), num_past)
        return self.dropout(x), rotation

    def _readers(self, x: Tensor, mask: Tensor | None) -> Sequence[Reader]:
        length = x.shape[1]
        bias = None
        if self.encoder_bias is not None:
            bias = self.encoder_bias(1 - length, length, x.device)
        return self.encoder_attention.readers(x, mask, bias)

    def _target_bias(self, tokens: Tensor, num_past: int) -> Tensor | None:
        """Returns what is added to the scores of the decoder's self-attention, (H, T, past + T)."""
        if self.decoder_bias is None:
            return None
        num_new = tokens.shape[1]
        total = num_past + num_new
        return spread(self.decoder_bias(1 - total, 1, tokens.device), num_new, total)

    def _remember(self, memory: Tensor, mask: Tensor | None) -> TransformerState:
        """Projects the encoder's output (B, S, D) to the keys and values of all layers."""
        if mask is not None:  # 0 x NaN is NaN: a weight of 0 alone does not keep fillers out
            memory = memory.masked_fill(~mask.unsqueeze(-1), 0.0)
        if self.memory_slots is not None:
            memory, mask = pool_into_slots(memory, mask, num_slots=self.memory_slots)
        return TransformerState(
            past=(None,) * len(self.decoder_layers),
            memory=tuple(
                layer.cross_attention.project_memory(memory) for layer in self.decoder_layers
            ),
            memory_mask=_over_keys(mask),
        )


def _check_linear(kind: str, *, positions: str, dropout: float) -> None:
    """Refuses what needs the scores or the weights, which linear attention never writes down."""
    if positions in BIASES:
        raise ValueError(
            f"positions is {positions!r}; it must be rope, sinusoidal, learned or none with "
            f"encoder_attention={kind}"
        )
    if dropout > 0:
        raise ValueError(
            f"attention_dropout is {dropout!r}; it must be 0 with encoder_attention={kind}"
        )


def _over_keys(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask[:, None, None]
