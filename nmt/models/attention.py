"""Attention: the math as pure functions, and the modules that own the projections.

Every mask is true where something may be looked at, or holds numbers to add to the scores.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.positions import Rotation, rotate


def causal_mask(num_new: int, num_past: int, device: torch.device) -> Tensor | None:
    """Returns which positions each of `num_new` tokens after `num_past` may see.

    Returns:
        (num_new, num_past + num_new) bool, true at the past and at the token itself; None for
        one token, which may see everything.
    """
    if num_new == 1:
        return None
    everything = torch.ones(num_new, num_past + num_new, dtype=torch.bool, device=device)
    return everything.tril(num_past)


def add_mask(bias: Tensor, mask: Tensor | None) -> Tensor:
    """Returns numbers to add to the scores: `bias` where `mask` (broadcast) is true.

    Elsewhere it is the lowest finite number: a row without any real entry must not become NaN.
    """
    return bias if mask is None else torch.where(mask, bias, torch.finfo(bias.dtype).min)


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Normalises `scores` over the last axis where `mask` (broadcast) is true.

    Masked entries get exactly 0 beside a real one. The mask is bool, or numbers to add (see
    `add_mask`), or None.
    """
    if mask is not None and mask.is_floating_point():
        return (scores + mask).softmax(-1)
    return add_mask(scores, mask).softmax(-1)


