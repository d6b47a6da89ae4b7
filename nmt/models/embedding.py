"""The one joint embedding of source and target, which is the output projection as well."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class TiedEmbedding(nn.Module):
    """Maps tokens to vectors, and vectors back to logits with the same matrix E (V, D).

    Press and Wolf 2017; the factor sqrt(D) at the input is that of Vaswani et al. 2017, section
    3.4. With E ~ N(0, 1/D) the vectors have unit variance and so have the logits of a vector of
    unit variance. Nothing reads the row of PAD: fillers are masked wherever they could matter.
    """

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        self.scale: float = width**0.5
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the vectors (..., D) of `tokens` (...)."""
        return F.embedding(tokens, self.table.weight) * self.scale

    def logits(self, vectors: Tensor) -> Tensor:
        """Returns the logits (..., V) of `vectors` (..., D)."""
        return F.linear(vectors, self.table.weight)
