"""The training objective: summed label-smoothed cross entropy; padding counts nowhere."""

import torch.nn.functional as F
from torch import Tensor

from nmt.special_tokens import PAD


def summed_cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Returns the sum over real target tokens of the (label-smoothed) negative log-likelihood.

    With smoothing e the target distribution is (1 - e) on the label plus e / V everywhere
    (Szegedy et al. 2016, section 7). A sum, not a mean: whoever knows how many tokens an
    update or a validation set has divides once, so that batching cannot change the result.

    Args:
        logits: (B, T, V), any float type; computed in fp32.
        target: (B, T) int64, filled up with PAD.
        smoothing: e, in [0, 1).

    Returns:
        A scalar, in nats.
    """
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        target.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
        reduction="sum",
    )
