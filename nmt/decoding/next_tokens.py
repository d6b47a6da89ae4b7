"""What may come next: the distributions of one step, and what a search is allowed to take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.special_tokens import PAD

_GROUP = 32  # neighbouring ids that `largest` sees as one at first


@dataclass(frozen=True)
class NextTokens:
    """The next token of N hypotheses.

    Attributes:
        logits: (N, V) float32.
        forbidden: (F,) int64, ids that may not be chosen. The distribution is not renormalised
            without them.
        forced: (N,) int64, the token that must be chosen, forbidden or not; PAD where the model
            may choose, and None where it may for all.
    """

    logits: Tensor
    forbidden: Tensor
    forced: Tensor | None = None

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """Returns the log-probabilities and ids of the most probable tokens, (N, count) both.

        Best first, -inf where there are no more to choose.
        """
        return largest(self.log_probs(), count)

    def log_probs(self) -> Tensor:
        """Returns log p of all tokens, -inf where one may not be chosen: (N, V) float32."""
        log_probs = self.logits.log_softmax(-1)
        if self.forced is None:
            return log_probs.index_fill_(-1, self.forbidden, -math.inf)
        forced = self.forced[:, None]
        of_forced = log_probs.gather(1, forced)
        log_probs = log_probs.index_fill_(-1, self.forbidden, -math.inf)
        only = torch.full_like(log_probs, -math.inf).scatter_(1, forced, of_forced)
        return torch.where(forced != PAD, only, log_probs)


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the largest entries of each row, falling, and their places: `x.topk(count)`, sooner.

    The `count` largest lie in the `count` groups of columns with the largest maxima, and maxima
    of groups cost a single pass; `topk` copies every entry with its place.

    Args:
        x: (N, V).
        count: At most V.
    """
    num_groups = x.shape[1] // _GROUP
    if num_groups <= 2 * count:
        return x.topk(count, -1)
    maxima = x[:, : num_groups * _GROUP].view(-1, num_groups, _GROUP).amax(-1)
    groups = maxima.topk(count, -1).indices
    places = (groups[..., None] * _GROUP + torch.arange(_GROUP, device=x.device)).flatten(1)
    rest = torch.arange(num_groups * _GROUP, x.shape[1], device=x.device)
    places = torch.cat([places, rest.expand(len(x), -1)], -1)
    values, winners = x.gather(1, places).topk(count, -1)
    return values, places.gather(1, winners)
