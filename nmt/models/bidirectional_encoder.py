"""The encoder of the recurrent models."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BidirectionalEncoder(nn.Module):
    """Reads the source in both directions (Bahdanau et al. 2015, section 3.2).

    Instead of packing, the second network reads sentences reversed in front of their fillers: on
    CPU up to a third faster than packed sequences, and no lengths travel from GPU to CPU.
    """

    def __init__(self, width: int, *, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        widths = [width] + [2 * hidden] * (layers - 1)
        self.ahead = nn.ModuleList(nn.GRU(w, hidden, batch_first=True) for w in widths)
        self.back = nn.ModuleList(nn.GRU(w, hidden, batch_first=True) for w in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, embedded: Tensor, source_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encodes the source.

        Args:
            embedded: (B, S, D).
            source_mask: (B, S) bool without an empty row, or None.

        Returns:
            The annotations [forward; backward] (B, S, M), zero at fillers, and the final state of
            both directions (B, M): after the last real token, and after the first.
        """
        memory = embedded
        for number, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            inputs = memory if number == 0 else self.dropout(memory)
            forward, _ = ahead(inputs)
            backward, _ = back(reverse_sentences(inputs, source_mask))
            backward = reverse_sentences(backward, source_mask)
            memory = torch.cat([forward, backward], -1)  # (B, S, M)
        if source_mask is None:
            return memory, torch.cat([forward[:, -1], backward[:, 0]], -1)
        last = source_mask.sum(1).sub(1).view(-1, 1, 1).expand(-1, 1, forward.shape[-1])
        final = torch.cat([forward.gather(1, last).squeeze(1), backward[:, 0]], -1)
        return memory.masked_fill(~source_mask.unsqueeze(-1), 0.0), final


def reverse_sentences(x: Tensor, mask: Tensor | None) -> Tensor:
    """Reverses the real positions of each sentence in x (B, S, ...); fillers stay behind them."""
    if mask is None:
        return x.flip(1)
    positions = torch.arange(x.shape[1], device=x.device)
    mirrored = torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)
    return x.gather(1, mirrored.unsqueeze(-1).expand_as(x))
