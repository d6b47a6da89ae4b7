"""Attention of linear cost: softmax replaced by a product of feature maps.

Read right to left, phi(Q) (phi(K)^T V) needs no matrix of T x S.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_FLOOR = 1e-8  # so that no query finds all keys at 0


def linear_attention(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Returns phi(Q) (phi(K)^T V) / (phi(Q) sum_j phi(k_j)): Katharopoulos et al. 2020, equation 5.

    Args:
        query: (B, H, T, F), features of the queries.
        keys: (B, K, S, F), features of the keys, 0 at fillers; K divides H.
        values: (B, K, S, d).

    Returns:
        (B, H, T, d), in fp32.
    """
    groups = query.shape[1] // keys.shape[1]
    summary = (keys.mT @ values.float()).repeat_interleave(groups, dim=1)  # (B, H, F, d)
    total = keys.sum(2).repeat_interleave(groups, dim=1).unsqueeze(-1)  # (B, H, F, 1)
    return (query @ summary) / (query @ total)


def linear_weights(query: Tensor, keys: Tensor) -> Tensor:
    """Returns the weights (B, H, T, S) that `linear_attention` never writes down."""
    scores = query @ keys.repeat_interleave(query.shape[1] // keys.shape[1], dim=1).mT
    return scores / scores.sum(-1, keepdim=True)


def elu_features(x: Tensor) -> Tensor:
    """Returns elu(x) + 1: Katharopoulos et al. 2020, equation 7.

    It is positive, but in fp32 it is 0 below -17: so 1e-8 is added.
    """
    return F.elu(x) + 1 + _FLOOR


def positive_random_features(
    x: Tensor, projection: Tensor, *, axes: tuple[int, ...], mask: Tensor | None = None
) -> Tensor:
    """Returns exp(w_r . x - |x|^2 / 2) for every r: Choromanski et al. 2021, lemma 1.

    The mean over r of a query's times a key's features tends to exp(q . k). The largest number
    along `axes` becomes 1: a factor that cancels in `linear_attention` if it is one for all
    features of a query, and one for all features of all keys.

    Args:
        x: (B, H, T, d), queries or keys divided by d^(1/4).
        projection: (F, d), the w_r.
        axes: (-1,) for queries, (-2, -1) for keys.
        mask: (B, 1, T, 1) bool, true at real keys.

    Returns:
        (B, H, T, F).
    """
    logs = x @ projection.T - x.square().sum(-1, keepdim=True) / 2
    if mask is not None:
        logs = logs.masked_fill(~mask, torch.finfo(logs.dtype).min)
    return (logs - logs.amax(axes, keepdim=True).detach()).exp() + _FLOOR


def orthogonal_gaussian(num_features: int, width: int, *, seed: int) -> Tensor:
    """Draws w_r ~ N(0, 1) that are orthogonal in groups of d: Choromanski et al. 2021, section 2.4.

    Args:
        num_features: F.
        width: d.
        seed: of a generator of its own.

    Returns:
        (F, d), in fp32.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(rows: int) -> Tensor:
        return torch.randn(rows, width, generator=generator, device="cpu", dtype=torch.float64)

    directions = []
    for _ in range(-(-num_features // width)):
        turned, upper = torch.linalg.qr(draw(width))
        directions.append(turned * upper.diagonal().sign())  # of the two signs always the same
    lengths = draw(num_features).norm(dim=1, keepdim=True)
    rows: Tensor = torch.cat(directions)[:num_features] * lengths
    return rows.float()
