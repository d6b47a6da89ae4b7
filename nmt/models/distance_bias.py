"""Positions as a bias: a number added to a score that depends on the distance alone.

ALiBi (Press et al. 2022) has a fixed slope for each head, T5 (Raffel et al. 2020) trains one number
for each bucket of distances.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nmt.models.attention import add_mask, causal_mask
from nmt.models.positions import BIASES

NUM_BUCKETS = 32
FARTHEST = 128  # distances from here on share the last bucket


def bias_of_encoder_and_decoder(
    positions: str, *, num_heads: int, factor: float
) -> tuple[DistanceBias | None, DistanceBias | None]:
    """Returns both biases of a Transformer; None where its positions are something else."""
    if positions not in BIASES:
        return None, None
    encoder, decoder = (
        DistanceBias(positions, num_heads=num_heads, bidirectional=both, factor=factor)
        for both in (True, False)
    )
    return encoder, decoder


class DistanceBias(nn.Module):
    """The bias of one stack of layers.

    Args:
        kind: "alibi" (fixed) or "relative" (trained). ALiBi was made for decoders; with one slope
            for both sides an encoder could not tell a sentence from its reverse, so that keys
            ahead get the slopes of the heads in reverse order.
        num_heads: H.
        bidirectional: whether keys after the query are seen.
        factor: what the trained table is multiplied by: see `position_factor` of the Transformer.
    """

    def __init__(
        self, kind: str, *, num_heads: int, bidirectional: bool, factor: float = 1.0
    ) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.num_heads = num_heads
        self.factor = factor
        self.table: nn.Parameter | None = None
        if kind == "relative":
            self.table = nn.Parameter(torch.empty(num_heads, NUM_BUCKETS))
            nn.init.normal_(self.table, std=0.1 / factor)

    def forward(self, first: int, last: int, device: torch.device) -> Tensor:
        """Returns the bias of the distances first .. last - 1, (H, last - first), in fp32."""
        distance = torch.arange(first, last, device=device)
        if self.table is None:
            behind = alibi_slopes(self.num_heads).to(device).unsqueeze(1)
            return torch.where(distance > 0, -behind.flip(0), behind) * distance
        buckets = distance_bucket(distance, bidirectional=self.bidirectional)
        return self.table[:, buckets].float() * self.factor

    def causal(self, num_new: int, num_past: int, device: torch.device) -> Tensor:
        """Returns what to add where `num_new` tokens read themselves and the past: (H, T, S)."""
        total = num_past + num_new
        bias = spread(self(1 - total, 1, device), num_new, total)
        return add_mask(bias, causal_mask(num_new, num_past, device))


def spread(by_distance: Tensor, num_queries: int, num_keys: int) -> Tensor:
    """Returns the bias of each pair, (H, T, S); the last query and the last key are level.

    Args:
        by_distance: (H, n), of the distances 1 - S and on; n = S where no key is after its query,
            T + S - 1 where all are seen.
        num_queries: T.
        num_keys: S.
    """
    queries = torch.arange(num_keys - num_queries, num_keys, device=by_distance.device)
    keys = torch.arange(num_keys, device=by_distance.device)
    index = keys - queries.unsqueeze(1) + num_keys - 1
    return by_distance[:, index.clamp(max=by_distance.shape[1] - 1)]


def alibi_slopes(num_heads: int) -> Tensor:
    """Returns 2^(-8 h / H) for h = 1..H: Press et al. 2022, section 3.

    The paper interpolates where H is no power of 2.
    """
    return torch.tensor([2 ** (-8 * (head + 1) / num_heads) for head in range(num_heads)])


def distance_bucket(distance: Tensor, *, bidirectional: bool) -> Tensor:
    """Returns the bucket of each distance j - i, key minus query: Raffel et al. 2020, section 2.1.

    Half of the buckets are for one distance each, the others grow logarithmically up to
    `FARTHEST`. A bidirectional reader has half of all buckets for keys behind the query.

    Args:
        distance: int64, any shape.
        bidirectional: False counts every key behind the query as distance 0.
    """
    buckets = NUM_BUCKETS // 2 if bidirectional else NUM_BUCKETS
    side = (distance > 0) * buckets if bidirectional else torch.zeros_like(distance)
    distance = distance.abs() if bidirectional else (-distance).clamp(min=0)
    exact = buckets // 2
    far = (distance.clamp(min=exact).double() / exact).log() / math.log(FARTHEST / exact)
    # The small number: a limit that is a whole distance belongs to the next bucket.
    logarithmic = (exact + (far * (buckets - exact) + 1e-9).long()).clamp(max=buckets - 1)
    return side + torch.where(distance < exact, distance, logarithmic)
