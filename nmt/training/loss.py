"""The training objective: summed label-smoothed cross entropy, in which padding does not count."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nmt import PAD


def summed_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Returns the sum over real target tokens of the (label-smoothed) negative log-likelihood.

    With smoothing e the target distribution is (1 - e) on the label plus e / V everywhere
    (Szegedy et al. 2016, section 7). It is a sum, so that batching cannot change the result: who
    knows how many tokens an update or a validation set has divides once. The value is that of
    `F.cross_entropy(..., reduction="sum", ignore_index=PAD, label_smoothing=e)`; docs/benchmarks.md
    has the difference in speed.

    Args:
        logits: (B, T, V), any float type; computed in fp32.
        target: (B, T) int64, filled up with PAD.
        smoothing: e, in [0, 1).

    Returns:
        A scalar, in nats; one backward pass only.
    """
    flat = logits.flatten(0, 1).float()
    loss: Tensor = _SmoothedCrossEntropy.apply(flat, target.view(-1, 1), smoothing)  # type: ignore[no-untyped-call]
    return loss


class _SmoothedCrossEntropy(torch.autograd.Function):
    """-sum_v q_v log p_v over the rows that are not PAD; q as above.

    The gradient p - q is written over log p. PyTorch's makes three more tensors of the size of
    the logits, the largest of a training step.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        log_probs = logits.log_softmax(-1)  # (B T, V)
        ctx.log_probs, ctx.target, ctx.smoothing = log_probs, target, smoothing
        loss = (smoothing - 1) * log_probs.gather(1, target)
        if smoothing:
            loss -= smoothing / logits.shape[1] * log_probs.sum(1, keepdim=True)
        return loss.masked_fill(target == PAD, 0.0).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        probs, target, smoothing = ctx.log_probs.exp_(), ctx.target, ctx.smoothing
        ctx.log_probs = None  # overwritten
        scale = gradient * (target != PAD)  # (B T, 1)
        everywhere = -smoothing / probs.shape[1] * scale
        torch.addcmul(everywhere, probs, scale, out=probs)
        label = probs.gather(1, target) - (1 - smoothing) * scale
        return probs.scatter_(1, target, label), None, None
