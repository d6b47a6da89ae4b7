"""What a decoder may look at: which source positions are real, and pooling them into slots."""

from __future__ import annotations

import torch
from torch import Tensor


def without_empty_rows(source_mask: Tensor | None) -> Tensor | None:
    """Counts the first filler of a sentence without tokens as a token, in a copy.

    So no softmax is over nothing, on any backend, and no recurrence over zero steps.

    Args:
        source_mask: (B, S) bool, true where there is a token, or None.
    """
    if source_mask is None:
        return None
    first = torch.arange(source_mask.shape[1], device=source_mask.device) == 0
    return source_mask | first


def pool_into_slots(
    memory: Tensor, memory_mask: Tensor | None, *, num_slots: int
) -> tuple[Tensor, Tensor | None]:
    """Mean-pools the real positions of each sentence into contiguous segments of near-equal size.

    Token j of n belongs to slot floor(j m / n), with m = min(num_slots, n): a sentence with fewer
    tokens than slots fills only as many slots as it has tokens, and the others are masked.

    Args:
        memory: (B, S, M), finite at padded positions too.
        memory_mask: (B, S) bool, true where there is a token, or None.
        num_slots: the number of segments.

    Returns:
        The pooled memory (B, min(num_slots, S), M) and its mask, None where `memory_mask` is.
    """
    num_sentences, num_positions, _ = memory.shape
    num_slots = min(num_slots, num_positions)
    slots = torch.arange(num_slots, device=memory.device)
    positions = torch.arange(num_positions, device=memory.device)
    if memory_mask is None:
        lengths = torch.full((num_sentences, 1), num_positions, device=memory.device)
    else:
        lengths = memory_mask.sum(1, keepdim=True)  # (B, 1)
    num_used = lengths.clamp(max=num_slots)
    slot_of_position = positions * num_used // lengths.clamp(min=1)  # (B, S)
    member = (slot_of_position.unsqueeze(1) == slots.unsqueeze(1)) & (
        positions < lengths
    ).unsqueeze(1)  # (B, slots, S)
    weights = member.to(memory.dtype)
    pooled = weights @ memory / weights.sum(-1, keepdim=True).clamp(min=1)
    return pooled, None if memory_mask is None else slots < num_used