def additive_attention(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Returns softmax_j v^T tanh(query + keys_j): Bahdanau et al. 2015, appendix A.1.2.

    Args:
        query: (N, A), the decoder state times W_a.
        keys: (N, S, A), the memory times U_a.
        v: (A,).
        mask: (N, S) bool or None.

    Returns:
        The weights (N, S).
    """
    return masked_softmax(torch.tanh(query.unsqueeze(1) + keys) @ v, mask)


def dot_product_weights(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """Returns softmax(Q K^T / sqrt(d)): Vaswani et al. 2017, section 3.2.1; written out, not fused.

    Args:
        query: (B, H, T, d).
        keys: (B, K, S, d); K divides H, and H / K neighbouring heads share a key head.
        mask: bool or numbers to add to the scores, broadcast to (B, H, T, S), or None.

    Returns:
        The weights (B, H, T, S).
    """
    keys = keys.repeat_interleave(query.shape[1] // keys.shape[1], dim=1)
    return masked_softmax(query @ keys.transpose(-1, -2) * query.shape[-1] ** -0.5, mask)


class Attend(Protocol):
    """Some way to read values (B, K, S, e) by queries (B, H, T, d) and keys (B, K, S, d)."""

    def __call__(
        self, query: Tensor, keys: Tensor, values: Tensor, *, dropout: float = 0.0
    ) -> Tensor:
        """Returns what each query reads, (B, H, T, e)."""


def dot_product_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Returns softmax(Q K^T / sqrt(d)) V with grouped heads, fused.

    Vaswani et al. 2017, section 3.2; Ainslie et al. 2023 for the groups.

    Args:
        query: (B, H, T, d); or (B c, H, T, d), c neighbouring rows for each row of the keys.
        keys: (B, K, S, d); K divides H.
        values: (B, K, S, e).
        mask: bool or numbers to add to the scores, broadcast to (B, H, T, S), or None.
        causal: token t sees positions 0..t; only without `mask` and when T = S.
        dropout: rate on the weights. Applied even in evaluation: the caller passes 0 there.

    Returns:
        (B c, H, T, e).
    """
    if mask is not None and mask.is_floating_point():
        # Its lowest finite number would be -inf in a type of half precision.
        lowest = max(torch.finfo(query.dtype).min, torch.finfo(mask.dtype).min)
        mask = mask.clamp(min=lowest).to(query.dtype)
    groups = query.shape[1] // keys.shape[1]
    one_token = query.shape[2] == 1 and (mask is None or mask.shape[-3] == 1)
    if len(query) != len(keys) or (groups > 1 and one_token):
        return shared_attention(query, keys, values, mask=mask, dropout=dropout)
    if groups > 1 and keys.is_cuda and (mask is not None or query.dtype == torch.float32):
        # On CUDA the one fused kernel for unequal head counts takes neither a mask nor fp32.
        keys = keys.repeat_interleave(groups, dim=1)
        values = values.repeat_interleave(groups, dim=1)
    kind = query.dtype
    half_on_cpu = query.device.type == "cpu" and kind in (torch.bfloat16, torch.float16)
    if half_on_cpu:  # where the backward pass of the fused kernel takes some 30 times as long
        query, keys, values = query.float(), keys.float(), values.float()
        mask = mask.float() if mask is not None and mask.is_floating_point() else mask
    with torch.autocast("cpu", enabled=False) if half_on_cpu else nullcontext():
        attended = F.scaled_dot_product_attention(
            query,
            keys,
            values,
            attn_mask=mask,
            dropout_p=dropout,
            is_causal=causal,
            enable_gqa=bool(query.shape[1] != keys.shape[1]),  # torch.compile wants a plain bool
        )
    return attended.to(kind)


def shared_attention(
    query: Tensor, keys: Tensor, values: Tensor, *, mask: Tensor | None, dropout: float
) -> Tensor:
    """Returns what `dot_product_attention` does where all queries of a sentence see the same keys.

    The queries that share a head of keys, those of its group and of the hypotheses of a sentence,
    become the rows of one product: no key is copied or read twice.
    """
    num_rows, num_heads, num_new, head_width = query.shape
    num_sentences, num_kv_heads = keys.shape[:2]
    copies, groups = num_rows // num_sentences, num_heads // num_kv_heads
    folded = query.reshape(num_sentences, copies, num_kv_heads, groups * num_new, head_width)
    folded = folded.transpose(1, 2).flatten(2, 3)  # (B, K, c G T, d)
    heads = F.scaled_dot_product_attention(
        folded, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=False
    )
    heads = heads.view(num_sentences, num_kv_heads, copies, groups * num_new, -1)
    return heads.transpose(1, 2).reshape(num_rows, num_heads, num_new, -1)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Returns x (B, T, heads * d) as (B, heads, T, d)."""
    return x.view(*x.shape[:-1], num_heads, x.shape[-1] // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Returns x (B, heads, T, d) as (B, T, heads * d)."""
    return x.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """What self-attention and cross-attention share, once each has projected its inputs."""

    output: nn.Linear
    dropout: float

    def forward(
        self, query: Tensor, keys: Tensor, values: Tensor, attend: Attend = dot_product_attention
    ) -> Tensor:
        """Returns what the heads read, (N, T, D)."""
        heads = attend(query, keys, values, dropout=self.dropout if self.training else 0.0)
        output: Tensor = self.output(merge_heads(heads))
        return output


class SelfAttention(MultiHeadAttention):
    """Grouped-query self-attention; one matrix holds the rows [query; key; value]."""

    def __init__(self, width: int, *, num_heads: int, num_kv_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.dropout = dropout
        rows = (num_heads + 2 * num_kv_heads) * (width // num_heads)
        self.query_key_value = nn.Linear(width, rows, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def project(self, x: Tensor, rotation: Rotation | None) -> tuple[Tensor, Tensor, Tensor]:
        """Returns query (B, H, T, d), keys and values (B, K, T, d) of x (B, T, D), rotated."""
        rotated = self.num_heads + self.num_kv_heads
        heads = split_heads(self.query_key_value(x), rotated + self.num_kv_heads)
        query_key, values = torch.split(heads, [rotated, self.num_kv_heads], dim=1)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query, keys = torch.split(query_key, [self.num_heads, self.num_kv_heads], dim=1)
        return query, keys, values


class CrossAttention(MultiHeadAttention):
    """Grouped-query attention over the source; one matrix holds the rows [key; value]."""

    def __init__(self, width: int, *, num_heads: int, num_kv_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.dropout = dropout
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * num_kv_heads * (width // num_heads), bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def project(self, x: Tensor) -> Tensor:
        """Returns the query (B, H, T, d) of x (B, T, D)."""
        return split_heads(self.query(x), self.num_heads)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys and values (B, K, S, d) of the memory (B, S, D)."""
        heads = split_heads(self.key_value(memory), 2 * self.num_kv_heads)
        keys, values = torch.split(heads, [self.num_kv_heads] * 2, dim=1)
        return keys, values


class AdditiveAttention(nn.Module):
    """The alignment model of Bahdanau et al. 2015: W_a, U_a and v_a."""

    def __init__(self, *, query_width: int, memory_width: int, attention_dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, attention_dim, bias=False)
        self.key = nn.Linear(memory_width, attention_dim, bias=False)
        self.v = nn.Parameter(torch.empty(attention_dim))
        nn.init.uniform_(self.v, -(attention_dim**-0.5), attention_dim**-0.5)
