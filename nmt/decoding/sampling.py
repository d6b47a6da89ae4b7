"""Sampling: tokens drawn at random, as the model's probabilities have it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt import PAD
from nmt.checks import at_least, positive
from nmt.decoding.search import Constraints, Hypothesis, Search, roll_out
from nmt.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True, kw_only=True)
class Sampling(Search):
    """Draws hypotheses for each sentence, independent of each other, and ranks them.

    The random numbers of a sentence are made from `seed` and its tokens alone: they do not depend
    on its batch or its place in a file, and the same sentence has the same translations. The score
    is the mean log-probability per token under the model itself, whatever the temperature.

    Attributes:
        temperature: Logits are divided by it: below 1 more certain, above 1 more varied.
        top_k: Only so many most probable tokens are drawn from (Fan et al. 2018); null: all.
        top_p: Of these only the fewest whose probabilities add up to it (Holtzman et al. 2020).
        seed: Another seed gives other translations.
        num_hypotheses: How many to draw, best first; equal ones are kept.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 1
    num_hypotheses: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("temperature", self.temperature)
        if self.top_k is not None:
            at_least("top_k", self.top_k)
        positive("top_p", self.top_p, most=1)
        at_least("seed", self.seed, 0)
        at_least("num_hypotheses", self.num_hypotheses)

    def _find(
        self, model: EncoderDecoder, state: Any, source: Tensor, constraints: Constraints
    ) -> list[list[Hypothesis]]:
        uniform = self._uniform(source, constraints.limits)
        rows = torch.arange(len(source), device=source.device)
        state = state.select(rows.repeat_interleave(self.num_hypotheses))

        def choose(log_probs: Tensor, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
            return self._draw(log_probs, uniform[rows, length])

        drawn = roll_out(model, state, constraints, choose, num_rows=self.num_hypotheses)
        return [sorted(own, key=lambda one: (not one.finished, -one.score)) for own in drawn]

    def _uniform(self, source: Tensor, limits: Tensor) -> Tensor:
        """Returns a number in [0, 1) for each row and token, (B * num_hypotheses, length)."""
        lengths = (limits + 1).tolist()
        table = torch.zeros(len(source), self.num_hypotheses, max(lengths), dtype=torch.float64)
        for row, (tokens, length) in enumerate(zip(source.tolist(), lengths, strict=True)):
            content = repr((self.seed, [token for token in tokens if token != PAD]))
            digest = hashlib.blake2b(content.encode(), digest_size=8).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest))
            size = (self.num_hypotheses, length)
            table[row, :, :length] = torch.rand(size, generator=generator, dtype=torch.float64)
        return table.flatten(0, 1).to(source.device)

    def _draw(self, log_probs: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Draws a token for each row, by inverting the cumulative distribution.

        Args:
            log_probs: (N, V).
            uniform: (N,), in [0, 1).

        Returns:
            The log-probabilities of the tokens and the tokens, (N,) both.
        """
        ids = None
        kept = log_probs
        if self.top_k is not None:
            kept, ids = log_probs.topk(min(self.top_k, log_probs.shape[-1]), -1)
        elif self.top_p < 1:
            kept, ids = log_probs.sort(-1, descending=True)
        kept = kept.double()
        kept = kept - kept.amax(-1, keepdim=True)  # 0 stays 0 at any temperature
        probs = (kept / self.temperature).softmax(-1)
        if self.top_p < 1:
            before = probs.cumsum(-1) - probs
            probs = probs.masked_fill(before >= self.top_p, 0.0)
        cumulative = probs.cumsum(-1)
        reached = cumulative <= uniform[:, None] * cumulative[:, -1:]
        places = reached.sum(-1, keepdim=True).clamp(max=probs.shape[-1] - 1)
        tokens = places if ids is None else ids.gather(1, places)
        drawn = log_probs.gather(1, tokens).masked_fill(cumulative[:, -1:].isnan(), math.nan)
        return drawn.squeeze(-1), tokens.squeeze(-1)
