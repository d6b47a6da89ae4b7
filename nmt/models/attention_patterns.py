"""Which positions a sparse encoder lets see each other: patterns as pure functions of positions.

A pattern takes positions i (the query) and j (the key), int64 of any broadcastable shapes, and
says where i sees j. Nothing depends on how far a batch is padded.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sliding_window(i: Tensor, j: Tensor, *, window: int, global_tokens: int) -> Tensor:
    """|i - j| <= window, or one of the two is global: Beltagy et al. 2020, section 3.1."""
    return ((i - j).abs() <= window) | _global(i, j, global_tokens)


def local_chunks(i: Tensor, j: Tensor, *, window: int) -> Tensor:
    """Chunks of `window` tokens; each sees itself and the one before (Kitaev et al. 2020)."""
    back = i // window - j // window
    return (back == 0) | (back == 1)


def block_window(i: Tensor, j: Tensor, *, window: int, global_tokens: int) -> Tensor:
    """Blocks of `window` tokens see themselves and their neighbours; global tokens see all.

    Zaheer et al. 2020, section 2, without the random blocks.
    """
    return ((i // window - j // window).abs() <= 1) | _global(i, j, global_tokens)


def random_blocks(num_blocks: Tensor, most: int, *, count: int, seed: int) -> Tensor:
    """Chooses `count` more blocks for each block to see, of those beyond its neighbours.

    The choice is that of the largest numbers which a hash gives to (seed, query block, key block):
    a function of the length of a sentence, whatever stands beside it in a batch.

    Args:
        num_blocks: (B,) int64, blocks of each sentence.
        most: n, at least the largest of them.
        count: blocks to choose; fewer where there are fewer.
        seed: other choices for another seed.

    Returns:
        (B, n, n) bool, true where a query block (row) sees a key block.
    """
    blocks = torch.arange(most, device=num_blocks.device)
    rows, columns = blocks.unsqueeze(1), blocks.unsqueeze(0)
    far = (rows - columns).abs() > 1
    there = far & (blocks < num_blocks.view(-1, 1, 1))  # (B, n, n)
    scores = torch.where(there, hash_of(seed, rows, columns), -1)
    best, index = scores.topk(min(count, most), dim=-1)
    return torch.zeros_like(there).scatter(-1, index, best >= 0)


def hash_of(seed: int, i: Tensor, j: Tensor) -> Tensor:
    """Mixes three numbers to one in 0 .. 2^31 - 1; the same on every machine."""
    mixed = (seed * 668_265_263 + i * 374_761_393 + j * 1_274_126_177) & 0x7FFFFFFF
    for shift in (15, 13):
        mixed = ((mixed ^ (mixed >> shift)) * 1_103_515_245) & 0x7FFFFFFF
    return mixed ^ (mixed >> 16)


def _global(i: Tensor, j: Tensor, global_tokens: int) -> Tensor:
    return (i < global_tokens) | (j < global_tokens)
